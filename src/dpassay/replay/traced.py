"""Arrays and numbers that carry a mark, and what NumPy's functions do to them."""

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpassay.replay.draws import (
    CARRIERS,
    PASSIVE,
    PUBLIC,
    Draw,
    Mark,
    Noisy,
    Traced,
    add_draws,
    freeze,
    mark_of,
    note,
    operate,
    reduce,
    strip,
    wrap,
)
from dpassay.replay.entries import Array, Entry, part_of
from dpassay.replay.tape import Tape, current


class TracedArray(Traced, np.ndarray):
    """An array with a mark."""

    mark: Mark | None

    def __array_finalize__(self, other: Any) -> None:
        self.mark = None

    @classmethod
    def make(cls, value: Any, mark: Mark) -> "TracedArray":
        """A view of an array, with a mark."""
        traced = value.view(cls)
        traced.mark = mark
        return traced

    def without_mark(self) -> Any:
        return self.view(np.ndarray)

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
        return tuple(_consume_one(part) for part in key)
    return _consume_one(key)


def _consume_one(value: Any) -> Any:
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
        def move(part: Array) -> Array:
            return getattr(part, name)(*args, **kwargs)

        return wrap(move(strip(self)), None if self.mark is None else self.mark.map(move))

    return method


for _name in ("copy", "reshape", "ravel", "flatten", "squeeze", "transpose", "swapaxes", "repeat",
              "diagonal", "take", "__copy__", "__deepcopy__"):  # fmt: skip
    setattr(TracedArray, _name, _moves_entries(_name))
TracedArray.T = property(lambda self: self.transpose())  # type: ignore[assignment,misc]


def _through_function(name: str) -> Callable[..., Any]:
    """A method of arrays that goes the way of the function of the same name."""

    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        return call(getattr(np, name), (self, *args), kwargs, by_method=name)

    return method


for _name in ("argmax", "argmin", "argsort", "argpartition", "dot", "clip", "round", "nonzero",
              "cumsum", "cumprod", "trace", "mean", "std", "var", "searchsorted"):  # fmt: skip
    setattr(TracedArray, _name, _through_function(_name))


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
    if name in ("sum", "mean") and isinstance(args[0], TracedArray) and args[0].mark is not None:
        summed = _add_up(func, name, args, kwargs)
        if summed is not None:
            return summed
    found: list[Any] = []
    plain_args = _strip_nested(args, found)
    plain_kwargs = _strip_nested(kwargs, found)
    value = (
        getattr(plain_args[0], by_method)(*plain_args[1:], **plain_kwargs)
        if by_method
        else func(*plain_args, **plain_kwargs)
    )
    tape = current()
    if tape is not None and name not in PASSIVE:
        _note_call(tape, name, args, kwargs, found)
    return value


def _add_up(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """The sum or mean of independent normal draws; None where it is that of something else."""
    array, tape = args[0], current()
    axis = kwargs.get("axis", args[1] if len(args) > 1 else None)
    plain = len(args) <= 2 and not kwargs.keys() - {"axis", "keepdims"}
    if tape is None or not plain or not isinstance(array.mark, Draw):
        return None
    keepdims = kwargs.get("keepdims", False)
    mark = add_draws(tape, array.mark, axis=axis, keepdims=keepdims)
    value = func(strip(array), axis=axis, keepdims=keepdims)
    if mark is None or not np.size(value):
        return None
    count = array.size / np.size(value) if name == "mean" else 1
    return wrap(value, replace(mark, scale=mark.scale / count))


_JOINS = frozenset({"concatenate", "stack", "hstack", "vstack", "column_stack"})
_MOVES = frozenset({"reshape", "ravel", "transpose", "squeeze", "swapaxes", "expand_dims", "copy",
                    "atleast_1d", "atleast_2d", "broadcast_to", "moveaxis", "flip"})  # fmt: skip
_ORDERS = {"argmax": "argmax", "argmin": "argmax", "argsort": "order", "argpartition": "order"}


def _note_call(tape: Tape, name: str, args: Any, kwargs: Any, found: list[Any]) -> None:
    how: Any = _ORDERS.get(name, "value")
    for value in found:
        mark = mark_of(value)
        if isinstance(mark, Noisy) and how == "argmax":
            mark.entry.lowest |= name == "argmin"
            _note_argmax(mark, value, args, kwargs)
        else:
            note(mark, how)
        if isinstance(mark, Draw) and name in PUBLIC:
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
    if isinstance(value, Traced):
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
    return freeze(plain, tape.keep(entry))


class _Scalar(Traced):
    """What a marked number adds to its type; ``plain`` is the number as it was."""

    mark: Mark | None
    plain: Any

    @classmethod
    def make(cls, value: Any, mark: Mark) -> Any:
        scalar = cls(value)  # type: ignore[call-arg]
        scalar.mark, scalar.plain = mark, value
        return scalar

    def without_mark(self) -> Any:
        return self.plain

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
CARRIERS.update(
    {
        np.ndarray: TracedArray.make,
        float: _TracedFloat.make,
        int: _TracedInt.make,
        np.float64: _TracedFloat.make,
        np.int64: _TracedInt.make,
    }
)
