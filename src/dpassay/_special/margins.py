"""By how much a float may differ from the real number that it stands for; see the package."""

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

ULP = 2.0**-52
"""The distance from 1 to the next float: one operation errs by at most half of it, relatively."""

ARITHMETIC = 1e-12
"""Of formulae: up to a thousand operations, and exp or log of numbers up to 700 in size."""

TAIL = 1e-8
"""Of probabilities that a library computes; thirty times the largest error that was found."""

NUMERICAL = 1e-8
"""Of sums over a grid, Fourier transforms and stopped searches."""

TINY = 1e-300
"""The smallest number that is divided by or whose logarithm is taken; not a margin."""

_LARGEST = float(np.finfo(float).max)


@overload
def round_up(x: float, margin: float = ..., size: float = ...) -> float: ...
@overload
def round_up(
    x: NDArray[np.float64], margin: float = ..., size: float = ...
) -> NDArray[np.float64]: ...
def round_up(x: Any, margin: float = ARITHMETIC, size: float = 0.0) -> Any:
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


@overload
def round_down(x: float, margin: float = ..., size: float = ...) -> float: ...
@overload
def round_down(
    x: NDArray[np.float64], margin: float = ..., size: float = ...
) -> NDArray[np.float64]: ...
def round_down(x: Any, margin: float = ARITHMETIC, size: float = 0.0) -> Any:
    """A number that is certainly at most what x stands for; as :func:`round_up`.

    >>> round_down(0.5, margin=1e-3), round_down(-0.5, margin=1e-3)
    (0.4995, -0.5005)

    """
    return -round_up(-x, margin, size)
