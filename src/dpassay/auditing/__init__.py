"""Audits: a game, played by runs, judged by bounds, beside a claim: a verdict.

Names are imported when they are first used: a worker needs the game alone.
"""

import importlib
from typing import Any

_PUBLIC = {
    "AuditStopped": "question",
    "CommandFailed": "adapters",
    "ScriptFailed": "adapters",
    "audit": "many",
    "audit_one_run": "single",
    "from_command": "adapters",
    "from_estimator": "adapters",
    "from_jax": "adapters",
    "from_script": "adapters",
    "judge": "judging",
    "load_pair": "targets",
    "load_target": "targets",
    "parse_claim": "claims",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dpassay.auditing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dpassay.auditing.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
