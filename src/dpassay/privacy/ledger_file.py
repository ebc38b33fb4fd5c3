"""The file of a ledger: its tables, what it refuses to be, and how an older one is brought up.

A ledger is an SQLite file that is known by ``application_id`` and has a name of its own, a random
token, so that a file that was removed, replaced or made by another program is noticed. Entries are
added and their state is settled; nothing else is ever changed.
"""

import json
import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from dpassay._files import make_private, special_kind
from dpassay.errors import InvalidArgument

VERSION = 2
_APPLICATION = 0x6470_6C67  # "dplg"
_PATIENCE = 60.0  # seconds that a writer waits for another
_TABLES = (
    """CREATE TABLE entries (
    number INTEGER PRIMARY KEY, moment TEXT NOT NULL, what TEXT NOT NULL,
    n_records INTEGER, event TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'done', owner TEXT)""",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE budgets (
    number INTEGER PRIMARY KEY, moment TEXT NOT NULL,
    reason TEXT NOT NULL, budget TEXT NOT NULL)""",
)
# Programs of version 1 read this view and fail to write to it: they would not see the budget.
_VIEW = "CREATE VIEW spending AS SELECT number, moment, what, n_records, event FROM entries"


@contextmanager
def transaction(path: Path, token: str | None, *, make: bool) -> Generator[sqlite3.Connection]:
    """The only writer of a ledger, from the first read on: what is checked is what is written on.

    Args:
        path: the file.
        token: the name of the ledger that is expected there; None takes any.
        make: whether a file that is not there may be made.

    Raises:
        InvalidArgument: it is no ledger, is missing, or is another ledger; nothing was written.

    """
    _check_place(path, token, make)
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            try:
                _bring_up(file, path)
                _check_token(file, path, token)
                yield file
            except BaseException:
                file.execute("ROLLBACK")
                raise
            file.execute("COMMIT")
    except sqlite3.Error as error:  # its words are about the file, not about what it holds
        raise InvalidArgument(
            f"path={str(path)!r} cannot be used as a ledger: {error}. Nothing was spent."
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise InvalidArgument(
            f"path={str(path)!r}: the ledger is damaged. Restore a copy. Nothing was spent."
        ) from None


def _check_place(path: Path, token: str | None, make: bool) -> None:
    if (what := special_kind(path)) is not None:
        raise InvalidArgument(f"path={str(path)!r} is not a file but {what}.")
    if path.exists():
        return
    if token is not None:
        raise InvalidArgument(
            f"path={str(path)!r}: the ledger was there and is gone. A new one would forget what "
            "was spent; restore the file. Nothing was spent."
        )
    if not make:
        raise InvalidArgument(
            f"path={str(path)!r}: there is no ledger. Make one with its budget, e.g. by "
            f"dpassay ledger new {path} --epsilon 3 --delta 1e-6."
        )
    make_private(path)


def _check_token(file: sqlite3.Connection, path: Path, token: str | None) -> None:
    if token is not None and read_meta(file, "token") != token:
        raise InvalidArgument(
            f"path={str(path)!r}: this is another ledger than the one that was there before. Put "
            "that one back. Nothing was spent."
        )


def _bring_up(file: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file, migrate those of version 1, refuse all else."""
    version = file.execute("PRAGMA user_version").fetchone()[0]
    application = file.execute("PRAGMA application_id").fetchone()[0]
    names = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
    if application == _APPLICATION and version == VERSION:
        return
    if application == _APPLICATION and version > VERSION:
        raise InvalidArgument(
            f"path={str(path)!r} is a ledger of version {version}, newer than {VERSION}. Upgrade "
            "dpassay. Nothing was spent."
        )
    if names and not (application == version == 0 and names == {"spending"}):
        raise InvalidArgument(
            f"path={str(path)!r} cannot be used as a ledger: it is a data base of another program. "
            "Nothing was spent."
        )
    _make_tables(file, migrate=bool(names))


def _make_tables(file: sqlite3.Connection, *, migrate: bool) -> None:
    tables = _TABLES
    if migrate:
        file.execute("ALTER TABLE spending RENAME TO entries")
        file.execute("ALTER TABLE entries ADD COLUMN state TEXT NOT NULL DEFAULT 'done'")
        file.execute("ALTER TABLE entries ADD COLUMN owner TEXT")
        tables = _TABLES[1:]
    for table in (*tables, _VIEW):
        file.execute(table)
    file.execute(f"PRAGMA application_id = {_APPLICATION}")
    file.execute(f"PRAGMA user_version = {VERSION}")
    write_meta(file, "token", token_hex(16))
    write_meta(file, "created", now())


def read_meta(file: sqlite3.Connection, key: str) -> Any:
    """What the ledger says of itself under a key; None if it says nothing."""
    row = file.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else json.loads(row[0])


def write_meta(file: sqlite3.Connection, key: str, value: Any) -> None:
    """Write down a fact about the ledger, once."""
    file.execute("INSERT INTO meta VALUES (?, ?)", (key, json.dumps(value)))


def now() -> str:
    """The moment of an entry."""
    return datetime.now(UTC).isoformat()


def owner() -> str:
    """Who reserves: the process, so that a person can tell whether it still lives."""
    return f"process {os.getpid()} on {os.uname().nodename}"
