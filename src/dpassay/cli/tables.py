"""Tables from CSV files: types come from the domains, or from the texts where nobody declared any.

An empty field is a missing value.
"""

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.synth import Column
    from dpassay.synth.tables.domains import Undeclared

# What the texts of a column look like if it is one of numbers or days; the codes "01" and "02" stay
# texts. The first that all of them match is taken.
_LOOKS = {
    "integer": r"[+-]?(0|[1-9][0-9]*)",
    "numeric": r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?",
}


def read_table(source: Path, columns: "Mapping[str, Column]") -> Any:
    """The CSV file as a frame with the types that the declared domains have.

    Types are not guessed from the values: a column of the codes "01" and "02" stays text.
    """
    return _typed_frame(_texts(source), columns)


def read_known(source: Path, schema: Path | None) -> "tuple[Any, dict[str, Column | Undeclared]]":
    """The CSV file as a frame, and what is known of its columns.

    The schema may declare some domains, or say only the kind of a column; the kinds of all others
    are read off their texts, and are taken as public with the types of the columns.
    """
    from dpassay.synth.tables.domains import Undeclared, known_of
    from dpassay.synth.tables.schema import written_in

    given: Any = {} if schema is None else written_in(schema)
    if given.get("impossible"):
        raise InvalidArgument(
            "`impossible` of a schema cannot be kept where domains are measured: its values may "
            "not be found. Declare all domains, or leave it out."
        )
    said, texts = given.get("columns", {}), _texts(source)
    absent = [name for name in said if name not in texts.columns]
    if absent:
        raise InvalidArgument(f"column {absent[0]!r} of the schema is not in the table.")
    known = {
        name: known_of(name, said[name]) if name in said else Undeclared(_kind(texts[name]))
        for name in texts.columns
    }
    return _typed_frame(texts, known), known


# How a text begins that a spreadsheet runs as a formula (also with the wide signs of East Asian
# keyboards), unless it is a number: "-5" is one.
_FORMULA = r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]."
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


def csv_text(frame: Any) -> str:
    """The frame as CSV in which no text is a formula: such a text gets an apostrophe before it.

    Spreadsheets show the text without the apostrophe and do not run it. Numbers and days stay as
    they are, and so do texts that are numbers, such as the code "-5".
    """
    safe = frame.rename(columns=lambda name: _without_formula(str(name)))
    texts = [name for name in safe.columns if safe[name].dtype.kind not in "biufM"]
    for name in texts:
        safe[name] = safe[name].map(_without_formula, na_action="ignore")
    # Where lines end with a line feed, pandas leaves a lone carriage return without quotes, and
    # readers take it for the end of a line.
    returns = any(safe[name].astype(str).str.contains("\r").any() for name in texts)
    return safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)


def _without_formula(value: Any) -> Any:
    text = isinstance(value, str) and re.match(_FORMULA, value, re.DOTALL)
    return f"'{value}" if text and not re.fullmatch(_NUMBER, value) else value


def _texts(source: Path) -> Any:
    from dpassay._handed import load_csv

    return load_csv("table", source, dtype=str, keep_default_na=False, na_values=[""])


def _kind(texts: Any) -> str:
    present = texts.dropna()
    looks = (kind for kind, form in _LOOKS.items() if present.str.fullmatch(form).all())
    return next(looks, "categorical") if len(present) else "categorical"


def _typed_frame(texts: Any, columns: "Mapping[str, Any]") -> Any:
    for name, column in columns.items():
        if name in texts.columns:
            texts[name] = _convert(name, texts[name], column)
    return texts


def _convert(name: str, texts: Any, column: "Column | Undeclared") -> Any:
    """A column of texts as what its domain holds."""
    from dpassay.synth.tables.columns import Categorical, outside_domain

    if column.kind in ("numeric", "integer"):
        whole = column.kind == "integer" or getattr(column, "integer", False)
        return _numbers(name, texts, whole)
    if not isinstance(column, Categorical) or all(isinstance(v, str) for v in column.values):
        return texts
    by_text = {str(value): value for value in column.values}
    unknown = texts.notna() & ~texts.isin(list(by_text))
    if unknown.any() and column.outside == "refused":
        raise outside_domain(name, column.domain_in_words())
    return texts.map(by_text).astype(object).infer_objects()


def _numbers(name: str, texts: Any, integer: bool) -> Any:
    import pandas as pd

    found: Any = pd.to_numeric(texts, errors="coerce")
    bad = found.isna() & texts.notna()
    if integer:
        bad |= found.notna() & (found % 1 != 0)
    if bad.any():
        what = "a whole number" if integer else "a number"
        raise InvalidArgument(f"column {name!r} has a value that is not {what}.")
    if integer and (found.astype(float).abs() >= 2.0**63).any():
        raise InvalidArgument(
            f"column {name!r} has whole numbers of 20 digits or so, too large for numbers. "
            'If they are names, declare kind = "categorical" for it in the schema.'
        )
    return found.astype("Int64") if integer else found.astype(float)
