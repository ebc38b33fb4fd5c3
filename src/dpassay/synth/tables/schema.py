"""The public domain of a table: its columns in their order, and combinations that cannot be.

A schema is written down, in code or in TOML or JSON; it is not read off the data, since the set of
values that occur is itself private.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _check, _handed
from dpassay._conditions import Rule, read_rule
from dpassay.errors import InvalidArgument
from dpassay.synth.tables.columns import Codes, Column
from dpassay.synth.tables.declared import column_from, expand_timestamps
from dpassay.synth.tables.times import TimeOfDay


class Schema:
    """Columns by name, each with its public domain.

    Args:
        columns: name to domain: a list of values, a range, a :class:`~dpassay.synth.Column`, or a
            mapping as TOML gives it.
        impossible: combinations that no record can have (structural zeros), each a mapping from
            columns to a value or a list of values; known without the data.
        rules: what every record is known to meet, about values of one or more columns, such as
            ``"start < end"`` or ``"result == 'positive' -> ct < 45"``. No record that breaks one is
            ever sampled. True records that do are kept as they are: an error would tell of them.

    Raises:
        InvalidArgument: no column, an unknown kind, a domain that is empty or not in order.

    >>> schema = Schema({"age": range(0, 120), "sex": ["F", "M"]})
    >>> schema.names, schema.sizes, schema.n_cells
    (('age', 'sex'), (120, 2), 240)

    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        impossible: Sequence[Mapping[str, Any]] = (),
        rules: Sequence[str] = (),
    ) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise InvalidArgument(
                f"columns={_check.shown(columns)} must be a mapping from names to domains, not "
                "empty, e.g. {'age': range(0, 120), 'sex': ['F', 'M']}."
            )
        self.columns: dict[str, Column] = {
            name: column_from(name, domain) for name, domain in expand_timestamps(columns).items()
        }
        self._check_times()
        self.impossible = tuple(dict(rule) for rule in impossible)
        self._rules = tuple(self._rule(rule) for rule in self.impossible)
        self.rules = check_rules(rules, self.names)

    def _check_times(self) -> None:
        names = list(self.columns)
        for place, (name, column) in enumerate(self.columns.items()):
            if isinstance(column, TimeOfDay) and (
                column.of not in names[:place] or self.columns[column.of].kind != "date"
            ):
                raise InvalidArgument(
                    f"column {name!r} is the time of day of {column.of!r}, which must be a column "
                    "of dates that stands before it."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each column has."""
        return tuple(column.size for column in self.columns.values())

    @property
    def n_cells(self) -> int:
        """The size of the universe."""
        return math.prod(self.sizes)

    def positions(self, names: Sequence[str]) -> tuple[int, ...]:
        """The places of columns, by name; an unknown one is an error."""
        order = {name: place for place, name in enumerate(self.columns)}
        unknown = [name for name in names if name not in order]
        if unknown:
            raise InvalidArgument(
                f"column {unknown[0]!r} is not in the schema, which has {list(order)}."
            )
        return tuple(order[name] for name in names)

    def shape(self, names: Sequence[str]) -> tuple[int, ...]:
        """The shape of the marginal table of some columns."""
        return tuple(self.sizes[place] for place in self.positions(names))

    # Tables in and out.

    def encode(self, table: Any) -> Codes:
        """The codes of a frame or of a 2-D array with the columns in order, one row per record.

        Raises:
            InvalidArgument: the table is empty, a column is missing or not declared, a value is
                outside its domain or missing where none may be.

        """
        frame = as_frame(table, self.names)
        source = {name: _source(name, column) for name, column in self.columns.items()}
        missing = [name for name in source.values() if name not in frame.columns]
        if missing:
            raise InvalidArgument(
                f"column {missing[0]!r} of the schema is not in the table, which has "
                f"{list(frame.columns)}."
            )
        extra = [name for name in frame.columns if name not in self.columns]
        if extra:
            raise InvalidArgument(
                f"column {extra[0]!r} of the table is not in the schema. Declare its domain, or "
                "drop it."
            )
        if not len(frame):
            raise InvalidArgument("the table is empty: it has no records to learn from.")
        codes = np.empty((len(frame), len(self.columns)), np.int64)
        for place, (name, column) in enumerate(self.columns.items()):
            codes[:, place] = column.encode(name, frame[source[name]])
        return codes

    def decode(self, codes: Codes, rng: np.random.Generator) -> Any:
        """A frame of values; those of bins are drawn inside their bin, times join their days."""
        import pandas as pd

        columns = {}
        for place, (name, column) in enumerate(self.columns.items()):
            values, missing = column.decode(codes[:, place], rng)
            series = pd.Series(values)
            series = series.mask(missing) if missing.any() else series
            if isinstance(column, TimeOfDay):
                columns[column.of] = columns[column.of].astype("datetime64[s]") + series
            else:
                columns[name] = series
        return pd.DataFrame(columns)

    # Conditions.

    def possible(self, codes: Codes) -> NDArray[np.bool_]:
        """Which rows break none of the rules."""
        fine = np.ones(len(codes), bool)
        for rule in self._rules:
            broken = np.ones(len(codes), bool)
            for place, allowed in rule.items():
                broken &= allowed[codes[:, place]]
            fine &= ~broken
        return fine

    def possible_cells(self) -> NDArray[np.bool_]:
        """Which cells of the whole universe can be; of shape ``sizes``."""
        cells = np.ones(self.sizes, bool)
        for rule in self._rules:
            ruled_out = [rule.get(j, np.ones(size, bool)) for j, size in enumerate(self.sizes)]
            cells[np.ix_(*ruled_out)] = False
        return cells

    def conditions(self, where: Mapping[str, Any]) -> dict[int, NDArray[np.bool_]]:
        """Place of a column to the codes that a condition allows there."""
        places = self.positions(list(where))
        return {
            place: self.columns[name].where(name, wanted)
            for place, (name, wanted) in zip(places, where.items(), strict=True)
        }

    def _rule(self, rule: Mapping[str, Any]) -> dict[int, NDArray[np.bool_]]:
        if not rule:
            raise InvalidArgument("impossible has an empty rule, which rules out every record.")
        return self.conditions(rule)

    def keeps_rules(self, table: Any) -> NDArray[np.bool_]:
        """Which records of a frame of values break none of ``rules``."""
        fine = np.ones(len(table), bool)
        for rule in self.rules:
            fine &= rule.holds(table)
        return fine

    # Files.

    def as_dict(self) -> dict[str, Any]:
        """What TOML or JSON holds of it; ``Schema.from_dict`` reads it back."""
        columns = {name: column.as_dict() for name, column in self.columns.items()}
        given = {"columns": columns, "impossible": [dict(rule) for rule in self.impossible]}
        return given | ({"rules": [rule.text for rule in self.rules]} if self.rules else {})

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Schema":
        """A schema from ``{"columns": {...}, "impossible": [...], "rules": [...]}``."""
        if not isinstance(given, Mapping) or "columns" not in given:
            raise InvalidArgument("a schema needs a table `columns`, e.g. [columns.age].")
        try:
            rules = given.get("rules", ())
            return cls(given["columns"], impossible=given.get("impossible", ()), rules=rules)
        except InvalidArgument:
            raise
        except (TypeError, ValueError, OverflowError):  # a number where a list should be
            raise InvalidArgument(
                "the schema is not valid. A column has a list `values`, a rule of `impossible` is "
                "a mapping from columns to values."
            ) from None

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """A schema from a TOML or JSON file."""
        return cls.from_dict(read_written(path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(json.dumps(self.as_dict(), default=str))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}: {column.size}" for name, column in self.columns.items())
        return f"Schema({inner})"


def _source(name: str, column: Column) -> str:
    """The column of a table that a column is read from."""
    return column.of if isinstance(column, TimeOfDay) else name


def check_rules(rules: Sequence[str], names: Sequence[str]) -> tuple[Rule, ...]:
    """The rules that texts state, about columns of these names."""
    if isinstance(rules, str) or not all(isinstance(rule, str) for rule in rules):
        raise InvalidArgument("rules must be a list of texts, e.g. ['start < end'].")
    found = tuple(map(read_rule, rules))
    for rule in found:
        unknown = [name for name in rule.columns if name not in names]
        if unknown:
            raise InvalidArgument(
                f"rules: {rule.text!r} names {unknown[0]!r}, which is not a column of the schema."
            )
    return found


def read_written(path: str | Path) -> Any:
    """What a TOML or JSON file holds, as it stands there."""
    load = _handed.load_json if Path(path).suffix == ".json" else _handed.load_toml
    given = load("schema", path)
    if not isinstance(given, dict) or not isinstance(given.get("columns", {}), dict):
        raise InvalidArgument(
            f"schema={str(path)!r} needs a table `columns` of tables, e.g. [columns.age]."
        )
    return given


def as_frame(table: Any, names: Sequence[str]) -> Any:
    """A pandas frame; arrays are taken to have the columns in order."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        if not table.columns.is_unique:
            raise InvalidArgument("the table has two columns of one name.")
        return table
    values = np.asarray(table)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InvalidArgument(
            f"the table has shape {values.shape}; it must be a frame, or an array with "
            f"{len(names)} columns, {list(names)}."
        )
    return pd.DataFrame(values, columns=list(names))
