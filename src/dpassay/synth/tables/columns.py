"""One column of a table: its public domain, and the way from values to codes and back.

Every kind turns values into codes 0, 1, ..., ``n_values`` - 1, and a missing value into the code
``n_values``, if the column may have any. Domains are declared: a value outside is an error, never a
new code, unless the column says where it goes: to the nearest code, or among the missing ones.
"""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

Codes = NDArray[np.int64]
MOST_BINS = 10**6
_REDRAWS = 20
# An ISO date, and the time of day that may follow it with its distance from UTC.
_DAY = r"\d{4}([-/]?\d\d([-/]?\d\d)?)?"
_TIME = r"[T ]\d\d(:?\d\d(:?\d\d([.,]\d+)?)?)? ?(Z|[+-]\d\d(:?\d\d)?)?$"


class ColumnOptions(TypedDict, total=False):
    """What every column takes; see :class:`Column`."""

    nullable: bool
    outside: str


@dataclass(frozen=True)
class Column(ABC):
    """Base of all columns; use one of its kinds.

    Args:
        nullable: whether a value may be missing.
        outside: what is done with a value outside the domain: "refused" is an error, "missing"
            makes it a missing value, "other" a category of that name, and "nearest" the nearest
            number or day. The rule looks at one record at a time, so it costs no privacy.

    """

    nullable: bool = field(default=False, kw_only=True)
    outside: str = field(default="refused", kw_only=True)
    kind: ClassVar[str] = ""
    rules: ClassVar[tuple[str, ...]] = ("refused", "missing")
    is_ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check.choice("outside", self.outside, self.rules)
        if self.outside == "missing" and not self.nullable:
            raise InvalidArgument("outside='missing' needs a column with nullable=True.")

    @property
    @abstractmethod
    def n_values(self) -> int:
        """How many codes stand for values."""

    @property
    def size(self) -> int:
        """How many codes there are: one more than values, if a value may be missing."""
        return self.n_values + self.nullable

    def encode(self, name: str, values: Any) -> Codes:
        """The codes of a pandas series; a value outside the domain is an error."""
        missing = values.isna().to_numpy(dtype=bool)
        if missing.any() and not self.nullable:
            raise InvalidArgument(
                f"column {name!r} has missing values, but is not declared nullable. Declare "
                f"nullable=True for it, or fill them."
            )
        codes = np.full(len(values), self.n_values, np.int64)
        present = values[~missing]
        found = self._place(present, self._encode(present))
        if (found < 0).any():
            raise outside_domain(name, self.domain_in_words())
        codes[~missing] = found
        return codes

    def decode(self, codes: Codes, rng: np.random.Generator) -> tuple[Any, NDArray[np.bool_]]:
        """Values, and which of them are missing (those hold a value all the same)."""
        missing = codes >= self.n_values
        return self._decode(np.where(missing, 0, codes), rng), missing

    def where(self, name: str, wanted: Any) -> NDArray[np.bool_]:
        """Which codes a condition allows: one value, several, or None for a missing one."""
        import pandas as pd

        listed = wanted if isinstance(wanted, list | tuple | set | range) else [wanted]
        series = pd.Series(list(listed), dtype=object)
        allowed = np.zeros(self.size, bool)
        allowed[self._refusing().encode(name, series)] = True
        return allowed

    def find_outside(self, values: Any) -> NDArray[np.bool_]:
        """Which of these values, none of them missing, the domain does not have."""
        return np.asarray(self._encode(values)) < 0

    def order(self) -> NDArray[np.int64]:
        """The codes of values from low to high, for columns that have an order."""
        return np.arange(self.n_values)

    def _refusing(self) -> "Column":
        """The same domain, outside of which a value is an error."""
        return replace(self, outside="refused")

    @abstractmethod
    def domain_in_words(self) -> str:
        """The domain, for messages."""

    def as_dict(self) -> dict[str, Any]:
        """What TOML or JSON holds of it; :func:`column_from` reads it back."""
        rule = {} if self.outside == "refused" else {"outside": self.outside}
        return {"kind": self.kind, **self._domain(), "nullable": self.nullable, **rule}

    def _place(self, values: Any, codes: Codes) -> Codes:
        """The codes, with values outside put where the column says; -1 stays where it does not."""
        if self.outside == "nearest":
            codes = np.where(codes < 0, self._nearest(values), codes)
        if self.outside != "refused" and self.nullable:
            codes = np.where(codes < 0, self.n_values, codes)
        return codes

    def _nearest(self, values: Any) -> Codes:
        """The nearest codes; -1 where there is none, as for a text among numbers."""
        return np.full(len(values), -1)

    @abstractmethod
    def _domain(self) -> dict[str, Any]:
        """The domain, as JSON holds it."""

    @abstractmethod
    def _encode(self, values: Any) -> Codes: ...

    @abstractmethod
    def _decode(self, codes: Codes, rng: np.random.Generator) -> Any: ...


@dataclass(frozen=True)
class Categorical(Column):
    """Values without an order.

    Args:
        values: all of them.
        other: what all other values are called where ``outside="other"``; if it is one of the
            values, they count as that one.
        nullable, outside: see :class:`~dpassay.synth.Column`.

    >>> Categorical(("F", "M"), nullable=True).size
    3

    """

    values: tuple[Any, ...]
    other: str = "other"
    rules: ClassVar[tuple[str, ...]] = ("refused", "missing", "other")
    kind: ClassVar[str] = "categorical"
    is_ordered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise InvalidArgument("values=() of a column is empty. List every possible value.")
        if any(v is None or v != v for v in self.values):
            raise InvalidArgument(
                f"values={shorten(self.values)} lists a missing value. Declare nullable=True."
            )
        if len(set(self.values)) < len(self.values):
            raise InvalidArgument(f"values={shorten(self.values)} has a value twice.")

    @property
    def listed(self) -> tuple[Any, ...]:
        """What each code stands for: the values, and what all others are called."""
        apart = self.outside == "other" and self.other not in self.values
        return (*self.values, self.other) if apart else self.values

    @property
    def n_values(self) -> int:
        """How many codes stand for values."""
        return len(self.listed)

    def domain_in_words(self) -> str:
        """The domain, for messages."""
        return f"its domain {shorten(self.values)}"

    def _domain(self) -> dict[str, Any]:
        named = {"other": self.other} if self.outside == "other" else {}
        return {"values": list(self.values), **named}

    def _refusing(self) -> "Column":
        return replace(self, values=self.listed, outside="refused")

    def find_outside(self, values: Any) -> NDArray[np.bool_]:
        """Which of these values are not listed: those that are "other", too."""
        return np.asarray(~values.isin(list(self.values)), bool)

    def _place(self, values: Any, codes: Codes) -> Codes:
        if self.outside == "other":
            return np.where(codes < 0, self.listed.index(self.other), codes)
        return super()._place(values, codes)

    def _encode(self, values: Any) -> Codes:
        import pandas as pd

        index = pd.Index(list(self.listed), dtype=object)
        return index.get_indexer(pd.Index(values.astype(object))).astype(np.int64)

    def _decode(self, codes: Codes, rng: np.random.Generator) -> Any:
        del rng
        values = np.empty(self.n_values, object)
        values[:] = self.listed
        return values[codes]


@dataclass(frozen=True)
class Ordinal(Categorical):
    """Values in an order, from low to high: integers, grades."""

    kind: ClassVar[str] = "ordinal"
    is_ordered: ClassVar[bool] = True


@dataclass(frozen=True)
class Numeric(Column):
    """Numbers in bins; a sampled value is uniform inside its bin.

    Args:
        edges: of the bins, increasing. Bin i is [edges[i], edges[i + 1]); the last one is closed,
            unless values are whole numbers: then it ends before its last edge, as a range does.
            They may be empty where there are atoms.
        integer: values are whole numbers, and so are the edges.
        atoms: single numbers with a code of their own, behind those of the bins: 0 of a column of
            debts, or the largest value that an instrument shows.
        decimals: sampled values are rounded to so many decimals; None leaves them as drawn.
        nullable, outside: see :class:`~dpassay.synth.Column`.

    >>> Numeric.between(0, 100, bins=10).size
    10
    >>> Numeric((0, 18, 65, 120), integer=True).domain_in_words()
    'the whole numbers of [0, 120)'

    """

    edges: tuple[float, ...]
    integer: bool = False
    atoms: tuple[float, ...] = ()
    decimals: int | None = None
    kind: ClassVar[str] = "numeric"
    rules: ClassVar[tuple[str, ...]] = ("refused", "missing", "nearest")

    def __post_init__(self) -> None:
        super().__post_init__()
        atoms = self._check_increasing("atoms", self.atoms, 0)
        self._check_increasing("edges", self.edges, 0 if atoms else 2)
        if len(self.edges) == 1:
            raise InvalidArgument(f"edges={shorten(self.edges)} must be two numbers or more.")
        if self.decimals is not None:
            _check.count("decimals", self.decimals, low=0, high=15)

    def _check_increasing(self, name: str, given: Sequence[float], least: int) -> int:
        """Make numbers of what is given, in increasing order; how many there are."""
        remedy = "They are the ends of the bins." if name == "edges" else ""
        found = _check.array(name, given, ndim=1, remedy=remedy) if len(given) else np.array([])
        if len(found) < least or not (np.diff(found) > 0).all():
            raise InvalidArgument(
                f"{name}={shorten(given)} must be two numbers or more, increasing."
            )
        if self.integer and not (found == np.floor(found)).all():
            raise InvalidArgument(
                f"{name}={shorten(given)} must be whole numbers for integer=True."
            )
        number = int if self.integer else float
        object.__setattr__(self, name, tuple(number(x) for x in found))
        return len(found)

    @classmethod
    def between(
        cls,
        low: float,
        high: float,
        *,
        bins: int = 32,
        integer: bool = False,
        atoms: tuple[float, ...] = (),
        decimals: int | None = None,
        **rest: Unpack[ColumnOptions],
    ) -> "Numeric":
        """Bins of equal width; for whole numbers from ``low`` to ``high`` - 1, as a range."""
        low = _check.number("low", low)
        high = _check.number("high", high, low=low, low_open=True)
        edges = np.linspace(low, high, _check.count("bins", bins, high=MOST_BINS) + 1)
        if integer:
            edges = np.unique(np.round(edges))
        return cls(tuple(edges), integer, atoms, decimals, **rest)

    @property
    def n_bins(self) -> int:
        """How many codes stand for bins; those of atoms follow."""
        return max(len(self.edges) - 1, 0)

    @property
    def n_values(self) -> int:
        """How many codes stand for values."""
        return self.n_bins + len(self.atoms)

    def order(self) -> NDArray[np.int64]:
        """The codes of bins and atoms from low to high."""
        return np.argsort([*self.edges[: self.n_bins], *self.atoms], kind="stable")

    def domain_in_words(self) -> str:
        """The domain, for messages."""
        alone = f"{len(self.atoms)} single numbers" if self.atoms else ""
        if not self.edges:
            return alone
        also = f" and {alone}" if alone else ""
        if self.integer:
            return f"the whole numbers of [{self.edges[0]}, {self.edges[-1]}){also}"
        return f"[{self.edges[0]:g}, {self.edges[-1]:g}]{also}"

    def _domain(self) -> dict[str, Any]:
        more: dict[str, Any] = {"atoms": list(self.atoms)} if self.atoms else {}
        if self.decimals is not None:
            more["decimals"] = self.decimals
        return {"edges": list(self.edges), "integer": self.integer, **more}

    def _nearest(self, values: Any) -> Codes:
        # An infinite number is as far from everything: the largest float is on its side.
        x = as_numbers(values).clip(-sys.float_info.max, sys.float_info.max)
        far, codes = np.full(len(x), np.inf), np.full(len(x), -1)
        if self.edges:
            codes = np.searchsorted(self.edges, x, side="right") - 1
            codes = codes.clip(0, self.n_bins - 1)
            far = np.abs(x - x.clip(self.edges[0], self.edges[-1]))
        for i, atom in enumerate(self.atoms):
            near = np.abs(x - atom)
            codes, far = np.where(near <= far, self.n_bins + i, codes), np.minimum(far, near)
        return np.where(np.isnan(x), -1, codes)

    def _encode(self, values: Any) -> Codes:
        x = as_numbers(values)
        codes = np.full(len(x), -1, np.int64)
        if self.edges:
            codes = np.searchsorted(self.edges, x, side="right").astype(np.int64) - 1
            last = x == self.edges[-1]
            codes[last] = -1 if self.integer else self.n_bins - 1
            codes[~((x >= self.edges[0]) & (x <= self.edges[-1]))] = -1
        if self.integer:
            codes[x != np.floor(x)] = -1
        place, single = self._find_atoms(x)
        codes[single] = self.n_bins + place[single]
        return codes

    def _find_atoms(self, x: FloatArray) -> tuple[Codes, NDArray[np.bool_]]:
        """The place of each number among the atoms, and which numbers are atoms."""
        if not self.atoms:
            return np.zeros(len(x), np.int64), np.zeros(len(x), bool)
        atoms = np.array(self.atoms, float)
        place = np.searchsorted(atoms, x).clip(0, len(atoms) - 1)
        return place, atoms[place] == x

    def _decode(self, codes: Codes, rng: np.random.Generator) -> Any:
        if not self.atoms:
            return self._draw(codes, rng)
        single = codes >= self.n_bins
        values = np.empty(len(codes), np.int64 if self.integer else float)
        values[single] = np.array(self.atoms)[codes[single] - self.n_bins]
        left = np.flatnonzero(~single)
        # Numbers of a bin that are atoms have a code of their own; a bin may hold nothing else.
        for _ in range(_REDRAWS):
            values[left] = self._draw(codes[left], rng)
            left = left[self._find_atoms(values[left].astype(float))[1]]
            if not len(left):
                break
        return values

    def _draw(self, codes: Codes, rng: np.random.Generator) -> Any:
        """Values drawn from the bins of these numbers."""
        edges = np.array(self.edges)
        if self.integer:
            return edges[codes] + rng.integers(0, np.diff(edges)[codes])
        drawn = edges[codes] + rng.random(len(codes)) * np.diff(edges)[codes]
        if self.decimals is None or not len(codes):
            return drawn
        return np.round(drawn, self.decimals).clip(edges[0], edges[-1])


@dataclass(frozen=True)
class Date(Column):
    """Days in bins; a sampled day is uniform inside its bin, and has no time of day.

    Args:
        edges: of the bins, increasing, as ISO dates; the last one is the day after the last day.
        nullable, outside: see :class:`~dpassay.synth.Column`.

    >>> Date.between("2020-01-01", "2021-01-01", bins=12).size
    12

    """

    edges: tuple[str, ...]
    kind: ClassVar[str] = "date"
    rules: ClassVar[tuple[str, ...]] = ("refused", "missing", "nearest")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "edges", tuple(str(edge) for edge in self.edges))
        days = _days("edges", self.edges)
        if len(days) < 2 or not (np.diff(days) > 0).all():
            raise InvalidArgument(
                f"edges={shorten(self.edges)} must be two dates or more, increasing."
            )

    @classmethod
    def between(
        cls, first: str, end: str, *, bins: int = 32, **rest: Unpack[ColumnOptions]
    ) -> "Date":
        """Bins of nearly equal length from ``first`` to the day before ``end``."""
        low, high = _days("first and end", (first, end))
        cuts = np.unique(
            np.round(np.linspace(low, high, _check.count("bins", bins, high=MOST_BINS) + 1))
        )
        return cls(tuple(str(day) for day in cuts.astype("datetime64[D]")), **rest)

    @property
    def n_values(self) -> int:
        """How many codes stand for values."""
        return len(self.edges) - 1

    def domain_in_words(self) -> str:
        """The domain, for messages."""
        return f"the days from {self.edges[0]} to before {self.edges[-1]}"

    def _domain(self) -> dict[str, Any]:
        return {"edges": list(self.edges)}

    def _nearest(self, values: Any) -> Codes:
        days, known = as_days(values)
        codes = np.searchsorted(_days("edges", self.edges), days, side="right") - 1
        return np.where(known, codes.clip(0, self.n_values - 1), -1)

    def _encode(self, values: Any) -> Codes:
        days, known = as_days(values)
        codes = np.searchsorted(_days("edges", self.edges), days, side="right") - 1
        codes[~known | (codes >= self.n_values)] = -1
        return codes.astype(np.int64)

    def _decode(self, codes: Codes, rng: np.random.Generator) -> Any:
        edges = _days("edges", self.edges)
        return (edges[codes] + rng.integers(0, np.diff(edges)[codes])).astype("datetime64[D]")


def outside_domain(name: str, domain: str) -> InvalidArgument:
    """The error of a value outside its domain; the value is a record's, and is not shown."""
    return InvalidArgument(
        f"column {name!r} has a value outside {domain}. Declare a domain that holds every possible "
        "value (the data must not widen it), or say where others go: outside = 'nearest' for "
        "numbers and days, 'other' for categories."
    )


def as_numbers(values: Any) -> FloatArray:
    """The numbers of a pandas series; NaN where a value is none."""
    import pandas as pd

    if values.dtype.kind == "O":
        values = values.map(_within_floats)
    numbers: Any = pd.to_numeric(values, errors="coerce")
    return numbers.to_numpy(dtype=float, na_value=math.nan)


def _within_floats(value: Any) -> Any:
    """The value; whole numbers that no float holds become infinite."""
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return math.inf if value > 0 else -math.inf
    return value


def as_days(values: Any) -> tuple[Codes, NDArray[np.bool_]]:
    """The days of a pandas series, counted from 1970, and which values are dates at all.

    Each value is read by itself, and its day is the one written there, whatever its time zone.
    pandas reads a whole column in one unit and one time zone: a single record with nanoseconds made
    days of the year 9999 missing for all others, which is more than one record may change.
    """
    import pandas as pd

    if values.dtype.kind != "M":
        texts = values.astype(str).str.replace(_TIME, "", regex=True)
        values = texts.where(texts.str.fullmatch(_DAY))
    moments = pd.to_datetime(values, errors="coerce", format="ISO8601")
    if getattr(moments.dt, "tz", None) is not None:
        moments = moments.dt.tz_localize(None)
    days = moments.to_numpy(dtype="datetime64[D]").astype(np.int64)
    return days, ~moments.isna().to_numpy()


def _days(name: str, dates: Sequence[Any]) -> NDArray[np.int64]:
    try:
        return np.array([str(date) for date in dates], "datetime64[D]").astype(np.int64)
    except ValueError:
        raise InvalidArgument(
            f"{name}={shorten(dates)} must be ISO dates, such as '2024-02-29'."
        ) from None


def shorten(values: Sequence[Any]) -> str:
    """The first values, and how many there are, for messages."""
    shown = ", ".join(repr(value) for value in values[:6])
    return f"({shown}, ... {len(values)} in all)" if len(values) > 6 else f"({shown})"
