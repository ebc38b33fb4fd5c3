"""Options that several commands share: one name, one meaning, one line of help, one largest value.

Whole numbers have a limit here, far beyond what is useful and far below what would only end in a
lack of memory, so that a slip of the hand is named at once.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay.cli.output import example
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.privacy import Ledger

LARGEST = 10**12
LIMITS = {"seed": 2**63 - 1, "trials": 10**9, "rows": 10**9, "workers": 1024, "steps": 10**9}
_WHY = {
    "workers": "Processes beyond the number of cores make nothing faster.",
    "rows": "For more, save the model by --model and sample from it in parts.",
}


def option(text: str, *names: str, **more: Any) -> Any:
    """A typer option with this line of help: short enough to stand on the line of its argument."""
    return typer.Option(*names, help=text, **more)


NoiseMultiplier = Annotated[
    float,
    typer.Option(help="Noise in units of the sensitivity (for DP-SGD, of the clipping norm)."),
]
Count = Annotated[int, typer.Option(help="How often it is done, each time with fresh noise.")]
EpsilonEach = Annotated[float, typer.Option(help="Epsilon of each of them.")]
Scheme = Annotated[str, typer.Option(help="How batches are drawn: poisson or without-replacement.")]
Neighbours = Annotated[
    str,
    typer.Option(
        "--neighbouring",
        "--neighboring",
        help="What neighbouring data sets differ by: add-remove or replace-one.",
    ),
]
ExecutorName = Annotated[
    str | None,
    typer.Option(
        "--executor",
        help="Who plays: dask for a cluster on this machine, dask:tcp://host:8786 for the one at "
        "an address; else processes of its own.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
NoiseSeed = Annotated[
    int | None, typer.Option(help="Noise that can be replayed: for tests, NOT private.")
]
LedgerPath = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        envvar="DPASSAY_LEDGER",
        help="Charge what is spent here; made by dpassay ledger new.",
    ),
]


def open_ledger(path: Path | None) -> "Ledger | None":
    """The ledger that a command was given; one that is not there is an error, never made."""
    if path is None:
        return None
    from dpassay.privacy import Ledger

    return Ledger.open(path)


class App(typer.Typer):
    """A program or a group of commands whose numbers are checked before a command sees them."""

    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Register a function as a command; the function itself is returned as it was."""
        register = super().command(*args, **options)

        def add(function: Any) -> Any:
            register(_check_arguments(function))
            return function

        return add


def group(name: str, text: str, shown: str) -> App:
    """A command with commands of its own; alone, it prints its help and the example ``shown``."""
    return App(name=name, help=text, epilog=example(shown), no_args_is_help=True)


def _check_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(**given: Any) -> Any:
        for name, value in given.items():
            check_number(name, value)
        return function(**given)

    return call


def check_number(name: str, value: Any) -> None:
    """Refuse NaN and whole numbers beyond their limit; all else is for the command to judge."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, float):
        if math.isnan(value):
            raise InvalidArgument(f"{name}=nan must be a number.")
        return
    from dpassay import _check

    most, shown = LIMITS.get(name, LARGEST), f"{name}={_check.digits(value)}"
    if value > most:
        raise InvalidArgument(f"{shown} must be at most {most:,}. {_WHY.get(name, '')}".rstrip())
    if value < 0 and (name == "seed" or -value > LARGEST):
        raise InvalidArgument(f"{shown} must not be negative. Pass 0 or a larger whole number.")
