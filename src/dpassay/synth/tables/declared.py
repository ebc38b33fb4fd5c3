"""Columns from what a person writes: lists, ranges, and mappings as TOML gives them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.synth.tables.columns import Categorical, Column, Date, Numeric, Ordinal
from dpassay.synth.tables.times import TimeOfDay

KINDS: dict[str, type[Any]] = {
    cls.kind: cls for cls in (Categorical, Ordinal, Numeric, Date, TimeOfDay)
}
# What a mapping may say of each kind, beside nullable and outside: its own fields, or `between`'s.
_KEYS = {
    "categorical": ({"values", "other"}, set[str]()),
    "ordinal": ({"values", "other"}, set[str]()),
    "numeric": (
        {"edges", "integer", "atoms", "decimals"},
        {"low", "high", "bins", "integer", "atoms", "decimals"},
    ),
    "date": ({"edges"}, {"first", "end", "bins"}),
    "time": ({"of", "cells"}, set[str]()),
}
_OPTIONAL = {"integer", "bins", "atoms", "decimals", "other", "cells"}
_DOMAINS = {
    "categorical": "values",
    "ordinal": "values",
    "numeric": "low and high, or edges",
    "date": "first and end, or edges",
}
# What a schema may say of a column without declaring a domain, which then has to be measured.
UNDECLARED = {"kind", "integer", "bins", "nullable", "decimals", "cells", "other"}
# Kinds that are written as another one: with whole numbers, or with a time of day beside the days.
_ALSO = {"integer": "numeric", "timestamp": "date"}


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
    said = given.pop("kind", "categorical" if "values" in given else "numeric")
    _check.choice(f"kind of column {name!r}", said, (*KINDS, *_ALSO))
    if said == "integer":
        given["integer"] = True
    kind = _ALSO.get(said, said)
    if kind != "time" and given.keys() <= UNDECLARED:
        raise InvalidArgument(
            f"column {name!r} has a kind, {said!r}, and no domain. Declare it ({_DOMAINS[kind]}), "
            "or pay for measuring it: domain_epsilon=0.3 (on the command line --domain-epsilon)."
        )
    cls, keys = KINDS[kind], given.keys() - {"nullable", "outside"}
    plain, between = _KEYS[kind]
    if plain - _OPTIONAL <= keys <= plain:
        return cls(**given)
    if between and between - _OPTIONAL <= keys <= between:
        return cls.between(**given)
    ways = " or ".join(", ".join(sorted(way)) for way in (plain, between) if way)
    raise InvalidArgument(
        f"column {name!r} of kind {kind!r} has the keys {sorted(keys)}. It takes {ways}, and "
        "nullable and outside."
    )


def expand_timestamps(columns: Mapping[Any, Any]) -> dict[str, Any]:
    """Columns by name, each declared timestamp as its day and its time of day.

    >>> list(expand_timestamps({"t": {"kind": "timestamp", "first": "2024-01-01", "end": "2025"}}))
    ['t', 't time']

    """
    found: dict[str, Any] = {}
    for name, given in columns.items():
        found[str(name)] = given
        if isinstance(given, Mapping) and given.get("kind") == "timestamp":
            if not {"first", "edges"} & given.keys():
                continue
            day = {key: value for key, value in given.items() if key != "cells"}
            found[str(name)] = day | {"kind": "date"}
            cells = {"cells": given["cells"]} if "cells" in given else {}
            nullable = given.get("nullable", False)
            found[f"{name} time"] = {"kind": "time", "of": str(name), "nullable": nullable} | cells
    return found
