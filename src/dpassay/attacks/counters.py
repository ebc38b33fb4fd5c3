"""The accuracy counters of two printed algorithms, as they should be and as they are printed.

Both algorithms attack N members and N others, 2N points in all, but count over N. ``literal=True``
reproduces what is printed, for comparison with published figures: those numbers are not accuracies.
"""

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


def sorted_half_accuracy(
    losses_in: ArrayLike, losses_out: ArrayLike, *, literal: bool = False
) -> float:
    """The share of right guesses if the half of the points with lower losses is called members.

    This is the median rule. The printed algorithm looks at the lowest N of the 2N losses only,
    takes the first half of these for members and the second for non-members, and divides by N: a
    perfect attack gets 0.5, and so does one that is always wrong (``literal=True``).

    >>> sorted_half_accuracy([1, 2], [3, 4]), sorted_half_accuracy([1, 2], [3, 4], literal=True)
    (1.0, 0.5)

    """
    inside, outside = _sides(losses_in, losses_out)
    n = inside.size
    order = np.argsort(np.concatenate([inside, outside]), kind="stable")
    member = order < n
    cut, end = (n // 2, n) if literal else (n, 2 * n)
    right = np.count_nonzero(member[:cut]) + np.count_nonzero(~member[cut:end])
    return float(right / end)


def below_threshold_accuracy(
    values_in: ArrayLike, values_out: ArrayLike, threshold: float, *, literal: bool = False
) -> float:
    """The share of right guesses if values at most the threshold (entropies) are called members.

    The printed algorithm divides the count over 2N points by N: a coin gets 1 (``literal=True``).
    """
    inside, outside = _sides(values_in, values_out)
    threshold = _check.number("threshold", threshold)
    right = np.count_nonzero(inside <= threshold) + np.count_nonzero(outside > threshold)
    return float(right) / (inside.size if literal else 2 * inside.size)


def _sides(inside: ArrayLike, outside: ArrayLike) -> tuple[FloatArray, FloatArray]:
    a = _check.array("members", inside, ndim=1, empty=False)
    b = _check.array("non_members", outside, ndim=1, empty=False)
    if a.size != b.size:
        raise InvalidArgument(
            f"{a.size} members and {b.size} non-members; these algorithms take as many of each."
        )
    return a, b
