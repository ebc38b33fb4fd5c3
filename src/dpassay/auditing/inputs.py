"""Descriptions of what a mechanism may be given, from which neighbouring pairs are made.

A user seldom knows the pair of data sets on which a mechanism leaks most. A description says what
an input looks like and what a neighbour of it is; it then makes pairs by patterns that have shown
bugs before: extremes, equal entries, halves that move in opposite directions, empty and small
tables, duplicates. :mod:`dpassay.auditing.pairs` finds out which of them shows most.

Pairs come in the order in which they should be tried, and have names without values of records.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from dpassay import _check, _records
from dpassay.auditing.input_pairs import Input, Pair
from dpassay.auditing.table_inputs import Schema, Tables
from dpassay.errors import InvalidArgument
from dpassay.replay import neighbours
from dpassay.types import FloatArray, Neighbouring

Moves = Literal["one", "all"]
_BASES = (0.0, 1.0, 5.0, 10.0, -5.0)
_DOWN, _UP, _APART = "all answers move down", "all answers move up", "halves move apart"
_TELLING = (_DOWN, _UP, _APART)
_RANDOM_VALUES = 16
_SMALL = (1, 2, 10)  # records of the smaller tables that are tried


def vector(
    n: int,
    *,
    low: float | None = None,
    high: float | None = None,
    moves: Moves = "one",
    by: float = 1.0,
) -> "Vector":
    """Answers to n queries, the input of mechanisms that add noise to them or choose among them.

    Args:
        n: how many.
        low: the smallest possible answer; None if there is none.
        high: the largest.
        moves: what one record can do: move "one" answer (a histogram) or "all" of them.
        by: how far a record moves an answer at most.

    >>> [pair.name for pair in vector(2, low=0, high=1).pairs("add-remove")]
    ['answer 0 of 2 moves up from 0', 'answer 1 of 2 moves up from 0', \
'answer 0 of 2 moves down from 1', 'answer 1 of 2 moves down from 1']

    """
    n = _check.count("n", n, low=1, remedy="It is the number of answers.")
    by = _check.number("by", by, low=0, low_open=True)
    bottom = -np.inf if low is None else _check.number("low", low)
    top = np.inf if high is None else _check.number("high", high)
    if not bottom < top:
        raise InvalidArgument(f"low={low!r} must be below high={high!r}.")
    _check.choice("moves", moves, ("one", "all"))
    return Vector(n, bottom, top, moves, by)


@dataclass(frozen=True)
class Vector:
    """Answers to queries; see :func:`vector`."""

    n: int
    low: float
    high: float
    moves: Moves
    by: float
    trusted: bool = True

    def pairs(self, neighbouring: Neighbouring) -> list[Pair]:
        """Neighbouring vectors; the relation is the vector's own."""
        made = self._one() if self.moves == "one" else self._all()
        return _distinct(pair for pair in made if self._fits(pair))

    def _fits(self, pair: Pair) -> bool:
        both = np.concatenate([pair.data, pair.data_prime])
        return bool((both >= self.low).all() and (both <= self.high).all())

    def _bases(self) -> list[float]:
        ends = [end for end in (self.low, self.high) if np.isfinite(end)]
        inside = [base for base in _BASES if self.low <= base <= self.high]
        return list(dict.fromkeys([*inside, *ends]))

    def _pair(self, name: str, data: FloatArray, moved: FloatArray) -> Pair:
        return Pair(
            name,
            data,
            moved,
            simpler=lambda: self._simpler(data, moved),
            nearby=lambda: self._nearby(data, moved),
        )

    def _one(self) -> Iterator[Pair]:
        for base in self._bases():
            for sign in (1, -1):
                for at in dict.fromkeys([0, self.n - 1]):
                    data = np.full(self.n, base)
                    moved = data.copy()
                    moved[at] += sign * self.by
                    yield self._pair(_describe_moves(data, moved), data, moved)

    def _all(self) -> Iterator[Pair]:
        middle, *others = sorted(self._bases(), key=lambda base: base != 1.0)
        yield from self._move_all(middle, self._patterns())
        for height in (1.0, 2.0, 5.0):
            steps = np.where(np.arange(self.n) < (self.n + 1) // 2, height, 0.0) * self.by
            turned = steps - self.by * np.where(steps > 0, 1, -1)
            name = f"the first half at {height:g} moves down, the second at 0 up"
            yield self._pair(name, steps, turned)
        for base in others:
            # Where the answers lie matters to thresholds, and less to how they move.
            few = [part for part in self._patterns() if part[0] in _TELLING]
            yield from self._move_all(base, few)

    def _move_all(self, base: float, patterns: Iterable[tuple[str, FloatArray]]) -> Iterator[Pair]:
        flat = np.full(self.n, base)
        for name, direction in patterns:
            yield self._pair(f"{name}, from {base:g}", flat, flat + self.by * direction)

    def _patterns(self) -> Iterator[tuple[str, FloatArray]]:
        ones, number = np.ones(self.n), np.arange(self.n)
        yield _DOWN, -ones
        yield _UP, ones
        if self.n == 1:
            return
        yield "the first answer moves up, the others down", np.where(number == 0, 1.0, -1.0)
        yield "the last answer moves up, the others down", np.where(number == self.n - 1, 1.0, -1.0)
        yield "the first answer moves down", -1.0 * (number == 0)
        yield "the last answer moves down", -1.0 * (number == self.n - 1)
        yield _APART, np.where(number < (self.n + 1) // 2, 1.0, -1.0)
        yield "every second answer moves up, the others down", np.where(number % 2 == 0, 1.0, -1.0)

    def _simpler(self, data: FloatArray, moved: FloatArray) -> list[Pair]:
        """One answer that moves, or half of those that do; equal answers, at a small number."""
        by, at = self._steps(data, moved), np.flatnonzero(moved != data)
        half = (at.size + 1) // 2
        made: list[tuple[FloatArray, FloatArray]] = []
        for kept in (at[:1], at[-1:], at[:half], at[half:], at):
            few = np.zeros(self.n)
            few[kept] = by[kept]
            flat = (np.full(self.n, base) for base in sorted(self._bases(), key=abs)[:2])
            made += [(base, base + few) for base in (*flat, data)]
        less = [pair for pair in made if _complexity(*pair) < _complexity(data, moved)]
        less.sort(key=lambda pair: _complexity(*pair))
        return self._name_pairs(less)

    def _steps(self, data: FloatArray, moved: FloatArray) -> FloatArray:
        """How far each answer moves, the same wherever it moves from: 5.1 - 5 is not 0.1."""
        return np.round((moved - data) / self.by, 9) * self.by

    def _nearby(self, data: FloatArray, moved: FloatArray) -> list[Pair]:
        """The answers shifted, doubled, or moved half as far."""
        by = self._steps(data, moved)
        shifted = [(data + step, data + step + by) for step in (self.by, -self.by)]
        half = (data, data + by / 2)
        doubled = [(2 * data, 2 * data + by)] if np.any(data) else []
        return self._name_pairs([*shifted, *doubled, half])

    def _name_pairs(self, made: Iterable[tuple[FloatArray, FloatArray]]) -> list[Pair]:
        pairs = (self._pair(_describe_moves(*pair), *pair) for pair in made)
        return _distinct(pair for pair in pairs if self._fits(pair))


def _complexity(data: FloatArray, moved: FloatArray) -> tuple[int, int, float, int]:
    """How much there is to say of a pair of vectors: what moves, from where, and which answer."""
    at = np.flatnonzero(data != moved)
    levels = np.unique(data)
    return at.size, levels.size, float(np.abs(levels).sum()), int(at[0]) if at.size else 0


def _describe_moves(data: FloatArray, moved: FloatArray) -> str:
    """A pair of vectors in words; two pairs have two names."""
    by = np.round(moved - data, 9)
    full = float(np.abs(by).max())
    ways = [
        (f"{_list_answers(np.flatnonzero(sign * by == size), data.size)} {way}", size)
        for sign, way in ((1, "up"), (-1, "down"))
        for size in np.unique(np.abs(by[sign * by > 0]))
    ]
    text = ", ".join(words if size == full else f"{words} by {size:g}" for words, size in ways)
    flat = np.all(data == data[0])
    start = f"{data[0]:g}" if flat else "(" + ", ".join(f"{x:g}" for x in data) + ")"
    return f"{text} from {start}" + ("" if full == 1 else f", by {full:g}")


def _list_answers(at: FloatArray, n: int) -> str:
    if at.size == 1:
        return f"answer {at[0]} of {n} moves"
    return f"answers {', '.join(map(str, at))} of {n} move"


def value(low: int = 0, high: int = 1000, *, by: int | None = None) -> "Value":
    """One whole number or category code.

    Args:
        low: the smallest.
        high: the largest.
        by: how far a record moves it at most; None makes any two values neighbours, as in local
            privacy.

    """
    low = _check.count("low", low, low=-(2**53))
    high = _check.count("high", high, low=low + 1, remedy="It must be above low.")
    return Value(low, high, None if by is None else _check.count("by", by, low=1))


@dataclass(frozen=True)
class Value:
    """A whole number; see :func:`value`."""

    low: int
    high: int
    by: int | None
    trusted: bool = True

    def pairs(self, neighbouring: Neighbouring) -> list[Pair]:
        """Consecutive values first, then the extremes and some at random."""
        step = 1 if self.by is None else self.by
        starts = range(self.low, min(self.low + 5, self.high - step + 1))
        near = [(a, a + step) for a in starts]
        # Hashes treat values in no order: which of them are far apart is found by trying.
        shape = (_RANDOM_VALUES, 2)
        drawn = np.random.default_rng(0).integers(self.low, self.high, shape, endpoint=True)
        chosen = [*near, (self.low, self.high), *((int(a), int(b)) for a, b in drawn)]
        distinct = dict.fromkeys((min(ab), max(ab)) for ab in chosen)
        return self._name_pairs(distinct)

    def _name_pairs(self, made: Iterable[tuple[int, int]]) -> list[Pair]:
        far = self.high - self.low if self.by is None else self.by
        inside = [(a, b) for a, b in made if self.low <= a and b <= self.high and 0 < b - a <= far]
        return [self._pair(*ab) for ab in dict.fromkeys(inside)]

    def _pair(self, a: int, b: int) -> Pair:
        step = 1 if self.by is None else self.by
        smaller = [(self.low, self.low + step), (self.low, b), (a, a + step)]
        return Pair(
            f"{a} and {b}",
            a,
            b,
            simpler=lambda: self._name_pairs(
                ab for ab in smaller if (ab[1] - ab[0], ab) < (b - a, (a, b))
            ),
            nearby=lambda: self._name_pairs(
                [(a + 1, b + 1), (a - 1, b - 1), (a, b + 1), (a - 1, b)]
            ),
        )


@dataclass(frozen=True, eq=False)
class Records:
    """A data set whose records can be seen: rows of an array or frame, entries of a list, (X, y).

    Neighbours are made in the claim's relation, within the range of the values that occur: a record
    added at an extreme, doubled, taken out or replaced, on the data and on its first few records.
    """

    data: Any
    trusted: bool = False

    def pairs(self, neighbouring: Neighbouring) -> list[Pair]:
        """Neighbouring data sets: every way to change a record, on few records and on all."""
        return _distinct(self._make(neighbouring))

    def _make(self, neighbouring: Neighbouring) -> Iterator[Pair]:
        rng, n = np.random.default_rng(0), neighbours.n_records(self.data)
        changes = [*neighbours.candidates(self.data, neighbouring, rng)]
        # Extremes show most, and a search with few trials may not come to the others.
        for other in sorted(changes, key=lambda change: "largest value" not in change.how):
            if not (other.finite and other.ordinary):
                continue
            for size in (n, *(size for size in _SMALL if size < n)):
                yield self._pair(other, size, n)

    def _pair(self, other: neighbours.Neighbour, size: int, n: int) -> Pair:
        """The first records with a change, so many of them; more than there are come twice."""
        rows = [*range(n)] * (size // n + 1)
        whole = self.data if size <= n else _records.take(self.data, rows)
        base, changed = (self.data, other) if size == n else neighbours.cut(whole, other, size)
        twice = [min(2 * size, n)] if size < n else [2 * size] * (other.edit.kind == "add")

        def of_size(sizes: Iterable[int]) -> list[Pair]:
            return [self._pair(other, one, n) for one in sizes]

        return Pair(
            f"{size} record(s), {_plain(other)}",
            base,
            changed.data,
            simpler=lambda: of_size(_sizes_below(size)),
            nearby=lambda: of_size(twice),
        )


def _sizes_below(n: int) -> list[int]:
    """Numbers of records that a pair of n is shrunk to, the smallest first."""
    return [size for size in sorted({1, 2, 5, n // 8, n // 4, n // 2}) if 0 < size < n]


def _plain(neighbour: neighbours.Neighbour) -> str:
    verb = {"add": "one more", "remove": "one less", "replace": "one replaced"}
    return f"{verb.get(neighbour.edit.kind, 'one changed')} ({neighbour.how})"


def _distinct(pairs: Iterator[Pair]) -> list[Pair]:
    """Pairs of different data sets, each only once and in one order only."""
    seen: set[frozenset[str]] = set()
    kept: list[Pair] = []
    for pair in pairs:
        keys = frozenset((_fingerprint(pair.data), _fingerprint(pair.data_prime)))
        if len(keys) == 2 and keys not in seen:
            seen.add(keys)
            kept.append(pair)
    return kept


def _fingerprint(data: Any) -> str:
    parts = cast(tuple[Any, ...], data) if isinstance(data, tuple) else (data,)
    return "|".join(f"{np.shape(part)}{np.asarray(part).tolist()!r}" for part in parts)


def as_input(data: Any) -> Input:
    """The description of an input: itself, the tables of a schema, or the records of a data set.

    Raises:
        InvalidArgument: data whose records cannot be seen.

    """
    if isinstance(data, Input):
        return data
    if isinstance(data, Schema):
        return Tables(data)
    if neighbours.n_records(data) < 1:
        raise InvalidArgument("data has no records; pass at least one, or dpassay.inputs.vector().")
    return Records(data)


def parse_input(text: str) -> Input:
    """An input from the command line: ``vector:10``, ``vector:10,moves=all,low=0,high=2``.

    Raises:
        InvalidArgument: a text that says no input.

    """
    kind, _, rest = text.partition(":")
    parts = [part.strip() for part in rest.split(",") if part.strip()]
    options = dict(part.split("=", 1) for part in parts if "=" in part)
    plain = [part for part in parts if "=" not in part]
    moves: Any = options.pop("moves", "one")
    try:
        whole, numbers = [int(part) for part in plain], {k: float(v) for k, v in options.items()}
    except ValueError:
        raise InvalidArgument(_like(text)) from None
    if kind == "vector" and len(whole) == 1 and numbers.keys() <= {"low", "high", "by"}:
        return vector(whole[0], moves=moves, **numbers)
    if kind == "value" and len(whole) == 2 and not options:
        return value(*whole)
    raise InvalidArgument(_like(text))


def _like(text: str) -> str:
    return (
        f"input={_check.shown(text)} must be like vector:10 or "
        "vector:10,moves=all,low=0,high=2,by=1 (answers to queries), or value:0,100 (one whole "
        "number)."
    )
