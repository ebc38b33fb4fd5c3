"""The search of :mod:`dpassay._special.search`, with a number of halvings."""

from dpassay._special.search import Condition, first_true
from dpassay.types import FloatArray


def smallest_true(
    condition: Condition,
    low: FloatArray,
    high: FloatArray,
    iterations: int = 200,
    guess: FloatArray | None = None,
) -> FloatArray:
    """The smallest x in [low, high] at which a monotone condition was seen to hold, or ``high``."""
    return first_true(condition, low, high, most=iterations, guess=guess)
