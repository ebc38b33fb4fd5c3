"""Vectorised search for the point where a monotone condition becomes true."""

from collections.abc import Callable

import numpy as np

from dpassay.types import FloatArray


def smallest_true(
    condition: Callable[[FloatArray], FloatArray],
    low: FloatArray,
    high: FloatArray,
    iterations: int = 200,
) -> FloatArray:
    """The smallest x in [low, high] at which a monotone condition holds, to the last bit or so.

    The upper end of the final bracket is returned: the condition was seen to hold there (or it
    is ``high`` itself), so the answer errs to the safe side. Where ``low`` passes, it is ``low``.
    """
    low, high = np.array(low, float), np.array(high, float)
    high = np.where(condition(low), low, high)
    for _ in range(iterations):
        # Halving in the exponent first keeps relative accuracy for tiny answers.
        mid = np.where(
            high > 4 * np.maximum(low, 1e-300),
            np.sqrt(np.maximum(low, 1e-300)) * np.sqrt(np.maximum(high, 1e-300)),
            low + (high - low) / 2,
        )
        moving = (mid > low) & (mid < high)
        if not moving.any():
            break
        holds = condition(mid)
        high = np.where(moving & holds, mid, high)
        low = np.where(moving & ~holds, mid, low)
    return high
