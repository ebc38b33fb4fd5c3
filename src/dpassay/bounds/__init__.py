"""Evidence in, lower bound out: the statistics of an audit.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.bounds.bayes import credible_interval
    from dpassay.bounds.conditional import lower_bound_from_coins
    from dpassay.bounds.counts import lower_bound_from_counts
    from dpassay.bounds.curve_tests import ClaimCheck, check_claim, lower_bound_in_family
    from dpassay.bounds.families import Family
    from dpassay.bounds.location import lower_bound_gaussian_location
    from dpassay.bounds.metrics import (
        Interval,
        advantage,
        auc,
        tpr_at_fpr,
    )
    from dpassay.bounds.onerun import DPSGDForm, one_run
    from dpassay.bounds.pooled import lower_bound_pooled
    from dpassay.bounds.scores import lower_bound
    from dpassay.bounds.sequential import (
        ConfidenceSequence,
        SequentialTest,
        sequential_bound,
        sequential_test,
    )
    from dpassay.bounds.steps import lower_bound_from_steps

_PUBLIC = {
    "lower_bound_from_counts": "dpassay.bounds.counts",
    "lower_bound_from_coins": "dpassay.bounds.conditional",
    "credible_interval": "dpassay.bounds.bayes",
    "lower_bound": "dpassay.bounds.scores",
    "lower_bound_from_steps": "dpassay.bounds.steps",
    "lower_bound_gaussian_location": "dpassay.bounds.location",
    "lower_bound_pooled": "dpassay.bounds.pooled",
    "check_claim": "dpassay.bounds.curve_tests",
    "ClaimCheck": "dpassay.bounds.curve_tests",
    "lower_bound_in_family": "dpassay.bounds.curve_tests",
    "Interval": "dpassay.bounds.metrics",
    "advantage": "dpassay.bounds.metrics",
    "auc": "dpassay.bounds.metrics",
    "tpr_at_fpr": "dpassay.bounds.metrics",
    "DPSGDForm": "dpassay.bounds.onerun",
    "one_run": "dpassay.bounds.onerun",
    "sequential_bound": "dpassay.bounds.sequential",
    "sequential_test": "dpassay.bounds.sequential",
    "ConfidenceSequence": "dpassay.bounds.sequential",
    "Family": "dpassay.bounds.families",
    "SequentialTest": "dpassay.bounds.sequential",
}

__all__ = [
    "ClaimCheck",
    "ConfidenceSequence",
    "DPSGDForm",
    "Family",
    "Interval",
    "SequentialTest",
    "advantage",
    "auc",
    "check_claim",
    "credible_interval",
    "lower_bound",
    "lower_bound_from_coins",
    "lower_bound_from_counts",
    "lower_bound_from_steps",
    "lower_bound_gaussian_location",
    "lower_bound_in_family",
    "lower_bound_pooled",
    "one_run",
    "sequential_bound",
    "sequential_test",
    "tpr_at_fpr",
]

lazily(__name__, _PUBLIC)
