"""``dpassay reproduce``: the experiments of the source documents."""

import inspect
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from dpassay.cli.options import ExecutorName, Json, option
from dpassay.cli.output import emit, example, say, working
from dpassay.errors import InvalidArgument


def register(app: typer.Typer) -> None:
    """Add the command."""
    command = "dpassay reproduce slides --out slides --format svg"
    app.command("reproduce", epilog=example(command))(reproduce)


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="Which experiment: slides, hw3, clipping, lecture, thesis, debugging, "
            "one-dimension, adversaries, synth, or all of them with a table of every claim."
        ),
    ],
    out: Annotated[
        Path | None, option("Folder to write to; by default its name.", file_okay=False)
    ] = None,
    image_format: Annotated[str, option("svg or png.", "--format")] = "svg",
    figure: Annotated[
        str | None, option("One figure of thesis, such as 4.21; by default all.")
    ] = None,
    literal: Annotated[
        bool, option("thesis: with the document's own delta and noise.", "--literal")
    ] = False,
    data: Annotated[
        str | None,
        option(
            "adversaries: mnist, digits, location30, adult, cifar10 or purchase100; by "
            "default mnist where it is there, else digits."
        ),
    ] = None,
    full: Annotated[
        bool,
        option(
            "adversaries: 1000 trainings a world instead of 200; debugging: MNIST too; synth: more "
            "seeds, larger n.",
            "--full",
        ),
    ] = False,
    cnn: Annotated[
        bool, option("adversaries: a convolutional network too; hours on MNIST.", "--cnn")
    ] = False,
    quick: Annotated[
        bool,
        option(
            "all, adversaries, thesis, synth, clipping, lecture, debugging: smaller sizes and "
            "fewer repetitions; all takes under 20 minutes of processor time.",
            "--quick",
        ),
    ] = False,
    executor: ExecutorName = None,
    as_json: Json = False,
) -> None:
    """Draw the figures of a source document anew, with the numbers behind them."""
    from dpassay import _check
    from dpassay.report.figures import FORMATS
    from dpassay_reproduce import experiment

    module = experiment(name)
    _check.choice("image_format", image_format, FORMATS)
    if full and quick:
        raise InvalidArgument("--full and --quick cannot both be given. Leave one of them out.")
    options = _options(
        module,
        name,
        figure=figure,
        literal=literal,
        data=data,
        full=full,
        cnn=cnn,
        quick=quick,
        executor=executor,
    )
    folder = out if out is not None else Path(_folder(name, figure, literal, data, quick))
    with working(f"running {name}") as shown:
        if _takes(module, "progress"):
            options["progress"] = lambda part: shown.update(f"running {name}: {part} …")
        files = module.run(folder, image_format=image_format, **options)
    if as_json:
        emit({"experiment": name, "out": str(folder), "files": [str(path) for path in files]})
        return
    for path in files:
        say(str(path))
    say(f"Open {folder / 'index.html'}.")


def _options(module: ModuleType, name: str, **given: Any) -> dict[str, Any]:
    """Those options that were given; an experiment that does not take one says so."""
    options = {key: value for key, value in given.items() if value}
    for key in options:
        if not _takes(module, key):
            raise InvalidArgument(
                f"--{key} is of no use for name={name!r}. Leave it out; it is for {_FOR[key]}."
            )
    return options


def _takes(module: ModuleType, option: str) -> bool:
    return option in inspect.signature(module.run).parameters


_FOR = {
    "figure": "thesis",
    "literal": "thesis",
    "data": "adversaries",
    "full": "adversaries, debugging and synth",
    "quick": "all, adversaries, thesis, synth, clipping, lecture and debugging",
    "cnn": "adversaries",
    "executor": "adversaries and all",
}


def _folder(
    name: str,
    figure: str | None = None,
    literal: bool = False,
    data: str | None = None,
    quick: bool = False,
) -> str:
    """A folder of its own for every choice, so that no page is written over by another.

    But not for more of the same: --full goes on with the trainings that are there.
    """
    chosen = (["literal"] * literal, ["quick"] * quick, [p for p in (figure, data) if p])
    return "-".join([name, *(part for parts in chosen for part in parts)])
