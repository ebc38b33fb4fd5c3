"""What a command line names, with the pair of data sets that it is audited on."""

import shlex
from pathlib import Path
from typing import Any

from dpassay._handed import load_csv
from dpassay.auditing.adapters.command import Command, from_command
from dpassay.auditing.adapters.script import Script, from_script
from dpassay.auditing.targets import load_pair
from dpassay.errors import InvalidArgument, InvalidTarget

LEARNED = "learned"  # what to say for a score that is learned where a script gives one


def is_script(target: str) -> bool:
    """Whether a target is a whole script: a Python file without a function."""
    return target.endswith(".py")


def script_named(target: str, arguments: str = "", *, in_place: bool = False) -> Script:
    """The script of a target, with arguments as one would type them."""
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise InvalidArgument(f"arguments={arguments!r} cannot be split: {error}.") from None
    return from_script(target, words, in_place=in_place)


def released_number(output: Any) -> float:
    """The score of a script: the number that it released.

    Raises:
        InvalidTarget: it released something else.

    """
    try:
        return float(output)
    except (TypeError, ValueError):
        raise InvalidTarget(
            f"the script released a {type(output).__qualname__}, not a number. Say how to score "
            "it, probe.release(model, score=...), or have a score learned: --score learned."
        ) from None


def command_named(
    command: str, data: Path | None, data_prime: Path | None
) -> tuple[Command, tuple[Any, Any]]:
    """A command and its pair of tables: of an NPZ file, or of two CSV files with headers.

    Raises:
        InvalidArgument: the command is not one, or a file is missing or no table.

    """
    if data is None or (data_prime is None) != (data.suffix == ".npz"):
        raise InvalidArgument(
            f"data={data and str(data)!r}, data_prime={data_prime and str(data_prime)!r} must be "
            "one NPZ file or two tables: --data with.csv --data-prime without.csv."
        )
    pair = load_pair(data) if data_prime is None else (_table(data), _table(data_prime))
    return from_command(command), pair


def _table(path: Path) -> Any:
    """A CSV file as texts, so that the command reads what is written there."""
    frame = load_csv("data", path, dtype=str, keep_default_na=False)
    if not len(frame):
        raise InvalidArgument(f"data={str(path)!r} is empty: it has no records.")
    return frame
