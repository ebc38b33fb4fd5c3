"""The trial log in an SQLite file: several processes may write; damage and loss are noticed.

Every commit is on the disk when it returns. After each one the log is looked up by its name. If the
file was deleted or moved away, it is written anew from the file that is still open; if another log
has taken its place, the trials are added to that one. So a run never ends with a verdict and no
log.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dpassay import __version__
from dpassay._scratch import temporary_folder
from dpassay.errors import InvalidArgument, LogError, LogLost
from dpassay.runs import damage
from dpassay.runs.checksums import add_to_digest, row_checksums, text_checksum
from dpassay.runs.outcomes import NO_WORLD, Outcomes, join, nothing
from dpassay.runs.packs import PACKED, Packs, pack_rows
from dpassay.runs.protocol import RunRecord, Words, keep_spent, merge, now, only, plain_json
from dpassay.runs.schema import (
    companions,
    connect,
    explain_errors,
    insert_run,
    make_log,
    migrate,
    new_file,
    publish,
    transaction,
    vet,
)

FEW = 500  # trials that are looked up one by one; more are looked up by their range
_PLAIN = (
    "INSERT INTO trials (run, trial, state, world, score, seconds, checksum, part) "
    "VALUES (?, ?, 'done', ?, ?, ?, ?, ?)"
)
_FULL = (
    "INSERT INTO trials (run, trial, world, score, seconds, checksum, part, state, payload, "
    "features, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_RUNS = (
    "SELECT key, configuration, description, created, version, checksum, n_done, n_failed FROM runs"
)


# Which files this process has open as logs, and the lock under which a log is opened.
_OPEN: "WeakKeyDictionary[SqliteLog, tuple[int, int] | None]" = WeakKeyDictionary()
_OPENING = threading.RLock()


class SqliteLog:
    """A trial log in an SQLite file, which is made if there is none.

    A new log can be read by its user alone (0600), and so can the files that SQLite puts beside it.
    A log of version 1 is turned into version 2 when it is opened. A log that may not be written, on
    read-only media for example, can be read all the same.

    Raises:
        LogError: the file is not a trial log, is damaged, is of a newer dpassay, or cannot be
            written. Such a file is left as it was.

    """

    def __init__(self, path: str | Path, *, make: bool = True) -> None:
        self.path = Path(path)
        self._place = self.path.absolute()  # A trial may change the working directory.
        self._stack = contextlib.ExitStack()
        self._pack_from: dict[int, int] = {}  # by run, the trials at which to pack again
        self._writes = False  # whether anything was written that a reader must find at the end
        self._identity: tuple[int, int] | None = None
        with explain_errors(self.path):
            if make and not os.path.lexists(self._place):
                make_log(self._place)
            try:
                self._open()
            except BaseException:
                self._stack.close()
                raise

    def _open(self) -> None:
        with _OPENING:
            self._open_alone()

    def _open_alone(self) -> None:
        place, read_only = self._place, _is_read_only(self._place)
        if read_only:
            place = _copy_log(place, self._stack.enter_context(temporary_folder()))
        if vet(place, is_open=_identity(place) in _OPEN.values()) == 1:
            with damage.name_damage(self.path, "it holds values of another kind than it should"):
                migrate(place)
        self._connection = connect(place)
        self._packs = Packs(self._connection, self.path)
        # A commit is on the disk when it returns, even if the power fails.
        self._connection.execute("PRAGMA synchronous = FULL")
        if read_only:  # Or what is written would go into a copy and be lost.
            self._connection.execute("PRAGMA query_only = ON")
        self._identity = _identity(self._place)
        self._connection.execute("SELECT 1 FROM runs").fetchone()  # SQLite opens what is beside it
        self._companions = {path: _identity(path) for path in companions(self._place)}
        _OPEN[self] = self._identity

    # ----------------------------------------------------------------- writing

    def begin(self, key: str, configuration: Words, description: Words | None = None) -> None:
        settings = plain_json("configuration", dict(configuration))
        if description is not None:
            plain_json("description", dict(description))  # refused before anything is written
        with self._writing():
            insert_run(self._connection, None, (key, settings, "{}", now(), __version__))
            if description is not None:
                self._describe(key, keep_spent(self._record_of(key).description, description))

    def redescribe(self, key: str, change: Callable[[RunRecord], dict[str, Any]]) -> None:
        with self._writing():
            record = self._record_of(key)
            if (about := change(record)) != record.description:
                self._describe(key, about)

    def _describe(self, key: str, description: Mapping[str, Any]) -> None:
        about = plain_json("description", dict(description))
        query = "SELECT configuration, created, version FROM runs WHERE key = ?"
        settings, created, version = self._connection.execute(query, (key,)).fetchone()
        checksum = text_checksum(key, settings, about, created, version)
        self._connection.execute(
            "UPDATE runs SET description = ?, checksum = ? WHERE key = ?", (about, checksum, key)
        )

    def add(self, key: str, outcomes: Outcomes, part: str | None = None) -> Outcomes:
        with self._writing():
            run, n_done, n_failed, digest = self._run(key)
            fresh = self._fresh(run, outcomes)
            checksums = row_checksums(key, fresh, part)
            self._insert(run, fresh, checksums.tolist(), part)
            self._connection.execute(
                "UPDATE runs SET n_done = ?, n_failed = ?, digest = ? WHERE id = ?",
                (
                    n_done + len(fresh) - fresh.n_failed,
                    n_failed + fresh.n_failed,
                    add_to_digest(digest, checksums),
                    run,
                ),
            )
            self._pack(run, key, n_done + n_failed + len(fresh))
        if len(fresh) == len(outcomes):
            return outcomes
        with explain_errors(self.path):
            low, high = int(outcomes.trials.min()), int(outcomes.trials.max())
            return only(self._read(key, (low, high)), outcomes)

    def _pack(self, run: int, key: str, trials: int) -> None:
        """Pack old rows where a run has become long; tried once in a while."""
        if trials < self._pack_from.get(run, 2 * PACKED):
            return
        while pack_rows(self._connection, self.path, run, key):
            pass
        self._pack_from[run] = trials + PACKED

    def _fresh(self, run: int, outcomes: Outcomes) -> Outcomes:
        """Those whose trials are not in the log, each once."""
        numbers = outcomes.trials.tolist()
        if len(set(numbers)) < len(numbers):
            outcomes = outcomes[np.sort(np.unique(outcomes.trials, return_index=True)[1])]
            numbers = outcomes.trials.tolist()
        if not numbers:
            return outcomes
        where, values = "trial BETWEEN ? AND ?", [min(numbers), max(numbers)]
        if len(numbers) <= FEW:
            where, values = f"trial IN ({', '.join('?' * len(numbers))})", numbers
        query = f"SELECT trial FROM trials WHERE run = ? AND {where}"
        known = {trial for (trial,) in self._connection.execute(query, (run, *values))}
        known.update(self._packs.known(run, min(numbers), max(numbers)).tolist())
        if known.isdisjoint(numbers):
            return outcomes
        return outcomes[np.array([number not in known for number in numbers])]

    def _insert(self, run: int, fresh: Outcomes, checksums: list[int], part: str | None) -> None:
        worlds = [None if world == NO_WORLD else world for world in fresh.worlds.tolist()]
        # NaN becomes NULL.
        columns = (fresh.trials.tolist(), worlds, fresh.scores.tolist(), fresh.seconds.tolist())
        rows = zip(repeat(run), *columns, checksums, repeat(part))
        blobs = (fresh.payloads, fresh.features, fresh.errors)
        if not any(blobs):
            self._connection.executemany(_PLAIN, rows)
            return
        self._connection.executemany(
            _FULL,
            (
                (
                    *row,
                    "done" if row[1] not in fresh.errors else "failed",
                    *(blob.get(row[1]) for blob in blobs),
                )
                for row in rows
            ),
        )

    def note(self, key: str, name: str, value: Any) -> None:
        self.revise(key, name, lambda _: value)

    def revise(self, key: str, name: str, change: Callable[[Any], Any]) -> Any:
        with self._writing():
            run = self._run(key)[0]
            value = change(self.notes(key).get(name))
            stored = value if isinstance(value, bytes) else plain_json(name, value)
            self._connection.execute(
                "INSERT OR REPLACE INTO notes (run, name, value, checksum) VALUES (?, ?, ?, ?)",
                (run, name, stored, text_checksum(key, name, stored)),
            )
        return value if isinstance(value, bytes) else json.loads(stored)

    # ----------------------------------------------------------------- reading

    def outcomes(self, key: str) -> Outcomes:
        with explain_errors(self.path):
            return self._read(key)

    def trials(self, key: str) -> NDArray[np.int64]:
        query = f"SELECT trial FROM trials WHERE run = {_RUN_OF}"
        with explain_errors(self.path), transaction(self._connection, "BEGIN"):
            rows = np.array(self._connection.execute(query, (key,)).fetchall(), np.int64).ravel()
            run = self._connection.execute(f"SELECT {_RUN_OF}", (key,)).fetchone()[0]
            packed = self._packs.known(run, 0, 2**62)
        return np.sort(np.concatenate([rows, packed]))

    def parts(self, key: str) -> dict[int, str]:
        query = f"SELECT trial, part FROM trials WHERE run = {_RUN_OF} AND part IS NOT NULL"
        with explain_errors(self.path), transaction(self._connection, "BEGIN"):
            found = dict(self._connection.execute(query, (key,)).fetchall())
            run = self._connection.execute(f"SELECT {_RUN_OF}", (key,)).fetchone()[0]
            for pack in self._packs.read(run, key, None):
                found.update(pack.parts)
        return found

    def counts(self, key: str) -> dict[str, int]:
        query = "SELECT n_done, n_failed FROM runs WHERE key = ?"
        with explain_errors(self.path):
            done, failed = self._connection.execute(query, (key,)).fetchone() or (0, 0)
        return {"done": done, "failed": failed}

    def runs(self) -> list[RunRecord]:
        with explain_errors(self.path):
            rows = self._connection.execute(f"{_RUNS} ORDER BY id").fetchall()
        return [self._record(*row) for row in rows]

    def _record_of(self, key: str) -> RunRecord:
        row = self._connection.execute(f"{_RUNS} WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise InvalidArgument(f"key={key!r} is not a run of {self.path}; begin it first.")
        return self._record(*row)

    def _record(
        self, key: str, settings: str, about: str, created: str, version: str, *rest: int
    ) -> RunRecord:
        checksum, n_done, n_failed = rest
        what = f"the configuration or description of run {str(key)[:12]} was changed"
        with damage.name_damage(self.path, what):
            damage.check(text_checksum(key, settings, about, created, version) == checksum)
            configuration, description = damage.parse(settings), damage.parse(about)
            damage.check(isinstance(configuration, dict) and isinstance(description, dict))
        return RunRecord(key, configuration, created, version, n_done, n_failed, description)

    def read_note(self, key: str, name: str, default: Any = None) -> Any:
        return self.notes(key).get(name, default)

    def notes(self, key: str) -> dict[str, Any]:
        query = f"SELECT name, value, checksum FROM notes WHERE run = {_RUN_OF} ORDER BY name"
        with explain_errors(self.path):
            rows = self._connection.execute(query, (key,)).fetchall()
        found = {}
        for name, value, checksum in rows:
            with damage.name_damage(self.path, f"the note {name!r} of run {key[:12]} was changed"):
                damage.check(text_checksum(key, name, value) == checksum)
                found[name] = value if isinstance(value, bytes) else damage.parse(value)
        return found

    def _run(self, key: str) -> tuple[int, int, int, int]:
        """The number of a run, its counts and its digest."""
        query = "SELECT id, n_done, n_failed, digest FROM runs WHERE key = ?"
        row = self._connection.execute(query, (key,)).fetchone()
        if row is None:
            raise InvalidArgument(f"key={key!r} is not a run of {self.path}; begin it first.")
        return row

    def _read(self, key: str, between: tuple[int, int] | None = None) -> Outcomes:
        """The outcomes of a run, or of some trials, if they are what was written."""
        where = "FROM trials WHERE run = ?"
        if between is not None:
            where += f" AND trial BETWEEN {between[0]} AND {between[1]}"
        query = "SELECT id, n_done, n_failed, digest FROM runs WHERE key = ?"
        with transaction(self._connection, "BEGIN"):  # all queries see the same log
            run = self._connection.execute(query, (key,)).fetchone()
            if run is None:
                return nothing()
            rows = damage.Rows(self.path, key, lambda q: self._connection.execute(q, run[:1]))
            outcomes, checksums, parts = rows.read(where)
            packs = list(self._packs.read(run[0], key, between))
        wrong = outcomes.trials[row_checksums(key, outcomes, parts) != checksums]
        outcomes = _join_packs(outcomes, [pack.outcomes for pack in packs])
        packed = np.array([pack.digest for pack in packs], np.int64)
        checksums = np.concatenate([checksums, packed])  # which enter the digest as their sum
        whole = None if between is not None else run[1:]
        damage.refuse(self.path, key, outcomes, wrong, checksums, whole)
        return outcomes

    # ----------------------------------------------------------------- staying in place

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction, after which the log is still where its name says."""
        with explain_errors(self.path):
            with transaction(self._connection):
                yield
            self._writes = True
            self._stay()

    def _stay(self) -> None:
        if _identity(self._place) != self._identity or not self._place.stat().st_size:
            self._write_anew()

    def _write_anew(self) -> None:
        """Put all that the open file holds to where the log was, or into what is there now."""
        try:
            with new_file(self._place) as new:
                with contextlib.closing(connect(new)) as copy:
                    self._connection.backup(copy)
                # Closed while its name is not its own any more: SQLite then leaves alone what
                # stands at that name.
                self._connection.close()
                self._take_companions_away()
                self._put(new)
            self._open()
        except (LogError, OSError, sqlite3.Error) as error:
            self._writes = False  # there is nothing left to look after
            raise LogLost(
                f"store={self.path}: the log was deleted or replaced while it was written, and "
                f"cannot be written anew ({error}). Put it back, or run the same again with "
                "another store=."
            ) from error

    def _take_companions_away(self) -> None:
        """Remove our write-ahead log, or SQLite would write it into the log that stands there."""
        for path, identity in self._companions.items():
            if identity is not None and _identity(path) == identity:
                path.unlink(missing_ok=True)

    def _put(self, new: Path) -> None:
        try:
            publish(new, self._place)
        except FileExistsError:
            self._put_into(new)

    def _put_into(self, new: Path) -> None:
        """Add all trials to the log that has taken the place; if it is none, keep them beside."""
        try:
            there = SqliteLog(self._place, make=False)
        except LogError as error:
            kept = self._place.with_name(f"{self._place.name}.kept")
            publish(new, kept)
            raise LogLost(f"{error} All trials so far are in {kept}") from error
        with contextlib.closing(there), contextlib.closing(SqliteLog(new, make=False)) as ours:
            merge(there, ours)

    def close(self) -> None:
        with explain_errors(self.path):
            try:
                if self._writes:
                    self._writes = False
                    self._look_again()
            finally:
                self._connection.close()
                self._stack.close()
                with _OPENING:
                    _OPEN.pop(self, None)

    def _look_again(self) -> None:
        """See that a reader who comes now finds what was written: the file may be cut or gone."""
        self._stay()
        ours = dict(self._connection.execute(_SIZES).fetchall())
        try:
            with contextlib.closing(connect(self._place, "ro")) as fresh:
                theirs = dict(fresh.execute(_SIZES).fetchall())
        except sqlite3.Error as error:
            raise LogLost(
                f"store={self.path}: the log cannot be read any more ({error})."
            ) from error
        if any(theirs.get(key, -1) < size for key, size in ours.items()):
            raise LogLost(f"store={self.path}: the log was replaced by one with fewer trials.")


_RUN_OF = "(SELECT id FROM runs WHERE key = ?)"
_SIZES = "SELECT key, n_done + n_failed FROM runs"


def _join_packs(rows: Outcomes, packs: list[Outcomes]) -> Outcomes:
    """All trials in number order."""
    if not packs:
        return rows
    whole = join([*packs, rows])
    if np.any(whole.trials[1:] <= whole.trials[:-1]):
        whole = whole[np.argsort(whole.trials, kind="stable")]
    return whole


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file this is; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_read_only(path: Path) -> bool:
    """Whether SQLite could not write here: it needs room beside the file even to read."""
    if not path.is_file():
        return False
    return not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _copy_log(path: Path, folder: Path) -> Path:
    """A copy of a log; what was committed last may be in the write-ahead log alone."""
    for suffix in ("", "-wal"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            shutil.copyfile(beside, folder / f"log{suffix}")
    return folder / "log"
