"""``dpassay audit ... --evidence replay``: the verdict from replayed likelihood ratios."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from dpassay.cli.ending import STOPPED
from dpassay.cli.output import Counting, complain, say
from dpassay.cli.verdicts import exit_code, show
from dpassay.errors import AuditStopped, InvalidArgument

if TYPE_CHECKING:
    from dpassay.types import Verdict

_MOST = 200  # trials on a script: each runs it two or three times


def play_and_show(
    mechanism: Any,
    pair: tuple[Any, Any] | None,
    claim: Any,
    named: str,
    evidence: str,
    options: dict[str, Any],
    as_json: bool,
    quiet: bool = False,
) -> None:
    """Play, print the verdict, and leave with its exit code."""
    if evidence != "replay":
        raise InvalidArgument(f"evidence={evidence!r} must be trials or replay.")
    play = _audit_script if hasattr(mechanism, "worlds") else _audit_pair
    try:
        with Counting(quiet or as_json) as counting:
            verdict = play(mechanism, pair, claim, named, options, counting)
    except AuditStopped as why:
        complain(str(why))
        raise typer.Exit(STOPPED) from None
    show(verdict, named, as_json)
    if not as_json:
        say(f"Assuming {verdict.bound.assumption}.")
    raise typer.Exit(exit_code(verdict))


def _audit_pair(
    mechanism: Any,
    pair: Any,
    claim: Any,
    named: str,
    options: dict[str, Any],
    told: Callable[[int], None],
) -> "Verdict":
    from dpassay.auditing.replayed import audit_by_replay

    if pair is None:
        raise InvalidArgument(
            "evidence='replay' needs a pair: give data_prime too, or let dpassay check search one."
        )
    return audit_by_replay(mechanism, pair, claim=claim, **options, progress=told)


def _audit_script(
    script: Any,
    pair: Any,
    claim: Any,
    named: str,
    options: dict[str, Any],
    told: Callable[[int], None],
) -> "Verdict":
    """The pair is searched by a check, which the trials then go on from."""
    from dpassay.auditing.checking_script import check_script
    from dpassay.cli.check import stated_rate

    trials = min(options.pop("trials"), _MOST)
    found = check_script(
        script.path,
        script.arguments,
        claim=claim,
        sampling_rate=stated_rate(named),
        evidence=trials,
        **options,
        progress=told,
    )
    if found.refutation is not None:
        return found.refutation
    reasons = [entry.message for entry in found.not_checked]
    raise AuditStopped(
        " ".join(reasons[-1:]) or "evidence='replay' cannot be used: nothing moved on any pair."
    )
