"""Tables of any types as numbers: common columns, one scale, missing values and unseen texts.

What a column is (numbers, days or texts) is decided from all tables together; its scale, its bins
and its categories come from the released table and the reference alone, never from the candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

MOST_BINS = 16
_DAY = r"\d{4}-\d\d-\d\d([T ].*)?"
_MISSING = -1.0  # of a number on [0, 1]: a whole range away from every present one


@dataclass(frozen=True, eq=False)
class Coded:
    """A table in numbers.

    Attributes:
        numbers: columns of numbers, each on [0, 1] in the middle of the released values; a missing
            one is -1.
        texts: codes of the other columns; missing is a code of its own, and so is unseen.
        bins: every column as codes: numbers by quantiles, texts as they are.

    """

    numbers: FloatArray
    texts: NDArray[np.int64]
    bins: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.bins)

    def take(self, rows: Any) -> "Coded":
        """The same table with only these rows."""
        return Coded(self.numbers[rows], self.texts[rows], self.bins[rows])


@dataclass(frozen=True, eq=False)
class _Column:
    name: str
    low: float
    high: float
    edges: FloatArray | None
    categories: NDArray[Any] | None

    @property
    def is_number(self) -> bool:
        return self.categories is None

    @property
    def n_codes(self) -> int:
        """Values or bins, unseen, and missing."""
        known = len(self.categories) if self.categories is not None else _length(self.edges) + 1
        return known + 2


def _length(edges: FloatArray | None) -> int:
    return 0 if edges is None else len(edges)


@dataclass(frozen=True, eq=False)
class Coding:
    """How tables become numbers; made from what the attacker has, by :func:`learn_coding`."""

    columns: tuple[_Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def n_codes(self) -> tuple[int, ...]:
        """How many codes each column has in ``bins``."""
        return tuple(column.n_codes for column in self.columns)

    def apply(self, table: Any) -> Coded:
        """A table (harmonised by :func:`harmonise`) in numbers."""
        numbers = [_scale(c, table[c.name]) for c in self.columns if c.is_number]
        texts = [_codes(c, table[c.name]) for c in self.columns if not c.is_number]
        bins = [
            _cut(c, table[c.name]) if c.is_number else _codes(c, table[c.name])
            for c in self.columns
        ]
        shape = (len(table), 0)
        return Coded(
            np.column_stack([np.empty(shape), *numbers]),
            np.column_stack([np.empty(shape, np.int64), *texts]),
            np.column_stack([np.empty(shape, np.int64), *bins]),
        )

    def places(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        """Where columns stand among the numbers, and among the texts."""
        numeric = [c.name for c in self.columns if c.is_number]
        other = [c.name for c in self.columns if not c.is_number]
        return (
            [numeric.index(n) for n in names if n in numeric],
            [other.index(n) for n in names if n in other],
        )


def harmonise(tables: Sequence[Any], columns: Sequence[str] | None = None) -> list[Any]:
    """The tables with their common columns alone, in the same types: numbers, or texts.

    Raises:
        InvalidArgument: a table is none, or there is no common column.

    """
    import pandas as pd

    for table in tables:
        if not isinstance(table, pd.DataFrame):
            raise InvalidArgument("tables must be frames with named columns (pandas.DataFrame).")
        if not table.columns.is_unique:
            raise InvalidArgument("a table has two columns of one name.")
    names = list(tables[0].columns if columns is None else columns)
    absent = [n for n in names if any(n not in t.columns for t in tables)]
    if columns is not None and absent:
        raise InvalidArgument(f"column {absent[0]!r} is not in all of the tables.")
    common = [n for n in names if n not in absent]
    if not common:
        raise InvalidArgument(
            "the tables have no column in common. Give the released table, the data and the "
            "holdout the same column names."
        )
    converted = {n: _convert([t[n].reset_index(drop=True) for t in tables]) for n in common}
    return [pd.DataFrame({str(n): converted[n][i] for n in common}) for i in range(len(tables))]


def _convert(parts: list[Any]) -> list[Any]:
    """One column of all tables: numbers if all present values are numbers or days, else texts."""
    import pandas

    pd: Any = pandas  # its own stubs give to_numeric no result to work with
    if all(p.dtype.kind in "biuf" for p in parts):
        return [p.astype(float) for p in parts]
    texts = [p.astype(object).where(p.notna(), None) for p in parts]
    present = pd.concat([t[t.notna()] for t in texts]).astype(str)
    if len(present) and not pd.to_numeric(present, errors="coerce").isna().any():
        return [pd.to_numeric(t, errors="coerce").astype(float) for t in texts]
    if len(present) and present.str.fullmatch(_DAY).all():
        days = [pd.to_datetime(t, errors="coerce", utc=True, format="ISO8601") for t in texts]
        if all((d.notna() == t.notna()).all() for d, t in zip(days, texts, strict=True)):
            return [_as_days(d) for d in days]
    return [t.map(str, na_action="ignore") for t in texts]


def _as_days(moments: Any) -> Any:
    import pandas as pd

    return (moments - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta(days=1)


def learn_coding(released: Any, reference: Any) -> Coding:
    """The coding of what the attacker has: the released table and the reference."""
    import pandas as pd

    both = pd.concat([released, reference], ignore_index=True)
    return Coding(tuple(_learn_column(name, both[name]) for name in both.columns))


def _learn_column(name: str, values: Any) -> _Column:
    present = values.dropna()
    if values.dtype.kind != "f":
        return _Column(name, 0.0, 1.0, None, np.unique(present.to_numpy(dtype=str)))
    finite = present.to_numpy(dtype=float)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return _Column(name, 0.0, 1.0, np.empty(0), None)
    low, high = np.quantile(finite, [0.01, 0.99])  # a single far value must not set the scale
    if not high > low:
        low, high = float(finite.min()), float(finite.max())
    different = np.unique(finite)
    if len(different) <= MOST_BINS:
        edges = (different[1:] + different[:-1]) / 2
    else:
        edges = np.unique(np.quantile(finite, np.arange(1, MOST_BINS) / MOST_BINS))
    return _Column(name, float(low), float(high), edges, None)


def _scale(column: _Column, values: Any) -> FloatArray:
    found = values.to_numpy(dtype=float)
    width = column.high - column.low
    scaled = (found - column.low) / width if width > 0 else np.zeros(len(found))
    # Numbers far outside stay apart from each other, but no column outweighs all others.
    return np.where(np.isnan(found), _MISSING, np.clip(scaled, -0.5, 1.5))


def _cut(column: _Column, values: Any) -> NDArray[np.int64]:
    found = values.to_numpy(dtype=float)
    edges = column.edges if column.edges is not None else np.empty(0)
    codes = np.searchsorted(edges, found, side="right")
    return np.where(np.isnan(found), column.n_codes - 1, codes).astype(np.int64)


def _codes(column: _Column, values: Any) -> NDArray[np.int64]:
    assert column.categories is not None
    known, missing = column.categories, values.isna().to_numpy(dtype=bool)
    texts = values.where(~missing, "").to_numpy(dtype=str)
    codes = np.searchsorted(known, texts)
    near = known[np.minimum(codes, len(known) - 1)] if len(known) else texts
    unseen = (codes >= len(known)) | (near != texts)
    codes = np.where(unseen, len(known), codes)
    return np.where(missing, len(known) + 1, codes).astype(np.int64)
