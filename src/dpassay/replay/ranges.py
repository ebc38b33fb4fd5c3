"""Declared ranges of values: one for all of them, one per column, or by the name of a column."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpassay._records import is_labelled
from dpassay.errors import InvalidArgument
from dpassay.replay import fields
from dpassay.replay.entries import Array

Bounds = tuple[Array, Array]
"""The lowest and the highest values of a record's numbers, each as one number or one per column."""

_WHAT = (
    "bounds must be (low, high) with low <= high: two numbers, or two rows of numbers with one "
    "per column; for a frame also {'age': (0, 120)}"
)


def read_bounds(data: Any, bounds: Any) -> Bounds | None:
    """The declared range in one form; columns that a mapping leaves out are unbounded.

    Args:
        data: the data set; of a pair (X, y) the range is about X.
        bounds: what the user declares, None for nothing.

    """
    if bounds is None:
        return None
    part = data[0] if is_labelled(data) else data
    numbers = fields.split(fields.columns_of(part))[0]
    if isinstance(bounds, Mapping):
        unknown = [name for name in bounds if name not in numbers]
        if unknown:
            raise InvalidArgument(
                f"bounds names {unknown[0]!r}, which is no column of numbers; these are "
                f"{', '.join(map(str, numbers)) or 'none'}."
            )
        rows = [bounds.get(name, (-np.inf, np.inf)) for name in numbers]
        bounds = _pair_of([_pair_of(row)[0] for row in rows], [_pair_of(row)[1] for row in rows])
    low, high = _pair_of(bounds)
    try:
        found = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{_WHAT}.") from None
    shape = _shape_of_record(part, len(numbers))
    for limit in found:
        if limit.ndim and limit.shape != shape:
            raise InvalidArgument(
                f"bounds has rows of shape {limit.shape}, and a record has {shape}. {_WHAT}."
            )
    if not np.all(found[0] <= found[1]):
        raise InvalidArgument(f"{_WHAT}.")
    return found


def _pair_of(*bounds: Any) -> tuple[Any, Any]:
    value = bounds[0] if len(bounds) == 1 else bounds
    try:
        low, high = value
    except (TypeError, ValueError):
        raise InvalidArgument(f"{_WHAT}.") from None
    return low, high


def _shape_of_record(part: Any, n_columns: int) -> tuple[int, ...]:
    if isinstance(part, np.ndarray):
        return part.shape[1:]
    return (n_columns,) if n_columns or not isinstance(part, list) else np.shape(part[:1])[1:]


def is_bounded(bounds: Bounds | None) -> bool:
    """Whether every number has a declared range."""
    return bounds is not None and bool(np.all(np.isfinite(bounds[0]) & np.isfinite(bounds[1])))


def ends_of(bounds: Bounds | None, low: Array, high: Array) -> list[Array]:
    """The records at either end of the declared range; of what is seen where none is declared."""
    if bounds is None:
        return []
    pairs = zip(bounds, (low, high), strict=True)
    return [np.where(np.isfinite(limit), limit, seen) for limit, seen in pairs]


def is_inside(values: Any, bounds: Bounds | None) -> bool:
    """Whether numbers of a record lie in the declared range."""
    return bounds is None or bool(np.all((values >= bounds[0]) & (values <= bounds[1])))


def move_inside(values: Any, bounds: Bounds | None) -> Array:
    """The nearest numbers in the declared range."""
    return np.asarray(values if bounds is None else np.clip(values, *bounds))
