"""Values that know where they come from: draws of a generator, and noisy values made of them.

A *draw* knows its law, its scale and the numbers of its entries. Scaling a draw scales its law, two
draws of one law merge, and **draw plus plain value is the primitive**: the result is a *noisy*
value, which on a replay shows what was seen on D. A noisy value to which more is added stays one
primitive. Any other operation is a use, and is written down; its result is a plain value again.

All of it computes with plain values first, by the very operation that the user wrote, so that
recording changes no bit.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpassay.replay.entries import Array, Comparison, Entry, Side, Use, part_of
from dpassay.replay.sites import Site, here
from dpassay.replay.tape import Tape, current


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
        self.entry.touch(self.where)

    @property
    def is_whole(self) -> bool:
        """Whether all places of the primitive are there, in their order."""
        return self.where.size == self.entry.out.size


Mark = Draw | Noisy


class Traced:
    """Base of the values that carry a mark (:mod:`dpassay.replay.traced`)."""

    mark: Mark | None

    def without_mark(self) -> Any:
        """The plain value; no use is written down."""
        raise NotImplementedError


def mark_of(value: Any) -> Mark | None:
    """The mark of a value, None where it is plain."""
    return value.mark if isinstance(value, Traced) else None


def strip(value: Any) -> Any:
    """The same value without a mark; no use is written down."""
    return value.without_mark() if isinstance(value, Traced) else value


CARRIERS: dict[type, Callable[[Any, Mark], Any]] = {}
"""What makes a value of a type carry a mark; filled by :mod:`dpassay.replay.traced`."""


def wrap(value: Any, mark: Mark | None) -> Any:
    """The value with a mark; a type that cannot carry one stays plain and counts as used."""
    if mark is None:
        return value
    carry = CARRIERS.get(np.ndarray if isinstance(value, np.ndarray) else type(value))
    if carry is None:
        note(mark)
        return value
    return carry(value, mark)


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
    if not any(marks):
        return value
    rule = _BINARY.get(name) if len(inputs) == 2 else _UNARY.get(name)
    if rule is not None:
        _note_meeting(tape, name, inputs, marks)
        return rule(tape, name, inputs, marks, value)
    if name not in PASSIVE:
        _use_all(tape, marks, public=name in PUBLIC)
    return value


def _note_meeting(tape: Tape, name: str, inputs: tuple[Any, ...], marks: Any) -> None:
    """A noisy value meets a plain one; what is only added to it is part of its query."""
    if len(inputs) != 2 or None not in marks:
        return
    at = 0 if marks[0] is not None else 1
    mark = marks[at]
    if isinstance(mark, Noisy) and (mark.scaled or name in ("multiply", "divide", "true_divide")):
        tape.meet(inputs[1 - at])


def _use_all(tape: Tape, marks: tuple[Mark | None, ...], *, public: bool = False) -> None:
    for mark in marks:
        note(mark)
        if public and isinstance(mark, Draw):
            tape.public |= mark.draws


def _as_query(value: Any, shape: tuple[int, ...]) -> Array:
    """A copy, since the user may change the array afterwards."""
    return np.array(np.broadcast_to(np.asarray(strip(value), dtype=np.float64), shape))


def add_primitive(tape: Tape, query: Any, mark: Draw, value: Any, site: Site | None = None) -> Any:
    """Query plus draw: the primitive; returns the noisy value, frozen on a replay.

    ``site`` is the line, where the call stack does not show it.
    """
    shape = np.shape(value)
    entry = tape.keep(
        Entry(
            number=len(tape.entries),
            kind="add",
            law=mark.law,
            scale=np.broadcast_to(mark.scale, shape),
            query=_as_query(query, shape),
            out=np.array(value),
            ids=np.broadcast_to(mark.ids, shape),
            draws=mark.draws,
            site=site or here(),
            chain=tape.next_chain,
        )
    )
    return freeze(value, entry)


def freeze(value: Any, entry: Entry) -> Any:
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
    if draw.law == "uniform" and np.any(draw.scale != 1):
        tape.public |= draw.draws
    if draw.law == "uniform" or draw.draws & tape.public or np.iscomplexobj(value):
        return value  # uniform noise protects nothing; what met data before is public
    sign = -1.0 if name == "subtract" and isinstance(left, Draw) else 1.0
    return add_primitive(tape, sign * np.asarray(strip(plain), dtype=np.float64), draw, value)


def _extend(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    """A noisy value to which something is added: the same primitive with a larger query."""
    at = 0 if isinstance(marks[0], Noisy) else 1
    noisy, other = marks[at], marks[1 - at]
    fresh = isinstance(other, Draw) and other.law != "uniform" and not other.draws & tape.public
    if noisy.scaled and fresh and not np.iscomplexobj(value):
        note(noisy)  # a noisy value that was computed with is the query of the next noise
        sign = -1.0 if name == "subtract" and at == 1 else 1.0
        query = sign * np.asarray(strip(inputs[at]), dtype=np.float64)
        return add_primitive(tape, query, other, value)
    if noisy.scaled or noisy.entry.kind != "add" or np.iscomplexobj(value):
        _use_all(tape, marks)
        return value
    if at == 1 and type(inputs[0]) is int and inputs[0] == 0 and name == "add":
        return wrap(value, noisy)  # the zero that ``sum`` begins with
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
    return freeze(value, tape.keep(stage))


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
    parts = (np.broadcast_to(part.ids, shape).tobytes() for part in (left, right))
    ids = tape.new_ids(shape, (name, shape, *parts))
    return Draw(law, np.broadcast_to(scale, shape), ids, left.draws | right.draws)


# Of two independent draws with one scale: G - G' and E - E'.
_DIFFERENCES = {"geometric": "two-sided geometric", "exponential": "laplace"}


def _multiply(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    at = 0 if marks[0] is not None else 1
    mark, other = marks[at], marks[1 - at]
    divides = name != "multiply" and at == 1
    if isinstance(mark, Draw) and _can_scale(mark, other, divides, value):
        note(other)
        made = _scale_draw(mark, name, strip(inputs[1 - at]))
        if not np.any(made.scale):  # no noise at all: plain numbers
            tape.followed |= made.draws
            return value
        return wrap(value, made)
    by_number = other is None and not divides and np.ndim(inputs[1 - at]) == 0
    if isinstance(mark, Noisy) and by_number:
        return wrap(value, replace(mark, scaled=True))
    if isinstance(mark, Draw) and mark.law == "uniform" and by_number and inputs[1 - at] > 0:
        return wrap(
            value, _scale_draw(mark, name, inputs[1 - at])
        )  # u times the sum of all weights
    _use_all(tape, marks, public=True)
    return value


def _can_scale(mark: Draw, other: Mark | None, divides: bool, value: Any) -> bool:
    """Whether a product is the same noise in another scale, one entry for one."""
    plain = not isinstance(other, Draw) and not divides and not np.iscomplexobj(value)
    return plain and np.shape(value) == mark.ids.shape and mark.law != "uniform"


def _scale_draw(mark: Draw, name: str, factor: Any) -> Draw:
    factor = np.abs(np.asarray(factor, dtype=np.float64))
    scale = mark.scale * factor if name == "multiply" else mark.scale / factor
    return replace(mark, scale=np.broadcast_to(scale, mark.ids.shape))


def _negate(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    mark = marks[0]
    if isinstance(mark, Draw):
        return wrap(value, None if mark.law == "uniform" else mark)
    return wrap(value, replace(mark, scaled=True) if name == "negative" else mark)


def _sign(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    """An exponential draw whose sign was just drawn for every entry is a Laplace draw."""
    mark, last = marks[0], tape.draws[-1]
    drawn = last.law == "uniform" and np.shape(last.value) == np.shape(value)
    if isinstance(mark, Draw) and mark.law == "exponential" and drawn:
        return wrap(value, replace(mark, law="laplace", draws=mark.draws | {last.number}))
    _use_all(tape, marks)
    return value


def _compare(tape: Tape, name: str, inputs: Any, marks: Any, value: Any) -> Any:
    left, right = marks
    if left is not None and right is not None:
        for mark in marks:
            note(mark, "noisy comparison")
            tape.followed |= mark.draws if isinstance(mark, Draw) else frozenset()
        _keep_comparison(tape, name, marks, value)
        return value
    mark, plain = (left, inputs[1]) if left is not None else (right, inputs[0])
    if isinstance(mark, Noisy) and (mark.scaled or mark.entry.kind != "add"):
        note(mark)
        return value
    if isinstance(mark, Draw) and mark.law == "uniform":
        below = (name in ("less", "less_equal")) == (left is not None)
        limit = np.asarray(strip(plain), dtype=np.float64) / mark.scale
        return toss(tape, mark, _chance(limit, below), value)
    assert mark is not None  # one of the operands has a mark
    return _compare_with_plain(tape, mark, strip(plain), value)


def _keep_comparison(tape: Tape, name: str, marks: tuple[Mark, Mark], value: Any) -> None:
    """Write two noisy values down that were compared, such as a query and a noisy threshold."""
    shape = np.shape(value)
    above = np.array(value) == (name in ("greater", "greater_equal"))
    left, right = (_side(mark, shape) for mark in marks)
    tape.comparisons.append(Comparison(left, right, above, here()))


def _side(mark: Mark, shape: tuple[int, ...]) -> Side:
    if isinstance(mark, Draw):
        return Side(mark.law, mark.scale, np.zeros(shape), mark.ids, None)
    entry = mark.entry
    at = np.broadcast_to(mark.where, shape).ravel()
    law = f"a multiple of {entry.law}" if mark.scaled else entry.law

    def take(values: Array) -> Array:
        return np.broadcast_to(values, entry.out.shape).ravel()[at].reshape(shape)

    return Side(law, take(entry.scale), take(entry.query), take(entry.ids), entry)


def _chance(limit: Array, below: bool) -> Array:
    limit = np.clip(limit, 0.0, 1.0)
    return limit if below else 1.0 - limit


def _compare_with_plain(tape: Tape, mark: Mark, plain: Any, value: Any) -> Any:
    """One bit of a noisy value: the query is its distance from the plain one."""
    shape = np.shape(value)
    if np.all(np.isinf(np.asarray(plain, dtype=np.float64))):
        return value  # known before: a running maximum begins at minus infinity
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
    if axis is not None:
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


def choose(tape: Tape, mark: Draw, chances: Any, value: Any) -> Any:
    """One of several by given probabilities, which are the query; frozen."""
    chances = np.asarray(strip(chances))
    entry = Entry(
        number=len(tape.entries),
        kind="choice",
        law="choice",
        scale=np.ones(np.shape(chances)),  # the unit of the query, however many are drawn
        query=np.array(chances, dtype=np.result_type(chances, np.float32)),
        out=np.array(value),
        ids=mark.ids,
        draws=mark.draws,
        site=here(),
        chain=tape.next_chain,
    )
    return _like(value, tape.keep(entry).out)


_LEAST = 1e-6  # smaller steps of a cumulated sum are mostly its rounding; they count as this


def look_up(cumulated: Any, drawn: Any, value: Any) -> Any:
    """Places of uniform draws among cumulated weights: a choice by the steps between these."""
    mark, tape = mark_of(drawn), current()
    uniform = isinstance(mark, Draw) and mark.law == "uniform" and np.ndim(cumulated) == 1
    if not isinstance(mark, Draw) or tape is None or not uniform or not np.size(cumulated):
        note(mark)
        return value
    total = np.unique(mark.scale)
    if total.size != 1:
        return value
    ends = np.asarray(strip(cumulated), dtype=np.float64) / total[0]
    chances = np.maximum(np.diff(ends, prepend=0.0, append=1.0), _LEAST)
    return choose(tape, mark, chances, value)


_BINARY: dict[str, Callable[..., Any]] = {
    "add": _add,
    "subtract": _add,
    "multiply": _multiply,
    "divide": _multiply,
    "true_divide": _multiply,
    "copysign": _sign,
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal"), _compare),
}
_UNARY: dict[str, Callable[..., Any]] = {"negative": _negate, "positive": _negate}
PASSIVE = frozenset({"isfinite", "isnan", "isinf", "shape", "ndim", "size"})
# Where a draw meets other values before anything is added to it, it is taken as public.
PUBLIC = frozenset({"matmul", "dot", "einsum", "tensordot", "inner", "outer", "vdot", "kron"})


def reduce(ufunc: Any, array: Traced, kwargs: dict[str, Any]) -> Any:
    """A sum or another reduction; independent normal draws sum to one draw."""
    value = ufunc.reduce(strip(array), **kwargs)
    mark, tape = array.mark, current()
    if tape is None:
        return value
    if isinstance(mark, Draw) and ufunc is np.add:
        summed = add_draws(tape, mark, **kwargs)
        if summed is not None:
            return wrap(value, summed)
    note(mark)
    return value


def add_draws(tape: Tape, mark: Draw, **how: Any) -> Draw | None:
    """The sum of draws along an axis; None where they are not normal, or not independent."""
    if mark.law != "normal" or np.unique(mark.ids).size < mark.ids.size:
        return None
    squares = np.broadcast_to(mark.scale, mark.ids.shape) ** 2
    scale = np.asarray(np.sqrt(np.add.reduce(squares, **how)))
    return Draw("normal", scale, tape.new_ids(np.shape(scale)), mark.draws)
