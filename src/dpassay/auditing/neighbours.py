"""Whether two data sets are neighbours in the relation that a claim is made under."""

import math
import pickle
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeGuard, cast

import numpy as np

from dpassay import _check
from dpassay._records import as_array, is_array, is_table
from dpassay.errors import InvalidArgument
from dpassay.types import Neighbouring, NeighboursSeen

_EXACT = 2**53  # whole numbers beyond it have no float of their own


def look_at_neighbours(
    pair: tuple[Any, Any], neighbouring: Neighbouring, group: int, neighbours: str, worlds: Any
) -> NeighboursSeen:
    """Who knows that a pair consists of neighbours; raises if they are looked at and are not.

    Args:
        pair: the two data sets.
        neighbouring: the relation of the claim.
        group: how many records may differ.
        neighbours: "checked", or "trusted" for data sets that are neighbours in a sense of their
            own, such as vectors of query answers or graphs.
        worlds: the names of the two worlds of a mechanism that holds its data itself; such a pair
            has no records to look at.

    """
    _check.choice("neighbours", neighbours, ("checked", "trusted"))
    group = _check.count(
        "group", group, remedy="It is how many records the two data sets differ by."
    )
    if neighbours == "trusted":
        return "trusted"
    if isinstance(pair[0], str) and pair == worlds:
        return "unseen"
    return "checked" if check_neighbours(*pair, neighbouring, group) else "unseen"


def check_neighbours(
    data: Any, data_prime: Any, neighbouring: Neighbouring, group: int = 1
) -> bool:
    """Whether both are data sets with records; raises if they differ by more than is allowed.

    They are compared as multisets of records. Records are the rows of arrays, tensors and frames;
    the rows of several of them that belong together, such as (X, y); the entries of lists, sets,
    dicts and one-dimensional arrays; the characters of a string. False where what a record is
    cannot be seen: numbers, and objects of other types.

    Args:
        data: with the canary.
        data_prime: without it.
        neighbouring: "add-remove" or "replace-one".
        group: how many records may differ; a claim then speaks of groups of that size.

    """
    by_name = _is_dict(data) and _is_dict(data_prime) and data.keys() != data_prime.keys()
    both: tuple[Any, Any] = data, data_prime
    ours, theirs = (_entries_by_name(d) if by_name else _records(d) for d in both)
    if ours is None or theirs is None:
        return False
    rows, others = Counter(ours), Counter(theirs)
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
            "them differ by one record, state the claim's neighbouring, or pass group= (--group). "
            "If their entries are not records (query answers, for example), pass "
            'neighbours="trusted" (--neighbours trusted).'
        )
    return True


def _records(data: Any) -> list[Hashable] | None:
    """A key for each record, equal for equal records; None where there are none to be seen."""
    if _is_dict(data):
        columns = _rows_together(data.values()) if _all(data.values(), is_array) else None
        return columns or _entries_by_name(data)
    if _is_tuple(data) and data and _all(data, _is_part):
        return _rows_together(data)
    if is_table(data) and hasattr(data, "itertuples"):
        rows = _rows(np.asarray(data))
        frame = cast(Any, data)
        return rows or [_key(row) for row in frame.itertuples(index=False, name=None)]
    if is_array(data):
        return _entries(as_array(data))
    if _is_entries(data):
        return [_key(entry) for entry in data]
    return _entries_in_order(data) if _is_listed(data) else None


def _is_dict(data: Any) -> TypeGuard[dict[Any, Any]]:
    return isinstance(data, dict)


def _is_listed(data: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(data, list | tuple)


def _is_tuple(data: Any) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(data, tuple)


def _is_entries(data: Any) -> TypeGuard[Iterable[Any]]:
    return isinstance(data, str | bytes | set | frozenset)


def _entries_by_name(data: dict[Any, Any]) -> list[Hashable]:
    """The entries of a dict, each with its name."""
    return [(_key(name), _key(entry)) for name, entry in data.items()]


def _rows_together(parts: Iterable[Any]) -> list[Hashable] | None:
    """The records of parts whose rows belong together, such as (X, y); None if they do not."""
    columns = [_records(part) for part in parts]
    if not columns or any(column is None for column in columns):
        return None
    if len({len(column) for column in columns if column is not None}) != 1:
        return None
    return list(zip(*(column for column in columns if column is not None), strict=True))


def _entries_in_order(data: Any) -> list[Hashable]:
    """The entries of a list, by way of an array where they are numbers, which is faster."""
    try:
        rows = _rows(np.asarray(data)) if len(data) else []
    except Exception:  # whatever the entries have against it
        rows = None
    return [_key(entry) for entry in data] if rows is None else rows


def _entries(array: Any) -> list[Hashable]:
    rows = _rows(array)
    return [_key(entry) for entry in array] if rows is None else rows


def _rows(array: Any) -> list[Hashable] | None:
    """The keys of the rows of an array of numbers; None if it holds anything else."""
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        return None
    flat = array.reshape(len(array), -1) if array.size else array
    large = flat.dtype.kind in "iu" and flat.size and max(flat.max(), -int(flat.min())) > _EXACT
    if large:
        return [_key(row.tolist()) for row in flat]
    # Adding 0.0 turns -0.0 into 0.0; one NaN stands for all of them.
    floats = flat.astype(float) + 0.0
    return [row.tobytes() for row in np.where(np.isnan(floats), np.nan, floats)]


def _key(entry: Any) -> Hashable:
    """Something that can be counted, equal for equal entries.

    Numbers are the bytes of their floats and sequences of numbers the bytes of all of them, as the
    rows of arrays are: a record must not depend on the company that it was found in.
    """
    if isinstance(entry, bool | int | float | np.bool_ | np.integer | np.floating):
        return _number_key(entry)
    if isinstance(entry, str | bytes):
        return (type(entry).__name__, entry)
    if _is_listed(entry):
        keys = [_key(part) for part in entry]
        return b"".join(keys) if all(isinstance(k, bytes) for k in keys) else tuple(keys)  # type: ignore[arg-type]
    if _is_dict(entry):
        return frozenset((_key(name), _key(part)) for name, part in entry.items())
    if is_array(entry):
        return _key(tuple(as_array(entry).reshape(-1).tolist()))
    return _object_key(entry)


def _number_key(number: Any) -> Hashable:
    if not isinstance(number, float | np.floating) and abs(int(number)) > _EXACT:
        return ("int", int(number))
    value = float(cast(Any, number)) + 0.0
    return np.float64(np.nan if math.isnan(value) else value).tobytes()


def _object_key(entry: Any) -> Hashable:
    """The object itself if its type defines equality and a hash; otherwise its pickled content."""
    if type(entry).__eq__ is not object.__eq__ and type(entry).__hash__ is not None:
        return entry
    try:
        return pickle.dumps(entry)
    except Exception:
        return id(entry)


def _is_part(value: Any) -> bool:
    """Whether a value may be X or y of a pair (X, y)."""
    return is_array(value) or isinstance(value, list)


def _all(values: Iterable[Any], true_of: Any) -> bool:
    return all(map(true_of, values))
