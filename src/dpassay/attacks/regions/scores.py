"""Scores of outputs that are learned from many draws: estimates of the log odds of world 1.

Each learner is exact for one kind of mechanism: a table for few values, a sum over columns for
independent entries, one function for all columns where entries are exchangeable, a pattern for
outputs that are part flag and part number. What is exact beats what is flexible: the best region
lies in a tail, where a flexible learner has seen little.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.attacks.regions.views import Draws
from dpassay.types import FloatArray

Score = Callable[[Draws], FloatArray]

_TAILS = np.array([1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2])
_FINE = np.concatenate([_TAILS, np.linspace(0.02, 0.98, 45), 1 - _TAILS[::-1]])
_BINS = {"halves": np.array([0.5]), "octiles": np.linspace(0.125, 0.875, 7), "fine bins": _FINE}
_EXACT_BINS = 64  # distinct values up to which every value is a bin of its own
_ATOM = 0.005  # a value with this share of a column is a bin of its own
_CUT_SAMPLE = 50_000  # rows from which cuts are read off; the counts use all
_MOST_ROWS_OF_TABLE, _TABLE_SAMPLE = 20_000, 100_000
_PATTERN_ROWS, _MANY_ROWS = 3000, 30_000
_BOOSTING_ROWS = 300_000
_SAME = 1e-3  # columns whose two histograms agree at this p-value say nothing


def cuts_of(values: FloatArray, quantiles: FloatArray) -> FloatArray:
    """Where to cut a column: between all its values if they are few, else at its quantiles.

    Values that occur often get a bin of their own.
    """
    distinct, counts = np.unique(values[:_CUT_SAMPLE], return_counts=True)
    if distinct.size <= _EXACT_BINS:
        return distinct[1:]
    atoms = distinct[counts >= _ATOM * counts.sum()]
    cuts = np.concatenate([np.quantile(values, quantiles), atoms, np.nextafter(atoms, np.inf)])
    return np.unique(cuts)


def _log_ratio(ones: Any, zeros: Any) -> Any:
    """The log ratio of counts in the two worlds; the half keeps that of an empty bin finite."""
    return np.log((ones + 0.5) / (zeros + 0.5))


@dataclass(frozen=True)
class Column:
    """A function of one column that is constant between cuts.

    Attributes:
        cuts: where its value changes.
        heights: one more than cuts.
        speaks: whether the two worlds differ in this column by more than chance.

    """

    cuts: FloatArray
    heights: FloatArray
    speaks: bool = True

    def __call__(self, values: FloatArray) -> FloatArray:
        return self.heights[np.searchsorted(self.cuts, values, side="right")]


_SILENT = Column(np.empty(0), np.zeros(1), speaks=False)


def fit_column(values: FloatArray, worlds: Any, quantiles: FloatArray) -> Column:
    """The log ratio of the two worlds' counts between the cuts."""
    cuts = cuts_of(values, quantiles)
    bins = np.searchsorted(cuts, values, side="right")
    both = np.bincount(bins * 2 + worlds, minlength=2 * (cuts.size + 1)).reshape(-1, 2)
    zeros, ones = both.T.astype(float)
    return Column(cuts, _log_ratio(ones, zeros), _differ(ones, zeros))


def _differ(ones: FloatArray, zeros: FloatArray) -> bool:
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
class Additive:
    """Functions of the columns, or of the differences of neighbouring columns."""

    columns: tuple[Column, ...]
    of_differences: bool = False

    def parts(self, draws: Draws) -> FloatArray:
        """The value of each function, a column each."""
        return draws.kept(self, lambda: self._parts(draws))

    def _parts(self, draws: Draws) -> FloatArray:
        seen = draws.differences if self.of_differences else draws.rows
        return np.column_stack([column(seen[:, j]) for j, column in enumerate(self.columns)])

    def __call__(self, draws: Draws) -> FloatArray:
        return self.parts(draws).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Weighted:
    """A weighted sum of the parts of an additive score; weights of 0 leave columns out."""

    base: Additive
    weights: FloatArray

    def __call__(self, draws: Draws) -> FloatArray:
        return self.base.parts(draws) @ self.weights


@dataclass(frozen=True)
class Single:
    """One feature as it is: tails in one dimension need its full resolution."""

    column: int

    def __call__(self, draws: Draws) -> FloatArray:
        return draws.column(self.column)


_MULTIPLIERS = np.random.default_rng(20260101).integers(0, 2**63, 4096, dtype=np.uint64) * 2 + 1


def hashes(rows: FloatArray) -> FloatArray:
    """A number for each row, equal for rows of equal bits (after adding 0.0, which drops -0.0)."""
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)
    mixed = bits ^ (bits >> np.uint64(32))
    with np.errstate(over="ignore"):
        total = (mixed * _MULTIPLIERS[: rows.shape[1]]).sum(axis=1, dtype=np.uint64)
        return (total ^ (total >> np.uint64(29))) * _MULTIPLIERS[-1]


@dataclass(frozen=True, eq=False)
class Table:
    """The log ratio of how often a whole row was seen in each world; 0 for an unseen one."""

    keys: FloatArray
    heights: FloatArray

    def of(self, keys: FloatArray) -> FloatArray:
        """The scores of rows with these hashes."""
        place = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return np.where(self.keys[place] == keys, self.heights[place], 0.0)

    def __call__(self, draws: Draws) -> FloatArray:
        return self.of(hashes(draws.rows))


def fit_table(keys: FloatArray, worlds: Any) -> Table | None:
    """A table of hashed rows, if they repeat enough to be counted."""
    if np.unique(keys[:_TABLE_SAMPLE]).size > _MOST_ROWS_OF_TABLE:
        return None
    found, places = np.unique(keys, return_inverse=True)
    both = np.bincount(places * 2 + worlds, minlength=2 * found.size).reshape(-1, 2)
    return Table(found, _log_ratio(both[:, 1], both[:, 0]))


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which entries are flags, by a table, and the others by a sum within each pattern."""

    table: Table
    within: dict[int, tuple[Column, ...]]

    def __call__(self, draws: Draws) -> FloatArray:
        keys = hashes(_pattern(draws))
        score = self.table.of(keys)
        for key, columns in self.within.items():
            at = np.flatnonzero(keys == np.uint64(key))
            for j, column in enumerate(columns):
                if column.speaks:
                    score[at] += column(draws.rows[at, j])
        return score


def _pattern(draws: Draws) -> FloatArray:
    """Flags as they are, everything else as one value."""
    return np.where(np.isin(draws.rows, draws.flags), draws.rows, np.inf)


def fit_pattern(draws: Draws, worlds: Any) -> Pattern | None:
    """A pattern score, where rows have both flags and other entries."""
    plain = ~np.isin(draws.rows[:_TABLE_SAMPLE], draws.flags)
    if not draws.flags.size or not plain.any() or plain.all():
        return None
    keys = hashes(_pattern(draws))
    table = fit_table(keys, worlds)
    if table is None:
        return None
    found, counts = np.unique(keys, return_counts=True)
    within = {
        int(key): _columns_within(draws, worlds, np.flatnonzero(keys == key))
        for key in found[counts >= _PATTERN_ROWS]
    }
    return Pattern(table, within)


def _columns_within(draws: Draws, worlds: Any, at: Any) -> tuple[Column, ...]:
    """Functions of the entries that are numbers, among rows of one pattern.

    The table has counted the pattern itself: here only the shape of the numbers speaks, so the
    balance of the worlds is taken off.
    """
    bins = _BINS["fine bins" if at.size >= _MANY_ROWS else "octiles"]
    flagged = np.isin(draws.rows[at[0]], draws.flags)
    balance = _log_ratio(float(worlds[at].sum()), float((worlds[at] == 0).sum()))
    fitted = [
        _SILENT if flagged[j] else fit_column(draws.rows[at, j], worlds[at], bins)
        for j in range(flagged.size)
    ]
    return tuple(Column(c.cuts, c.heights - balance, c.speaks) for c in fitted)


def fit_additive(
    draws: Draws, worlds: Any, quantiles: FloatArray, of_differences: bool
) -> Additive:
    """A function of each column, learned by itself."""
    seen = draws.differences if of_differences else draws.rows
    columns = [fit_column(seen[:, j], worlds, quantiles) for j in range(seen.shape[1])]
    return Additive(tuple(columns), of_differences)


def fit_shared(draws: Draws, worlds: Any, quantiles: FloatArray, of_differences: bool) -> Additive:
    """One function for all columns: as many times the data, where entries are exchangeable."""
    seen = draws.differences if of_differences else draws.rows
    column = fit_column(seen.ravel(), np.repeat(worlds, seen.shape[1]), quantiles)
    return Additive((column,) * seen.shape[1], of_differences)


def fit_stack(base: Additive, draws: Draws, worlds: Any) -> Weighted:
    """Weights of the parts of an additive score, by a few Newton steps of logistic regression.

    A small penalty pulls the weights to 1, those of independent columns.
    """
    parts = base.parts(draws)
    design = np.column_stack([parts, np.ones(len(parts))])
    weights = np.append(np.ones(parts.shape[1]), 0.0)
    ridge = 1e-3 * len(parts) * np.diag(np.append(parts.var(axis=0) + 1e-9, 0.0))
    for _ in range(4):
        chances = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (worlds - chances) - ridge @ (weights - 1)
        curvature = (design * (chances * (1 - chances))[:, None]).T @ design + ridge
        weights = weights + np.linalg.lstsq(curvature, slope, rcond=None)[0]
    return Weighted(base, weights[:-1])


@dataclass(frozen=True, eq=False)
class Boosted:
    """Small trees on all features."""

    model: Any

    def __call__(self, draws: Draws) -> FloatArray:
        return np.asarray(self.model.decision_function(draws.features), float)


def fit_boosting(draws: Draws, worlds: Any) -> Boosted:
    """Sixty trees of eight leaves, on at most 300 000 rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    options: dict[str, Any] = {"learning_rate": 0.15, "early_stopping": False, "random_state": 0}
    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, **options)
    model.fit(draws.features[:_BOOSTING_ROWS], worlds[:_BOOSTING_ROWS])
    return Boosted(model)


def candidates(draws: Draws, worlds: Any, boosting: bool = True) -> Iterator[tuple[str, Score]]:
    """Every score that is worth a look, with its name, learned from these draws.

    Args:
        draws: outputs.
        worlds: 1 or 0 for each.
        boosting: whether trees are tried too; they cost most.

    """
    for j in range(draws.features.shape[1]):
        yield f"feature {j}", Single(j)
    table = fit_table(hashes(draws.rows), worlds)
    if table is not None:
        yield "table", table
    if draws.rows.shape[1] == 1:
        yield "histogram", fit_additive(draws, worlds, _FINE, False)
        return
    yield from _sums(draws, worlds)
    pattern = fit_pattern(draws, worlds)
    if pattern is not None:
        yield "pattern", pattern
    if boosting:
        yield "boosting", fit_boosting(draws, worlds)


def _sums(draws: Draws, worlds: Any) -> Iterator[tuple[str, Score]]:
    for of_differences, of_what in ((False, ""), (True, " of differences")):
        for name, quantiles in _BINS.items():
            base = fit_additive(draws, worlds, quantiles, of_differences)
            speaks = np.array([column.speaks for column in base.columns], float)
            yield f"sum of {name}{of_what}", base
            if 0 < speaks.sum() < speaks.size:
                yield f"some {name}{of_what}", Weighted(base, speaks)
            shared = fit_shared(draws, worlds, quantiles, of_differences)
            yield f"shared {name}{of_what}", shared
            if name == "fine bins":
                yield f"stack of {name}{of_what}", fit_stack(base, draws, worlds)
