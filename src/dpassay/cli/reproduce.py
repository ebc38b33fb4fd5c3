"""``dpassay reproduce``: the experiments of the source documents."""

from pathlib import Path
from typing import Annotated

import typer

from dpassay.cli.options import Json
from dpassay.cli.output import emit, example, say, working


def register(app: typer.Typer) -> None:
    """Add the command."""
    command = "dpassay reproduce slides --out slides --format svg"
    app.command("reproduce", epilog=example(command))(reproduce)


def reproduce(
    name: Annotated[str, typer.Argument(help="Which experiment: slides, hw3 or clipping.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to; by default its name.", file_okay=False)
    ] = None,
    image_format: Annotated[str, typer.Option("--format", help="svg or png.")] = "svg",
    as_json: Json = False,
) -> None:
    """Draw the figures of a source document anew, with the numbers behind them."""
    from dpassay import _check
    from dpassay.report.figures import FORMATS
    from dpassay.reproduce import experiment

    module = experiment(name)
    _check.choice("image_format", image_format, FORMATS)
    folder = out if out is not None else Path(name)
    with working(f"running {name}"):
        files = module.run(folder, image_format=image_format)
    if as_json:
        emit({"experiment": name, "out": str(folder), "files": [str(path) for path in files]})
        return
    for path in files:
        say(str(path))
    say(f"Open {folder / 'index.html'}.")
