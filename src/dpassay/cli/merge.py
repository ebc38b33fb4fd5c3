"""``dpassay merge``: logs of the same audit, played in several places, in one."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from dpassay.cli.options import Json
from dpassay.cli.output import emit, say

EXAMPLE = "dpassay merge all.db monday.db tuesday.db"


def merge(
    into: Annotated[Path, typer.Argument(help="The log to add to; made if there is none.")],
    logs: Annotated[list[Path], typer.Argument(help="The logs whose trials are added.")],
    as_json: Json = False,
) -> None:
    """Add the runs and trials of logs to another one; a trial that it holds stays as it is."""
    from dpassay.errors import InvalidArgument

    if os.path.realpath(into) in {os.path.realpath(log) for log in logs}:
        raise InvalidArgument(f"into={str(into)!r} must not be one of the logs that are added.")
    added = _merge(into, logs)
    if as_json:
        emit({"into": str(into), "new": sum(added.values()), "logs": added})
        return
    for path, new in added.items():
        say(f"{path}: {_trials(new)}")
    say(f"{into} now holds them: dpassay status {into}")


def _merge(into: Path, logs: list[Path]) -> dict[str, int]:
    """How many trials of each log were new. All are read before anything is written."""
    from dpassay.runs import merge as join
    from dpassay.runs import open_log

    with ExitStack() as stack:

        def open_here(path: Path, make: bool) -> Any:
            log = open_log(path, make=make)
            stack.callback(log.close)
            return log

        others = {str(path): open_here(path, make=False) for path in logs}
        for other in others.values():
            _read_through(other)
        whole = open_here(into, make=True)
        return {path: join(whole, other, names=(str(into), path)) for path, other in others.items()}


def _read_through(log: Any) -> None:
    """Raise here if a log is damaged, before another one is written to."""
    for run in log.runs():
        log.outcomes(run.key)


def _trials(new: int) -> str:
    return f"{new} new trial{'' if new == 1 else 's'}" if new else "nothing new"
