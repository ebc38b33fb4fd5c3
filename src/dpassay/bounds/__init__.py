"""Evidence in, lower bound out: the statistics of an audit.

Names are imported when they are first used.
"""

from dpassay._lazy import lazily

_PUBLIC = {
    "lower_bound_from_counts": "dpassay.bounds.counts",
    "lower_bound_from_coins": "dpassay.bounds.conditional",
    "credible_interval": "dpassay.bounds.bayes",
    "lower_bound": "dpassay.bounds.scores",
    "lower_bound_from_steps": "dpassay.bounds.steps",
    "lower_bound_gaussian_location": "dpassay.bounds.location",
    "lower_bound_pooled": "dpassay.bounds.pooled",
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


__getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
