"""Neighbouring tables that show what a synthesizer does with one record.

Two bases are made from the public domain alone:

- ``filled``: in every column half of the records have the value of the target, independently, so
  that a quarter of them is in each of its pairs of values. A fit that draws small counts to zero
  (a simplex, a penalty) then still passes one record on.
- ``empty``: all records are equal and the target differs from them in every column. What depends on
  which values *occur* is seen here: a domain that was read off the data, a category that appears.

From a table of the user's own, the target is a record of it, and the empty base leaves out the
other records that share its rarest value. Under add-remove neighbours the other data set lacks the
target; under replace-one it has a record that differs from it everywhere in its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpassay._records import add, take
from dpassay.errors import InvalidArgument
from dpassay.types import Neighbouring

Base = Literal["filled", "empty"]
BASES: tuple[Base, ...] = ("filled", "empty")
_WIDTH = 1 / 16  # of a column's range: numbers so close to the target's count as its value


@dataclass(frozen=True, eq=False)
class TablePair:
    """Two neighbouring tables.

    Attributes:
        with_target: the table of world 1.
        without: that of world 0.
        target: the record that makes the difference, as a table of one row.
        other: the record that stands in its place in ``without``; None under add-remove.
        base: what the other records are like.

    """

    with_target: Any
    without: Any
    target: Any
    other: Any
    base: Base

    def describe(self) -> str:
        """How it was made; tells nothing of a record."""
        what = {
            "filled": "half of the records share each value of the target",
            "empty": "the target has values that no other record has",
        }[self.base]
        return f"{self.base} base of {len(self.without)} records: {what}"


def make_pair(
    schema: Any, base: Base, n_records: int, neighbouring: Neighbouring, seed: int
) -> TablePair:
    """A pair from a public domain: an object with ``sizes`` and ``decode(codes, rng)``."""
    rng = np.random.default_rng(seed)
    sizes: list[int] = list(schema.sizes)
    target = np.array([min(1, size - 1) for size in sizes])
    n = n_records - (neighbouring == "replace-one")
    codes = np.zeros((n, len(sizes)), np.int64)
    if base == "filled":
        for place, size in enumerate(sizes):
            others = [code for code in range(size) if code != target[place]] or [0]
            half = [target[place] if i % 2 == 0 else others[i // 2 % len(others)] for i in range(n)]
            codes[:, place] = rng.permutation(half)
    pool = schema.decode(np.vstack([codes, target[None], np.zeros((1, len(sizes)), np.int64)]), rng)
    return _join(take(pool, range(n)), take(pool, [n]), take(pool, [n + 1]), base, neighbouring)


def pair_of(
    table: Any, record: int | Mapping[str, Any] | None, base: Base, neighbouring: Neighbouring
) -> TablePair:
    """A pair from a table: ``record`` is the number of a row, or a record of its own to be added.

    None takes the record whose rarest value is the rarest of all.
    """
    import pandas as pd

    if isinstance(record, Mapping):
        unknown = [name for name in table.columns if name not in record]
        if unknown:
            raise InvalidArgument(f"record has no value for column {unknown[0]!r}.")
        rest, target = table.reset_index(drop=True), take(add(table, record), [len(table)])
    else:
        place = _find_rarest(table) if record is None else _check_row(record, len(table))
        rest = take(table, np.delete(np.arange(len(table)), place))
        target = take(table, [place])
    if base == "empty":
        name = _rarest_column(table, target)
        shared = (rest[name] == target[name].iloc[0]) | (
            rest[name].isna() & bool(pd.isna(target[name].iloc[0]))
        )
        rest = take(rest, np.flatnonzero(~shared.to_numpy(dtype=bool)))
    if len(rest) < 2:
        raise InvalidArgument("data has too few records: an audit needs at least 3 of them.")
    return _join(rest, target, _far_from(rest, target), base, neighbouring)


def _join(rest: Any, target: Any, other: Any, base: Base, neighbouring: Neighbouring) -> TablePair:
    import pandas as pd

    def append(row: Any) -> Any:
        return pd.concat([rest, row], ignore_index=True)

    if neighbouring == "add-remove":
        return TablePair(append(target), rest, target, None, base)
    return TablePair(append(target), append(other), target, other, base)


def _check_row(record: Any, n: int) -> int:
    if isinstance(record, bool) or not isinstance(record, int) or not 0 <= record < n:
        raise InvalidArgument(
            f"record must be the number of a row, 0 to {n - 1}, or a mapping of columns to values."
        )
    return record


def _rarity(table: Any) -> NDArray[Any]:
    """How often the value of each cell occurs in its column."""
    counts = [
        table[name].map(table[name].value_counts(dropna=False)).fillna(table[name].isna().sum())
        for name in table.columns
    ]
    return np.column_stack([c.to_numpy(dtype=float) for c in counts])


def _find_rarest(table: Any) -> int:
    """The record whose value is rarest among texts and flags; numbers are rare by themselves."""
    named = [name for name in table.columns if table[name].dtype.kind not in "iufM"]
    return int(np.argmin(_rarity(table[named] if named else table).min(axis=1)))


def _rarest_column(table: Any, target: Any) -> str:
    """The column in which fewest records have the target's value."""
    same = {name: (table[name] == target[name].iloc[0]).sum() for name in table.columns}
    named = [name for name in table.columns if table[name].dtype.kind not in "iufM"]
    return min(named or list(table.columns), key=lambda name: same[name])


def _far_from(rest: Any, target: Any) -> Any:
    """The record of the rest that shares fewest values with the target."""
    same = sum((rest[name] == target[name].iloc[0]).to_numpy(dtype=int) for name in rest.columns)
    return take(rest, [int(np.argmin(same))])


@dataclass(frozen=True, eq=False)
class Likeness:
    """Which rows of a table agree with one record, column by column.

    Numbers agree within a sixteenth of the range that their column has in the base.
    """

    names: tuple[str, ...]
    values: tuple[Any, ...]
    widths: tuple[float | None, ...]

    @classmethod
    def of(cls, record: Any, base: Any) -> "Likeness":
        """Likeness to a record (a table of one row), with ranges of a base that is fixed."""
        names = tuple(str(name) for name in record.columns)
        values = tuple(record.iloc[0].tolist())
        return cls(names, values, tuple(_width(base[name]) for name in record.columns))

    def to(self, rows: Any) -> NDArray[np.bool_]:
        """A row for each row, a column for each of the record's."""
        found = np.zeros((len(rows), len(self.names)), bool)
        for j, (name, value, width) in enumerate(
            zip(self.names, self.values, self.widths, strict=True)
        ):
            if name in rows.columns:
                found[:, j] = _agree(rows[name], value, width)
        return found

    def counts(self, rows: Any) -> NDArray[np.float64]:
        """How many rows agree in each column, then in each pair of columns."""
        same = self.to(rows).astype(float)
        pairs = same.T @ same
        upper = np.triu_indices(len(self.names), 1)
        return np.concatenate([same.sum(axis=0), pairs[upper]])


def _width(column: Any) -> float | None:
    """How near a number must be; None for columns that are compared by equality."""
    if column.dtype.kind not in "iuf" or column.dropna().nunique() <= 20:
        return None
    present = column.dropna()
    return float(present.max() - present.min()) * _WIDTH


def _agree(column: Any, value: Any, width: float | None) -> NDArray[np.bool_]:
    import pandas as pd

    if pd.isna(value):
        return column.isna().to_numpy(dtype=bool)
    if width is None:
        return (column == value).fillna(False).to_numpy(dtype=bool)
    numbers = cast(Any, pd).to_numeric(column, errors="coerce")
    return ((numbers - value).abs() <= width).fillna(False).to_numpy(dtype=bool)
