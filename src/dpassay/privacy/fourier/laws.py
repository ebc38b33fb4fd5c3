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

Sampling without replacement is dominated by the larger of the two profiles at every x (Zhu, Dong
and Wang 2022, theorem 11). With h(α, β) = sup over sets of αN(1, s²) - βN(0, s²), removing has
h(q, q + t) at e^x = 1 + t and adding h(q - t(1-q), q + tq); in both β - α = t, and h(α, α + t)
grows with α. So removing is the larger at x > 0, and below zero the profile is the mirrored one:
its law has the masses P_j at x_j > 0 and Q_j at -x_j, and what is left at zero.

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
   z with r (|z| + 1/s + 4) <= 1/2 the integrand, expm1((z - z_j)/s) φ(z) or its mirror image, is
   entire. On the Bernstein ellipse of parameter 20, |y| <= 10.1r around the centre m, |φ| grows by
   e^{10.1r|m| + 51r²} and shrinks by e^-0.6 at most on the panel itself. With τ = (z - z_j)/s,
   |e^τ - 1| is there at most 18 e^{10.1r/s} times its mean on the panel: it is below |τ| e^{Re τ},
   with |τ| within 11.1 times that of the centre, and below 2e^{Re τ}. Together, at most 18 e^{5.1 +
   0.6} < 6e3 times the mean of the integrand, so that the rule errs by less than
   (64/15) 6e3 20^-18 / (1 - 20^-2) < 1e-18 of it (Trefethen 2013, theorem 19.3).
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

from dpassay._special.margins import UNIT
from dpassay.types import FloatArray, Floats

_LOSS_ERROR = 48 * UNIT
_SPACING = 0.01  # neighbouring losses differ by about this share of the deviation or of the loss
_FAR = 37.0  # deviations: the normal mass beyond is below 1e-299
_LARGEST = 600.0  # losses beyond count as infinite
_MOVED = 1e-6
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


def exp_remainder(y: FloatArray) -> FloatArray:
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
        reach = np.maximum(np.abs(self.z[:-1]), np.abs(self.z[1:])) + 1 / self.s + 4
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
    def _beyond(self) -> tuple[FloatArray, FloatArray]:
        """P- and Q-masses of the outputs beyond each node."""
        q_mass = special.ndtr(-self.z)
        p_mass = (1 - self.q) * q_mass + self.q * special.ndtr(1 / self.s - self.z)
        return p_mass + _TINY, q_mass + _TINY

    @cached_property
    def _below(self) -> tuple[FloatArray, FloatArray]:
        """P- and Q-masses of the outputs below each node, and below e^a = 0 before them: none."""
        q_mass = special.ndtr(self.z)
        p_mass = (1 - self.q) * q_mass + self.q * special.ndtr(self.z - 1 / self.s)
        return np.append(0.0, p_mass + _TINY), np.append(0.0, q_mass + _TINY)

    # From here on, node 0 is e^a = 0, and cell j lies between the nodes j and j + 1.

    def _last(self, tail: float) -> int:
        """The first node above loss 0 beyond which there is no more P-mass than ``tail``."""
        enough = np.flatnonzero((self._beyond[0] <= tail) & (self.x > 0))
        return 1 + (int(enough[0]) if enough.size else self.x.size - 1)

    def _first(self, tail: float) -> int:
        """The last node below loss 0 below which there is no more Q-mass than ``tail``."""
        return int(np.flatnonzero((self._below[1] <= tail) & (self._x < 0))[-1])

    @cached_property
    def _x(self) -> FloatArray:
        return np.append(math.log1p(-self.q), self.x)

    def _nodal(self, cells: "_Cells", first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Masses of the nodes from ``first`` to ``last`` by the cells between, and their errors."""
        masses, errors = np.zeros(last - first + 1), np.full(last - first + 1, _TINY)
        masses[:-1] += cells.left[first:last]
        masses[1:] += cells.right[first:last]
        errors[:-1] += cells.left[first:last] * self._left_margins[first:last]
        errors[1:] += cells.right[first:last] * self._right_margins[first:last]
        return masses, errors

    def _margin_at(self, node: int) -> float:
        """The relative error of the masses below or beyond a node."""
        z = abs(float(self.z[max(node - 1, 0)])) + 1 / self.s
        return UNIT * (128 + 8 * z * z)

    def remove(self, tail: float) -> Law:
        """The law of removing a record, at most ``tail`` of it at infinity."""
        last = self._last(tail)
        p, q = (float(side[last - 1]) for side in self._beyond)
        margin = self._margin_at(last)
        masses, errors = self._nodal(self._p, 0, last)
        drift_error = (p + q) * (margin + 4 * UNIT)
        return Law(self._x[: last + 1], masses, errors, p * (1 + margin), q - p, drift_error)

    def add(self, tail: float) -> Law:
        """The law of adding a record, at most ``tail`` of it at infinity.

        Far less than that of the mixture moves up to the least loss: it would count as drift.
        """
        first, last = self._first(tail), self._last(_MOVED * tail)
        p_low, q_low = (float(side[first]) for side in self._below)
        p_high, q_high = (float(side[last - 1]) for side in self._beyond)
        low, high = self._margin_at(first), self._margin_at(last)
        masses, errors = self._nodal(self._q, first, last)
        masses[-1] += q_high
        errors[-1] += q_high * high
        # b is p_low, and between 0 and p_high from the other end.
        drift_error = (p_low + q_low) * (low + 4 * UNIT) + p_high * (1 + high)
        losses = -self._x[first : last + 1]
        return Law(losses, masses, errors, q_low * (1 + low), p_low - q_low, drift_error)

    def replace(self, tail: float) -> Law:
        """The law of replacing a record, when samples have a fixed size."""
        zero, last = int(np.flatnonzero(self._x == 0)[0]), self._last(tail)
        x = self._x[zero + 1 : last + 1]
        (p_masses, p_errors), (q_masses, q_errors) = (
            (masses[1:], errors[1:])
            for masses, errors in (self._nodal(cells, zero, last) for cells in (self._p, self._q))
        )
        p, q = (float(side[last - 1]) for side in self._beyond)
        margin = self._margin_at(last)
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

    def collapse(self, tail: float, *, add: bool = False) -> Law:
        """A law below the true one: each cell becomes one loss, and tails are dropped.

        The loss of a cell is the log of its P-mass over its Q-mass. To forget where in its cell an
        output lies is post-processing, so that no delta grows. In a cell whose right node has the
        share λ of the Q-mass, that loss is x_j + log1p(λ expm1(x_{j+1} - x_j)); it is computed from
        the end that is nearer to zero, where its relative error stays small.
        """
        first, last = self._first(tail) if add else 0, self._last(_MOVED * tail if add else tail)
        x, share = self._x[first : last + 1], self._right_share[first:last]
        up = x[:-1] + np.log1p(share * np.expm1(np.diff(x)))
        down = x[1:] + np.log1p((1 - share) * np.expm1(-np.diff(x)))
        losses = np.where(x[:-1] >= 0, up, down)
        masses = (self._q if add else self._p).sums[first:last]
        relative = (self._left_margins + self._right_margins)[first:last]
        p, q = (
            float(low[first] + high[last - 1])
            for low, high in zip(self._below, self._beyond, strict=True)
        )
        gone, other = (q, p) if add else (p, q)
        return Law(
            -losses if add else losses,
            masses,
            masses * relative + _TINY,
            gone,
            other - gone,
            (p + q) * (self._margin_at(first) + self._margin_at(last)),
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
