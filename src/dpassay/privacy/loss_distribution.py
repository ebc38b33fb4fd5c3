"""Privacy-loss distributions: discretise upwards, compose by FFT, never fall below the truth.

Discretisation is "connect the dots" (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022): the
profile of an event is sampled at multiples of an interval and joined linearly in e^x, which lies
above it because it is convex in e^x.

Composition convolves. A plain FFT has an absolute error of about 1e-16 in every cell, times the
number of steps: that drowns the tail where small deltas are decided (dp-accounting 0.6 answers
0.84e-12 where the truth is 1e-12 after 10^4 Gaussian steps, and a negative delta at 1e-13). Here
the distribution is first *tilted* (Esscher): with K(t) = log E e^{tL}, the law
e^{tl - K(t)} P(L = l) has its centre where the tail was; it composes like the original, and
dividing the tilt out again leaves an error that is small relative to the tail itself. An upper
bound on the rounding error is added to every cell, and mass outside the window is bounded by
Chernoff and added as well, so that the answer errs upwards, also at deltas of 1e-30.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import fft

from dpassay._special.margins import ARITHMETIC, CLOSED_FORM, UNIT, up
from dpassay._special.search import first_true
from dpassay.privacy.loss_pmf import TAIL, LossPmf
from dpassay.types import FloatArray

_WINDOW_TAIL = 1e-18  # the tilted mass that may lie outside the FFT window
_FFT_CONSTANT = 8.0  # of the bound u * log2(n) on the relative l2 error of one transform
_PRODUCT = 2.24 / _FFT_CONSTANT  # error of a complex product, in units of _FFT_CONSTANT * u
_CERTAIN = 40.0  # e^-40 is below rounding: losses this far above epsilon count in full
_KEPT_TAILS = 6  # tails that a composition keeps; each holds two arrays of the window's length
_MAX_RUNGS = 200
_MAX_TILT = 100.0  # per cell: a larger tilt puts all mass into one cell, and more changes nothing
_STEP = 1.6  # between the tilts that Chernoff's bound is tried with


@dataclass(frozen=True)
class _Rung:
    """A tilt, and where it puts the sum of losses."""

    tilt: float
    cumulant: float
    centre: float
    deviation: float
    error: float = 0.0  # of the cumulant, and of the tilted masses that go with it


class Composition:
    """The sum of independent losses, ``count`` copies of each pmf, all on the same interval."""

    def __init__(self, parts: Sequence[tuple[LossPmf, int]]) -> None:
        self.parts = tuple(parts)
        self.interval = parts[0][0].interval
        log_finite = sum(n * np.log1p(-min(p.infinite, 1.0)) for p, n in parts if p.infinite < 1)
        certain = any(p.infinite >= 1 for p, _ in parts)
        self.infinite = 1.0 if certain else min(float(up(-np.expm1(log_finite))), 1.0)
        self.top = sum(n * float(p.losses[-1]) for p, n in parts)
        self.bottom = sum(n * float(p.losses[0]) for p, n in parts)
        self._rungs = [_Rung(0.0, 0.0, 0.0, 0.0) if certain else self._rung(0.0)]
        self._tails: dict[tuple[int, int], _Tail] = {}

    @property
    def deviation(self) -> float:
        """The standard deviation of the sum's finite part."""
        return self._rungs[0].deviation

    def cumulant(self, tilt: float) -> float:
        """The cumulant K(tilt) of the composed loss: those of its parts add."""
        return sum(n * p.cumulant(tilt) for p, n in self.parts)

    def cumulant_upper(self, tilt: float) -> float:
        """An upper bound on K(tilt) that costs little."""
        cumulants = [(n, p.spread.cumulant(tilt)) for p, n in self.parts]
        return sum(n * (k + CLOSED_FORM * (1 + abs(k))) for n, k in cumulants)

    def delta(self, epsilon: FloatArray) -> FloatArray:
        """An upper bound on the profile at each epsilon >= 0.

        It exceeds that of the sum of *these* pmfs by a share of about 1e-7, and by 1e-9 of the mass
        above epsilon at the most. What rounding losses to the grid has added to them comes on top:
        little where the interval is small beside the deviation of a loss, a factor where it is not.
        """
        result = np.full(epsilon.shape, self.infinite)
        todo = np.flatnonzero(epsilon < self.top)
        if self.infinite >= 1 or todo.size == 0:
            return result
        order = todo[np.argsort(epsilon[todo])]
        rungs = self._rungs_for(epsilon[order])
        for rung in np.unique(rungs):
            here = order[rungs == rung]
            result[here] += self._tail_mass(int(rung), epsilon[here])
        return np.minimum(result, 1.0)

    def delta_untilted(self, epsilon: FloatArray) -> FloatArray:
        """An upper bound on the profile that errs by about 1e-15 and costs one transform in all.

        ``delta`` also keeps the digits of tiny values; where these do not matter, this is faster.
        """
        if self.infinite >= 1:
            return np.ones(epsilon.shape)
        return np.minimum(self.infinite + self._tail(0).delta(epsilon), 1.0)

    def epsilon(self, delta: FloatArray, floor: FloatArray) -> FloatArray:
        """An upper bound on the least epsilon, ``floor`` or more, of which the profile is delta.

        ``delta`` of what is returned was seen to be at most delta, or is so by Chernoff; inf where
        no epsilon is. Chernoff's answer is a little too large: from there tilts are walked down,
        each composed once for all that ends there.
        """
        result = np.maximum(self.reach(delta), floor)
        todo = np.flatnonzero(np.isfinite(result) & (result > floor))
        # A floor is another direction's answer, and most often this one's too.
        known = todo[floor[todo] > 0]
        done = known[self.delta(floor[known]) <= delta[known]]
        result[done] = floor[done]
        todo = np.setdiff1d(todo, done)
        rungs = np.zeros(delta.shape, int)
        order = todo[np.argsort(result[todo])]
        rungs[order] = self._rungs_for(result[order]) if order.size else 0
        edges = self._edges()
        for rung in range(int(rungs.max(initial=-1)), -1, -1):
            here = todo[rungs[todo] >= rung]
            low = np.maximum(edges[rung], floor[here])
            result[here] = self._solve(rung, delta[here], low, result[here])
            todo = np.setdiff1d(todo, here[(result[here] > low) | (low == floor[here])])
            if not todo.size:
                break
        return result

    def _solve(self, rung: int, delta: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """The least epsilon in [low, high] that one tilt sees to fit; ``high`` fits."""
        if not low.size:
            return high

        def fits(epsilon: FloatArray) -> FloatArray:
            return self.infinite + self._tail_mass(rung, epsilon) <= delta

        return first_true(fits, np.minimum(low, high), high, most=60)

    def delta_lower(self, epsilon: float) -> float:
        """A lower bound on the profile of the sum of *these* pmfs; epsilon may be negative.

        It bounds a mechanism from below if each of its losses was rounded down.
        """
        if epsilon >= self.top:
            return 0.0
        rung = int(self._rungs_for(np.array([epsilon]))[0])
        return self._tail(rung, -1).delta_lower(epsilon)

    def _tail_mass(self, rung: int, epsilon: FloatArray) -> FloatArray:
        """The finite part's delta: composed, or Chernoff's bound where that is below TAIL."""
        here = self._rungs[rung]
        with np.errstate(under="ignore", over="ignore"):
            chernoff = up(np.exp(here.cumulant + here.error - here.tilt * epsilon), ARITHMETIC)
        close = chernoff > TAIL
        if close.any():
            chernoff[close] = self._tail(rung).delta(epsilon[close])
        return chernoff

    def pmf(self) -> LossPmf:
        """The law of the sum where it has mass above 1e-18 or so, errors of rounding added."""
        low, high = _window(self, self._rungs[0])
        first = int(np.floor(low / self.interval))
        cells = int(np.ceil(high / self.interval)) - first + 1
        return LossPmf(self.interval, first, _convolve(self.parts, first, cells), self.infinite)

    def reach(self, delta: FloatArray) -> FloatArray:
        """Epsilons at which the profile is certainly at most delta (Chernoff); may be inf."""
        left = np.asarray(delta, float) - self.infinite
        if not np.any(left > 0):
            return np.full(left.shape, np.inf)
        tilts, cumulants = self._chernoff
        with np.errstate(divide="ignore"):
            need = -np.log(np.maximum(left, 0.0))
        best = ((cumulants + need[..., None]) / tilts).min(axis=-1)
        return np.where(left > 0, np.clip(best, 0.0, max(self.top, 0.0)), np.inf)

    @cached_property
    def _chernoff(self) -> tuple[FloatArray, FloatArray]:
        """Tilts, from one fit for rare large losses to one fit for the centre, and cumulants."""
        tilts = np.geomspace(1e-4, 25, 24) / max(self.deviation, self.interval)
        return tilts, np.array([self.cumulant_upper(t) for t in tilts])

    def _rungs_for(self, epsilon: FloatArray) -> FloatArray:
        """The tilt whose centre is nearest to each epsilon (sorted)."""
        while self._rungs[-1].centre < epsilon[-1] and len(self._rungs) < _MAX_RUNGS:
            rung = self._next_rung(self._rungs[-1])
            if rung is None:
                break
            self._rungs.append(rung)
            if rung.cumulant - rung.tilt * rung.centre < np.log(TAIL):
                break
        return np.searchsorted(self._edges()[1:], epsilon)

    def _edges(self) -> FloatArray:
        """The least epsilon of each rung: half way between two centres."""
        centres = np.array([rung.centre for rung in self._rungs])
        return np.insert((centres[1:] + centres[:-1]) / 2, 0, 0.0)

    def _next_rung(self, rung: "_Rung") -> "_Rung | None":
        """A tilt that moves the centre on by 1 to 2.5 deviations; none at the very end.

        By the smaller of the two: a tilted law may be far narrower than the one before, which its
        window would then not meet.
        """
        low, high, most = rung.tilt, np.inf, _MAX_TILT / self.interval
        near = rung.tilt + 1.75 / rung.deviation if rung.deviation > 0 else np.inf
        # Rare losses may be many deviations away, for which a smaller tilt is enough.
        tilt = min(near, (rung.tilt + most) / 2) if np.isfinite(near) else np.inf
        while tilt < most:
            found = self._rung(tilt)
            least = max(min(found.deviation, rung.deviation), 1e-9 * rung.deviation)
            moved = (found.centre - rung.centre) / least
            if 1.0 <= moved <= 2.5:
                return found
            low, high = (tilt, high) if moved < 1.0 else (low, tilt)
            tilt = (low + high) / 2 if np.isfinite(high) else low + 2 * (low - rung.tilt)
        return None

    def _rung(self, tilt: float) -> "_Rung":
        moments = [(n, *p.tilt_by(tilt).moments()) for p, n in self.parts]
        variance = sum(n * v for n, _, v in moments)
        centre = sum(n * m for n, m, _ in moments)
        cumulants = [(n, p.cumulant(tilt)) for p, n in self.parts]
        # Each of the n copies brings the rounding of its cumulant and that of its tilted masses.
        error = sum(n * CLOSED_FORM * (1 + abs(k)) for n, k in cumulants)
        total = sum(n * k for n, k in cumulants)
        return _Rung(tilt, total, centre, float(np.sqrt(variance)), error)

    def _tail(self, rung: int, sign: int = 1) -> "_Tail":
        """The tail sums under one tilt of the ladder, rounded up (sign=1) or down (sign=-1)."""
        key = rung, sign
        if key not in self._tails:
            if len(self._tails) == _KEPT_TAILS:
                self._tails.pop(next(iter(self._tails)))
            self._tails[key] = _Tail(self, self._rungs[rung], sign)
        return self._tails[key]


class _Tail:
    """The composed distribution seen through one tilt: suffix sums for delta near its centre."""

    def __init__(self, composition: Composition, rung: _Rung, sign: int = 1) -> None:
        h, tilt, centre = composition.interval, rung.tilt, rung.centre
        low, high = _window(composition, rung)
        self.first = int(np.floor(low / h))
        cells = int(np.ceil(high / h)) - self.first + 1
        parts = [(p.tilt_by(tilt), n) for p, n in composition.parts]
        pmf = _convolve(parts, self.first, cells, sign)
        losses = (self.first + np.arange(cells)) * h
        self.h, self.tilt, self.centre = h, tilt, centre
        # Undo the tilt, relative to the centre; times e^log_scale: sums of P and of e^-loss P.
        with np.errstate(over="ignore", under="ignore"):
            some = pmf > 0  # elsewhere the factor may be infinite
            self.above, self.below = (
                _suffix_sum(pmf * np.exp(-t * (losses - centre), where=some, out=np.zeros(cells)))
                for t in (tilt, tilt + 1)
            )
            outside = 0.0 if high >= composition.top else _WINDOW_TAIL
            self.beyond = outside * float(np.exp(-tilt * (losses[-1] - centre)))
        self.low = low if low > composition.bottom else -np.inf
        # Sums of so many positive terms, each an exponential with an exponent below 700.
        self.rounding = 4 * UNIT * (cells + 2000)
        self.log_scale = rung.cumulant - tilt * centre
        size = abs(rung.cumulant) + abs(tilt * centre) + 1000
        self.log_scale += sign * (rung.error + 16 * UNIT * size)

    def delta(self, epsilon: FloatArray) -> FloatArray:
        """Sum over losses above epsilon of (1 - e^{epsilon - loss}) P(loss)."""
        k = np.clip(np.floor(epsilon / self.h).astype(np.int64) + 1 - self.first, 0, None)
        k = np.minimum(k, self.above.size - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.above[k] - np.exp(epsilon - self.centre) * self.below[k]
            # Below the window there is little tilted mass, but the tilt makes little of much.
            under = _WINDOW_TAIL * np.exp(-self.tilt * (epsilon - self.centre))
        # Where the two sums agree to rounding, the first one alone is still an upper bound.
        value = np.where(np.isfinite(value), value, self.above[k])
        value = np.maximum(value, 0.0) + self.rounding * self.above[k] + self.beyond
        value = value + np.where(epsilon < self.low, under, 0.0)
        with np.errstate(divide="ignore", under="ignore"):
            return np.exp(np.minimum(self.log_scale + np.log(value), 0.0))

    def delta_lower(self, epsilon: float) -> float:
        """The same from below, for a tail that was rounded down."""
        above, below = (sums[self._after(epsilon, sums)] for sums in (self.above, self.below))
        far = self.above[self._after(epsilon + _CERTAIN, self.above)]
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            # What lies outside the window was folded into it, at most to where it counts most.
            folded = 2 * _WINDOW_TAIL * np.exp(-self.tilt * (epsilon - self.centre))
            # Far below the centre the second sum is infinite; the far losses are then all.
            value = np.fmax(above - np.exp(epsilon - self.centre) * below, far)
            value = value - self.rounding * above - folded
            return float(np.exp(self.log_scale) * value) if value > 0 else 0.0

    def _after(self, loss: float, sums: FloatArray) -> int:
        """The place of the first loss above this one."""
        return min(max(int(np.floor(loss / self.h)) + 1 - self.first, 0), sums.size - 1)


def _suffix_sum(values: FloatArray) -> FloatArray:
    return np.concatenate([np.cumsum(values[::-1])[::-1], [0.0]])


def _window(composition: Composition, rung: _Rung) -> tuple[float, float]:
    """An interval outside which the tilted sum has mass below _WINDOW_TAIL (Chernoff)."""
    need = -np.log(_WINDOW_TAIL) - rung.cumulant
    guess = np.sqrt(-2 * np.log(_WINDOW_TAIL)) / max(rung.deviation, composition.interval)

    def end(side: int) -> float:
        def bound(t: float) -> float:
            return (composition.cumulant_upper(rung.tilt + side * t) + need) / t

        return side * _least(bound, guess, composition.interval)

    return max(end(-1), composition.bottom), min(end(1), composition.top)


def _least(bound: Callable[[float], float], t: float, tolerance: float) -> float:
    """The least value of a bound that falls, then rises, in t; about, from a first guess of t."""
    best = bound(t)
    for factor in (1 / _STEP, _STEP):
        while (value := bound(t * factor)) < best - tolerance:
            t, best = t * factor, value
    return best


def _convolve(
    parts: Sequence[tuple[LossPmf, int]], first: int, cells: int, sign: int = 1
) -> FloatArray:
    """The composed pmf on ``cells`` cells from ``first``, rounded up (sign 1) or down (-1).

    That is by a bound on the error of every cell.

    Circular: mass outside the window is folded into it, which only adds. Writing F for the
    transform of one part, a relative l2 error e of each transform moves F^n by at most
    n |F|^(n-1) |F - F̂|, hence by Cauchy and Schwarz every cell by at most
    n e ||pmf||_2 ||result||_2, and the inverse by e ||result||_2 more. F^n itself is made of
    products, each with a relative error of sqrt(5) u (Brent, Percival and Zimmermann 2007): n of
    them in effect, which is n sqrt(5) u ||result||_2 by Parseval.
    """
    if sum(count for _, count in parts) == 1:
        return _on_window(parts[0][0], first, cells)
    size = int(fft.next_fast_len(cells, real=True) or cells)
    spectrum: Any = 1.0
    origin, drift, log_size = 0, 1.0, float(np.log2(max(size, 2)))
    for pmf, count in parts:
        folded = np.zeros(size)
        for start in range(0, pmf.probs.size, size):
            chunk = pmf.probs[start : start + size]
            folded[: chunk.size] += chunk
        transform: Any = fft.rfft(folded)
        spectrum = spectrum * _power(transform, count)
        origin += count * pmf.first
        drift += count * (float(np.linalg.norm(folded)) + _PRODUCT / log_size)
    circle: Any = fft.irfft(spectrum, size)
    result = np.roll(circle, origin - first)[:cells]
    unit = _FFT_CONSTANT * UNIT * log_size
    error = unit * drift * float(np.linalg.norm(result))
    return np.maximum(np.maximum(result, 0.0) + sign * error, 0.0)


def _on_window(pmf: LossPmf, first: int, cells: int) -> FloatArray:
    """A single pmf on the window, which it may exceed: what is outside is bounded elsewhere."""
    result = np.zeros(cells)
    low, high = max(first, pmf.first), min(first + cells, pmf.first + pmf.probs.size)
    result[low - first : high - first] = pmf.probs[low - pmf.first : high - pmf.first]
    return result


def _power(base: Any, count: int) -> Any:
    """base^count by squaring: NumPy's own power of complex numbers takes many times as long."""
    result: Any = 1.0
    while count:
        if count & 1:
            result = result * base
        count >>= 1
        base = base * base if count else base
    return result
