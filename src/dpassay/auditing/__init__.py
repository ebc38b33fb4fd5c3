"""Audits: a game, played by runs, judged by bounds, beside a claim: a verdict.

Names are imported when they are first used: a worker needs the game alone.
"""

from dpassay._lazy import lazily

_PUBLIC = {
    "AuditStopped": "dpassay.auditing.question",
    "CommandFailed": "dpassay.auditing.adapters",
    "ScriptFailed": "dpassay.auditing.adapters",
    "audit": "dpassay.auditing.many",
    "audit_one_run": "dpassay.auditing.single",
    "from_command": "dpassay.auditing.adapters",
    "from_estimator": "dpassay.auditing.adapters",
    "from_jax": "dpassay.auditing.adapters",
    "from_script": "dpassay.auditing.adapters",
    "judge": "dpassay.auditing.judging",
    "load_pair": "dpassay.auditing.targets",
    "load_target": "dpassay.auditing.targets",
    "parse_claim": "dpassay.auditing.claims",
}

__all__ = list(_PUBLIC)


__getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
