"""What a learner looks at in many outputs at once: entries, differences, order, flags.

A *flag* is a value that occurs again and again among values that otherwise never repeat: "nothing
found", "aborted", an empty cell. Which values are flags is read off the first outputs and then
fixed, so that a view is a function of one row.
"""

from collections.abc import Callable
from functools import cached_property

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

    Attributes:
        rows: the outputs.
        flags: as :func:`flags_of` found them in the first outputs.

    """

    def __init__(self, rows: FloatArray, flags: FloatArray) -> None:
        self.rows = rows
        self.flags = flags
        self._parts: dict[int, FloatArray] = {}

    @cached_property
    def differences(self) -> FloatArray:
        """Each entry less the one before it: a running sum becomes its parts again."""
        return np.diff(self.rows, axis=1, prepend=0.0)

    @cached_property
    def features(self) -> FloatArray:
        """One row of features per output, the entries themselves first."""
        rows = self.rows
        if rows.shape[1] == 1:
            return rows
        parts = [rows, self.differences[:, 1:]]
        if rows.shape[1] <= _SORTED_UP_TO:
            parts.append(np.sort(rows, axis=1))
        parts.append(_summaries(rows))
        parts.extend(_of_flags(rows, self.flags))
        return np.hstack(parts)

    def column(self, j: int) -> FloatArray:
        """One feature; an entry does not need the others."""
        return self.rows[:, j] if j < self.rows.shape[1] else self.features[:, j]

    def kept(self, key: object, make: Callable[[], FloatArray]) -> FloatArray:
        """What ``make`` returns, made once for this key: several scores share their parts."""
        if id(key) not in self._parts:
            self._parts[id(key)] = make()
        return self._parts[id(key)]


def _of_flags(rows: FloatArray, flags: FloatArray) -> list[FloatArray]:
    if not flags.size:
        return []
    found = []
    for flag in flags:
        at = rows == flag
        first = np.where(at.any(axis=1), at.argmax(axis=1), rows.shape[1])
        found.append(np.column_stack([at.sum(axis=1), first]))
    plain = ~np.isin(rows, flags)
    if plain.any():
        found.append(_of_plain(rows, plain))
    return found


def _summaries(rows: FloatArray) -> FloatArray:
    return np.column_stack(
        [rows.sum(axis=1), rows.max(axis=1), rows.min(axis=1), rows.argmax(axis=1), rows.argmin(1)]
    ).astype(float)


def _of_plain(rows: FloatArray, plain: FloatArray) -> FloatArray:
    """The entries that are no flags: place and value of the first, sum, largest, smallest."""
    any_plain = plain.any(axis=1)
    first = np.where(any_plain, plain.argmax(axis=1), 0)
    value = np.where(any_plain, rows[np.arange(len(rows)), first], 0.0)
    place = np.where(any_plain, first, rows.shape[1])
    total = np.where(plain, rows, 0.0).sum(axis=1)
    high = np.where(any_plain, np.where(plain, rows, -np.inf).max(axis=1), 0.0)
    low = np.where(any_plain, np.where(plain, rows, np.inf).min(axis=1), 0.0)
    return np.column_stack([place, value, total, high, low]).astype(float)
