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
    """The smallest float that is not below the square root, or the next; inf where there is none.

    sqrt(p/q) = sqrt(p q)/q, in integers of 128 bits or more, rounded up unless it is exact.
    """
    product, shift = square.numerator * square.denominator, 128
    root = math.isqrt(product << 2 * shift)
    root += root * root < product << 2 * shift
    return at_least(Fraction(root, square.denominator << shift))
