"""What a data set is: how records are counted, taken, added and replaced in what holds them.

Records are the rows of an array, a tensor, a sparse matrix or a frame, the entries of a list or a
series, or the (x, y) of a pair (X, y). Whoever makes neighbours of a data set, draws a part of it
or puts canaries into it does so through this module, so that all of them mean the same records.

A frame that comes back has its rows numbered anew: an index with a hole, or with a number twice,
would tell which record is missing or new.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np

__all__ = [
    "add",
    "as_array",
    "fresh",
    "is_array",
    "is_labelled",
    "is_pair",
    "is_sparse",
    "is_table",
    "is_tensor",
    "join",
    "n_records",
    "put",
    "record_at",
    "take",
]


def is_table(value: Any) -> bool:
    """Whether this is a frame, or a column of one."""
    return hasattr(value, "iloc")


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor of torch; it is not imported, since nothing can be one before."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_sparse(value: Any) -> bool:
    """Whether this is a sparse matrix."""
    return hasattr(value, "tocsr")


def is_array(value: Any) -> bool:
    """Whether this has rows and can be read as an array: arrays, tensors, series and frames."""
    return hasattr(value, "__array__") and hasattr(value, "shape") and len(value.shape) > 0


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """The values as an array of NumPy; those of a tensor wherever it is, without its gradient."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def is_pair(data: Any) -> TypeGuard[tuple[Any, Any]]:
    """Whether this may be (X, y): a tuple of two."""
    return isinstance(data, tuple) and len(data) == 2


def is_labelled(data: Any) -> bool:
    """Whether this is a pair (X, y) of equal length."""
    if not is_pair(data):
        return False
    # The records of a list may be lists of unequal lengths, which have no common shape.
    shapes = [(len(part),) if isinstance(part, list) else np.shape(part) for part in data]
    return all(shapes) and shapes[0][0] == shapes[1][0]


def n_records(data: Any) -> int | None:
    """The number of records; None where they cannot be seen.

    >>> n_records((np.zeros((3, 2)), [0, 1, 1])), n_records(7)
    (3, None)

    """
    if is_labelled(data):
        return len(data[0])
    if isinstance(data, np.ndarray) or is_tensor(data):
        return len(data) if data.ndim else None
    if isinstance(data, list) or is_table(data):
        return len(data)
    return int(data.shape[0]) if is_sparse(data) else None


def take(data: Any, rows: Iterable[int]) -> Any:
    """The data set of these records, in this order.

    >>> take((np.array([1.5, 2.5, 3.5]), ["a", "b", "c"]), [2, 0])
    (array([3.5, 1.5]), ['c', 'a'])

    """
    rows = rows if isinstance(rows, np.ndarray) else np.asarray([*rows], dtype=int)
    if is_pair(data):
        return take(data[0], rows), take(data[1], rows)
    if isinstance(data, list):
        return [data[i] for i in rows]
    if is_table(data):
        return data.iloc[rows].reset_index(drop=True)
    return data[rows] if hasattr(data, "shape") else np.asarray(data)[rows]


def record_at(data: Any, index: int) -> Any:
    """One record, by its number."""
    if is_pair(data):
        return record_at(data[0], index), record_at(data[1], index)
    return data.iloc[index] if is_table(data) else data[index]


def add(data: Any, record: Any) -> Any:
    """The data set with one more record at its end, which takes the type of the others.

    >>> add(np.array([1, 2]), 3)
    array([1, 2, 3])

    """
    if is_pair(data):
        return add(data[0], record[0]), add(data[1], record[1])
    if isinstance(data, list):
        return [*data, record]
    if is_tensor(data):
        row = sys.modules["torch"].as_tensor(record, dtype=data.dtype, device=data.device)
        return join(data, row[None])
    if is_table(data):
        return join(data, _row_of(data, record))
    row = np.asarray(record, dtype=data.dtype)[None]
    return join(data, type(data)(row) if is_sparse(data) else row)


def _row_of(table: Any, record: Any) -> Any:
    """A record as a table of one row, with the names and types of another table."""
    import pandas as pd

    if table.ndim == 1:
        return pd.Series([record], name=table.name).astype(table.dtype)
    if isinstance(record, pd.Series):
        row = record.to_frame().T
    elif isinstance(record, Mapping):
        row = pd.DataFrame([record])
    else:
        row = pd.DataFrame([[*record]], columns=table.columns)
    return row[[*table.columns]].astype(table.dtypes)


def put(data: Any, index: int, record: Any) -> Any:
    """The data set with another record in one place."""
    n = n_records(data) or 0
    return take(add(data, record), (n if i == index else i for i in range(n)))


def join(data: Any, more: Any) -> Any:
    """The records of both data sets, which are of one kind, in this order."""
    if is_pair(more):
        return join(data[0], more[0]), join(data[1], more[1])
    if isinstance(more, list):
        return [*data, *more]
    if is_tensor(more):
        return sys.modules["torch"].cat([data, more])
    if is_table(more):
        import pandas as pd

        return pd.concat([data, more], ignore_index=True)
    if is_sparse(more):
        from scipy import sparse

        return sparse.vstack([data, more]).tocsr()
    return np.concatenate([np.asarray(data), np.asarray(more)])


def fresh(data: Any) -> Any:
    """A copy of arrays, tensors and frames, also inside tuples, lists and dicts; all else as it is.

    A mechanism may change its data in place. The next trial must not see that, or its outcome would
    depend on who played what before.
    """
    if isinstance(data, np.ndarray) or is_table(data):
        return data.copy()
    if is_tensor(data):
        return data.clone()
    if isinstance(data, list | tuple) and type(data) in (list, tuple):
        plain = not data or isinstance(data[0], int | float | str | bytes)
        return type(data)(data if plain else map(fresh, data))
    if type(data) is dict:
        return {name: fresh(part) for name, part in data.items()}
    return data
