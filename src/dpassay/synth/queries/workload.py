"""A workload: the blocks of queries that a synthetic table should answer well."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.synth.queries.blocks import Block, Conjunction, Marginal, Parity, Predicate, Prefix
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray


class Answers(Protocol):
    """What can answer a workload: anything that has marginal tables."""

    @property
    def schema(self) -> Schema: ...
    def marginals(self, columns: Sequence[tuple[str, ...]]) -> list[FloatArray]: ...


@dataclass(frozen=True)
class Workload:
    """Blocks of queries, in order; two workloads add up.

    >>> workload = Workload.marginals([("age", "sex"), ("sex",)]) + Workload.parities([("a", "b")])
    >>> len(workload.blocks)
    3

    """

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(self.blocks))
        if not self.blocks:
            raise InvalidArgument("a workload needs at least one query.")

    # How people write them.

    @classmethod
    def marginals(cls, columns: Iterable[Sequence[str]]) -> "Workload":
        """All cells of the marginals of these sets of columns."""
        return cls(tuple(Marginal(tuple(_names(names))) for names in columns))

    @classmethod
    def all_marginals(cls, schema: Schema, k: int = 2, *, most_cells: float = np.inf) -> "Workload":
        """All k-way marginals with at most ``most_cells`` cells."""
        k = _check.count("k", k)
        if k > len(schema.names):
            raise InvalidArgument(f"k={k} is more than the {len(schema.names)} columns.")
        sets = itertools.combinations(schema.names, k)
        return cls.marginals(
            names for names in sets if np.prod(schema.shape(names), dtype=float) <= most_cells
        )

    @classmethod
    def prefixes(cls, columns: Iterable[Sequence[str]]) -> "Workload":
        """For each set of columns, the share of records at most each combination of thresholds."""
        return cls(tuple(Prefix(tuple(_names(names))) for names in columns))

    @classmethod
    def parities(cls, columns: Iterable[Sequence[str]]) -> "Workload":
        """For each set of columns, the share of records whose codes have an even sum."""
        return cls(tuple(Parity(tuple(_names(names))) for names in columns))

    @classmethod
    def conjunctions(cls, conditions: Iterable[Mapping[str, Any]]) -> "Workload":
        """For each mapping from columns to allowed values, the share that has them all."""
        return cls(tuple(Conjunction(tuple(c), tuple(c.values())) for c in conditions))

    @classmethod
    def predicates(
        cls, functions: Iterable[tuple[Sequence[str], Callable[[Any], Any]]]
    ) -> "Workload":
        """Pairs of the columns that a function reads, and the function, with values in [0, 1]."""
        return cls(tuple(Predicate(tuple(_names(names)), f) for names, f in functions))

    def __add__(self, other: "Workload") -> "Workload":
        return Workload((*self.blocks, *other.blocks))

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    # What algorithms need.

    def column_sets(self) -> tuple[tuple[str, ...], ...]:
        """The distinct sets of columns that the blocks read, in order of first use."""
        return tuple(dict.fromkeys(block.columns for block in self.blocks))

    def check(self, schema: Schema) -> "Workload":
        """The workload itself, if every column is in the schema; else an error."""
        for block in self.blocks:
            schema.positions(block.columns)
        return self

    def n_queries(self, schema: Schema) -> int:
        """How many queries there are in all."""
        return sum(block.n_queries(schema) for block in self.blocks)

    def slices(self, schema: Schema) -> list[slice]:
        """Where the answers of each block stand in the vector of all answers."""
        ends = np.cumsum([0, *(block.n_queries(schema) for block in self.blocks)])
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

    def answers(self, source: Answers) -> FloatArray:
        """All answers of a source, one per query."""
        return np.concatenate(self.blocks_of(source))

    def blocks_of(self, source: Answers) -> list[FloatArray]:
        """The answers of a source, block by block."""
        self.check(source.schema)
        sets = self.column_sets()
        tables = dict(zip(sets, source.marginals(sets), strict=True))
        return [block.answers(source.schema, tables[block.columns]) for block in self.blocks]


def _names(names: Sequence[str]) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names
