"""Noise that is drawn again until the noisy value is accepted: its law is cut off, and not priced.

Where a value outside of some bounds is thrown away and drawn anew, what is released has the law of
the noise given that it was accepted. How likely that is depends on the query, so that such a value
may cost up to twice as much as its noise says; scales that account for it are known too.
"""

import numpy as np

from dpassay.replay import prices
from dpassay.replay.entries import Array, Entry
from dpassay.replay.playing import Played, Player
from dpassay.replay.sites import Site
from dpassay.replay.tape import Tape

_CALLS = 3  # that are tried


def find_redrawn(player: Player, first: Played) -> Site | None:
    """A line whose noise is drawn again for the same query after a comparison, None if none is."""
    tape = first.tape
    sums = [entry for entry in tape.entries if prices.is_sum(entry) and np.any(entry.query)]
    compared = [entry for entry in sums if _bits(tape, entry)]
    for entry in compared:
        if _is_drawn_again(tape, entry):
            return entry.site
    calls = {entry.site.exact: entry for entry in reversed(compared)}
    for entry in list(calls.values())[:_CALLS]:
        for bit in _bits(tape, entry):
            turned: dict[int, Array] = {bit.number: np.where(bit.out, -1.0, 1.0)}
            played = player.replay_shifted(first, turned)
            if played.error is None and _is_drawn_again(played.tape, entry):
                return entry.site
    return None


def _bits(tape: Tape, entry: Entry) -> list[Entry]:
    """Comparisons of a noisy value with plain numbers."""
    return [e for e in tape.entries if e.kind == "compare" and e.draws <= entry.draws]


def _is_drawn_again(tape: Tape, entry: Entry) -> bool:
    """Whether the next noise of the same call is added to the same query."""
    at = next((i for i, e in enumerate(tape.entries) if e.chain == entry.chain), len(tape.entries))
    later = [e for e in tape.entries[at + 1 :] if e.kind == "add" and e.site == entry.site]
    after = next((e for e in later if e.site.exact == entry.site.exact), None)
    fresh = after is not None and not after.draws & entry.draws
    return after is not None and fresh and np.array_equal(after.query, entry.query)
