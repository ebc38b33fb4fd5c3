"""The durable trial log: one row per trial, in SQLite; whatever dies, nothing is played twice.

A trial is written once, by its run's key and its number; the first one stands. Several processes
may write to one log. The log must lie on a local disk: SQLite's write-ahead log does not work
across a network.

:func:`open_log` gives a log in a file or, without a path, one in memory; both are
:class:`~dpassay.runs.protocol.TrialLog`.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from dpassay.errors import InvalidArgument
from dpassay.runs.memory import MemoryLog
from dpassay.runs.parts import is_folder, join_parts
from dpassay.runs.protocol import TrialLog
from dpassay.runs.sqlite import SqliteLog


def open_log(store: "str | Path | TrialLog | None", *, make: bool = True) -> TrialLog:
    """The log at a path, or for None a new one in memory; an open log comes back as it is.

    A file that does not exist is made, or with ``make=False`` refused. In a folder where a run was
    described (:mod:`dpassay.runs.parts`) what its parts hold is added to the log of the whole run.
    """
    if store is None:
        return MemoryLog()
    if isinstance(store, str | Path):
        return join_parts(Path(store)) if is_folder(Path(store)) else SqliteLog(store, make=make)
    if isinstance(store, TrialLog):
        return store
    raise InvalidArgument(f"store={store!r} must be a path, a trial log or None (kept in memory).")


@contextlib.contextmanager
def opened(store: "str | Path | TrialLog | None", *, make: bool = True) -> Iterator[TrialLog]:
    """:func:`open_log`, closed at the end unless the log was passed open."""
    log = open_log(store, make=make)
    try:
        yield log
    finally:
        if log is not store:
            log.close()
