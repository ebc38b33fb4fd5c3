"""What a ledger holds: entries, budgets, and what they come to.

An entry is what was charged, a budget what may be; :mod:`dpassay.privacy.ledger` keeps both in a
file and compares them.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from dpassay._handed import parse_json
from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy.accounting import AccountMethod, account
from dpassay.privacy.curves import ApproxDP, PureDP
from dpassay.privacy.events import Event, from_dict
from dpassay.privacy.filters import Adaptive
from dpassay.types import Neighbouring

State = Literal["reserved", "done", "failed"]
# Methods that are asked before the best one, which can take a second per event: cheapest first.
_QUICK: tuple[AccountMethod, ...] = ("gdp", "rdp", "basic")


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


@dataclass(frozen=True)
class Terms:
    """What the opener of a ledger asked for."""

    budget: ApproxDP | None
    unit: str | None
    adaptive: Adaptive | None


def as_budget(budget: Any) -> ApproxDP | None:
    """A budget as (epsilon, delta); None for none; an error for all else."""
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


def budget_text(budget: ApproxDP) -> str:
    """A budget as it is written into the file; see :func:`read_budget`."""
    return json.dumps(
        {
            "epsilon": budget.epsilon_upper,
            "delta": budget.delta_upper,
            "neighbouring": budget.neighbouring,
        }
    )


def total_epsilon(total: Event, delta: float, limit: float) -> float:
    """An upper bound on the epsilon of a total; the best one unless a quick one is within limit."""
    for method in _QUICK:
        try:
            epsilon = float(account(total, method).epsilon(delta))
        except UnsupportedEvent:
            continue
        if epsilon <= limit:
            return epsilon
    return float(account(total).epsilon(delta))


def read_event(path: Any, text: Any) -> Event:
    """An event as it was written; a ledger that somebody changed is refused, not guessed at."""
    shown = f"path={str(path)!r}: an entry of the ledger"
    try:
        return from_dict(parse_json(shown, text, infinite=True))
    except (LookupError, TypeError, AttributeError):
        raise InvalidArgument(f"{shown} is damaged. Restore a copy.") from None


def read_moment(path: Any, text: Any) -> datetime:
    """The moment of an entry as it was written."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"path={str(path)!r}: an entry of the ledger is damaged. Restore a copy."
        ) from None


def read_budget(path: Any, text: Any) -> ApproxDP:
    """A budget as it was written."""
    shown = f"path={str(path)!r}: the budget of the ledger"
    try:
        known = parse_json(shown, text, infinite=True)
        relation: Neighbouring = known["neighbouring"]
        return ApproxDP(known["epsilon"], known["delta"], neighbouring=relation)
    except (LookupError, TypeError):
        raise InvalidArgument(f"{shown} is damaged. Restore a copy.") from None
