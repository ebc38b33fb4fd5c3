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

from dpassay import _check
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

    def _one(self) -> Iterator[Pair]:
        for base in self._bases():
            for sign, way in ((1, "up"), (-1, "down")):
                for at in dict.fromkeys([0, self.n - 1]):
                    data = np.full(self.n, base)
                    moved = data.copy()
                    moved[at] += sign * self.by
                    yield Pair(f"answer {at} of {self.n} moves {way} from {base:g}", data, moved)

    def _all(self) -> Iterator[Pair]:
        middle, *others = sorted(self._bases(), key=lambda base: base != 1.0)
        yield from self._moved(middle, self._patterns())
        for height in (1.0, 2.0, 5.0):
            steps = np.where(np.arange(self.n) < (self.n + 1) // 2, height, 0.0) * self.by
            turned = steps - self.by * np.where(steps > 0, 1, -1)
            name = f"the first half at {height:g} moves down, the second at 0 up"
            yield Pair(name, steps, turned)
        for base in others:
            # Where the answers lie matters to thresholds, and less to how they move.
            few = [part for part in self._patterns() if part[0] in _TELLING]
            yield from self._moved(base, few)

    def _moved(self, base: float, patterns: Iterable[tuple[str, FloatArray]]) -> Iterator[Pair]:
        flat = np.full(self.n, base)
        for name, direction in patterns:
            yield Pair(f"{name}, from {base:g}", flat, flat + self.by * direction)

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
        far = self.high - self.low if self.by is None else self.by
        return [Pair(f"{a} and {b}", a, b) for a, b in distinct if 0 < b - a <= far]


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
        return _distinct(self._made(neighbouring))

    def _made(self, neighbouring: Neighbouring) -> Iterator[Pair]:
        rng, n = np.random.default_rng(0), neighbours.n_records(self.data)
        changes = [*neighbours.candidates(self.data, neighbouring, rng)]
        # Extremes show most, and a search with few trials may not come to the others.
        for other in sorted(changes, key=lambda change: "largest value" not in change.how):
            if not (other.finite and other.ordinary):
                continue
            yield Pair(f"{n} record(s), {_plain(other)}", self.data, other.data)
            for size in (size for size in _SMALL if size < n):
                base, changed = neighbours.cut(self.data, other, size)
                yield Pair(f"{size} record(s), {_plain(other)}", base, changed.data)


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
    try:
        if (
            kind == "vector"
            and len(plain) == 1
            and options.keys() <= {"low", "high", "moves", "by"}
        ):
            numbers = {
                name: float(options[name]) for name in options.keys() & {"low", "high", "by"}
            }
            moves: Any = options.get("moves", "one")
            return vector(int(plain[0]), moves=moves, **numbers)
        if kind == "value" and len(plain) == 2 and not options:
            return value(int(plain[0]), int(plain[1]))
    except ValueError:
        pass
    raise InvalidArgument(
        f"input={_check.shown(text)} must be like vector:10 or "
        "vector:10,moves=all,low=0,high=2,by=1 (answers to queries), or value:0,100 (one whole "
        "number)."
    )
