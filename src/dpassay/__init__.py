"""dpassay measures how private an algorithm really is.

It proves an upper bound on epsilon by accounting, attacks for a lower bound that holds with stated
confidence, and puts the two beside what was claimed. Names are imported when they are first used:
``import dpassay`` itself loads nothing heavy.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "PureDP": "dpassay.privacy",
    "ApproxDP": "dpassay.privacy",
    "ZCDP": "dpassay.privacy",
    "RDP": "dpassay.privacy",
    "GDP": "dpassay.privacy",
    "PLD": "dpassay.privacy",
    "dp_sgd_event": "dpassay.privacy",
    "account": "dpassay.privacy",
    "calibrate": "dpassay.privacy",
    "lower_bound_from_counts": "dpassay.bounds",
    "lower_bound": "dpassay.bounds",
    "one_run": "dpassay.bounds",
    "audit": "dpassay.auditing",
    "audit_one_run": "dpassay.auditing",
    "attack": "dpassay.attacks",
    "LowerBound": "dpassay.types",
    "Verdict": "dpassay.types",
    "Evidence": "dpassay.types",
    "Release": "dpassay.types",
    "PrivacyCurve": "dpassay.types",
    "DpassayError": "dpassay.errors",
    "InvalidArgument": "dpassay.errors",
}
_SUBPACKAGES = (
    "privacy",
    "mechanisms",
    "learn",
    "nets",
    "synth",
    "runs",
    "bounds",
    "attacks",
    "adversaries",
    "probe",
    "auditing",
    "zoo",
    "report",
)

__all__ = ["__version__", *_PUBLIC, *_SUBPACKAGES]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
    elif name in _SUBPACKAGES:
        value = importlib.import_module(f"dpassay.{name}")
    else:
        raise AttributeError(f"module 'dpassay' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
