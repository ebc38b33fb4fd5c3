"""A score that looks at the last bits of floating-point outputs.

Noise that is drawn and added in double precision can be as private as it claims by value and still
tell the answer by its bits: the sum of an answer and a draw lies on a grid that depends on the
answer (Mironov 2012). Learned scores do not look there: every mechanism in double precision would
be refuted. Pass ``score=lowest_bit`` to ask for it.
"""

from typing import overload

import numpy as np

from dpassay.types import FloatArray

_OF_ZERO = 2000.0  # zero lies on every grid


@overload
def lowest_bit(output: float) -> float: ...
@overload
def lowest_bit(output: FloatArray) -> FloatArray: ...
def lowest_bit(output: float | FloatArray) -> float | FloatArray:
    """The exponent of the last bit that is set: the finest grid of powers of two on which it lies.

    Args:
        output: a number, or an array with a number or a row of numbers for each output; of a row
            the finest grid counts. What is not finite is NaN.

    >>> lowest_bit(0.75), lowest_bit(6.0), lowest_bit(0.1)
    (-2.0, 1.0, -55.0)

    """
    values = np.asarray(output, float)
    mantissa, exponent = np.frexp(values)
    with np.errstate(invalid="ignore"):
        whole = np.where(np.isfinite(values), np.abs(mantissa) * 2.0**53, 0.0).astype(np.int64)
    last = np.frexp((whole & -whole).astype(float))[1] - 1  # a power of two: exact
    found = np.where(whole == 0, _OF_ZERO, exponent - 53.0 + last)
    found = np.where(np.isfinite(values), found, np.nan)
    if values.ndim == 0:
        return float(found)
    return found.reshape(len(values), -1).min(axis=1)
