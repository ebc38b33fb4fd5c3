"""Audits: a game, played by runs, judged by bounds, beside a claim: a verdict."""

from dpassay.auditing.adapters import (
    CommandFailed,
    ScriptFailed,
    from_command,
    from_estimator,
    from_jax,
    from_script,
)
from dpassay.auditing.claims import parse_claim
from dpassay.auditing.judge import judge
from dpassay.auditing.many import audit
from dpassay.auditing.question import AuditStopped
from dpassay.auditing.single import audit_one_run
from dpassay.auditing.targets import load_pair, load_target

__all__ = [
    "AuditStopped",
    "CommandFailed",
    "ScriptFailed",
    "audit",
    "audit_one_run",
    "from_command",
    "from_estimator",
    "from_jax",
    "from_script",
    "judge",
    "load_pair",
    "load_target",
    "parse_claim",
]
