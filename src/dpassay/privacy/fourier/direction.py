"""Which line for which x: the choice of c, step and smoothing, and one direction's whole curve.

Nothing here is part of a proof: every line gives an upper bound wherever it is asked. A good line
has small aliases beside delta, a small enough gain (the largest term over delta, which multiplies
rounding) and few points. A rough log delta is enough to choose it: Chernoff's bound for the losses
below some level, plus the mass above, whichever level is best. The second part matters where losses
are heavy-tailed, as at tiny sampling rates, where one rare loss decides.

One line serves a *rung*, all x between two values of the rough log delta. Rungs depend on the
events alone, not on what was asked before, so that the same question has the same answer.
"""

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy import optimize

from dpassay.privacy.fourier.inversion import Line, Plan
from dpassay.privacy.fourier.transform import Parts, cut_cumulants
from dpassay.types import FloatArray

_SHARE = 1e-4  # of delta for aliases and for infinite losses each, of epsilon for the smoothing
_RUNG = 4.0  # how far the rough log delta falls on one rung
_SLACK = 2.0  # by how much log delta is below the rough one, as a rule
_LEVELS = np.arange(0.5, 110.0, 2.0)  # -log of the masses at infinity that are tried
_TILTS = np.geomspace(2e-2, 2e3, 100)  # c, times the deviation of the sum
_SPANS = 72  # lengths Λ that are tried
_ROUNDING = 1e-13  # of a line's largest term, about
_MAX_POINTS = 1 << 16
_TRIES = 3


class Direction:
    """The composed losses of one direction: upper bounds on its delta and epsilon.

    ``make`` gives the laws that leave at most a given mass at infinity, all steps together;
    ``gaussian`` is the sum of mu² of plain Gaussian releases.
    """

    def __init__(self, make: Callable[[float], Parts], gaussian: float = 0.0) -> None:
        self._make, self._gaussian = make, gaussian
        self._lines: dict[int, Line | None] = {}

    def delta(self, x: FloatArray) -> FloatArray:
        """An upper bound on delta at each x >= 0."""
        result = np.ones_like(x)
        rungs = self._rung(x)
        for rung in np.unique(rungs):
            here = np.flatnonzero(rungs == rung)
            line = self._line(int(rung))
            for some in np.array_split(here, here.size * (line.plan.n if line else 1) // 10**6 + 1):
                result[some] = line.delta(x[some]) if line else 1.0
        return np.clip(result, 0.0, 1.0)

    def epsilon(self, delta: float) -> float:
        """An x >= 0 with ``self.delta(x) <= delta``, the least but for jumps between rungs."""
        log_delta = math.log(delta)
        rung, seen = max(int((-log_delta - _SLACK) / _RUNG), 0), set()
        while True:
            low, high = self._ends(rung)
            line, target = self._line(rung), delta * (1 - 1e-12)
            if line is None:
                return math.inf
            at_low, at_high = line.delta(np.array([low, high]))
            if at_high > target:
                if rung + 1 in seen:
                    return self._settle(high, delta)
                step = 1
            elif at_low > target:
                return self._settle(_root(line, target, low, high), delta)
            elif rung == 0 or rung - 1 in seen:
                return self._settle(low, delta)
            else:
                step = -1
            seen.add(rung)
            rung += step
            if -_RUNG * rung < -_LEVELS[-1]:
                return math.inf

    def _settle(self, x: float, delta: float) -> float:
        """x, moved up by a few roundings until its own rung agrees that it suffices."""
        for k in range(60):
            moved = x * (1 + 1e-15 * 2**k)
            if self.delta(np.array([moved]))[0] <= delta:
                return moved
        return math.inf

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
        """Log delta but for a small factor; with a level, of the finite losses below it alone."""
        c, _ = self._table
        stop = None if level is None else level + 1
        finite = (self._chernoff[None, :stop] - x[:, None, None] * c).min(axis=2)
        infinite = -_LEVELS[:stop]
        if level is not None:
            infinite[-1] = -np.inf
        return np.maximum(finite, infinite).min(axis=1)

    def _ends(self, rung: int) -> tuple[float, float]:
        """The x between which a rung's line serves."""
        c, _ = self._table

        def reach(log_delta: float) -> float:
            rows = self._chernoff[-_LEVELS <= log_delta]
            return max(float(((rows - log_delta) / c).min(initial=math.inf)), 0.0)

        return (reach(-_RUNG * rung) if rung else 0.0), reach(-_RUNG * (rung + 1))

    def _rung(self, x: FloatArray) -> FloatArray:
        """Which line serves each x; a hundred at a time, as each needs a table."""
        parts = np.array_split(x, x.size // 100 + 1)
        rough = np.concatenate([self._rough(part) for part in parts])
        return np.maximum(-rough / _RUNG, 0).astype(int)

    def _line(self, rung: int) -> Line | None:
        if rung not in self._lines:
            self._lines[rung] = self._new_line(*self._ends(rung), -_RUNG * (rung + 1) - _SLACK)
        return self._lines[rung]

    def _new_line(self, low: float, high: float, floor: float) -> Line | None:
        """A line for all x in [low, high], where log delta is believed to be above ``floor``."""
        line = None
        for _ in range(_TRIES):
            found = self._plan(low, high, floor)
            if found is None:
                break
            plan, tail = found
            line = Line(self._make(tail), self._gaussian, plan, (low + high) / 2)
            seen = math.log(line.delta(np.array([high]))[0])
            if seen > floor - 1:
                break
            floor = seen - 1
        return line

    def _plan(self, low: float, high: float, floor: float) -> tuple[Plan, float] | None:
        """The cheapest line whose errors are small beside e^floor, and the mass at infinity."""
        c, table = self._table
        small = floor + math.log(_SHARE)
        level = min(int(np.searchsorted(_LEVELS, -small)), _LEVELS.size - 1)
        slope = float(c[np.argmin(self._chernoff[level] - c * high)])
        # Smoothing costs m²(slope + 1)/2 in epsilon, and slope times that in log delta.
        wanted = 2 * _SHARE * max(high, 1 / slope) / (slope + 1)
        smoothing = max(wanted - self._gaussian, 0.0)
        use = np.isfinite(table[level])
        c, k = c[use], table[level, use]
        spans = np.geomspace(-small / c[-1], -20 * small / c[0], _SPANS)
        grown = np.multiply.outer(c, spans)
        good = grown >= -small
        for x, least in ((high, small), (low, small + _RUNG)):
            good &= self._rough(x + spans, level) + grown <= least
        gain = np.maximum(k + smoothing / 2 * c * (c + 1) - c * low - floor, 0.0)
        points = np.multiply.outer(_reach(gain, smoothing + self._gaussian), spans) / (2 * math.pi)
        cost = np.where(good, points * (1 + np.exp(np.minimum(gain, 99))[:, None] * _ROUNDING / _SHARE), math.inf)
        i, j = np.unravel_index(np.argmin(cost), cost.shape)
        if not cost[i, j] < _MAX_POINTS:
            return None
        n = math.ceil(points[i, j]) + 2
        plan = Plan(float(c[i]), 2 * math.pi / float(spans[j]), n, smoothing)
        return plan, math.exp(-_LEVELS[level])


def _reach(gain: FloatArray, smoothing: float) -> FloatArray:
    """How far up the line the sum must go for what it leaves out to be small beside delta."""
    need = gain - math.log(_SHARE)
    first = np.sqrt(2 * need / smoothing)
    return np.sqrt(2 * np.maximum(need - np.log(math.pi * first), 1.0) / smoothing)


def _root(line: Line, delta: float, low: float, high: float) -> float:
    """The x in [low, high] at which the line's delta is ``delta``, or a rounding above it."""

    def excess(x: float) -> float:
        return math.log(line.delta(np.array([x]))[0] / delta)

    return float(optimize.brentq(excess, low, high, xtol=1e-14 * high, rtol=1e-14))
