"""Tables that a schema allows as inputs: neighbouring pairs without a record of anybody.

Bugs in what is released from tables show where a value is the only one of its kind, where all
records are equal, and at the ends of domains. Pairs are made of such tables, few records first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpassay.auditing.input_pairs import Pair
from dpassay.errors import InvalidArgument
from dpassay.types import Neighbouring

_SIZES = (1, 2, 10, 100)
_TRIES = 20_000  # rows drawn to find enough that the schema's rules allow

Codes = NDArray[np.int64]


@runtime_checkable
class Schema(Protocol):
    """The columns of a table with their public domains: :class:`dpassay.synth.Schema`."""

    @property
    def sizes(self) -> tuple[int, ...]: ...

    def possible(self, codes: Codes) -> NDArray[np.bool_]: ...

    def decode(self, codes: Codes, rng: np.random.Generator) -> Any: ...


@dataclass(frozen=True, eq=False)
class Tables:
    """All tables of a schema; ``da.audit(mechanism, data=schema)`` searches a pair among them.

    Attributes:
        schema: the public domains.
        trusted: whether nobody else can check that pairs are neighbours; anybody can.

    """

    schema: Schema
    trusted: bool = False

    def pairs(self, neighbouring: Neighbouring) -> list[Pair]:
        """Neighbouring tables in the claim's relation, the simplest first."""
        made = (
            self._pair(f"{n} record(s): {how}", rows, changed, neighbouring)
            for n in _SIZES
            for how, rows, changed in self._changes(n)
        )
        return [pair for pair in made if not pair.data.equals(pair.data_prime)]

    def _changes(self, n: int) -> Iterator[tuple[str, Codes, Codes]]:
        """How, the records, and the one that comes in addition or in place of the last."""
        drawn = self._drawn()
        ends = np.array([np.zeros(len(self.schema.sizes)), np.array(self.schema.sizes) - 1], int)
        ends = np.concatenate([ends[self.schema.possible(ends)], drawn])
        first, *others = ends
        alike = np.repeat(first[None], n, axis=0)
        # The record that differs from the others in most columns, and the one at the other end.
        far = max(others, key=lambda row: int((row != first).sum()))
        yield "all records alike, one that differs", alike, far
        yield "all records alike, one at the other end of its domains", alike, others[0]
        yield "all records alike, one more like them", alike, first
        if n > 2:
            yield "records of all kinds, one that differs from the first", drawn[:n], far

    def _drawn(self) -> Codes:
        """Records that the schema allows, at random; the same ones each time."""
        shape = (_TRIES, len(self.schema.sizes))
        rows = np.random.default_rng(0).integers(0, self.schema.sizes, shape)
        kept = rows[self.schema.possible(rows)]
        if len(kept) < _SIZES[-1]:
            raise InvalidArgument(
                "data: nearly all records are impossible by the schema's rules. Pass a data set, "
                "or a pair, instead of the schema."
            )
        return kept

    def _pair(self, how: str, rows: Codes, changed: Codes, neighbouring: Neighbouring) -> Pair:
        # Decoded together: values inside bins are drawn, and common records must stay the same.
        table = self.schema.decode(np.vstack([rows, changed[None]]), np.random.default_rng(0))
        n = len(rows)
        if neighbouring == "replace-one":
            without_last = table.drop(index=n - 1).reset_index(drop=True)
            return Pair(f"{how}, in place of another", table.iloc[:n], without_last)
        return Pair(f"{how}, in addition", table.iloc[:n], table)
