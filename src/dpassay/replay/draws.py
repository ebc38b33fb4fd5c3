"""Values that know where they come from: draws of a generator, and noisy values made of them.

A *draw* knows its law, its scale and the numbers of its entries. Scaling a draw scales its law, two
draws of one law merge, and **draw plus plain value is the primitive**: the result is a *noisy*
value, which on a replay shows what was seen on D. A noisy value to which more is added stays one
primitive. Any other operation is a use, and is written down; its result is a plain value again.

All of it computes with plain values first, by the very operation that the user wrote, so that
recording changes no bit.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpassay.replay.tape import Array, Entry, Tape, Use, current, here, part_of


@dataclass(frozen=True)
class Draw:
    """The mark of a value that is noise and nothing else."""

    law: str
    scale: Array
    ids: Array
    draws: frozenset[int]

    def map(self, shape: Callable[[Array], Array]) -> "Draw":
        """The mark after the entries were taken or moved."""
        scale = np.broadcast_to(self.scale, self.ids.shape)
        return replace(self, scale=np.asarray(shape(scale)), ids=np.asarray(shape(self.ids)))


@dataclass(frozen=True)
class Noisy:
    """The mark of a value that left a primitive; ``where`` are its places in the output."""

    entry: Entry
    where: Array
    scaled: bool = False

    def map(self, shape: Callable[[Array], Array]) -> "Noisy":
        """The mark after the entries were taken or moved."""
        return replace(self, where=np.asarray(shape(self.where)))

    def use(self, how: Use) -> None:
        """Write down that the value was used."""
        self.entry.uses[how] += 1

    @property
    def is_whole(self) -> bool:
        """Whether all places of the primitive are there, in their order."""
        return self.where.size == self.entry.out.size


Mark = Draw | Noisy


def mark_of(value: Any) -> Mark | None:
    """The mark of a value, None where it is plain."""
    return getattr(value, "mark", None) if isinstance(value, _TRACED) else None


def strip(value: Any) -> Any:
    """The same value without a mark; no use is written down."""
    if isinstance(value, TracedArray):
        return value.view(np.ndarray)
    return value.plain if isinstance(value, _Scalar) else value


def wrap(value: Any, mark: Mark | None) -> Any:
    """The value with a mark; a type that cannot carry one stays plain and counts as used."""
    if mark is None:
        return value
    if isinstance(value, np.ndarray):
        traced = value.view(TracedArray)
        traced.mark = mark
        return traced
    kind = _SCALARS.get(type(value))
    if kind is None:
        note(mark)
        return value
    return kind.made(value, mark)


def note(mark: Mark | None, how: Use = "value") -> None:
    """Write down a use; of a draw there is nothing to write, it is lost unless it is added."""
    if isinstance(mark, Noisy):
        mark.use(how)


def operate(name: str, inputs: tuple[Any, ...], compute: Callable[..., Any]) -> Any:
    """The result of an operation on values of which at least one has a mark.

    Args:
        name: that of the NumPy function or of the operator's ufunc.
        inputs: the operands as the user has them.
        compute: the operation; it gets the operands without marks.

    """
    value = compute(*(strip(part) for part in inputs))
    tape = current()
    if tape is None:
        return value
    marks = tuple(mark_of(part) for part in inputs)
    rule = _BINARY.get(name) if len(inputs) == 2 else _UNARY.get(name)
    if rule is not None:
        return rule(tape, name, inputs, marks, value)
    if name not in _PASSIVE:
        _use_all(tape, marks, public=name in _PUBLIC)
    return value


def _use_all(tape: Tape, marks: tuple[Mark | None, ...], *, public: bool = False) -> None:
    for mark in marks:
        note(mark)
        if public and isinstance(mark, Draw):
            tape.public |= mark.draws


def _as_query(value: Any, shape: tuple[int, ...]) -> Array:
    """A copy, since the user may change the array afterwards."""
    return np.array(np.broadcast_to(np.asarray(strip(value), dtype=np.float64), shape))


def add_primitive(tape: Tape, query: Any, mark: Draw, value: Any) -> Any:
    """Query plus draw: the primitive; returns the noisy value, frozen on a replay."""
    shape = np.shape(value)
    entry = tape.keep(
        Entry(
            number=len(tape.entries),
            kind="add",
            law=mark.law,
            scale=np.array(np.broadcast_to(mark.scale, shape)),
            query=_as_query(query, shape),
            out=np.array(value),
            ids=np.broadcast_to(mark.ids, shape),
            draws=mark.draws,
            site=here(),
            chain=tape.next_chain,
        )
    )
    return _frozen(value, entry)


def _frozen(value: Any, entry: Entry) -> Any:
    """What the user gets: of the type that was computed, with the value on the tape."""
    where = np.arange(entry.out.size).reshape(entry.out.shape)
    return wrap(_like(value, entry.out), Noisy(entry, where))


def _like(value: Any, out: Array) -> Any:
    if isinstance(value, np.ndarray):
        return out.astype(value.dtype)
    return out.item() if type(value) in (float, int, bool) else type(value)(out.item())


def _add(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    left, right = marks
    if isinstance(left, Draw) and isinstance(right, Draw):
        return wrap(value, _merge(tape, name, left, right, np.shape(value)))
    if isinstance(left, Noisy) and isinstance(right, Noisy):
        _use_all(tape, marks)
        return value
    if isinstance(left, Noisy) or isinstance(right, Noisy):
        return _extend(tape, name, inputs, marks, value)
    draw, plain = (left, inputs[1]) if isinstance(left, Draw) else (right, inputs[0])
    if draw.law == "uniform" or draw.draws & tape.public:
        return value  # uniform noise protects nothing; what met data before is public
    sign = -1.0 if name == "subtract" and isinstance(left, Draw) else 1.0
    return add_primitive(tape, sign * np.asarray(strip(plain), dtype=np.float64), draw, value)


def _extend(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    """A noisy value to which something is added: the same primitive with a larger query."""
    at = 0 if isinstance(marks[0], Noisy) else 1
    noisy, other = marks[at], marks[1 - at]
    if noisy.scaled or noisy.entry.kind != "add" or np.iscomplexobj(value):
        _use_all(tape, marks)
        return value
    shape = np.shape(value)
    noisy.entry.extended = True
    where = np.broadcast_to(noisy.where, shape)
    last = tape.chains[noisy.entry.chain]
    stage = part_of(noisy.entry, where, number=len(tape.entries), stage=len(last), site=here())
    signs = (1.0, -1.0) if name == "subtract" else (1.0, 1.0)
    stage.query = signs[at] * stage.query
    stage.out = np.array(value)
    if isinstance(other, Draw):
        own = Draw(stage.law, stage.scale, stage.ids, stage.draws)
        pair = (own, other) if at == 0 else (other, own)
        merged = _merge(tape, name, *pair, shape)
        stage.law, stage.scale, stage.ids = merged.law, merged.scale, merged.ids
        stage.draws = merged.draws
    else:
        stage.query = stage.query + signs[1 - at] * _as_query(inputs[1 - at], shape)
    return _frozen(value, tape.keep(stage))


def _merge(tape: Tape, name: str, left: Draw, right: Draw, shape: tuple[int, ...]) -> Draw:
    """The sum or difference of two independent draws."""
    same = np.array_equal(np.broadcast_to(left.scale, shape), np.broadcast_to(right.scale, shape))
    law, scale = f"sum of {left.law} and {right.law}", np.hypot(left.scale, right.scale)
    if left.draws & right.draws:
        law = f"a sum of {left.law} draws that are not independent"
    elif left.law == right.law == "normal":
        law = "normal"
    elif left.law == right.law and same and name == "subtract" and left.law in _DIFFERENCES:
        law, scale = _DIFFERENCES[left.law], left.scale
    ids = tape.new_ids(shape)
    return Draw(law, np.broadcast_to(scale, shape), ids, left.draws | right.draws)


# Of two independent draws with one scale: G - G' and E - E'.
_DIFFERENCES = {"geometric": "two-sided geometric", "exponential": "laplace"}


def _multiply(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    at = 0 if marks[0] is not None else 1
    mark, other = marks[at], marks[1 - at]
    divides = name != "multiply" and at == 1
    if isinstance(mark, Draw) and _can_scale(mark, other, divides, np.shape(value)):
        note(other)
        return wrap(value, _scaled(mark, name, strip(inputs[1 - at])))
    by_number = other is None and not divides and np.ndim(inputs[1 - at]) == 0
    if isinstance(mark, Noisy) and by_number:
        return wrap(value, replace(mark, scaled=True))
    _use_all(tape, marks, public=True)
    return value


def _can_scale(mark: Draw, other: Mark | None, divides: bool, shape: tuple[int, ...]) -> bool:
    """Whether a product is the same noise in another scale, one entry for one."""
    plain = not isinstance(other, Draw) and not divides
    return plain and shape == mark.ids.shape and mark.law != "uniform"


def _scaled(mark: Draw, name: str, factor: Any) -> Draw:
    factor = np.abs(np.asarray(factor, dtype=np.float64))
    scale = mark.scale * factor if name == "multiply" else mark.scale / factor
    return replace(mark, scale=np.broadcast_to(scale, mark.ids.shape))


def _negate(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    mark = marks[0]
    if isinstance(mark, Draw):
        return wrap(value, None if mark.law == "uniform" else mark)
    return wrap(value, replace(mark, scaled=True) if name == "negative" else mark)


def _compare(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    left, right = marks
    if left is not None and right is not None:
        for mark in marks:
            note(mark, "noisy comparison")
            tape.followed |= mark.draws if isinstance(mark, Draw) else frozenset()
        return value
    mark, plain = (left, inputs[1]) if left is not None else (right, inputs[0])
    if isinstance(mark, Noisy) and (mark.scaled or mark.entry.kind != "add"):
        note(mark)
        return value
    if isinstance(mark, Draw) and mark.law == "uniform":
        below = (name in ("less", "less_equal")) == (left is not None)
        return toss(tape, mark, _chance(plain, below), value)
    assert mark is not None  # one of the operands has a mark
    return _compare_with_plain(tape, mark, strip(plain), value)


def _chance(plain: Any, below: bool) -> Array:
    limit = np.clip(np.asarray(strip(plain), dtype=np.float64), 0.0, 1.0)
    return limit if below else 1.0 - limit


def _compare_with_plain(tape: Tape, mark: Mark, plain: Any, value: Any) -> Any:
    """One bit of a noisy value: the query is its distance from the plain one."""
    shape = np.shape(value)
    if isinstance(mark, Draw):
        zeros = np.zeros(shape)
        base = Entry(0, "add", mark.law, np.broadcast_to(mark.scale, shape), zeros, zeros, mark.ids,
                     mark.draws, here(), 0)  # fmt: skip
        where = np.arange(zeros.size).reshape(shape)
    else:
        base, where = mark.entry, np.broadcast_to(mark.where, shape)
        mark.entry.extended = True  # seen through this comparison alone, unless used otherwise
    entry = part_of(
        base,
        where,
        number=len(tape.entries),
        kind="compare",
        site=here(),
        chain=tape.next_chain,
        stage=0,
    )
    entry.query = entry.query - _as_query(plain, shape)
    entry.out = np.array(value)
    return _like(value, tape.keep(entry).out)


def toss(tape: Tape, mark: Draw, chance: Array, value: Any) -> Any:
    """A coin whose probability may depend on the data; frozen, unless it belongs to a record."""
    shape = np.shape(value)
    axis = next((i for i, size in enumerate(shape) if size == tape.n), None)
    if axis is not None and len(shape) == 1:
        tape.keep_coins(min(mark.draws), chance, value, here())
    entry = Entry(
        number=len(tape.entries),
        kind="coin",
        law="coin",
        scale=np.ones(shape),
        query=_as_query(chance, shape),
        out=np.array(value),
        ids=np.broadcast_to(mark.ids, shape),
        draws=mark.draws,
        site=here(),
        chain=tape.next_chain,
        axis=axis,
    )
    return _like(value, tape.keep(entry).out)


_BINARY: dict[str, Callable[..., Any]] = {
    "add": _add,
    "subtract": _add,
    "multiply": _multiply,
    "divide": _multiply,
    "true_divide": _multiply,
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal"), _compare),
}
_UNARY: dict[str, Callable[..., Any]] = {"negative": _negate, "positive": _negate}
_PASSIVE = frozenset({"isfinite", "isnan", "isinf", "shape", "ndim", "size"})
# Where a draw meets other values before anything is added to it, it is taken as public.
_PUBLIC = frozenset({"matmul", "dot", "einsum", "tensordot", "inner", "outer", "vdot", "kron"})


def reduce(ufunc: Any, array: "TracedArray", kwargs: dict[str, Any]) -> Any:
    """A sum or another reduction; independent normal draws sum to one draw."""
    value = ufunc.reduce(strip(array), **kwargs)
    mark, tape = array.mark, current()
    if tape is None:
        return value
    normal = isinstance(mark, Draw) and mark.law == "normal" and ufunc is np.add
    if isinstance(mark, Draw) and normal and np.unique(mark.ids).size == mark.ids.size:
        squares = np.broadcast_to(mark.scale, mark.ids.shape) ** 2
        scale = np.asarray(np.sqrt(np.add.reduce(squares, **kwargs)))
        ids = tape.new_ids(np.shape(value))
        return wrap(value, Draw("normal", scale, ids, mark.draws))
    note(mark)
    return value


class TracedArray(np.ndarray):
    """An array with a mark."""

    mark: Mark | None

    def __array_finalize__(self, other: Any) -> None:
        self.mark = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if method == "reduce" and isinstance(inputs[0], TracedArray) and out is None:
            return reduce(ufunc, inputs[0], kwargs)
        if method != "__call__" or kwargs.keys() - {"dtype", "casting", "order", "subok"}:
            _consume((*inputs, *(out or ())))
            return _call_plain(ufunc, method, inputs, out, kwargs)
        if ufunc.nout > 1:
            _consume(inputs)
            return _call_plain(ufunc, method, inputs, out, kwargs)
        # The query is read before the output is stored: in `x += noise` both are one array.
        result = operate(ufunc.__name__, inputs, lambda *args: ufunc(*args, **kwargs))
        return result if out is None else _store(result, out)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call(func, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        mark = self.mark
        value = strip(self)[_plain_key(key)]
        return value if mark is None else wrap(value, mark.map(lambda part: part[_plain_key(key)]))

    def __setitem__(self, key: Any, value: Any) -> None:
        note(self.mark)
        note(mark_of(value))
        strip(self)[_plain_key(key)] = strip(value)
        self.mark = None

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        note(self.mark)
        return float(strip(self))

    def __int__(self) -> int:
        note(self.mark)
        return int(strip(self))

    def __bool__(self) -> bool:
        note(self.mark)
        return bool(strip(self))

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """The values as another type; rounding to whole numbers is a use."""
        value = strip(self).astype(dtype, *args, **kwargs)
        if np.issubdtype(value.dtype, np.floating):
            return wrap(value, self.mark)
        note(self.mark)
        return value

    def __reduce__(self) -> Any:
        note(self.mark)
        return strip(self).__reduce__()


def _call_plain(ufunc: Any, method: str, inputs: Any, out: Any, kwargs: Any) -> Any:
    options = kwargs if out is None else {**kwargs, "out": tuple(strip(part) for part in out)}
    for part in out or ():
        if isinstance(part, TracedArray):
            part.mark = None
    return getattr(ufunc, method)(*(strip(part) for part in inputs), **options)


def _plain_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_consumed(part) for part in key)
    return _consumed(key)


def _consumed(value: Any) -> Any:
    note(mark_of(value))
    return strip(value)


def _consume(values: Any) -> None:
    for value in values:
        note(mark_of(value))


def _store(result: Any, out: tuple[Any, ...]) -> Any:
    """Put a result, frozen or not, where the user wanted it; the name keeps its mark."""
    target, mark = out[0], mark_of(result)
    plain = strip(target)
    np.copyto(plain, strip(result), casting="same_kind")
    if isinstance(target, TracedArray):
        target.mark = mark
        return target
    return wrap(plain, mark)


def _moves_entries(name: str) -> Callable[..., Any]:
    """A method that only takes or moves entries: what it does to the values, it does to marks."""

    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        def moved(part: Array) -> Array:
            return getattr(part, name)(*args, **kwargs)

        return wrap(moved(strip(self)), None if self.mark is None else self.mark.map(moved))

    return method


for _name in ("copy", "reshape", "ravel", "flatten", "squeeze", "transpose", "swapaxes", "repeat",
              "diagonal", "take", "__copy__", "__deepcopy__"):  # fmt: skip
    setattr(TracedArray, _name, _moves_entries(_name))
TracedArray.T = property(lambda self: self.transpose())  # type: ignore[assignment,misc]


def _called(name: str) -> Callable[..., Any]:
    """A method of arrays that goes the way of the function of the same name."""

    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        return call(getattr(np, name), (self, *args), kwargs, by_method=name)

    return method


for _name in ("argmax", "argmin", "argsort", "argpartition", "dot", "clip", "round", "nonzero",
              "cumsum", "cumprod", "trace", "mean", "std", "var", "searchsorted"):  # fmt: skip
    setattr(TracedArray, _name, _called(_name))


def _leaving(name: str) -> Callable[..., Any]:
    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        note(self.mark)
        return getattr(strip(self), name)(*args, **kwargs)

    return method


def _changing(name: str) -> Callable[..., Any]:
    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        note(self.mark)
        self.mark = None
        return getattr(strip(self), name)(*args, **kwargs)

    return method


for _name in ("item", "tolist", "tobytes", "tofile", "dump", "dumps", "choose", "compress"):
    setattr(TracedArray, _name, _leaving(_name))
for _name in ("sort", "fill", "partition", "put", "itemset", "resize"):
    setattr(TracedArray, _name, _changing(_name))


def call(func: Any, args: Any, kwargs: Any, by_method: str = "") -> Any:
    """A NumPy function on values with marks."""
    name = by_method or func.__name__
    if name in _JOINS:
        joined = _join(func, args, kwargs)
        if joined is not None:
            return joined
    if name in _MOVES and isinstance(args[0], TracedArray) and args[0].mark is not None:
        value = func(strip(args[0]), *args[1:], **kwargs)
        return wrap(value, args[0].mark.map(lambda part: func(part, *args[1:], **kwargs)))
    found: list[Any] = []
    plain_args = _strip_nested(args, found)
    plain_kwargs = _strip_nested(kwargs, found)
    value = (
        getattr(plain_args[0], by_method)(*plain_args[1:], **plain_kwargs)
        if by_method
        else func(*plain_args, **plain_kwargs)
    )
    tape = current()
    if tape is not None and name not in _PASSIVE:
        _note_call(tape, name, args, kwargs, found)
    return value


_JOINS = frozenset({"concatenate", "stack", "hstack", "vstack", "column_stack"})
_MOVES = frozenset({"reshape", "ravel", "transpose", "squeeze", "swapaxes", "expand_dims", "copy",
                    "atleast_1d", "atleast_2d", "broadcast_to", "moveaxis", "flip"})  # fmt: skip
_ORDERS = {"argmax": "argmax", "argmin": "argmax", "argsort": "order", "argpartition": "order"}


def _note_call(tape: Tape, name: str, args: Any, kwargs: Any, found: list[Any]) -> None:
    how: Any = _ORDERS.get(name, "value")
    for value in found:
        mark = mark_of(value)
        if isinstance(mark, Noisy) and how == "argmax":
            _note_argmax(mark, value, args, kwargs)
        else:
            note(mark, how)
        if isinstance(mark, Draw) and name in _PUBLIC:
            tape.public |= mark.draws


def _note_argmax(mark: Noisy, value: Any, args: Any, kwargs: Any) -> None:
    axis = kwargs.get("axis", args[1] if len(args) > 1 else None)
    whole = mark.is_whole and np.shape(value) == mark.entry.out.shape
    flat = mark.is_whole and axis is None
    if not (whole or flat):
        mark.use("value")
        return
    mark.use("argmax")
    mark.entry.axis = None if axis is None else int(axis) % max(mark.entry.out.ndim, 1)


def _strip_nested(value: Any, found: list[Any]) -> Any:
    if isinstance(value, _TRACED):
        found.append(value)
        return strip(value)
    if type(value) in (list, tuple):
        return type(value)(_strip_nested(part, found) for part in value)
    if type(value) is dict:
        return {key: _strip_nested(part, found) for key, part in value.items()}
    return value


def _join(func: Any, args: Any, kwargs: Any) -> Any:
    """Draws of one law, joined; None where something else is among them."""
    parts = list(args[0])
    marks = [mark_of(part) for part in parts]
    draws = [mark for mark in marks if isinstance(mark, Draw)]
    if not draws or len(draws) < len(parts) or len({mark.law for mark in draws}) > 1:
        return None
    value = func([strip(part) for part in parts], *args[1:], **kwargs)
    ids = func([mark.ids for mark in draws], *args[1:], **kwargs)
    scales = [np.broadcast_to(mark.scale, mark.ids.shape) for mark in draws]
    numbers = frozenset[int]().union(*(mark.draws for mark in draws))
    return wrap(value, Draw(draws[0].law, func(scales, *args[1:], **kwargs), ids, numbers))


def gather(values: Any) -> Any:
    """A list of marked numbers as one array that has their mark; anything else as it is.

    Numbers that were made noisy one by one become one selection when they are put into one
    ``argmax``: their entries are replaced by stages of a common one.
    """
    if type(values) not in (list, tuple) or not values:
        return values
    if not any(isinstance(part, _Scalar) for part in values):
        return values
    marks = [mark_of(part) for part in values]
    plain = np.array([strip(part) for part in values])
    draws = [mark for mark in marks if isinstance(mark, Draw)]
    if len(draws) == len(marks) and len({mark.law for mark in draws}) == 1:
        numbers = frozenset[int]().union(*(mark.draws for mark in draws))
        scale = np.array([mark.scale for mark in draws], dtype=np.float64).reshape(plain.shape)
        ids = np.array([mark.ids for mark in draws]).reshape(plain.shape)
        return wrap(plain, Draw(draws[0].law, scale, ids, numbers))
    noisy = [mark for mark in marks if isinstance(mark, Noisy) and not mark.scaled]
    if len(noisy) == len(marks) and len({mark.entry.law for mark in noisy}) == 1:
        return _gather_noisy(plain, noisy)
    _consume(values)
    return plain


def _gather_noisy(plain: Array, marks: list[Noisy]) -> Any:
    tape = current()
    if tape is None or any(mark.entry.kind != "add" for mark in marks):
        return plain
    parts = [part_of(mark.entry, mark.where) for mark in marks]
    for mark in marks:
        mark.entry.extended = True
    entry = Entry(
        number=len(tape.entries),
        kind="add",
        law=parts[0].law,
        scale=np.array([part.scale for part in parts]).reshape(plain.shape),
        query=np.array([part.query for part in parts]).reshape(plain.shape),
        out=plain.copy(),
        ids=np.array([part.ids for part in parts]).reshape(plain.shape),
        draws=frozenset[int]().union(*(part.draws for part in parts)),
        site=parts[0].site,
        chain=tape.next_chain,
    )
    return _frozen(plain, tape.keep(entry))


class _Scalar:
    """What a marked number adds to its type; ``plain`` is the number as it was."""

    mark: Mark | None
    plain: Any

    @classmethod
    def made(cls, value: Any, mark: Mark) -> Any:
        scalar = cls(value)  # type: ignore[call-arg]
        scalar.mark, scalar.plain = mark, value
        return scalar

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return TracedArray.__array_ufunc__(self, ufunc, method, *inputs, **kwargs)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name in ("mark", "plain"):  # not set yet
            raise AttributeError(name)
        found = getattr(self.plain, name)  # of a NumPy scalar: dtype, clip, item, ...
        if callable(found):
            note(self.mark)
        return found

    def __hash__(self) -> int:
        return hash(self.plain)

    def __repr__(self) -> str:
        note(self.mark)
        return repr(self.plain)

    def __str__(self) -> str:
        note(self.mark)
        return str(self.plain)

    def __format__(self, spec: str) -> str:
        note(self.mark)
        return format(self.plain, spec)

    def __float__(self) -> float:
        note(self.mark)
        return float(self.plain)

    def __int__(self) -> int:
        note(self.mark)
        return int(self.plain)

    def __bool__(self) -> bool:
        note(self.mark)
        return bool(self.plain)

    def __round__(self, *digits: Any) -> Any:
        note(self.mark)
        return round(self.plain, *digits)

    def __reduce__(self) -> Any:
        note(self.mark)
        return type(self.plain), (self.plain,)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def _operator(name: str, function: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        inputs = (other, self) if reflected else (self, other)
        return operate(name, inputs, function)

    return method


_OPERATORS = {
    "add": ("add", operator.add),
    "sub": ("subtract", operator.sub),
    "mul": ("multiply", operator.mul),
    "truediv": ("true_divide", operator.truediv),
    "floordiv": ("floor_divide", operator.floordiv),
    "mod": ("remainder", operator.mod),
    "pow": ("power", operator.pow),
}
for _name, (_ufunc, _function) in _OPERATORS.items():
    setattr(_Scalar, f"__{_name}__", _operator(_ufunc, _function, reflected=False))
    setattr(_Scalar, f"__r{_name}__", _operator(_ufunc, _function, reflected=True))
_COMPARISONS = {
    "lt": ("less", operator.lt),
    "le": ("less_equal", operator.le),
    "gt": ("greater", operator.gt),
    "ge": ("greater_equal", operator.ge),
    "eq": ("equal", operator.eq),
    "ne": ("not_equal", operator.ne),
}
for _name, (_ufunc, _function) in _COMPARISONS.items():
    setattr(_Scalar, f"__{_name}__", _operator(_ufunc, _function, reflected=False))
for _name, _function in {"neg": operator.neg, "pos": operator.pos, "abs": operator.abs}.items():
    _ufunc = {"neg": "negative", "pos": "positive", "abs": "absolute"}[_name]
    setattr(
        _Scalar,
        f"__{_name}__",
        lambda self, name=_ufunc, function=_function: operate(name, (self,), function),
    )


class _TracedFloat(_Scalar, float):
    pass


class _TracedInt(_Scalar, int):
    pass


# Not np.float64 or np.int64: NumPy crashes on methods of their subclasses. What a NumPy scalar has
# beyond a Python number is found by __getattr__.
_SCALARS: dict[type, Any] = {
    float: _TracedFloat,
    int: _TracedInt,
    np.float64: _TracedFloat,
    np.int64: _TracedInt,
}
_TRACED = (TracedArray, _Scalar)
