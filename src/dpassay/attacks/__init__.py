"""Scores that tell one world from the other.

Membership scores of a trained model (:func:`attack`), and distinguishers learned from raw outputs.
Names are imported when they are first used.
"""

from dpassay._lazy import lazily
from dpassay.attacks.features import describe, features  # now: the module has the same name

_PUBLIC = {
    "attack": "dpassay.attacks.membership",
    "AttackResult": "dpassay.attacks.membership",
    "METHODS": "dpassay.attacks.methods",
    "AttackCeilings": "dpassay.attacks.ceilings",
    "Outputs": "dpassay.attacks.outputs",
    "observe": "dpassay.attacks.outputs",
    "metric_scores": "dpassay.attacks.scores",
    "log_odds": "dpassay.attacks.scores",
    "Shadows": "dpassay.attacks.shadows",
    "ShadowsStopped": "dpassay.attacks.shadows",
    "train_shadows": "dpassay.attacks.shadows",
    "lira_scores": "dpassay.attacks.likelihood",
    "rmia_scores": "dpassay.attacks.likelihood",
    "tuned_offline_slope": "dpassay.attacks.likelihood",
    "shadow_scores": "dpassay.attacks.learned",
    "quantile_scores": "dpassay.attacks.quantile",
    "WhiteBox": "dpassay.attacks.whitebox",
    "white_box_features": "dpassay.attacks.whitebox",
    "full_vector": "dpassay.attacks.whitebox",
    "sorted_half_accuracy": "dpassay.attacks.counters",
    "below_threshold_accuracy": "dpassay.attacks.counters",
    "Distinguisher": "dpassay.attacks.distinguisher",
    "learn_distinguisher": "dpassay.attacks.distinguisher",
}

__all__ = ["describe", "features", *_PUBLIC]


__getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
