"""Any output as a row of numbers: what a distinguisher sees of it.

Numbers, arrays, nested lists, tuples and dicts, booleans, strings, bytes, data frames and models
with ``coef_`` / ``intercept_`` or ``get_params`` arrays are flattened in a fixed order. Shape is
information too: the row starts with the number of entries.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpassay.types import FloatArray

MAX_FEATURES = 4096
_LEARNED = ("coef_", "intercept_", "coefs_", "intercepts_", "theta_", "var_", "means_")


def features(output: Any, limit: int = MAX_FEATURES) -> FloatArray:
    """The number of entries of an output, then its entries as floats, at most ``limit`` of them.

    A long output is cut to evenly spaced entries. Strings and bytes become a number by a hash, so
    that equal ones are equal.
    """
    entries = np.concatenate([np.atleast_1d(part) for part in _walk(output)] or [np.empty(0)])
    size = float(entries.size)
    if entries.size > limit:
        entries = entries[np.linspace(0, entries.size - 1, limit).astype(int)]
    return np.concatenate([[size], entries.astype(np.float64)])


def _walk(output: Any) -> Iterator[FloatArray]:
    if output is None:
        yield np.array([np.nan])
    elif isinstance(output, str | bytes):
        yield np.array([_hashed(output)])
    elif isinstance(output, bool | int | float | complex | np.number | np.bool_ | np.ndarray):
        yield from _numbers(np.asarray(output))
    elif isinstance(output, Mapping):
        for key in sorted(output, key=repr):
            yield from _walk(output[key])
    elif isinstance(output, Sequence):
        for part in output:
            yield from _walk(part)
    elif hasattr(output, "__array__"):
        yield from _numbers(np.asarray(output))
    else:
        yield from _learned(output)


def _numbers(values: Any) -> Iterator[FloatArray]:
    if values.dtype.kind == "c":
        yield np.concatenate([values.real.ravel(), values.imag.ravel()])
    elif values.dtype.kind in "biuf":
        yield values.ravel().astype(np.float64)
    elif values.dtype.kind in "mM":
        yield values.ravel().astype("int64").astype(np.float64)
    else:
        for value in values.ravel().tolist():
            yield from _walk(value if not isinstance(value, np.ndarray) else value.tolist())


def _learned(model: Any) -> Iterator[FloatArray]:
    """What a fitted model has learned, or the hash of its printed form."""
    parts = [getattr(model, name) for name in _LEARNED if hasattr(model, name)]
    if hasattr(model, "state_dict"):
        parts = [tensor.detach().cpu().numpy() for tensor in model.state_dict().values()]
    if not parts:
        yield np.array([_hashed(repr(model))])
    for part in parts:
        yield from _walk(part)


def _hashed(text: str | bytes) -> float:
    """A number in [0, 1) that only equal texts share."""
    data = text.encode() if isinstance(text, str) else text
    return int.from_bytes(hashlib.sha256(data).digest()[:6], "big") / 2**48


def stack(rows: Sequence[FloatArray]) -> FloatArray:
    """Rows of different lengths as one table; what is missing is NaN."""
    width = max((row.size for row in rows), default=0)
    table = np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        table[i, : row.size] = row
    return table


def describe(row: FloatArray) -> str:
    """A few words on an output's size, for progress and reports; never its content."""
    return f"{int(row[0])} number(s)" if row.size else "nothing"
