"""By how much a float may differ from the real number that it stands for; see the package."""

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

UNIT = 2.0**-53
"""The relative error of one operation, at most."""

ULP = 2 * UNIT
"""The distance from 1 to the next float."""

CLOSED_FORM = 64 * UNIT
"""For formulae of some thirty operations in which nothing cancels: those of the accountants."""

REQUEST = 8 * UNIT
"""How closely a delta that was asked for is met: three times 1e-7 and 3e-7 are different floats."""

ARITHMETIC = 1e-12
"""For formulae of up to a thousand operations, with exp or log of numbers up to 700 in size."""

TAIL = 1e-8
"""For probabilities that a library computes: thirty times the largest error that was found."""

NUMERICAL = 1e-8
"""For sums over a grid, Fourier transforms and searches that were stopped."""

TINY = 1e-300
"""The smallest number that is divided by or whose logarithm is taken; not a margin."""

LEAST = float(np.finfo(float).tiny)
"""What a positive upper bound is at least: it never becomes 0 by underflow."""

_LARGEST = float(np.finfo(float).max)


Number = TypeVar("Number", float, NDArray[np.float64])
"""A number, or an array of them."""


def round_up(x: Number, margin: float = ARITHMETIC, size: float = 0.0) -> Number:
    """A number that is certainly at least what x stands for, if x errs by at most the margin.

    Args:
        x: what was computed; 0 and infinities stay as they are unless ``size`` is given.
        margin: the error relative to x, one of the constants of this module.
        size: the largest term that x is a sum or difference of. If these cancelled, the error is
            relative to them and not to x.

    >>> round_up(0.5, margin=1e-3), round_up(-0.5, margin=1e-3), round_up(0.0, 1e-3, size=1.0)
    (0.5005, -0.4995, 0.001)

    """
    # At most the largest float, so that minus infinity is not moved to NaN.
    step = margin * np.minimum(np.maximum(np.abs(x), size), _LARGEST)
    return x + step if isinstance(x, np.ndarray) else float(x + step)


def round_down(x: Number, margin: float = ARITHMETIC, size: float = 0.0) -> Number:
    """A number that is certainly at most what x stands for; as :func:`round_up`.

    >>> round_down(0.5, margin=1e-3), round_down(-0.5, margin=1e-3)
    (0.4995, -0.5005)

    """
    return -round_up(-x, margin, size)


# One-liners for formulae that are priced by the thousand: margins in units of the last place.


def up(value: Any, relative: Any = CLOSED_FORM) -> Any:
    """The value, raised by its relative margin; 0 and infinity stay."""
    return value * (1 + relative)


def down(value: Any, relative: Any = CLOSED_FORM) -> Any:
    """The value, lowered by its relative margin."""
    return value * (1 - relative)


def exp_up(log_value: Any, error: Any = 0.0) -> Any:
    """Upper bound on e to a number known up to ``error``; 0 only for minus infinity."""
    log_value = np.asarray(log_value, float)
    with np.errstate(under="ignore", over="ignore"):
        value = up(np.exp(log_value + error))
    return np.where(log_value == -np.inf, 0.0, np.maximum(value, LEAST))


def exp_down(log_value: Any, error: Any = 0.0) -> Any:
    """Lower bound on e to a number known up to ``error``."""
    with np.errstate(under="ignore"):
        return down(np.exp(np.asarray(log_value, float) - error))


def allow_request(delta: Any) -> Any:
    """The largest delta that a request for this one may be answered with."""
    return np.minimum(delta * (1 + REQUEST), 1.0)


def product_up(count: float, value: float) -> float:
    """The product with a number that is at least 0, rounded up; positive if both are."""
    if count == 1:
        return value
    return float(products_up(float(count), value))


def products_up(factor: Any, value: Any) -> Any:
    """Products of numbers that are at least 0, rounded up; positive where both factors are."""
    with np.errstate(under="ignore", over="ignore"):
        positive = np.maximum(up(np.multiply(factor, value)), LEAST)
    return np.where((np.asarray(factor) > 0) & (np.asarray(value) > 0), positive, 0.0)


def sum_up(values: Any) -> float:
    """The sum of numbers that are at least 0, rounded up; a single number stays as it is.

    ``fsum`` rounds once, so that one step to the next float is enough.
    """
    values = list(values)
    total = math.fsum(values)
    exact = len(values) - values.count(0.0) <= 1 or total == math.inf
    return total if exact else math.nextafter(total, math.inf)
