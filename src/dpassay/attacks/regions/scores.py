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

from dpassay._threads import limit_learner_threads
from dpassay.attacks.regions.bins import (
    COARSE,
    count_bins,
    count_columns,
    cuts_of,
    heights_around_halves,
    heights_of,
    log_ratio_of,
    sums,
)
from dpassay.attacks.regions.views import Draws, feature_names
from dpassay.types import FloatArray

Score = Callable[[Draws], FloatArray]
Fit = Callable[[Draws, Any], Score | None]

_MOST_ROWS_OF_TABLE, _TABLE_SAMPLE = 20_000, 100_000
_FEW_OUTPUTS = 64  # distinct outputs up to which nothing says more than their table
_PATTERN_ROWS = 3000
# Rows and trees of a first look, and of boosting that was found worth learning from more.
_FEW_ROWS, _FEW_TREES, _BOOSTING_ROWS, _BOOSTING_TREES = 100_000, 20, 300_000, 60
_FIRST_ROWS = 20_000
BOOSTING, PATTERN = "boosting", "pattern"


@dataclass(frozen=True)
class Single:
    """One feature as it is: tails in one dimension need its full resolution."""

    name: str

    def __call__(self, draws: Draws) -> FloatArray:
        return draws.feature(self.name)


_MULTIPLIERS = np.random.default_rng(20260101).integers(0, 2**63, 4096, dtype=np.uint64) * 2 + 1


def hashes(columns: FloatArray) -> FloatArray:
    """A number for each output, equal for equal bits (after adding 0.0, which drops -0.0).

    ``columns`` has a line for each entry, as :attr:`Draws.columns`.
    """
    total = np.zeros(columns.shape[1], np.uint64)
    with np.errstate(over="ignore"):
        for values, multiplier in zip(columns, _MULTIPLIERS, strict=False):
            bits = (values + 0.0).view(np.uint64)
            total += (bits ^ (bits >> np.uint64(32))) * multiplier
        return (total ^ (total >> np.uint64(29))) * _MULTIPLIERS[-1]


@dataclass(frozen=True, eq=False)
class Table:
    """The log ratio of how often a whole row was seen in each world; 0 for an unseen one."""

    keys: FloatArray
    heights: FloatArray

    def places(self, keys: FloatArray) -> tuple[Any, Any]:
        """Where these hashes stand in the table, and whether they do."""
        place = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return place, self.keys[place] == keys

    def __call__(self, draws: Draws) -> FloatArray:
        place, known = self.places(hashes(draws.columns))
        return np.where(known, self.heights[place], 0.0)


def fit_table(draws: Draws, worlds: Any) -> Table | None:
    """A table of whole outputs, if they repeat enough to be counted."""
    return _table_of(hashes(draws.columns), worlds)


def has_few_outputs(draws: Draws, most: int) -> bool:
    """Whether there are at most so many distinct outputs: those of a first look, then all."""
    first = draws.first(_TABLE_SAMPLE)
    return all(np.unique(hashes(some.columns)).size <= most for some in (first, draws))


def _table_of(keys: FloatArray, worlds: Any) -> Table | None:
    if np.unique(keys[:_TABLE_SAMPLE]).size > _MOST_ROWS_OF_TABLE:
        return None
    found, places = np.unique(keys, return_inverse=True)
    both = np.bincount(places * 2 + worlds, minlength=2 * found.size).reshape(-1, 2)
    return Table(found, log_ratio_of(both[:, 1], both[:, 0]))


@dataclass(frozen=True, eq=False)
class _Column:
    """A function of one column that is constant between cuts."""

    cuts: FloatArray
    heights: FloatArray

    def __call__(self, values: FloatArray) -> FloatArray:
        return self.heights[np.searchsorted(self.cuts, values, side="right")]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which entries are flags, by a table, and the others by a sum within each pattern."""

    table: Table
    within: dict[int, dict[int, _Column]]  # by place in the table, then by column

    def __call__(self, draws: Draws) -> FloatArray:
        place, known = self.table.places(hashes(_pattern(draws)))
        score = np.where(known, self.table.heights[place], 0.0)
        for number, at in _groups(np.where(known, place, self.table.keys.size)):
            for j, column in self.within.get(number, {}).items():
                score[at] += column(draws.columns[j, at])
        return score


def _groups(numbers: Any) -> Iterator[tuple[int, Any]]:
    """The indices at which each number stands."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1) != 0)
    for at in np.split(order, starts[1:]):
        if at.size:
            yield int(numbers[at[0]]), at


def _pattern(draws: Draws) -> FloatArray:
    """Flags as they are, everything else as one value."""
    return np.where(draws.plain, np.inf, draws.columns)


def fit_pattern(draws: Draws, worlds: Any) -> Pattern | None:
    """A pattern score, where outputs have both flags and other entries."""
    plain = draws.first(_TABLE_SAMPLE).plain
    if not draws.flags.size or not plain.any() or plain.all():
        return None
    keys = hashes(_pattern(draws))
    table = _table_of(keys, worlds)
    if table is None:
        return None
    table, place = _shrink(table, keys, worlds)
    within = {
        number: _columns_within(draws, worlds, at)
        for number, at in _groups(place)
        if at.size >= _PATTERN_ROWS
    }
    return Pattern(table, within)


def _shrink(table: Table, keys: FloatArray, worlds: Any) -> tuple[Table, Any]:
    """The table with the heights of rare patterns drawn towards 0, and where each row stands."""
    place, _ = table.places(keys)
    both = np.bincount(place * 2 + worlds, minlength=2 * table.keys.size).reshape(-1, 2)
    return Table(table.keys, heights_of(both[:, 1], both[:, 0])), place


def _columns_within(draws: Draws, worlds: Any, at: Any) -> dict[int, _Column]:
    """Functions of the entries that are numbers, among outputs of one pattern.

    The table has counted the pattern itself: here only the shape of the numbers speaks, so the
    balance of the worlds is taken off.
    """
    sides = worlds[at]
    balance = float(log_ratio_of(float(sides.sum()), float((sides == 0).sum())))
    found: dict[int, _Column] = {}
    for j in np.flatnonzero(draws.plain[:, at[0]]).tolist():
        values = draws.columns[j, at]
        cuts = cuts_of(values, COARSE["coarse bins"])
        zeros, ones = count_bins(cuts, values, sides)
        found[j] = _Column(cuts, heights_around_halves(ones, zeros, balance))
    return found


@dataclass(frozen=True, eq=False)
class Boosted:
    """Small trees on all features."""

    model: Any

    def __call__(self, draws: Draws) -> FloatArray:
        with limit_learner_threads():
            return np.asarray(self.model.decision_function(draws.features), float)


def fit_boosting(draws: Draws, worlds: Any) -> Boosted:
    """Trees of eight leaves: sixty on up to 300 000 outputs, half of them for a first look."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    first_look = len(draws) <= _FEW_ROWS
    rows, trees = (_FIRST_ROWS, _FEW_TREES) if first_look else (_BOOSTING_ROWS, _BOOSTING_TREES)
    options: dict[str, Any] = {"learning_rate": 0.15, "early_stopping": False, "random_state": 0}
    model = HistGradientBoostingClassifier(max_iter=trees, max_leaf_nodes=8, **options)
    with limit_learner_threads():
        model.fit(draws.first(rows).features, worlds[:rows])
    return Boosted(model)


def families(draws: Draws, boosting: bool = True) -> Iterator[tuple[str, Fit]]:
    """Every kind of score that is worth a look, with its name and what learns it.

    A fit returns None where outputs are not of its kind.

    Args:
        draws: outputs like those to learn from.
        boosting: whether trees are tried too; they cost most.

    """
    for name in feature_names(draws):
        yield name, _fit_nothing(Single(name))
    yield "table", fit_table
    if draws.width == 1:
        yield "histogram", lambda some, worlds: count_columns(some, worlds, False).fine()
    elif not has_few_outputs(draws.first(_TABLE_SAMPLE), _FEW_OUTPUTS):
        yield from _of_many_outputs(boosting)


def _of_many_outputs(boosting: bool) -> Iterator[tuple[str, Fit]]:
    """What is learned where a table has not seen each output often enough to be exact."""
    yield from sums()
    yield PATTERN, fit_pattern
    if boosting:
        yield BOOSTING, fit_boosting


def _fit_nothing(score: Score) -> Fit:
    """A fit that learns nothing and returns this score."""
    return lambda draws, worlds: score
