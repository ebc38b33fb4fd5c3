"""Numbers on their way out: JSON that every parser reads, rounding that keeps a bound a bound."""

import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

_NOISE = 1e-9


def as_json(data: Any) -> str:
    """The data as strict JSON: infinity becomes the string "inf" (``float`` reads it), NaN null.

    >>> print(as_json({"epsilon": math.inf, "delta": 1e-5}))
    {
      "epsilon": "inf",
      "delta": 1e-05
    }

    """
    return json.dumps(_plain(data), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # a NumPy array or scalar
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def up(x: float, digits: int = 5) -> str:
    """An upper bound in print: rounded up, so that what is read still holds.

    A relative 1e-9, the noise of floats, is not rounded up to a digit.

    >>> up(1.82824365), up(3.0000000001), up(math.inf)
    ('1.8283', '3', 'inf')

    """
    return _round(x * (1 - _NOISE), digits, ROUND_CEILING)


def down(x: float, digits: int = 5) -> str:
    """A lower bound (not negative) in print: rounded down, in the same way.

    >>> down(5.600589)
    '5.6005'

    """
    return _round(x * (1 + _NOISE), digits, ROUND_FLOOR)


def _round(x: float, digits: int, rounding: str) -> str:
    if not math.isfinite(x):
        return str(x)
    return f"{float(Context(prec=digits, rounding=rounding).plus(Decimal(x))):.{digits}g}"
