"""What a mechanism returned: without marks, and compared bit for bit."""

import dataclasses
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dpassay.replay.draws import Noisy, mark_of, note, strip

_DEPTH = 6


def settle(value: Any, depth: int = 0) -> Any:
    """The output without marks; what is released counts as used."""
    mark = mark_of(value)
    if mark is not None:
        note(mark)
        if isinstance(mark, Noisy):
            _publish(mark, strip(value))
        return strip(value)
    value = strip(value)
    if depth > _DEPTH:
        return value
    if _is_of_torch(value):
        return _from_torch(value)
    if type(value).__module__.startswith("jax") and hasattr(value, "__array__"):
        return np.array(value)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(settle(part, depth + 1) for part in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(settle(part, depth + 1) for part in value))
    if isinstance(value, dict) and type(value) in (dict, OrderedDict):
        return {settle(key, depth + 1): settle(part, depth + 1) for key, part in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return np.array([settle(part, depth + 1) for part in value.ravel()], dtype=object)
    return value


def _publish(mark: Noisy, value: Any) -> None:
    """A noisy value is released as it is, or times a number: where that is zero, nothing is."""
    told = np.isfinite(value) & (np.not_equal(value, 0) | (not mark.scaled))
    mark.entry.publish(np.asarray(mark.where)[told], np.asarray(value)[told])


def _is_of_torch(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor | torch.nn.Module)


def _from_torch(value: Any) -> Any:
    """A tensor as an array; of a model all that is saved, its buffers included."""
    import torch

    from dpassay.replay.tensors import array_of

    with torch._C.DisableTorchFunction():
        if isinstance(value, torch.Tensor):
            return array_of(value).copy()
        parts = value.state_dict()
        return {
            name: _from_torch(part) if isinstance(part, torch.Tensor) else part
            for name, part in parts.items()
        }


def is_discrete(value: Any, depth: int = 0) -> bool:
    """Whether an output has whole numbers, words and the like alone, which may agree by chance."""
    if isinstance(value, float | np.floating):
        return bool(value == np.rint(value))
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        return bool(np.all(value == np.rint(value)))
    if isinstance(value, str | bytes | int) or depth > _DEPTH:
        return True
    if isinstance(value, Mapping):
        return all(is_discrete(part, depth + 1) for part in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(is_discrete(part, depth + 1) for part in value)
    if type(value).__module__.startswith("pandas"):
        return is_discrete(np.asarray(value), depth + 1)
    return all(is_discrete(part, depth + 1) for part in (_attributes(value) or {}).values())


def first_difference(left: Any, right: Any, name: str = "the output") -> str | None:
    """Where two outputs differ, by name and without values; None where all is equal.

    NaN equals NaN. An object is compared by its attributes.
    """
    return next(_differences(left, right, name, 0), None)


def _differences(left: Any, right: Any, name: str, depth: int) -> Iterator[str]:
    if type(left) is not type(right):
        yield f"{name} (its type)"
    elif _is_of_torch(left):
        yield from _differences(_from_torch(left), _from_torch(right), name, depth)
    elif isinstance(left, np.ndarray):
        if not _same_array(left, right):
            yield name if left.shape == right.shape else f"{name} (its shape)"
    elif isinstance(left, Mapping):
        yield from _mapping_differences(left, right, name, depth)
    elif isinstance(left, list | tuple):
        if len(left) != len(right):
            yield f"{name} (its length)"
        for i, (a, b) in enumerate(zip(left, right, strict=False)):
            yield from _differences(a, b, f"{name}[{i}]", depth + 1)
    elif hasattr(left, "to_numpy"):
        if not _same_frame(left, right):
            yield name
    elif not _same(left, right, name, depth):
        yield from _object_differences(left, right, name, depth)


def _mapping_differences(left: Any, right: Any, name: str, depth: int) -> Iterator[str]:
    if list(left) != list(right):
        yield f"{name} (its keys)"
    for key in left:
        if key in right:
            shown = repr(key) if isinstance(key, str) and len(key) < 20 else "..."
            yield from _differences(left[key], right[key], f"{name}[{shown}]", depth + 1)


def _same_array(left: Any, right: Any) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype == object:
        return all(first_difference(a, b) is None for a, b in zip(left.flat, right.flat,
                                                                  strict=True))  # fmt: skip
    floating = np.issubdtype(left.dtype, np.inexact)
    return bool(np.array_equal(left, right, equal_nan=floating))


def _same_frame(left: Any, right: Any) -> bool:
    return bool(left.equals(right)) and list(left.index) == list(right.index)


def _same(left: Any, right: Any, name: str, depth: int) -> bool:
    try:
        return bool(left == right) or bool(left != left and right != right)
    except Exception:  # whatever the user's comparison does, attributes are compared next
        return False


def _object_differences(left: Any, right: Any, name: str, depth: int) -> Iterator[str]:
    inside = [_attributes(part) for part in (left, right)]
    if depth > _DEPTH or inside[0] is None or inside[1] is None:
        yield name
        return
    yield from _differences(inside[0], inside[1], name, depth + 1)


def _attributes(value: Any) -> dict[str, Any] | None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: getattr(value, field.name) for field in fields}
    found = getattr(value, "__dict__", None)
    return dict(found) if found else None


def numbers_of(output: Any, depth: int = 0) -> list[float]:
    """All numbers of an output, as far as they can be found."""
    if isinstance(output, int | float | np.integer | np.floating):
        return [float(output)]
    if hasattr(output, "to_numpy"):
        output = output.to_numpy()
    if isinstance(output, np.ndarray) and output.dtype.kind in "fiu":
        return output.astype(np.float64).ravel().tolist()
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, list | tuple | np.ndarray) and depth < _DEPTH:
        return [number for part in output for number in numbers_of(part, depth + 1)]
    if _is_of_torch(output):
        return numbers_of(_from_torch(output), depth + 1)
    inside = None if isinstance(output, str | bytes) else _attributes(output)
    return numbers_of(inside, depth + 1) if inside and depth < _DEPTH else []


def is_rearranged(left: Any, right: Any) -> bool:
    """Whether two outputs that differ hold the same numbers, two or more, in another order."""
    a, b = numbers_of(left), numbers_of(right)
    return len(a) > 1 and a != b and sorted(a) == sorted(b)
