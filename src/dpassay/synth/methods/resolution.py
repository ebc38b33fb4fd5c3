"""How finely marginals are measured: grids whose cells stand out, merged values, strong pairs.

All of it is computed from public quantities and from noisy tables that were released before, so
that it costs nothing. A cell of a table that is measured with noise of deviation σ says something
if about σ records or more fall into it: a grid of n/(cσ) cells has c σ of them in a cell on
average. Merging does not change the noise, only how much of a relation a cell holds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpassay.synth.measurements import Measurement
from dpassay.synth.models import Groups
from dpassay.synth.tables.columns import Column
from dpassay.types import FloatArray

LEAST = 2  # groups of a column: fewer say nothing about a relation


def choose_grid(sizes: Sequence[int], most_cells: float) -> tuple[int, ...]:
    """How many groups each column gets: as even as sizes allow, at least 2 where there are 2.

    >>> choose_grid((20, 20), 42.8), choose_grid((2, 87), 611)
    ((6, 7), (2, 87))

    """
    found = [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda i: sizes[i])
    for done, i in enumerate(order):
        even = int(max(most_cells, 0.0) ** (1 / (len(sizes) - done)) * (1 + 1e-12))
        found[i] = min(sizes[i], max(LEAST, even))
        most_cells /= found[i]
    return tuple(found)


def merge_values(column: Column, shares: FloatArray, k: int) -> NDArray[np.int64]:
    """The group of each code, for k groups of values; a missing value is one more.

    Args:
        column: says whether its values have an order: then groups are runs of values of nearly
            equal shares, and a value with more than that stands alone. Without an order the k - 1
            most frequent values stand alone and all others are one group.
        shares: noisy, of every code of the column.
        k: how many groups of values there should be; where single values stand between runs there
            may be more, which costs nothing.

    """
    values = column.n_values
    if k >= values:
        return np.arange(column.size)
    known = np.maximum(shares[:values], 0) + 1e-12
    if column.is_ordered:
        order, groups = column.order(), np.empty(values, np.int64)
        groups[order] = _in_runs(known[order], k)
    else:
        groups = _most_frequent(known, k)
    missing = [groups.max() + 1] * (column.size - values)
    return np.concatenate([groups, missing]).astype(np.int64)


def _most_frequent(shares: FloatArray, k: int) -> NDArray[np.int64]:
    groups = np.full(len(shares), k - 1)
    groups[np.argsort(-shares, kind="stable")[: k - 1]] = np.arange(k - 1)
    return groups


def _in_runs(shares: FloatArray, k: int) -> NDArray[np.int64]:
    """Runs of nearly equal shares, cut where the middle of a value passes a k-th of the mass.

    >>> _in_runs(np.array([0.83, 0.05, 0.04, 0.04, 0.04]), 3)
    array([0, 1, 1, 2, 2])

    """
    alone, mass = np.zeros(len(shares), bool), float(shares.sum())
    for code in np.argsort(-shares, kind="stable"):
        if k == 1 or shares[code] * k <= mass:
            break
        alone[code], mass, k = True, mass - float(shares[code]), k - 1
    rest = np.where(alone, 0.0, shares)
    cut = np.floor(k * (np.cumsum(rest) - rest / 2) / max(mass, 1e-300)).clip(0, k - 1)
    begins = alone[1:] | alone[:-1] | (np.diff(cut) > 0)
    return np.concatenate([[0], np.cumsum(begins)])


@dataclass(frozen=True)
class Strength:
    """How far a noisy pair is from independent columns, and whether that stands out.

    Attributes:
        square: an estimate of the squared distance, without bias: may be negative.
        threshold: what independent columns stay below but for some 2 % of the time.

    """

    square: float
    threshold: float

    @property
    def stands_out(self) -> bool:
        """Whether the square is above what noise alone gives."""
        return self.square > self.threshold


def find_strength(pair: Measurement, columns: Sequence[Measurement]) -> Strength:
    """The strength of a noisy pair, given the two noisy columns by themselves.

    The residual is the table less the product of the columns' shares, with the means of rows and
    columns taken off: noise of deviation s then leaves (k_a - 1)(k_b - 1) s² in its square, with a
    deviation of √(2 (k_a - 1)(k_b - 1)) s². The noise e of a column by itself adds |e'|² |p'|²,
    where ' takes the mean off and p is the other column's shares; its expectation is known, too.
    """
    shape = pair.shares.shape
    groups: Groups = pair.groups or tuple(np.arange(k) for k in shape)
    shares = [
        np.bincount(own, weights=one.shares, minlength=k)
        for own, one, k in zip(groups, columns, shape, strict=True)
    ]
    residual = _centre(pair.shares - np.outer(*shares))
    free = (shape[0] - 1) * (shape[1] - 1) * pair.deviation**2
    noise = [
        one.deviation**2 * len(own) * (1 - 1 / k)
        for own, one, k in zip(groups, columns, shape, strict=True)
    ]
    spread = [float(np.square(p - p.mean()).sum()) for p in shares]
    bias = noise[0] * spread[1] + noise[1] * spread[0]
    square = float(np.square(residual).sum()) - free - bias
    return Strength(square, 2 * math.sqrt(2 * free) * pair.deviation + bias)


def _centre(table: FloatArray) -> FloatArray:
    """The table less the means of its rows and of its columns."""
    rows, columns = table.mean(axis=1, keepdims=True), table.mean(axis=0, keepdims=True)
    return table - rows - columns + table.mean()
