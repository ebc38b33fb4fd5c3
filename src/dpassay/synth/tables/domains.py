"""Domains that nobody declared: measured with noise, and paid for.

A declared domain is free. For a column of which only the kind is known, :func:`measure_domain`
releases one, and its price is part of the statement. What is released of each kind of column, and
in which order, is told in :mod:`dpassay.synth.tables.measuring`. A column of which nothing stands
out from the noise is left out, with a warning; that this was seen is paid for like all else.

Whether anything is missing is not looked at: measured columns are nullable, unless it is said or
plain from their type that they are not. The type of truth values is a domain, and costs nothing.

**Proof.** Let D and D' be neighbours and look at one of the d measured columns. It has a budget of
µ_c = µ/√d, which its stages (lists of values, histograms of fixed cells, levels of a tree) share: a
stage with the share s of µ_c² adds Gaussian noise of deviation Δ/(µ_c √s) to its counts. A record
adds 1 to one cell of a stage at most; to add or remove one moves its counts by Δ = 1 at most in the
l2 norm, to replace one by Δ = √2. The cells of a stage are fixed, or were released by stages before
it, except for those of lists of values. Split the values of a list in two. Values that occur in
both D and D' make, with all fixed cells, one vector of the same length with Gaussian noise; what is
released of them is a function of it, so that this part of all stages of a column, which may choose
their cells by what was released before, is Gaussian DP with µ_c, since the shares sum to 1, and
that of all columns with µ. A value that occurs in one of D and D' alone does so once, since only
the one record can have it: it is released with probability p = Φ(-z) there and 0 in the other.
There is at most one such value per list in each of D and D', so that a list's part of them has a
total variation distance of p at most (two values of probability p that exclude each other across D
and D' differ by p, not by 2p, as the empty set takes the rest on either side), and k lists together
of k p: they are (0, kp)-DP. The noise of both parts is independent; adaptive composition makes it
(ε, δ(ε; µ) + kp)-DP for every ε, which is what the events ``Gaussian`` and ``Approx(0, kp)`` say
together.

**Then.** What follows may depend on the domain that was released, but not its price: the rest of
the budget is fixed beforehand, and met whatever the domain turned out to be. If the synthesizer
adds Gaussian noise and nothing else, squares of µ add; otherwise its (ε, δ) is added to the
domain's. The noisy counts of values and cells were paid for, and are handed on to the synthesizer.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._conditions import read_rule
from dpassay._rng import RngLike
from dpassay._special.quantiles import normal_lower
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import Source, source
from dpassay.privacy import Approx, Event, Gaussian, account
from dpassay.privacy.budget import Budget, budget
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.privacy.gaussian import mu_of
from dpassay.privacy.ledger import Ledger, spending
from dpassay.synth.tables.columns import MOST_BINS, Categorical, Column
from dpassay.synth.tables.counts import SENSITIVITY
from dpassay.synth.tables.declared import UNDECLARED, column_from, expand_timestamps
from dpassay.synth.tables.measuring import (
    LISTED,
    MEASURES,
    ColumnNoise,
    Counted,
    Found,
)
from dpassay.synth.tables.schema import Schema, as_frame, check_rules
from dpassay.synth.tables.times import CELLS, TimeOfDay, as_seconds
from dpassay.types import Neighbouring, NoiseLevel, PrivacyCurve

DOMAIN_DELTA = 0.2  # of the whole delta, for the domain
FEW = 5  # deviations of the noise: what is found in a column is shared by more records


class DomainWarning(UserWarning):
    """A column was left out of a measured domain: nothing of it stood out from the noise."""


@dataclass(frozen=True)
class Undeclared:
    """A column of which only the kind is known.

    Attributes:
        kind: "categorical", "numeric", "integer", "date" or "timestamp".
        bins: how many bins of equal width a column of numbers or days is divided into; None for
            days takes 32, and divides numbers where there are many records.
        nullable: whether a value may be missing.
        decimals: how many a column of numbers has, if that is known.
        cells: how many the day of a timestamp is divided into.
        other: what categories that are not released are called.

    """

    kind: str
    bins: int | None = None
    nullable: bool = True
    decimals: int | None = None
    cells: int = CELLS
    other: str = "other"

    def __post_init__(self) -> None:
        _check.choice("kind", self.kind, tuple(MEASURES))
        if self.bins is not None:
            _check.count("bins", self.bins, high=MOST_BINS)


@dataclass(frozen=True)
class MeasuredDomain:
    """A schema that was released privately; see :func:`measure_domain`.

    Attributes:
        schema: measured columns beside declared ones. Values outside it go where its columns say:
            numbers and days to the nearest bound, texts to "other".
        event: what was done to the data.
        measured: the names of the columns that were measured.
        noise: "exact", or "reproducible", which is not private.
        dropped: columns that were measured and left out, since nothing stood out.
        counted: of measured columns, the noisy counts of their codes, which were paid for.
        n_records: the public number of records.

    """

    schema: Schema
    event: Event
    measured: tuple[str, ...]
    noise: NoiseLevel
    dropped: tuple[str, ...] = ()
    counted: Mapping[str, Counted] = field(default_factory=dict[str, Counted], compare=False)
    n_records: int | None = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was taken as public."""
        declared = [name for name in self.schema.names if name not in self.measured]
        domains = (f"the domains of {', '.join(declared)}",) if declared else ()
        return ("the names and types of the columns", *domains)

    @property
    def privacy(self) -> PrivacyCurve:
        """The privacy curve of the domain alone: an upper bound, with what it takes as public."""
        known = () if self.n_records is None else (f"n={self.n_records}",)
        return account(self.event, assumptions=(*known, *self.assumptions))


def measure_domain(
    table: Any,
    columns: Mapping[str, Any] | None = None,
    *,
    epsilon: float,
    delta: float,
    neighbouring: Neighbouring = "add-remove",
    n_records: int | None = None,
    rules: Sequence[str] = (),
    ledger: Ledger | None = None,
    rng: RngLike = None,
) -> MeasuredDomain:
    """A domain for every column, released with (epsilon, delta)-DP.

    Args:
        table: a frame; or an array, if ``columns`` names its columns.
        columns: name to what is known of it: a kind ("categorical", "numeric", "integer", "date",
            "timestamp"), a mapping such as ``{"kind": "numeric", "bins": 10}``, or a declared
            domain, which costs nothing. None takes the kind from the type of every column; times
            are timestamps if any of them is not midnight.
        epsilon: what the domain may cost.
        delta: the delta of the domain, positive. The smaller it is, the more records must share a
            value before the value is released.
        neighbouring: "add-remove" or "replace-one".
        n_records: the public number of records, by which it is decided how finely numbers are
            measured; None takes that of the table.
        rules: what every record is known to meet; see :class:`~dpassay.synth.Schema`.
        ledger: where the measurement is charged, before the table is touched. It stays charged if
            nothing stands out: that was seen with noise, too.
        rng: None for secure noise; a seed for noise that can be replayed (not private).

    Raises:
        BudgetExceeded: the ledger refused; nothing was computed.
        InvalidArgument: nothing stands out from the noise in any column, or no column is to be
            measured.

    Warns:
        DomainWarning: a column was left out, since nothing of it stood out from the noise.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20, 40, 60, 80] * 500, "city": ["Ulm", "Bonn"] * 1000})
    >>> found = measure_domain(table, epsilon=1.0, delta=1e-6, rng=0)
    >>> found.schema.columns["city"].values
    ('Bonn', 'Ulm')
    >>> found.schema.columns["age"].domain_in_words()
    '4 single numbers'

    """
    allowed = budget(epsilon, delta, neighbouring)
    frame, known, measured = read_columns(table, columns, rules)
    drawn = source(rng)
    n = len(frame) if n_records is None else _check.count("n_records", n_records)
    event = price_domain(measured, allowed)
    noise = make_noise(measured, allowed, drawn, n)
    with spending(ledger, event, what="domain", n_records=None):
        found = {
            name: MEASURES[given.kind](frame[name], noise, given)
            for name, given in measured.items()
        }
    dropped = tuple(name for name, one in found.items() if one is None)
    _warn_of_dropped(dropped, noise)
    kept = {name: given for name, given in known.items() if name not in dropped}
    if not kept:
        raise InvalidArgument(
            "nothing of any column stands out from the noise; that this was seen is paid for. "
            "Declare domains, or raise the epsilon of the domain."
        )
    schema = Schema(_join_columns(kept, found), rules=_keep_rules(rules, dropped))
    counted = {name: one.counted for name, one in found.items() if one is not None}
    return MeasuredDomain(schema, event, tuple(measured), drawn.level, dropped, counted, n)


def price_domain(measured: Mapping[str, Undeclared], allowed: Budget) -> Event:
    """What measuring these columns does to the data: fixed before any of them is looked at.

    Half of delta is for values that occur once, the other half for the noise on all counts.
    """
    if not (allowed.delta > 0 and allowed.is_private):
        raise InvalidArgument(
            f"epsilon={allowed.epsilon:g} and delta={allowed.delta:g} of a measured domain must be "
            "finite and positive: that a value occurs at all cannot be said without a delta."
        )
    mu, apart, _ = _split(measured, allowed)
    event = Gaussian(1 / mu, allowed.neighbouring)
    if not apart:
        return event
    return EventSequence((event, Approx(0.0, apart, allowed.neighbouring)))


def make_noise(
    measured: Mapping[str, Undeclared], allowed: Budget, source: Source, n_records: int
) -> ColumnNoise:
    """The noise of one column, which all of them together make the event of."""
    mu, apart, lists = _split(measured, allowed)
    sigma = SENSITIVITY[allowed.neighbouring] * math.sqrt(len(measured)) / mu
    z = -float(normal_lower(apart / lists)) if lists else math.inf
    return ColumnNoise(sigma, z, source, allowed.neighbouring, n_records)


def _split(measured: Mapping[str, Undeclared], allowed: Budget) -> tuple[float, float, int]:
    """µ of the noise, the delta for values that occur once, and how many lists share it."""
    lists = sum(given.kind in LISTED for given in measured.values())
    apart = allowed.delta / 2 if lists else 0.0
    return float(mu_of(allowed.epsilon, allowed.delta - apart)), apart, lists


def _join_columns(
    kept: Mapping[str, "Column | Undeclared"], found: Mapping[str, Found | None]
) -> dict[str, Column]:
    """Declared and measured columns in their order; a timestamp is a day and a time of day."""
    columns: dict[str, Column] = {}
    for name, given in kept.items():
        if isinstance(given, Column):
            columns[name] = given
            continue
        one = found[name]
        assert one is not None  # those were dropped
        columns[name] = one.column
        if given.kind == "timestamp":
            time = TimeOfDay(name, given.cells, nullable=given.nullable, outside="refused")
            columns[f"{name} time"] = time
    return columns


def _keep_rules(rules: Sequence[str], dropped: Sequence[str]) -> list[str]:
    """Rules about columns that are left."""
    read = zip(rules, (read_rule(rule) for rule in rules), strict=True)
    return [text for text, rule in read if not set(rule.columns) & set(dropped)]


def _warn_of_dropped(dropped: Sequence[str], noise: ColumnNoise) -> None:
    for name in dropped:
        warnings.warn(
            f"column {name!r} is left out: nothing of it stands out from the noise, that is, no "
            f"value or range of values is shared by clearly more than "
            f"{noise.sigma * FEW:.3g} records. Declare its domain, which is free, or raise the "
            "epsilon of the domain. What was spent on it stays spent.",
            DomainWarning,
            stacklevel=3,
        )


# What is known of the columns.


def read_columns(
    table: Any, columns: Mapping[str, Any] | None, rules: Sequence[str]
) -> tuple[Any, dict[str, Column | Undeclared], dict[str, Undeclared]]:
    """The table as a frame, what is known of its columns, and those that are to be measured.

    Raises:
        InvalidArgument: what is wrong with any of them, a value outside a declared domain too: said
            here, where nothing is spent yet.

    """
    known = _read_columns(table, columns)
    measured = {name: given for name, given in known.items() if isinstance(given, Undeclared)}
    if not measured:
        raise InvalidArgument("every domain is declared; there is nothing to measure or pay for.")
    frame = as_frame(table, tuple(known))
    for name, given in known.items():
        own = getattr(given, "of", name)
        if own not in frame.columns:
            raise InvalidArgument(f"column {own!r} is not in the table.")
        if isinstance(given, Column):
            given.encode(name, frame[own])
    check_rules(rules, tuple(known))
    return frame, known, measured


def _read_columns(table: Any, columns: Mapping[str, Any] | None) -> dict[str, Column | Undeclared]:
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidArgument(
            f"columns={_check.shown(columns)} must be a mapping from names to what is known "
            "of them, e.g. {'age': 'integer', 'city': 'categorical'}."
        )
    if columns is not None:
        given = expand_timestamps(columns).items()
        return {name: describe_column(name, one) for name, one in given}
    if not hasattr(table, "dtypes"):
        raise InvalidArgument(
            "the table is no frame, so its columns have no names. Name them and their kinds, e.g. "
            "{'age': 'integer', 'city': 'categorical'}."
        )
    return {str(name): _of_type(dtype, table[name]) for name, dtype in table.dtypes.items()}


def _of_type(dtype: Any, values: Any) -> Column | Undeclared:
    """What the type of a column says of it; NumPy's own truth values and integers have no gaps.

    Days and moments have one type: they are told apart by whether any time is not midnight, which
    is taken as public with the types.
    """
    kind, plain = getattr(dtype, "kind", "O"), isinstance(dtype, np.dtype)
    if kind == "b":
        return Categorical((False, True), nullable=not plain)
    if kind in "iu":
        return Undeclared("integer", nullable=not plain)
    if kind == "M":
        return Undeclared("timestamp" if as_seconds(values.dropna()).any() else "date")
    return Undeclared("numeric" if kind == "f" else "categorical")


def describe_column(name: str, given: Any) -> Column | Undeclared:
    """A declared column, or one to be measured if nothing but its kind is said."""
    if isinstance(given, Undeclared):
        return given
    if isinstance(given, str):
        given = {"kind": given}
    if not isinstance(given, Mapping) or not given.keys() <= UNDECLARED:
        return column_from(name, given)
    kind = given.get("kind", "numeric")
    if kind == "numeric" and given.get("integer", False):
        kind = "integer"
    _check.choice(f"kind of column {name!r}", kind, tuple(MEASURES))
    said = {key: given[key] for key in given.keys() - {"kind", "integer"}}
    return Undeclared(kind, **said)
