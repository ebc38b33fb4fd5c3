"""Neighbours of a data set: which record to add, take out or replace, and smaller data sets.

Records are rows of an array or a frame, items of a list, or pairs (x, y) of a tuple (X, y). They
are named by number and by how they were made, never by their values.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from dpassay import _records
from dpassay._records import (
    add,
    is_labelled,
    is_sparse,
    is_table,
    is_tensor,
    put,
    record_at,
    take,
)
from dpassay.errors import InvalidArgument
from dpassay.replay import fields
from dpassay.replay.entries import Array, Edit
from dpassay.replay.outputs import first_difference
from dpassay.replay.ranges import Bounds, ends_of, is_bounded, is_inside, move_inside

_ADVICE = (
    "Pass an array (one record per row), a data frame, a list or a pair (X, y); for anything else "
    "give the neighbouring data sets yourself, neighbours=[...]."
)


@dataclass(frozen=True)
class Neighbour:
    """A data set that differs from D by one record.

    Attributes:
        data: the data set D'.
        edit: what was done, at which index.
        how: how the record was made, without its values.
        finite: whether the record is free of NaN and infinities.
        ordinary: whether its values lie where those of D or the declared bounds do.
        occurs: whether its texts, dates and categories occur in D or are declared.

    """

    data: Any
    edit: Edit
    how: str
    finite: bool = True
    ordinary: bool = True
    occurs: bool = True

    def __str__(self) -> str:
        index = self.edit.index
        if self.how.endswith(" given"):
            return self.how
        if self.edit.kind == "add":
            return f"D with one more record ({self.how})"
        if self.edit.kind == "remove":
            return f"D without record {index} ({self.how})"
        if self.edit.kind == "replace":
            return f"D with record {index} replaced ({self.how})"
        return self.how


def n_records(data: Any) -> int:
    """The number of records; raises for data whose records cannot be seen."""
    found = n_records_or_none(data)
    if found is None:
        raise InvalidArgument(f"data of type {type(data).__name__} has no records. {_ADVICE}")
    return found


def n_records_or_none(data: Any) -> int | None:
    """The number of records, None where they cannot be seen."""
    unseen = is_tensor(data) or is_sparse(data)  # there are no candidates for these
    return None if unseen else _records.n_records(data)


_MIXED = 3


@dataclass(frozen=True)
class _Made:
    record: Any
    how: str
    ordinary: bool = True
    occurs: bool = True


def _numeric(data: Array, bounds: Bounds | None) -> Iterator[_Made]:
    """Records of numbers: zeros, the largest seen, one coordinate alone, extremes."""
    if np.issubdtype(data.dtype, np.integer) and bounds is None and len(data):
        yield from _whole(data)
        return
    size = float(np.max(np.abs(data))) if data.size else 1.0
    shape = data.shape[1:]

    def fill(values: Any, how: str, ordinary: bool = True) -> _Made:
        wide = np.broadcast_to(np.asarray(values, dtype=np.float64), shape)
        how = how if is_inside(wide, bounds) else f"{how}, moved into the declared bounds"
        record = move_inside(wide, bounds).astype(data.dtype)
        return _Made(record, how, ordinary or is_bounded(bounds))

    yield fill(0.0, "all zeros")
    yield fill(size, "the largest value seen, in every coordinate")
    yield fill(-size, "minus the largest value seen, in every coordinate")
    if int(np.prod(shape)) > 1:
        first = np.arange(int(np.prod(shape))).reshape(shape) == 0
        yield fill(np.where(first, size, 0.0), "the largest value seen, in one coordinate")
    yield _Made(data[0], "a copy of record 0")
    for values in ends_of(bounds, data.min(axis=0), data.max(axis=0)):
        yield fill(values, "at a declared bound")
    if np.issubdtype(data.dtype, np.integer):
        return
    yield fill(100.0, "100 in every coordinate", ordinary=False)
    yield fill(1e3, "1e3 in every coordinate", ordinary=False)
    yield fill(-1e6, "-1e6 in every coordinate", ordinary=False)


def _whole(data: Array) -> Iterator[_Made]:
    """Whole numbers are often codes: what lies outside of the range seen is not ordinary."""
    low, high = data.min(axis=0), data.max(axis=0)
    zeros = np.zeros_like(low)
    inside = bool(np.all((low <= 0) & (high >= 0)))
    yield _Made(zeros, "all zeros", inside)
    yield _Made(high, "the largest value seen, in every coordinate")
    yield _Made(low, "the smallest value seen, in every coordinate")
    if high.size > 1:
        one = np.where(np.arange(high.size).reshape(high.shape) == 0, high, low)
        yield _Made(one, "the largest value seen, in one coordinate")
    yield _Made(data[0], "a copy of record 0")
    flags = _are_flags(low, high)
    above, below = np.where(flags, 1, high + 1), np.where(flags, 0, -high - 1)
    yield _Made(above.astype(data.dtype), "a value that does not occur", ordinary=False)
    if not np.issubdtype(data.dtype, np.unsignedinteger):
        yield _Made(below.astype(data.dtype), "a negative value", ordinary=False)


def _are_flags(low: Array, high: Array) -> Array:
    """Which whole numbers are only ever 0 or 1: yes or no, which has no values beyond."""
    return (low >= 0) & (high <= 1)


def _labels(y: Any) -> list[Any]:
    """Up to three labels: the first record's, the rarest and another one."""
    values = y if isinstance(y, list) else np.asarray(y).tolist()
    return list(dict.fromkeys([values[0], values[fields.rarest(values)], max(values)]))[:3]


def _values(part: Any) -> Any:
    """An array where all values are numbers or truth values; else as it is."""
    if is_table(part) and not all(map(fields.is_number, fields.columns_of(part).values())):
        return part
    try:
        values = np.asarray(part)
    except ValueError:  # lists of unequal lengths
        return part
    return values if values.dtype.kind in "biuf" else part


def _make_records(data: Any, bounds: Bounds | None) -> Iterator[_Made]:
    if is_labelled(data):
        x, y = data
        labels = _labels(y) if np.ndim(y) == 1 else [record_at(y, 0)]
        every = [*_make_records(x if isinstance(x, list) else _values(x), bounds)]
        mild, far = ([m for m in every if m.ordinary is known] for known in (True, False))
        first, others = labels[:1], labels[1:]
        for made, label in (*product(mild, first), *product(far, labels), *product(mild, others)):
            how = f"{made.how}; label of another record" if label is not labels[0] else made.how
            yield _Made((made.record, label), how, made.ordinary, made.occurs)
        return
    numbers = _values(data) if isinstance(data, list) else None
    if isinstance(data, np.ndarray) and np.issubdtype(data.dtype, np.number):
        yield from _numeric(data, bounds)
    elif isinstance(data, np.ndarray) and data.dtype == bool:
        yield _Made(np.zeros(data.shape[1:], bool), "all false")
        yield _Made(np.ones(data.shape[1:], bool), "all true")
    elif isinstance(numbers, np.ndarray) and isinstance(data[0], int | float | _NUMPY):
        kind = type(data[0])
        for made in _numeric(numbers, bounds):
            record = made.record if kind is np.ndarray else kind(made.record)
            yield _Made(record, made.how, made.ordinary)
    else:
        yield from _from_others(data, bounds)


_NUMPY = np.ndarray | np.number | np.bool_


def _from_others(data: Any, bounds: Bounds | None) -> Iterator[_Made]:
    """Records with fields, texts, dates, lists and sets, and columns of a frame."""
    if is_table(data) and data.ndim == 1 and fields.is_number(data):
        numbers = data.to_numpy()
        for made in _numeric(numbers, bounds):
            yield _Made(numbers.dtype.type(made.record), made.how, made.ordinary)
        return
    yield _Made(record_at(data, 0), "a copy of record 0")
    numbers, words = fields.split(fields.columns_of(data))
    if numbers or words:
        far, other = [*_from_columns(data, numbers, bounds)], [*fields.vary(data, words)]
        yield from (made for made in far if made.ordinary)
        yield from (_Made(*made, occurs=made[2]) for made in other)
        yield from (made for made in far if not made.ordinary)
    else:
        yield from _whole_records(data)


def _whole_records(data: Any) -> Iterator[_Made]:
    """Copies of the rarest and of the longest record, one that does not occur and an empty one."""
    first = record_at(data, 0)
    declared = hasattr(getattr(data, "dtype", None), "categories")
    yield _Made(record_at(data, _rarest(data)), "a copy of the rarest record")
    if isinstance(first, Sized):
        yield _Made(record_at(data, int(np.argmax(_sizes(data)))), "a copy of the longest record")
        yield from () if declared else _all_parts(data, first)
    flat = isinstance(data, list) or data.ndim == 1
    new = fields.unseen(data if hasattr(data, "dtype") else fields.column(data)) if flat else None
    if new is not None:
        yield _Made(new, "a value that does not occur", declared, declared)
    if isinstance(first, str | list | set) and not declared:
        yield _Made(type(first)(), "an empty record", ordinary=False, occurs=False)


def _all_parts(data: Any, first: Any) -> Iterator[_Made]:
    """One record of all words, or of all members, that occur: whoever counts them must cut it."""
    records = [record_at(data, i) for i in range(n_records(data))]
    if not all(isinstance(record, type(first)) for record in records):
        return
    if isinstance(first, str):
        parts = dict.fromkeys(word for text in records for word in text.split())
        every: Any = " ".join(parts)
    elif isinstance(first, set | frozenset):
        every = type(first)().union(*records)
    else:
        return
    yield _Made(every, "all words or members that occur, in one", ordinary=False, occurs=False)


def _rarest(data: Any) -> int:
    values = data if isinstance(data, list) else np.asarray(data).tolist()
    return fields.rarest(values)


def _from_columns(data: Any, numbers: fields.Columns, bounds: Bounds | None) -> Iterator[_Made]:
    """Every column of numbers has a range of its own; what lies outside is not ordinary."""
    if not numbers:
        return
    low = np.array([column.min() for column in numbers.values()])
    high = np.array([column.max() for column in numbers.values()])
    zeros = move_inside(np.zeros_like(low), bounds)
    inside = bool(np.all((low <= 0) & (high >= 0)))
    yield _columns(data, numbers, high, "the largest value seen, in every column")
    yield _columns(data, numbers, low, "the smallest value seen, in every column")
    yield _columns(data, numbers, zeros, "all zeros", inside or is_bounded(bounds))
    for values in ends_of(bounds, low, high):
        yield _columns(data, numbers, values, "at a declared bound")
    whole = np.array([column.dtype.kind in "iu" for column in numbers.values()])
    flags = whole & _are_flags(low, high)
    for value, how in ((100.0, "100"), (1e3, "1e3"), (-1e6, "-1e6")):
        far = np.where(flags, float(value > 0), value)
        how = f"{how} in every column"
        if not is_inside(far, bounds):
            far, how = move_inside(far, bounds), f"{how}, moved into the declared bounds"
        yield _columns(data, numbers, far, how, is_bounded(bounds))


def _columns(data: Any, numbers: Any, values: Array, how: str, ordinary: bool = True) -> _Made:
    pairs = zip(numbers, values, strict=True)
    changes = {name: numbers[name].dtype.type(value) for name, value in pairs}
    return _Made(fields.write(record_at(data, 0), changes), how, ordinary)


def _mix_records(data: Any, bounds: Bounds | None, rng: np.random.Generator) -> Iterator[_Made]:
    """Records of which some coordinates are small and others large, as far as those of D are."""
    part = data[0] if is_labelled(data) else data
    if hasattr(part, "columns"):
        numbers = part.select_dtypes("number")
        made = [_columns(part, numbers, move_inside(row, bounds), how)
                for row, how in _corners(numbers.to_numpy(), rng)]  # fmt: skip
    elif isinstance(part, np.ndarray) and np.issubdtype(part.dtype, np.number) and part.ndim > 1:
        flat = _corners(part.reshape(len(part), -1), rng)
        made = [_Made(move_inside(row.reshape(part.shape[1:]), bounds).astype(part.dtype), how)
                for row, how in flat]  # fmt: skip
    else:
        return
    for one in made:
        yield replace(one, record=(one.record, data[1][0])) if is_labelled(data) else one


def _corners(values: Array, rng: np.random.Generator) -> Iterator[tuple[Array, str]]:
    """The smallest in one coordinate and the largest in the others, and the other way round."""
    if values.ndim != 2 or values.shape[1] < 2 or not len(values):
        return
    low, high = values.min(axis=0), values.max(axis=0)
    first = np.arange(low.size) == 0
    yield np.where(first, low, high), "the smallest in the first coordinate, else the largest"
    yield np.where(first, high, low), "the largest in the first coordinate, else the smallest"
    for _ in range(_MIXED):
        sides = rng.random(low.size) < 0.5
        yield np.where(sides, low, high), "the smallest in some coordinates, else the largest"


def _sizes(data: Any) -> Array:
    """One number per record by which the largest and the smallest are found."""
    part = data[0] if is_labelled(data) else data
    values = _values(part.select_dtypes("number") if hasattr(part, "columns") else part)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        records = (record_at(part, i) for i in range(n_records(part)))
        return np.array([len(r) if isinstance(r, Sized) else 0 for r in records])
    return np.linalg.norm(values.reshape(len(values), -1).astype(float), axis=1)


def _removals(data: Any, rng: np.random.Generator, drawn: int) -> Iterator[tuple[int, str]]:
    n = n_records(data)
    if n < 2:
        return
    yield drawn, "one that took part"
    sizes = _sizes(data)
    for index in _rare(data):
        yield index, "a rare value"
    yield int(np.argmax(sizes)), "the largest"
    yield int(np.argmin(sizes)), "the smallest"
    for i in rng.choice(n, min(2, n), replace=False):
        yield int(i), "taken at random"


def _rare(data: Any) -> Iterator[int]:
    """The places of rare labels, values and fields."""
    part = data[1] if is_labelled(data) else data
    if np.ndim(part) == 1 if hasattr(part, "ndim") else not fields.columns_of(part):
        yield _rarest(part)
    else:
        yield from fields.rare_rows(part, fields.split(fields.columns_of(part))[1])


def candidates(
    data: Any,
    neighbouring: str,
    rng: np.random.Generator,
    bounds: Bounds | None = None,
    drawn: int = 0,
    own: Any = None,
) -> Iterator[Neighbour]:
    """Neighbours of a data set, mild ones first; NaN and infinities last.

    Args:
        data: the data set D.
        neighbouring: "add-remove" or "replace-one".
        rng: chooses which ordinary records are taken out.
        bounds: the declared range; records stay in it.
        drawn: a record that takes part in some batch, the one to be replaced.
        own: a record that the user gave, which comes first.

    """
    n = n_records(data)
    if own is not None:
        yield _edit(data, neighbouring, _Made(own, "the one given"), n, drawn)
    seen: set[Any] = set()
    for made in [*_make_records(data, bounds)] if n else []:
        key = repr(made.record)
        if key not in seen:
            seen.add(key)
            yield _edit(data, neighbouring, made, n, drawn)
    gone: set[int] = set()
    if neighbouring == "add-remove":
        for index, how in _removals(data, rng, drawn):
            if index not in gone:
                gone.add(index)
                rows = [i for i in range(n) if i != index]
                yield Neighbour(take(data, rows), Edit("remove", index, n, n - 1), how)
    elif n > 1 and not isinstance(_values(data[0] if is_labelled(data) else data), np.ndarray):
        for index in dict.fromkeys(_rare(data)):
            common = record_at(data, 0 if index else 1)
            how = "a rare value, by a copy of another record"
            yield Neighbour(put(data, index, common), Edit("replace", index, n, n), how)
    for made in _mix_records(data, bounds, rng):
        key = repr(made.record)
        if key not in seen:
            seen.add(key)
            yield _edit(data, neighbouring, made, n, drawn)
    for made in _not_finite(data):
        yield _edit(data, neighbouring, made, n, drawn, finite=False)


def _edit(
    data: Any, neighbouring: str, made: _Made, n: int, drawn: int, *, finite: bool = True
) -> Neighbour:
    if neighbouring == "add-remove":
        edit, changed = Edit("add", n, n, n + 1), add(data, made.record)
    else:
        edit, changed = Edit("replace", drawn, n, n), put(data, drawn, made.record)
    return Neighbour(changed, edit, made.how, finite, made.ordinary, made.occurs)


def _not_finite(data: Any) -> Iterator[_Made]:
    part = data[0] if is_labelled(data) else data
    if not (isinstance(part, np.ndarray) and np.issubdtype(part.dtype, np.floating) and len(part)):
        return
    for value, how in ((np.nan, "not a number"), (np.inf, "infinite")):
        record: Any = np.full(part.shape[1:], value)
        yield _Made((record, data[1][0]) if is_labelled(data) else record, how, ordinary=False)


def shrink(
    data: Any, neighbour: Neighbour, shows: Callable[[Any, Neighbour], bool], limit: int = 20
) -> tuple[Any, Neighbour]:
    """The smallest data set found on which the same neighbour still shows the same fault.

    Tries 1, 2, 4, ... records; ``shows`` plays a smaller pair. ``limit`` bounds the tries.
    """
    n = n_records(data)
    size, tries = 1, 0
    while size < n and tries < limit:
        smaller = cut(data, neighbour, size)
        if shows(*smaller):
            return smaller
        size, tries = size * 2, tries + 1
    return data, neighbour


def cut(data: Any, neighbour: Neighbour, size: int) -> tuple[Any, Neighbour]:
    """The first records of both, among them the one that differs."""
    edit, n = neighbour.edit, n_records(data)
    others = [i for i in range(n) if i != edit.index][:size]
    if edit.kind == "add":
        base = take(data, others)
        changed = add(base, record_at(neighbour.data, edit.index))
        new = Edit("add", size, size, size + 1)
    elif edit.kind == "remove":
        base = take(data, [edit.index, *others])
        changed, new = take(data, others), Edit("remove", 0, len(others) + 1, len(others))
    else:
        base = take(data, [edit.index, *others[: size - 1]])
        changed = put(base, 0, record_at(neighbour.data, edit.index))
        new = Edit("replace", 0, size, size)
    return base, replace(neighbour, data=changed, edit=new)


def smaller_sizes(n: int, shown: Iterable[int]) -> list[int]:
    """Numbers of records to cut a data set to: 1, 2, 5, and multiples of numbers that matter.

    Args:
        n: how many records there are.
        shown: numbers that a tape shows, such as batch sizes. What rounds n by one of them, the
            number of batches for example, changes from a multiple to the next number.

    """
    multiples = [n - n % number for number in shown if number > 1 and n % number]
    return [size for size in dict.fromkeys([*multiples[:4], 1, 2, 5]) if 0 < size < n]


def telling(data: Any, whole: Any, bounds: Bounds | None) -> Neighbour:
    """The data set with one more record: the ordinary one that is likely to move queries most.

    What is ordinary is seen from the whole data set, of which this one was cut.
    """
    ordinary = [made for made in _make_records(whole, bounds) if made.ordinary]
    largest = (made for made in ordinary if made.how.startswith("the largest"))
    return _edit(data, "add-remove", next(largest, ordinary[0]), n_records(data), 0)


def put_in_place(neighbour: Neighbour, data: Any, index: int) -> Neighbour:
    """The data set with the added record of a neighbour in the place of one of its own."""
    n = n_records(data)
    record = record_at(neighbour.data, neighbour.edit.index)
    return replace(neighbour, data=put(data, index, record), edit=Edit("replace", index, n, n))


def without_a_value(data: Any, neighbouring: str) -> Iterator[tuple[Any, Neighbour]]:
    """The data set without its rarest value, or without its largest, and with one record of it.

    Of codes and texts alone, if there are several: what a value that does not occur shows is seen
    here with one that does.
    """
    if is_labelled(data) or getattr(data, "ndim", 1) != 1:
        return
    values = data.tolist() if hasattr(data, "tolist") else data
    if not all(isinstance(value, int | str) for value in values):
        return
    for place, which in ((_rarest(data), "rarest"), (values.index(max(values)), "largest")):
        others = [i for i, value in enumerate(values) if value != values[place]]
        if others:
            base = take(data, others)
            made = _Made(record_at(data, place), f"the {which} value, which no other record has")
            yield base, _edit(base, neighbouring, made, len(others), 0)


def find_other(data: Any, record: Any, first: int = 0) -> int | None:
    """The place of a record that differs from this one, ``first`` if it does; None if all agree."""
    for i in (first, *range(n_records(data))):
        if first_difference(record_at(data, i), record) is not None:
            return i
    return None


def align_given(data: Any, others: list[Any]) -> Iterator[Neighbour]:
    """Neighbours that the user gave, aligned by record where records can be seen."""
    for i, other in enumerate(others):
        yield Neighbour(other, _edit_between(data, other), f"the neighbour number {i} given")


def _edit_between(data: Any, other: Any) -> Edit:
    """By which record two data sets differ: the first that is not the same."""
    n, n_prime = n_records_or_none(data), n_records_or_none(other)
    if n is None or n_prime is None or abs(n - n_prime) > 1:
        return Edit("given", -1, -1, -1)
    shared = min(n, n_prime)
    same = (
        first_difference(record_at(data, i), record_at(other, i)) is None for i in range(shared)
    )
    index = next((i for i, equal in enumerate(same) if not equal), shared)
    return Edit({-1: "add", 0: "given", 1: "remove"}[n - n_prime], index, n, n_prime)
