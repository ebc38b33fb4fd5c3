"""``dpassay audit ... --evidence replay``: the verdict from replayed likelihood ratios."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpassay.cli.ending import STOPPED
from dpassay.cli.output import Counting, complain
from dpassay.errors import AuditStopped, InvalidArgument

if TYPE_CHECKING:
    from dpassay.auditing.findings import Check
    from dpassay.types import Verdict

_MOST = 200  # trials on a script: each runs it two or three times


def audit_by_replay(
    mechanism: Any,
    pair: tuple[Any, Any] | None,
    named: str,
    *,
    quiet: bool,
    store: Path | None,
    **options: Any,
) -> "tuple[Verdict, Check | None]":
    """The verdict on a mechanism, or on a script, with the check that searched its pair.

    Leaves with exit code 3 where the executions do not allow a likelihood ratio.
    """
    if store is not None:
        raise InvalidArgument(
            f"store={str(store)!r} must be left out with evidence='replay': its few executions "
            "take moments and are not logged."
        )
    try:
        with Counting(quiet) as counting:
            if hasattr(mechanism, "worlds"):
                return _audit_script(mechanism, named, **options, progress=counting)
            return _audit_pair(mechanism, pair, **options, progress=counting), None
    except AuditStopped as why:
        complain(str(why))
        raise typer.Exit(STOPPED) from None


def _audit_pair(mechanism: Any, pair: Any, **options: Any) -> "Verdict":
    from dpassay.auditing import replayed

    if pair is None:
        raise InvalidArgument(
            "evidence='replay' needs a pair: give data_prime too, or let dpassay check search one."
        )
    return replayed.audit_by_replay(mechanism, pair, **options)


def _audit_script(
    script: Any, named: str, *, trials: int, **options: Any
) -> "tuple[Verdict, Check]":
    """The pair is searched by a check, which the trials then go on from."""
    from dpassay.auditing.checking_script import check_script
    from dpassay.cli.check import stated_rate

    found = check_script(
        script.path,
        script.arguments,
        sampling_rate=stated_rate(named),
        evidence=min(trials, _MOST),
        **options,
    )
    if found.refutation is not None:
        return found.refutation, found
    reasons = [entry.message for entry in found.not_checked]
    raise AuditStopped(
        " ".join(reasons[-1:]) or "evidence='replay' cannot be used: nothing moved on any pair."
    )
