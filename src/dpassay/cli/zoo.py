"""``dpassay zoo``: audit every mechanism of the zoo and compare the verdicts with the truth."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay.cli.options import ExecutorName, Json
from dpassay.cli.output import emit, say, table, working

if TYPE_CHECKING:
    from dpassay.zoo.libraries import Tried
    from dpassay.zoo.tour import Judged

WRONG = 1


EXAMPLE = "dpassay zoo --only occupied --trials 60000"


def zoo(
    only: Annotated[
        list[str] | None, typer.Option(help="Part of a name; may be given several times.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Draws of each mechanism.")] = 8_000_000,
    confidence: Annotated[float, typer.Option(help="Of each verdict.")] = 1 - 1e-6,
    seed: Annotated[int, typer.Option(help="Of worlds and noise.")] = 0,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Search the pairs instead of taking the stored ones.")
    ] = False,
    libraries: Annotated[
        bool,
        typer.Option("--libraries", help="Install and audit public packages instead."),
    ] = False,
    environments: Annotated[
        Path | None,
        typer.Option(help="A folder for the packages' environments; else in your cache."),
    ] = None,
    executor: ExecutorName = None,
    as_json: Json = False,
) -> None:
    """Audit honest and broken mechanisms: every bug must be caught, every honest one let through.

    The exit code is 1 if one of them is judged wrongly. With --libraries each package is installed
    into an environment of its own, from the registry that pip is set to.
    """
    if libraries:
        _try_libraries(only or [], confidence, environments, as_json)
        return
    from dpassay.runs import hire
    from dpassay.zoo.tour import find_subjects, walk

    subjects = find_subjects(only or ())
    options: Any = {"draws": trials, "confidence": confidence, "rng": seed, "hidden": hidden}
    with working(f"auditing {len(subjects)} mechanisms"), hire(executor, 1) as who:
        judged = list(walk(subjects, executor=who, **options))
    data = {"mechanisms": [_facts(one) for one in judged], "confidence": confidence}
    _end(judged, data if as_json else None, _print)


def _try_libraries(
    only: list[str], confidence: float, environments: Path | None, as_json: bool
) -> None:
    from dpassay.zoo.libraries import find_programs, try_programs

    programs = find_programs(only)
    with working(f"installing and auditing {len(programs)} programs"):
        tried = list(try_programs(programs, confidence=confidence, place=environments))
    data = {"programs": [_library_facts(one) for one in tried], "confidence": confidence}
    _end(tried, data if as_json else None, _print_libraries)


def _end(judged: Sequence[Any], data: dict[str, Any] | None, show: Callable[[Any], None]) -> None:
    """Print JSON if there are data, else a table; leave with 1 if one was judged wrongly."""
    if data is not None:
        emit(data)
    else:
        show(judged)
    if not all(one.right for one in judged):
        raise typer.Exit(WRONG)


def _library_facts(one: "Tried") -> dict[str, Any]:
    program, verdict = one.program, one.verdict
    return {
        "name": program.name,
        "packages": list(program.requirements),
        "broken": program.broken,
        "refuted": None if verdict is None else verdict.refuted,
        "epsilon_lower": None if verdict is None else verdict.bound.epsilon,
        "delta": None if verdict is None else verdict.bound.delta,
        "claim": repr(program.claim),
        "trials": None if verdict is None else verdict.trials,
        "seconds": round(one.seconds, 1),
        "about": program.about,
        "source": program.source,
        "why_not": one.why,
    }


def _print_libraries(tried: "list[Tried]") -> None:
    rows = [
        (
            one.program.name,
            " ".join(one.program.requirements),
            "no verdict" if one.verdict is None else _word(one.verdict.refuted),
            "-" if one.verdict is None else f"{one.verdict.bound.epsilon:.4g}",
            "-" if one.verdict is None else f"{one.verdict.trials:,}".replace(",", " "),
            one.why or one.program.source,
        )
        for one in tried
    ]
    columns = ("program", "packages", "verdict", "epsilon >=", "trials", "known as, or why not")
    table("Public libraries", columns, rows)
    wrong = [one.program.name for one in tried if not one.right]
    say(f"Other than expected: {', '.join(wrong) or 'none'}.")


def _word(refuted: bool) -> str:
    return "refuted" if refuted else "not refuted"


def _facts(one: "Judged") -> dict[str, Any]:
    subject, verdict = one.subject, one.verdict
    return {
        "name": subject.name,
        "broken": subject.broken,
        "refuted": verdict.refuted,
        "outcome": one.outcome,
        "epsilon_lower": verdict.bound.epsilon,
        "epsilon_true": subject.epsilon_true,
        "epsilon_true_is_at_most": subject.at_most,
        "epsilon_worst": subject.epsilon_worst,
        "delta": verdict.bound.delta,
        "claim": repr(verdict.claim),
        "trials": verdict.trials,
        "seconds": round(one.seconds, 3),
        "attack": verdict.attack,
        "pair": verdict.pair or "stored",
        "about": subject.about,
        "source": subject.source,
    }


def _print(judged: "list[Judged]") -> None:
    rows = [
        (
            one.subject.name,
            one.outcome,
            f"{one.verdict.bound.epsilon:.4g}",
            _truth(one),
            f"{one.verdict.trials:,}".replace(",", " "),
            f"{one.seconds:.1f}",
        )
        for one in judged
    ]
    columns = ("mechanism", "verdict", "epsilon >=", "truth here", "trials", "CPU s")
    table("The zoo", columns, rows)
    wrong = [one.subject.name for one in judged if not one.right]
    broken = sum(one.subject.broken for one in judged)
    say(
        f"{broken} broken and {len(judged) - broken} honest mechanisms; judged wrongly: "
        f"{', '.join(wrong) or 'none'}."
    )


def _truth(one: "Judged") -> str:
    truth = one.subject.epsilon_true
    if truth is None:
        return "unknown"
    text = "infinite" if math.isinf(truth) else f"{truth:.4g}"
    return f"at most {text}" if one.subject.at_most else text
