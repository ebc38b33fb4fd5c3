"""The largest bound over all numbers of guesses, calibrated exactly.

Guess first what is most certain. N_n counts the right ones among the first n guesses, and under
pure epsilon-DP the walk N is dominated by one with independent steps, right with probability q.
The naive bound is M = max over n of the 95 % bound at n; it is too large far more than 5 % of the
time. But M is one number whose distribution rises with q, so it can be inverted like any other:

    the bound is the epsilon at which P(M >= the observed M) = 1 - confidence.

{M >= M_observed} says that the walk is above a fixed boundary at some look; a dynamic programme
over the walk gives its probability. No supremum over epsilon and no table of levels is needed, and
the answer errs with probability at most 1 - confidence at every epsilon.

**With delta.** Let all looks be at multiples of ``block`` guesses, and E be any event of the right
guesses at the looks that more right guesses cannot undo. Then, with L as in
:mod:`dpassay.bounds.onerun.pvalues`,

    P(E) <= P_q(E) + L max over v of rho(v),        rho for ``block`` guesses.

*Proof.* As there, for each guess i and any set K_i of patterns of right and wrong (in the order of
certainty, which the output fixes) the sum over i and K_i of P(x) - e^epsilon P(x with i wrong) is
at most L. Write P = P_q h and average h over the orders inside each block, which lowers neither
side: h depends on the counts n_1, n_2, .. of the blocks, and the sum over J of
E_q[n_J (h(n) - h(n - e_J))^+] is at most L. Slice h into level sets A. Revealing block after block,
Cov(1_E, 1_A) is the sum over J of the mean of Cov(P_q(E | n_1..n_J), 1_A), over n_J with the other
counts fixed; the first is a rising function of n_J with values in [0, 1], a mixture of the
1[n_J >= v], so each Cov is at most max rho times the cost of A in that direction. QED

For block = 1, rho = 1 - q.
"""

import math

import numpy as np
from scipy import special

from dpassay._special.margins import TAIL, round_up
from dpassay._special.quantiles import beta_lower_tail, beta_upper_tail
from dpassay._special.search import last_below, last_true
from dpassay.bounds.onerun.pvalues import log_pmf, pure_epsilon, tail
from dpassay.bounds.onerun.ranking import IntArray
from dpassay.types import FloatArray

_DENSE, _RATIO = 32, 1.1
_LOG_CUT = math.log(2e18)  # each cut tail is below 1e-18; a thousand of them are below _SLACK
_SLACK = 1e-13


def looks(most: int) -> IntArray:
    """1 to 32, then every tenth part more, up to ``most``, which is one of them."""
    n = np.arange(1, _DENSE + 1)
    if most > _DENSE:
        steps = int(np.log(most / _DENSE) / np.log(_RATIO)) + 1
        n = np.concatenate([n, np.round(_DENSE * _RATIO ** np.arange(1, steps + 1)), [most]])
    return np.unique(n[n <= most]).astype(np.int64)


def limits(guesses: IntArray, epsilon: float, level: float) -> IntArray:
    """At each look the most wrong guesses with which its own bound reaches epsilon; -1 for none."""
    n, error = np.asarray(guesses, float), special.expit(-epsilon)

    def reaches(x: FloatArray) -> FloatArray:
        # pure_epsilon asks for less than the level: what it says reaches epsilon does so here.
        inside = np.clip(x, 0, n - 1)
        return (x < 0) | ((x < n) & (beta_upper_tail(inside + 1, n - inside, error) <= level))

    # The normal curve says where about; where it is wrong, all of 0 to n is searched.
    about = np.floor(n * error + special.ndtri(level) * np.sqrt(n * error * (1 - error)))
    low, high = np.clip(about - 3, -1, n - 1), np.clip(about + 3, -1, n)
    low, high = np.where(reaches(low), low, -1), np.where(reaches(high), n, high)
    return last_true(reaches, low, high, whole=True).astype(np.int64)


def crossing_probability(guesses: IntArray, most_wrong: IntArray, epsilon: float) -> float:
    """P(at some look at most ``most_wrong`` guesses are wrong), the error rate being 1 - q.

    An upper bound, by less than 1e-12. Walks are dropped once they cross, and once they have more
    wrong guesses than the last limit allows: they can never cross.
    """
    error = float(special.expit(-epsilon))
    n, most = guesses[most_wrong >= 0], most_wrong[most_wrong >= 0]
    if n.size == 0:
        return 0.0
    steps = np.diff(n, prepend=0).tolist()
    pmfs = _pmfs(sorted(set(steps)), error)
    low, mass, crossed = 0, np.ones(1), _SLACK
    for at, limit, step in zip(n.tolist(), most.tolist(), steps, strict=True):
        start, pmf = pmfs[step]
        low, mass = low + start, np.convolve(mass, pmf)
        first, last = _window(at, error)
        first, last = max(first, limit + 1, low), min(last, int(most[-1]))
        crossed += float(mass[: max(limit + 1 - low, 0)].sum())
        low, mass = first, mass[first - low : max(last + 1 - low, 0)]
        if mass.size == 0:
            break
    return crossed


def _window(n: int, error: float) -> tuple[int, int]:
    """What Bin(n, error) leaves with probability at most 1e-18, by Bernstein's inequality."""
    variance = n * error * (1 - error)
    t = _LOG_CUT / 3 + math.sqrt(_LOG_CUT**2 / 9 + 2 * variance * _LOG_CUT)
    return max(int(n * error - t), 0), min(int(n * error + t) + 1, n)


def _pmfs(numbers: list[int], error: float) -> dict[int, tuple[int, FloatArray]]:
    """For each number of guesses: the least number of wrong ones that matters, the pmf from it."""
    windows = [_window(n, error) for n in numbers]
    sizes = [high - low + 1 for low, high in windows]
    wrong = np.concatenate([np.arange(low, high + 1.0) for low, high in windows])
    pmf = np.exp(log_pmf(wrong, np.repeat(np.array(numbers, float), sizes), error))
    parts = np.split(pmf, np.cumsum(sizes)[:-1])
    return {n: (low, part) for n, (low, _), part in zip(numbers, windows, parts, strict=True)}


def block_rate(block: int, epsilon: float) -> float:
    """The largest rho(v) of ``block`` guesses: what a leak of one can add to any rising event."""
    mean, sd = block * special.expit(epsilon), np.sqrt(block) / 2
    # Below the window (1 - B) / (v b) only falls, above it B / (v b) does; both are rho there.
    v = np.arange(max(1, int(mean - 10 * sd - 10)), min(block, int(mean + 10 * sd + 10)) + 1.0)
    error = special.expit(-epsilon)
    below = beta_lower_tail(block - v + 1, v, error)  # 1 - B
    with np.errstate(divide="ignore"):
        log_rho = np.log(tail(epsilon, block, v)) + np.log(below) - np.log(v)
    return round_up(float(np.exp(np.max(log_rho - log_pmf(block - v, block, error)))), 2 * TAIL)


def block_units(leak: float, level: float, per_unit: int, most: int) -> int:
    """How many units make a block, a power of two; it must not depend on the data.

    The smallest that keeps the price of the leak at epsilon = 0, where it is highest, within half
    the level. If fewer than 16 of them fit into ``most``, as little as a quarter of that: the price
    doubles, but the looks are finer, and larger epsilons have a lower price.
    """
    units = 1
    while units <= 4 * most and leak * block_rate(units * per_unit, 0.0) > level / 2:
        units *= 2
    smallest = max(units // 4, 1)
    while units > smallest and 16 * units > most:
        units //= 2
    return units


def calibrated_epsilon(
    guesses: IntArray, correct: IntArray, level: float, leak: float = 0.0, block: int = 1
) -> tuple[float, int]:
    """The lower bound from the best of all looks, and which look that is.

    Args:
        guesses: numbers of guesses at the looks, rising multiples of ``block``.
        correct: the right ones among them.
        level: one minus the confidence.
        leak: L; ``block`` matters only if it is positive.
        block: guesses per block.

    """
    naive = pure_epsilon(guesses, correct, level)
    index = int(np.argmax(naive))
    if not naive[index] > 0:
        return 0.0, index
    high = float(naive[index])
    most_wrong = limits(guesses, high, level)

    def crossing(epsilon: float) -> float:
        return math.log(crossing_probability(guesses, most_wrong, epsilon) / level) + TAIL

    def height(epsilon: float) -> float:
        price = leak * block_rate(block, epsilon) if leak > 0 else 0.0
        return math.log(math.exp(crossing(epsilon)) + price / level)

    low = 0.0
    if height(low) > 0 and crossing(low) <= -math.log(2):
        # The price falls in epsilon: perhaps some larger epsilon is refuted, which is as good.
        low = last_below(lambda e: crossing(e) + math.log(2), low, high, 1e-3)
    return (last_below(height, low, high, 1e-8) if height(low) <= 0 else 0.0), index
