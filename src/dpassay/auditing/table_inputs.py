"""Tables that a schema allows as inputs: neighbouring pairs without a record of anybody.

Bugs in what is released from tables show where a value is the only one of its kind, where all
records are equal, and at the ends of domains. Pairs are made of such tables, few records first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpassay.auditing.input_pairs import Pair
from dpassay.errors import InvalidArgument
from dpassay.types import Neighbouring

_SIZES = (1, 2, 10, 100)
_SMALLER = (1, 2, 3, 5, 10, 25, 50)  # records of tables that a pair is shrunk to
_HOW = (
    "all records alike, one that differs",
    "all records alike, one at the other end of its domains",
    "all records alike, one more like them",
    "records of all kinds, one that differs from the first",
)
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
            self._pair(n, number, neighbouring)
            for n in _SIZES
            for number in range(len(_HOW) if n > 2 else len(_HOW) - 1)
        )
        return [pair for pair in made if _differ(pair)]

    def _change(self, n: int, number: int) -> tuple[Codes, Codes]:
        """The records, and the one that comes in addition or in place of the last."""
        drawn = self._draw()
        ends = np.array([np.zeros(len(self.schema.sizes)), np.array(self.schema.sizes) - 1], int)
        ends = np.concatenate([ends[self.schema.possible(ends)], drawn])
        first, *others = ends
        alike = np.repeat(first[None], n, axis=0)
        # The record that differs from the others in most columns, and the one at the other end.
        far = max(others, key=lambda row: int((row != first).sum()))
        return [(alike, far), (alike, others[0]), (alike, first), (drawn[:n], far)][number]

    def _draw(self) -> Codes:
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

    def _pair(self, n: int, number: int, neighbouring: Neighbouring) -> Pair:
        rows, changed = self._change(n, number)
        # Decoded together: values inside bins are drawn, and common records must stay the same.
        table = self.schema.decode(np.vstack([rows, changed[None]]), np.random.default_rng(0))
        how = f"{n} record(s): {_HOW[number]}"
        replaced = neighbouring == "replace-one"
        other = table.drop(index=n - 1).reset_index(drop=True) if replaced else table
        how += ", in place of another" if replaced else ", in addition"

        def of_size(sizes: Iterable[int]) -> list[Pair]:
            made = (self._pair(size, number, neighbouring) for size in sizes)
            return [pair for pair in made if _differ(pair)]

        return Pair(
            how,
            table.iloc[:n],
            other,
            simpler=lambda: of_size(size for size in _SMALLER if size < n),
            nearby=lambda: of_size([min(2 * n, _SIZES[-1])] if n < _SIZES[-1] else []),
        )


def _differ(pair: Pair) -> bool:
    return not pair.data.equals(pair.data_prime)
