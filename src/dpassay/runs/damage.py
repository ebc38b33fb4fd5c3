"""Rows of a log that are not what was written: which ones, and how the reader is told."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay._handed import parse_json
from dpassay.errors import LogDamaged
from dpassay.runs.blobs import compact
from dpassay.runs.checksums import add_to_digest
from dpassay.runs.outcomes import NO_WORLD, Outcomes

NAMED_MAX = 12  # trials named in an error
_ROW = np.dtype(
    [
        ("trial", np.int64),
        ("failed", np.bool_),
        ("world", np.int8),
        ("score", np.float64),
        ("seconds", np.float64),
        ("checksum", np.int64),
    ]
)
# NULL is NaN: SQLite has no NaN.
_COLUMNS = (
    f"trial, state = 'failed', coalesce(world, {NO_WORLD}), coalesce(score, 'nan'), "
    "coalesce(seconds, 'nan'), checksum"
)
_WRONG = (TypeError, ValueError, OverflowError, KeyError, AttributeError)


def check(good: bool) -> None:
    """Raise what :func:`name_damage` turns into LogDamaged."""
    if not good:
        raise ValueError


@contextlib.contextmanager
def name_damage(path: Path, what: str) -> Iterator[None]:
    """Turn errors about values that nobody wrote so into a LogDamaged with these words."""
    try:
        yield
    except _WRONG:
        raise damage_error(path, what) from None


def parse(text: str) -> Any:
    """What a JSON text of a log holds, bounded in depth and in the length of its numbers."""
    return parse_json("", text, infinite=True)


def damage_error(path: Path, what: str) -> LogDamaged:
    """The error to raise, which says what can be done."""
    return LogDamaged(
        f"store={path}: the log is damaged: {what}. Restore a copy, or move it away and play "
        "again. Nothing was changed."
    )


class Rows:
    """Reads the rows of a run into columns.

    Args:
        path: of the log, for errors.
        key: of the run.
        ask: gives the rows of a query with one parameter, the run's number.

    """

    def __init__(self, path: Path, key: str, ask: Callable[[str], sqlite3.Cursor]) -> None:
        self._path, self._key, self._ask = path, key, ask

    def read(self, where: str) -> tuple[Outcomes, NDArray[np.int64], dict[int, str]]:
        """Outcomes in number order, the checksums that the log has for them, and their parts."""
        plain = self._table(f"SELECT {_COLUMNS} {where} ORDER BY trial")
        rare = self._ask(
            f"SELECT trial, payload, features, error, part {where} AND (payload IS NOT NULL OR "
            "features IS NOT NULL OR error IS NOT NULL OR part IS NOT NULL)"
        ).fetchall()
        outcomes = Outcomes(
            np.ascontiguousarray(plain["trial"]),
            np.ascontiguousarray(plain["failed"]),
            np.ascontiguousarray(plain["world"]),
            np.ascontiguousarray(plain["score"]),
            np.ascontiguousarray(plain["seconds"]),
            payloads={row[0]: row[1] for row in rare if row[1] is not None},
            features=compact({row[0]: row[2] for row in rare if row[2] is not None}),
            errors={row[0]: row[3] for row in rare if row[3] is not None},
        )
        parts = {row[0]: str(row[4]) for row in rare if row[4] is not None}
        return outcomes, np.ascontiguousarray(plain["checksum"]), parts

    def _table(self, query: str) -> NDArray[Any]:
        try:
            return np.fromiter(self._ask(query), dtype=_ROW)
        except _WRONG:
            wrong = [row[0] for row in self._ask(query) if not _fits(row)]
            raise damage_error(self._path, f"run {self._key[:12]}: {_say_changed(wrong)}") from None


def _fits(row: tuple[Any, ...]) -> bool:
    try:
        np.array([row], dtype=_ROW)
    except _WRONG:
        return False
    return True


def refuse(
    path: Path,
    key: str,
    outcomes: Outcomes,
    wrong: NDArray[np.int64],
    checksums: NDArray[np.int64],
    whole: tuple[int, int, int] | None,
) -> None:
    """Raise LogDamaged if rows are wrong, or are not all that were written.

    Args:
        path: of the log.
        key: of the run.
        outcomes: what was read.
        wrong: the trials whose checksums do not fit.
        checksums: those that the log has.
        whole: if all trials of the run were read, how many were written as done and as failed,
            and their digest.

    """
    faults = [_say_changed(wrong.tolist())] if wrong.size else []
    if whole is not None:
        n_done, n_failed, digest = whole
        missing = n_done + n_failed - len(outcomes)
        if missing:
            faults.append(_missing(outcomes.trials, missing))
        elif not faults and (
            add_to_digest(0, checksums) != digest or outcomes.n_failed != n_failed
        ):
            faults.append("its trials are not those that were written, though their number is")
    if faults:
        raise damage_error(path, f"run {key[:12]}: {'; '.join(faults)}")


def _say_changed(trials: list[Any]) -> str:
    if len(trials) == 1:
        return f"trial {trials[0]} was changed after it was written"
    return f"{len(trials)} trials were changed after they were written ({_few(trials)})"


def _missing(trials: NDArray[np.int64], missing: int) -> str:
    """Which trials are missing, as far as gaps in their numbers show it."""
    if missing < 0:
        return f"it holds {-missing} trials more than were written"
    verb = "trial is" if missing == 1 else "trials are"
    numbers = np.concatenate([[-1], trials])
    steps = np.diff(numbers)
    gaps: list[int] = []
    for at in np.flatnonzero(steps > 1)[: NAMED_MAX + 1]:
        gaps.extend(range(numbers[at] + 1, min(numbers[at + 1], numbers[at] + NAMED_MAX + 2)))
    n_gaps = int(np.sum(steps - 1))
    if n_gaps < missing:
        last = f"after trial {numbers[-1]}" if trials.size else "all of them"
        where = f"{_few(gaps)} and {last}" if gaps else last
    else:
        where = _few(gaps) if n_gaps == missing else f"among {_few(gaps)}"
    return f"{missing} {verb} missing ({where})"


def _few(trials: list[Any]) -> str:
    shown = ", ".join(str(trial) for trial in trials[:NAMED_MAX])
    return f"{shown}, ..." if len(trials) > NAMED_MAX else shown
