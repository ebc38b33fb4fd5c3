"""Independent canaries: exact tests of how many guesses are right, for any trade-off function.

**Product domination.** The experiment (the law of what is seen given the coins) is dominated by a
pair (P, Q) if what is seen is a randomised function of Y_1, .., Y_m, which are independent given
the coins, Y_i having law P where S_i = 1 and Q where S_i = 0.

**Theorem 1 (sorted walk).** Then, whatever the rule by which the canaries are ordered and guessed,
as long as it looks at what is seen alone, the numbers U_1, U_2, .., U_m of wrong guesses among the
first 1, 2, .., m are jointly at least those of the sorted walk: canaries in the order of falling
abs(L_i), L_i = log dP/dQ(Y_i), and errors independent of probability p_i = 1 / (1 + exp(abs(L_i))).

*Proof.* Given the Y_i the coins are independent with odds e^(L_i), and what is seen says nothing
more. So a guess at canary i errs with probability p_i or 1 - p_i, at least p_i, independently of
the others. Take two neighbours in the order whose probabilities are a > b, in this order, and swap
them. No U before them changes; those after them depend on the sum of both errors, whose law stays;
and between them the first errs, given that one of the two does, with odds a(1-b) : b(1-a) before
and b(1-a) : a(1-b) after the swap, which is less. Couple, and swap until the order is sorted. QED

So P(T <= t) is at most that of the sorted walk for every statistic T that rises with the U. A pair
that is less private (of which (P, Q) is a randomised function) dominates as well: in a nested
family p-values rise with the parameter, and the largest member that is refuted is a lower bound.

Nothing asks that scores are good, and ties may be broken at will. **Abstention is not free**: an
abstained canary counts as an error, or goes last with a forced guess, as it does here.

**A fixed number of guesses.** With e(g) = C(g) / g of :mod:`~dpassay.bounds.onerun.certainty`,

    P(U_r <= u) = integral of BinCDF(u; r, e(g)) over g ~ Beta(r+1, m-r),       BinCDF(u; m, e(1))

if r = m. *Proof.* Put canaries on [0, 1] by the share that is more certain: uniform, independent.
Given that the (r+1)-th is at g, the r before it are uniform on (0, g), each wrong with probability
C(g) / g. QED  e rises, so that the lower end of every cell of an integration bounds it from above.
(Xiang et al. 2025 ask the same of independent canaries, by expected order statistics and Chernoff's
bound.)

**Which trainings are dominated.** DP-SGD releases v_t = D_t + sum over i of S_i B_ti a_ti + N_t,
with N_t ~ N(0, sigma² clip² I), B_ti independent coins of probability q, and D_t (all other
records) and the canaries' clipped gradients a_ti functions of v_1..v_{t-1} and of randomness apart
from coins, B and noise.

**Theorem 2.** If the a_ti are orthogonal to each other at every step, all that is released - and so
every score: white box, last model, losses - is dominated by the accountant's own pair, P = ((1-q)
N(0, sigma²) + q N(1, sigma²))^T against Q = N(0, sigma²)^T. *Proof.* Let Y_i = (S_i B_ti + sigma
z_ti)_t with z standard normal. Given v_1..v_{t-1}, and so D_t and a_ti, draw v_t as D_t plus, for
each i, (n_ti Y_ti + sigma sqrt(clip² - n_ti²) w_ti) in the direction of a_ti (n_ti its norm, w
standard normal), and noise of deviation sigma clip in all other directions. A spherical Gaussian
has independent components in any basis that was chosen before it is drawn, so v_t has the right law
given the past and the coins; induction over t. QED  Model, data, momentum and adaptivity do not
matter.

**Theorem 3.** If the Gram matrix of the a_ti / clip has no eigenvalue above kappa at any step, the
training is dominated by the pair with sigma / sqrt(kappa). *Proof.* With A = (a_ti)_i and
tau = sigma / sqrt(kappa), the noise tau A z has covariance tau² A A' <= sigma² clip² I; the rest is
added as independent noise. QED

Not covered: batches of a fixed size or shuffled ones (the B of two canaries depend on each other),
a divisor or a sampling rate computed from how many canaries are in, noise whose scale is drawn
once for all (see ``tests/bounds/onerun/test_limits.py``), batch norm.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpassay._special.margins import NUMERICAL, TAIL, TINY, round_up
from dpassay._special.quantiles import beta_lower_tail, beta_upper_tail
from dpassay._special.search import last_below
from dpassay.bounds.onerun.certainty import Certainty
from dpassay.types import FloatArray

Member = Callable[[float], Certainty]
"""theta > 0 -> how certain guesses can be under this member of a family; larger, more certain."""

_CELLS = 6000
_FAR = 7.5  # normal deviations beyond which cells are joined
SMALLEST, LARGEST = 2.0**-12, 2.0**20  # members of a family that are tried


@dataclass(frozen=True)
class FixedCount:
    """So many wrong guesses of a number of guesses that was fixed in advance.

    Attributes:
        canaries: how many there are: m.
        guesses: r, at most m.
        wrong: u.

    """

    canaries: int
    guesses: int
    wrong: int

    def p_value(self, certainty: Certainty, *, searched: bool = False) -> float:
        """P(U_r <= u) in the sorted walk, from above; by less than a thousandth of it.

        Nothing is drawn, so that a search costs nothing: ``searched`` does not matter.
        """
        u, r = self.wrong, self.guesses
        if u >= r:
            return 1.0
        edges, below = _cells(self.canaries, r)
        tail = beta_upper_tail(u + 1, r - u, np.minimum(certainty.rate(edges), 1.0))
        # Summed by parts: the weights are falls of the tail, so that a too large F errs upwards.
        falls = np.maximum(tail - np.append(tail[1:], 0.0), 0.0)
        return min(round_up(float(falls @ below), 4 * TAIL), 1.0)

    def largest_refuted(
        self, member: Member, level: float, most: float, within: float = NUMERICAL
    ) -> float:
        """The largest member of a family that is refuted, from below; 0 if none is.

        P-values rise with the parameter of a nested family, so that any search will do.
        """

        def height(theta: float) -> float:
            return math.log(max(self.p_value(member(theta)), TINY) / level)

        if self.wrong == 0 and height(most) <= 0:  # perfect guesses often refute all members
            return most
        low, high = bracket(lambda theta: height(theta) <= 0, most)
        return last_below(height, low, high, within) if 0 < low < high else low


@functools.lru_cache(maxsize=8)
def _cells(canaries: int, guesses: int) -> tuple[FloatArray, FloatArray]:
    """Lower ends of cells of g, rising, and P(g <= upper end); any ends are valid."""
    if guesses == canaries:
        return np.ones(1), np.ones(1)
    a, b = guesses + 1.0, float(canaries - guesses)
    z = np.linspace(-_FAR, _FAR, _CELLS)
    ends = _normal_ends(a, b, z)
    return np.append(0.0, ends), np.append(beta_lower_tail(a, b, ends), 1.0)


def _normal_ends(a: float, b: float, z: FloatArray) -> FloatArray:
    """About the quantiles Phi(z) of Beta(a, b): those of a ratio of two gammas (Wilson, Hilferty).

    Only how close the sum comes to the integral depends on them.
    """
    x, y = (_gamma_about(k, sign * z * math.sqrt(share)) for k, sign, share in _halves(a, b))
    return np.unique(np.clip(x / (x + y), 1e-300, 1.0))


def _halves(a: float, b: float) -> list[tuple[float, int, float]]:
    # log Gamma(k) has a variance of about 1/k; z is shared in proportion.
    return [(a, 1, (1 / a) / (1 / a + 1 / b)), (b, -1, (1 / b) / (1 / a + 1 / b))]


def _gamma_about(k: float, z: FloatArray) -> FloatArray:
    return k * np.maximum(1 - 1 / (9 * k) + z / (3 * math.sqrt(k)), 1e-4) ** 3


def bracket(is_refuted: Callable[[float], bool], most: float) -> tuple[float, float]:
    """A power of two that is refuted and the next, which is not; from 1 up or down.

    (0, smallest) where nothing is refuted, and twice ``most`` where everything is.
    """
    theta = min(1.0, most)
    if is_refuted(theta):
        while theta < most and is_refuted(min(2 * theta, most)):
            theta = min(2 * theta, most)
        return theta, min(2 * theta, most)
    while theta > SMALLEST:
        theta /= 2
        if is_refuted(theta):
            return theta, 2 * theta
    return 0.0, theta
