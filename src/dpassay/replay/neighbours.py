"""Neighbours of a data set: which record to add, take out or replace, and smaller data sets.

Records are rows of an array or a frame, items of a list, or pairs (x, y) of a tuple (X, y). They
are named by number and by how they were made, never by their values.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from dpassay import _records
from dpassay._records import add, is_labelled, is_sparse, is_tensor, put, record_at, take
from dpassay.errors import InvalidArgument
from dpassay.replay.outputs import first_difference
from dpassay.replay.tape import Array, Edit

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

    """

    data: Any
    edit: Edit
    how: str
    finite: bool = True
    ordinary: bool = True

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


@dataclass(frozen=True)
class _Made:
    record: Any
    how: str
    ordinary: bool = True


def _numeric(data: Array, bounds: tuple[float, float] | None) -> Iterator[_Made]:
    """Records of numbers: zeros, the largest seen, one coordinate alone, extremes."""
    if np.issubdtype(data.dtype, np.integer) and bounds is None and len(data):
        yield from _whole(data)
        return
    size = float(np.max(np.abs(data))) if data.size else 1.0
    shape = data.shape[1:]
    low, high = bounds or (-np.inf, np.inf)

    def made(value: float, how: str, ordinary: bool = True) -> _Made:
        inside = min(max(value, low), high)
        how = how if inside == value else f"{how}, moved into the declared bounds"
        return _Made(np.full(shape, inside).astype(data.dtype), how, ordinary or bounds is not None)

    yield made(0.0, "all zeros")
    yield made(size, "the largest value seen, in every coordinate")
    yield made(-size, "minus the largest value seen, in every coordinate")
    if shape and int(np.prod(shape)) > 1:
        one = np.full(shape, min(max(0.0, low), high))
        one.flat[0] = min(max(size, low), high)
        yield _Made(one.astype(data.dtype), "the largest value seen, in one coordinate")
    yield _Made(data[0], "a copy of record 0")
    if np.issubdtype(data.dtype, np.integer):
        return
    yield made(100.0, "100 in every coordinate", ordinary=False)
    yield made(1e3, "1e3 in every coordinate", ordinary=False)
    yield made(-1e6, "-1e6 in every coordinate", ordinary=False)


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
    yield _Made((high + 1).astype(data.dtype), "a value that does not occur", ordinary=False)
    if not np.issubdtype(data.dtype, np.unsignedinteger):
        yield _Made((-high - 1).astype(data.dtype), "a negative value", ordinary=False)


def _labels(y: Array) -> list[Any]:
    """Up to three labels: the first record's, the rarest and another one."""
    counted = Counter(np.asarray(y).tolist())
    rare = min(counted, key=lambda label: counted[label])
    return list(dict.fromkeys([y[0], rare, max(counted)]))[:3]


def _made_records(data: Any, bounds: Any) -> Iterator[_Made]:
    if is_labelled(data):
        labels = _labels(np.asarray(data[1])) if np.ndim(data[1]) == 1 else [data[1][0]]
        every = [*_made_records(np.asarray(data[0]), bounds)]
        mild, far = ([m for m in every if m.ordinary is known] for known in (True, False))
        first, others = labels[:1], labels[1:]
        for made, label in (*product(mild, first), *product(far, labels), *product(mild, others)):
            how = f"{made.how}; label of another record" if label is not labels[0] else made.how
            yield _Made((made.record, label), how, made.ordinary)
        return
    if isinstance(data, np.ndarray) and np.issubdtype(data.dtype, np.number):
        yield from _numeric(data, bounds)
        return
    if isinstance(data, np.ndarray) and data.dtype == bool:
        yield _Made(np.zeros(data.shape[1:], bool), "all false")
        yield _Made(np.ones(data.shape[1:], bool), "all true")
        return
    if isinstance(data, list) and data and isinstance(data[0], int | float | np.ndarray):
        kind = type(data[0])
        for made in _numeric(np.asarray(data), bounds):
            record = made.record if kind is np.ndarray else kind(made.record)
            yield _Made(record, made.how, made.ordinary)
        return
    yield from _from_frame(data, bounds)


def _from_frame(data: Any, bounds: Any) -> Iterator[_Made]:
    """Records of mixed types: copies, and for numbers in a frame the extremes."""
    yield _Made(record_at(data, 0), "a copy of record 0")
    if isinstance(data, list | np.ndarray):
        if len(data) and isinstance(data[0], str):
            yield _Made("", "an empty text", ordinary=False)
            yield _Made("\u2020", "a text that does not occur", ordinary=False)
        return
    if data.ndim == 1:
        numbers = data.to_numpy()
        if np.issubdtype(numbers.dtype, np.number):
            for made in _numeric(numbers, bounds):
                yield _Made(numbers.dtype.type(made.record), made.how, made.ordinary)
        return
    yield from _from_columns(data, bounds)


def _from_columns(data: Any, bounds: Any) -> Iterator[_Made]:
    """Every column of numbers has a range of its own; what lies outside is not ordinary."""
    numbers = data.select_dtypes("number")
    if numbers.shape[1] == 0 or not len(numbers):
        return
    low, high = numbers.min().to_numpy(), numbers.max().to_numpy()
    zeros = np.zeros_like(low)
    inside = bool(np.all((low <= 0) & (high >= 0)))
    yield _columns(data, numbers, high, "the largest value seen, in every column")
    yield _columns(data, numbers, low, "the smallest value seen, in every column")
    yield _columns(data, numbers, zeros, "all zeros", inside or bounds is not None)
    if bounds is not None:
        for limit in bounds:
            yield _columns(data, numbers, np.full_like(low, limit), "at a declared bound")
        return
    for value, how in ((100.0, "100"), (1e3, "1e3"), (-1e6, "-1e6")):
        yield _columns(data, numbers, zeros + value, f"{how} in every column", False)


def _columns(data: Any, numbers: Any, values: Array, how: str, ordinary: bool = True) -> _Made:
    record = record_at(data, 0).copy()
    for name, value in zip(numbers.columns, values, strict=True):
        record[name] = numbers[name].dtype.type(value)
    return _Made(record, how, ordinary)


def _sizes(data: Any) -> Array:
    """One number per record by which the largest and the smallest are found."""
    part = data[0] if is_labelled(data) else data
    values = np.asarray(part.select_dtypes("number") if hasattr(part, "columns") else part)
    if not np.issubdtype(values.dtype, np.number):
        return np.zeros(len(values))
    return np.linalg.norm(values.reshape(len(values), -1).astype(float), axis=1)


def _removals(data: Any, rng: np.random.Generator, drawn: int) -> Iterator[tuple[int, str]]:
    n = n_records(data)
    if n < 2:
        return
    yield drawn, "one that took part"
    sizes = _sizes(data)
    yield int(np.argmax(sizes)), "the largest"
    yield int(np.argmin(sizes)), "the smallest"
    keys = np.asarray(data[1] if is_labelled(data) else data)
    if keys.ndim == 1:
        counted = Counter(keys.tolist())
        rare = min(counted, key=lambda key: counted[key])
        yield keys.tolist().index(rare), "a rare value"
    for i in rng.choice(n, min(2, n), replace=False):
        yield int(i), "taken at random"


def candidates(
    data: Any,
    neighbouring: str,
    rng: np.random.Generator,
    bounds: tuple[float, float] | None = None,
    drawn: int = 0,
    own: Any = None,
) -> Iterator[Neighbour]:
    """Neighbours of a data set, mild ones first; NaN and infinities last.

    Args:
        data: the data set D.
        neighbouring: "add-remove" or "replace-one".
        rng: chooses which ordinary records are taken out.
        bounds: the declared range of all values; records stay in it.
        drawn: a record that takes part in some batch, the one to be replaced.
        own: a record that the user gave, which comes first.

    """
    n = n_records(data)
    if own is not None:
        yield _edited(data, neighbouring, _Made(own, "the one given"), n, drawn)
    seen: set[Any] = set()
    for made in [*_made_records(data, bounds)] if n else []:
        key = repr(made.record)
        if key not in seen:
            seen.add(key)
            yield _edited(data, neighbouring, made, n, drawn)
    gone: set[int] = set()
    if neighbouring == "add-remove":
        for index, how in _removals(data, rng, drawn):
            if index not in gone:
                gone.add(index)
                rows = [i for i in range(n) if i != index]
                yield Neighbour(take(data, rows), Edit("remove", index, n, n - 1), how)
    for made in _not_finite(data):
        yield _edited(data, neighbouring, made, n, drawn, finite=False)


def _edited(
    data: Any, neighbouring: str, made: _Made, n: int, drawn: int, *, finite: bool = True
) -> Neighbour:
    if neighbouring == "add-remove":
        edit, changed = Edit("add", n, n, n + 1), add(data, made.record)
    else:
        edit, changed = Edit("replace", drawn, n, n), put(data, drawn, made.record)
    return Neighbour(changed, edit, made.how, finite, made.ordinary)


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
    return base, Neighbour(changed, new, neighbour.how, neighbour.finite, neighbour.ordinary)


def smaller_sizes(n: int, shown: Iterable[int]) -> list[int]:
    """Numbers of records to cut a data set to: 1, 2, 5, and multiples of numbers that matter.

    Args:
        n: how many records there are.
        shown: numbers that a tape shows, such as batch sizes. What rounds n by one of them, the
            number of batches for example, changes from a multiple to the next number.

    """
    multiples = [n - n % number for number in shown if number > 1 and n % number]
    return [size for size in dict.fromkeys([*multiples[:4], 1, 2, 5]) if 0 < size < n]


def telling(data: Any, whole: Any, bounds: tuple[float, float] | None) -> Neighbour:
    """The data set with one more record: the ordinary one that is likely to move queries most.

    What is ordinary is seen from the whole data set, of which this one was cut.
    """
    ordinary = [made for made in _made_records(whole, bounds) if made.ordinary]
    largest = (made for made in ordinary if made.how.startswith("the largest"))
    return _edited(data, "add-remove", next(largest, ordinary[0]), n_records(data), 0)


def replaced(neighbour: Neighbour, data: Any, index: int) -> Neighbour:
    """The data set with the added record of a neighbour in the place of one of its own."""
    n = n_records(data)
    record = record_at(neighbour.data, neighbour.edit.index)
    return replace(neighbour, data=put(data, index, record), edit=Edit("replace", index, n, n))


def given(data: Any, others: list[Any]) -> Iterator[Neighbour]:
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
