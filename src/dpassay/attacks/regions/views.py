"""What a learner looks at in many outputs at once: entries, differences, order, flags.

A *flag* is a value that occurs again and again among values that otherwise never repeat: "nothing
found", "aborted", an empty cell. Which values are flags is read off the first outputs and then
fixed, so that a view is a function of one row.
"""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any

import numpy as np

from dpassay.types import FloatArray

_LOOKED_AT = 20_000  # rows in which flags are looked for
_REPEATS, _MOST_FLAGS = 10, 6
_SORTED_UP_TO = 12  # entries; beyond, sorting costs more than it has been seen to give


def flags_of(rows: FloatArray) -> FloatArray:
    """The values that repeat, most frequent first."""
    values, counts = np.unique(rows[:_LOOKED_AT], return_counts=True)
    known = ~np.isnan(values) & (counts >= _REPEATS)
    order = np.argsort(-counts[known], kind="stable")
    return values[known][order][:_MOST_FLAGS]


class Draws:
    """Outputs of a mechanism, a row each, with what learners look at; each part is made once.

    Parts are kept as columns: scores go through them one column after the other.

    Attributes:
        rows: the outputs.
        flags: as :func:`flags_of` found them in the first outputs.

    """

    def __init__(self, rows: FloatArray, flags: FloatArray) -> None:
        self.rows = rows
        self.flags = flags
        self._parts: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """The number of entries of an output."""
        return self.rows.shape[1]

    @cached_property
    def columns(self) -> FloatArray:
        """The entries, a line for each place."""
        return np.ascontiguousarray(self.rows.T)

    @cached_property
    def differences(self) -> FloatArray:
        """Each entry less the one before it: a running sum becomes its parts again."""
        return np.diff(self.columns, axis=0, prepend=0.0)

    @cached_property
    def ordered(self) -> FloatArray:
        """The entries of each output in ascending order, a line for each rank."""
        return np.ascontiguousarray(np.sort(self.rows, axis=1).T)

    @cached_property
    def plain(self) -> FloatArray:
        """Which entries are no flags."""
        found = np.ones(self.columns.shape, bool)
        for flag in self.flags:
            found &= self.columns != flag
        return found

    def column(self, j: int) -> FloatArray:
        """The entries at one place, without a copy of all others."""
        made = "columns" in self.__dict__
        return self.columns[j] if made else np.ascontiguousarray(self.rows[:, j])

    def feature(self, name: str) -> FloatArray:
        """One feature of every output, by the name that :func:`feature_names` gives it."""
        kind, _, index = name.partition(" ")
        return FEATURES[kind](self, int(index or 0))

    @property
    def features(self) -> FloatArray:
        """All features, a row for each output."""
        return np.column_stack([self.feature(name) for name in feature_names(self)])

    def keep(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What ``make`` returns, made once for this key: several scores share their parts."""
        if key not in self._parts:
            self._parts[key] = make()
        return self._parts[key]

    def first(self, n: int) -> "Draws":
        """The first n of them."""
        return self.part(0, n) if n < len(self) else self

    def part(self, start: int, end: int) -> "Draws":
        """Those from one number up to another, with the same flags."""
        return Draws(self.rows[start:end], self.flags)


def feature_names(draws: Draws) -> list[str]:
    """The features that outputs of this shape and these flags have, the entries first."""
    d = draws.width
    names = [f"entry {j}" for j in range(d)]
    if d == 1:
        return names
    names += [f"difference {j}" for j in range(1, d)]
    if d <= _SORTED_UP_TO:
        names += [f"rank {j}" for j in range(d)]
    names += ["sum", "largest", "smallest", "largest-at", "smallest-at"]
    for i in range(draws.flags.size):
        names += [f"flag-count {i}", f"flag-first-at {i}"]
    if draws.flags.size and draws.first(_LOOKED_AT).plain.any():
        names += ["number-at", "number", "numbers-sum", "numbers-largest", "numbers-smallest"]
    return names


def _first_at(marks: FloatArray) -> FloatArray:
    """The place of the first mark of each output; their number of entries if there is none."""
    return np.where(marks.any(axis=0), marks.argmax(axis=0), len(marks)).astype(float)


def _extreme_number(draws: Draws, largest: bool) -> FloatArray:
    """The largest or smallest entry that is no flag; 0 if all are flags."""
    other = -np.inf if largest else np.inf
    values = np.where(draws.plain, draws.columns, other)
    found = values.max(axis=0) if largest else values.min(axis=0)
    return np.where(draws.plain.any(axis=0), found, 0.0)


def _first_number(draws: Draws) -> FloatArray:
    """The first entry that is no flag; 0 if all are flags."""
    at = draws.plain.argmax(axis=0)
    found = draws.columns[at, np.arange(len(draws))]
    return np.where(draws.plain.any(axis=0), found, 0.0)


FEATURES: dict[str, Callable[[Draws, int], FloatArray]] = {
    "entry": lambda draws, j: draws.column(j),
    "difference": lambda draws, j: draws.column(j) - draws.column(j - 1),
    "rank": lambda draws, j: draws.ordered[j],
    "sum": lambda draws, _: draws.columns.sum(axis=0),
    "largest": lambda draws, _: draws.columns.max(axis=0),
    "smallest": lambda draws, _: draws.columns.min(axis=0),
    "largest-at": lambda draws, _: draws.columns.argmax(axis=0).astype(float),
    "smallest-at": lambda draws, _: draws.columns.argmin(axis=0).astype(float),
    "flag-count": lambda draws, i: (draws.columns == draws.flags[i]).sum(axis=0).astype(float),
    "flag-first-at": lambda draws, i: _first_at(draws.columns == draws.flags[i]),
    "number-at": lambda draws, _: _first_at(draws.plain),
    "number": lambda draws, _: _first_number(draws),
    "numbers-sum": lambda draws, _: np.where(draws.plain, draws.columns, 0.0).sum(axis=0),
    "numbers-largest": lambda draws, _: _extreme_number(draws, True),
    "numbers-smallest": lambda draws, _: _extreme_number(draws, False),
}
