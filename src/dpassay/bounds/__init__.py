"""Evidence in, lower bound out: the statistics of an audit.

Names are imported when they are first used.
"""

import importlib
from typing import Any

_PUBLIC = {
    "lower_bound_from_counts": "dpassay.bounds.counts",
    "credible_interval": "dpassay.bounds.bayes",
    "lower_bound": "dpassay.bounds.scores",
    "check_claim": "dpassay.bounds.claims",
    "ClaimCheck": "dpassay.bounds.claims",
    "lower_bound_in_family": "dpassay.bounds.claims",
    "Interval": "dpassay.bounds.metrics",
    "advantage": "dpassay.bounds.metrics",
    "auc": "dpassay.bounds.metrics",
    "tpr_at_fpr": "dpassay.bounds.metrics",
    "one_run": "dpassay.bounds.onerun",
    "sequential_bound": "dpassay.bounds.sequential",
    "sequential_test": "dpassay.bounds.sequential",
    "ConfidenceSequence": "dpassay.bounds.sequential",
    "Family": "dpassay.bounds.sequential",
    "SequentialTest": "dpassay.bounds.sequential",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dpassay.bounds' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
