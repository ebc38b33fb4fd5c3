"""Calls of libraries that keep their noise to themselves: frozen whole, priced as they promise."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay.replay.entries import Entry, Stated
from dpassay.replay.sites import here
from dpassay.replay.tape import Tape, play_on, stop


def quietly(work: Callable[[], Any]) -> Any:
    """What a call returns, with nothing that it draws on the tape: it is one primitive."""
    token = play_on(None)
    try:
        return work()
    finally:
        stop(token)


def keep_entry(tape: Tape, query: Any, out: Any, law: str, **more: Any) -> Entry:
    """A primitive whose noise was drawn elsewhere; on a replay it shows what it did on D.

    What the user gets is ``shown``: the very object, for its type is an output too.
    """
    shape = np.shape(out)
    entry = tape.keep(
        Entry(
            number=len(tape.entries),
            kind=more.pop("kind", "add"),
            law=law,
            scale=np.broadcast_to(np.asarray(more.pop("scale", 1.0), dtype=np.float64), shape),
            query=np.array(query, dtype=np.float64),
            out=np.array(out),
            ids=tape.new_ids(shape),
            draws=frozenset(),
            site=here(),
            chain=tape.next_chain,
            **{"shown": out, **more},
        )
    )
    then = tape.counterpart_of(entry)
    if then is not None and then.law == law:
        entry.shown = then.shown
    return entry


def keep_stated(tape: Tape, stated: Stated, out: Any, scale: float = 1.0, **more: Any) -> Any:
    """A call that says itself what it costs; returns what it showed on D."""
    entry = keep_entry(tape, 0.0, 0.0, "stated", stated=stated, shown=out, scale=scale, **more)
    return entry.shown
