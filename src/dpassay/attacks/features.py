"""Any output as a row of numbers: what a distinguisher sees of it.

Numbers, arrays, nested lists, tuples and dicts, booleans, strings, bytes, data frames, dataclasses
and fitted models (pipelines and ensembles by their parts) are flattened in a fixed order. Shape is
information too: the row starts with the number of entries.
"""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpassay.errors import InvalidTarget
from dpassay.types import FloatArray

MAX_FEATURES = 4096
_LEARNED = (
    *("coef_", "intercept_", "coefs_", "intercepts_", "theta_", "var_", "means_"),
    *("mean_", "dual_coef_", "support_vectors_"),
)


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
        yield np.array([_hash(output)])
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
        yield from _find_learned_parts(output)


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


def _find_learned_parts(model: Any) -> Iterator[FloatArray]:
    """What a fitted model has learned, or the hash of its printed form.

    Raises:
        InvalidTarget: it prints nothing but its place in memory.

    """
    parts = _parts(model)
    if not parts:
        printed = repr(model)
        if f" at {id(model):#x}" in printed or f" at 0x{id(model):016X}" in printed:
            raise InvalidTarget(
                f"the output is of type {type(model).__qualname__!r}, in which no numbers, texts "
                "or arrays are found. Return what is published, such as numbers or a fitted model, "
                "or pass a score of your own that makes a number of it."
            )
        yield np.array([_hash(printed)])
    for part in parts:
        yield from _walk(part)


def _parts(model: Any) -> list[Any]:
    """The values that make up a model: of the first kind that it has any of."""
    if hasattr(model, "state_dict"):
        return [tensor.detach().cpu().numpy() for tensor in model.state_dict().values()]
    if known := [getattr(model, name) for name in _LEARNED if hasattr(model, name)]:
        return known
    if dataclasses.is_dataclass(model):
        return [getattr(model, field.name) for field in dataclasses.fields(model)]
    if hasattr(model, "steps"):  # a pipeline
        return [step for _, step in model.steps]
    if hasattr(model, "tree_"):
        return [model.tree_.feature, model.tree_.threshold, model.tree_.value]
    fitted = getattr(model, "__dict__", {})
    return [fitted[name] for name in sorted(fitted) if _is_fitted(name, fitted[name])]


def _is_fitted(name: str, value: Any) -> bool:
    """Whether an attribute was learned, as scikit-learn names such, and is made of numbers."""
    kinds = (int, float, np.number, np.ndarray, list, tuple)
    return name.endswith("_") and not name.startswith("_") and isinstance(value, kinds)


def _hash(text: str | bytes) -> float:
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
