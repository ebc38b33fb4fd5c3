"""From K on a line back to delta(x): a trapezoid sum whose errors all go upwards.

For c > 0, ∫ e^{θx} delta(x) dx = E e^{θL} / (θ(θ+1)) on θ = c + it, so that

    delta(x) = 1/2π ∫ f(t) dt,    f(t) = exp(K(θ) - θx) / (θ(θ+1)).

**Aliases.** By Poisson's summation formula the trapezoid sum of step h, h/2π Σ f(kh) over all
integers k, is Σ_j e^{cjΛ} delta(x + jΛ) with Λ = 2π/h. All terms are nonnegative and that of j = 0
is delta(x): for any c and h the sum is an upper bound. A bad choice costs tightness, not validity.

**Smoothing.** The composition with one more Gaussian release of mean shift m cannot have a smaller
delta (forget its output), and adds m²θ(θ+1)/2 to K. So |f(t)| <= exp(K(c) + m²(c(c+1) - t²)/2 - cx)
/ t², and what the sum leaves out beyond t_n is at most 1/π exp(K(c) + m²(c(c+1) - t_n²)/2 - cx)
/ t_n. Gaussian releases among the events have exactly this K and serve as smoothing too.

**Rounding.** K comes with a bound on its error (see :mod:`dpassay.privacy.fourier.transform`); the
exponent is rounded by 16u times its terms, the quotient and the sum by (n + 64)u. Each is added,
times the modulus of its term.

**Infinite losses.** What the laws leave at infinity, 1 - Π (1 - infinite)^count, is added: delta is
that plus the finite part's, whose K is of total mass below 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpassay.privacy.fourier.laws import UNIT
from dpassay.privacy.fourier.transform import Parts, cumulant, cut_cumulants
from dpassay.types import FloatArray

_SHARE = 1e-4  # of delta for aliases and for infinite losses each, of epsilon for the smoothing
_RUNG = 2.0  # one line serves while the rough log delta falls by this much
_SLACK = 2.0  # by how much log delta is taken to be below its rough bound, at first
_GAIN = 16.0  # log of the largest term over delta; rounding is some 1e-11 of that term
_LEVELS = np.arange(0.5, 110.0, 2.0)  # -log of the masses at infinity that are tried
_TILTS = np.geomspace(2e-2, 2e3, 100)  # c, times the deviation of the sum
_MAX_POINTS = 1 << 16


@dataclass(frozen=True)
class Plan:
    """The line, the sum on it and the smoothing: what is free to choose."""

    c: float
    step: float
    n: int
    smoothing: float
    level: float


class Line:
    """The integrand on one line: upper bounds on delta near the x that it was made for."""

    def __init__(self, parts: Parts, gaussian: float, plan: Plan, x: float) -> None:
        self.plan, self._x = plan, x
        self._theta = plan.c + 1j * plan.step * np.arange(plan.n)
        square = self._theta * (self._theta + 1)
        smooth = (gaussian + plan.smoothing) / 2
        k, error = cumulant(parts, plan.c, plan.step, plan.n)
        exponent = k + smooth * square - self._theta * x
        log_weight = np.log(plan.step / math.pi / np.abs(square))
        error += 16 * UNIT * (np.abs(k) + np.abs(self._theta * x) + smooth * np.abs(square))
        self._terms = np.exp(exponent) * (plan.step / math.pi) / square
        self._terms[0] /= 2  # f(-t) is the conjugate of f(t): twice the real part, but once at 0
        self.rounding = self._lost(exponent.real + log_weight, error)
        end = (plan.n - 1) * plan.step
        log_cut = exponent[0].real + error[0] - smooth * end * end
        self.cut = math.exp(min(log_cut, 700.0)) / (math.pi * end)
        self.infinite = (1 + 1e-12) * sum(n * law.infinite for law, n in parts)

    def _lost(self, log_modulus: FloatArray, error: FloatArray) -> float:
        """What rounding may have taken from the sum at x; K's may be anything at tiny terms."""
        sure = np.minimum(error, 1.0)
        factor = np.expm1(sure) + (self.plan.n + 64) * UNIT
        large = np.exp(np.minimum(log_modulus + error, 700.0))
        small = np.exp(np.minimum(log_modulus, 700.0)) * factor
        return float(np.where(error < 1, small, large).sum()) * (1 + 1e-9)

    def delta(self, x: FloatArray) -> FloatArray:
        """An upper bound on delta at each x."""
        away = x - self._x
        waves = np.exp(np.multiply.outer(-away, self._theta))
        moved = np.abs(np.multiply.outer(away, self._theta)) * (16 * UNIT)
        value = (waves @ self._terms).real
        slack = (self.rounding + self.cut) * np.exp(-self.plan.c * away)
        slack += (moved * np.abs(waves)) @ np.abs(self._terms)
        return (value + slack) * (1 + 1e-12) + self.infinite


class Direction:
    """The composed losses of one direction: upper bounds on its delta, one line for each rung.

    ``make`` gives the laws that leave at most a given mass at infinity, all steps together;
    ``gaussian`` is Σ mu² of plain Gaussian releases.
    """

    def __init__(self, make: Callable[[float], Parts], gaussian: float = 0.0) -> None:
        self._make, self._gaussian = make, gaussian
        self._lines: dict[int, Line] = {}

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """Arguments c, and K(c) for each level of mass at infinity."""
        parts = self._make(math.exp(-_LEVELS[-1]))
        variance = sum(n * float(law.masses @ np.square(law.losses)) for law, n in parts)
        c = _TILTS / math.sqrt(variance + self._gaussian)
        k = cut_cumulants(parts, c, np.exp(-_LEVELS)) + self._gaussian / 2 * c * (c + 1)
        return c, k

    @cached_property
    def _chernoff(self) -> FloatArray:
        """log of E e^{cL} max_y (1 - e^-y) e^{-cy}, the maximum being c^c / (1+c)^(1+c)."""
        c, k = self._table
        return k + c * np.log(c) - (1 + c) * np.log1p(c)

    def _rough(self, x: FloatArray, level: int | None = None) -> FloatArray:
        """log delta but for a small factor: Chernoff's bound plus the mass at infinity, at best.

        With a level, for the finite part of the laws that are cut there.
        """
        c, _ = self._table
        finite = (self._chernoff[None, :level] - x[:, None, None] * c).min(axis=2)
        infinite = -_LEVELS[:level].copy()
        if level is not None:
            infinite[-1] = -np.inf
        return np.maximum(finite, infinite).min(axis=1)

    def rough_epsilon(self, log_delta: float) -> float:
        """The x at which the rough log delta is this: the answer's order of magnitude."""
        c, _ = self._table
        use = -_LEVELS <= log_delta
        return max(float(((self._chernoff[use] - log_delta) / c).min()), 0.0)

    def rung(self, x: FloatArray) -> FloatArray:
        """Which line serves each x."""
        return np.maximum(-self._rough(x) / _RUNG, 0).astype(int)

    def line(self, rung: int) -> Line:
        """The line of a rung, made when it is first asked for."""
        if rung not in self._lines:
            self._lines[rung] = self._new_line(rung)
        return self._lines[rung]

    def _new_line(self, rung: int) -> Line:
        low, high = (self.rough_epsilon(-_RUNG * k) for k in (rung, rung + 1))
        floor = -_RUNG * (rung + 1) - _SLACK
        for _ in range(3):
            plan = self._plan(low, high, floor)
            line = Line(self._make(math.exp(-plan.level)), self._gaussian, plan, (low + high) / 2)
            seen = math.log(line.delta(np.array([high]))[0])
            if seen > floor - 1:
                break
            floor = seen - 1
        return line

    def _plan(self, low: float, high: float, floor: float) -> Plan:
        """The cheapest sum of which aliases and what is cut off are small beside e^floor."""
        c, table = self._table
        small = floor + math.log(_SHARE)
        level = min(int(np.searchsorted(_LEVELS, -small)), _LEVELS.size - 1)
        k = table[level]
        slope = float(c[np.argmin(self._chernoff[level] - c * high)])
        smoothing = max(
            2 * _SHARE * max(high, 1 / slope) / (slope + 1) - self._gaussian, 0.0
        )
        smooth = (smoothing + self._gaussian) / 2
        spans = np.geomspace(-small / c[-1], -small / c[0] * 10, 80)
        good = np.multiply.outer(c, spans) >= -small
        for x, delta in ((high, small), (low, small + _RUNG)):
            aliases = self._rough(x + spans, level + 1) + np.multiply.outer(c, spans)
            good &= aliases <= delta
        gain = np.maximum(k + smoothing / 2 * c * (c + 1) - c * low - floor, 0.0)
        good &= (gain < _GAIN)[:, None]
        reach = np.sqrt((gain - math.log(_SHARE)) / smooth)
        reach = np.sqrt(np.maximum(gain - math.log(_SHARE) - np.log(math.pi * reach), 1) / smooth)
        n = np.where(good, np.multiply.outer(reach, spans) / (2 * math.pi) + 2, np.inf)
        i, j = np.unravel_index(np.argmin(n), n.shape)
        if not n[i, j] < _MAX_POINTS:
            raise ValueError(f"no plan: {n[i,j]}")
        step = 2 * math.pi / float(spans[j])
        return Plan(float(c[i]), step, math.ceil(n[i, j]), smoothing, float(_LEVELS[level]))
