"""Tables from CSV files: types come from the domains, or from the texts where nobody declared any.

An empty field is a missing value.
"""

import csv
import json
import re
from collections.abc import Container, Mapping, Sequence
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
_DAY = len("2024-02-29")  # a longer text has a time of day


def read_table(source: Path, columns: "Mapping[str, Column]") -> Any:
    """The CSV file as a frame with the types that the declared domains have.

    Types are not guessed from the values: a column of the codes "01" and "02" stays text.
    """
    return _set_types(read_texts(source), columns)


def read_known(
    source: Path, schema: Path | None, drop: Sequence[str] = ()
) -> "tuple[Any, dict[str, Column | Undeclared], dict[str, str], list[str]]":
    """The CSV file as a frame, what is known of its columns, which were left out and why, rules.

    The schema may declare some domains, or say only the kind of a column; the kinds of all others
    are read off their texts, and are taken as public with the types of the columns. Columns that
    are not in the schema and look like identifiers or free text are left out.
    """
    from dpassay.synth.tables.domains import Undeclared, describe_column
    from dpassay.synth.tables.schema import read_written

    given: Any = {} if schema is None else read_written(schema)
    if given.get("impossible"):
        raise InvalidArgument(
            "`impossible` of a schema cannot be kept where domains are measured: its values may "
            "not be found. Declare all domains, or leave it out."
        )
    said, texts = given.get("columns", {}), read_texts(source)
    absent = [name for name in said if name not in texts.columns]
    if absent:
        raise InvalidArgument(f"column {absent[0]!r} of the schema is not in the table.")
    left_out = leave_out(texts, drop, said)
    known = {
        name: describe_column(name, said[name]) if name in said else Undeclared(_kind(texts[name]))
        for name in texts.columns
        if name not in left_out
    }
    return _set_types(texts[list(known)], known), known, left_out, given.get("rules", [])


# Names that identifiers have, as whole words; "id" also at the end, as in patientId.
_IDENTIFIERS = r"(id|ids|uuid|guid|ssn|email|e-mail|phone|telephone|iban|passport|url|ip|hash)"
_LONG = 40  # characters: longer texts on average are prose, not categories
FREE_TEXT = "it looks like free text"
UNIQUE = "most of its values come only once, as in an identifier"
_MANY = 50  # records from which on that says something


def leave_out(texts: Any, drop: Sequence[str], keep: Container[str] = ()) -> dict[str, str]:
    """Columns that do not belong into a model of the table, each with the reason.

    Identifiers and free text single out one record each: no noisy count of such a value stands out,
    and what the model would make of them is of no use. They are known by their name or their kind.
    """
    unknown = [name for name in drop if name not in texts.columns]
    if unknown:
        raise InvalidArgument(f"drop={unknown[0]!r} is not a column of the table.")
    reasons = dict.fromkeys(drop, "as asked")
    for name in texts.columns:
        if name not in reasons and name not in keep and (why := _useless(name, texts[name])):
            reasons[name] = why
    return reasons


def _useless(name: str, texts: Any) -> str | None:
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    if re.search(rf"(^|[\W_]){_IDENTIFIERS}($|[\W_])", words):
        return "its name is that of an identifier"
    present = texts.dropna()
    if _kind(texts) != "categorical" or len(present) < _MANY:
        return None
    if present.str.len().mean() > _LONG:
        return FREE_TEXT
    return UNIQUE if (~present.duplicated(keep=False)).mean() > 0.5 else None


def draft_schema(source: Path, drop: Sequence[str] = ()) -> tuple[str, dict[str, str]]:
    """A schema to fill in, as TOML, and the columns that were left out with the reasons.

    Of the table it holds the names of its columns and their kinds, nothing else.
    """
    texts = read_texts(source)
    left_out = leave_out(texts, drop)
    parts = [_DRAFT]
    for name in texts.columns:
        if name in left_out:
            parts.append(f"# {_toml_text(name)} is left out: {left_out[name]}.\n")
        else:
            parts.append(f"[columns.{_toml_text(name)}]\n{_FIELDS[_kind(texts[name])]}")
    return "\n".join(parts), left_out


def _toml_text(name: str) -> str:
    """A name as a key of TOML, in quotes unless it is a bare one."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


_DRAFT = """\
# A draft: the names of the columns and their kinds. Fill in what is commented out, from what a
# column means, not from the table: its smallest and largest value, and the set of values that
# occur, belong to single records, and whoever reads them in a published schema reads those records.
# What you cannot know may stay open: dpassay synth --domain-epsilon measures it with noise, out of
# epsilon. Add nullable = true where a value may be missing.
"""
_FIELDS = {
    "integer": 'kind = "integer"\n# low = 0\n# high = 120  # values are below it\n# bins = 12\n',
    "numeric": 'kind = "numeric"\n# low = 0.0\n# high = 1000.0\n# bins = 20\n# decimals = 2\n'
    "# atoms = [0.0]  # single numbers that many records have\n",
    "date": 'kind = "date"\n# first = "2024-01-01"\n# end = "2025-01-01"  # days are before it\n'
    "# bins = 12\n",
    "timestamp": 'kind = "timestamp"\n# first = "2024-01-01"\n# end = "2025-01-01"  # before it\n'
    "# bins = 12\n",
    "categorical": 'kind = "categorical"\n# values = ["first", "second"]\n',
}


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


def read_texts(source: Path) -> Any:
    """The CSV file as a frame of texts, in which an empty field is missing."""
    from dpassay._handed import load_csv

    return load_csv("table", source, dtype=str, keep_default_na=False, na_values=[""])


def _kind(texts: Any) -> str:
    present = texts.dropna()
    looks = (kind for kind, form in _LOOKS.items() if present.str.fullmatch(form).all())
    kind = next(looks, "categorical") if len(present) else "categorical"
    return "timestamp" if kind == "date" and (present.str.len() > _DAY).any() else kind


def _set_types(texts: Any, columns: "Mapping[str, Any]") -> Any:
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
