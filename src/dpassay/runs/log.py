"""The durable trial log: one row per trial, in SQLite; whatever dies, nothing is played twice.

A trial is written once, by its run's key and its number; the first one stands (``INSERT OR
IGNORE``). Several processes may write to one log. The log must lie on a local disk: SQLite's
write-ahead log does not work across a network.

:func:`open_log` gives a log in a file or, without a path, one in memory; both are
:class:`TrialLog`.
"""

import contextlib
import datetime
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpassay import __version__, _handed
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.runs.outcomes import NO_WORLD, Outcomes, join, nothing

APPLICATION_ID = 0x64705F61  # "dp_a", in the header of the file
SCHEMA_VERSION = 1
BUSY_SECONDS = 60.0

# A score has no declared type: SQLite would turn -0.0 into 0.0 in a column of reals. NaN is NULL.
_SCHEMA = f"""
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, configuration TEXT NOT NULL,
    created TEXT NOT NULL, version TEXT NOT NULL
);
CREATE TABLE trials (
    run INTEGER NOT NULL REFERENCES runs (id), trial INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('done', 'failed')), world INTEGER, score, seconds REAL,
    payload BLOB, error TEXT, PRIMARY KEY (run, trial)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""
_INSERT_PLAIN = (
    "INSERT OR IGNORE INTO trials (run, trial, state, world, score, seconds) "
    "VALUES (?, ?, 'done', ?, ?, ?)"
)
_INSERT_FULL = (
    "INSERT OR IGNORE INTO trials (run, trial, state, world, score, seconds, payload, error) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RUN_OF = "(SELECT id FROM runs WHERE key = ?)"
_DESCRIPTION = "~description"  # beside the settings of a configuration

# What to do, by the beginning of SQLite's name for the error; the first that fits.
_REMEDIES = {
    "SQLITE_FULL": "The disk is full. Make room and run the same again",
    "SQLITE_IOERR": "The disk failed or is full. Make room and run the same again",
    "SQLITE_READONLY": "It cannot be written. Its folder and file must be writable",
    "SQLITE_CANTOPEN": "It cannot be opened. Its folder must exist and be writable",
    "SQLITE_PERM": "It cannot be written. Its folder and file must be writable",
    "SQLITE_BUSY": f"Another process kept it locked for {BUSY_SECONDS:g} s. Run the same again",
    "SQLITE_NOTADB": "It is not a trial log. Pass another store=, or move this file away",
    "SQLITE_CORRUPT": "It is damaged. Restore a copy, or move it away to start anew",
}
_UNREADABLE = ("SQLITE_NOTADB", "SQLITE_CORRUPT")


class LogError(DpassayError):
    """A trial log cannot be read or written; the message names it and says what to do."""


@dataclass(frozen=True)
class RunRecord:
    """A run in a log: its key, its configuration, when and by which dpassay, and its trials.

    The description says what was asked last; unlike the configuration it is no part of the key.
    """

    key: str
    configuration: dict[str, Any]
    created: str
    version: str
    n_done: int
    n_failed: int
    description: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class TrialLog(Protocol):
    """A place where outcomes are kept by run key and trial number; the first one stands."""

    def begin(
        self,
        key: str,
        configuration: Mapping[str, Any],
        description: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the run known; again changes nothing but the description, if one is given."""
        ...

    def add(self, key: str, outcomes: Outcomes) -> Outcomes:
        """Keep these; returns what the log now holds for their trials, durably."""
        ...

    def outcomes(self, key: str) -> Outcomes:
        """All outcomes of a run, in number order."""
        ...

    def counts(self, key: str) -> dict[str, int]:
        """The number of trials by state: {"done": ..., "failed": ...}."""
        ...

    def runs(self) -> list[RunRecord]:
        """All runs, oldest first."""
        ...

    def close(self) -> None:
        """Let go of the file; again is harmless."""
        ...


def open_log(store: "str | Path | TrialLog | None", *, make: bool = True) -> TrialLog:
    """The log at a path, a new one in memory for None; a log is itself.

    A file that does not exist is made, or with ``make=False`` refused.
    """
    if store is None:
        return MemoryLog()
    if isinstance(store, str | Path):
        return SqliteLog(store, make=make)
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


def merge(into: TrialLog, other: TrialLog) -> int:
    """Add the runs and trials of another log; returns how many trials were new.

    Doing it again adds nothing. A trial that both hold stays as it is, and so does the description
    of a run that both hold.
    """
    added, known = 0, {run.key for run in into.runs()}
    for run in other.runs():
        into.begin(run.key, run.configuration, None if run.key in known else run.description)
        before = sum(into.counts(run.key).values())
        into.add(run.key, other.outcomes(run.key))
        added += sum(into.counts(run.key).values()) - before
    return added


# ------------------------------------------------------------------------------- in memory


@dataclass
class _Kept:
    record: RunRecord
    parts: list[Outcomes]
    seen: set[int]


class MemoryLog:
    """A trial log that lives as long as the object: for audits without a store, and for tests."""

    def __init__(self) -> None:
        self._runs: dict[str, _Kept] = {}

    def begin(
        self,
        key: str,
        configuration: Mapping[str, Any],
        description: Mapping[str, Any] | None = None,
    ) -> None:
        plain = json.loads(_json(configuration))
        record = RunRecord(key, plain, _now(), __version__, 0, 0)
        kept = self._runs.setdefault(key, _Kept(record, [], set()))
        if description is not None:
            kept.record = replace(kept.record, description=json.loads(_json(description)))

    def add(self, key: str, outcomes: Outcomes) -> Outcomes:
        kept, before = self._runs[key], len(self._runs[key].seen)
        numbers = outcomes.trials.tolist()
        fresh = outcomes
        if not kept.seen.isdisjoint(numbers):
            fresh = outcomes[np.array([number not in kept.seen for number in numbers])]
        kept.parts.append(fresh)
        kept.seen.update(numbers)
        complete = len(kept.seen) - before == len(outcomes)
        return outcomes if complete else _only(self.outcomes(key), outcomes)

    def outcomes(self, key: str) -> Outcomes:
        kept = self._runs.get(key)
        if kept is None:
            return nothing()
        whole = join(kept.parts)
        if np.any(np.diff(whole.trials) <= 0):
            whole = whole[np.unique(whole.trials, return_index=True)[1]]
        kept.parts[:] = [whole]
        return whole

    def counts(self, key: str) -> dict[str, int]:
        outcomes = self.outcomes(key)
        return {"done": len(outcomes) - outcomes.n_failed, "failed": outcomes.n_failed}

    def runs(self) -> list[RunRecord]:
        return [self._record(kept.record) for kept in self._runs.values()]

    def _record(self, empty: RunRecord) -> RunRecord:
        counts = self.counts(empty.key)
        return replace(empty, n_done=counts["done"], n_failed=counts["failed"])

    def close(self) -> None:
        pass


def _only(whole: Outcomes, wanted: Outcomes) -> Outcomes:
    return whole[np.isin(whole.trials, wanted.trials)]


def _json(settings: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(settings), sort_keys=True)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"configuration with {', '.join(map(str, settings))} must be plain JSON; give names "
            "and numbers, and data by its fingerprint."
        ) from None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


# ------------------------------------------------------------------------------- in a file


class SqliteLog:
    """A trial log in an SQLite file, which is made if there is none.

    Raises:
        LogError: the file is not a trial log, is damaged, is of a newer dpassay, or cannot be
            written. Such a file is left as it was.

    """

    def __init__(self, path: str | Path, *, make: bool = True) -> None:
        self.path = Path(path)
        with _explained(self.path):
            if make and not os.path.lexists(self.path):
                _make(self.path)
            _vet(self.path)
            self._connection = _connect(self.path)
            # A commit is on the disk when it returns, even if the power fails.
            self._connection.execute("PRAGMA synchronous = FULL")

    def begin(
        self,
        key: str,
        configuration: Mapping[str, Any],
        description: Mapping[str, Any] | None = None,
    ) -> None:
        row = (key, _json(configuration), _now(), __version__)
        with _explained(self.path), _transaction(self._connection):
            self._connection.execute(
                "INSERT OR IGNORE INTO runs (key, configuration, created, version) "
                "VALUES (?, ?, ?, ?)",
                row,
            )
            if description is not None:
                self._describe(key, description)

    def _describe(self, key: str, description: Mapping[str, Any]) -> None:
        query = "SELECT configuration FROM runs WHERE key = ?"
        stored = json.loads(self._connection.execute(query, (key,)).fetchone()[0])
        stored[_DESCRIPTION] = dict(description)
        self._connection.execute(
            "UPDATE runs SET configuration = ? WHERE key = ?", (_json(stored), key)
        )

    def add(self, key: str, outcomes: Outcomes) -> Outcomes:
        with _explained(self.path):
            before = self._connection.total_changes
            with _transaction(self._connection):
                run = self._id(key)
                plain, full = _split(outcomes)
                self._connection.executemany(_INSERT_PLAIN, _plain_rows(run, plain))
                self._connection.executemany(_INSERT_FULL, _full_rows(run, full))
            if self._connection.total_changes - before == len(outcomes):
                return outcomes
            low, high = int(outcomes.trials.min()), int(outcomes.trials.max())
            kept = _only(self._read(key, low, high), outcomes)
        if len(kept) != len(outcomes):
            raise LogError(f"store={self.path}: the log refused trials of run {key}. {_SAFE}")
        return kept

    def outcomes(self, key: str) -> Outcomes:
        with _explained(self.path):
            return self._read(key, 0, 2**63 - 1)

    def counts(self, key: str) -> dict[str, int]:
        query = f"SELECT state, count(*) FROM trials WHERE run = {_RUN_OF} GROUP BY state"
        with _explained(self.path):
            return {"done": 0, "failed": 0} | dict(self._connection.execute(query, (key,)))

    def runs(self) -> list[RunRecord]:
        with _explained(self.path):
            rows = self._connection.execute(
                "SELECT key, configuration, created, version FROM runs ORDER BY id"
            ).fetchall()
        return [self._record(*row) for row in rows]

    def close(self) -> None:
        with _explained(self.path):
            self._connection.close()

    def _id(self, key: str) -> int:
        row = self._connection.execute("SELECT id FROM runs WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise InvalidArgument(f"key={key!r} is not a run of {self.path}; begin it first.")
        return row[0]

    def _record(self, key: str, configuration: str, created: str, version: str) -> RunRecord:
        counts = self.counts(key)
        plain = self._settings(configuration)
        about = plain.pop(_DESCRIPTION, {})
        texts = isinstance(key, str) and isinstance(created, str) and isinstance(version, str)
        if not texts or not isinstance(about, dict):
            raise _damage(self.path, "a run in it is not described as it should be")
        return RunRecord(key, plain, created, version, counts["done"], counts["failed"], about)

    def _settings(self, configuration: str) -> dict[str, Any]:
        """The configuration of a run, whatever somebody wrote there."""
        what = f"store={self.path}: the configuration of a run"
        remedy = "Restore a copy, or move it away to start anew."
        plain = _handed.parse_json(what, configuration, remedy, infinite=True)
        if not isinstance(plain, dict):
            raise _damage(self.path, "the configuration of a run is not a mapping")
        return plain

    def _read(self, key: str, low: int, high: int) -> Outcomes:
        where = f"FROM trials WHERE run = {_RUN_OF} AND trial BETWEEN ? AND ?"
        columns = f"trial, state = 'failed', coalesce(world, {NO_WORLD}), score, seconds"
        bounds = (key, low, high)
        with _transaction(self._connection, "BEGIN"):  # both queries see the same log
            rows = self._connection.execute(f"SELECT {columns} {where} ORDER BY trial", bounds)
            plain = rows.fetchall()
            rows = self._connection.execute(
                f"SELECT trial, payload, error {where} "
                "AND (payload IS NOT NULL OR error IS NOT NULL)",
                bounds,
            )
            rare = rows.fetchall()
        try:
            return _columns(plain, rare)
        except (TypeError, ValueError, OverflowError):
            raise _damage(self.path, "a trial in it is not what a trial is") from None


def _columns(rows: list[tuple], rare: list[tuple]) -> Outcomes:
    """The rows as columns; a wrong type raises TypeError, ValueError or OverflowError."""
    for trial, payload, error in rare:
        if not isinstance(payload, bytes | None) or not isinstance(error, str | None):
            raise TypeError(f"the payload or the error of trial {trial}")
    trials, failed, worlds, scores, seconds = zip(*rows, strict=True) if rows else ((),) * 5
    return Outcomes(
        np.array(trials, dtype=np.int64),
        np.array(failed, dtype=bool),
        np.array(worlds, dtype=np.int8),
        np.array(scores, dtype=np.float64),  # None becomes NaN
        np.array(seconds, dtype=np.float64),
        {trial: payload for trial, payload, _ in rare if payload is not None},
        {trial: error for trial, _, error in rare if error is not None},
    )


def _split(outcomes: Outcomes) -> tuple[Outcomes, Outcomes]:
    """Those with a score alone, and those with a payload or an error."""
    if not outcomes.payloads and not outcomes.errors:
        return outcomes, outcomes[:0]
    rare = np.array(sorted({*outcomes.payloads, *outcomes.errors}))
    plain = ~np.isin(outcomes.trials, rare)
    return outcomes[plain], outcomes[~plain]


def _plain_rows(run: int, part: Outcomes) -> Iterator[tuple]:
    worlds = [None if world == NO_WORLD else world for world in part.worlds.tolist()]
    columns = (part.trials.tolist(), worlds, part.scores.tolist(), part.seconds.tolist())
    return zip(repeat(run), *columns)


def _full_rows(run: int, part: Outcomes) -> Iterator[tuple]:
    for _, trial, world, score, seconds in _plain_rows(run, part):
        error, payload = part.errors.get(trial), part.payloads.get(trial)
        state = "done" if error is None else "failed"
        yield run, trial, state, world, score, seconds, payload, error


def _connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the file system into a LogError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", None) or "SQLITE_MISUSE"
        remedies = (text for start, text in _REMEDIES.items() if name.startswith(start))
        remedy = next(remedies, "Run the same again")
        safe = "" if name.startswith(_UNREADABLE) else f" {_SAFE}"
        raise LogError(f"store={path}: {error}. {remedy}.{safe}") from error
    except OSError as error:
        raise LogError(
            f"store={path}: {error.strerror or error}. Pass a path to a file in a folder that "
            f"exists and can be written. {_SAFE}"
        ) from error


_SAFE = "What was written before is not lost."


def _make(path: Path) -> None:
    """Make an empty log in one step: a file at the path is never half a log."""
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex}.new")
    try:
        connection = _connect(new, "rwc")
        connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        with contextlib.suppress(FileExistsError):  # Another process was faster: its log serves.
            _publish(new, path)
    finally:
        new.unlink(missing_ok=True)


def _publish(new: Path, path: Path) -> None:
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # A file system without hard links.
        new.rename(path)


def _vet(path: Path) -> None:
    """Refuse a file that is not a sound trial log, without changing it."""
    if (what := _handed.special_kind(path)) is not None:  # to open a pipe would wait for a writer
        raise _refusal(path, f"it is {what} and so no trial log")
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        what = "is empty" if not header else "is not an SQLite database"
        raise _refusal(path, f"the file {what} and so no trial log")
    application, version = header[68:72], int.from_bytes(header[60:64], "big")
    if application != APPLICATION_ID.to_bytes(4, "big"):
        raise _refusal(path, "the file is an SQLite database of another program")
    if version != SCHEMA_VERSION:
        raise LogError(
            f"store={path}: the log has schema {version}, this dpassay ({__version__}) reads "
            f"{SCHEMA_VERSION}. Upgrade dpassay, or pass another store=. Nothing was changed."
        )
    # Read-only, because the last connection to close writes the write-ahead log into the file.
    with contextlib.closing(_connect(path, "ro")) as connection:
        fault = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if fault != "ok":
        raise LogError(
            f"store={path}: the log is damaged ({' '.join(fault.split())}). Restore a copy, or "
            "move it away to start anew. Nothing was changed."
        )


def _damage(path: Path, fault: str) -> LogError:
    return LogError(
        f"store={path}: the log is damaged: {fault}. Restore a copy, or move it away to start "
        "anew. Nothing was changed."
    )


def _refusal(path: Path, fault: str) -> LogError:
    return LogError(
        f"store={path}: {fault}. Pass another store=, or move this file away. Nothing was changed."
    )
