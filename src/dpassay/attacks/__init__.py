"""Scores that tell one world from the other.

Membership scores of a trained model (:func:`attack`) and of a released table
(:mod:`dpassay.attacks.tables`), and distinguishers learned from raw outputs.
Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily
from dpassay.attacks.features import describe, features  # now: the module has the same name

if TYPE_CHECKING:
    from dpassay.attacks import tables
    from dpassay.attacks.bits import lowest_bit
    from dpassay.attacks.ceilings import AttackCeilings
    from dpassay.attacks.counters import below_threshold_accuracy, sorted_half_accuracy
    from dpassay.attacks.distinguisher import Distinguisher, learn_distinguisher
    from dpassay.attacks.learned import shadow_scores
    from dpassay.attacks.membership import AttackResult, attack
    from dpassay.attacks.methods import METHODS
    from dpassay.attacks.outputs import Outputs, observe
    from dpassay.attacks.quantile import quantile_scores
    from dpassay.attacks.ratio_attacks import lira_scores, rmia_scores, tune_offline_slope
    from dpassay.attacks.scores import log_odds, metric_scores
    from dpassay.attacks.shadows import Shadows, train_shadows
    from dpassay.attacks.whitebox import WhiteBox, full_vector, white_box_features

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
    "train_shadows": "dpassay.attacks.shadows",
    "lira_scores": "dpassay.attacks.ratio_attacks",
    "rmia_scores": "dpassay.attacks.ratio_attacks",
    "tune_offline_slope": "dpassay.attacks.ratio_attacks",
    "shadow_scores": "dpassay.attacks.learned",
    "quantile_scores": "dpassay.attacks.quantile",
    "WhiteBox": "dpassay.attacks.whitebox",
    "white_box_features": "dpassay.attacks.whitebox",
    "full_vector": "dpassay.attacks.whitebox",
    "sorted_half_accuracy": "dpassay.attacks.counters",
    "below_threshold_accuracy": "dpassay.attacks.counters",
    "Distinguisher": "dpassay.attacks.distinguisher",
    "learn_distinguisher": "dpassay.attacks.distinguisher",
    "tables": "dpassay.attacks.tables",
    "lowest_bit": "dpassay.attacks.bits",
}

__all__ = [
    "METHODS",
    "AttackCeilings",
    "AttackResult",
    "Distinguisher",
    "Outputs",
    "Shadows",
    "WhiteBox",
    "attack",
    "below_threshold_accuracy",
    "describe",
    "features",
    "full_vector",
    "learn_distinguisher",
    "lira_scores",
    "log_odds",
    "lowest_bit",
    "metric_scores",
    "observe",
    "quantile_scores",
    "rmia_scores",
    "shadow_scores",
    "sorted_half_accuracy",
    "tables",
    "train_shadows",
    "tune_offline_slope",
    "white_box_features",
]

_MOVED = {
    "ShadowsStopped": "dpassay.errors.AuditStopped",
    "tuned_offline_slope": "dpassay.attacks.tune_offline_slope",
}

lazily(__name__, _PUBLIC, _MOVED)
