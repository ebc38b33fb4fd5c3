"""Queries, in blocks: each block is a linear map of the marginal table of a few columns.

A query is a predicate of one record with values in [0, 1]; its answer is its mean over records, or
its expectation under a distribution. All queries of a block read the same columns, so that one
marginal table answers them, whether it comes from data, from an explicit distribution or from a
mixture of products (:mod:`dpassay.synth.models`); the universe is never crossed with the queries.

A block knows its map ``answers`` (table to one answer per query) and the transpose of it,
``spread`` (one coefficient per query to the table of sum of coefficients times queries, as a
function of the cell), which is what multiplicative weights and oracles need.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.synth.tables.columns import Column
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

MOST_CELLS = 20_000_000  # of the table of one predicate: 160 MB


@dataclass(frozen=True)
class Block(ABC):
    """Base of all blocks; use one of its kinds."""

    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        columns = (self.columns,) if isinstance(self.columns, str) else tuple(self.columns)
        if not columns or len(set(columns)) < len(columns):
            raise InvalidArgument(
                f"columns={_check.shown(columns)} of a query must be one or more names, each once."
            )
        object.__setattr__(self, "columns", columns)

    @abstractmethod
    def n_queries(self, schema: Schema) -> int:
        """How many queries there are."""

    @abstractmethod
    def answers(self, schema: Schema, table: FloatArray) -> FloatArray:
        """One answer per query from the marginal table of ``columns`` (sum 1)."""

    @abstractmethod
    def spread(self, schema: Schema, coefficients: FloatArray) -> FloatArray:
        """The table of sum_i coefficients_i q_i(cell): the transpose of ``answers``."""

    def label(self, schema: Schema, query: int) -> str:
        """A query in words."""
        return f"{type(self).__name__.lower()} {', '.join(self.columns)}, number {query}"


class _PerCell(Block):
    """One query for each cell of some columns."""

    def n_queries(self, schema: Schema) -> int:
        """How many queries there are."""
        return int(np.prod(schema.shape(self.columns), dtype=np.int64))


@dataclass(frozen=True)
class Marginal(_PerCell):
    """All cells of the marginal of some columns: one query per cell."""

    def answers(self, schema: Schema, table: FloatArray) -> FloatArray:
        """The cells themselves."""
        del schema
        return table.reshape(-1)

    def spread(self, schema: Schema, coefficients: FloatArray) -> FloatArray:
        """The coefficients as a table."""
        return coefficients.reshape(schema.shape(self.columns))

    def label(self, schema: Schema, query: int) -> str:
        """A cell in words."""
        cell = np.unravel_index(query, schema.shape(self.columns))
        return ", ".join(f"{name}#{code}" for name, code in zip(self.columns, cell, strict=True))


@dataclass(frozen=True)
class Prefix(_PerCell):
    """Are all columns at most a threshold? One query per combination of thresholds."""

    def answers(self, schema: Schema, table: FloatArray) -> FloatArray:
        """Cumulative sums along every column."""
        del schema
        for axis in range(table.ndim):
            table = np.cumsum(table, axis=axis)
        return table.reshape(-1)

    def spread(self, schema: Schema, coefficients: FloatArray) -> FloatArray:
        """Cumulative sums from the last code to the first: the transpose of ``answers``."""
        table = coefficients.reshape(schema.shape(self.columns))
        for axis in range(table.ndim):
            table = np.flip(np.cumsum(np.flip(table, axis), axis=axis), axis)
        return table


@dataclass(frozen=True)
class _Tabled(Block):
    """Queries that are given by their value in every cell."""

    _tables: dict[tuple[Column, ...], FloatArray] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def table(self, schema: Schema) -> FloatArray:
        """The value of every query (row) in every cell of the marginal (column)."""
        schema.positions(self.columns)
        domain = tuple(schema.columns[name] for name in self.columns)
        if domain not in self._tables:
            cells = int(np.prod(schema.shape(self.columns), dtype=np.int64))
            if cells * self.n_queries(schema) > MOST_CELLS:
                raise InvalidArgument(
                    f"columns={self.columns} have {cells} cells, too many for queries that are "
                    "tabled. Name only the columns that the query reads."
                )
            self._tables[domain] = self._values(schema).reshape(self.n_queries(schema), cells)
        return self._tables[domain]

    def answers(self, schema: Schema, table: FloatArray) -> FloatArray:
        """Expectations under the table."""
        return self.table(schema) @ table.reshape(-1)

    def spread(self, schema: Schema, coefficients: FloatArray) -> FloatArray:
        """The weighted sum of the queries' tables."""
        return (coefficients @ self.table(schema)).reshape(schema.shape(self.columns))

    @abstractmethod
    def _values(self, schema: Schema) -> FloatArray: ...


@dataclass(frozen=True)
class Parity(_Tabled):
    """Is the sum of the codes even? One query."""

    def n_queries(self, schema: Schema) -> int:
        """The number of queries: one."""
        del schema
        return 1

    def _values(self, schema: Schema) -> FloatArray:
        return 1.0 - np.indices(schema.shape(self.columns)).sum(axis=0) % 2


@dataclass(frozen=True)
class Conjunction(_Tabled):
    """Is every column among the values allowed for it? One query.

    >>> Conjunction.of(age=range(0, 18), sex="F").columns
    ('age', 'sex')

    """

    allowed: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.allowed) != len(self.columns):
            raise InvalidArgument(f"allowed must have one entry per column of {self.columns}.")

    @classmethod
    def of(cls, **allowed: Any) -> "Conjunction":
        """A conjunction from columns by name, each with one allowed value or several."""
        return cls(tuple(allowed), tuple(allowed.values()))

    def n_queries(self, schema: Schema) -> int:
        """The number of queries: one."""
        del schema
        return 1

    def _values(self, schema: Schema) -> FloatArray:
        conditions = schema.conditions(dict(zip(self.columns, self.allowed, strict=True)))
        masks = [conditions[place].astype(float) for place in schema.positions(self.columns)]
        table = np.ones(())
        for mask in masks:
            table = np.multiply.outer(table, mask)
        return table

    def label(self, schema: Schema, query: int) -> str:
        """The condition in words."""
        del schema, query
        pairs = zip(self.columns, self.allowed, strict=True)
        return " and ".join(f"{name} in {wanted!r}" for name, wanted in pairs)


@dataclass(frozen=True)
class Predicate(_Tabled):
    """Any function of some columns with values in [0, 1]: one query.

    ``function`` gets a frame with one row per cell of these columns, in values as a sampled record
    would have (the middle of a bin; None where missing), and returns one number per row.
    """

    function: Callable[[Any], Any] = field(default=lambda frame: np.ones(len(frame)))

    def n_queries(self, schema: Schema) -> int:
        """The number of queries: one."""
        del schema
        return 1

    def _values(self, schema: Schema) -> FloatArray:
        frame = cell_frame(schema, self.columns)
        values = _check.array("predicate", np.asarray(self.function(frame), float))
        if values.shape != (len(frame),) or not ((values >= 0) & (values <= 1)).all():
            raise InvalidArgument(
                f"the predicate on {self.columns} must give one number in [0, 1] per row, "
                f"{len(frame)} in all."
            )
        return values


def cell_frame(schema: Schema, columns: Sequence[str]) -> Any:
    """One row per cell of some columns, in row-major order; bins by their middle."""
    import pandas as pd

    shape = schema.shape(columns)
    codes = np.indices(shape).reshape(len(shape), -1)
    frame = {}
    for name, column_codes in zip(columns, codes, strict=True):
        column = schema.columns[name]
        values, missing = column.decode(column_codes, _Middle())  # type: ignore[arg-type]
        series = pd.Series(values)
        frame[name] = series.mask(missing) if missing.any() else series
    return pd.DataFrame(frame)


class _Middle:
    """A generator that is always in the middle: for the one value that stands for a bin."""

    def random(self, size: int) -> FloatArray:
        return np.full(size, 0.5)

    def integers(self, low: int, high: Any) -> Any:
        return (low + np.asarray(high)) // 2


def spread_out(schema: Schema, block: Block, table: FloatArray) -> FloatArray:
    """A table of some columns with an axis of length 1 for every other column."""
    places = schema.positions(block.columns)
    shape = [1] * len(schema.sizes)
    for place in places:
        shape[place] = schema.sizes[place]
    return np.transpose(table, np.argsort(places)).reshape(shape)
