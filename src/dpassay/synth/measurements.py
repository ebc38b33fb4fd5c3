"""Marginal tables of the data plus Gaussian noise, and what they cost.

A table may be measured on merged values: every column's values are put into groups beforehand, and
a cell is one group per column. A record still falls into one cell, so that the sensitivity is that
of any table of counts, 1, or √2 where a record is replaced; see :mod:`.tables.counts`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpassay.mechanisms.noise import Source
from dpassay.privacy import Event, Gaussian
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.synth.models import Groups, Records
from dpassay.synth.tables.counts import SENSITIVITY, noisy_counts
from dpassay.types import FloatArray, Neighbouring


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy shares of the cells of a marginal.

    Attributes:
        columns: the columns of the marginal.
        shares: counts over the public n, plus noise; may be negative, need not sum to 1.
        deviation: the standard deviation of the noise on each share.
        groups: for each column, the group of each of its codes; None if none were merged.
        weights: of each share, 1/variance in units of 1/deviation², where they differ; 0 for a cell
            that was not measured.

    """

    columns: tuple[str, ...]
    shares: FloatArray
    deviation: float
    groups: Groups | None = None
    weights: FloatArray | None = None

    @classmethod
    def of_counts(
        cls, name: str, counts: FloatArray, deviations: FloatArray, n_records: int
    ) -> "Measurement | None":
        """Noisy counts of a column's codes, infinite deviations where none; None if none is."""
        least = float(deviations.min())
        if math.isinf(least):
            return None
        weights = np.square(least / deviations)
        return cls((name,), counts / n_records, least / n_records, None, weights)

    def share_of(self, cell: tuple[int, ...]) -> float:
        """The noisy share of the cell that a record with these codes of the columns falls into."""
        if self.groups is not None:
            cell = tuple(int(own[code]) for own, code in zip(self.groups, cell, strict=True))
        return float(self.shares[cell])


def measure(
    data: Records,
    columns: Sequence[tuple[str, ...]],
    sigmas: Sequence[float],
    chosen: Source,
    neighbouring: Neighbouring,
    groups: Sequence[Groups | None] | None = None,
) -> list[Measurement]:
    """The marginals, each with noise of deviation ``sigma`` on every count."""
    n = len(data.codes) if data.n is None else data.n
    found = []
    merged = [None] * len(columns) if groups is None else groups
    for names, sigma, own in zip(columns, sigmas, merged, strict=True):
        noisy = noisy_counts(data.counts(names, own), sigma, chosen, neighbouring)
        found.append(Measurement(names, noisy / n, sigma / n, own))
    return found


def measurement_event(sigmas: Sequence[float], neighbouring: Neighbouring) -> Event:
    """What :func:`measure` does to the data."""
    distance = SENSITIVITY[neighbouring]
    return EventSequence(tuple(Gaussian(sigma / distance, neighbouring) for sigma in sigmas))


def on_simplex(shares: FloatArray, total: float = 1.0) -> FloatArray:
    """The table of non-negative entries with this sum that is nearest in the l2 norm.

    Entries are lowered by the one threshold that meets the sum, and cut at 0 (Duchi et al. 2008).

    >>> on_simplex(np.array([0.9, 0.4, -0.2]))
    array([0.75, 0.25, 0.  ])

    """
    flat = shares.reshape(-1)
    falling = np.sort(flat)[::-1]
    excess = np.cumsum(falling) - total
    count = np.arange(1, len(flat) + 1)
    last = np.flatnonzero(falling * count > excess)[-1]
    return np.maximum(flat - excess[last] / (last + 1), 0).reshape(shares.shape)
