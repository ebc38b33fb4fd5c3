"""``dpassay bound``: lower bounds on epsilon from counts or scores, all methods side by side."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay.cli.options import Json, option
from dpassay.cli.output import emit, say, table, working
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.types import LowerBound

ONE_RUN_METHODS = ("steinke", "exact", "fdp", "product", "betting", "hoeffding")
DESIGNS = {
    "counts": "The test must have been fixed before these trials were seen.",
    "two worlds": "Every score must come from a run of its own; for canaries of a single training "
    "pass --one-run.",
    "one run": "Every canary must have been put in by a fair coin of its own.",
}


EXAMPLE = "dpassay bound --tp 4922 --fn 95078 --fp 174 --tn 99826 --confidence .99"


def bound(
    scores: Annotated[
        Path | None,
        typer.Argument(
            help="CSV with columns score and world (or member), 1 for with the canary; or NPZ with "
            "scores_in and scores_out (or scores and members).",
            show_default=False,
        ),
    ] = None,
    tp: Annotated[int | None, option("Trials with the canary guessed in.")] = None,
    fn: Annotated[int | None, option("Trials with the canary guessed out.")] = None,
    fp: Annotated[int | None, option("Trials without it guessed in.")] = None,
    tn: Annotated[int | None, option("Trials without it guessed out.")] = None,
    delta: Annotated[float, option("State the bound at this delta.")] = 1e-5,
    confidence: Annotated[float, option("Probability that it holds.")] = 0.95,
    threshold: Annotated[
        str, option("For scores: auto, split, kfold, band, bonferroni, dkw, or a number.")
    ] = "auto",
    one_run: Annotated[
        bool, option("The scores are canaries of a single training.", "--one-run")
    ] = False,
    guesses: Annotated[
        str, option("For --one-run: auto, uniform, split, grid, bonferroni, or a number.")
    ] = "auto",
    seed: Annotated[int, option("Seed of random splits and of breaking ties.")] = 0,
    as_json: Json = False,
) -> None:
    """Lower bounds on epsilon from what an attack saw: four counts, or a file of scores."""
    counts = {"tp": tp, "fn": fn, "fp": fp, "tn": tn}
    level = {"delta": delta, "confidence": confidence}
    design = _design(scores, counts, one_run, threshold, guesses)
    with working("computing the bounds"):
        if scores is None:
            found = _from_counts(counts, level)
        elif one_run:
            found = _from_one_run(scores, level | {"guesses": _number(guesses, int), "rng": seed})
        else:
            rule = _number(threshold, float)
            found = _from_scores(scores, level | {"threshold": rule, "rng": seed})
    _print(*found, level | {"design": design}, as_json)


Found = tuple[list["LowerBound"], dict[str, str]]


def _design(
    scores: Path | None, counts: dict[str, int | None], one_run: bool, threshold: str, guesses: str
) -> str:
    """Which of the three designs this is; options that do not go with it are refused."""
    given = [f"--{name}" for name, value in counts.items() if value is not None]
    given += ["--one-run"] if one_run else []
    given += ["--threshold"] if threshold != "auto" else []
    given += ["--guesses"] if guesses != "auto" else []
    design = "counts" if scores is None else "one run" if one_run else "two worlds"
    takes = {
        "counts": {f"--{name}" for name in counts},
        "one run": {"--one-run", "--guesses"},
        "two worlds": {"--threshold"},
    }[design]
    wrong = [option for option in given if option not in takes]
    if wrong:
        raise InvalidArgument(
            f"{', '.join(wrong)} must be left out here. Give four counts, or a file of scores "
            "(with --threshold, or with --one-run and --guesses)."
        )
    return design


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


def _each(methods: tuple[str, ...], bound: "Callable[[Any], LowerBound]") -> Found:
    """The bound by each method; the first must work, others may refuse."""
    found, refused = [bound(methods[0])], {}
    for method in methods[1:]:
        try:
            found.append(bound(method))
        except InvalidArgument as refusal:
            refused[method] = str(refusal)
    return found, refused


def _number(text: str, kind: type) -> Any:
    """The number that the text is, or the text: the name of a rule."""
    try:
        return kind(text)
    except ValueError:
        return text


def _print(
    found: "list[LowerBound]", refused: dict[str, str], level: dict[str, Any], as_json: bool
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
    say(DESIGNS[level["design"]])
    say(
        "Read the method that you chose before you looked: the largest of several does not hold "
        "with this confidence."
    )


def _assume(bound: "LowerBound") -> str:
    return "no assumption" if bound.assumes_nothing else f"assumes {bound.assumption}"


def _table(found: "list[LowerBound]", refused: dict[str, str], level: dict[str, Any]) -> None:
    from dpassay.report.numbers import down

    rows = [
        (b.method, down(b.epsilon), down(b.ceiling), f"{_assume(b)}. {b.selection}") for b in found
    ]
    rows += [(method, "-", "-", reason) for method, reason in refused.items()]
    title = f"epsilon at delta={level['delta']:g}, confidence {level['confidence']:.10g}"
    table(title, ("method", "at least", "ceiling", "assumption and threshold"), rows)
