"""A record of what was spent on one data set, shared by everything that fits on it.

It lives in a file. Clones, copies, pickles and other processes that hold the same path write to the
same record, so that cross-validation and searches are counted: a budget that lived in the object
would be copied with it and forget.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpassay._files import make_private, special_kind
from dpassay._handed import parse_json
from dpassay.errors import BudgetExceeded, InvalidArgument
from dpassay.privacy import ApproxDP, Event, Sequence, account
from dpassay.privacy.events import from_dict
from dpassay.types import PrivacyCurve

_PATIENCE = 60.0  # seconds that a writer waits for another
_TABLE = """CREATE TABLE IF NOT EXISTS spending (
    number INTEGER PRIMARY KEY, moment TEXT NOT NULL, what TEXT NOT NULL,
    n_records INTEGER, event TEXT NOT NULL)"""


@dataclass(frozen=True)
class Entry:
    """One fit: when, by what, on how many records (public), and the event; never any data."""

    moment: datetime
    what: str
    n_records: int | None
    event: Event


class Ledger:
    """What all fits on one data set cost together, kept in a file; optionally with a limit.

    Args:
        path: the file (SQLite); made at the first entry. One ledger per data set.
        budget: the most that may be spent in all, for example ``ApproxDP(3.0, 1e-5)``. An event
            that would exceed it is refused before any data is touched, and leaves no entry.

    The total is what the events cost together, by the best accountant. What is fitted later may
    depend on earlier results. Where even the *events* (how much is spent next) do, that the total
    still holds is proved for Rényi and zCDP prices (Feldman and Zrnic 2021), not for all others:
    decide beforehand what each fit may spend.

    Fits on parts of the data, as in cross-validation, are added up like fits on the whole: an upper
    bound, since a record that is not in a part costs nothing there.

    >>> import tempfile
    >>> from dpassay.privacy import Gaussian
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(Path(folder) / "spent.db", budget=ApproxDP(1.0, 1e-5))
    ...     ledger.record(Gaussian(10.0), what="count")
    ...     ledger.spent(1e-5)
    0.34066

    """

    def __init__(self, path: str | os.PathLike[str], *, budget: ApproxDP | None = None) -> None:
        # Absolute: a worker process may run elsewhere.
        self.path = Path(path).absolute()
        if budget is not None and not isinstance(budget, ApproxDP):
            raise InvalidArgument(
                f"budget={budget!r} must be ApproxDP, for example ApproxDP(3.0, 1e-5)."
            )
        self.budget = budget

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, budget={self.budget!r})"

    def record(self, event: Event, *, what: str, n_records: int | None = None) -> None:
        """Add an event, unless it would exceed the budget.

        Raises:
            BudgetExceeded: the total would be above the budget; nothing was written.
            InvalidArgument: its neighbouring relation is not that of the entries before.

        """
        with self._transaction() as file:
            events = [self._event(text) for (text,) in file.execute(_ALL_EVENTS)]
            total = Sequence((*events, event))  # refuses a mix of neighbouring relations
            if self.budget is not None:
                _within(self.budget, total, len(events))
            moment = datetime.now(UTC).isoformat()
            row = (moment, what, n_records, json.dumps(event.as_dict()))
            file.execute(_INSERT, row)

    def entries(self) -> list[Entry]:
        """All that was recorded, in order."""
        if not self.path.exists():
            return []
        with self._transaction() as file:
            rows = file.execute("SELECT moment, what, n_records, event FROM spending").fetchall()
        return [
            Entry(self._moment(moment), str(what), n, self._event(event))
            for moment, what, n, event in rows
        ]

    def _event(self, text: Any) -> Event:
        """An event as it was written; a ledger that somebody changed is refused, not guessed at."""
        shown = f"path={str(self.path)!r}: an entry of the ledger"
        try:
            return from_dict(parse_json(shown, text, infinite=True))
        except (LookupError, TypeError, AttributeError):
            raise InvalidArgument(f"{shown} is damaged. Restore a copy.") from None

    def _moment(self, text: Any) -> datetime:
        try:
            return datetime.fromisoformat(text)
        except (TypeError, ValueError):
            raise InvalidArgument(
                f"path={str(self.path)!r}: an entry of the ledger is damaged. Restore a copy."
            ) from None

    def privacy(self) -> PrivacyCurve | None:
        """The privacy curve of everything together: an upper bound; None if nothing was spent."""
        events = tuple(entry.event for entry in self.entries())
        return account(Sequence(events)) if events else None

    def spent(self, delta: float) -> float:
        """The epsilon at this delta of everything together: an upper bound."""
        curve = self.privacy()
        return float(curve.epsilon(delta)) if curve is not None else 0.0

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The only writer, from the first read on: what is checked is what is written on."""
        if (what := special_kind(self.path)) is not None:
            raise InvalidArgument(f"path={str(self.path)!r} is not a file but {what}.")
        make_private(self.path)
        try:
            with closing(
                sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
            ) as file:
                file.execute("BEGIN IMMEDIATE")
                try:
                    file.execute(_TABLE)
                    yield file
                except BaseException:
                    file.execute("ROLLBACK")
                    raise
                file.execute("COMMIT")
        except sqlite3.Error as error:  # its words are about the file, not about what it holds
            raise InvalidArgument(
                f"path={str(self.path)!r} cannot be used as a ledger: {error}. Nothing was spent."
            ) from None


_ALL_EVENTS = "SELECT event FROM spending ORDER BY number"
_INSERT = "INSERT INTO spending (moment, what, n_records, event) VALUES (?, ?, ?, ?)"


def _within(budget: ApproxDP, total: Event, n_before: int) -> None:
    """Refuse a total above the budget, or under another neighbouring relation."""
    if total.neighbouring != budget.neighbouring:
        raise InvalidArgument(
            f"neighbouring={total.neighbouring!r} of the event is not that of the ledger's budget, "
            f"{budget.neighbouring!r}. Keep one relation per ledger."
        )
    epsilon = float(account(total).epsilon(budget.delta_upper))
    if not epsilon <= budget.epsilon_upper:
        raise BudgetExceeded(
            f"this fit would bring the total to epsilon={epsilon:.4g} at "
            f"delta={budget.delta_upper:g}, above the budget of {budget.epsilon_upper:g}; "
            f"{n_before} entries are in the ledger. Nothing was spent and no data was touched."
        )
