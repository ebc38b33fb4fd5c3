"""Canaries inside a data set, whose length is the same whichever of them are in.

Where it would not be, whoever takes the sampling rate or a divisor from the number of records would
train otherwise, and the canaries would be told by something that the claim takes as public.

- *undrawn*, for what a loader reads: there is a place for every canary, and a canary that is out
  is left away whenever its place is drawn. With Poisson sampling that is exactly the training
  without this record: sampling rate, number of steps and divisor stay. Two data sets then differ
  by a record added or removed. Batches get shorter by it, down to none, as Poisson batches do.
- *replaced*, for arrays and frames, which a learner reads whole, and for loaders of fixed batches:
  a stand-in, the same canary with another label, takes the place of a canary that is out. Then they
  differ by a record replaced.
- *removed*: a canary that is out is not there, and the length tells how many are in. For claims
  about adding or removing a record, of trainings that are given their number of records as a
  constant.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpassay import _records
from dpassay.canaries import forms
from dpassay.canaries.forms import Parts
from dpassay.errors import InvalidTarget
from dpassay.types import Neighbouring

Out = Literal["undrawn", "replaced", "removed"]
RELATIONS: dict[str, Neighbouring] = {
    "undrawn": "add-remove",
    "replaced": "replace-one",
    "removed": "add-remove",
}


class WithCanaries:
    """A data set with places for canaries; one that is out is never given to anybody.

    It is read as torch's loaders and those of Hugging Face read: by a list of numbers, of which
    those of absent canaries are left away, or record by record in a loop, which skips them.

    Args:
        data: the other records.
        example: a record, for structure and types.
        parts: the canaries, as columns.
        present: which of them are in.
        places: where they stand; None after all others.
        stand_ins: given in the place of a canary that is out; None for nothing.

    """

    def __init__(
        self,
        data: Any,
        example: Any,
        parts: Parts,
        present: NDArray[np.bool_],
        places: NDArray[np.int64] | None = None,
        stand_ins: Parts | None = None,
    ) -> None:
        self.data, self.example, self.parts, self.present = data, example, parts, present
        self.stand_ins = stand_ins
        beyond = np.arange(len(data), len(data) + len(present))
        self._number = {int(p): i for i, p in enumerate(beyond if places is None else places)}
        self._length = len(data) + (len(present) if places is None else 0)
        self._draws = _count_together(len(present))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        found = self.__getitems__([index])
        if not found:
            raise InvalidTarget(
                f"dataset[{index}] is the place of a canary that is out in this audit, and must "
                "not be read by itself. Insert canaries into the last data set, the one that the "
                "loader reads in batches, after all wrappers and transformations."
            )
        return found[0]

    @property
    def draws(self) -> NDArray[np.int64]:
        """How often the place of each canary was read, whether it is in or out."""
        return np.asarray(self._draws)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The records of these numbers, without canaries that are out."""
        numbers = [int(i) + self._length * (int(i) < 0) for i in indices]
        others = iter(self._read([i for i in numbers if i not in self._number]))
        found: list[Any] = []
        for i in numbers:
            found += self._read_canary(self._number[i]) if i in self._number else next(others)
        return found or _Nothing()

    def _read_canary(self, canary: int) -> list[Any]:
        """The canary, or what is given in its place."""
        self._draws[canary] += 1
        parts = self.parts if self.present[canary] else self.stand_ins
        return [] if parts is None else [forms.record_like(self.example, parts, canary)]

    def _read(self, indices: list[int]) -> list[list[Any]]:
        """One record for each, or none where the data have canaries of their own."""
        if isinstance(self.data, WithCanaries):
            return [self.data.__getitems__([i]) for i in indices]
        together: Any = getattr(self.data, "__getitems__", None)
        read = [self.data[i] for i in indices] if together is None else together(indices)
        return [[record] for record in read]

    def __iter__(self) -> Iterator[Any]:
        for i in range(self._length):
            yield from self.__getitems__([i])

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, of a data set of dicts."""
        return list(self.example)


class _Nothing(list[Any]):
    """A batch of none: loaders of Opacus take it, others are told why they cannot."""

    def __getitem__(self, index: Any) -> Any:
        raise InvalidTarget(
            "every record of this batch is a canary that is out, and a loader without Poisson "
            "sampling cannot make a batch of none. Take larger batches or drop_last=True, use "
            "Opacus' loader, or call canaries.insert(dataset, out='replaced') and claim privacy "
            "of replacing a record."
        )


def _count_together(size: int) -> Any:
    """Counters that the worker processes of torch's loaders share, where torch is there."""
    if "torch" not in sys.modules:
        return np.zeros(size, np.int64)
    import torch

    return torch.zeros(size, dtype=torch.int64).share_memory_()


def insert_whole(
    data: Any,
    parts: Parts,
    stand_ins: Parts,
    present: NDArray[np.bool_],
    places: NDArray[np.int64] | None,
) -> Any:
    """Arrays or a frame with every canary or its stand-in (None: nothing) in the canary's place."""

    def join(column: Any, canaries: Any, others: Any) -> Any:
        kept = np.arange(len(column) if hasattr(column, "__len__") else column.shape[0])
        kept = kept if places is None else np.setdiff1d(kept, places)
        column = column if places is None else _records.take(column, kept)
        if hasattr(canaries, "dtypes") and hasattr(canaries, "columns"):
            column = column.astype(canaries.dtypes)  # categories with the levels of all canaries
        if others is None:
            return _records.join(column, _records.take(canaries, np.flatnonzero(present)))
        both = _records.join(canaries, others)
        size = len(present)
        return _records.join(column, _records.take(both, np.arange(size) + size * ~present))

    if not isinstance(data, tuple):
        return join(data, parts, stand_ins)
    others = [None] * len(data) if stand_ins is None else stand_ins
    return tuple(join(*leaves) for leaves in zip(data, parts, others, strict=True))
