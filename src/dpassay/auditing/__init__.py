"""Audits: a game, played by runs, judged by bounds, beside a claim: a verdict.

Names are imported when they are first used: a worker needs the game alone.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.auditing import inputs
    from dpassay.auditing.adapters import (
        from_command,
        from_estimator,
        from_jax,
        from_script,
    )
    from dpassay.auditing.checking import check
    from dpassay.auditing.checking_script import check_script
    from dpassay.auditing.claims import parse_claim
    from dpassay.auditing.findings import Check, Finding
    from dpassay.auditing.judging import judge
    from dpassay.auditing.many import audit
    from dpassay.auditing.parts import describe_audit, play_part
    from dpassay.auditing.single import audit_one_run
    from dpassay.auditing.table import TableAudit, audit_table
    from dpassay.auditing.targets import load_data, load_pair, load_target
    from dpassay.errors import AuditStopped, CommandFailed, ScriptFailed
    from dpassay.replay.primitives import Primitive

_PUBLIC = {
    "AuditStopped": "dpassay.errors",
    "Check": "dpassay.auditing.findings",
    "CommandFailed": "dpassay.errors",
    "Finding": "dpassay.auditing.findings",
    "Primitive": "dpassay.replay.primitives",
    "ScriptFailed": "dpassay.errors",
    "audit": "dpassay.auditing.many",
    "TableAudit": "dpassay.auditing.table",
    "audit_one_run": "dpassay.auditing.single",
    "audit_table": "dpassay.auditing.table",
    "check": "dpassay.auditing.checking",
    "describe_audit": "dpassay.auditing.parts",
    "play_part": "dpassay.auditing.parts",
    "check_script": "dpassay.auditing.checking_script",
    "from_command": "dpassay.auditing.adapters",
    "from_estimator": "dpassay.auditing.adapters",
    "from_jax": "dpassay.auditing.adapters",
    "from_script": "dpassay.auditing.adapters",
    "inputs": "dpassay.auditing.inputs",
    "judge": "dpassay.auditing.judging",
    "load_data": "dpassay.auditing.targets",
    "load_pair": "dpassay.auditing.targets",
    "load_target": "dpassay.auditing.targets",
    "parse_claim": "dpassay.auditing.claims",
}

__all__ = [
    "AuditStopped",
    "Check",
    "CommandFailed",
    "Finding",
    "Primitive",
    "ScriptFailed",
    "TableAudit",
    "audit",
    "audit_one_run",
    "audit_table",
    "check",
    "check_script",
    "describe_audit",
    "from_command",
    "from_estimator",
    "from_jax",
    "from_script",
    "inputs",
    "judge",
    "load_data",
    "load_pair",
    "load_target",
    "parse_claim",
    "play_part",
]

lazily(__name__, _PUBLIC)
