"""Accuracy as algorithms 5 and 6 of Micali 2022 print it: numbers that are not accuracies.

Both algorithms attack N members and N others, 2N points in all, but count over N. The right counts
are :func:`dpassay.attacks.sorted_half_accuracy` and ``below_threshold_accuracy``.
"""

import numpy as np
from numpy.typing import ArrayLike

from dpassay.attacks.counters import as_many_of_each, below_threshold_accuracy

__all__ = ["printed_sorted_half", "printed_threshold"]


def printed_sorted_half(losses_in: ArrayLike, losses_out: ArrayLike) -> float:
    """What algorithm 5 prints.

    It looks at the lowest N of the 2N losses only, takes the first half of these for members and
    the second for non-members, and divides by N: a perfect attack gets 0.5, and so does one that is
    always wrong.

    >>> printed_sorted_half([1, 2], [3, 4]), printed_sorted_half([3, 4], [1, 2])
    (0.5, 0.5)

    """
    inside, outside = as_many_of_each(losses_in, losses_out)
    n = inside.size
    member = np.argsort(np.concatenate([inside, outside]), kind="stable") < n
    right = np.count_nonzero(member[: n // 2]) + np.count_nonzero(~member[n // 2 : n])
    return float(right / n)


def printed_threshold(values_in: ArrayLike, values_out: ArrayLike, threshold: float) -> float:
    """What algorithm 6 prints: it divides the count over 2N points by N, so that a coin gets 1."""
    return 2 * below_threshold_accuracy(values_in, values_out, threshold)
