"""Answers that are randomized by coins of a public probability: randomized response.

Such a coin is frozen like all else, so that the answer of the changed record differs, although the
coin protects it. So the coin of that record is turned too, on D and on D'. If D releases a with
chance p and b with chance 1 - p, and D' releases a' and b', then the answer costs
max |log P(v) / P'(v)| over the values v that are released on either side. The coins of all other
records are as they were, so this is the price of an answer that is published by itself; where only
a sum of answers is published, it is an upper bound.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpassay.replay import obligations
from dpassay.replay.entries import Array, Entry
from dpassay.replay.outputs import first_difference, numbers_of
from dpassay.replay.playing import Played, Player
from dpassay.replay.sites import Place
from dpassay.replay.tape import Tape

_OTHERS = 2  # coins of other records that are turned


@dataclass(frozen=True)
class Answer:
    """What the answer of one record costs.

    Attributes:
        entry: the coin, on D'.
        epsilon: its price, infinite where one side releases what the other never does.
        alone: whether the answers of other records are seen apart from it in the release.

    """

    entry: Entry
    epsilon: float
    alone: bool


def price_answer(player: Player, first: Played, played: Played, data: object) -> Answer | None:
    """The price of the one coin of the record that was replaced; None where there is no such coin.

    Args:
        player: plays D and D' again.
        first: the execution on D.
        played: that on D'.
        data: D'.

    """
    edit = played.tape.edit
    if edit is None or edit.kind != "replace":
        return None
    found = _coin_of(first.tape, edit.index)
    coins = obligations.public_coins(played.tape)
    if found is None or not coins or found[0].number >= len(played.tape.entries):
        return None
    entry, place = found
    turned = _turn(entry, place)
    others = [
        player.replay_shifted(first, turned),
        player.replay(first, data, edit, shifts=turned),
    ]
    if any(other.error is not None for other in others):
        return None
    p = float(np.broadcast_to(entry.query, entry.out.shape).ravel()[place])
    chance = p if bool(entry.out.ravel()[place]) else 1 - p
    epsilon = _worst_ratio([(first, chance), (others[0], 1 - chance)],
                           [(played, chance), (others[1], 1 - chance)])  # fmt: skip
    alone = _is_alone(player, first, others[0], entry, edit.index)
    return Answer(played.tape.entries[entry.number], epsilon, alone)


def _coin_of(tape: Tape, record: int) -> tuple[Entry, int] | None:
    """The one coin of a record: of a row with an entry for each, or of as many calls of a line."""
    coins = [entry for entry in tape.entries if entry.kind == "coin"]
    n = tape.n or 0
    rows = [entry for entry in coins if entry.out.shape == (n,)]
    calls: dict[Place, list[Entry]] = {}
    for entry in coins:
        if entry.out.size == 1 and n > 1:
            calls.setdefault(entry.site.exact, []).append(entry)
    if len(rows) == len(coins) == 1:
        return rows[0], record
    if not rows and len(calls) == 1 and len(coins) == n:
        return coins[record], 0
    return None


def _turn(entry: Entry, place: int) -> dict[int, Array]:
    """The change that turns one coin of a primitive."""
    turned = np.where(entry.out.ravel(), -1.0, 1.0)
    only = np.where(np.arange(turned.size) == place, turned, 0.0)
    return {entry.number: only.reshape(entry.out.shape)}


def _worst_ratio(left: list[tuple[Played, float]], right: list[tuple[Played, float]]) -> float:
    """The largest |log P / P'| of what is released on either side."""
    worst = 0.0
    for one, _ in (*left, *right):
        p, q = (math.fsum(chance for other, chance in side if _is_same(one, other))
                for side in (left, right))  # fmt: skip
        if p != q:
            worst = max(worst, abs(math.log(p / q)) if p > 0 and q > 0 else math.inf)
    return worst


def _is_same(one: Played, other: Played) -> bool:
    return first_difference(one.output, other.output) is None


def _is_alone(player: Player, first: Played, turned: Played, entry: Entry, record: int) -> bool:
    """Whether turning the coins of other records too never brings the first release back.

    In a sum of answers it does, where one of them goes up and another one down.
    """
    before, after = (_numbers(part) for part in (first, turned))
    if before.shape != after.shape:
        return False
    mine = before != after
    for other in _other_records(first.tape, record):
        found = _coin_of(first.tape, other)
        if found is None:
            return False
        played = player.replay_shifted(first, _turn(*found))
        now = _numbers(played)
        if played.error is not None or now.shape != before.shape or np.any((now != before) & mine):
            return False
    return bool(mine.any())


def _numbers(played: Played) -> Array:
    return np.array(numbers_of(played.output))


def _other_records(tape: Tape, record: int) -> Iterable[int]:
    n = tape.n or 0
    return [i for i in range(n) if i != record][:_OTHERS]
