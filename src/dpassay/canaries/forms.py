"""The form of a data set: what of it is public, and how canaries are given the same form.

Read are the number of records, the first record's structure, shapes and types (none of its values),
and the label set, all of which are public by the conventions of the house. Canaries that depended
on the values of records would carry them into the training outside of its noise.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpassay import _check, _records
from dpassay.errors import InvalidArgument

Kind = Literal["indexed", "whole"]
Parts = Any  # records as columns: an array, a list of arrays (a tuple's parts), a dict of arrays
LABELS = ("label", "labels", "y", "target", "targets")


@dataclass(frozen=True, eq=False)
class Form:
    """What is public of a data set.

    Attributes:
        kind: "indexed": read record by record, as a loader does; "whole": arrays and frames.
        n_records: how many.
        example: the first record; only its structure, shapes and types are used.
        data: the data set, for the types of its columns.

    """

    kind: Kind
    n_records: int
    example: Any
    data: Any

    def input(self) -> Any:
        """The part of a record that a model sees: the first that is no label."""
        if isinstance(self.example, Mapping):
            return next(v for k, v in self.example.items() if k not in LABELS)
        return self.example if is_leaf(self.example) else self.example[0]

    def label(self) -> Any:
        """The label of the example: the last part of a tuple, or the part of that name."""
        if isinstance(self.example, Mapping):
            return next((v for k, v in self.example.items() if k in LABELS), None)
        if not is_leaf(self.example) and len(self.example) > 1:
            return self.example[-1]
        return None


def read_form(dataset: Any) -> Form:
    """The form of a data set.

    Raises:
        InvalidArgument: it has no length, no records, or records that cannot be read by number.

    """
    if isinstance(dataset, Mapping):
        dataset = Columns(dataset)
    whole = not isinstance(dataset, list) and _records.n_records(dataset) is not None
    n = _records.n_records(dataset) if whole else _length(dataset)
    if not n:
        raise InvalidArgument("dataset is empty; canaries take their form from its first record.")
    example = _records.record_at(dataset, 0) if whole else dataset[0]
    return Form("whole" if whole else "indexed", n, example, dataset)


def _length(dataset: Any) -> int:
    readable = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if not readable or isinstance(dataset, str | bytes | tuple):
        raise InvalidArgument(
            f"dataset={_check.shown(dataset)} must be a data set with a length whose records are "
            "read by number, a dict of columns, a pair (X, y), an array or a frame."
        )
    return len(dataset)


class Columns:
    """A dict of columns as a data set of dicts, one per record."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            raise InvalidArgument(
                f"dataset has columns of lengths {sorted(lengths)}; make them equal."
            )
        self.columns, self._length = dict(columns), lengths.pop()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | str) -> Any:
        if isinstance(index, str):
            return self.columns[index]
        return {name: values[index] for name, values in self.columns.items()}

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.columns)


# ------------------------------------------------------------------------------------- labels


def read_labels(form: Form, classes: int | Sequence[Any] | None) -> Any:
    """The label set: given, or read from the data; None where labels are real numbers or absent.

    Raises:
        InvalidArgument: there is only one label.

    """
    label = form.label()
    if label is None or (classes is None and _is_real(label)):
        return None
    if classes is None:
        found = np.unique(np.array([_scalar(one) for one in _all_labels(form)]))
    elif isinstance(classes, int | np.integer):
        found = np.arange(_check.count("classes", classes, low=2))
    else:
        found = np.asarray(classes)
    if len(found) < 2:
        raise InvalidArgument(f"classes={len(found)} must be at least 2; pass classes=10.")
    return found


def _is_real(label: Any) -> bool:
    values = _records.as_array(label) if hasattr(label, "dtype") else np.asarray(label)
    return values.dtype.kind == "f" or values.ndim > 0


def _scalar(label: Any) -> Any:
    return label.item() if hasattr(label, "item") else label


def _all_labels(form: Form) -> Iterable[Any]:
    """The labels of all records, from a column of labels if there is one."""
    data = form.data
    if form.kind == "whole":
        return list(data[1])
    if hasattr(data, "tensors"):
        return data.tensors[-1].tolist()
    for name in LABELS:
        column = getattr(data, name, None)
        if name in getattr(data, "column_names", ()):
            column = data[name]
        if isinstance(column, Sized) and len(column) == form.n_records:
            return list(column)  # type: ignore[call-overload]
    return _read_labels_one_by_one(form)


def _read_labels_one_by_one(form: Form) -> Iterator[Any]:
    for i in range(form.n_records):
        record = form.data[i]
        if isinstance(record, Mapping):
            yield next(value for key, value in record.items() if key in LABELS)
        else:
            yield record[-1]


# --------------------------------------------------------------------------- records and batches


def map_parts(change: Any, *parts: Parts) -> Parts:
    """The parts, each changed: ``change`` is called with the leaves that stand at one place."""
    first = parts[0]
    if isinstance(first, Mapping):
        return {name: change(*(p[name] for p in parts)) for name in first}
    if not is_leaf(first):
        return [change(*leaves) for leaves in zip(*parts, strict=True)]
    return change(*parts)


def is_leaf(value: Any) -> bool:
    """Whether this is one part of a record: no tuple and no dict, of lists those of numbers."""
    if isinstance(value, list):
        return len(value) > 0 and isinstance(value[0], int | float | np.number)
    return not isinstance(value, Mapping | tuple)


def count_rows(parts: Parts) -> int:
    """How many records the columns hold."""
    columns: Any = parts.values() if isinstance(parts, Mapping) else parts
    first: Any = parts if is_leaf(parts) else next(iter(columns))
    return int(first.shape[0]) if hasattr(first, "shape") else len(first)


def take(parts: Parts, rows: Any) -> Parts:
    """These records of every column."""
    return map_parts(lambda leaf: _records.take(leaf, rows), parts)


def record_like(example: Any, parts: Parts, index: int) -> Any:
    """One record of columns, with the structure and the types of the example."""

    def leaf(like: Any, values: Any) -> Any:
        return _like(like, values[index])

    made = map_parts(leaf, example, parts)
    return tuple(made) if isinstance(example, tuple) else made


def _like(example: Any, value: Any) -> Any:
    if _records.is_tensor(example):
        import torch

        return torch.as_tensor(value, dtype=example.dtype, device=example.device)
    if isinstance(example, np.ndarray):
        return np.asarray(value, example.dtype)
    if isinstance(example, list):
        return np.asarray(value).tolist()
    if isinstance(example, np.generic):
        return example.dtype.type(value)
    return type(example)(value.item() if hasattr(value, "item") else value)


def batch(form: Form, parts: Parts) -> tuple[Any, ...]:
    """All records of columns as the arguments of a score: (x, y), one dict, or one table."""
    if form.kind == "whole":
        return tuple(parts) if isinstance(parts, list) else (parts,)
    has_tensors = False

    def look(leaf: Any) -> None:
        nonlocal has_tensors
        has_tensors = has_tensors or _records.is_tensor(leaf)

    map_parts(look, form.example)

    def stack(like: Any, values: Any) -> Any:
        if not has_tensors:
            return np.asarray(values)
        import torch

        made = torch.as_tensor(np.asarray(values))
        return made.to(like.dtype).to(like.device) if _records.is_tensor(like) else made

    made = map_parts(stack, form.example, parts)
    one = is_leaf(form.example) or isinstance(form.example, Mapping)
    return (made,) if one else tuple(made)


def as_column(like: Any, values: Any) -> Any:
    """Values as a column or table of the kind of another: array, tensor, list, series, frame."""
    if _records.is_tensor(like):
        import torch

        return torch.as_tensor(values, dtype=like.dtype, device=like.device)
    if _records.is_table(like):
        import pandas as pd

        if like.ndim == 1:
            return pd.Series(values, name=like.name).astype(like.dtype)
        if isinstance(values, pd.DataFrame):  # with types of its own: new levels of a category
            return values
        return pd.DataFrame(values, columns=like.columns).astype(like.dtypes)
    if _records.is_sparse(like):
        return type(like)(np.asarray(values, like.dtype))
    if isinstance(like, list):
        return np.asarray(values).tolist()
    return np.asarray(values, like.dtype)


def as_columns(form: Form, inputs: Any, labels: Any) -> Parts:
    """Inputs and labels (None: there are none) as columns in the form of the data set.

    Raises:
        InvalidArgument: a record has further parts, of which nothing is known.

    """
    if form.kind == "whole":
        pair = isinstance(form.data, tuple)
        if not pair:
            return as_column(form.data, inputs)
        return [as_column(form.data[0], inputs), as_column(form.data[1], labels)]
    example = form.example
    if is_leaf(example):
        return inputs
    known = [inputs] if labels is None else [inputs, labels]
    if len(example) != len(known):
        raise InvalidArgument(
            f"dataset has records of {len(example)} parts; canaries can be made for an input and a "
            "label. Leave the other parts out."
        )
    if not isinstance(example, Mapping):
        return known
    return {name: labels if name in LABELS else inputs for name in example}
