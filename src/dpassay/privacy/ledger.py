"""A record of what was spent on one data set, shared by everything that releases something of it.

It lives in a file. Clones, copies, pickles and other processes that hold the same path write to the
same record, so that cross-validation and searches are counted: a budget that lived in the object
would be copied with it and forget. The budget is in the file too, so that nobody can open it with
another one.

**What is charged.** An event is reserved before any data are touched, and settled afterwards as
done or failed. All three states count: an error, or how long it took until it came, is an output
as well, and a process that died may have published something before. Only a refusal leaves no
entry. So whatever touched the data has an entry, and the sum of the entries was within the budget
when each of them was made.
"""

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpassay import _check
from dpassay.errors import BudgetExceeded, InvalidArgument, UnsupportedEvent
from dpassay.privacy.accounting import AccountMethod, account
from dpassay.privacy.curves import ApproxDP, PureDP
from dpassay.privacy.events import Event, Sequence
from dpassay.privacy.filters import Adaptive, Filter, make_filter
from dpassay.privacy.ledger_file import read_meta, transaction, write_meta
from dpassay.privacy.ledger_rows import (
    BudgetChange,
    Entry,
    State,
    as_budget,
    last_budget,
    read_budgets,
    read_entries,
    read_filter,
    write_budget,
    write_entry,
    write_state,
)
from dpassay.types import PrivacyCurve

# Methods that are asked before the best one, which can take a second per event: cheapest first.
_QUICK: tuple[AccountMethod, ...] = ("gdp", "rdp", "basic")


class Ledger:
    """What all releases of one data set cost together, kept in a file; optionally with a limit.

    Args:
        path: the file (SQLite). One ledger per data set. With a budget it is made at once, else at
            the first entry.
        budget: the most that may be spent in all, for example ``ApproxDP(3.0, 1e-5)`` or
            ``PureDP(1.0)``; written into the file. A ledger that has one can be opened without
            naming it; naming another one is an error, see :meth:`amend`. An event that would exceed
            it is refused before any data are touched, and leaves no entry.
        unit: what the entries protect: "record", or what a record stands for, such as "patient".
        adaptive: None if what each release may spend is decided beforehand: then the total is that
            of the best accountant. "renyi" or "gaussian" (Gaussian noise alone, tighter) if later
            amounts may depend on earlier results: see :mod:`dpassay.privacy.filters`.

    Fits on parts of the data, as in cross-validation, are added up like fits on the whole: an upper
    bound, since a record that is not in a part costs nothing there.

    Raises:
        InvalidArgument: the file is something else, or was made with another budget, unit or rule.

    >>> import tempfile
    >>> from dpassay.privacy import Gaussian
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(Path(folder) / "spent.db", budget=ApproxDP(1.0, 1e-5))
    ...     with ledger.reserve(Gaussian(10.0), what="count"):
    ...         pass  # touch the data here
    ...     ledger.spent(1e-5)
    0.34066

    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        budget: ApproxDP | PureDP | None = None,
        unit: str | None = None,
        adaptive: Adaptive | None = None,
    ) -> None:
        # Absolute: a worker process may run elsewhere.
        self.path = Path(path).absolute()
        self._token: str | None = None
        self._asked = _Terms(as_budget(budget), unit, adaptive)
        if adaptive is not None:
            make_filter(adaptive, self._asked.budget)
        if budget is not None or self.path.exists():
            with self._transaction():
                pass

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, budget={self.budget!r})"

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Ledger":
        """A ledger that is there already; an error if it is not."""
        with transaction(Path(path).absolute(), None, make=False):
            pass
        return cls(path)

    # What it says of itself.

    @property
    def budget(self) -> ApproxDP | None:
        """The most that may be spent; None if there is no limit."""
        changes = self.budgets()
        return changes[-1].budget if changes else None

    @property
    def unit(self) -> str:
        """What the entries protect: one "record", or all records of one "user"."""
        return self._read("unit") or self._asked.unit or "record"

    @property
    def adaptive(self) -> Adaptive | None:
        """The rule for amounts that depend on earlier results; None if they must not."""
        found = self._filter()
        return None if found is None else found.kind

    def budgets(self) -> list[BudgetChange]:
        """The budget that the ledger was made with, and every amendment."""
        if not self._is_made():
            return []
        with self._transaction() as file:
            return read_budgets(file, self.path)

    # Spending.

    @contextmanager
    def reserve(self, event: Event, *, what: str, n_records: int | None = None) -> Generator[Entry]:
        """Charge an event; inside the block the data may be touched.

        Raises:
            BudgetExceeded: the total would be above the budget; nothing was written.
            InvalidArgument: its neighbouring relation is not that of the entries before.

        """
        entry = self._charge(event, what, n_records, "reserved")
        try:
            yield entry
        except BaseException:
            self._settle(entry.number, "failed")
            raise
        self._settle(entry.number, "done")

    def record(self, event: Event, *, what: str, n_records: int | None = None) -> None:
        """Charge an event whose release is somebody else's business; see :meth:`reserve`."""
        self._charge(event, what, n_records, "done")

    def amend(self, budget: ApproxDP | PureDP, *, reason: str) -> None:
        """Write another budget into the ledger, with the reason; the old one stays on record.

        An amendment that was decided on after results were seen is a choice that no theorem of
        composition covers: it is the owner's, and whoever reads the ledger sees it.
        """
        if not reason.strip():
            raise InvalidArgument("reason='' must say why the budget changes; it stays on record.")
        changed = as_budget(budget)
        if changed is None:
            raise InvalidArgument("budget=None: a limit cannot be taken away, only changed.")
        with self._transaction() as file:
            write_budget(file, changed, reason)

    def _charge(self, event: Event, what: str, n_records: int | None, state: State) -> Entry:
        with self._transaction() as file:
            entries = read_entries(file, self.path)
            self._check_fits(file, [entry.event for entry in entries], event, what)
            return write_entry(file, event, what, n_records, state)

    def _check_fits(
        self, file: sqlite3.Connection, before: list[Event], event: Event, what: str
    ) -> None:
        """Refuse what is above the budget, or a mix of neighbouring relations."""
        total = Sequence((*before, event))
        budget = last_budget(file, self.path)
        if budget is None:
            return
        if total.neighbouring != budget.neighbouring:
            raise InvalidArgument(
                f"neighbouring={total.neighbouring!r} of the event is not that of the ledger's "
                f"budget, {budget.neighbouring!r}. Keep one relation per ledger."
            )
        chosen = read_filter(file, self.path)
        delta, limit = budget.delta_upper, budget.epsilon_upper
        if chosen is None:
            epsilon = _total_epsilon(total, delta, limit)
        else:
            epsilon = chosen.epsilon(chosen.add_up(total.events), delta)
        if not epsilon <= limit:
            raise BudgetExceeded(
                f"{what!r} would bring the total to epsilon={epsilon:.4g} at "
                f"delta={delta:g}, above the budget of {limit:g}; {len(before)} entries are in the "
                "ledger. Nothing was spent and no data were touched."
            )

    def _settle(self, number: int, state: State) -> None:
        with self._transaction() as file:
            write_state(file, number, state)

    # Reading.

    def entries(self) -> list[Entry]:
        """All that was charged, in order."""
        if not self._is_made():
            return []
        with self._transaction() as file:
            return read_entries(file, self.path)

    def privacy(self) -> PrivacyCurve | None:
        """The privacy curve of everything together: an upper bound; None if nothing was spent.

        For a ledger with an adaptive rule see :meth:`spent`: curves price amounts that were fixed
        beforehand.
        """
        events = tuple(entry.event for entry in self.entries())
        return account(Sequence(events)) if events else None

    def spent(self, delta: float) -> float:
        """The epsilon at this delta of everything together: an upper bound."""
        chosen = self._filter()
        if chosen is not None:
            spent = chosen.add_up(entry.event for entry in self.entries())
            return chosen.epsilon(spent, delta)
        curve = self.privacy()
        return float(curve.epsilon(delta)) if curve is not None else 0.0

    def _filter(self) -> Filter | None:
        if not self._is_made():
            return None
        with self._transaction() as file:
            return read_filter(file, self.path)

    def _read(self, key: str) -> Any:
        if not self._is_made():
            return None
        with self._transaction() as file:
            return read_meta(file, key)

    # The file.

    def _is_made(self) -> bool:
        """Whether there is a file to read; one that was there and is gone is an error later."""
        return self._token is not None or self.path.exists()

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with transaction(self.path, self._token, make=True) as file:
            if self._token is None:
                self._agree(file)
            yield file
        self._token = self._token or self._seen

    def _agree(self, file: sqlite3.Connection) -> None:
        """Write down what was asked for if the ledger says nothing of it yet, else compare."""
        asked, known = self._asked, last_budget(file, self.path)
        if asked.budget is not None and known is None:
            new = not read_entries(file, self.path)
            reason = "made" if new else "set when there were entries already"
            write_budget(file, asked.budget, reason)
            if asked.adaptive is not None and new:
                chosen = make_filter(asked.adaptive, asked.budget)
                write_meta(file, "filter", {"kind": chosen.kind, "order": chosen.order})
        elif asked.budget is not None and asked.budget != known:
            raise InvalidArgument(
                f"budget={asked.budget!r} is not the one in {str(self.path)!r}, {known!r}. Leave "
                "it out, or change it on record: Ledger(path).amend(budget, reason=...)."
            )
        if read_meta(file, "unit") is None:
            write_meta(file, "unit", asked.unit or "record")
        self._compare(file)
        self._seen: str = read_meta(file, "token")

    def _compare(self, file: sqlite3.Connection) -> None:
        stored = read_filter(file, self.path)
        known = {
            "unit": read_meta(file, "unit"),
            "adaptive": None if stored is None else stored.kind,
        }
        for name, asked in (("unit", self._asked.unit), ("adaptive", self._asked.adaptive)):
            if asked is not None and asked != known[name]:
                raise InvalidArgument(
                    f"{name}={asked!r} is not that of the ledger {str(self.path)!r}, which is "
                    f"{known[name]!r}. It is settled when a ledger is made."
                )


@contextmanager
def spending(
    ledger: Ledger | None, event: Event, *, what: str, n_records: int | None
) -> Generator[None]:
    """Reserve an event in a ledger, if there is one; the data are touched inside the block."""
    if ledger is None:
        yield
        return
    must_be = "a Ledger, e.g. Ledger('spent.db', budget=ApproxDP(3.0, 1e-5))."
    with _check.instance("ledger", ledger, Ledger, must_be).reserve(
        event, what=what, n_records=n_records
    ):
        yield


@dataclass(frozen=True)
class _Terms:
    """What the opener of a ledger asked for."""

    budget: ApproxDP | None
    unit: str | None
    adaptive: Adaptive | None


def _total_epsilon(total: Event, delta: float, limit: float) -> float:
    """An upper bound on the epsilon of a total; the best one unless a quick one is within limit."""
    for method in _QUICK:
        try:
            epsilon = float(account(total, method).epsilon(delta))
        except UnsupportedEvent:
            continue
        if epsilon <= limit:
            return epsilon
    return float(account(total).epsilon(delta))
