"""Scores that add up functions of single columns, each constant between cuts.

Columns are cut once, finely. Coarser functions, one function for all columns, those that leave
columns out and weighted ones are other heights on the same cuts, so that outputs are looked up once
for all of these scores.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay._threads import limit_threads
from dpassay.attacks.regions.views import Draws
from dpassay.types import FloatArray

_TAILS = np.array([1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2])
FINE = np.concatenate([_TAILS, np.linspace(0.02, 0.98, 45), 1 - _TAILS[::-1]])
# Quantiles between which neighbouring fine bins are taken together.
COARSE = {
    "coarse bins": np.array([0.02, 0.05, *np.linspace(0.125, 0.875, 7), 0.95, 0.98]),
    "halves": np.array([0.5]),
}
_EXACT_BINS = 64  # distinct values up to which every value is a bin of its own
_ATOM = 0.005  # a value with this share of a column is a bin of its own
_FEWEST = 100  # values beyond an outermost cut: with fewer, a height would be noise
_CUT_SAMPLE = 50_000  # rows from which cuts are read off; the counts use all
_STACKED_ROWS = 100_000
_SAME = 1e-3  # columns whose two histograms agree at this p-value say nothing


def cuts_of(values: FloatArray, quantiles: FloatArray) -> FloatArray:
    """Where to cut a column: between all its values if they are few, else at its quantiles.

    Values that occur often get a bin of their own; the quantiles are those of the others.
    """
    distinct, counts = np.unique(values[:_CUT_SAMPLE], return_counts=True)
    if distinct.size <= _EXACT_BINS:
        return distinct[1:]
    atoms = distinct[counts >= _ATOM * counts.sum()]
    others = np.sort(values[~np.isin(values, atoms)] if atoms.size else values)
    inner = quantiles[np.minimum(quantiles, 1 - quantiles) * others.size >= _FEWEST]
    at = others[(inner * (others.size - 1)).astype(int)]
    return np.unique(np.concatenate([at, atoms, np.nextafter(atoms, np.inf)]))


def log_ratio_of(ones: Any, zeros: Any) -> Any:
    """The log ratio of counts in the two worlds; the half keeps that of an empty bin finite."""
    return np.log((ones + 0.5) / (zeros + 0.5))


def heights_of(
    ones: FloatArray, zeros: FloatArray, balance: float | FloatArray | None = None
) -> FloatArray:
    """Log ratios of a column's bins, each drawn towards 0 as far as it may be noise.

    Empirical Bayes: the true log ratios of a column are taken as normal around 0. A sum over many
    columns that say little would otherwise be a sum of noise. ``balance`` is taken off first: by
    default the log ratio of all bins together. It says how the coins fell, not what an output
    says; added up over columns it would shift a score, and no threshold that one fold has found
    would fit the scores of the other.
    """
    if balance is None:
        balance = log_ratio_of(ones.sum(), zeros.sum())
    seen, noise = log_ratio_of(ones, zeros) - balance, 1 / (ones + 0.5) + 1 / (zeros + 0.5)
    true = _variance_beyond(seen, noise)
    return seen * true / (true + noise)


def heights_around_halves(ones: FloatArray, zeros: FloatArray, balance: float) -> FloatArray:
    """Heights of a column's bins around those of its two halves.

    What both halves say is known from many draws. Each bin adds to it what its own draws say
    beyond noise: many bins that say the same little would all be drawn towards 0 by themselves.
    """
    total = ones + zeros
    upper = (np.cumsum(total) - total / 2 > total.sum() / 2).astype(int)
    halves = heights_of(np.bincount(upper, ones), np.bincount(upper, zeros), balance)
    return halves[upper] + heights_of(ones, zeros, balance + halves[upper])


def _variance_beyond(seen: FloatArray, noise: FloatArray) -> float:
    """The variance of values around 0 beyond that of their noise (Paule and Mandel 1982).

    It solves sum(seen^2 / (v + noise)) = number of values, whose left side falls in v; 0 if noise
    alone explains them. 2^-20 of the range is precise enough: what follows is an estimate.
    """
    low, high = 0.0, float((seen**2).max(initial=0.0))
    for _ in range(20):
        middle = (low + high) / 2
        excess = (seen**2 / (middle + noise)).sum() > seen.size
        low, high = (middle, high) if excess else (low, middle)
    return low


def count_bins(cuts: FloatArray, values: FloatArray, worlds: Any) -> tuple[FloatArray, FloatArray]:
    """How many values of world 0 and of world 1 are in each bin."""
    bins = np.searchsorted(cuts, values, side="right")
    both = np.bincount(bins * 2 + worlds, minlength=2 * (cuts.size + 1)).reshape(-1, 2)
    return both[:, 0].astype(float), both[:, 1].astype(float)


def differ(zeros: FloatArray, ones: FloatArray) -> bool:
    """Whether two histograms differ by more than chance, by the chi-squared test."""
    from scipy.special import chdtrc

    total = ones + zeros
    share, used = ones.sum() / total.sum(), total > 0
    if not 0 < share < 1:
        return False
    expected = total[used] * share
    statistic = ((ones[used] - expected) ** 2 / (expected * (1 - share))).sum()
    return bool(chdtrc(max(used.sum() - 1, 1), statistic) <= _SAME)


@dataclass(frozen=True, eq=False)
class Binning:
    """Cuts of every column, or of the differences of neighbouring columns."""

    cuts: tuple[FloatArray, ...]
    of_differences: bool

    def codes(self, draws: Draws, j: int) -> Any:
        """The bin of each value of a column."""
        return draws.keep((self, j), lambda: self._codes(draws, j))

    def _codes(self, draws: Draws, j: int) -> Any:
        seen = draws.differences if self.of_differences else draws.columns
        kind = np.uint8 if self.cuts[j].size < 256 else np.uint16
        return np.searchsorted(self.cuts[j], seen[j], side="right").astype(kind)


@dataclass(frozen=True, eq=False)
class Additive:
    """The sum of a function of each column.

    Attributes:
        binning: where the functions change.
        heights: their values in the bins of each column; None for a column that is left out.

    """

    binning: Binning
    heights: tuple[FloatArray | None, ...]

    def part(self, draws: Draws, j: int) -> FloatArray:
        """The function of one column."""
        height = self.heights[j]
        return np.zeros(len(draws)) if height is None else height[self.binning.codes(draws, j)]

    def __call__(self, draws: Draws) -> FloatArray:
        total = np.zeros(len(draws))
        for j, height in enumerate(self.heights):
            if height is not None:
                total += self.part(draws, j)
        return total

    def compact(self) -> "Additive":
        """The same function with no cuts but those at which it changes."""
        cuts, heights = list(self.binning.cuts), list(self.heights)
        for j, height in enumerate(self.heights):
            if height is not None:
                moves = np.flatnonzero(np.diff(height) != 0)
                cuts[j], heights[j] = cuts[j][moves], height[np.append(moves, height.size - 1)]
        return Additive(Binning(tuple(cuts), self.binning.of_differences), tuple(heights))


@dataclass(frozen=True, eq=False)
class _Counts:
    """Both worlds' counts in the bins of every column; shared bins have the same in all."""

    binning: Binning
    zeros: tuple[FloatArray, ...]
    ones: tuple[FloatArray, ...]

    def fine(self) -> Additive:
        pairs = zip(self.ones, self.zeros, strict=True)
        return Additive(self.binning, tuple(heights_of(a, b) for a, b in pairs))

    def coarse(self, quantiles: FloatArray) -> Additive:
        bins = zip(self.ones, self.zeros, self.binning.cuts, strict=True)
        return Additive(self.binning, tuple(_coarsen(*each, quantiles) for each in bins))

    @property
    def speak(self) -> list[bool]:
        """Which columns differ between the worlds by more than chance."""
        return [differ(a, b) for a, b in zip(self.zeros, self.ones, strict=True)]


def _coarsen(
    ones: FloatArray, zeros: FloatArray, cuts: FloatArray, quantiles: FloatArray
) -> FloatArray:
    """Heights that are equal in all fine bins between two quantiles; few bins stay as they are.

    So do values that have a bin of their own: the quantiles are those of the others.
    """
    if ones.size <= _EXACT_BINS // 2 or ones.size <= quantiles.size + 1:
        return heights_of(ones, zeros)
    atoms = np.zeros(ones.size, bool)
    atoms[1:-1] = cuts[1:] == np.nextafter(cuts[:-1], np.inf)
    others = np.where(atoms, 0.0, ones + zeros)
    reached = np.cumsum(others) / max(others.sum(), 1)
    middle = np.concatenate([[0.0], reached[:-1]]) / 2 + reached / 2
    group = np.searchsorted(quantiles, middle)
    group[atoms] = quantiles.size + 1 + np.arange(atoms.sum())
    return heights_of(np.bincount(group, ones), np.bincount(group, zeros))[group]


def count_columns(draws: Draws, worlds: Any, of_differences: bool) -> _Counts:
    """Counts in the bins of each column by itself."""
    return draws.keep(("own", of_differences), lambda: _count_own(draws, worlds, of_differences))


def _count_own(draws: Draws, worlds: Any, of_differences: bool) -> _Counts:
    seen = draws.differences if of_differences else draws.columns
    binning = Binning(tuple(cuts_of(column, FINE) for column in seen), of_differences)
    return _count(binning, draws, worlds)


def _count(binning: Binning, draws: Draws, worlds: Any) -> _Counts:
    both = []
    for j, cuts in enumerate(binning.cuts):
        codes = binning.codes(draws, j).astype(np.intp)
        both.append(np.bincount(codes * 2 + worlds, minlength=2 * (cuts.size + 1)).reshape(-1, 2))
    zeros = tuple(counts[:, 0].astype(float) for counts in both)
    return _Counts(binning, zeros, tuple(counts[:, 1].astype(float) for counts in both))


def count_pooled(draws: Draws, worlds: Any, of_differences: bool) -> _Counts:
    """Counts of all columns together in bins that they share.

    One function for all columns has as many times the data, where entries are exchangeable.
    """
    return draws.keep(("pool", of_differences), lambda: _count_pool(draws, worlds, of_differences))


def _count_pool(draws: Draws, worlds: Any, of_differences: bool) -> _Counts:
    seen = draws.differences if of_differences else draws.columns
    cuts = cuts_of(seen.T[:_CUT_SAMPLE].ravel(), FINE)
    counts = _count(Binning((cuts,) * draws.width, of_differences), draws, worlds)
    zeros, ones = (np.sum(side, axis=0) for side in (counts.zeros, counts.ones))
    same = (zeros,) * draws.width, (ones,) * draws.width
    return _Counts(counts.binning, *same)


def leave_out(whole: Additive, speak: list[bool]) -> Additive | None:
    """The sum over the columns that speak; None if none does.

    The noise of the others would split the ties that make up the best region. More draws may make
    more columns speak, in the end all of them.
    """
    if not any(speak):
        return None
    chosen = zip(whole.heights, speak, strict=True)
    return Additive(whole.binning, tuple(height if used else None for height, used in chosen))


def weigh(whole: Additive, draws: Draws, worlds: Any) -> Additive:
    """The sum with weights, by a few Newton steps of logistic regression.

    A small penalty pulls the weights to 1, those of independent columns.
    """
    some, y = draws.first(_STACKED_ROWS), worlds[:_STACKED_ROWS]
    parts = np.column_stack([whole.part(some, j) for j in range(len(whole.heights))])
    design = np.column_stack([parts, np.ones(len(parts))])
    weights = np.append(np.ones(parts.shape[1]), 0.0)
    ridge = 1e-3 * len(parts) * np.diag(np.append(parts.var(axis=0) + 1e-9, 0.0))
    with limit_threads():
        for _ in range(4):
            chances = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
            slope = design.T @ (y - chances) - ridge @ (weights - 1)
            curvature = (design * (chances * (1 - chances))[:, None]).T @ design + ridge
            weights = weights + np.linalg.lstsq(curvature, slope, rcond=None)[0]
    pairs = zip(weights[:-1], whole.heights, strict=True)
    return Additive(whole.binning, tuple(None if h is None else w * h for w, h in pairs))


Fit = Callable[[Draws, Any], Additive | None]


def sums() -> Iterator[tuple[str, Fit]]:
    """Names and fits of all scores that are sums over columns."""
    for of_differences, of_what in ((False, ""), (True, " of differences")):
        yield from _sums_of(of_differences, of_what)


def _sums_of(of_differences: bool, of_what: str) -> Iterator[tuple[str, Fit]]:
    def own(draws: Draws, worlds: Any) -> _Counts:
        return count_columns(draws, worlds, of_differences)

    def pool(draws: Draws, worlds: Any) -> _Counts:
        return count_pooled(draws, worlds, of_differences)

    yield f"sum of fine bins{of_what}", lambda d, w: own(d, w).fine()
    yield f"some fine bins{of_what}", lambda d, w: leave_out(own(d, w).fine(), own(d, w).speak)
    yield f"stack of fine bins{of_what}", lambda d, w: weigh(own(d, w).fine(), d, w)
    yield f"shared fine bins{of_what}", lambda d, w: pool(d, w).fine()
    for name, quantiles in COARSE.items():
        yield f"sum of {name}{of_what}", _coarse(own, quantiles)
        yield f"some {name}{of_what}", _coarse_some(own, quantiles)
        yield f"shared {name}{of_what}", _coarse(pool, quantiles)


def _is_coarser(counts: _Counts, quantiles: FloatArray) -> bool:
    """Whether taking bins together changes a column at all."""
    return any(ones.size > max(_EXACT_BINS // 2, quantiles.size + 1) for ones in counts.ones)


def _coarse(count: Callable[[Draws, Any], _Counts], quantiles: FloatArray) -> Fit:
    def fit(draws: Draws, worlds: Any) -> Additive | None:
        counts = count(draws, worlds)
        return counts.coarse(quantiles) if _is_coarser(counts, quantiles) else None

    return fit


def _coarse_some(count: Callable[[Draws, Any], _Counts], quantiles: FloatArray) -> Fit:
    def fit(draws: Draws, worlds: Any) -> Additive | None:
        counts = count(draws, worlds)
        if not _is_coarser(counts, quantiles):
            return None
        return leave_out(counts.coarse(quantiles), counts.speak)

    return fit
