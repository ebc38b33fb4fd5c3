"""Floats that are never below the exact value: noise may be rounded up, never down."""

import math
from fractions import Fraction


def at_least(exact: Fraction) -> float:
    """The smallest float that is not below an exact number; inf where there is none."""
    try:
        x = float(exact)
    except OverflowError:
        return math.inf
    return x if x >= exact else math.nextafter(x, math.inf)


def root_at_least(square: Fraction) -> float:
    """A float that is not below the square root, and above it by at most a few last bits."""
    x = math.sqrt(at_least(square))
    while Fraction(x) ** 2 < square:
        x = math.nextafter(x, math.inf)
    return x
