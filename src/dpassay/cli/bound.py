"""``dpassay bound``: lower bounds on epsilon from counts or scores, all methods side by side."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay.cli.options import Json
from dpassay.cli.output import emit, example, say, table, working
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.types import LowerBound

ONE_RUN_METHODS = ("steinke", "fdp", "hoeffding")


def register(app: typer.Typer) -> None:
    """Add the command."""
    command = "dpassay bound --tp 4922 --fn 95078 --fp 174 --tn 99826 --confidence .99"
    app.command("bound", epilog=example(command))(bound)


def bound(
    scores: Annotated[
        Path | None,
        typer.Argument(
            help="CSV with columns score and world (or member), 1 for with the canary; or NPZ with "
            "scores_in and scores_out (or scores and members).",
            show_default=False,
        ),
    ] = None,
    tp: Annotated[int | None, typer.Option(help="Trials with the canary guessed in.")] = None,
    fn: Annotated[int | None, typer.Option(help="Trials with the canary guessed out.")] = None,
    fp: Annotated[int | None, typer.Option(help="Trials without it guessed in.")] = None,
    tn: Annotated[int | None, typer.Option(help="Trials without it guessed out.")] = None,
    delta: Annotated[float, typer.Option(help="Where the bound is stated.")] = 1e-5,
    confidence: Annotated[float, typer.Option(help="Probability that it holds.")] = 0.95,
    threshold: Annotated[
        str,
        typer.Option(help="For scores: auto, split, kfold, band, bonferroni, dkw, or a number."),
    ] = "auto",
    one_run: Annotated[
        bool, typer.Option("--one-run", help="The scores are canaries of a single training.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the random split of scores.")] = 0,
    as_json: Json = False,
) -> None:
    """Lower bounds on epsilon from what an attack saw: four counts, or a file of scores."""
    counts = {"tp": tp, "fn": fn, "fp": fp, "tn": tn}
    level = {"delta": delta, "confidence": confidence}
    with working("computing the bounds"):
        if scores is None:
            found = _from_counts(counts, level)
        elif any(value is not None for value in counts.values()):
            raise InvalidArgument(f"scores={str(scores)!r} and counts: give one or the other.")
        elif one_run:
            found = _from_one_run(scores, level)
        else:
            found = _from_scores(scores, level | {"threshold": _rule(threshold), "rng": seed})
    _print(*found, level, as_json)


Found = tuple[list["LowerBound"], dict[str, str]]


def _from_counts(counts: dict[str, int | None], level: dict[str, float]) -> Found:
    from dpassay.bounds.counts import METHODS, lower_bound_from_counts

    missing = [f"--{name}" for name, value in counts.items() if value is None]
    if missing:
        raise InvalidArgument(
            f"{', '.join(missing)} must be given, or a file of scores: see dpassay bound --help."
        )
    given: dict[str, Any] = counts | level
    return _each(METHODS, lambda method: lower_bound_from_counts(**given, method=method))


def _from_scores(path: Path, given: dict[str, Any]) -> Found:
    from dpassay.bounds.counts import METHODS
    from dpassay.bounds.scores import lower_bound
    from dpassay.cli.scores import two_worlds

    scores = two_worlds(path)
    return _each(METHODS, lambda method: lower_bound(*scores, **given, method=method))


def _from_one_run(path: Path, level: dict[str, Any]) -> Found:
    from dpassay.bounds import one_run
    from dpassay.cli.scores import canaries

    scores = canaries(path)
    return _each(ONE_RUN_METHODS, lambda method: one_run(*scores, **level, method=method))


def _each(methods: tuple[str, ...], bound: "Callable[[str], LowerBound]") -> Found:
    """The bound by each method; the first must work, others may refuse."""
    found, refused = [bound(methods[0])], {}
    for method in methods[1:]:
        try:
            found.append(bound(method))
        except InvalidArgument as refusal:
            refused[method] = str(refusal)
    return found, refused


def _rule(threshold: str) -> str | float:
    try:
        return float(threshold)
    except ValueError:
        return threshold


def _print(
    found: "list[LowerBound]", refused: dict[str, str], level: dict[str, float], as_json: bool
) -> None:
    first = found[0]
    if as_json:
        emit(
            level
            | {
                "epsilon_lower": first.epsilon,
                "method": first.method,
                "ceiling": first.ceiling,
                "methods": {bound.method: bound.epsilon for bound in found},
                "bounds": [asdict(bound) for bound in found],
                "refused": refused,
            }
        )
        return
    _table(found, refused, level)
    say(str(first))
    say(
        "Read the method that you chose before you looked: the largest of several does not hold "
        "with this confidence."
    )


def _assumed(bound: "LowerBound") -> str:
    return "no assumption" if bound.assumption == "none" else f"assumes {bound.assumption}"


def _table(found: "list[LowerBound]", refused: dict[str, str], level: dict[str, float]) -> None:
    from dpassay.report.numbers import down

    rows = [
        (b.method, down(b.epsilon), down(b.ceiling), f"{_assumed(b)}. {b.selection}") for b in found
    ]
    rows += [(method, "-", "-", reason) for method, reason in refused.items()]
    title = f"epsilon at delta={level['delta']:g}, confidence {level['confidence']:.10g}"
    table(title, ("method", "at least", "ceiling", "assumption and threshold"), rows)
