"""Data sets of torch and JAX as arrays and back, so that one search of neighbours serves all."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Rebuild = Callable[[Any], Any]


@dataclass(frozen=True)
class Form:
    """A data set as arrays, and how data of its own kind is made of such arrays."""

    arrays: Any
    rebuild: Rebuild


def _same(data: Any) -> Any:
    return data


def form_of(data: Any) -> Form:
    """The form of a data set; arrays, frames, lists and pairs (X, y) of arrays are their own."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        if isinstance(data, torch.utils.data.Dataset) and hasattr(data, "__len__"):
            return _of_dataset(data, torch)
        if isinstance(data, torch.Tensor):
            return Form(_array(data), _tensor_like(data))
    if type(data).__module__.startswith(("jax", "jaxlib")) and hasattr(data, "shape"):
        import jax.numpy as jnp

        return Form(np.asarray(data), jnp.asarray)
    if type(data) in (tuple, list, dict):
        return _of_parts(data)
    return Form(data, _same)


def data_like(data: Any, arrays: Any) -> Any:
    """Data of the same kind as another, of arrays such as a file holds."""
    if isinstance(data, tuple) and isinstance(arrays, tuple) and len(data) == len(arrays):
        return tuple(data_like(own, part) for own, part in zip(data, arrays, strict=True))
    if hasattr(data, "columns") and isinstance(arrays, np.ndarray):
        frame: Any = data
        return type(frame)(arrays, columns=frame.columns).astype(frame.dtypes.to_dict())
    if isinstance(data, list) and isinstance(arrays, np.ndarray):
        return arrays.tolist() if arrays.ndim == 1 else [*arrays]
    return form_of(data).rebuild(arrays)


def record_of(record: Any, arrays: Any) -> Any:
    """One record in the form that records of the arrays have."""
    if isinstance(arrays, tuple) and isinstance(record, tuple | list):
        return tuple(
            np.asarray(_plain(part), dtype=whole.dtype)
            for part, whole in zip(record, arrays, strict=True)
        )
    if isinstance(record, dict):
        return record_of(tuple(record.values()), arrays)
    if isinstance(arrays, np.ndarray):
        return np.asarray(_plain(record), dtype=arrays.dtype)
    return record


def _of_parts(data: Any) -> Form:
    """A tuple, list or dict of data; a dict of two is a pair (X, y)."""
    if type(data) is dict:
        names = list(data)
        inner = form_of(tuple(data.values()))
        if len(names) != 2:
            return Form(data, _same)
        return Form(inner.arrays, lambda parts: dict(zip(names, inner.rebuild(parts), strict=True)))
    forms = [form_of(part) for part in data]
    if all(form.rebuild is _same for form in forms):
        return Form(data, _same)
    if type(data) is list:  # records; new ones are made like the first
        return Form([form.arrays for form in forms], lambda parts: [*map(forms[0].rebuild, parts)])
    arrays = tuple(form.arrays for form in forms)
    return Form(
        arrays,
        lambda parts: tuple(f.rebuild(part) for f, part in zip(forms, parts, strict=True)),
    )


def _array(tensor: Any) -> Any:
    from dpassay.replay.tensors import array_of

    return array_of(tensor).copy()


def _tensor_like(tensor: Any) -> Rebuild:
    import torch

    kind, device = tensor.dtype, tensor.device
    return lambda part: torch.as_tensor(np.array(part), dtype=kind, device=device)


def _of_dataset(data: Any, torch: Any) -> Form:
    if isinstance(data, torch.utils.data.TensorDataset) and len(data.tensors) <= 2:
        parts = tuple(data.tensors)
        inner = form_of(parts if len(parts) == 2 else parts[0])
        kind = type(data)
        if len(parts) == 2:
            return Form(inner.arrays, lambda arrays: kind(*inner.rebuild(arrays)))
        return Form(inner.arrays, lambda arrays: kind(inner.rebuild(arrays)))
    return _of_items(data)


def _of_items(data: Any) -> Form:
    """Any data set with a length: its items are read once, and put into a list-like data set."""
    items = [data[i] for i in range(len(data))]
    pairs = bool(items) and all(type(item) in (tuple, list) and len(item) == 2 for item in items)
    if not pairs:
        inner = form_of(items)
        return Form(inner.arrays, lambda records: _as_dataset(inner.rebuild(records), data))
    xs, ys = zip(*items, strict=True)
    kind, x_like, y_like = type(items[0]), _one_like(xs[0]), _one_like(ys[0])
    arrays = np.stack([_plain(x) for x in xs]), np.stack([_plain(y) for y in ys])

    def rebuild(parts: Any) -> Any:
        records = [kind((x_like(x), y_like(y))) for x, y in zip(*parts, strict=True)]
        return _as_dataset(records, data)

    return Form(arrays, rebuild)


def _plain(value: Any) -> Any:
    return _array(value) if hasattr(value, "detach") else np.asarray(value)


def _one_like(value: Any) -> Rebuild:
    if hasattr(value, "detach"):
        return _tensor_like(value)
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray
    return lambda part: type(value)(part)


def _as_dataset(records: list[Any], data: Any) -> Any:
    from torch.utils.data import Dataset

    class Records(Dataset):
        """The records of a data set, one more or less; other attributes are those it had."""

        def __len__(self) -> int:
            return len(records)

        def __getitem__(self, index: int) -> Any:
            return records[index]

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(data, name)

    return Records()
