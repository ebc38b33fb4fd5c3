"""``dpassay zoo``: audit every mechanism of the zoo and compare the verdicts with the truth."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay.cli.options import Json
from dpassay.cli.output import emit, say, table, working

if TYPE_CHECKING:
    from dpassay.zoo.tour import Judged

WRONG = 1


EXAMPLE = "dpassay zoo --only occupied --trials 60000"


def zoo(
    only: Annotated[
        list[str] | None, typer.Option(help="Part of a name; may be given several times.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Draws of each mechanism.")] = 2_000_000,
    confidence: Annotated[float, typer.Option(help="Of each verdict.")] = 1 - 1e-6,
    seed: Annotated[int, typer.Option(help="Of worlds and noise.")] = 0,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Search the pairs instead of taking the stored ones.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Audit honest and broken mechanisms: every bug must be caught, every honest one let through.

    The exit code is 1 if one of them is judged wrongly.
    """
    from dpassay.zoo.tour import find_subjects, walk

    subjects = find_subjects(only or ())
    with working(f"auditing {len(subjects)} mechanisms"):
        tour = walk(subjects, draws=trials, confidence=confidence, rng=seed, hidden=hidden)
        judged = list(tour)
    if as_json:
        emit({"mechanisms": [_facts(one) for one in judged], "confidence": confidence})
    else:
        _print(judged)
    if not all(one.right for one in judged):
        raise typer.Exit(WRONG)


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
