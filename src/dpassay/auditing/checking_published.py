"""Whether noisy values are published: each as it is, or as the steps of a training.

The ratio of all noisy values is that of the release only if the release shows each of them. Values
that are summed, rounded, clipped or dropped on the way cost less, and a true claim about what is
left of them would seem false. So a value counts as published only where that is seen:

- the release holds it as it is, also where it is another, far to either side;
- it is a step of a training, which is claimed for all steps together: later queries are made of
  what it changes, and no other value of the same step changes the same numbers of the release;
- of a selection, two other winners lead to two other releases.

All else is refused, which says nothing about the claim.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dpassay.replay import obligations, prices
from dpassay.replay.entries import Array, Entry
from dpassay.replay.likelihood import NoLikelihood, is_batch
from dpassay.replay.outputs import first_difference, numbers_of
from dpassay.replay.playing import Played, Player
from dpassay.replay.sites import Place
from dpassay.replay.tape import Tape

_FAR = (32.0, -32.0)  # in units of the noise: on either side of what a later step may clip to
_NEAR = 3.0
_PARTS = 8  # values of one step that are tried one by one: the tensors of a small model
_SAME = 1e-9
_ANEW = 4
_COUPLES = 2


Spots = dict[tuple[int, int], set[int]]
"""By chain and place of a noisy value: where the numbers of the release hold it."""


@dataclass
class Publication:
    """How an execution publishes its noisy values; the next ones must publish them alike.

    Attributes:
        spots: where in the release each of them may stand, as far as executions have shown.
        steps: calls whose values are steps of a training.

    """

    spots: Spots
    steps: frozenset[Place] = frozenset()

    def compare(self, played: Played) -> None:
        """Refuse an execution whose noisy values are not where those before stood."""
        found = find_spots(played)
        for entry in filter(_is_plain, played.tape.entries):
            if entry.site.exact in self.steps:
                continue
            for key in _keys(entry):
                self.spots[key] = self.spots.get(key, set()) & found[key]
                if not self.spots[key]:
                    raise _not_published(entry)


def examine(player: Player, first: Played) -> Publication:
    """How an execution on D publishes its noisy values.

    Args:
        player: plays D again, with other noisy values.
        first: the execution on D.

    Raises:
        NoLikelihood: some noisy values are not seen to be published.

    """
    counted = [e for e in first.tape.entries if e.counts and not is_batch(e)]
    spots = find_spots(first)
    added = [entry for entry in counted if _is_plain(entry)]
    shown = [entry for entry in added if all(spots[key] for key in _keys(entry))]
    found = Publication({key: spots[key] for entry in shown for key in _keys(entry)})
    _refuse_unsteady(player, first, shown, found)
    _refuse_hidden_selections(player, first, [entry for entry in counted if _selects(entry)])
    _refuse_merged_coins(player, first, [entry for entry in counted if entry.kind == "coin"])
    rest = [entry for entry in added if entry not in shown]
    return replace(found, steps=_steps_of_a_training(player, first, rest))


def find_shown(played: Played) -> set[int]:
    """The primitives of an execution all of whose values are in the release, as they are."""
    spots = find_spots(played)
    sums = filter(_is_plain, played.tape.entries)
    return {entry.number for entry in sums if all(spots[key] for key in _keys(entry))}


def find_spots(played: Played) -> Spots:
    """Where the release holds each noisy value of an execution, as it is or times a number."""
    at: dict[float, set[int]] = {}
    for i, number in enumerate(numbers_of(played.output)):
        at.setdefault(number, set()).add(i)
    found: Spots = {}
    for entry in filter(_is_plain, played.tape.entries):
        values = entry.out.astype(np.float64)
        if entry.released.shape == values.shape:
            values = np.where(np.isnan(entry.released), values, entry.released)
        for key, value in zip(_keys(entry), values.ravel().tolist(), strict=True):
            found[key] = at.get(value, set())
    return found


def _keys(entry: Entry) -> list[tuple[int, int]]:
    return [(entry.chain, place) for place in range(entry.out.size)]


def _is_plain(entry: Entry) -> bool:
    """Whether noise was added to a query, and the sum is no mere score of a selection."""
    return prices.is_sum(entry) and not _selects(entry)


def _not_published(entry: Entry) -> NoLikelihood:
    return NoLikelihood(f"the noisy values of {entry.site} are not published as they are")


def _selects(entry: Entry) -> bool:
    """Whether one of several was chosen, by given chances or as the largest noisy value."""
    return entry.kind == "choice" or (entry.kind == "add" and {*entry.uses} == {"argmax"})


# Playing D with other values


def _replay(player: Player, first: Played, changes: Mapping[int, Array], entry: Entry) -> Played:
    if entry.stated is not None or entry.shown is not None:
        raise _not_published(entry)
    played = player.replay_shifted(first, changes)
    if played.error is not None:
        raise _not_published(entry)
    return played


def _move(entries: Iterable[Entry], far: float, where: Array | None = None) -> dict[int, Array]:
    """Changes of all values of some primitives, or in some places of one."""
    made: dict[int, Array] = {}
    for entry in entries:
        whole = entry.out.dtype.kind in "iu"
        by = np.rint(far * (1 + entry.scale)) if whole else far * entry.scale
        made[entry.number] = by if where is None else np.where(where, by, 0.0)
    return made


def _find_changes(first: Played, played: Played) -> set[int] | None:
    """The places of the numbers of the release that differ, None where that cannot be told."""
    then, now = (np.array(numbers_of(part.output)) for part in (first, played))
    if then.shape != now.shape:
        return None
    found = {*np.flatnonzero(~((then == now) | (np.isnan(then) & np.isnan(now)))).tolist()}
    return None if not found and first_difference(first.output, played.output) else found


def _find_moved_queries(tape: Tape) -> set[int]:
    """The primitives of D whose query is another one on this replay."""
    return {
        then.number
        for then, now in tape.pairs()
        if then.query.shape != now.query.shape
        or not np.array_equal(then.query, now.query, equal_nan=True)
    }


# What is refused


def _refuse_unsteady(player: Player, first: Played, shown: list[Entry], found: Publication) -> None:
    """Refuse values that some range alone shows, such as clipped ones, or no fixed place: sorted.

    The order of all of them is turned round, on either side of where they were; values that a
    library keeps to itself are drawn anew instead.
    """
    own = [entry for entry in shown if entry.stated is None and entry.shown is None]
    for far in _FAR if own else ():
        played = _replay(player, first, _turn_around(own, far), own[0])
        if next(obligations.calls(played.tape), None) is not None:
            raise _not_published(own[0])
        found.compare(played)
    for i in range(_ANEW if len(own) < len(shown) else 0):
        found.compare(player.record(first.data, first.tape.n, player.seed + 11 + i))


def _turn_around(entries: list[Entry], far: float) -> dict[int, Array]:
    """Changes after which the largest value is the smallest, and all are far from where they were.

    The steps between them are as large as the widest noise and the range of the values.
    """
    values = np.concatenate([entry.out.ravel().astype(np.float64) for entry in entries])
    scale = max(float(np.max(entry.scale)) for entry in entries)
    step = np.sign(far) * np.ceil(abs(far) * (1 + scale) + np.ptp(values))
    rank = np.empty(values.size)
    rank[np.argsort(values)] = np.arange(values.size)
    by = step * (values.size - rank if far > 0 else 1 + rank)
    parts = np.split(by, np.cumsum([entry.out.size for entry in entries])[:-1])
    return {e.number: part.reshape(e.out.shape) for e, part in zip(entries, parts, strict=True)}


def _refuse_hidden_selections(player: Player, first: Played, selected: list[Entry]) -> None:
    """Refuse selections of which two outcomes lead to the same release."""
    for entry in {entry.site.exact: entry for entry in reversed(selected)}.values():
        played = [first, *(_replay(player, first, change, entry) for change in _others(entry))]
        for i, one in enumerate(played):
            if any(_is_same(one, other) for other in played[i + 1 :]):
                raise NoLikelihood(f"what is selected at {entry.site} is not seen in the release")


def _others(entry: Entry) -> list[dict[int, Array]]:
    """Changes that let one of two others win."""
    if entry.kind == "choice":
        size = entry.query.shape[-1]
        wins = [(entry.out + by) % size - entry.out for by in range(1, min(size, 3))]
        return [{entry.number: np.asarray(win)} for win in wins]
    flat = entry.out.ravel()
    won = int(np.argmin(flat) if entry.lowest else np.argmax(flat))
    by = (1.0 + float(np.ptp(flat))) * (-2 if entry.lowest else 2)
    places = [(won + i) % flat.size for i in range(1, min(flat.size, 3))]
    made = [np.where(np.arange(flat.size) == at, by, 0.0) for at in places]
    return [{entry.number: part.reshape(entry.out.shape)} for part in made]


def _is_same(one: Played, other: Played) -> bool:
    """Whether two executions release the same and add noise to the same queries."""
    if first_difference(one.output, other.output) is not None:
        return False
    left, right = one.tape.entries, other.tape.entries
    return len(left) == len(right) and all(
        a.site == b.site and np.array_equal(a.query, b.query, equal_nan=True)
        for a, b in zip(left, right, strict=True)
    )


def _refuse_merged_coins(player: Player, first: Played, tossed: list[Entry]) -> None:
    """Refuse answers by coins of which only a sum, say, is published."""
    for entry in {entry.site.exact: entry for entry in reversed(tossed)}.values():
        flips = np.where(entry.out, -1, 1)
        changes: list[set[int]] = []
        for place in range(min(entry.out.size, 2)):
            alone = np.arange(entry.out.size).reshape(entry.out.shape) == place
            played = _replay(player, first, {entry.number: np.where(alone, flips, 0)}, entry)
            changes.append(_find_changes(first, played) or set())
        if not all(changes) or (len(changes) > 1 and changes[0] & changes[1]):
            raise NoLikelihood(f"the coins of {entry.site} are not published as they are")


def _steps_of_a_training(player: Player, first: Played, rest: list[Entry]) -> frozenset[Place]:
    """The calls of values that are not published, if these are the steps of a training."""
    left: list[Entry] = list(rest)
    later: set[Place] = set()
    for _ in range(_PARTS):
        if not left:
            return frozenset(later)
        one = left[0]
        own, moved = _try_alone(player, first, one)
        later |= {entry.site.exact for entry in rest if entry.number in moved}
        left = [e for e in left[1:] if e.number not in moved and _is_beside(e, one, later)]
        if one.site.exact not in later:
            raise _not_published(one)
        if left:
            others = _find_changes(first, _replay(player, first, _move(left, _NEAR), left[0]))
            if others is None or others & own:
                raise _not_published(one)
    raise _not_published(rest[0])


def _is_beside(entry: Entry, one: Entry, later: set[Place]) -> bool:
    """Whether a value may belong to the same step: not to another batch of the same training.

    The query of a batch that happens to be empty does not move with what came before.
    """
    batch = (entry.sampled, entry.step) != (one.sampled, one.step)
    return not (batch and entry.site.exact in later)


def _try_alone(player: Player, first: Played, entry: Entry) -> tuple[set[int], set[int]]:
    """Which numbers of the release, and which later queries, one value changes."""
    size = entry.out.size
    half = np.arange(size).reshape(entry.out.shape) < (size + 1) // 2
    found: list[set[int]] = []
    moved: set[int] = set()
    for where in (half, ~half)[: min(size, 2)]:
        played = _replay(player, first, _move([entry], _NEAR, where), entry)
        if next(obligations.calls(played.tape), None) is not None:
            raise _not_published(entry)
        found.append(_find_changes(first, played) or set())
        moved |= _find_moved_queries(played.tape)
    if not all(found) or (len(found) > 1 and found[0] & found[1]):
        raise _not_published(entry)
    return set[int]().union(*found), moved - {entry.number}


# What a price must not be held against


def find_summed(player: Player, first: Played, entries: list[Entry]) -> Entry | None:
    """A noisy value that only enters a weighted sum with another one; None if none was found.

    Its noise alone is not what protects the sum: shares of noise are added by several parties, for
    example. What one value gains another one loses, by the weights that they show when each is
    changed alone, and nothing that follows changes.
    """
    shown = find_shown(first)
    rest = [entry for entry in entries if entry.number not in shown and _can_move(entry)]
    for one, other in _couples(rest):
        weight = _exchange_rate(player, first, one, other)
        if weight is None:
            continue
        number = next(iter(one))
        if not _changes_anything(player, first, _sum_of_changes(one, other, -weight)):
            return first.tape.entries[number]
    return None


Changes = dict[int, Array]


def _couples(entries: list[Entry]) -> Iterator[tuple[Changes, Changes]]:
    """Changes of two values of a step, or of two rows of one value."""
    for one, other in list(pairwise(entries))[:_COUPLES]:
        same = (one.sampled, one.step) == (other.sampled, other.step)
        if one.out.shape == other.out.shape and same:
            by = np.full(one.out.shape, _NEAR * (1 + float(np.max(one.scale))))
            yield {one.number: by}, {other.number: by}
    for entry in entries[:1]:
        if entry.out.ndim and len(entry.out) > 1:
            by = _NEAR * (1 + float(np.max(entry.scale)))
            rows = [np.zeros(entry.out.shape) for _ in range(2)]
            rows[0][0], rows[1][1] = by, by
            yield {entry.number: rows[0]}, {entry.number: rows[1]}


def _sum_of_changes(one: Changes, other: Changes, weight: float) -> Changes:
    """The first change, and the second one times a weight."""
    both = {number: np.array(by) for number, by in one.items()}
    for number, by in other.items():
        both[number] = both[number] + weight * by if number in both else weight * by
    return both


def _exchange_rate(player: Player, first: Played, one: Changes, other: Changes) -> float | None:
    """How much of the second change does what the first one does, None if they do not compare."""
    left, right = (_effect(player, first, change) for change in (one, other))
    if left is None or right is None or left.shape != right.shape:
        return None
    size = float(right @ right)
    if not (size > 0 and np.isfinite(size) and float(left @ left) > 0):
        return None
    weight = float(left @ right) / size
    return weight if np.allclose(left, weight * right, rtol=1e-6, atol=_SAME) else None


def _effect(player: Player, first: Played, changes: Changes) -> Array | None:
    """What a change adds to the numbers of the release and to later queries, in one row."""
    played = player.replay_shifted(first, changes)
    if played.error is not None or next(obligations.calls(played.tape), None) is not None:
        return None
    then, now = (np.array(numbers_of(part.output)) for part in (first, played))
    pairs = played.tape.pairs()
    if then.shape != now.shape or any(a.query.shape != b.query.shape for a, b in pairs):
        return None
    with np.errstate(invalid="ignore"):
        moves = [now - then, *((b.query - a.query).ravel() for a, b in pairs)]
    found = np.concatenate(moves)
    return found if np.all(np.isfinite(found)) else None


def _can_move(entry: Entry) -> bool:
    return entry.stated is None and entry.shown is None and not _selects(entry)


def _changes_anything(player: Player, first: Played, changes: Mapping[int, Array]) -> bool:
    """Whether the release or a query differs by more than rounding."""
    played = player.replay_shifted(first, changes)
    if played.error is not None or next(obligations.calls(played.tape), None) is not None:
        return True
    then, now = (np.array(numbers_of(part.output)) for part in (first, played))
    if then.shape != now.shape or not then.size or not _is_close(then, now):
        return True
    return not all(
        a.query.shape == b.query.shape and _is_close(a.query, b.query)
        for a, b in played.tape.pairs()
    )


def _is_close(one: Array, other: Array) -> bool:
    return bool(np.allclose(one, other, rtol=_SAME, atol=_SAME, equal_nan=True))
