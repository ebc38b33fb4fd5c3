"""A verdict on its way out: in words, as JSON, as a report, as an exit code."""

import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay import _files
from dpassay.cli.ending import MISUSE, REFUTED, STOPPED
from dpassay.cli.output import complain, emit, say
from dpassay.errors import DpassayError, describe_shortly

if TYPE_CHECKING:
    from dpassay.report import Report
    from dpassay.types import Verdict

_COLOURS = {0: "green", REFUTED: "red", STOPPED: "yellow"}

About = Annotated[
    Path | None,
    typer.Option(help="TOML with what you declare about the release, for the report."),
]
Proof = Annotated[
    str | None,
    typer.Option(help="What was proved of it, written like a claim, for the report."),
]


def show(verdict: "Verdict", claim: str, as_json: bool) -> None:
    """The verdict in words, or as JSON."""
    if as_json:
        emit(as_data(verdict, claim))
        return
    say(str(verdict), style=f"bold {_COLOURS[exit_code(verdict)]}")
    failed = verdict.evidence.n_failed
    say(f"By {verdict.attack}{f'; {failed} trials failed' if failed else ''}.")
    say(f"The bound: {verdict.bound}.")
    if not verdict.refuted:
        say("Not refuted does not mean private: this attack, in this many trials, did not do it.")
    if verdict.pair:
        say(f"The pair that was searched: {verdict.pair}.")
    if verdict.neighbours == "trusted":
        say("Nobody checked that the two data sets are neighbours: they were trusted to be.")
    if verdict.next_step:
        say(f"Next: {verdict.next_step}")
    if verdict.replay:
        say(f"Replay: {verdict.replay}")


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
        "power": None if verdict.power is None else asdict(verdict.power),
        "next_step": verdict.next_step,
        "run": verdict.evidence.run,
        "seed": verdict.evidence.seed,
        "replay": verdict.replay,
        "wealth_needed": verdict.wealth_needed,
    }


def exit_code(verdict: "Verdict") -> int:
    """0 not refuted, 1 refuted, 3 interrupted before it could say."""
    if verdict.ended == "interrupted":
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
    """A report to be: what a person declares is read at once, before anything is played.

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

    def of(self, verdict: "Verdict", title: str) -> "Report":
        """The report of a verdict."""
        from dpassay.report import audit_report

        return audit_report(
            verdict,
            title=title,
            proof=self._proof,
            disclosure=self._disclosure,
            command=verdict.replay,
        )

    def write(self, verdict: "Verdict", title: str) -> list[Path]:
        """The files written, none if there is no path."""
        from dpassay.report import write_report

        return [] if self.path is None else write_report(self.of(verdict, title), self.path)

    def write_or_complain(self, verdict: "Verdict", title: str) -> list[Path]:
        """The files written; where that fails, whatever the reason, the verdict is out already."""
        try:
            return self.write(verdict, title)
        except Exception as error:
            words = str(error) if isinstance(error, DpassayError) else describe_shortly(error)
            complain(f"the report was not written: {words} The verdict stands.")
            raise typer.Exit(MISUSE) from None
