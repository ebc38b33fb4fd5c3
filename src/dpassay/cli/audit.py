"""``dpassay audit``: any callable in, a verdict out."""

import math
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay.cli.options import Json, Neighbours
from dpassay.cli.output import complain, emit, example, say

if TYPE_CHECKING:
    from dpassay.types import PrivacyCurve, Verdict

REFUTED, STOPPED = 1, 3


def register(app: typer.Typer) -> None:
    """Add the command."""
    command = "dpassay audit my_train.py:train --claim 3,1e-5 --data d.npz --store run.db"
    app.command("audit", epilog=example(command))(audit)


def audit(
    target: Annotated[
        str,
        typer.Argument(help="my_train.py:train, module:train, example:honest or example:broken."),
    ],
    claim: Annotated[
        str | None, typer.Option(help="3,1e-5 or 3 or gdp:1.0 or rho:0.1 or dp-sgd:...")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="NPZ with the arrays data and data_prime.", dir_okay=False)
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="A function of one output, like the target; else learned.")
    ] = None,
    trials: Annotated[int, typer.Option(help="The most that are played.")] = 1000,
    confidence: Annotated[float, typer.Option(help="Of the verdict.")] = 0.95,
    delta: Annotated[float | None, typer.Option(help="Where the bound is stated.")] = None,
    seed: Annotated[int, typer.Option(help="Of worlds and noise.")] = 0,
    secure: Annotated[
        bool, typer.Option("--secure", help="Pass rng=None: audit the noise that is shipped.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; 1 plays in this one.")] = 1,
    store: Annotated[
        Path | None, typer.Option(help="File that keeps the trials; the same command goes on.")
    ] = None,
    neighbouring: Neighbours = "add-remove",
    group: Annotated[int, typer.Option(help="Records by which the data sets differ.")] = 1,
    timeout: Annotated[float | None, typer.Option(help="Seconds for one trial.")] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Play all trials and test once, not sequentially.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Time one trial, say what to expect, and leave.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, the verdict alone.")] = False,
    as_json: Json = False,
) -> None:
    """Play a mechanism many times on two neighbouring data sets and test its claim.

    Exit code 0: not refuted, 1: refuted, 2: misuse, 3: stopped before it could say.
    """
    from dpassay.auditing import AuditStopped, load_target
    from dpassay.auditing import audit as run_audit

    mechanism = load_target(target)
    curve, pair = _claim(target, claim, neighbouring), _pair(target, data)
    if (not quiet and not as_json) or dry_run:
        said = _expected(mechanism, pair, curve, trials, workers, confidence, delta, seed)
        _tell(said, as_json)
        if dry_run:
            return
    try:
        verdict = run_audit(
            mechanism,
            pair,
            claim=curve,
            score=None if score is None else load_target(score),
            trials=trials,
            confidence=confidence,
            sequential=not fixed,
            workers=workers,
            store=store,
            rng=None if secure else seed,
            delta=delta,
            group=group,
            timeout=timeout,
            progress="quiet" if quiet or as_json else "auto",
            replay=shlex.join(["dpassay", *sys.argv[1:]]),
        )
    except AuditStopped as stopped:
        typer.echo(f"dpassay: {stopped}", err=True)
        raise typer.Exit(STOPPED) from None
    show(verdict, claim or repr(curve), as_json)
    if verdict.ended == "interrupted":
        complain(
            "interrupted; this is what is known so far. The same command goes on with --store."
        )
        raise typer.Exit(STOPPED)
    if verdict.refuted:
        raise typer.Exit(REFUTED)


def _claim(target: str, claim: str | None, neighbouring: str) -> "PrivacyCurve":
    from dpassay.auditing import parse_claim
    from dpassay.errors import InvalidArgument

    if claim is not None:
        return parse_claim(claim, neighbouring=neighbouring)
    if target.startswith("example:"):
        from dpassay.zoo.learners import claim as bundled

        return bundled()
    raise InvalidArgument("claim is missing; what does it promise? For example --claim 3,1e-5.")


def _pair(target: str, data: Path | None) -> tuple[Any, Any]:
    from dpassay.auditing import load_pair
    from dpassay.errors import InvalidArgument

    if data is not None:
        return load_pair(data)
    if target.startswith("example:"):
        from dpassay.zoo.learners import neighbours

        return neighbours()
    raise InvalidArgument(
        "data is missing; give two neighbouring data sets, --data d.npz with the arrays data and "
        "data_prime."
    )


def _expected(
    mechanism: Any,
    pair: tuple[Any, Any],
    curve: "PrivacyCurve",
    trials: int,
    workers: int,
    confidence: float,
    delta: float | None,
    seed: int,
) -> dict[str, float]:
    """How long it will take, by one trial that does not count, and the most it could show."""
    from dpassay._rng import for_trial
    from dpassay.auditing.game import draws_many
    from dpassay.auditing.referee import claimed_delta
    from dpassay.bounds import lower_bound_from_counts

    many = {"size": max(trials // 20, 1)} if draws_many(mechanism) else {}
    begin = time.perf_counter()
    try:
        mechanism(pair[0], for_trial(seed, 0, 99), **many)
    except (Exception, SystemExit) as error:  # 1 would say "refuted"; the audit counts failures
        complain(f"the trial for timing failed: {type(error).__name__}: {error}")
    each = (time.perf_counter() - begin) / many.get("size", 1)
    half = max(trials // 2, 1)
    most = lower_bound_from_counts(
        tp=half, fn=0, fp=0, tn=half, delta=claimed_delta(curve, delta), confidence=confidence
    )
    return {
        "seconds_per_trial": each,
        "seconds": each * trials / max(workers, 1),
        "ceiling": most.epsilon,
    }


def _tell(expected: dict[str, float], as_json: bool) -> None:
    from dpassay.runs.progress import duration

    if as_json:
        emit(expected)
        return
    say(
        f"One trial takes {expected['seconds_per_trial']:.3g} s, all of them about "
        f"{duration(expected['seconds'])}; a perfect attack could show epsilon >= "
        f"{expected['ceiling']:.3g}."
    )


def show(verdict: "Verdict", claim: str, as_json: bool) -> None:
    """The verdict in words, or as JSON."""
    if as_json:
        emit(as_data(verdict, claim))
        return
    style = "bold red" if verdict.refuted else "bold green"
    say(str(verdict), style=style)
    failed = verdict.evidence.n_failed
    say(f"By {verdict.attack}{f'; {failed} trials failed' if failed else ''}.")
    say(f"The bound: {verdict.bound}.")
    if not verdict.refuted:
        say("Not refuted does not mean private: this attack, with this many trials, saw nothing.")
    say(f"Replay: {verdict.replay}")


def as_data(verdict: "Verdict", claim: str) -> dict[str, Any]:
    """What machines get."""
    bound = verdict.bound
    return {
        "refuted": verdict.refuted,
        "epsilon_lower": bound.epsilon,
        "delta": bound.delta,
        "confidence": verdict.confidence,
        "claim": {"text": claim, "epsilon": float(verdict.claim.epsilon(bound.delta))},
        "tightness": None if math.isnan(verdict.tightness) else verdict.tightness,
        "ceiling": bound.ceiling,
        "assumption": bound.assumption,
        "method": bound.method,
        "trials": verdict.trials,
        "n_failed": verdict.evidence.n_failed,
        "ended": verdict.ended,
        "attack": verdict.attack,
        "run": verdict.evidence.run,
        "seed": verdict.evidence.seed,
        "replay": verdict.replay,
        "details": verdict.details,
    }
