"""Poisson batches of one fixed shape, drawn on the host in double precision.

A compiled program wants batches of one shape, a Poisson batch has a random size. It is padded to a
capacity that one draw exceeds with probability 1e-12; a draw that does is an error, never cut. As
most draws need much less, there is a second, smaller shape that only one in 1e4 exceeds.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay._special.quantiles import binomial_most
from dpassay.errors import BatchOverflow

OVERFLOW = 1e-12
"""The probability that a batch exceeds its capacity, at most."""
SELDOM = 1e-4
"""The probability that a batch exceeds the smaller shape, at most."""
_ROUND = 16


@dataclass(frozen=True)
class Batches:
    """One batch per row: which records, and which of the places are taken."""

    index: Any  # int32, (steps, capacity); 0 where no record is
    taken: Any  # bool, (steps, capacity)

    def fit_into(self, room: int) -> "Batches":
        """The same batches in less room if all of them fit there; else as they are."""
        if self.taken[:, room:].any():
            return self
        return Batches(self.index[:, :room], self.taken[:, :room])


def capacity(n_records: int, sampling_rate: float, overflow: float = OVERFLOW) -> int:
    """The room for a batch: exceeded with probability ``overflow`` at most, a multiple of 16.

    >>> capacity(60_000, 250 / 60_000), capacity(60_000, 250 / 60_000, SELDOM)
    (384, 320)

    """
    room = int(binomial_most(n_records, sampling_rate, overflow))
    return min(n_records, _ROUND * math.ceil(max(room, 1) / _ROUND))


def poisson_batches(
    n_records: int, sampling_rate: float, steps: int, room: int, rng: np.random.Generator
) -> Batches:
    """Batches in which every record is with probability ``sampling_rate``, independently.

    As in ``dpassay.optim.gradient.poisson_batch``, gaps between records are geometric, drawn as
    the whole part of exponential variables. One more than there is room for is drawn: if even that
    one is a record, the batch does not fit.

    Raises:
        BatchOverflow: a batch has more than ``room`` records.

    """
    gaps = rng.standard_exponential((steps, room + 1))
    gaps /= -math.log1p(-sampling_rate)
    places = np.cumsum(np.floor(gaps, out=gaps) + 1, axis=1) - 1
    taken = places < n_records
    if taken[:, room].any():
        raise BatchOverflow(
            f"a batch has more than {room} of n_records={n_records} at "
            f"sampling_rate={sampling_rate:g}; that is expected once in 1e12 batches. "
            "Train again with fresh randomness; cutting the batch would break the guarantee."
        )
    places[~taken] = 0
    return Batches(places[:, :room].astype(np.int32), taken[:, :room])
