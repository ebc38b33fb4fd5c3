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
from typing import cast

import numpy as np

from dpassay.privacy.fourier.inversion import Grid, Line, chernoff
from dpassay.privacy.fourier.transform import Parts, cut_cumulants
from dpassay.types import FloatArray

# What a line may cost: this share of delta for aliases, as much for infinite losses, and this share
# of epsilon for the smoothing. The first share for which a line exists is taken. Lower bounds pay
# the square root of it for the smoothing, and little for aliases.
_SHARES = (1e-5, 1e-4, 1e-3, 1e-2)
_LOWER_SHARES, _ALIASES = (1e-7, 1e-6, *_SHARES), 1e-4
_RUNG = 3.0  # how far the rough log delta falls on one rung
_SLACK = 1.5, 2.0  # by how much log delta is below the rough one, as a rule: first guess, floor
_LEVELS = np.arange(0.5, 110.0, 2.0)  # -log of the masses at infinity that are tried
_LAST_RUNG = int(_LEVELS[-1] / _RUNG)  # no line is made for it: its delta is below all levels
_TILTS = np.geomspace(2e-2, 2e3, 100)  # values of c that are tried, over the sum's deviation
_SPANS = 72  # lengths Λ that are tried
_NEGLIGIBLE = 1e-7  # terms at the end of a sum are left out below this share of delta
_ROUNDING = 1e-14  # about what rounding costs of a line's largest term; only compares lines
_MAX_POINTS, _MAX_LOWER_POINTS = 1 << 13, 1 << 18
_TRIES = 3


class Direction:
    """The composed losses of one direction: upper bounds on its delta and epsilon.

    ``make`` gives the laws that leave at most a given mass at infinity, all steps together;
    ``gaussian`` is the sum of mu² of plain Gaussian releases. With ``lower``, lines are made for
    lower bounds, of laws that lie below the true ones.
    """

    def __init__(
        self,
        make: Callable[[float], Parts],
        gaussian: float = 0.0,
        *,
        lower: bool = False,
    ) -> None:
        self._make, self._gaussian = make, gaussian
        self._lower = lower
        self._shares = _LOWER_SHARES if lower else _SHARES
        self._max_points = _MAX_LOWER_POINTS if lower else _MAX_POINTS
        self._lines: dict[int, Line | None] = {}

    def delta(self, x: FloatArray) -> FloatArray:
        """An upper bound on delta at each x >= 0."""
        return self.raise_to_bound(np.zeros_like(x), x)

    def raise_to_bound(self, known: FloatArray, x: FloatArray) -> FloatArray:
        """The larger of ``known`` and an upper bound on delta, at each x >= 0."""
        result, rungs = known.copy(), self._rung(x)
        for rung in np.unique(rungs):
            here = np.flatnonzero(rungs == rung)
            least = float(known[here].min())
            # Chernoff's bound is far cheaper than a line, and often shows that nothing is raised.
            if least == 0 or self.chernoff(float(x[here].min())) > least:
                result[here] = np.maximum(result[here], self._on_rung(int(rung), x[here]))
        return np.clip(result, 0.0, 1.0)

    def _on_rung(self, rung: int, x: FloatArray) -> FloatArray:
        if rung == _LAST_RUNG:  # beyond all rungs, delta is no larger than where they end
            return np.full_like(x, self.chernoff(self._ends(rung)[0]))
        line = self._line(rung)
        if line is None:
            return np.array([self.chernoff(y) for y in x.tolist()])
        pieces = np.array_split(x, x.size * line.grid.n // 10**6 + 1)
        return np.concatenate([line.delta(piece) for piece in pieces])

    def delta_lower(self, x: float) -> float:
        """A lower bound on delta at x, if the laws are below the true ones; 0 without a line."""
        at = np.array([x])
        line = self._line(int(self._rung(at)[0]))
        return float(line.delta_lower(at)[0]) if line else 0.0

    def chernoff(self, x: float) -> float:
        """An upper bound on delta(x) that is far cheaper than a line, and a few times larger."""
        c, _ = self._table
        finite = self._chernoff - x * c
        row = int(np.argmin(np.maximum(finite.min(axis=1), -_LEVELS)))
        tilt = float(c[np.argmin(finite[row])])
        return chernoff(self._make(math.exp(-_LEVELS[row])), self._gaussian, tilt, x)

    def epsilon(self, delta: float) -> float:
        """An x >= 0 with ``self.delta(x) <= delta``, the least but for jumps between rungs."""
        rung, target = max(int((-math.log(delta) - _SLACK[0]) / _RUNG), 0), delta * (1 - 1e-12)
        came_from = None
        if rung >= _LAST_RUNG:
            return math.inf
        while (line := self._line(rung)) is not None:
            low, high = self._ends(rung)
            at_low, at_high = line.delta(np.array([low, high]))
            if at_high <= target < at_low:
                return self._settle(_root(line, target, low, high), delta)
            step = 1 if at_high > target else -1
            if rung + step in (came_from, -1):
                return self._settle(high if step > 0 else low, delta)
            came_from, rung = rung, rung + step
        return self._settle(self._ends(rung)[0], delta)

    def _settle(self, x: float, delta: float) -> float:
        """x, moved up until its own rung agrees that it suffices: by roundings, as a rule."""
        unit = x + 1 / float(self._table[0][0])
        for k in range(64 if math.isfinite(x) else 0):
            moved = x + unit * 1e-15 * (2**k - 1)
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
        """Log of E e^{cL} max_y (1 - e^-y) e^{-cy}, the maximum being c^c / (1+c)^(1+c)."""
        c, k = self._table
        return k + c * np.log(c) - (1 + c) * np.log1p(c)

    def _rough(self, x: FloatArray, level: int | None = None) -> FloatArray:
        """Log delta but for a small factor; with a level, of the finite losses below it alone."""
        c, _ = self._table
        # Lower bounds subtract aliases, and what bounds these is Chernoff at one level.
        rows = slice(level if self._lower else None, None if level is None else level + 1)
        finite = (self._chernoff[None, rows] - x[:, None, None] * c).min(axis=2)
        infinite = -_LEVELS[rows]
        if level is not None:
            infinite[-1] = -np.inf
        return np.maximum(finite, infinite).min(axis=1)

    def _slope(self, x: float) -> float:
        """-d log delta / dx at x, roughly: the c of the rough bound there."""
        c, _ = self._table
        finite = self._chernoff - x * c
        row = np.argmin(np.maximum(finite.min(axis=1), -_LEVELS))
        return float(c[np.argmin(finite[row])])

    def _ends(self, rung: int) -> tuple[float, float]:
        """The x between which a rung's line serves."""
        c, _ = self._table

        def reach(log_delta: float) -> float:
            rows = self._chernoff[log_delta >= -_LEVELS]
            return max(float(((rows - log_delta) / c).min(initial=math.inf)), 0.0)

        return (reach(-_RUNG * rung) if rung else 0.0), reach(-_RUNG * (rung + 1))

    def _rung(self, x: FloatArray) -> FloatArray:
        """Which line serves each x; a hundred at a time, as each needs a table."""
        parts = np.array_split(x, x.size // 100 + 1)
        rough = np.concatenate([self._rough(part) for part in parts])
        return np.clip(-rough / _RUNG, 0, _LAST_RUNG).astype(int)

    def _line(self, rung: int) -> Line | None:
        if rung not in self._lines:
            self._lines[rung] = self._new_line(*self._ends(rung), -_RUNG * (rung + 1) - _SLACK[1])
        return self._lines[rung]

    def _new_line(self, low: float, high: float, floor: float) -> Line | None:
        """A line for all x in [low, high], where log delta is believed to be above ``floor``."""
        line = None
        if not high < math.inf:
            return None
        for _ in range(_TRIES):
            grids = (self._grid(low, high, floor, share) for share in self._shares)
            found = next((grid for grid in grids if grid), None)
            if found is None:
                break
            grid, tail = found
            middle = (low + high) / 2
            # Terms change by e^{c (middle - x)}, so that small ones may grow towards the ends.
            negligible = floor + math.log(_NEGLIGIBLE) - grid.c * (high - low) / 2
            line = Line(self._make(tail), self._gaussian, grid, middle, negligible)
            seen = math.log(line.delta(np.array([high]))[0])
            if seen > floor - 1:
                break
            floor = seen - 1
        return line

    def _grid(
        self, low: float, high: float, floor: float, share: float
    ) -> tuple[Grid, float] | None:
        """The cheapest line whose errors are small beside e^floor, and the mass at infinity."""
        c, table = self._table
        log_share = math.log(max(share, _ALIASES) if self._lower else share)
        small = floor + log_share
        level = min(int(np.searchsorted(_LEVELS, -small)), _LEVELS.size - 1)
        slope = max(self._slope(low), self._slope(high))
        # Smoothing costs m²(slope + 1)/2 in epsilon, and slope times that in log delta.
        wanted = 2 * share * max(high, 1 / slope) / (slope + 1)
        smoothing = max(wanted - self._gaussian, 0.0)
        use = np.isfinite(table[level])
        if not use.any():
            return None
        c, k = c[use], table[level, use] + smoothing / 2 * c[use] * (c[use] + 1)
        spans = np.geomspace(float(-small / c[-1]), float(-20 * small / c[0]), _SPANS)
        gain = np.maximum(k - c * low - floor, 0.0)
        reach = _reach(gain - log_share, smoothing + self._gaussian)
        points = np.multiply.outer(reach, spans) / (2 * math.pi)
        rounding = np.exp(np.minimum(gain, 99.0)) * (_ROUNDING / max(share, _SHARES[0]))
        cost = points * (1 + rounding)[:, None]
        cost[~self._avoids_aliases(c, spans, low, high, small, level)] = math.inf
        i, j = np.unravel_index(np.argmin(cost), cost.shape)
        if not (cost[i, j] < math.inf and points[i, j] < self._max_points):
            return None
        n = math.ceil(points[i, j]) + 2
        grid = Grid(float(c[i]), 2 * math.pi / float(spans[j]), n, smoothing)
        return grid, math.exp(-_LEVELS[level])

    def _avoids_aliases(
        self,
        c: FloatArray,
        spans: FloatArray,
        low: float,
        high: float,
        small: float,
        level: int,
    ) -> FloatArray:
        """For which c and Λ the nearest aliases, e^{-cΛ} and e^{cΛ} delta(x + Λ), are small."""
        grown = np.multiply.outer(c, spans)
        good = grown >= -small
        for x, least in ((high, small), (low, small + _RUNG)):
            good &= self._rough(x + spans, level) + grown <= least
        return good


def _reach(need: FloatArray, smoothing: float) -> FloatArray:
    """The t beyond which the terms of the sum are below e^-need of the largest."""
    first = np.sqrt(2 * need / smoothing)
    return np.sqrt(2 * np.maximum(need - np.log(math.pi * first), 1.0) / smoothing)


def _root(line: Line, delta: float, low: float, high: float) -> float:
    """The x in [low, high] at which the line's delta is ``delta``, or a rounding above it."""

    def excess(x: float) -> float:
        return math.log(line.delta(np.array([x]))[0] / delta)

    from scipy import optimize  # a quarter of a second, which most programs do without

    return cast(float, optimize.brentq(excess, low, high, xtol=1e-14 * high))
