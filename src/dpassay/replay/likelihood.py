"""The replayed likelihood ratio: how much likelier the noisy values are with a record than without.

A mechanism is played on the data P; with all noisy values frozen it is replayed on the neighbour Q.
Every primitive then has two queries and one value, and

    L = sum over primitives of log p(value | query on P) - log p(value | query on Q)

is exact, whatever the code between them does. Batches drawn by Poisson coins of rate p are a
mixture over the coin of the record itself: a step contributes log((1 - p) + p e^l), where l is its
log ratio with the record in the batch against without it, which two more replays show. For a
replaced record the difference of two such terms is taken, each against the step without it.

Other records' coins are taken as known. That is what accountants prove for coins that are
independent over records and steps; for all other samplers it would be wrong, and is refused.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.replay import neighbours as nearby
from dpassay.replay.entries import Array, Coins, Edit, Entry
from dpassay.replay.neighbours import Neighbour
from dpassay.replay.obligations import calls, shapes
from dpassay.replay.playing import Played, Player
from dpassay.replay.prices import rounding_of
from dpassay.replay.tape import SAMPLERS, Tape, is_seed

ROUNDING = 1e-9
ROUNDING_SINGLE = 1e-5


class NoLikelihood(Exception):
    """The likelihood ratio is not known here; the message says why."""


@dataclass(frozen=True)
class Sides:
    """A pair of data sets for a test of P against Q.

    Attributes:
        data: P, which is played.
        other: Q, which is replayed.
        index: the record of P that differs.
        rest: both without that record; ``other`` itself if a record was added.
        replaced: whether Q has another record in its place.

    """

    data: Any
    other: Any
    index: int
    rest: Any
    replaced: bool

    @property
    def n(self) -> int:
        """The number of records of P."""
        return nearby.n_records(self.data)


def sides_of(data: Any, neighbour: Neighbour) -> Sides:
    """The sides of a pair: P is the one with the record, or the changed one."""
    edit = neighbour.edit
    if edit.kind == "add":
        return Sides(neighbour.data, data, edit.index, data, False)
    if edit.kind == "remove":
        return Sides(data, neighbour.data, edit.index, neighbour.data, False)
    if edit.kind == "replace":
        rest = nearby.take(data, [i for i in range(edit.n) if i != edit.index])
        return Sides(neighbour.data, data, edit.index, rest, True)
    raise NoLikelihood("the two data sets do not differ by one record that can be seen")


def log_ratio(
    player: Player, sides: Sides, seed: int, refuse: Callable[[Played], None] | None = None
) -> float:
    """One trial: log P/Q of the noisy values of a fresh execution on P, lowered by its rounding.

    ``refuse`` raises NoLikelihood for an execution whose noisy values are not published.
    """
    n, index = sides.n, sides.index
    first = player.record(sides.data, n, seed)
    _refuse_what_is_unknown(first.tape)
    if refuse is not None:
        refuse(first)
    if not _batches(first.tape):
        kind = "replace" if sides.replaced else "remove"
        other = n if sides.replaced else n - 1
        queries = _queries(_replay(player, first, sides.other, Edit(kind, index, n, other)))
        terms = [
            _term(entry, entry, queries[entry.number]) for entry in _visible_entries(first.tape)
        ]
        return _round_down(sum(terms), terms, first.tape)
    return _ratio_over_batches(player, sides, first)


def _ratio_over_batches(player: Player, sides: Sides, first: Played) -> float:
    """The ratio where the record is in a batch by a coin of its own."""
    n, index = sides.n, sides.index
    without = _queries(_replay(player, first, sides.rest, Edit("remove", index, n, n - 1)))
    inside = {"P": _queries(_replay(player, first, sides.data, Edit("same", -1, n, n), index))}
    if sides.replaced:
        edit = Edit("replace", index, n, n)
        inside["Q"] = _queries(_replay(player, first, sides.other, edit, index))
    _check_steps(first.tape, without, inside["P"], index)
    total, logs = 0.0, []
    for sign, queries in ((1, inside["P"]), (-1, inside.get("Q"))):
        if queries is None:
            continue
        for rate, entries in _steps(first.tape):
            terms = [_term(e, queries[e.number], without[e.number]) for e in entries]
            logs += terms
            total += sign * _mix(rate, sum(terms))
    return _round_down(total, logs, first.tape)


def _mix(rate: float | None, ratio: float) -> float:
    """log((1 - rate) + rate e^ratio); a step that all records enter has no rate."""
    if rate is None:
        return ratio
    return float(np.logaddexp(np.log1p(-rate), np.log(rate) + ratio))


def _replay(player: Player, first: Played, data: Any, edit: Edit, forced: int = -1) -> Played:
    played = player.replay(first, data, edit, forced=forced)
    if played.error is not None:
        raise NoLikelihood(f"the mechanism raises {played.error} on one side")
    broken = next(iter([*calls(played.tape), *shapes(played.tape)]), None)
    if broken is not None:
        raise NoLikelihood(f"the calls differ: {broken.text}")
    for then, now in zip(first.tape.coins, played.tape.coins, strict=False):
        batch = np.unique(then.rate).size == 1
        if batch and not np.array_equal(np.unique(then.rate), np.unique(now.rate)):
            raise NoLikelihood(f"the probability of the coins at {then.site} depends on the data")
    return played


def _queries(played: Played) -> dict[int, Entry]:
    """By the number of a primitive of the first tape, its counterpart on the other side."""
    return {then.number: now for then, now in played.tape.pairs()}


def _round_down(total: float, terms: Iterable[float], tape: Tape) -> float:
    # A larger ratio is evidence, so rounding may only lower it; at a pure claim's epsilon one unit
    # in the last place would be an infinite stake.
    single = any(rounding_of(entry)[0] > ROUNDING for entry in tape.entries)
    unit = ROUNDING_SINGLE if single else ROUNDING
    return float(total) - unit * (1.0 + float(sum(abs(term) for term in terms)))


# What is refused


def _refuse_what_is_unknown(tape: Tape) -> None:
    for draw in tape.draws:
        shape = np.shape(draw.value)
        if draw.law in SAMPLERS and (draw.settings == str(tape.n) or tape.n in shape):
            raise NoLikelihood(
                f"batches are drawn by a {draw.law} at {draw.site}: its coins depend on each other"
            )
        if draw.law in SAMPLERS and not is_seed(draw.value, int(draw.settings)):
            raise NoLikelihood(f"a {draw.law} at {draw.site} may hide which value is which")
    for draw in tape.lost:
        raise NoLikelihood(f"a {draw.law} draw at {draw.site} was not followed to what it protects")
    for entry in tape.entries:
        if entry.kind == "coin" and entry.axis is None:
            raise NoLikelihood(f"a coin at {entry.site} may be part of the protection")
        if entry.kind == "choice" and tape.n in entry.out.shape:
            raise NoLikelihood(f"records are allocated by a choice at {entry.site}")
    _refuse_reuse(tape)


def _refuse_reuse(tape: Tape) -> None:
    for entry in tape.find_entangled():
        raise NoLikelihood(f"the noise at {entry.site} is a sum of draws that others share")
    ids = [np.ravel(entry.ids) for entry in _visible_entries(tape)]
    every = np.concatenate([*ids, np.zeros(0, dtype=int)])
    if np.unique(every).size < every.size:
        raise NoLikelihood("one noise is used for more than one value")


def _batches(tape: Tape) -> list[Coins]:
    """Rows of coins with one constant rate: Poisson batches."""
    found = []
    for coins in tape.coins:
        rates = np.unique(coins.rate)
        if rates.size != 1:
            continue
        if coins.rows != 1:
            raise NoLikelihood(f"the coins of several batches are drawn at once at {coins.site}")
        if 0 < float(rates[0]) < 1:
            found.append(coins)
    return found


def is_batch(entry: Entry) -> bool:
    """Whether a row of coins, one per record, draws a batch."""
    return entry.kind == "coin" and entry.axis is not None and np.unique(entry.query).size == 1


def _visible_entries(tape: Tape) -> list[Entry]:
    """The primitives whose values are seen; coins that draw a batch are no answers."""
    return [entry for entry in tape.entries if entry.counts and not is_batch(entry)]


def _steps(tape: Tape) -> list[tuple[float | None, list[Entry]]]:
    """The primitives of every batch with its rate; those that no batch precedes stand alone."""
    groups: dict[Any, list[Entry]] = {}
    for entry in _visible_entries(tape):
        number = entry.sampled
        coins = None if number is None else tape.coins[number]
        alone = coins is None or np.unique(coins.rate).size != 1
        key = (None, entry.number) if alone else (number, entry.step)
        groups.setdefault(key, []).append(entry)
    found: list[tuple[float | None, list[Entry]]] = []
    for (number, _), entries in groups.items():
        rate = None if number is None else float(np.unique(tape.coins[number].rate)[0])
        found.append((rate if rate is None or rate < 1 else None, entries))
    return found


def _check_steps(tape: Tape, without: Any, inside: Any, index: int) -> None:
    """Every step depends on the record through the coin of its own batch alone."""
    for entry in _visible_entries(tape):
        if entry.sampled is None:
            continue
        if entry.step is None and tape.count_drawn_ahead(entry) > 1:
            raise NoLikelihood(f"several batches are drawn before the noise at {entry.site}")
        coin = bool(np.ravel(tape.coins[entry.sampled].taken)[index])
        expected = (inside if coin else without)[entry.number].query
        move, query = rounding_of(entry)
        slack = max(move, 1e-7) * np.abs(expected) + query * (1 + np.max(np.abs(expected)))
        if expected.shape != entry.query.shape or np.any(np.abs(entry.query - expected) > slack):
            raise NoLikelihood(
                f"the step at {entry.site} depends on more than the coin of its batch"
            )


# One primitive


def _term(value: Entry, left: Entry, right: Entry) -> float:
    """Log p(value | left) - log p(value | right)."""
    if left.query.shape != right.query.shape:
        raise NoLikelihood(f"the shape of the noisy value at {value.site} differs")
    if value.kind in ("coin", "choice"):
        return _PROBABILITIES[value.kind](value, left.query, right.query)
    uses = {*value.uses, *left.uses, *right.uses}
    name = value.law
    if uses == {"argmax"} and value.law == "gumbel" and not value.lowest:
        name = "gumbel argmax"
    elif value.kind != "add" or not uses <= {"value"}:
        name = ""
    if name not in _DENSITIES:
        raise NoLikelihood(f"the likelihood of the noisy values at {value.site} is not known")
    with np.errstate(all="ignore"):
        found = _DENSITIES[name](value.out.astype(np.float64), left, right)
    return -np.inf if np.isnan(found) else float(found)


def _normal(y: Array, left: Entry, right: Entry) -> Any:
    a, b = (y - left.query) / left.scale, (y - right.query) / right.scale
    return np.sum(np.log(right.scale / left.scale) + (b**2 - a**2) / 2)


def _laplace(y: Array, left: Entry, right: Entry) -> Any:
    a, b = np.abs(y - left.query) / left.scale, np.abs(y - right.query) / right.scale
    return np.sum(np.log(right.scale / left.scale) + b - a)


def _geometric(y: Array, left: Entry, right: Entry) -> Any:
    """P(k) = tanh(1 / 2s) e^(-|k| / s) with s the scale."""
    weights = np.log(np.tanh(0.5 / left.scale)) - np.log(np.tanh(0.5 / right.scale))
    a, b = np.abs(y - left.query) / left.scale, np.abs(y - right.query) / right.scale
    return np.sum(weights + b - a)


def _gumbel_argmax(y: Array, left: Entry, right: Entry) -> Any:
    winner = int(np.argmax(y))

    def log_chance(entry: Entry) -> Any:
        scores = np.ravel(entry.query / entry.scale)
        return scores[winner] - np.logaddexp.reduce(scores)

    return log_chance(left) - log_chance(right)


def _coin(value: Entry, p: Array, q: Array) -> float:
    with np.errstate(divide="ignore"):
        up, down = np.log(p) - np.log(q), np.log1p(-p) - np.log1p(-q)
    return float(np.sum(np.where(value.out.astype(bool), up, down)))


def _choice(value: Entry, p: Array, q: Array) -> float:
    if value.out.size != 1:
        raise NoLikelihood(f"several are chosen at once at {value.site}")
    chosen = int(value.out.item())
    with np.errstate(divide="ignore"):
        return float(np.log(float(p[chosen])) - np.log(float(q[chosen])))


_DENSITIES: dict[str, Callable[..., Any]] = {
    "normal": _normal,
    "laplace": _laplace,
    "two-sided geometric": _geometric,
    "gumbel argmax": _gumbel_argmax,
}
_PROBABILITIES = {"coin": _coin, "choice": _choice}
