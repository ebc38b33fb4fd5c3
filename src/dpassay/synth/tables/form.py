"""The form of a table: what a synthetic one must look like to pass for the same kind of table.

Container, order of columns and data types are metadata, taken as public. But where a library picks
the type by the values that happen to occur (whole numbers become floats once one is missing, texts
of an array are as wide as the longest of them), the type would tell whether some record is there;
in those cases it is that of the declared domain instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.errors import InvalidArgument
from dpassay.synth.tables.columns import Categorical, Column, Numeric, Ordinal
from dpassay.synth.tables.schema import Schema

# Types that cannot hold a missing value, and those that can.
_WITH_MISSING = {"b": "boolean", "i": "Int64", "u": "Int64"}


@dataclass(frozen=True)
class Form:
    """A frame or an array, its columns in order, and their types by name.

    Attributes:
        container: "frame" or "array".
        dtypes: column to the name of its type; "category" takes its categories from the schema.

    """

    container: str
    dtypes: Mapping[str, str]

    @classmethod
    def of(cls, table: Any, schema: Schema) -> "Form":
        """The form of a table."""
        import pandas as pd

        if isinstance(table, pd.DataFrame):
            types = {
                str(name): str(table[name].dtype)
                for name in table.columns
                if name in schema.columns
            }
            return cls(
                "frame", {name: _public(t, schema.columns[name]) for name, t in types.items()}
            )
        dtype = np.asarray(table).dtype
        floats = dict.fromkeys("biuf", "float64")
        found = {_public(str(dtype), column, floats) for column in schema.columns.values()}
        own = found.pop() if len(found) == 1 and dtype.kind not in "US" else "object"
        return cls("array", dict.fromkeys(schema.names, own))

    def apply(self, frame: Any, schema: Schema) -> Any:
        """A frame of values, in this form."""
        import pandas as pd

        columns = {
            name: _cast(frame[name], dtype, schema, name) for name, dtype in self.dtypes.items()
        }
        shaped = pd.DataFrame(columns, columns=list(self.dtypes))
        if self.container == "frame":
            return shaped
        return shaped.to_numpy(dtype=np.dtype(next(iter(self.dtypes.values()))))

    def as_dict(self) -> dict[str, Any]:
        """What JSON holds of it."""
        return {"container": self.container, "dtypes": list(self.dtypes.items())}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Form":
        """Read back what ``as_dict`` gave."""
        return cls(given["container"], dict(given["dtypes"]))


def _public(dtype: str, column: Column, missing: Mapping[str, str] = _WITH_MISSING) -> str:
    """A type, or that of the domain where the values that occur may have decided on it.

    ``missing`` names, by the kind of the domain's type, the one for values that may be missing.
    """
    kind, own = _kind(dtype), _domain_type(column)
    if kind not in tuple("biufO") or not own:
        return dtype
    if column.nullable and _kind(own) in missing:
        return missing[_kind(own)]
    return dtype if kind == "O" or (kind == _kind(own) and _holds(dtype, column)) else own


def _kind(dtype: str) -> str:
    """The kind of a type of numpy; none for those of pandas, which are chosen and not inferred."""
    return np.dtype(dtype).kind if dtype in np.sctypeDict else ""


def _domain_type(column: Column) -> str:
    """The type that pandas gives to the whole domain."""
    import pandas as pd

    if isinstance(column, Numeric):
        return "int64" if column.integer else "float64"
    return str(pd.Series(list(column.listed)).dtype) if isinstance(column, Categorical) else ""


def _holds(dtype: str, column: Column) -> bool:
    """Whether a type of numbers keeps every value of the domain."""
    values = column.listed if isinstance(column, Categorical) else getattr(column, "edges", ())
    given = np.array(values)
    return bool((given.astype(dtype) == given).all())


def _cast(values: Any, dtype: str, schema: Schema, name: str) -> Any:
    """A series as the given type, or as the nearest one that can hold missing values."""
    import pandas as pd

    column = schema.columns[name]
    if dtype == "category":
        known = column.listed if isinstance(column, Categorical) else None
        return values.astype(pd.CategoricalDtype(known, ordered=isinstance(column, Ordinal)))
    if dtype == "object":
        return values.astype(object)
    wanted = pd.api.types.pandas_dtype(dtype)
    if isinstance(wanted, pd.DatetimeTZDtype):
        # The time of day is as written. Where clocks are put forward, the hour between is passed.
        return values.dt.tz_localize(
            wanted.tz, ambiguous=np.ones(len(values), bool), nonexistent="shift_forward"
        ).astype(wanted)
    missing = values.isna()
    kind = getattr(pd.api.types.pandas_dtype(dtype), "kind", "O")
    if missing.any() and kind in _WITH_MISSING and not dtype[0].isupper() and dtype != "boolean":
        dtype = _WITH_MISSING[kind]
    try:
        return values.astype(dtype)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"column {name!r} was {dtype} in the table, but its domain holds values that are not."
        ) from None
