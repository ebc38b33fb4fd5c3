"""Argument checks, written so that NaN fails them.

Every check returns the checked value and raises :class:`InvalidArgument` with ``name=value``, the
range, and what to do. Entries of arrays may be records: they are named by their index, not shown.
Quantities that occur all over the code have a check of their own, so that their message is the same
everywhere.
"""

import math
import operator
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay.errors import InvalidArgument

NEIGHBOURING = ("add-remove", "replace-one")


MOST_COUNT = 2**53  # the largest count that a float holds exactly, and more than anybody counts
_LONGEST = 80  # characters of a value in a message

T = TypeVar("T")
Option = TypeVar("Option", bound=str)


def shown(value: Any) -> str:
    """A value for a message: numbers and texts themselves, of all else the type and the shape.

    Containers may hold records, which no message may quote.

    >>> shown(-1.5), shown([1, 2, 3]), shown(np.zeros((2, 3)))
    ('-1.5', 'a list of 3', 'a ndarray of shape (2, 3)')

    """
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:
        return f"{'-' if value < 0 else ''}{digits(value)}"
    if value is None or isinstance(value, bool | int | float | complex | str | Path | np.generic):
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"a {type(value).__qualname__} of shape {shape}"
    size = f" of {len(value)}" if isinstance(value, Sized) else ""
    return f"a {type(value).__qualname__}{size}"


def digits(value: int) -> str:
    """A whole number for a message; of a long one only how long it is."""
    if abs(value) < 10**30:
        return str(value)
    return f"a whole number of {int(value.bit_length() * math.log10(2)) + 1} digits"


class Limits(TypedDict, total=False):
    """Where a number must lie: between ``low`` and ``high``, which belong to it unless open."""

    low: float
    high: float
    low_open: bool
    high_open: bool
    finite: bool
    """Whether infinities are refused, which they are unless told."""


class _Interval(NamedTuple):
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    finite: bool = True

    def holds(self, x: Any) -> Any:
        """Whether a number lies inside, or each of an array; NaN never does."""
        above = x > self.low if self.low_open else x >= self.low
        below = x < self.high if self.high_open else x <= self.high
        return above & below & (np.isfinite(x) if self.finite else True)

    def __str__(self) -> str:
        left = "(" if self.low_open or self.low == -math.inf else "["
        right = ")" if self.high_open or self.high == math.inf else "]"
        high = "2^53" if self.high == 2**53 else f"{self.high:g}"
        return f"{left}{self.low:g}, {high}{right}"


def instance(name: str, value: Any, kind: type[T], must_be: str) -> T:
    """The value, if it is of this type; ``must_be`` says what to pass, with an example."""
    if not isinstance(value, kind):
        raise InvalidArgument(f"{name}={shown(value)} must be {must_be}")
    return value


def number(
    name: str,
    value: Any,
    *,
    remedy: str = "",
    **limits: Unpack[Limits],
) -> float:
    """The value as a float that lies in the interval."""
    try:
        x = float(value)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"{name}={shown(value)} must be a number. {remedy}".rstrip()
        ) from None
    except OverflowError:  # a whole number that no float holds
        x = math.copysign(math.inf, value)
    interval = _Interval(**limits)
    if not interval.holds(x):
        extra = " and be finite" if interval.finite and math.isinf(x) else ""
        raise InvalidArgument(f"{name}={x:g} must lie in {interval}{extra}. {remedy}".rstrip())
    return x


def array(
    name: str,
    values: ArrayLike,
    *,
    ndim: int | None = None,
    empty: bool = True,
    remedy: str = "",
    **limits: Unpack[Limits],
) -> NDArray[np.float64]:
    """The values as a float array, every entry of which lies in the interval."""
    try:
        raw = np.asarray(values)
        # Complex numbers and dates would lose a part of themselves without an error.
        x = None if raw.dtype.kind in "cMmV" else np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        x = None
    if x is None:
        raise InvalidArgument(f"{name} must hold numbers. {remedy}".rstrip())
    if ndim is not None and x.ndim != ndim:
        raise InvalidArgument(
            f"{name} has shape {x.shape}; it must have {ndim} dimension(s). {remedy}".rstrip()
        )
    if not empty and x.size == 0:
        raise InvalidArgument(
            f"{name} is empty; it must hold at least one value. {remedy}".rstrip()
        )
    interval = _Interval(**limits)
    good = np.asarray(interval.holds(x))
    if not good.all():
        index = tuple(int(i) for i in np.argwhere(~good)[0])
        at = f"[{', '.join(map(str, index))}]" if index else ""
        # A lone number is an argument, and NaN tells nothing; other entries may be a record's.
        entry = float(x[index])
        value = f"={entry:g}" if not index or not math.isfinite(entry) else ""
        raise InvalidArgument(
            f"{name}{at}{value} must lie in {interval}"
            f"{' and be finite' if interval.finite else ''}. {remedy}".rstrip()
        )
    return x


def count(
    name: str, value: Any, *, low: int = 1, high: float = MOST_COUNT, remedy: str = ""
) -> int:
    """The value as an int that lies in [low, high]; 3.0 is taken, 3.5 and True are not."""
    whole = None
    if not isinstance(value, bool | np.bool_):
        try:
            whole = operator.index(value)
        except TypeError:
            if isinstance(value, float | np.floating) and float(value).is_integer():
                whole = int(value)
    if whole is None:
        raise InvalidArgument(f"{name}={shown(value)} must be a whole number. {remedy}".rstrip())
    if not low <= whole <= high:
        where = _Interval(low, high)
        raise InvalidArgument(f"{name}={digits(whole)} must lie in {where}. {remedy}".rstrip())
    return whole


def seed(name: str, value: Any, *, remedy: str = "") -> int:
    """A seed: a whole number that is not negative, of 256 bits at most."""
    return count(name, value, low=0, high=2**256, remedy=remedy)


def choice(name: str, value: Any, options: Sequence[Option], remedy: str = "") -> Option:
    """The value, which must be one of the options."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise InvalidArgument(f"{name}={shown(value)} must be one of {listed}. {remedy}".rstrip())
    return cast(Option, value)


def epsilon(value: Any, *, finite: bool = False, positive: bool = False) -> float:
    """A privacy parameter epsilon: at least 0, infinity meaning no privacy unless finite."""
    remedy = "It bounds a log-likelihood ratio; smaller is more private."
    return number("epsilon", value, low=0, low_open=positive, finite=finite, remedy=remedy)


def delta(value: Any) -> float:
    """A privacy parameter delta in [0, 1)."""
    remedy = "It is the probability that may escape epsilon; common values are below 1/n."
    return number("delta", value, low=0, high=1, high_open=True, remedy=remedy)


def confidence(value: Any) -> float:
    """A confidence level in (0, 1)."""
    remedy = "For 95 % pass confidence=0.95; 1 cannot be reached, 0.999999 can."
    return number("confidence", value, low=0, high=1, low_open=True, high_open=True, remedy=remedy)


def sampling_rate(value: Any) -> float:
    """A sampling probability in (0, 1]."""
    remedy = "It is a probability; for full batches pass sampling_rate=1."
    return number("sampling_rate", value, low=0, high=1, low_open=True, remedy=remedy)


def noise_multiplier(value: Any) -> float:
    """A noise standard deviation in units of the sensitivity; positive and finite."""
    remedy = "It is the noise in units of the sensitivity; without noise use NonPrivate()."
    return number("noise_multiplier", value, low=0, low_open=True, remedy=remedy)


def sensitivity(value: Any) -> float:
    """A sensitivity: positive and finite."""
    remedy = "It is the most one record can change the value; derive it from declared bounds."
    return number("sensitivity", value, low=0, low_open=True, remedy=remedy)


def neighbouring(value: Any) -> str:
    """The neighbouring relation, which must be "add-remove" or "replace-one"."""
    return choice("neighbouring", value, NEIGHBOURING)
