"""The accuracy of two simple rules on as many members as others, without an interval."""

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


def sorted_half_accuracy(losses_in: ArrayLike, losses_out: ArrayLike) -> float:
    """The share of right guesses if the half of the points with lower losses is called members.

    Points of equal losses at the border between the halves are taken in equal shares, so that a
    model that tells nothing is right half of the time.

    >>> sorted_half_accuracy([1, 2], [3, 4]), sorted_half_accuracy([0, 0], [0, 0])
    (1.0, 0.5)

    """
    inside, outside = as_many_of_each(losses_in, losses_out)
    return float(share_in_lower_half(np.concatenate([inside, outside])))


def share_in_lower_half(losses: FloatArray) -> FloatArray:
    """The share of members, the first half of the last axis, among the half with lower losses.

    With k of the N members in the lower half, N - k of the others are there too, so that k members
    and N - (N - k) others are judged rightly: 2k of 2N, which is that share.
    """
    n = losses.shape[-1] // 2
    cut = np.partition(losses, n - 1, axis=-1)[..., n - 1 : n]
    below, at = losses < cut, losses == cut
    room = (n - below.sum(axis=-1)) / at.sum(axis=-1)
    return (below[..., :n].sum(axis=-1) + room * at[..., :n].sum(axis=-1)) / n


def below_threshold_accuracy(
    values_in: ArrayLike, values_out: ArrayLike, threshold: float
) -> float:
    """The share of right guesses if values at most the threshold (entropies) are called members."""
    inside, outside = as_many_of_each(values_in, values_out)
    threshold = _check.number("threshold", threshold)
    right = np.count_nonzero(inside <= threshold) + np.count_nonzero(outside > threshold)
    return float(right) / (2 * inside.size)


def as_many_of_each(inside: ArrayLike, outside: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The losses of members and non-members as arrays, which must have one size."""
    a = _check.array("members", inside, ndim=1, empty=False)
    b = _check.array("non_members", outside, ndim=1, empty=False)
    if a.size != b.size:
        raise InvalidArgument(
            f"{a.size} members and {b.size} non-members; these rules take as many of each."
        )
    return a, b
