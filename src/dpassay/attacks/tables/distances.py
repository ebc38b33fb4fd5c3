"""The nearest row of a table, for many records: in blocks, so that memory is bounded.

The distance is a sum over columns: the difference of scaled numbers, and 1 for texts that differ
(Gower's, up to the number of columns). Every record is compared with every row: time grows with
records × rows × columns, memory does not grow beyond one block.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from dpassay.attacks.tables.coding import Coded
from dpassay.types import FloatArray

BLOCK = 2**21
"""Distances held at a time: 16 megabytes, and as much again while they are added up."""
_MOST_QUERIES = 1024


class Nearest(NamedTuple):
    """For each record: how far the nearest row is, and which it is (the first of several)."""

    distances: FloatArray
    rows: NDArray[np.int64]


def find_nearest(
    records: Coded,
    table: Coded,
    numbers: list[int] | None = None,
    texts: list[int] | None = None,
    leave_out_itself: bool = False,
) -> Nearest:
    """The nearest row of the table to each record, over all columns or some of them.

    Args:
        records: whose neighbours are looked for.
        table: where they are looked for.
        numbers: which columns of numbers count; None for all.
        texts: which columns of texts count; None for all.
        leave_out_itself: record i is row i of the table, and not its own neighbour.

    """
    ours, theirs = _select(records, numbers, texts), _select(table, numbers, texts)
    n, m = len(records), len(table)
    best, where = np.full(n, np.inf), np.zeros(n, np.int64)
    step = min(_MOST_QUERIES, max(n, 1))
    width = max(BLOCK // step, 1)
    for i in range(0, n, step):
        for j in range(0, m, width):
            block = _distances(ours, theirs, slice(i, i + step), slice(j, j + width))
            if leave_out_itself:
                same = np.arange(i, min(i + step, n))[:, None] == np.arange(j, min(j + width, m))
                block[same] = np.inf
            found = block.argmin(axis=1)
            least = block[np.arange(len(block)), found]
            better = least < best[i : i + step]
            best[i : i + step][better] = least[better]
            where[i : i + step][better] = found[better] + j
    return Nearest(best, where)


def _select(
    coded: Coded, numbers: list[int] | None, texts: list[int] | None
) -> tuple[FloatArray, FloatArray]:
    chosen = coded.numbers if numbers is None else coded.numbers[:, numbers]
    other = coded.texts if texts is None else coded.texts[:, texts]
    return np.ascontiguousarray(chosen), np.ascontiguousarray(other, dtype=float)


def _distances(
    ours: tuple[FloatArray, FloatArray], theirs: tuple[FloatArray, FloatArray], i: slice, j: slice
) -> FloatArray:
    """Sums over columns, for a block of records and a block of rows."""
    total = np.zeros((len(ours[0][i]), len(theirs[0][j])))
    if ours[0].shape[1]:
        total += cdist(ours[0][i], theirs[0][j], "cityblock")
    if ours[1].shape[1]:
        total += ours[1].shape[1] * cdist(ours[1][i], theirs[1][j], "hamming")
    return total
