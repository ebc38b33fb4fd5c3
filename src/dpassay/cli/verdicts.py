"""A verdict on its way out: in words, as JSON, as a report, as an exit code."""

import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay import _files
from dpassay.cli.ending import MISUSE, REFUTED, STOPPED
from dpassay.cli.options import option
from dpassay.cli.output import complain, emit, say
from dpassay.errors import DpassayError, describe_shortly

if TYPE_CHECKING:
    from dpassay.auditing.findings import Check
    from dpassay.report import Report
    from dpassay.types import OneTraining, Verdict

_TRUSTED = "Nobody checked that the two data sets are neighbours: they were trusted to be."
_INPUT_SAYS = (
    "Neighbours are what the input says they are; nobody checked that one record of yours moves "
    "no more."
)
_COLOURS = {0: "green", REFUTED: "red", STOPPED: "yellow"}

About = Annotated[
    Path | None, option("TOML with what you declare about the release, for the report.")
]
Proof = Annotated[
    str | None, option("What was proved of it, written like a claim, for the report.")
]


def show(verdict: "Verdict", claim: str, as_json: bool) -> None:
    """The verdict in words, or as JSON."""
    if as_json:
        emit(as_data(verdict, claim))
        return
    say(verdict.headline, style=f"bold {_COLOURS[exit_code(verdict)]}")
    failed = verdict.evidence.n_failed
    say(f"By {verdict.attack}{f'; {failed} trials failed' if failed else ''}.")
    say(f"The bound: {verdict.bound}.")
    if verdict.fell_at is not None and str(verdict.fell_at) not in str(verdict):
        say(f"Where the claim fell: {verdict.fell_at}.")
    if not verdict.refuted:
        say("Not refuted does not mean private: this attack, in this many trials, did not do it.")
    if verdict.one_training is not None:
        show_one_training(verdict.one_training)
    if verdict.pair:
        say(f"The pair that was searched: {verdict.pair_in_words}.")
    if verdict.neighbours == "trusted":
        say(_INPUT_SAYS if verdict.pair else _TRUSTED)
    if verdict.next_step:
        say(f"Next: {verdict.next_step}")
    if verdict.replay:
        say(f"Replay: {verdict.replay}")


def show_one_training(facts: "OneTraining") -> None:
    """What the canaries were and went through, and what must be known beside."""
    k = facts.records_per_unit
    unit = "record" if facts.unit == "record" else f"user of {k} records"
    say(f"Unit: one {unit}. The canaries went through: {', '.join(facts.exercised)}.")
    say(f"Not exercised: {', '.join(facts.not_exercised)}.")
    for bound in facts.bounds[1:]:
        say(f"Another label: {bound}.")
    for note in facts.notes:
        say(f"Note: {note}")


def as_data(verdict: "Verdict", claim: str) -> dict[str, Any]:
    """The verdict as what ``--json`` prints."""
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
        "valid": bound.valid,
        "kind": verdict.kind,
        "trials": verdict.trials,
        "n_learning": verdict.n_learning,
        "n_deaths": verdict.n_deaths,
        "p_value": verdict.p_value,
        "fell_at": None if verdict.fell_at is None else asdict(verdict.fell_at),
        "n_failed": verdict.evidence.n_failed,
        "ended": verdict.ended,
        "attack": verdict.attack,
        "neighbours": verdict.neighbours,
        "pair": verdict.pair or None,
        "pair_before": verdict.pair_before or None,
        "curve": verdict.curve or None,
        "power": None if verdict.power is None else asdict(verdict.power),
        "next_step": verdict.next_step,
        "run": verdict.evidence.run,
        "seed": verdict.evidence.seed,
        "replay": verdict.replay,
        "wealth_needed": verdict.wealth_needed,
        "one_training": None if verdict.one_training is None else asdict(verdict.one_training),
    }


def exit_code(verdict: "Verdict", *, anyway: bool = True) -> int:
    """0 not refuted, 1 refuted, 3 interrupted before it could say.

    3 too where nothing could have been said, unless the user wants to go on anyway.
    """
    vacuous = verdict.power is not None and verdict.power.vacuous and not anyway
    if verdict.ended == "interrupted" or vacuous:
        return STOPPED
    return REFUTED if verdict.refuted else 0


def _make_room(path: Path) -> None:
    """The folder of a report, made if need be; an error now is cheaper than after the trials."""
    from dpassay.errors import InvalidArgument

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"report={str(path)!r} cannot be written: {error.strerror}. Choose another place."
        ) from None
    for output in (path, path.with_suffix(".json")):
        _files.output_place(output)
    if not os.access(path.parent, os.W_OK):
        raise InvalidArgument(
            f"report={str(path)!r} cannot be written: its folder may not be written to. Choose "
            "another place."
        )


class Paper:
    """A report to be written later; what a person declares is read now, before the trials.

    Args:
        path: of the page; None for no report.
        about: a TOML file with a disclosure.
        proof: a claim text for what was proved.
        neighbouring: the relation of the proof.

    """

    def __init__(
        self, path: Path | None, about: Path | None, proof: str | None, neighbouring: str
    ) -> None:
        from dpassay.auditing import parse_claim
        from dpassay.errors import InvalidArgument

        if path is None and (about or proof):
            raise InvalidArgument("about and proof are for a report; name its file as well.")
        if path is not None and path.suffix != ".html":
            raise InvalidArgument(f"report={str(path)!r} must end in .html; its data go beside it.")
        if path is not None:
            _make_room(path)
        self.path, self._disclosure, self._proof = path, None, None
        if about is not None:
            from dpassay.report import read_disclosure

            self._disclosure = read_disclosure(about)
        if proof is not None:
            self._proof = parse_claim(proof, neighbouring=neighbouring)

    def of(self, verdict: "Verdict", title: str, check: "Check | None" = None) -> "Report":
        """The report of a verdict."""
        from dpassay.report import audit_report

        return audit_report(
            verdict,
            title=title,
            proof=self._proof,
            disclosure=self._disclosure,
            command=verdict.replay,
            check=check,
        )

    def write(self, verdict: "Verdict", title: str, check: "Check | None" = None) -> list[Path]:
        """The files written, none if there is no path."""
        from dpassay.report import write_report

        return [] if self.path is None else write_report(self.of(verdict, title, check), self.path)

    def write_or_complain(
        self, verdict: "Verdict", title: str, check: "Check | None" = None
    ) -> list[Path]:
        """The files written; a failure is only told of, since the verdict was printed before."""
        try:
            return self.write(verdict, title, check)
        except Exception as error:
            words = str(error) if isinstance(error, DpassayError) else describe_shortly(error)
            complain(f"the report was not written: {words} The verdict stands.")
            raise typer.Exit(MISUSE) from None
