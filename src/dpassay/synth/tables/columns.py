"""One column of a table: its public domain, and the way from values to codes and back.

Every kind turns values into codes 0, 1, ..., ``n_values`` - 1, and a missing value into the code
``n_values``, if the column may have any. Domains are declared: a value outside is an error, never a
new code, unless the column says where it goes: to the nearest code, or among the missing ones.
"""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

Codes = NDArray[np.int64]
MOST_BINS = 10**6
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
            makes it a missing value, and "nearest" the nearest number or day. The rule looks at one
            record at a time, so it costs no privacy.

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
        allowed[replace(self, outside="refused").encode(name, series)] = True
        return allowed

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

    >>> Categorical(("F", "M"), nullable=True).size
    3

    """

    values: tuple[Any, ...]
    kind: ClassVar[str] = "categorical"
    is_ordered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise InvalidArgument("values=() of a column is empty. List every possible value.")
        if any(v is None or v != v for v in self.values):
            raise InvalidArgument(
                f"values={_shorten(self.values)} lists a missing value. Declare nullable=True."
            )
        if len(set(self.values)) < len(self.values):
            raise InvalidArgument(f"values={_shorten(self.values)} has a value twice.")

    @property
    def n_values(self) -> int:
        """How many codes stand for values."""
        return len(self.values)

    def domain_in_words(self) -> str:
        """The domain, for messages."""
        return f"its domain {_shorten(self.values)}"

    def _domain(self) -> dict[str, Any]:
        return {"values": list(self.values)}

    def _encode(self, values: Any) -> Codes:
        import pandas as pd

        index = pd.Index(list(self.values), dtype=object)
        return index.get_indexer(pd.Index(values.astype(object))).astype(np.int64)

    def _decode(self, codes: Codes, rng: np.random.Generator) -> Any:
        del rng
        values = np.empty(len(self.values), object)
        values[:] = self.values
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
        integer: values are whole numbers, and so are the edges.
        nullable, outside: see :class:`~dpassay.synth.Column`.

    >>> Numeric.between(0, 100, bins=10).size
    10
    >>> Numeric((0, 18, 65, 120), integer=True).domain_in_words()
    'the whole numbers of [0, 120)'

    """

    edges: tuple[float, ...]
    integer: bool = False
    kind: ClassVar[str] = "numeric"
    rules: ClassVar[tuple[str, ...]] = ("refused", "missing", "nearest")

    def __post_init__(self) -> None:
        super().__post_init__()
        edges = _check.array("edges", self.edges, ndim=1, remedy="They are the ends of the bins.")
        if len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InvalidArgument(
                f"edges={_shorten(self.edges)} must be two numbers or more, increasing."
            )
        if self.integer and not (edges == np.floor(edges)).all():
            raise InvalidArgument(
                f"edges={_shorten(self.edges)} must be whole numbers for integer=True."
            )
        number = int if self.integer else float
        object.__setattr__(self, "edges", tuple(number(edge) for edge in edges))

    @classmethod
    def between(
        cls,
        low: float,
        high: float,
        *,
        bins: int = 32,
        integer: bool = False,
        **rest: Unpack[ColumnOptions],
    ) -> "Numeric":
        """Bins of equal width; for whole numbers from ``low`` to ``high`` - 1, as a range."""
        low = _check.number("low", low)
        high = _check.number("high", high, low=low, low_open=True)
        edges = np.linspace(low, high, _check.count("bins", bins, high=MOST_BINS) + 1)
        if integer:
            edges = np.unique(np.round(edges))
        return cls(tuple(edges), integer, **rest)

    @property
    def n_values(self) -> int:
        """How many codes stand for values."""
        return len(self.edges) - 1

    def domain_in_words(self) -> str:
        """The domain, for messages."""
        if self.integer:
            return f"the whole numbers of [{self.edges[0]}, {self.edges[-1]})"
        return f"[{self.edges[0]:g}, {self.edges[-1]:g}]"

    def _domain(self) -> dict[str, Any]:
        return {"edges": list(self.edges), "integer": self.integer}

    def _nearest(self, values: Any) -> Codes:
        x = as_numbers(values)
        codes = np.searchsorted(self.edges, x, side="right") - 1
        return np.where(np.isnan(x), -1, codes.clip(0, self.n_values - 1))

    def _encode(self, values: Any) -> Codes:
        x = as_numbers(values)
        codes = np.searchsorted(self.edges, x, side="right").astype(np.int64) - 1
        last = x == self.edges[-1]
        codes[last] = -1 if self.integer else self.n_values - 1
        codes[~((x >= self.edges[0]) & (x <= self.edges[-1]))] = -1
        if self.integer:
            codes[x != np.floor(x)] = -1
        return codes

    def _decode(self, codes: Codes, rng: np.random.Generator) -> Any:
        edges = np.array(self.edges)
        if self.integer:
            return edges[codes] + rng.integers(0, np.diff(edges)[codes])
        return edges[codes] + rng.random(len(codes)) * np.diff(edges)[codes]


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
                f"edges={_shorten(self.edges)} must be two dates or more, increasing."
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
        "value; the data must not widen it."
    )


KINDS: dict[str, type[Any]] = {cls.kind: cls for cls in (Categorical, Ordinal, Numeric, Date)}
# What a mapping may say of each kind, beside nullable and outside: its own fields, or `between`'s.
_KEYS = {
    "categorical": ({"values"}, set[str]()),
    "ordinal": ({"values"}, set[str]()),
    "numeric": ({"edges", "integer"}, {"low", "high", "bins", "integer"}),
    "date": ({"edges"}, {"first", "end", "bins"}),
}


def column_from(name: str, given: Any) -> Column:
    """A column from what a person writes: a column, a range, a list of values, or a mapping.

    >>> column_from("age", range(0, 120)).size
    120
    >>> column_from("pay", {"kind": "numeric", "low": 0, "high": 10, "bins": 5}).size
    5

    """
    if isinstance(given, Column):
        return given
    if isinstance(given, range):
        return Ordinal(tuple(given))
    if isinstance(given, Mapping):
        return _from_mapping(name, dict(given))
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes):
        return Categorical(tuple(v.item() if isinstance(v, np.generic) else v for v in given))
    raise InvalidArgument(
        f"column {name!r} has the domain {_check.shown(given)}. Declare a list of values, a range, "
        "Numeric.between(low, high, bins=...) or Date.between(first, end, bins=...)."
    )


def _from_mapping(name: str, given: dict[str, Any]) -> Column:
    kind = given.pop("kind", "categorical" if "values" in given else "numeric")
    cls = KINDS[_check.choice(f"kind of column {name!r}", kind, tuple(KINDS))]
    keys = given.keys() - {"nullable", "outside"}
    plain, between = _KEYS[kind]
    if plain - {"integer"} <= keys <= plain:
        return cls(**given)
    if between and between - {"integer", "bins"} <= keys <= between:
        return cls.between(**given)
    ways = " or ".join(", ".join(sorted(way)) for way in (plain, between) if way)
    raise InvalidArgument(
        f"column {name!r} of kind {kind!r} has the keys {sorted(keys)}. It takes {ways}, and "
        "nullable and outside."
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
            f"{name}={_shorten(dates)} must be ISO dates, such as '2024-02-29'."
        ) from None


def _shorten(values: Sequence[Any]) -> str:
    shown = ", ".join(repr(value) for value in values[:6])
    return f"({shown}, ... {len(values)} in all)" if len(values) > 6 else f"({shown})"
