"""Random allocation (balls in bins): a record takes part in one of n Gaussian steps, any of them.

**The pair.** Removing the record leaves Q = N(0, s² I) where P = mean over t of N(e_t, s² I) was.
Adaptive steps and vectors reduce to it: from y_t = [t is the record's step] + s z_t, one after the
other, g_t y_t plus independent noise of covariance s² (I - g_t g_t') has the law of step t for any
g_t of norm at most 1 that depends on what was released before. So whoever sees all y_t can play all
steps (Chua et al. 2024; Feldman and Shenfeld 2025).

Under Q the likelihood ratio is S, the mean of n independent W = e^{z/s - 1/(2s²)}; E S = 1, and

    remove: H(x) = E (S - e^x)⁺,        add: H(x) = E (1 - e^x S)⁺.

Both are expectations of convex functions of S. So a law of S above the true one in the convex order
(masses spread, means kept) bounds both profiles from above, one below it (masses gathered at their
mean) from below; and each is the likelihood ratio of a pair of its own, so that it composes.

**The law of S** is built by doubling: S of 2n is the mean of two independent S of n. After each
doubling the masses are spread to, or gathered between, nodes of log S: close together where S is
about 1, far apart elsewhere. Nothing is subtracted, so that the smallest masses keep their digits.
The mean of n W's is above that of more of them in the convex order (a mean of more is a mean of
such means): for an upper bound a smaller n may stand for a larger.

**Ends.** W above its largest node counts there, and its P-mass beyond as infinite loss when a
record is removed: (a + b - c)⁺ <= (a - c)⁺ + b. W below its least node is raised to it; when a
record is added, the chance that this happens to any of n counts as infinite loss.

**Rounding.** A sum of so many products errs by a share of as many units; a plain sum of all N²
would err by N² units, so a few rows are summed at a time. Shares double with n. A place
is log of a mean of numbers e^y, |y| <= Y, and errs by a few units of Y: that moves each S by so
small a factor, whatever it is a mean of. Both are charged at the end, upwards or downwards.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import special

from dpassay._special.margins import UNIT
from dpassay.privacy.loss_pmf import LossPmf
from dpassay.types import FloatArray

Side = Literal["upper", "lower"]
LEAST_NOISE = 0.05
"""With less noise, masses under Q underflow; and hardly anything is gained by allocating."""
MOST_NOISE = 1e9
"""With more noise, losses are lost in the rounding of log S."""
FARTHEST = 2**18
"""Cells of a grid for lower bounds, on either side of 0."""
_REACH = 13.4  # deviations of the noise that are looked at: 3e-41 lies beyond
_FINENESS = 0.01  # of the last nodes: spreading adds about its square over 3 to a variance
_BEND = 3.0  # log S from which on nodes are no longer as far apart as they are from 0
_ROWS = 16  # of a table of sums that are added up together
_MOST_BITS = 20  # of the number of steps; the rest is rounded down
_MOST_STEPS = 2**26  # with more, the rounding of so many sums would count; see law_of_ratio
_PANEL = 0.125  # deviations of the noise within which ten points integrate to rounding
_LARGEST = 600.0  # losses beyond count as infinite: e^600 is near the largest float
_LEGENDRE = np.polynomial.legendre.leggauss(10)


@dataclass(frozen=True, eq=False)
class Law:
    """The law of log S under Q: increasing values and masses; and what its rounding may be.

    Attributes:
        log_s: the values, increasing.
        masses: their probabilities under Q, with a relative error of at most ``share``.
        shift: how far a value may lie from where it should be.
        share: the relative error of the masses.

    """

    log_s: FloatArray
    masses: FloatArray
    shift: float
    share: float

    @property
    def deviation(self) -> float:
        """About the deviation of the loss near its centre; never 0."""
        centre = np.minimum(np.abs(self.log_s), 1.0)
        return float(np.sqrt(self.masses @ np.square(centre)) + 1e-300)


@lru_cache(maxsize=16)
def law_of_ratio(noise_multiplier: float, n_steps: int, side: Side) -> Law:
    """A law of S for one step of ``n_steps``: above or below the true one in the convex order.

    More than 2^26 steps are priced as so many. From below that is no bound: then S = 1 is taken,
    which all laws of mean 1 are above.
    """
    if n_steps > _MOST_STEPS and side == "lower":
        return Law(np.zeros(1), np.ones(1), 0.0, 0.0)
    n_steps = min(n_steps, _MOST_STEPS)
    spare = max(n_steps.bit_length() - _MOST_BITS, 0)
    leading = n_steps >> spare
    if side == "lower" and leading << spare < n_steps:
        leading += 1
    total = leading << spare
    law = _power(_one_step(noise_multiplier, _fineness(1 / total), side), leading, total, side)
    for k in range(spare):
        law = _mean(law, law, 0.5, _fineness((leading << (k + 1)) / total), side)
    return law


def _power(law: Law, n: int, total: int, side: Side) -> Law:
    """The law of the mean of n copies: binary, each sum weighted by how many it is of.

    What is spread early is averaged later: with a share of the ``total`` steps done, nodes may be
    farther apart.
    """
    result, so_far = law, 1
    for bit in bin(n)[3:]:
        so_far *= 2
        result = _mean(result, result, 0.5, _fineness(so_far / total), side)
        if bit == "1":
            so_far += 1
            fineness = _fineness(so_far / total)
            result = _mean(result, law, (so_far - 1) / so_far, fineness, side)
    return result


def _fineness(share: float) -> float:
    return _FINENESS * min(share**-0.25, 2.0)


def _one_step(noise_multiplier: float, fineness: float, side: Side) -> Law:
    """The law of W, on nodes of its own; masses of cells are integrals of positive functions."""
    m, reach = 1 / noise_multiplier, _REACH
    low, high = m * (-reach - m / 2), m * (reach + m / 2)
    nodes = _nodes(low, high, m, fineness)
    z = nodes / m + m / 2
    cells, width = np.arange(nodes.size - 1), np.diff(z)
    pieces = int(np.ceil(width.max() / _PANEL))
    places, weights = (_LEGENDRE[0] + 1) / 2, _LEGENDRE[1] / 2
    t = ((np.arange(pieces)[:, None] + places) / pieces).ravel()
    at = z[:-1, None] + width[:, None] * t
    with np.errstate(under="ignore"):
        density = np.exp(-np.square(at) / 2) / math.sqrt(2 * math.pi)
    density = density * width[:, None] * np.tile(weights / pieces, pieces)
    h = m * width
    share = np.expm1(h[:, None] * t) / np.expm1(h)[:, None]
    rest = np.expm1(h[:, None] * (t - 1)) / np.expm1(-h)[:, None]
    up, down = (density * share).sum(axis=1), (density * rest).sum(axis=1)
    with np.errstate(under="ignore"):
        ends = special.ndtr(z[0]), special.ndtr(-z[-1])
    # An argument z²/2 of exp errs by as many units, ten points of a panel by less than 1e-15.
    rounding = 4 * UNIT * (64 + np.square(z).max()), 16 * UNIT * max(-low, high)
    if side == "upper":
        masses = np.zeros(nodes.size)
        masses[:-1] += down
        masses[1:] += up
        masses[[0, -1]] += ends
        return Law(nodes, masses, rounding[1], rounding[0])
    # The mean of a cell lies a share of its width above its left node.
    total = up + down
    kept = total > 0
    inside = nodes[cells] + np.log1p(np.expm1(h) * up / np.where(kept, total, 1.0))
    return Law(inside[kept], total[kept], rounding[1], rounding[0])


def _nodes(low: float, high: float, d: float, fineness: float) -> FloatArray:
    """Values of log S, 0 among them, up to the ends, which are nodes too.

    Their distances are ``fineness`` times the hypotenuse of d and y up to |y| = 3, as there after,
    and a quarter of |y| where that is more.
    """
    first, last = (_fold(end, d) / fineness for end in (low, high))
    inner = np.arange(math.ceil(first + 0.5), math.floor(last - 0.5) + 1) * fineness
    return np.concatenate([[low], _unfold(inner, d), [high]])


def _fold(y: float, d: float) -> float:
    size = abs(y)
    first = math.asinh(min(size, _BEND) / d)
    second = (min(max(size, _BEND), 4 * _BEND) - _BEND) / _BEND
    return math.copysign(first + second + 4 * math.log(max(size / (4 * _BEND), 1.0)), y)


def _unfold(u: FloatArray, d: float) -> FloatArray:
    size, bend = np.abs(u), math.asinh(_BEND / d)
    first = d * np.sinh(np.minimum(size, bend))
    second = np.clip(size - bend, 0.0, 3.0) * _BEND
    far = 4 * _BEND * np.expm1(np.maximum(size - bend - 3.0, 0.0) / 4)
    return np.sign(u) * (first + second + far)


def _mean(a: Law, b: Law, weight: float, fineness: float, side: Side) -> Law:
    """The law of weight S_a + (1 - weight) S_b, S_a and S_b independent; or the same law twice."""
    low, high = min(a.log_s[0], b.log_s[0]), max(a.log_s[-1], b.log_s[-1])
    spread = math.hypot(weight * a.deviation, (1 - weight) * b.deviation)
    nodes = _nodes(float(low), float(high), spread, fineness)
    first, second = _add_up(a, b, weight, nodes, side)
    shift = max(a.shift, b.shift) + 32 * UNIT * float(max(-low, high))
    share = a.share + b.share + 4 * UNIT * (_ROWS * b.log_s.size + a.log_s.size)
    if side == "upper":
        return _trim(Law(nodes, first + np.append(0.0, second[:-1]), shift, share))
    kept = first > 0
    values = nodes[kept] + np.log1p(second[kept] / first[kept])
    return _trim(Law(values, first[kept], shift, share))


def _add_up(
    a: Law, b: Law, weight: float, nodes: FloatArray, side: Side
) -> tuple[FloatArray, FloatArray]:
    """Masses that fall to the left and to the right node of each cell.

    For "lower": the mass of each cell, and its moment about the left node, over that node. Of two
    equal laws every pair of different values is looked at once.
    """
    first, second = np.zeros(nodes.size), np.zeros(nodes.size)
    widths = np.append(np.expm1(np.diff(nodes)), 1.0)
    for start in range(0, a.log_s.size, _ROWS):
        begin = start if a is b else 0
        value, masses = _sums(a, b, weight, start, begin)
        cell = np.clip(np.searchsorted(nodes, value, "right") - 1, 0, nodes.size - 2)
        above = np.expm1(np.maximum(value - nodes[cell], 0.0))
        if side == "upper":
            share = np.minimum(above / widths[cell], 1.0)
            first += np.bincount(cell, masses * (1 - share), nodes.size)
            second += np.bincount(cell, masses * share, nodes.size)
        else:
            first += np.bincount(cell, masses, nodes.size)
            second += np.bincount(cell, masses * above, nodes.size)
    return first, second


def _sums(a: Law, b: Law, weight: float, start: int, begin: int) -> tuple[FloatArray, FloatArray]:
    """Logs of weighted means, and masses: some rows of a, the columns of b from ``begin`` on."""
    rows, columns = slice(start, start + _ROWS), slice(begin, None)
    y_a, y_b = a.log_s[rows, None], b.log_s[columns]
    with np.errstate(under="ignore"):
        masses = a.masses[rows, None] * b.masses[columns]
        w = weight * np.expm1(y_a) + (1 - weight) * np.expm1(y_b)
        x = weight * np.exp(y_a) + (1 - weight) * np.exp(y_b)
    if a is b:
        i, j = np.ogrid[: masses.shape[0], : masses.shape[1]]
        masses = masses * np.where(j > i, 2.0, j == i)
    # Near 1 the logarithm of 1 + w keeps the digits of w, far below that of x those of x.
    near = w > -0.5
    value = np.where(near, np.log1p(np.where(near, w, 0.0)), np.log(x))
    return value.ravel(), masses.ravel()


def _trim(law: Law) -> Law:
    """The law without the masses at its ends that are 0."""
    some = np.flatnonzero(law.masses)
    kept = slice(some[0], some[-1] + 1)
    return Law(law.log_s[kept], law.masses[kept], law.shift, law.share)


@dataclass(frozen=True)
class AllocatedLosses:
    """The privacy loss of one step of ``n_steps``, in both directions, for a PLD."""

    noise_multiplier: float
    n_steps: int
    is_symmetric: bool = False

    def discretise(self, add: bool, interval: float, tail: float) -> LossPmf:
        """Masses on a grid whose profile is not below the truth.

        A loss is moved to the two nodes around it so that E e^-loss stays (or up, at the ends).
        """
        loss, mass, infinite, law = self._atoms(add, "upper")
        loss = loss + law.shift
        low, high = _cut(loss, mass, tail)
        infinite += float(mass[loss > high].sum())
        loss, mass = np.maximum(loss, low)[loss <= high], mass[loss <= high]
        first = min(math.floor(low / interval), 0)
        cell = np.maximum(np.floor(loss / interval).astype(np.int64) - first, 0)
        within = np.clip(loss - (cell + first) * interval, 0.0, interval)
        share = np.expm1(-within) / math.expm1(-interval)
        share = np.minimum(share + 8 * UNIT * (1 + np.abs(loss) / interval), 1.0)
        size = int(cell.max()) + 2
        probs = np.bincount(cell, mass * (1 - share), size)
        probs += np.bincount(cell + 1, mass * share, size)
        above = np.append(np.cumsum(probs[::-1])[::-1], 0.0)
        infinite = min(infinite * (1 + law.share), 1.0)
        tails = np.minimum(above * (1 + law.share + 4 * UNIT * size) + infinite, 1.0)
        tails[0] = 1.0
        return LossPmf(interval, first, tails[:-1] - tails[1:], infinite)

    def round_down(self, add: bool, interval: float) -> LossPmf:
        """Masses on a grid whose profile is not above the truth: losses are rounded down.

        Those above the grid count as its largest, those below it not at all.
        """
        loss, mass, _, law = self._atoms(add, "lower")
        kept = np.cumsum(mass) > 1e-30
        loss, mass = (loss - law.shift)[kept], mass[kept] * (1 - law.share)
        cell = np.floor(loss / interval - 8 * UNIT * (1 + np.abs(loss) / interval))
        near = cell >= -FARTHEST
        cell, mass = np.minimum(cell[near], FARTHEST), mass[near]
        first = int(cell.min())
        probs = np.bincount((cell - first).astype(np.int64), mass)
        return LossPmf(interval, first, probs * (1 - 4 * UNIT * mass.size), 0.0)

    def scale(self, tail: float) -> tuple[float, float]:
        """The width of the losses but for a tail, and their variance; of the wider direction."""
        both = [self._scale(add, tail) for add in (False, True)]
        return max(width for width, _ in both), max(variance for _, variance in both)

    def _scale(self, add: bool, tail: float) -> tuple[float, float]:
        loss, mass, _, _ = self._atoms(add, "upper")
        low, high = _cut(loss, mass, tail)
        mean = float(mass @ loss)
        return high - low, float(mass @ np.square(np.clip(loss, low, high) - mean))

    def delta(self, epsilon: FloatArray, add: bool, side: Side) -> FloatArray:
        """A bound on the profile at each epsilon >= 0."""
        loss, mass, infinite, law = self._atoms(add, side)
        sign = 1 if side == "upper" else -1
        gain = -np.expm1(np.minimum(epsilon[..., None] - loss - sign * law.shift, 0.0))
        value = (gain @ mass) * (1 + sign * (law.share + 4 * UNIT * loss.size))
        return np.clip(value + (infinite if sign > 0 else 0.0), 0.0, 1.0)

    def _atoms(self, add: bool, side: Side) -> tuple[FloatArray, FloatArray, float, Law]:
        """Losses, increasing, their masses under the law that is drawn from, the mass at infinity.

        The mass at infinity includes what underflow takes away.
        """
        law = law_of_ratio(self.noise_multiplier, self.n_steps, side)
        end = float(special.ndtr(-_REACH)) * (1 + 1e-12)
        if add:
            return -law.log_s[::-1], law.masses[::-1], min(self.n_steps * end, 1.0), law
        with np.errstate(under="ignore"):
            return law.log_s, law.masses * np.exp(law.log_s), end, law


def _cut(loss: FloatArray, mass: FloatArray, tail: float) -> tuple[float, float]:
    """Losses below and above which there is no more mass than ``tail``; larger ones than 600."""
    below, above = np.cumsum(mass), np.cumsum(mass[::-1])[::-1]
    low = loss[np.searchsorted(below, tail, "right")]
    high = loss[max(int(np.searchsorted(-above, -tail, "left")) - 1, 0)]
    return float(max(low, -_LARGEST)), float(min(high, _LARGEST))
