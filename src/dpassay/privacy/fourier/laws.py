"""Discrete privacy losses that dominate a sampled Gaussian's, with a bound on every rounding.

Write X ≼ Y when E f(e^-X) <= E f(e^-Y) for all convex decreasing f. Two moves go up in this order:
(a) mass goes to a larger loss; (b) a loss is spread over two losses on either side of it such that
E e^-L stays as it was. The order is closed under mixtures and under sums of independent losses, and
delta(x) = E (1 - e^x e^-L)⁺ is the mean of such an f. So a law that was made of the true one by
moves (a) and (b) gives upper bounds after any composition.

**The moves.** Under Q = N(0, s²) let z be the output over s, a standard normal, and
a = z/s - 1/(2s²) the log-likelihood ratio of N(1, s²) to Q. Removing a record has the likelihood
ratio S(a) = 1 - q + q e^a, hence the loss log S(a). Between two nodes a_j < a_{j+1} move (b) shares
the Q-mass such that the mean of S stays as it was, that is linearly in e^a:

    Q_j = E_Q hat_j(e^a),    P_j = S(a_j) Q_j,

where hat_j is the piecewise linear function of e^a that is 1 at node j and 0 at the others. The
leftmost node is e^a = 0, at loss log(1-q). The masses P_j at losses x_j = log S(a_j) are the law of
removing; adding exchanges P and Q: masses Q_j at losses -x_j. Beyond the last node J, removing
counts the P-mass as infinite loss, and adding moves the Q-mass to -x_J: move (a).

Sampling without replacement has the profile of removing at positive x, and the mirrored one below
(Zhu, Dong and Wang 2022, theorem 11): its law has the masses P_j at x_j > 0 and Q_j at -x_j, and
what is left at zero.

**What is exact.** The a_j are floats and define the law; losses and masses are then real numbers,
which are computed with small relative errors. With ``infinite`` the mass at infinity and b what the
moves (a) took from E e^-L, two identities hold exactly for the real numbers, and the transform
rests on them (see :mod:`dpassay.privacy.fourier.transform`):

    Σ p_j = 1 - infinite,        Σ p_j e^{-x_j} = 1 - b.

**Rounding.** Let u = 2^-53. NumPy's exp, expm1, log, log1p, sin and SciPy's erfcx are taken to be
within 16u, relatively, and SciPy's ndtr below zero within (32 + 4z²)u; the tests hold them to it.

 - Losses: x = log1p(q expm1(a)) where q expm1(a) > -1/2; the argument has an error of 18u and the
   condition of log1p there is at most 1.45. Elsewhere x = log(1 - q + q e^a) < -log 2, with the
   absolute error 19u + 16u|x|. So 48u, relatively.
 - Masses: Gauss-Legendre sums of positive terms, ten for each panel. On a panel of half-width r in
   z with r (|z| + 1/s + 1) <= 1/2 the integrand, expm1((z - z_j)/s) φ(z), is entire. On the
   Bernstein ellipse of parameter 20, |y| <= 10.1r around the centre, its modulus is at most
   11 e^{5.1 + 0.5 + 0.7} < 6e3 times its mean on the panel. (expm1 gives |τ| e^|τ| there against
   the mean of τ, both from z_j.) So the rule errs by less than (64/15) 6e3 20^-18 / (1 - 20^-2)
   < 1e-18 of the panel's integral (Trefethen 2013, theorem 19.3).
 - Each term is a product of a weight (16u), two values of expm1 and an exponential e^{y} (80u with
   the rounding of their arguments), and exp(x_j - z²/2), where z has the absolute error
   4u(|z| + 1/s) and x_j that above. A sum of m terms adds m u. So the relative error is below
   (m + 128 + 8z² + 8|z|/s + 50|x|) u.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from dpassay.types import FloatArray, Floats

UNIT = 2.0**-53
_LOSS_ERROR = 48 * UNIT
_SPACING = 0.02  # neighbouring losses differ by about this share of the deviation or of the loss
_FAR = 37.0  # deviations: the normal mass beyond is below 1e-299
_LARGEST = 600.0  # losses beyond count as infinite
_TINY = 1e-300  # what underflow may take from a mass
_ROOT2 = math.sqrt(2)
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_BULK = np.linspace(-8.0, 8.0, 257)


@dataclass(frozen=True, eq=False)
class Law:
    """Masses at finite losses and at infinity, with bounds on the rounding of each.

    ``errors`` are absolute, for each mass; ``loss_error`` is relative, for all losses; ``drift`` is
    b - infinite (see above), of which ``drift_error`` bounds the rounding. ``infinite`` itself was
    rounded up.
    """

    losses: FloatArray
    masses: FloatArray
    errors: FloatArray
    infinite: float = 0.0
    drift: float = 0.0
    drift_error: float = 0.0
    loss_error: float = _LOSS_ERROR

    @cached_property
    def curvature(self) -> FloatArray:
        """e^-x - 1 + x >= 0 for each loss x."""
        return exp_remainder(-self.losses)


def exp_remainder(y: np.ndarray) -> np.ndarray:
    """e^y - 1 - y, real or complex, within 200u of max(1, |e^y|) |y|²/2.

    Up to 1/2 in modulus by the series, of which sixteen terms leave out less than 1e-19. Beyond,
    each of e^y (16u), 1 and y is at most 4 max(1, |e^y|) |y|², and subtractions add 2u of that.
    """
    small = np.abs(y) < 0.5
    z = np.where(small, y, 0.0)
    series = np.zeros_like(z)
    for k in range(17, 2, -1):
        series = (series + 1) * z / k
    direct = np.exp(np.where(small, 0.0, y)) - 1 - y
    return np.where(small, (series + 1) * z * z / 2, direct)


class SampledGaussian:
    """Nodes and masses of a Gaussian release of noise ``s`` on a sample of rate ``q`` < 1."""

    def __init__(self, noise: float, rate: float, spacing: float = _SPACING) -> None:
        self.s, self.q = noise, rate
        self.a = self._nodes(spacing)
        self.z = self.s * self.a + 0.5 / self.s
        self.x = self._losses(self.a)
        self._fill()

    def _losses(self, a: FloatArray) -> FloatArray:
        growth = self.q * np.expm1(a)
        near = np.log1p(np.maximum(growth, -0.5))
        return np.where(growth > -0.5, near, np.log((1 - self.q) + self.q * np.exp(a)))

    def deviation(self) -> float:
        """The root of E min(L², 1), to a percent or so: what the losses are measured in."""
        weights = np.exp(-np.square(_BULK) / 2)
        total = 0.0
        for shift, share in ((0.0, 1 - self.q), (1 / self.s, self.q)):
            a = np.minimum((_BULK + shift - 0.5 / self.s) / self.s, _LARGEST)
            total += share * float(weights @ np.minimum(np.square(self._losses(a)), 1.0))
        return math.sqrt(total / float(weights.sum()))

    def _nodes(self, spacing: float) -> FloatArray:
        """Log-likelihood ratios whose losses are deviation * sinh(spacing * j); 0 is among them."""
        ends = np.array([-_FAR, 1 / self.s + _FAR])
        low, high = self._losses(np.minimum((ends - 0.5 / self.s) / self.s, _LARGEST))
        unit = self.deviation()
        first = math.ceil(math.asinh(low / unit) / spacing)
        last = math.floor(math.asinh(high / unit) / spacing)
        x = unit * np.sinh(spacing * np.arange(min(first, 0), max(last, 1) + 1))
        # log((e^x - 1 + q)/q), in a form that neither overflows nor cancels
        above = x + np.log1p((1 - self.q) * -np.exp(-np.maximum(x, 1.0))) - math.log(self.q)
        growth = np.expm1(np.minimum(x, 1.0)) / self.q
        reached = growth > -1
        a = np.where(x > 1, above, np.log1p(np.where(reached, growth, 0.0)))[reached]
        inside = (self.s * a + 0.5 / self.s >= -_FAR) & (a <= _LARGEST)
        return a[inside & (np.diff(a, prepend=-np.inf) > 0)]

    def _fill(self) -> None:
        """Q- and P-masses that each cell gives to the node on its left and to that on its right.

        Cell 0 is all outputs below the first node; its left node is e^a = 0. The normal density is
        taken relative to that at the cell's left end, and put back last: far out the Q-mass
        underflows where the P-mass does not.
        """
        width = np.diff(self.a)
        reach = np.maximum(np.abs(self.z[:-1]), np.abs(self.z[1:])) + 1 / self.s + 1
        panels = np.maximum(np.ceil(self.s * width * reach), 1).astype(int)
        to_left, to_right = self._shares(width, panels)
        at_zero, at_node = self._lowest()
        self._right_share = np.append(at_node, to_right) / (
            np.append(at_zero, to_left) + np.append(at_node, to_right)
        )
        bell = -np.square(self.z[:-1]) / 2
        first = np.exp(self.x[0])
        self._q = _Cells(at_zero, at_node, to_left * np.exp(bell), to_right * np.exp(bell))
        self._p = _Cells(
            at_zero * (1 - self.q),
            at_node * first,
            to_left * np.exp(bell + self.x[:-1]),
            to_right * np.exp(bell + self.x[1:]),
        )
        farthest = np.maximum(np.abs(self.x[1:]), np.abs(self.x[:-1]))
        margins = UNIT * (10 * panels + self._margin(reach, farthest))
        lowest = UNIT * float(self._margin(abs(self.z[0]) + 1 / self.s, abs(self.x[0])))
        # What is left at e^a = 0 is a difference.
        cancelled = (at_zero + 2 * at_node) / max(at_zero, _TINY)
        self._left_margins = np.append(lowest * cancelled, margins)
        self._right_margins = np.append(lowest, margins)

    def _margin(self, z: Floats, x: Floats) -> Floats:
        return 128 + 8 * np.square(z) + 8 * z / self.s + 50 * x

    def _shares(self, width: FloatArray, panels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Each cell's integrals of its two hats times φ(z) e^{z_j²/2}, z_j the cell's left end."""
        cell = np.repeat(np.arange(width.size), panels)
        starts = np.concatenate([[0], np.cumsum(panels)[:-1]])
        place, parts = (np.arange(cell.size) - starts[cell])[:, None], panels[cell][:, None]
        d = width[cell][:, None]
        offset = d * ((place + (1 + _POINTS) / 2) / parts)  # from the left end, and to the right
        rest = d * ((parts - place - 1 + (1 - _POINTS) / 2) / parts)
        bell = np.exp(-self.s * offset * (self.z[cell][:, None] + self.s * offset / 2))
        weight = _WEIGHTS * bell * (self.s / math.sqrt(8 * math.pi) * d / (parts * np.expm1(d)))
        rise = np.expm1(offset)
        to_left = (weight * (1 + rise) * np.expm1(rest)).sum(axis=1)
        to_right = (weight * rise).sum(axis=1)
        return np.add.reduceat(to_left, starts), np.add.reduceat(to_right, starts)

    def _lowest(self) -> tuple[float, float]:
        """Q-mass that the outputs below the first node leave at e^a = 0, and at that node.

        The second is E e^{a - a_0} over them: φ(z_0) times Mills' ratio at 1/s - z_0.
        """
        z = float(self.z[0])
        at_node = math.exp(-z * z / 2) * float(special.erfcx((1 / self.s - z) / _ROOT2)) / 2
        return max(float(special.ndtr(z)) - at_node, 0.0), at_node

    @cached_property
    def _tails(self) -> tuple[FloatArray, FloatArray]:
        """P- and Q-masses of the outputs beyond each node."""
        beyond = special.ndtr(-self.z)
        mixed = (1 - self.q) * beyond + self.q * special.ndtr(1 / self.s - self.z)
        return mixed + _TINY, beyond + _TINY

    def _last(self, tail: float) -> int:
        """The first node above loss 0 beyond which there is no more P-mass than ``tail``."""
        enough = np.flatnonzero((self._tails[0] <= tail) & (self.x > 0))
        return int(enough[0]) if enough.size else self.x.size - 1

    def _tail(self, last: int) -> tuple[float, float, float]:
        """P- and Q-mass beyond a node, and the relative error of both."""
        z = abs(float(self.z[last])) + 1 / self.s
        p, q = self._tails
        return float(p[last]), float(q[last]), UNIT * (128 + 8 * z * z)

    def _nodal(self, cells: "_Cells", last: int) -> tuple[FloatArray, FloatArray]:
        """Masses of e^a = 0 and of the nodes up to ``last``, and their errors."""
        masses, errors = np.zeros(last + 2), np.full(last + 2, _TINY)
        left, right = cells.left[: last + 1], cells.right[: last + 1]
        masses[:-1] += left
        masses[1:] += right
        errors[:-1] += left * self._left_margins[: last + 1]
        errors[1:] += right * self._right_margins[: last + 1]
        return masses, errors

    def _nodal_losses(self, last: int) -> FloatArray:
        return np.append(math.log1p(-self.q), self.x[: last + 1])

    def remove(self, tail: float) -> Law:
        """The law of removing a record, at most ``tail`` of it at infinity."""
        last = self._last(tail)
        p, q, margin = self._tail(last)
        masses, errors = self._nodal(self._p, last)
        drift_error = (p + q) * (margin + 4 * UNIT)
        return Law(self._nodal_losses(last), masses, errors, p * (1 + margin), q - p, drift_error)

    def add(self, tail: float) -> Law:
        """The law of adding a record; a mixture's mass of ``tail`` moves up to the least loss."""
        last = self._last(tail)
        p, q, margin = self._tail(last)
        masses, errors = self._nodal(self._q, last)
        masses[-1] += q
        errors[-1] += q * margin
        # b lies between 0 and the mixture's mass beyond the last node.
        return Law(-self._nodal_losses(last), masses, errors, drift_error=p * (1 + margin))

    def replace(self, tail: float) -> Law:
        """The law of replacing a record, when samples have a fixed size."""
        last = self._last(tail)
        above = self._nodal_losses(last) > 0
        x = self._nodal_losses(last)[above]
        (p_masses, p_errors), (q_masses, q_errors) = (
            (masses[above], errors[above])
            for masses, errors in (self._nodal(cells, last) for cells in (self._p, self._q))
        )
        p, q, margin = self._tail(last)
        q_masses[-1] += q  # the mirrored tail moves up to the last node, at loss -x
        q_errors[-1] += q * margin
        drift = -q * math.expm1(x[-1])
        return Law(
            np.concatenate([-x[::-1], x]),
            np.concatenate([q_masses[::-1], p_masses]),
            np.concatenate([q_errors[::-1], p_errors]),
            p * (1 + margin),
            drift,
            (p + abs(drift)) * (margin + 64 * UNIT * (1 + x[-1])),
        )

    def collapsed(self, tail: float, *, add: bool = False) -> Law:
        """A law below the true one: each cell becomes one loss, and the tail is dropped.

        The loss of a cell is the log of its P-mass over its Q-mass. To forget where in its cell an
        output lies is post-processing, so that no delta grows. In a cell whose right node has the
        share λ of the Q-mass, that loss is x_j + log1p(λ expm1(x_{j+1} - x_j)); it is computed from
        the end that is nearer to zero, where its relative error stays small.
        """
        last = self._last(tail)
        x, share = self._nodal_losses(last), self._right_share[: last + 1]
        up = x[:-1] + np.log1p(share * np.expm1(np.diff(x)))
        down = x[1:] + np.log1p((1 - share) * np.expm1(-np.diff(x)))
        losses = np.where(x[:-1] >= 0, up, down)
        masses = (self._q if add else self._p).sums[: last + 1]
        relative = self._left_margins[: last + 1] + self._right_margins[: last + 1]
        p, q, margin = self._tail(last)
        gone, other = (q, p) if add else (p, q)
        return Law(
            -losses if add else losses,
            masses,
            masses * relative + _TINY,
            gone,
            other - gone,
            (p + q) * (margin + 4 * UNIT),
            loss_error=float(relative.max()) + 2 * _LOSS_ERROR,
        )


class _Cells:
    """Masses under one measure that the cells give to the nodes on their left and right."""

    def __init__(
        self, at_zero: float, at_node: float, to_left: FloatArray, to_right: FloatArray
    ) -> None:
        self.left, self.right = np.append(at_zero, to_left), np.append(at_node, to_right)

    @property
    def sums(self) -> FloatArray:
        """The mass of each cell."""
        return self.left + self.right
