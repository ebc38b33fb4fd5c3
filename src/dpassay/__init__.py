"""dpassay measures how private an algorithm really is.

It proves an upper bound on epsilon by accounting, attacks for a lower bound that holds with stated
confidence, and puts the two beside what was claimed. Names are imported when they are first used:
``import dpassay`` itself loads nothing heavy.
"""

from dpassay._lazy import lazily

TYPE_CHECKING = False  # not from typing: see dpassay._lazy
if TYPE_CHECKING:
    from dpassay import (
        adversaries,
        attacks,
        auditing,
        bounds,
        canaries,
        datasets,
        learn,
        mechanisms,
        nets,
        optim,
        privacy,
        probe,
        replay,
        report,
        runs,
        synth,
        zoo,
    )
    from dpassay.attacks import attack
    from dpassay.auditing import Check, audit, audit_one_run, audit_table, check, inputs
    from dpassay.bounds import lower_bound, lower_bound_from_counts, one_run
    from dpassay.errors import DpassayError, InvalidArgument
    from dpassay.privacy import (
        GDP,
        PLD,
        RDP,
        ZCDP,
        ApproxDP,
        Ledger,
        PureDP,
        account,
        calibrate,
        dp_sgd_event,
    )
    from dpassay.types import Evidence, LowerBound, PrivacyCurve, Release, Verdict

__version__ = "0.1.0"

_PUBLIC = {
    "Ledger": "dpassay.privacy",
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
    "audit_table": "dpassay.auditing",
    "Check": "dpassay.auditing",
    "check": "dpassay.auditing",
    "attack": "dpassay.attacks",
    "LowerBound": "dpassay.types",
    "Verdict": "dpassay.types",
    "Evidence": "dpassay.types",
    "Release": "dpassay.types",
    "PrivacyCurve": "dpassay.types",
    "DpassayError": "dpassay.errors",
    "InvalidArgument": "dpassay.errors",
}
_MODULES = {
    "privacy": "dpassay.privacy",
    "mechanisms": "dpassay.mechanisms",
    "optim": "dpassay.optim",
    "learn": "dpassay.learn",
    "nets": "dpassay.nets",
    "synth": "dpassay.synth",
    "runs": "dpassay.runs",
    "bounds": "dpassay.bounds",
    "replay": "dpassay.replay",
    "attacks": "dpassay.attacks",
    "adversaries": "dpassay.adversaries",
    "canaries": "dpassay.canaries",
    "probe": "dpassay.probe",
    "auditing": "dpassay.auditing",
    "zoo": "dpassay.zoo",
    "report": "dpassay.report",
    "datasets": "dpassay.datasets",
    "inputs": "dpassay.auditing.inputs",
}
_MOVED = {"reproduce": "dpassay_reproduce"}  # where a name went; the old one works and warns

__all__ = [
    "GDP",
    "PLD",
    "RDP",
    "ZCDP",
    "ApproxDP",
    "Check",
    "DpassayError",
    "Evidence",
    "InvalidArgument",
    "Ledger",
    "LowerBound",
    "PrivacyCurve",
    "PureDP",
    "Release",
    "Verdict",
    "__version__",
    "account",
    "adversaries",
    "attack",
    "attacks",
    "audit",
    "audit_one_run",
    "audit_table",
    "auditing",
    "bounds",
    "calibrate",
    "canaries",
    "check",
    "datasets",
    "dp_sgd_event",
    "inputs",
    "learn",
    "lower_bound",
    "lower_bound_from_counts",
    "mechanisms",
    "nets",
    "one_run",
    "optim",
    "privacy",
    "probe",
    "replay",
    "report",
    "runs",
    "synth",
    "zoo",
]

lazily(__name__, _PUBLIC | _MODULES, _MOVED)
