"""``dpassay audit``: any callable in, a verdict out."""

import math
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dpassay.cli.audit_options import (
    Anyway,
    Command,
    DataFile,
    DataPrime,
    Describe,
    DryRun,
    EvidenceKind,
    Fixed,
    FixedSeed,
    InPlace,
    Input,
    Measure,
    OneTraining,
    Recycle,
    ReportFile,
    ScoreOf,
    Secure,
    Store,
    Target,
    Timeout,
    Trust,
    Workers,
)
from dpassay.cli.ending import STOPPED, ending
from dpassay.cli.one_run import OneRun, refuse_elsewhere, was_given
from dpassay.cli.options import ExecutorName, Json, Neighbours, option
from dpassay.cli.output import complain, emit, explain_failure, say
from dpassay.cli.replayed import audit_by_replay
from dpassay.cli.verdicts import About, Paper, Proof, exit_code, show

if TYPE_CHECKING:
    from dpassay.auditing.findings import Check
    from dpassay.types import PrivacyCurve, Verdict


EXAMPLE = "dpassay audit my_train.py:train --claim 3,1e-5 --data d.npz --store run.db"


def audit(
    context: typer.Context,
    target: Target = None,
    command: Command = None,
    claim: Annotated[str | None, option("3,1e-5 or 3 or gdp:1.0 or rho:0.1 or dp-sgd:...")] = None,
    data: DataFile = None,
    data_prime: DataPrime = None,
    arguments: Annotated[str, option("What a script finds in sys.argv.")] = "",
    in_place: InPlace = False,
    source: Input = None,
    score: ScoreOf = None,
    trials: Annotated[int, option("Trials to play at most.")] = 1000,
    confidence: Annotated[float, option("How sure a refutation must be, in (0, 1).")] = 0.95,
    delta: Annotated[
        float | None, option("State the bound at this delta; else the claim's.")
    ] = None,
    seed: Annotated[int, option("Seed of worlds and noise.")] = 0,
    secure: Secure = False,
    workers: Workers = None,
    executor: ExecutorName = None,
    store: Store = None,
    neighbouring: Neighbours = "add-remove",
    group: Annotated[int, option("Records by which the data sets differ.")] = 1,
    neighbours: Trust = "checked",
    fixed_seed_is_a_leak: FixedSeed = False,
    timeout: Timeout = None,
    recycle: Recycle = None,
    fixed: Fixed = False,
    measure: Measure = False,
    anyway: Anyway = False,
    dry_run: DryRun = False,
    describe: Describe = False,
    report: ReportFile = None,
    about: About = None,
    proof: Proof = None,
    evidence: EvidenceKind = "trials",
    one_run: OneTraining = False,
    quiet: Annotated[bool, option("No progress, the verdict alone.", "--quiet")] = False,
    as_json: Json = False,
) -> None:
    """Play a mechanism many times on two neighbouring data sets and test its claim.

    Exit code 0: not refuted, 1: refuted, 2: misuse, 3: stopped before it could say, 130: Ctrl-C.
    """
    from dpassay.auditing import AuditStopped
    from dpassay.auditing import audit as run_audit
    from dpassay.auditing.neighbours import look_at_neighbours
    from dpassay.auditing.rehearsal import ask_before, rehearse
    from dpassay.errors import VacuousAudit

    if one_run:
        files = {"command": command, "data": data, "data_prime": data_prime, "input": source}
        given = {"score": score, "delta": delta, "workers": workers, "executor": executor}
        flags = {"secure": secure, "fixed": fixed, "measure": measure, "dry_run": dry_run}
        flags |= {"describe": describe}
        refuse_elsewhere(files | given | {"timeout": timeout, "recycle": recycle} | flags)
        asked = confidence if was_given(context, "confidence") else None
        once = OneRun(target, arguments, in_place, claim, neighbouring, asked, seed, store)
        once.play_and_show(Paper(report, about, proof, neighbouring), as_json)
    subject = _subject(target, command, arguments, data, data_prime, score, source, in_place)
    target, mechanism, pair = subject.name, subject.mechanism, subject.pair
    curve = _claim(target, claim, neighbouring)
    paper = Paper(report, about, proof, neighbouring)
    if _is_replay(evidence):
        options = {"trials": trials, "confidence": confidence, "delta": delta, "rng": seed}
        options |= {"claim": curve, "store": store, "quiet": quiet or as_json}
        verdict, check = audit_by_replay(mechanism, pair, claim or "", **options)
        show(verdict, claim or repr(curve), as_json)
        _write(paper, verdict, target, as_json, check)
        raise typer.Exit(exit_code(verdict, anyway=anyway))
    said = {"target": target} | ({"claim": claim} if claim else {})
    options: dict[str, Any] = {
        "claim": curve,
        "score": subject.score,
        "trials": trials,
        "confidence": confidence,
        "sequential": not fixed,
        "measure": measure,
        "store": store,
        "rng": None if secure else seed,
        "delta": delta,
        "group": group,
        "neighbours": neighbours,
        "fixed_seed": "leak" if fixed_seed_is_a_leak else "stop",
        "timeout": timeout,
        "replay": shlex.join(["dpassay", *sys.argv[1:]]),
        "description": said,
    }
    if describe:
        with _hearing_vacuous(anyway):
            _describe(mechanism, pair, options, as_json)
    try:
        with _hearing_vacuous(anyway), _crew(target, workers, timeout, executor) as crew:
            if dry_run:
                each = rehearse(
                    mechanism,
                    subject.example(curve),
                    claim=curve,
                    score=subject.score,
                    trials=trials,
                    confidence=confidence,
                    delta=delta,
                    sequential=not fixed,
                    seed=None if secure else seed,
                    group=group,
                    neighbours="trusted" if subject.trusted else neighbours,  # type: ignore[arg-type]
                    fixed_seed="leak" if fixed_seed_is_a_leak else "stop",
                    executor=crew,
                    timeout=timeout,
                )
                _tell(_expect(each, trials, crew, curve, confidence, delta), as_json)
                raise typer.Exit(0)
            asked = (trials, confidence, delta, not fixed, None if secure else seed)
            empty = ask_before(mechanism, subject.score, curve, *asked).vacuous()
            if not (quiet or as_json) and (anyway or empty is None):
                if pair is not None:  # before a training is played only to be timed
                    worlds = getattr(mechanism, "worlds", None)
                    look_at_neighbours(pair, curve.neighbouring, group, neighbours, worlds)
                timing = _Timing(mechanism, subject.example(curve)[0], subject.score, seed, trials)
                each = timing.seconds(crew, timeout)
                _tell(_expect(each, trials, crew, curve, confidence, delta), as_json)
            verdict = run_audit(
                mechanism,
                pair,
                data=subject.source,
                executor=crew,
                recycle=recycle,
                progress="quiet" if quiet or as_json else "auto",
                **options,
            )
    except VacuousAudit as vacuous:
        explain_failure(f"{vacuous} Or play it all the same: --anyway.")
        raise typer.Exit(STOPPED) from None
    except AuditStopped as stopped:
        explain_failure(str(stopped))
        raise typer.Exit(STOPPED) from None
    show(verdict, claim or repr(curve), as_json)
    if verdict.ended == "interrupted":
        goes_on = "The same command goes on." if store else "Give --store to be able to go on."
        ending.tell_interrupted(f"interrupted; this is what is known so far. {goes_on}")
    _write(paper, verdict, target, as_json)
    raise typer.Exit(exit_code(verdict, anyway=anyway))


def _describe(
    mechanism: Any, pair: tuple[Any, Any] | None, options: dict[str, Any], as_json: bool
) -> None:
    """Write the audit down, say how its parts are played, and leave."""
    from dpassay.auditing import describe_audit
    from dpassay.errors import InvalidArgument, VacuousAudit

    folder = options["store"]
    if folder is None:
        raise InvalidArgument("store is missing: --describe needs a folder, such as --store DIR.")
    if pair is None:
        raise InvalidArgument(
            "data: --describe plays nothing, so it cannot search a pair. Give two data sets, "
            "--data d.npz with the arrays data and data_prime."
        )
    try:
        found = describe_audit(mechanism, pair, **options)
    except VacuousAudit as vacuous:
        explain_failure(f"{vacuous} Or write it down all the same: --anyway.")
        raise typer.Exit(STOPPED) from None
    if as_json:
        emit({"store": str(folder), "run": found.key, "trials": found.trials})
    else:
        say(f"Written down: run {found.key[:12]}, {found.trials} trials from 0 on. Play parts of")
        say(f"it: dpassay work --store {folder} --shard 1/8, and so on to 8/8; then give the same")
        say("command without --describe, or look: dpassay status, dpassay report.")
    raise typer.Exit(0)


def _is_replay(evidence: str) -> bool:
    from dpassay import _check

    return _check.choice("evidence", evidence, ("trials", "replay")) == "replay"


def _write(
    paper: Paper, verdict: "Verdict", target: str, as_json: bool, check: "Check | None" = None
) -> None:
    for path in paper.write_or_complain(verdict, f"Audit of {target}", check):
        if not as_json:
            say(f"Written: {path}")


@contextmanager
def _hearing_vacuous(anyway: bool) -> Iterator[None]:
    """Warnings of a vacuous audit end it before it is played, or are left out."""
    from dpassay.errors import VacuousAudit

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if anyway else "error", VacuousAudit)
        yield


def _crew(
    target: str, workers: int | None, timeout: float | None, executor: str | None
) -> AbstractContextManager[Any]:
    """Who plays: processes of their own, so that no trial can hang or end the audit.

    The bundled learners are trusted and play here; None stands for that.
    """
    from dpassay.runs import Workers, hire

    if executor is not None:
        return hire(executor, workers)

    wanted = workers if workers is not None else int(not target.startswith("example:"))
    wanted = max(wanted, 1) if timeout is not None else wanted
    return nullcontext() if wanted == 0 else Workers(wanted, separate=True)


class _Subject(NamedTuple):
    """What is audited, on what, and how its outputs are scored (None: learned).

    Without a pair one is searched in the source.
    """

    name: str
    mechanism: Any
    pair: tuple[Any, Any] | None
    score: Any
    source: Any = None

    def example(self, claim: "PrivacyCurve") -> tuple[Any, Any]:
        """The pair, or one of those that are searched."""
        from dpassay.auditing.inputs import as_input

        if self.pair is not None:
            return self.pair
        first = as_input(self.source).pairs(claim.neighbouring)[0]
        return first.data, first.data_prime

    @property
    def trusted(self) -> bool:
        """Whether an input says itself what a neighbour is."""
        from dpassay.auditing.inputs import as_input

        return self.pair is None and as_input(self.source).trusted


def _subject(
    target: str | None,
    command: str | None,
    arguments: str,
    data: Path | None,
    data_prime: Path | None,
    score: str | None,
    source: str | None,
    in_place: bool,
) -> _Subject:
    from dpassay.auditing import load_target
    from dpassay.auditing.adapters import subjects
    from dpassay.errors import InvalidArgument

    learned = score in (None, subjects.LEARNED)
    scored = None if learned else load_target(score or "")
    if (target is None) == (command is None):
        raise InvalidArgument(f"target={target!r}, command={command!r}: give one of them.")
    if source is not None and (data is not None or command is not None):
        raise InvalidArgument(
            f"input={source!r} stands for the data of a function: leave --data out."
        )
    if command is not None:
        return _Subject(command, *subjects.command_named(command, data, data_prime), scored)
    assert target is not None
    if data_prime is not None:
        raise InvalidArgument(f"data_prime={str(data_prime)!r} belongs to --command.")
    if not subjects.is_script(target):
        pair, searched = _find_pair(target, data, source)
        return _Subject(target, load_target(target), pair, scored, searched)
    if data is not None or source is not None:
        raise InvalidArgument(
            f"target={target!r} is a whole script, which has its data: leave --data out, or name "
            f"a function, {target}:train."
        )
    script = subjects.script_named(target, arguments, in_place=in_place)
    number = subjects.released_number if score is None else scored
    return _Subject(target, script, script.worlds, number)


def _claim(target: str, claim: str | None, neighbouring: str) -> "PrivacyCurve":
    from dpassay.auditing import parse_claim
    from dpassay.errors import InvalidArgument

    if claim is not None:
        return parse_claim(claim, neighbouring=neighbouring)
    if target.startswith("example:"):
        from dpassay.zoo.learners import claim as bundled

        return bundled()
    raise InvalidArgument("claim is missing; what does it promise? For example --claim 3,1e-5.")


def _find_pair(target: str, data: Path | None, source: str | None) -> tuple[Any, Any]:
    """A pair, or what a pair is to be searched in."""
    from dpassay.auditing.inputs import parse_input
    from dpassay.auditing.targets import load_pair_or_data
    from dpassay.errors import InvalidArgument

    if source is not None and source.startswith("schema:"):
        from dpassay.synth import Schema

        return None, Schema.read(source.removeprefix("schema:"))
    if source is not None:
        return None, parse_input(source)
    if data is not None:
        return load_pair_or_data(data)
    if target.startswith("example:"):
        from dpassay.zoo.learners import neighbours

        return neighbours(), None
    raise InvalidArgument(
        "data is missing; give two neighbouring data sets, --data d.npz with the arrays data and "
        "data_prime, or one of them or --input vector:10, and the pair is searched."
    )


@dataclass(frozen=True)
class _Timing:
    """A task of one trial that does not count, to be timed."""

    mechanism: Any
    data: Any
    score: Any
    seed: int
    trials: int

    def __call__(self, numbers: Any) -> list[float]:
        from dpassay._rng import for_trial
        from dpassay.auditing.game import draws_many

        size = max(self.trials // 20, 1) if draws_many(self.mechanism) else None
        options = {} if size is None else {"size": size}
        if hasattr(self.mechanism, "worlds"):  # a script: load what it imports, once per worker
            self.mechanism(self.data, for_trial(self.seed, 0, 99))
        rng = for_trial(self.seed, 0, 99)
        begin = time.perf_counter()
        output = self.mechanism(self.data, rng, **options)
        if self.score is not None:
            self.score(output if size is None else output[0])
        return [(time.perf_counter() - begin) / (size or 1)]

    def seconds(self, crew: Any, timeout: float | None) -> float:
        """How long the trial took; NaN if it failed, which is said.

        Raises:
            AuditStopped: the target cannot be audited.

        """
        from dpassay.auditing.question import refuse_target
        from dpassay.runs import play

        options = {"executor": crew, "workers": 1, "timeout": timeout, "max_failed_share": 1.0}
        run = play(self, 1, key="timing", **options)
        if run.ended == "interrupted":
            raise KeyboardInterrupt
        refuse_target(run)
        if run.first_error:
            first, *frames = run.first_error.strip().splitlines()
            where = f" at {frames[-1].strip()}" if frames else ""
            complain(f"the trial for timing failed: {first}{where}")
        return float(run.outcomes.scores[0])


def _expect(
    each: float,
    trials: int,
    crew: Any,
    curve: "PrivacyCurve",
    confidence: float,
    delta: float | None,
) -> dict[str, float]:
    """How long it will take (NaN if the trial failed), and the most it could show."""
    from dpassay.auditing.referee import claimed_delta
    from dpassay.bounds import lower_bound_from_counts

    half = max(trials // 2, 1)
    most = lower_bound_from_counts(
        tp=half, fn=0, fp=0, tn=half, delta=claimed_delta(curve, delta), confidence=confidence
    )
    return {
        "seconds_per_trial": each,
        "seconds": each * trials / (1 if crew is None else crew.width),
        "ceiling": most.epsilon,
    }


def _tell(expected: dict[str, float], as_json: bool) -> None:
    from dpassay.runs.progress import duration

    if as_json:
        emit(expected)
        return
    each, whole = expected["seconds_per_trial"], expected["seconds"]
    if not math.isnan(whole):
        say(f"One trial takes {each:.3g} s, all of them about {duration(whole)}.")
    say(f"A perfect attack could show epsilon >= {expected['ceiling']:.3g}.")
