"""Fields of records: columns of a frame, keys of a dict, attributes of a data class.

Fields that hold no numbers have no largest value. What tells there are the rarest value, and one
that does not occur.
"""

import copy
import dataclasses
import datetime
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpassay._records import is_table, record_at
from dpassay.replay.entries import Array

UNSEEN = "\u2020"
_ALONE = 3  # so many fields are varied one by one, all others at once: pairs are few

_SCALARS = (bool, int, float, str, np.generic)
_MANY = 1000  # values that are looked at to see how many different ones a field has

Columns = dict[Any, Any]
"""The values of every field that all records have, as arrays."""


def fields_of(record: Any) -> Mapping[Any, Any] | None:
    """The fields of a record by name or place; None where it has none."""
    if isinstance(record, Mapping):
        return record
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {f.name: getattr(record, f.name) for f in dataclasses.fields(record) if f.init}
    if isinstance(record, np.void) and record.dtype.names:
        return {name: record[name] for name in record.dtype.names}
    return dict(enumerate(record)) if isinstance(record, tuple | list) else None


def write(record: Any, changes: Mapping[Any, Any]) -> Any:
    """A copy of a record with other values in some fields, of the types that they have."""
    old = fields_of(record) or {}
    changes = {name: _like(old.get(name), value) for name, value in changes.items()}
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return dataclasses.replace(record, **changes)
    if isinstance(record, tuple):
        values = [changes.get(i, value) for i, value in enumerate(record)]
        return type(record)(*values) if hasattr(record, "_fields") else tuple(values)
    changed: Any = copy.copy(record)
    for name, value in changes.items():
        changed[name] = value
    return changed


def _like(old: Any, value: Any) -> Any:
    plain = isinstance(value, np.generic) and isinstance(old, int | float | str)
    return value.item() if plain and not isinstance(old, np.generic) else value


def columns_of(data: Any) -> Columns:
    """The values of the fields that all records have; nothing where they differ in their fields."""
    if is_table(data):
        named = data.ndim == 2 and data.columns.is_unique
        return {name: data[name].dropna() for name in data.columns} if named else {}
    if isinstance(data, np.ndarray):
        names = data.dtype.names or ()
        return {name: data[name] for name in names} | (
            {i: data[:, i] for i in range(data.shape[1])} if data.ndim == 2 else {}
        )
    records = [fields_of(record) for record in data] if isinstance(data, list) else []
    first = records[0] if records else None
    if first is None or any(part is None or part.keys() != first.keys() for part in records):
        return {}
    return {name: column([part[name] for part in records if part]) for name in first}


def column(values: list[Any]) -> Array:
    """Values as an array, of one entry each whatever they are."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or (len(kinds) == 1 and issubclass(type(values[0]), _SCALARS)):
        return np.asarray(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def is_number(column: Any) -> bool:
    """Whether a column holds numbers; truth values are none."""
    kind = getattr(column.dtype, "kind", "O")
    return kind in "iuf" and len(column) > 0


def split(columns: Columns) -> tuple[Columns, Columns]:
    """The columns of numbers, and the others; columns without a value are left out."""
    numbers = {name: column for name, column in columns.items() if is_number(column)}
    words = {n: column for n, column in columns.items() if n not in numbers and len(column)}
    return numbers, words


def rarest(values: Sequence[Any]) -> int:
    """The place of the rarest value; among equally rare ones, of the last to appear."""
    keys = [*values]
    try:
        counted = Counter(keys)
    except TypeError:  # sets, lists, dicts
        keys = [repr(value) for value in keys]
        counted = Counter(keys)
    return keys.index(min(reversed(counted), key=lambda key: counted[key]))


def unseen(values: Any) -> Any:
    """A value of the same type that does not occur; None where there is none to be had."""
    declared = getattr(values.dtype, "categories", None)
    if declared is not None:
        occur = {*values}
        return next((value for value in declared if value not in occur), None)
    first = next((value for value in values if value is not None), None)
    if isinstance(first, np.datetime64 | datetime.date):
        return _later(values)
    if isinstance(first, bool | np.bool_):
        return next((value for value in (False, True) if value not in {*values}), None)
    return UNSEEN if isinstance(first, str) else None


def _later(dates: Any) -> Any:
    """A date that lies as far behind the last one as the first before it, and more."""
    known = [date for date in dates if date is not None and date == date]
    day = 1 if isinstance(known[0], np.datetime64) else datetime.timedelta(days=1)
    return max(known) + (max(known) - min(known)) + day if known else None


def vary(data: Any, words: Columns) -> Iterator[tuple[Any, str, bool]]:
    """Copies of record 0 with other values in fields that hold no numbers.

    First the rarest value of each, which is ordinary, then one that does not occur. Those with the
    fewest different values are varied one by one, since they are the likeliest to be categories.

    Yields:
        The record, how it was made, and whether it is ordinary.

    """
    rare = {name: _at(column, rarest(column)) for name, column in words.items()}
    new = {name: unseen(column) for name, column in words.items()}
    for values, how in ((rare, "the rarest value"), (new, "a value that does not occur")):
        known = [name for name in words if values[name] is not None]
        for names in _groups(words, known):
            where = ", ".join(str([*words].index(name)) for name in names)
            record = _try_write(record_at(data, 0), {name: values[name] for name in names})
            if record is not None:
                declared = all(hasattr(words[name].dtype, "categories") for name in names)
                yield record, f"{how} in field {where}", values is rare or declared


def rare_rows(data: Any, words: Columns) -> Iterator[int]:
    """The rows of the rarest values of fields that hold no numbers."""
    for name in _likeliest(words, [*words])[:_ALONE]:
        place = rarest(words[name])
        known = np.flatnonzero(data[name].notna()) if is_table(data) else range(len(data))
        yield int(known[place])


def _groups(words: Columns, names: list[Any]) -> list[list[Any]]:
    ordered = _likeliest(words, names)
    rest = [ordered[_ALONE:]] if ordered[_ALONE:] else []
    return [*([name] for name in ordered[:_ALONE]), *rest]


def _likeliest(words: Columns, names: list[Any]) -> list[Any]:
    """Those with the fewest different values first."""
    return sorted(names, key=lambda name: len({repr(value) for value in words[name][:_MANY]}))


def _at(column: Any, place: int) -> Any:
    return column.iloc[place] if is_table(column) else column[place]


def _try_write(record: Any, changes: Mapping[Any, Any]) -> Any:
    """The changed record; None where its class refuses the values."""
    try:
        return write(record, changes)
    except Exception:  # whatever a class of the user's raises: such a record cannot exist
        return None
