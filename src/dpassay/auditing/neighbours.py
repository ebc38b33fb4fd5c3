"""Whether two record tables are neighbours in the relation that a claim is made under."""

from collections import Counter
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import Neighbouring


def check_neighbours(
    data: Any, data_prime: Any, neighbouring: Neighbouring, group: int = 1
) -> None:
    """Raise if both are record tables and differ by more than the relation allows.

    Tables are two-dimensional arrays, data frames and pairs (X, y); they are compared as multisets
    of rows. Anything else is left to the caller: what a record is cannot be seen.

    Args:
        data: with the canary.
        data_prime: without it.
        neighbouring: "add-remove" or "replace-one".
        group: how many records may differ; a claim then speaks of groups of that size.

    """
    group = _check.count(
        "group", group, remedy="It is how many records the two data sets differ by."
    )
    rows, others = _rows(data), _rows(data_prime)
    if rows is None or others is None:
        return
    gone, new = sum((rows - others).values()), sum((others - rows).values())
    differ = {"add-remove": gone + new, "replace-one": max(gone, new)}[neighbouring]
    shape = gone == new if neighbouring == "replace-one" else min(gone, new) == 0
    if differ == 0:
        raise InvalidArgument(
            "data and data_prime hold the same records; an audit of them shows nothing. "
            "Add or change one record."
        )
    if differ > group or not shape:
        raise InvalidArgument(
            f"data and data_prime are not neighbours: {gone} record(s) are only in the first, "
            f"{new} only in the second, while the claim is about {neighbouring} of {group}. Make "
            "them differ by one record, state the claim's neighbouring, or pass group=."
        )


def _rows(data: Any) -> Counter[bytes] | None:
    """The rows of a record table as a multiset, or None where it is no table."""
    if isinstance(data, tuple) and len(data) == 2:
        X, y = (np.asarray(part) for part in data)
        if X.ndim == 2 and y.ndim >= 1 and len(X) == len(y):
            return _counted(np.column_stack([_as_text(X), _as_text(y.reshape(len(y), -1))]))
        return None
    if hasattr(data, "itertuples") or (isinstance(data, np.ndarray) and data.ndim == 2):
        return _counted(_as_text(np.asarray(data)))
    return None


def _as_text(table: Any) -> Any:
    return np.asarray(table).astype(str) if np.asarray(table).dtype == object else np.asarray(table)


def _counted(table: Any) -> Counter[bytes]:
    return Counter(np.ascontiguousarray(row).tobytes() for row in table)
