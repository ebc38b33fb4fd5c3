"""``dpassay audit train.py --one-run``: a script is run once, and says its verdicts itself."""

import contextlib
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from dpassay.cli.ending import INTERRUPTED, STOPPED
from dpassay.cli.output import emit, explain_failure, say
from dpassay.cli.verdicts import Paper, as_data, exit_code, show

if TYPE_CHECKING:
    from dpassay.types import Verdict


def refuse_elsewhere(given: Mapping[str, Any]) -> None:
    """Refuse options of audits that play many times."""
    from dpassay.errors import InvalidArgument

    for name, value in given.items():
        if value is not None and value is not False:
            raise InvalidArgument(
                f"{name}={str(value)!r} does not go with --one-run: the script is run once, has "
                "its data, and judges its canaries itself. Leave it out."
            )


def was_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line; else the script's own choice counts."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@dataclass(frozen=True)
class OneRun:
    """What was asked for on the command line."""

    target: str | None
    arguments: str
    in_place: bool
    claim: str | None
    neighbouring: str
    confidence: float | None
    seed: int
    store: Path | None

    def play_and_show(self, paper: Paper, as_json: bool) -> NoReturn:
        """Run the script, show every verdict that it gave, and leave with the exit code."""
        from dpassay.errors import AuditStopped

        try:
            # What the script prints is not the answer of this command.
            with contextlib.redirect_stdout(sys.stderr):
                verdicts = [replace(v, replay=_replay()) for v in self._play()]
        except AuditStopped as stopped:
            explain_failure(str(stopped))
            raise typer.Exit(STOPPED) from None
        except KeyboardInterrupt:
            explain_failure(f"Interrupted before the script had ended. {self._say_kept()}")
            raise typer.Exit(INTERRUPTED) from None
        self._show(verdicts, as_json)
        main = max(verdicts, key=lambda verdict: verdict.refuted)
        for path in paper.write_or_complain(main, f"Audit of {self.target}"):
            if not as_json:
                say(f"Written: {path}")
        raise typer.Exit(max(map(exit_code, verdicts)))

    def _say_kept(self) -> str:
        """What is left of an interrupted training."""
        if self.store is None:
            return "Nothing was kept; with --store FILE what was judged is, and what a watch saw."
        return (
            "What was judged so far is in the store, and the same command shows it. A training "
            "goes on where it was if the script has checkpoints of its own: with --in-place."
        )

    def _tell(self, verdict: "Verdict", file: Path | None) -> None:
        """Show the verdict on a training that ended before the script asked for one."""
        again = f"dpassay audit {shlex.quote(str(file))} --one-run"
        kept = "" if file is None else f"\nThe same again, without a training: {again}"
        explain_failure(
            f"a training ended before its verdict. What its steps show:\n{verdict}{kept}"
        )

    def _play(self) -> "list[Verdict]":
        from dpassay.auditing import parse_claim
        from dpassay.auditing.adapters.subjects import is_script
        from dpassay.canaries.script import audit_script
        from dpassay.canaries.session import Asked
        from dpassay.canaries.watch_file import judge_so_far, read_watch
        from dpassay.errors import InvalidArgument

        stated = self.claim and parse_claim(self.claim, neighbouring=self.neighbouring)
        if self.target is not None and self.target.endswith(".json"):
            asked = Asked(stated or None, None, self.confidence or 0.95)
            return [judge_so_far(read_watch(self.target), asked)]
        if self.target is None or not is_script(self.target):
            raise InvalidArgument(
                f"target={self.target!r} must be a whole script for --one-run, such as train.py, "
                "or the .json file in which a watch was kept."
            )
        return audit_script(
            self.target,
            shlex.split(self.arguments),
            claim=stated or None,
            confidence=self.confidence,
            rng=self.seed,
            in_place=self.in_place,
            store=self.store,
            tell=self._tell,
        )

    def _show(self, verdicts: "list[Verdict]", as_json: bool) -> None:
        claims = [self.claim or repr(verdict.claim) for verdict in verdicts]
        pairs = list(zip(verdicts, claims, strict=True))
        if not as_json:
            for verdict, claim in pairs:
                show(verdict, claim, as_json)
            if len(pairs) > 1:
                say("Each verdict holds by itself with its confidence; that all hold, with less.")
            return
        main = max(pairs, key=lambda pair: pair[0].refuted)
        others = {"verdicts": [as_data(*pair) for pair in pairs]} if len(pairs) > 1 else {}
        emit(as_data(*main) | others)


def _replay() -> str:
    return shlex.join(["dpassay", *sys.argv[1:]])
