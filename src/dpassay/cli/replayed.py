"""``dpassay audit ... --evidence replay``: the verdict from replayed likelihood ratios."""

from typing import Any

import typer

from dpassay.cli.ending import STOPPED
from dpassay.cli.output import complain, say, working
from dpassay.cli.verdicts import exit_code, show
from dpassay.errors import AuditStopped, InvalidArgument


def play_and_show(
    mechanism: Any,
    pair: tuple[Any, Any] | None,
    claim: Any,
    named: str,
    evidence: str,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """Play, print the verdict, and leave with its exit code."""
    from dpassay.auditing.replayed import audit_by_replay

    if evidence != "replay":
        raise InvalidArgument(f"evidence={evidence!r} must be trials or replay.")
    if hasattr(mechanism, "worlds"):
        raise InvalidArgument(
            "evidence='replay' needs a function and its data. A whole script is replayed by "
            "dpassay check train.py --claim ... --evidence 50."
        )
    if pair is None:
        raise InvalidArgument(
            "evidence='replay' needs a pair: give data_prime too, or let dpassay check search one."
        )
    try:
        with working("replaying"):
            verdict = audit_by_replay(mechanism, pair, claim=claim, **options)
    except AuditStopped as why:
        complain(str(why))
        raise typer.Exit(STOPPED) from None
    show(verdict, named, as_json)
    if not as_json:
        say(f"Assuming {verdict.bound.assumption}.")
    raise typer.Exit(exit_code(verdict))
