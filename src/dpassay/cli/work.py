"""``dpassay work``: play a part of an audit that was written down, under any scheduler."""

from pathlib import Path
from typing import Annotated

import typer

from dpassay.cli.audit_options import Workers
from dpassay.cli.ending import STOPPED, ending
from dpassay.cli.options import ExecutorName, Json, option
from dpassay.cli.output import emit, explain_failure, say

EXAMPLE = "dpassay work --store runs/laplace --shard 3/64"


def work(
    store: Annotated[Path, option("The folder that dpassay audit … --describe has written.")],
    shard: Annotated[
        str | None, option("3/64 plays the third of 64 parts; they are counted from 1.")
    ] = None,
    numbers: Annotated[
        str | None, option("0:5000 plays the first 5000 trials, 5000:6000 those after.", "--range")
    ] = None,
    workers: Workers = None,
    executor: ExecutorName = None,
    quiet: Annotated[bool, option("No progress.", "--quiet")] = False,
    as_json: Json = False,
) -> None:
    """Play a part of an audit that was written down, into a log of its own in the folder.

    The same command goes on where it was. dpassay status, report and audit with the folder as store
    join the parts. Exit code 0: played, 2: misuse, 3: stopped before the end, 130: Ctrl-C.
    """
    from dpassay.auditing import AuditStopped, play_part
    from dpassay.runs import Workers as Processes
    from dpassay.runs import hire

    # A process of its own, as in an audit: no trial can hang or end the part.
    crew = hire(executor, workers) if executor else Processes(workers or 1, separate=workers != 0)
    try:
        with crew as who:
            shown = "quiet" if quiet or as_json else "auto"
            part, played = play_part(
                store, shard=shard, numbers=numbers, executor=who, progress=shown
            )
    except AuditStopped as stopped:
        explain_failure(str(stopped))
        raise typer.Exit(STOPPED) from None
    facts = {"part": part.name, "trials": len(part.trials), "n_logged": played.n_logged}
    facts |= {"n_played": played.n_played, "n_failed": played.n_failed, "ended": played.ended}
    if as_json:
        emit(facts | {"store": str(store), "log": part.file})
    else:
        say(
            f"Part {part.name}: {played.n_logged} of {len(part.trials)} trials are in "
            f"{store / part.file}, {played.n_played} of them played now."
        )
    if played.ended == "interrupted":
        ending.tell_interrupted("interrupted. The same command goes on.")
        raise typer.Exit(STOPPED)
