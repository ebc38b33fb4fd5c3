"""``dpassay schema``: a schema to fill in, from the names and kinds of a table's columns."""

from pathlib import Path
from typing import Annotated

import typer

from dpassay import _files
from dpassay.cli.options import Json, group, option
from dpassay.cli.output import emit, example, say
from dpassay.cli.tables import draft_schema
from dpassay.errors import InvalidArgument

DRAFT = "dpassay schema draft table.csv -o schema.toml"
app = group("schema", "The public domain of a table, as `dpassay synth` takes it.", DRAFT)


@app.callback()
def _group() -> None:
    """Keep `draft` a command of its own, though it is the only one."""


@app.command("draft", epilog=example(DRAFT))
def draft(
    source: Annotated[Path, typer.Argument(metavar="TABLE", help="The table, as CSV.")],
    out: Annotated[Path, option("The schema to write.", "--out", "-o")] = Path("schema.toml"),
    drop: Annotated[
        list[str] | None, option("A column to leave out; may be given repeatedly.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a schema to fill in: names and kinds of the columns, and what is still to be said.

    Nothing else of the table is in it. Identifiers and free text are left out, with a word.
    """
    if out.exists():
        raise InvalidArgument(f"out={str(out)!r} is there already; name another file by -o.")
    text, left_out = draft_schema(source, drop or [])
    _files.write(out, text)
    if as_json:
        emit({"schema": str(out), "left_out": left_out})
        return
    for name, why in left_out.items():
        say(f"Left out: column {name!r}, {why}.")
    say(f"{out} is to be filled in, from what the columns mean and not from the table: bounds and")
    say("values that occur belong to single records. What stays open can be measured with noise:")
    say(f"dpassay synth {source} --schema {out} --epsilon 1 --domain-epsilon 0.3 -o synthetic.csv")
