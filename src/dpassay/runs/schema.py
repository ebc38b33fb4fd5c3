"""The format of a trial log in a file, version 2, and how version 1 becomes it.

Tables:

- ``runs``: key, configuration (what fixes the outcomes), description (what was asked last and who
  plays; no part of the key), when and by which dpassay the run was begun; a checksum over these
  texts; the number of trials done and failed, and the digest of all of them.
- ``trials``: one row per trial, with the part of the run (a shard or range, such as "3/64") that it
  was played for, its features beside the score, and a checksum over all of this.
- ``notes``: facts about a run that are neither configuration nor outcome, such as how often it was
  tested: JSON or bytes by name, with a checksum.

A log of a long run has a fourth table, ``packs``, and is of version 3: see
:mod:`dpassay.runs.packs`. See :mod:`dpassay.runs.checksums` for what the checksums are good for.
"""

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpassay import __version__
from dpassay._files import lock_folder, make_private
from dpassay._scratch import make_owned_name, remove_stale, vanishing
from dpassay.errors import LogDamaged, LogError
from dpassay.runs import damage
from dpassay.runs.checksums import add_to_digest, row_checksums, text_checksum
from dpassay.runs.outcomes import NO_WORLD, Outcomes

APPLICATION_ID = 0x64705F61  # "dp_a", in the header of the file
SCHEMA_VERSION = 2  # of a new log
NEWEST_VERSION = 3  # of one with packs (dpassay.runs.packs)
BUSY_SECONDS = 60.0
_NEW = ".dpassay-log-"  # the beginning of the name of a log that is not complete yet

# A score has no declared type: SQLite would turn -0.0 into 0.0 in a column of reals. NaN is NULL.
# What is rare and may be long comes last, so that a look at the rest of a row does not touch it.
_SCHEMA = f"""
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, configuration TEXT NOT NULL,
    description TEXT NOT NULL, created TEXT NOT NULL, version TEXT NOT NULL,
    checksum INTEGER NOT NULL, n_done INTEGER NOT NULL DEFAULT 0,
    n_failed INTEGER NOT NULL DEFAULT 0, digest INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE trials (
    run INTEGER NOT NULL REFERENCES runs (id), trial INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('done', 'failed')), world INTEGER, score, seconds REAL,
    checksum INTEGER NOT NULL, part TEXT, payload BLOB, features BLOB, error TEXT,
    PRIMARY KEY (run, trial)
) WITHOUT ROWID;
CREATE TABLE notes (
    run INTEGER NOT NULL REFERENCES runs (id), name TEXT NOT NULL, value NOT NULL,
    checksum INTEGER NOT NULL, PRIMARY KEY (run, name)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

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
SAFE = "What was written before is not lost."


def companions(path: Path) -> list[Path]:
    """The files that SQLite puts beside a database: its write-ahead log and the index of that."""
    return [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]


@contextlib.contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the file system into a LogError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", None) or "SQLITE_MISUSE"
        remedies = (text for start, text in _REMEDIES.items() if name.startswith(start))
        remedy = next(remedies, "Run the same again")
        safe = "" if name.startswith(_UNREADABLE) else f" {SAFE}"
        raise LogError(f"store={path}: {error}. {remedy}.{safe}") from error
    except OSError as error:
        raise LogError(
            f"store={path}: {error.strerror or error}. The folder of a log must exist and be "
            f"writable. {SAFE}"
        ) from error


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """A connection that begins transactions only when told to."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """A transaction: either all that the block does is kept, or nothing of it."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


# ------------------------------------------------------------------------------- making


def make_log(path: Path) -> None:
    """Make an empty log in one step, private to the user: a file at the path is never half a log.

    If another process was faster, its log serves.
    """
    with new_file(path) as new:
        connection = connect(new)
        connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        with contextlib.suppress(FileExistsError):
            publish(new, path)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """An empty file beside a path, for a database that is made there and published."""
    remove_stale(path.parent, _NEW)
    new = path.with_name(f"{_NEW}{make_owned_name()}")
    with contextlib.ExitStack() as stack:
        for place in (new, new.with_name(f"{new.name}-journal"), *companions(new)):
            stack.enter_context(vanishing(place))
        make_private(new)
        yield new


def publish(new: Path, path: Path) -> None:
    """Give a database its place; FileExistsError if something is there.

    A write-ahead log that a deleted database has left at this name would be taken for one of the
    new database and written into it, so it goes first. The folder is locked meanwhile: if another
    process published between the look and the removal, the write-ahead log of its open database
    would be removed, with all that was written to it.
    """
    with lock_folder(path.parent):
        if not os.path.lexists(path):
            for beside in companions(path):
                beside.unlink(missing_ok=True)
        try:
            os.link(new, path)
        except FileExistsError:
            raise
        except OSError:  # A file system without hard links.
            new.rename(path)


# ------------------------------------------------------------------------------- vetting


def vet(path: Path, *, is_open: bool = False) -> int:
    """The version of a sound trial log; another file is refused and left as it is.

    Args:
        path: the file.
        is_open: whether this process has it open as a log already. Then its header is not read
            again: closing any handle of a file takes all POSIX locks of the process on it away,
            also those that keep SQLite's connections from overwriting each other.

    Raises:
        LogError: it is no trial log, is damaged, or was written by a newer dpassay.

    """
    if not path.is_file():  # a pipe would never end, a device is none
        reason = "it is not a regular file" if path.exists() else "there is no such file"
        raise LogError(
            f"store={path}: {reason}. Pass the path of a trial log. Nothing was changed."
        )
    if not is_open:
        _check_header(path)
    # Read-only, because the last connection to close writes the write-ahead log into the file.
    with contextlib.closing(connect(path, "ro")) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        _check_version(path, version)
        fault = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if fault != "ok":
        raise LogDamaged(
            f"store={path}: the log is damaged ({' '.join(fault.split())}). Restore a copy, or "
            "move it away to start anew. Nothing was changed."
        )
    return version


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        what = "is empty" if not header else "is not an SQLite database"
        raise _refusal(path, f"the file {what} and so no trial log")
    if header[68:72] != APPLICATION_ID.to_bytes(4, "big"):
        raise _refusal(path, "the file is an SQLite database of another program")


def _check_version(path: Path, version: int) -> None:
    if not 1 <= version <= NEWEST_VERSION:
        raise LogError(
            f"store={path}: the log has schema {version}, this dpassay ({__version__}) reads 1 to "
            f"{NEWEST_VERSION}. Upgrade dpassay, or pass another store=. Nothing was changed."
        )


def _refusal(path: Path, fault: str) -> LogError:
    return LogError(
        f"store={path}: {fault}. Pass another store=, or move this file away. Nothing was changed."
    )


# ------------------------------------------------------------------------------- version 1

_OLD_DESCRIPTION = "~description"  # where version 1 kept it, beside the settings


def migrate(path: Path) -> None:
    """Turn a log of version 1 into one of version 2, in one transaction; other logs stay as is.

    Rows get the checksums of what they are now: what happened before cannot be found out. The file
    becomes private to the user, which logs of version 1 were not.
    """
    with contextlib.closing(connect(path)) as connection:
        with transaction(connection, "BEGIN EXCLUSIVE"):
            if connection.execute("PRAGMA user_version").fetchone()[0] != 1:
                return  # Another process was faster.
            for table in ("runs", "trials"):
                connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            runs = connection.execute("SELECT * FROM old_runs ORDER BY id").fetchall()
            for run, key, configuration, created, version in runs:
                settings = damage.parse(configuration)
                about = settings.pop(_OLD_DESCRIPTION, {})
                plain = json.dumps(settings, sort_keys=True)
                asked = json.dumps(about, sort_keys=True)
                insert_run(connection, run, (key, plain, asked, created, version))
                _copy_trials(connection, run, key)
            for table in ("trials", "runs"):
                connection.execute(f"DROP TABLE old_{table}")
        for place in (path, *companions(path)):
            with contextlib.suppress(OSError):  # It may be another user's, shared with this one.
                place.chmod(0o600)


def insert_run(
    connection: sqlite3.Connection,
    run: int | None,
    texts: tuple[str, str, str, str, str],
) -> None:
    """Write a run that has no trials yet, unless its key is known.

    Args:
        connection: in a transaction.
        run: its number; None for the next one.
        texts: its key, its configuration and description as JSON, when it was made, by which
            version of dpassay.

    """
    connection.execute(
        "INSERT OR IGNORE INTO runs "
        "(id, key, configuration, description, created, version, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (run, *texts, text_checksum(*texts)),
    )


def _copy_trials(connection: sqlite3.Connection, run: int, key: str) -> None:
    n_done = n_failed = digest = 0
    rows = connection.execute("SELECT * FROM old_trials WHERE run = ?", (run,))
    while some := rows.fetchmany(10_000):
        checksums = row_checksums(key, _of_version_1(some))
        connection.executemany(
            "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?, NULL, ?)",
            (
                (*row[:6], checksum, *row[6:])
                for row, checksum in zip(some, checksums.tolist(), strict=True)
            ),
        )
        failed = sum(row[2] == "failed" for row in some)
        n_done, n_failed = n_done + len(some) - failed, n_failed + failed
        digest = add_to_digest(digest, checksums)
    connection.execute(
        "UPDATE runs SET n_done = ?, n_failed = ?, digest = ? WHERE id = ?",
        (n_done, n_failed, digest, run),
    )


def _of_version_1(rows: list[tuple]) -> Outcomes:
    _, trials, states, worlds, scores, seconds, payloads, errors = zip(*rows, strict=True)
    return Outcomes(
        np.array(trials, dtype=np.int64),
        np.array([state == "failed" for state in states]),
        np.array([NO_WORLD if world is None else world for world in worlds], dtype=np.int8),
        np.array(scores, dtype=np.float64),  # None becomes NaN
        np.array(seconds, dtype=np.float64),
        {t: blob for t, blob in zip(trials, payloads, strict=True) if blob is not None},
        {t: text for t, text in zip(trials, errors, strict=True) if text is not None},
    )
