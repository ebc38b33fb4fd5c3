"""Noisy values that a mechanism makes and never uses: they cost nothing.

That no use was seen proves little, since values may leave by ways that are not seen. So they are
changed: where D is played again with other values in these places, and all that is released, asked
and drawn stays as it was to the last bit, nothing depends on them.
"""

from collections.abc import Mapping

import numpy as np

from dpassay.auditing.checking_published import find_spots
from dpassay.replay import obligations, prices
from dpassay.replay.entries import Array, Entry
from dpassay.replay.outputs import first_difference, numbers_of
from dpassay.replay.playing import Played, Player
from dpassay.replay.sites import Place, Site
from dpassay.replay.tape import Tape

_FAR = (32.0, -32.0)  # in units of the noise: on either side of what a later step may clip to
_MANY = 16
_FEW = 8  # records; as many values may well be something else


def places(player: Player, first: Played) -> dict[int, Array]:
    """Which places of the noisy values of D nothing depends on, by primitive."""
    free = _free(player, first, prices.find_untouched(first.tape))
    return _join(free, _free(player, first, _find_dropped(first, free)))


def _join(one: dict[int, Array], other: dict[int, Array]) -> dict[int, Array]:
    both = {number: one[number] | other[number] for number in one.keys() & other.keys()}
    return one | other | both


def _free(player: Player, first: Played, doubtful: dict[int, Array]) -> dict[int, Array]:
    """Of these places those that nothing depends on: all, or as many as can be tried alone."""
    every = _with_all_comparisons(first.tape, doubtful)
    if not doubtful or not _matters(player, first, every):
        return every
    free: dict[int, Array] = {}
    for one in _apart(doubtful):
        alone = _with_all_comparisons(first.tape, one)
        if not _matters(player, first, alone):
            free = _join(free, alone)
    return free


def _apart(doubtful: dict[int, Array]) -> list[dict[int, Array]]:
    """The places one by one, or primitive by primitive, if there are few; none if not."""
    size = sum(int(where.sum()) for where in doubtful.values())
    if 1 < size <= _MANY:
        return [{number: _only(where, at)} for number, where in doubtful.items()
                for at in np.flatnonzero(where).tolist()]  # fmt: skip
    if 1 < len(doubtful) <= _MANY:
        return [{number: where} for number, where in doubtful.items()]
    return []


def _only(where: Array, at: int) -> Array:
    return (np.arange(where.size) == at).reshape(where.shape)


def _with_all_comparisons(tape: Tape, doubtful: dict[int, Array]) -> dict[int, Array]:
    alone = [_with_comparisons(tape, number, where) for number, where in doubtful.items()]
    return {number: where for one in alone for number, where in one.items()}


def _with_comparisons(tape: Tape, number: int, where: Array) -> dict[int, Array]:
    """A noisy value, with the bits that were made of it by comparing it."""
    draws = tape.entries[number].draws
    bits = [e for e in tape.entries if e.kind == "compare" and e.draws <= draws]
    found = {number: where}
    if where.all():
        found |= {entry.number: np.ones(entry.out.shape, bool) for entry in bits}
    return found


def _find_dropped(first: Played, free: dict[int, Array]) -> dict[int, Array]:
    """Places that are not in the release, of calls whose other values are, or may be.

    ``np.vectorize``, for example, calls a function once more to see what type it returns, and
    ``zip`` leaves out what has no partner. Where no value of a call is in the release as it is,
    its first and its last one are looked at.
    """
    spots = find_spots(first)
    calls: dict[Place, list[tuple[Entry, Array]]] = {}
    for entry in first.tape.entries:
        if _can_be_shifted(entry):
            hidden = np.array([not spots.get((entry.chain, i)) for i in range(entry.out.size)])
            calls.setdefault(entry.site.exact, []).append((entry, hidden.reshape(entry.out.shape)))
    found: list[tuple[Entry, Array]] = []
    for entries in calls.values():
        hidden = [(entry, where) for entry, where in entries if where.any()]
        if all(where.all() for _, where in entries):
            hidden = (hidden[:1] + hidden[1:][-1:]) * (len(hidden) > 1)
        found += hidden
    none = np.zeros((), bool)
    known = {entry.number: where & ~free.get(entry.number, none) for entry, where in found}
    return {number: where for number, where in known.items() if where.any()}


def _matters(player: Player, first: Played, doubtful: dict[int, Array]) -> bool:
    """Whether anything differs where the values in these places are others."""
    for far in _FAR:
        played = player.replay_shifted(first, _shifts(first, doubtful, far))
        if played.error is not None or played.tape.private_reads:
            return True
        if not asks_the_same(played.tape) or first_difference(first.output, played.output):
            return True
    return False


def _shifts(first: Played, places: dict[int, Array], far: float) -> dict[int, Array]:
    """By how much the values in these places change.

    The bit of a comparison is turned; an answer becomes the first one, or the second.
    """
    found: dict[int, Array] = {}
    for number, where in places.items():
        entry = first.tape.entries[number]
        by = np.rint(far * (1 + entry.scale))
        if entry.kind == "compare":
            by = np.where(entry.out, -1.0, 1.0)
        elif entry.law == prices.RESPONSE:
            by = np.where(entry.out, -1.0 * entry.out, 1.0)
        found[number] = np.where(where, by, 0.0)
    return found


def find_unpublished(
    player: Player, first: Played, sites: set[Site], n: int, unused: Mapping[int, Array]
) -> Site | None:
    """A line whose noisy values are not published as they are, None if there is none.

    Those that only enter later queries are hidden by the noise there; of those with one entry per
    record perhaps nothing but a sum is published. What all of them cost together is not what the
    release costs.

    Args:
        player: plays D again, with other values.
        first: the execution on D.
        sites: the lines to look at.
        n: the number of records where a row of noise may belong to each, 0 to leave that out.
        unused: places of noisy values that nothing depends on, which cost nothing anyway.

    """
    shown: set[float] | None = None
    calls: dict[Place, list[Entry]] = {}
    for entry in first.tape.entries:
        free = entry.number in unused and bool(unused[entry.number].all())
        if entry.site in sites and _can_be_shifted(entry) and not free:
            calls.setdefault(entry.site.exact, []).append(entry)
    for entries in calls.values():
        site = entries[0].site
        answers = entries[0].law == prices.RESPONSE
        per_record = n >= _FEW and any(_is_per_record(first.tape, entry, n) for entry in entries)
        if per_record or answers:
            shown = {*numbers_of(first.output)} if shown is None else shown
            hidden = not all(float(value) in shown for e in entries for value in e.out.ravel())
            hidden = hidden or answers  # 0 and 1 stand in a release for many reasons
            if hidden and not _changes_as_many(player, first, entries):
                return site
        if not _reaches_output(player, first, entries):
            return site
    return None


def _changes_as_many(player: Player, first: Played, entries: list[Entry]) -> bool:
    """Whether at least as many numbers of the release depend on some values as there are values.

    Prefix sums, for example, show all of them; a mean does not.
    """
    every = {entry.number: np.ones(entry.out.shape, bool) for entry in entries}
    played = player.replay_shifted(first, _shifts(first, every, _FAR[0]))
    then, now = (np.array(numbers_of(part.output)) for part in (first, played))
    if played.error is not None or then.shape != now.shape:
        return False
    return int(np.sum(then != now)) >= sum(entry.out.size for entry in entries)


def _is_per_record(tape: Tape, entry: Entry, n: int) -> bool:
    """Whether the noise has a row for each of n records, or was drawn once for each."""
    calls = {tape.draws[number].site.exact for number in entry.draws}
    times = [sum(draw.site.exact == call for draw in tape.draws) for call in calls]
    return entry.out.shape[:1] == (n,) or n in times


def _can_be_shifted(entry: Entry) -> bool:
    """Whether other values in its place would show: a selection ignores a common shift."""
    plain = entry.stated is None and entry.shown is None
    by_value = not entry.uses or "value" in entry.uses
    return prices.is_sum(entry) and plain and by_value and bool(entry.out.size)


def _reaches_output(player: Player, first: Played, entries: list[Entry]) -> bool:
    every = {entry.number: np.ones(entry.out.shape, bool) for entry in entries}
    for far in _FAR:
        played = player.replay_shifted(first, _shifts(first, every, far))
        if played.error is not None or next(obligations.calls(played.tape), None) is not None:
            return True
        if first_difference(first.output, played.output) is not None:
            return True
    return False


def asks_the_same(tape: Tape) -> bool:
    """Whether a second run on D adds noise of the same scales to the same queries."""
    if next(obligations.calls(tape), None) is not None:
        return False
    return all(
        then.query.shape == now.query.shape
        and np.array_equal(then.query, now.query, equal_nan=True)
        and np.array_equal(then.scale, now.scale, equal_nan=True)
        for then, now in tape.pairs()
    )
