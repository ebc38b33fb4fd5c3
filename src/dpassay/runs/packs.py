"""Many rows of a log in one: trials that are done, packed in columns, instead of a row each.

A log of a million rows takes a minute to read and twice the room that it needs. So once a run has
many rows, the oldest plain ones (done, with a score, neither payload nor error) are put into a
*pack*, and their rows are deleted, in one transaction. A pack holds numbers, worlds, scores,
seconds, features and parts of its trials bit for bit, compressed, with one checksum; and the sum of
the checksums that its rows had, so that the digest of the run is what it was.

The first pack of a file makes it a log of version 3, which earlier versions of dpassay refuse.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.runs import damage
from dpassay.runs.blobs import Blobs, compact
from dpassay.runs.checksums import add_to_digest, row_checksums, text_checksum
from dpassay.runs.outcomes import Outcomes

PACKED = 2**14  # trials in a pack
VERSION = 3  # of the schema, from the first pack on
_TABLE = """
CREATE TABLE IF NOT EXISTS packs (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs (id), low INTEGER NOT NULL,
    high INTEGER NOT NULL, n INTEGER NOT NULL, digest INTEGER NOT NULL,
    checksum INTEGER NOT NULL, numbers BLOB NOT NULL, content BLOB NOT NULL
)
"""
_PLAIN = "state = 'done' AND payload IS NULL AND error IS NULL"


@dataclass(frozen=True)
class Pack:
    """Trials that were read from a pack, with the parts that they were played for."""

    outcomes: Outcomes
    parts: Mapping[int, str]
    digest: int


def has_packs(connection: sqlite3.Connection) -> bool:
    """Whether a log has the table of packs."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'packs'"
    return connection.execute(query).fetchone() is not None


def pack_rows(connection: sqlite3.Connection, path: Path, run: int, key: str) -> bool:
    """Pack the oldest rows of a run, if there are many; whether something was packed.

    It is called in a transaction. Rows that are not what was written are left for the reader to
    tell.
    """
    query = "SELECT trial FROM trials WHERE run = ? ORDER BY trial LIMIT 1 OFFSET ?"
    if connection.execute(query, (run, 2 * PACKED - 1)).fetchone() is None:
        return False
    high = connection.execute(query, (run, PACKED - 1)).fetchone()[0]
    where = f"FROM trials WHERE run = ? AND trial <= {high} AND {_PLAIN}"
    rows = damage.Rows(path, key, lambda text: connection.execute(text, (run,)))
    outcomes, checksums, parts = rows.read(where)
    features = compact(outcomes.features)
    whole = isinstance(features, Blobs) and len(features) == len(outcomes)
    if len(outcomes) < PACKED // 2 or (features and not whole):
        return False
    if np.any(row_checksums(key, outcomes, parts) != checksums):
        return False
    _write(connection, run, key, outcomes, features, parts, checksums)
    connection.execute(f"DELETE {where}", (run,))
    return True


def _write(
    connection: sqlite3.Connection,
    run: int,
    key: str,
    outcomes: Outcomes,
    features: Mapping[int, bytes],
    parts: Mapping[int, str],
    checksums: NDArray[np.int64],
) -> None:
    connection.execute(_TABLE)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    trials = outcomes.trials
    numbers = zlib.compress(np.diff(trials, prepend=0).tobytes(), 1)
    content = _encode(outcomes, features, parts)
    digest = add_to_digest(0, checksums)
    low, high, n = int(trials[0]), int(trials[-1]), len(outcomes)
    checksum = _checksum(key, (low, high, n, digest), numbers, content)
    connection.execute(
        "INSERT INTO packs (run, low, high, n, digest, checksum, numbers, content) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (run, low, high, n, digest, checksum, numbers, content),
    )


def _checksum(key: str, facts: tuple[int, ...], numbers: bytes, content: bytes) -> int:
    return text_checksum(key, repr(facts), numbers, content)


def _encode(outcomes: Outcomes, features: Mapping[int, bytes], parts: Mapping[int, str]) -> bytes:
    """The columns one after the other, behind a line of JSON that says what they are."""
    names = sorted(set(parts.values()))
    places = {name: i for i, name in enumerate(names)}
    codes = np.array([places.get(parts.get(t, ""), -1) for t in outcomes.trials.tolist()], np.int32)
    width = features.width if isinstance(features, Blobs) else 0
    head = json.dumps({"parts": names, "width": width}).encode() + b"\n"
    columns = [outcomes.worlds.astype(np.int8), outcomes.scores, outcomes.seconds, codes]
    columns += [features.rows] if isinstance(features, Blobs) else []
    # Bytes of the same place together: exponents compress, digits do not.
    packed = [np.ascontiguousarray(column).view(np.uint8).reshape(len(outcomes), -1).T
              for column in columns]  # fmt: skip
    return head + zlib.compress(b"".join(part.tobytes() for part in packed), 1)


def _decode(content: bytes, trials: NDArray[np.int64], digest: int) -> Pack:
    line, _, rest = content.partition(b"\n")
    head = json.loads(line)
    n, width, names = trials.size, int(head["width"]), head["parts"]
    table = np.frombuffer(_inflate(rest), np.uint8).reshape(-1, n)
    starts = np.cumsum([0, 1, 8, 8, 4, width])
    damage.check(starts[-1] == len(table))

    def column(i: int, kind: Any) -> NDArray[Any]:
        part = np.ascontiguousarray(table[starts[i] : starts[i + 1]].T)
        return part.view(kind)[:, 0]

    codes = column(3, np.int32)
    named = np.flatnonzero(codes >= 0)
    parts = dict(zip(trials[named].tolist(), (names[i] for i in codes[named]), strict=True))
    rows = np.ascontiguousarray(table[starts[4] :].T)
    outcomes = Outcomes(
        trials,
        np.zeros(n, bool),
        column(0, np.int8),
        column(1, np.float64),
        column(2, np.float64),
        features=Blobs(trials, rows) if width else {},
    )
    return Pack(outcomes, parts, digest)


class Packs:
    """The packs of an open log.

    Args:
        connection: to the log.
        path: of the log, for errors.

    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._numbers: dict[int, NDArray[np.int64]] = {}  # they never change

    def known(self, run: int, low: int, high: int) -> NDArray[np.int64]:
        """The trials between two numbers, these included, that are in packs."""
        found = [np.empty(0, np.int64)]
        query = "SELECT id FROM packs WHERE run = ? AND low <= ? AND high >= ?"
        if has_packs(self._connection):
            for (pack,) in self._connection.execute(query, (run, high, low)).fetchall():
                trials = self._trials(pack)
                found.append(trials[(trials >= low) & (trials <= high)])
        return np.concatenate(found)

    def _trials(self, pack: int) -> NDArray[np.int64]:
        if pack not in self._numbers:
            query = "SELECT CAST(numbers AS BLOB) FROM packs WHERE id = ?"
            (numbers,) = self._connection.execute(query, (pack,)).fetchone()
            self._numbers[pack] = _read_numbers(numbers)
        return self._numbers[pack]

    def read(self, run: int, key: str, between: tuple[int, int] | None) -> Iterator[Pack]:
        """The packs of a run, or what they hold between two trials, these included.

        Raises:
            LogDamaged: a pack is not what was written.

        """
        if not has_packs(self._connection):
            return
        low, high = between or (0, 2**62)
        query = (
            "SELECT low, high, n, digest, checksum, CAST(numbers AS BLOB), CAST(content AS BLOB) "
            "FROM packs WHERE run = ? AND low <= ? AND high >= ? ORDER BY id"
        )
        for *facts, checksum, numbers, content in self._connection.execute(query, (run, high, low)):
            what = f"run {key[:12]}: the trials {facts[0]} to {facts[1]} were changed"
            with damage.name_damage(self._path, what):
                pack = _read_pack(key, tuple(facts), checksum, numbers, content)
            trials = pack.outcomes.trials
            inside = (trials >= low) & (trials <= high)
            yield pack if inside.all() else Pack(pack.outcomes[inside], pack.parts, 0)


def _read_pack(
    key: str, facts: tuple[int, ...], checksum: int, numbers: bytes, content: bytes
) -> Pack:
    damage.check(_checksum(key, facts, numbers, content) == checksum)
    trials = _read_numbers(numbers)
    damage.check(trials.size == facts[2])
    return _decode(content, trials, facts[3])


def _read_numbers(numbers: bytes) -> NDArray[np.int64]:
    return np.cumsum(np.frombuffer(_inflate(numbers), np.int64))


def _inflate(content: bytes) -> bytes:
    try:
        return zlib.decompress(content)
    except zlib.error:
        raise ValueError from None
