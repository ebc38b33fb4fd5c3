"""Domains that nobody declared: measured with noise, and paid for.

A declared domain is free. For a column of which only the kind is known, :func:`measure_domain`
releases one, and its price is part of the statement.

- **Categories.** Every value that occurs has its count plus Gaussian noise of deviation σ; the
  values whose noisy count is above T = 1 + σ z are released, in their natural order. All others
  are read as missing. (Korolova et al. 2009; with Gaussian noise: Gopi et al. 2020.)
- **Numbers.** The cells 0, ±[2^k, 2^(k+1)) are fixed, so all of them are counted. Bounds are the
  ends of the outermost cells whose noisy count is above a threshold that an empty column passes
  anywhere with probability :data:`FALSE_CELL`. Numbers outside go to the nearest bound. (Wilson et
  al. 2020.)
- **Days.** The same with calendar years for cells.

Whether anything is missing is not looked at: measured columns are nullable, unless it is said or
plain from their type that they are not. The type of truth values is a domain, and costs nothing.

**Proof.** Let D and D' be neighbours and look at one of the d measured columns. A record adds 1 to
one cell at most. To add or remove one moves the counts of a column by 1 at most in the l2 norm, to
replace one by √2; those of all columns by √d times as much. Split the counted values in two. Values
that occur in both D and D', and the fixed cells, make one vector of the same length with Gaussian
noise; what is released of them is a function of it, so that this part is Gaussian DP with
µ = √d/σ, or √(2d)/σ. A value that occurs in one of D and D' alone does so once, since only the one
record can have it: it is released with probability p = Φ(-z) there and 0 in the other. There is at
most one such value per column in each of D and D', so that a column's part of them has a total
variation distance of p at most (two values of probability p that exclude each other across D and
D' differ by p, not by 2p, as the empty set takes the rest on either side), and k columns of
categories together of k p: they are (0, kp)-DP. The noise of both parts is independent; composition
makes it (ε, δ(ε; µ) + kp)-DP for every ε, which is what the events ``Gaussian`` and
``Approx(0, kp)`` say together.

**Then.** What follows may depend on the domain that was released, but not its price: the rest of
the budget is fixed beforehand, and met whatever the domain turned out to be. If the synthesizer
adds Gaussian noise and nothing else, squares of µ add; otherwise its (ε, δ) is added to the
domain's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike
from dpassay._special.quantiles import normal_lower
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import Source, source
from dpassay.privacy import Approx, Event, Gaussian, account
from dpassay.privacy.budget import Budget, budget
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.privacy.gaussian import mu_of
from dpassay.privacy.ledger import Ledger, spending
from dpassay.synth.tables.columns import (
    MOST_BINS,
    Categorical,
    Column,
    Date,
    Numeric,
    as_days,
    as_numbers,
    column_from,
)
from dpassay.synth.tables.counts import SENSITIVITY, noisy_counts
from dpassay.synth.tables.schema import Schema, as_frame, check_rules
from dpassay.types import Neighbouring, NoiseLevel, PrivacyCurve

BINS = 32
FALSE_CELL = 1e-3
"""The probability that a column of numbers or days gets a bound from noise alone."""
SMALLEST, LARGEST = -32, 52  # exponents of the cells of numbers; whole numbers begin at 0
YEARS = (1678, 2261)  # whole ones that a time in nanoseconds can hold
DOMAIN_DELTA = 0.2  # of the whole delta, for the domain


@dataclass(frozen=True)
class Undeclared:
    """A column of which only the kind is known.

    Attributes:
        kind: "categorical", "numeric", "integer" or "date".
        bins: how many a column of numbers or days is divided into.
        nullable: whether a value may be missing; categories that are not released always are.

    """

    kind: str
    bins: int = BINS
    nullable: bool = True

    def __post_init__(self) -> None:
        _check.choice("kind", self.kind, tuple(_MEASURES))
        _check.count("bins", self.bins, high=MOST_BINS)
        if self.kind == "categorical" and not self.nullable:
            raise InvalidArgument(
                "nullable=False is not possible for measured categories: rare values are read as "
                "missing. Leave it True, or declare the domain."
            )


class _Noise(NamedTuple):
    """The deviation of the noise, the threshold for values that occur once, the noise source."""

    sigma: float
    threshold: float
    source: Source
    neighbouring: Neighbouring

    def find_above(self, counts: Any, threshold: float) -> Any:
        """Which counts, with their noise, are above the threshold."""
        if not self.source.is_exact:
            return noisy_counts(counts, self.sigma, self.source, self.neighbouring) > threshold
        # The deviation was rounded, perhaps down: a little more noise than the event states. The
        # tail of a lattice law exceeds the normal one by a share of about 1e-13, which would let a
        # value that occurs once pass too often: a threshold that is a little higher.
        sigma = self.sigma * (1 + 2.0**-50)
        noisy = noisy_counts(counts, sigma, self.source, self.neighbouring)
        return noisy > threshold + 1e-9 * sigma


@dataclass(frozen=True)
class MeasuredDomain:
    """A schema that was released privately; see :func:`measure_domain`.

    Attributes:
        schema: measured columns beside declared ones. Values outside it go where its columns say:
            numbers and days to the nearest bound, others among the missing.
        event: what was done to the data.
        measured: the names of the columns that were measured.
        noise: "exact", or "reproducible", which is not private.

    """

    schema: Schema
    event: Event
    measured: tuple[str, ...]
    noise: NoiseLevel

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was taken as public."""
        declared = [name for name in self.schema.names if name not in self.measured]
        domains = (f"the domains of {', '.join(declared)}",) if declared else ()
        return ("the names and types of the columns", *domains)

    @property
    def privacy(self) -> PrivacyCurve:
        """The privacy curve of the domain alone: an upper bound."""
        return account(self.event, assumptions=self.assumptions)


def measure_domain(
    table: Any,
    columns: Mapping[str, Any] | None = None,
    *,
    epsilon: float,
    delta: float,
    neighbouring: Neighbouring = "add-remove",
    rules: Sequence[str] = (),
    ledger: Ledger | None = None,
    rng: RngLike = None,
) -> MeasuredDomain:
    """A domain for every column, released with (epsilon, delta)-DP.

    Args:
        table: a frame; or an array, if ``columns`` names its columns.
        columns: name to what is known of it: a kind ("categorical", "numeric", "integer", "date"),
            a mapping such as ``{"kind": "numeric", "bins": 10}``, or a declared domain, which costs
            nothing. None takes the kind from the type of every column.
        epsilon: what the domain may cost.
        delta: the delta of the domain, positive. The smaller it is, the more records must share a
            value before the value is released.
        neighbouring: "add-remove" or "replace-one".
        rules: what every record is known to meet; see :class:`~dpassay.synth.Schema`.
        ledger: where the measurement is charged, before the table is touched. It stays charged if
            nothing stands out: that was seen with noise, too.
        rng: None for secure noise; a seed for noise that can be replayed (not private).

    Raises:
        BudgetExceeded: the ledger refused; nothing was computed.
        InvalidArgument: no value of a column stands out from the noise, or no column is to be
            measured.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20, 40, 60, 80] * 500, "city": ["Ulm", "Bonn"] * 1000})
    >>> found = measure_domain(table, epsilon=1.0, delta=1e-6, rng=0)
    >>> found.schema.columns["city"].values
    ('Bonn', 'Ulm')
    >>> found.schema.columns["age"].domain_in_words()
    'the whole numbers of [16, 128)'

    """
    allowed = budget(epsilon, delta, neighbouring)
    if not (allowed.delta > 0 and allowed.is_private):
        raise InvalidArgument(
            f"epsilon={allowed.epsilon:g} and delta={allowed.delta:g} of a measured domain must be "
            "finite and positive: that a value occurs at all cannot be said without a delta."
        )
    known = _read_columns(table, columns)
    measured = {name: given for name, given in known.items() if isinstance(given, Undeclared)}
    if not measured:
        raise InvalidArgument("every domain is declared; there is nothing to measure or pay for.")
    frame = as_frame(table, tuple(known))
    missing = [name for name in known if name not in frame.columns]
    if missing:
        raise InvalidArgument(f"column {missing[0]!r} is not in the table.")
    check_rules(rules, tuple(known))
    drawn = source(rng)
    noise, event = _price_domain(measured, allowed, drawn)
    with spending(ledger, event, what="domain", n_records=None):
        found: dict[str, Column] = {
            name: _MEASURES[given.kind](name, frame[name], noise, given)
            if isinstance(given, Undeclared)
            else given
            for name, given in known.items()
        }
    return MeasuredDomain(Schema(found, rules=rules), event, tuple(measured), drawn.level)


def _price_domain(
    measured: Mapping[str, Undeclared], allowed: Budget, source: Source
) -> tuple[_Noise, Event]:
    """Half of delta for values that occur once, the other half for the noise on all counts."""
    listed = sum(given.kind == "categorical" for given in measured.values())
    apart = allowed.delta / 2 if listed else 0.0
    mu = float(mu_of(allowed.epsilon, allowed.delta - apart))
    sigma = SENSITIVITY[allowed.neighbouring] * math.sqrt(len(measured)) / mu
    threshold = 1 - sigma * float(normal_lower(apart / listed)) if listed else math.inf
    event: Event = Gaussian(1 / mu, allowed.neighbouring)
    if listed:
        event = EventSequence((event, Approx(0.0, apart, allowed.neighbouring)))
    return _Noise(sigma, threshold, source, allowed.neighbouring), event


# What is known of the columns.

_SAID = {"kind", "integer", "bins", "nullable"}  # of a column without a domain


def _read_columns(table: Any, columns: Mapping[str, Any] | None) -> dict[str, Column | Undeclared]:
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidArgument(
            f"columns={_check.shown(columns)} must be a mapping from names to what is known "
            "of them, e.g. {'age': 'integer', 'city': 'categorical'}."
        )
    if columns is not None:
        return {str(name): describe_column(str(name), given) for name, given in columns.items()}
    if not hasattr(table, "dtypes"):
        raise InvalidArgument(
            "the table is no frame, so its columns have no names. Name them and their kinds, e.g. "
            "{'age': 'integer', 'city': 'categorical'}."
        )
    return {str(name): _of_type(dtype) for name, dtype in table.dtypes.items()}


def _of_type(dtype: Any) -> Column | Undeclared:
    """What the type of a column says of it; NumPy's own truth values and integers have no gaps."""
    kind, plain = getattr(dtype, "kind", "O"), isinstance(dtype, np.dtype)
    if kind == "b":
        return Categorical((False, True), nullable=not plain)
    if kind in "iu":
        return Undeclared("integer", nullable=not plain)
    return Undeclared({"f": "numeric", "M": "date"}.get(kind, "categorical"))


def describe_column(name: str, given: Any) -> Column | Undeclared:
    """A declared column, or one to be measured if nothing but its kind is said."""
    if isinstance(given, Undeclared):
        return given
    if isinstance(given, str):
        given = {"kind": given}
    if not isinstance(given, Mapping) or not given.keys() <= _SAID:
        return column_from(name, given)
    kind = given.get("kind", "numeric")
    if kind == "numeric" and given.get("integer", False):
        kind = "integer"
    _check.choice(f"kind of column {name!r}", kind, tuple(_MEASURES))
    return Undeclared(kind, given.get("bins", BINS), given.get("nullable", True))


# One column each.


def _categories(name: str, values: Any, noise: _Noise, given: Undeclared) -> Column:
    found = _count_values(name, values)
    passed = noise.find_above(np.array(list(found.values()), float), noise.threshold)
    released = sorted(value for value, good in zip(found, passed, strict=True) if good)
    if not released:
        raise _nothing_found(name, noise.threshold)
    return Categorical(tuple(released), nullable=given.nullable, outside="missing")


def _count_values(name: str, values: Any) -> dict[Any, int]:
    """How often each value occurs; the same value is the same object, whoever has it.

    Python's 1, 1.0 and True are equal: which of them is written must not depend on the records.
    """
    import pandas as pd

    present = values[values.notna()].astype(object)
    type_ = pd.api.types.infer_dtype(present)
    if type_ not in ("string", "boolean", "integer", "floating", "mixed-integer-float", "empty"):
        raise InvalidArgument(
            f"column {name!r} holds values of the type {type_!r}, whose domain is not measured. "
            "Make them texts or numbers, or declare the domain."
        )
    counts = present.value_counts()
    plain = (v.item() if isinstance(v, np.generic) else v for v in counts.index)
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in plain)
    return dict(zip(whole, counts.tolist(), strict=True))


def _numbers(name: str, values: Any, noise: _Noise, given: Undeclared) -> Column:
    low, high = _outermost(name, _octaves(values, SMALLEST), noise)
    ends = _lower(low, SMALLEST), -_lower(-high, SMALLEST)
    if low == high == 0:
        ends = 0.0, 2.0**SMALLEST
    return Numeric.between(*ends, **_in_bins(given))


def _whole_numbers(name: str, values: Any, noise: _Noise, given: Undeclared) -> Column:
    low, high = _outermost(name, _octaves(values, 0), noise)
    first, end = _lower(low, 0) + (low < 0), -_lower(-high, 0) + (high <= 0)
    return Numeric.between(first, end, integer=True, **_in_bins(given))


def _octaves(values: Any, smallest: int) -> dict[int, int]:
    """Counts of the cells -k, ..., 0, ..., k: cell c > 0 is [2^(c-1), 2^c) times 2^smallest."""
    x = as_numbers(values[values.notna()])
    x = x[~np.isnan(x)].clip(-(2.0**LARGEST), 2.0**LARGEST)
    reach = LARGEST - smallest + 1
    cells = np.sign(x) * (np.frexp(x)[1] - smallest).clip(0, reach)
    counts = np.bincount(cells.astype(np.int64) + reach, minlength=2 * reach + 1)
    return dict(zip(range(-reach, reach + 1), counts.tolist(), strict=True))


def _lower(cell: int, smallest: int) -> float:
    """The lower end of a cell; its upper one is minus the lower end of the cell opposite."""
    if cell == 0:
        return 0.0
    return 2.0 ** (cell - 1 + smallest) if cell > 0 else -(2.0 ** (smallest - cell))


def _dates(name: str, values: Any, noise: _Noise, given: Undeclared) -> Column:
    days, known = as_days(values)
    years = days[known].astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    counts = np.bincount(years.clip(*YEARS) - YEARS[0], minlength=YEARS[1] - YEARS[0] + 1)
    cells = dict(zip(range(YEARS[0], YEARS[1] + 1), counts.tolist(), strict=True))
    first, last = _outermost(name, cells, noise)
    return Date.between(f"{first}-01-01", f"{last + 1}-01-01", **_in_bins(given))


def _in_bins(given: Undeclared) -> dict[str, Any]:
    return {"bins": given.bins, "nullable": given.nullable, "outside": "nearest"}


def _outermost(name: str, cells: Mapping[int, int], noise: _Noise) -> tuple[int, int]:
    """The first and the last of fixed cells whose noisy count stands out."""
    threshold = -noise.sigma * float(normal_lower(FALSE_CELL / len(cells)))
    passed = noise.find_above(np.array(list(cells.values()), float), threshold)
    found = [cell for cell, good in zip(cells, passed, strict=True) if good]
    if not found:
        raise _nothing_found(name, threshold)
    return found[0], found[-1]


def _nothing_found(name: str, threshold: float) -> InvalidArgument:
    return InvalidArgument(
        f"nothing of column {name!r} stands out from the noise: no value or range of values is "
        f"shared by clearly more than {threshold:.3g} records. Declare its domain, drop the "
        "column, or raise the epsilon of the domain."
    )


_MEASURES: dict[str, Callable[[str, Any, _Noise, Undeclared], Column]] = {
    "categorical": _categories,
    "numeric": _numbers,
    "integer": _whole_numbers,
    "date": _dates,
}
