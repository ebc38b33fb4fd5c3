"""The rows of a ledger: what is written into its file, and how it is read again.

A row that cannot be read is refused, never guessed at: leaving it out would forget what was spent.
"""

import json
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from dpassay._handed import parse_json
from dpassay.errors import InvalidArgument
from dpassay.privacy.curves import ApproxDP, PureDP
from dpassay.privacy.events import Event, from_dict
from dpassay.privacy.filters import Filter
from dpassay.privacy.ledger_file import now, owner, read_meta
from dpassay.types import Neighbouring

State = Literal["reserved", "done", "failed"]
_ALL_ENTRIES = (
    "SELECT number, moment, what, n_records, event, state, owner FROM entries ORDER BY number"
)
_ALL_BUDGETS = "SELECT moment, reason, budget FROM budgets ORDER BY number"
_INSERT = (
    "INSERT INTO entries (moment, what, n_records, event, state, owner) VALUES (?, ?, ?, ?, ?, ?)"
)
_INSERT_BUDGET = "INSERT INTO budgets (moment, reason, budget) VALUES (?, ?, ?)"


@dataclass(frozen=True)
class Entry:
    """One release: when, by what, on how many records (public), and the event; never any data.

    Attributes:
        state: "done"; "failed", if it ended with an error; "reserved", while it is under way or if
            its process died. All of them are charged.
        owner: the process that reserved it.

    """

    moment: datetime
    what: str
    n_records: int | None
    event: Event
    state: State = "done"
    owner: str | None = None
    number: int = 0


@dataclass(frozen=True)
class BudgetChange:
    """A budget that was written into the ledger: the first one, or an amendment and its reason."""

    moment: datetime
    reason: str
    budget: ApproxDP


def read_entries(file: sqlite3.Connection, path: Path) -> list[Entry]:
    """All that was charged, in order."""
    return [
        Entry(_moment(moment, path), str(what), n, _event(text, path), state, whose, number)
        for number, moment, what, n, text, state, whose in file.execute(_ALL_ENTRIES)
    ]


def write_entry(
    file: sqlite3.Connection, event: Event, what: str, n_records: int | None, state: State
) -> Entry:
    """Write an entry of this process, made now."""
    row = (now(), what, n_records, json.dumps(event.as_dict()), state, owner())
    number = int(file.execute(_INSERT, row).lastrowid or 0)
    return Entry(datetime.fromisoformat(row[0]), what, n_records, event, state, row[5], number)


def write_state(file: sqlite3.Connection, number: int, state: State) -> None:
    """Write how a reserved entry ended."""
    file.execute("UPDATE entries SET state = ? WHERE number = ?", (state, number))


def read_budgets(file: sqlite3.Connection, path: Path) -> list[BudgetChange]:
    """Every budget that the ledger has had, the first one first."""
    return [
        BudgetChange(_moment(moment, path), str(reason), _budget(text, path))
        for moment, reason, text in file.execute(_ALL_BUDGETS).fetchall()
    ]


def last_budget(file: sqlite3.Connection, path: Path) -> ApproxDP | None:
    """The budget that holds now; None if there never was one."""
    rows = file.execute(_ALL_BUDGETS).fetchall()
    return _budget(rows[-1][2], path) if rows else None


def write_budget(file: sqlite3.Connection, budget: ApproxDP, reason: str) -> None:
    """Write a budget that holds from now on."""
    known = {"epsilon": budget.epsilon_upper, "delta": budget.delta_upper}
    text = json.dumps(known | {"neighbouring": budget.neighbouring})
    file.execute(_INSERT_BUDGET, (now(), reason, text))


def read_filter(file: sqlite3.Connection, path: Path) -> Filter | None:
    """The rule for amounts that depend on earlier results; None if they must not."""
    kept = read_meta(file, "filter")
    try:
        return None if kept is None else Filter(kept["kind"], kept["order"])
    except (LookupError, TypeError):
        raise _say_damaged(path, "the ledger") from None


def _event(text: Any, path: Path) -> Event:
    try:
        return from_dict(parse_json(_name(path, "an entry of the ledger"), text, infinite=True))
    except (LookupError, TypeError, AttributeError):
        raise _say_damaged(path, "an entry of the ledger") from None


def _moment(text: Any, path: Path) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise _say_damaged(path, "an entry of the ledger") from None


def _budget(text: Any, path: Path) -> ApproxDP:
    try:
        known = parse_json(_name(path, "the budget of the ledger"), text, infinite=True)
        relation: Neighbouring = known["neighbouring"]
        return ApproxDP(known["epsilon"], known["delta"], neighbouring=relation)
    except (LookupError, TypeError):
        raise _say_damaged(path, "the budget of the ledger") from None


def _name(path: Path, part: str) -> str:
    return f"path={str(path)!r}: {part}"


def _say_damaged(path: Path, part: str) -> InvalidArgument:
    return InvalidArgument(f"{_name(path, part)} is damaged. Restore a copy.")


def as_budget(budget: Any) -> ApproxDP | None:
    """A budget as the file gives it back; None stays None."""
    if isinstance(budget, PureDP):
        return ApproxDP(budget.epsilon_upper, 0.0, neighbouring=budget.neighbouring)
    if budget is None:
        return None
    if not isinstance(budget, ApproxDP):
        raise InvalidArgument(
            f"budget={budget!r} must be ApproxDP or PureDP, for example ApproxDP(3.0, 1e-5)."
        )
    # As the file will give it back, so that the two can be compared.
    return ApproxDP(budget.epsilon_upper, budget.delta_upper, neighbouring=budget.neighbouring)
