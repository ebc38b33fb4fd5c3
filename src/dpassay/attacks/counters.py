"""The accuracy of two simple rules on as many members as others, without an interval."""

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


def sorted_half_accuracy(losses_in: ArrayLike, losses_out: ArrayLike) -> float:
    """The share of right guesses if the half of the points with lower losses is called members.

    >>> sorted_half_accuracy([1, 2], [3, 4])
    1.0

    """
    inside, outside = as_many_of_each(losses_in, losses_out)
    n = inside.size
    member = np.argsort(np.concatenate([inside, outside]), kind="stable") < n
    right = np.count_nonzero(member[:n]) + np.count_nonzero(~member[n:])
    return float(right / (2 * n))


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
