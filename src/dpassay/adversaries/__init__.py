"""The parts of an adversary against DP-SGD: who crafts, who trains, who tells the worlds apart.

Names are imported when they are first used. Games need JAX (``pip install 'dpassay[lab]'``); the
distinguishers alone do not.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.adversaries.crafters import (
        AdaptivePoison,
        ClipBKD,
        Crafted,
        Data,
        FromTrainedStart,
        GradientCanary,
        MaliciousData,
        NaturalExample,
        StaticPoison,
    )
    from dpassay.adversaries.family import lower_bound_in_noise
    from dpassay.adversaries.game import (
        PlayedGame,
        play,
        steps_bound,
    )
    from dpassay.adversaries.one_run import OneRun, dirac_canaries, mislabelled_canaries
    from dpassay.adversaries.opacus import CanaryOptimizer
    from dpassay.adversaries.search import Searched
    from dpassay.adversaries.six import (
        ADVERSARIES,
        VARIANTS,
        Adversary,
        capabilities,
    )
    from dpassay.attacks.trajectories import LikelihoodRatio, LossScore, along
    from dpassay.errors import AuditStopped

_PUBLIC = {
    "LikelihoodRatio": "dpassay.attacks.trajectories",
    "LossScore": "dpassay.attacks.trajectories",
    "along": "dpassay.attacks.trajectories",
    "Data": "dpassay.adversaries.crafters",
    "Crafted": "dpassay.adversaries.crafters",
    "NaturalExample": "dpassay.adversaries.crafters",
    "StaticPoison": "dpassay.adversaries.crafters",
    "ClipBKD": "dpassay.adversaries.crafters",
    "AdaptivePoison": "dpassay.adversaries.crafters",
    "GradientCanary": "dpassay.adversaries.crafters",
    "MaliciousData": "dpassay.adversaries.crafters",
    "FromTrainedStart": "dpassay.adversaries.crafters",
    "ADVERSARIES": "dpassay.adversaries.six",
    "VARIANTS": "dpassay.adversaries.six",
    "Adversary": "dpassay.adversaries.six",
    "capabilities": "dpassay.adversaries.six",
    "PlayedGame": "dpassay.adversaries.game",
    "AuditStopped": "dpassay.errors",
    "play": "dpassay.adversaries.game",
    "steps_bound": "dpassay.adversaries.game",
    "lower_bound_in_noise": "dpassay.adversaries.family",
    "Searched": "dpassay.adversaries.search",
    "OneRun": "dpassay.adversaries.one_run",
    "dirac_canaries": "dpassay.adversaries.one_run",
    "mislabelled_canaries": "dpassay.adversaries.one_run",
    "CanaryOptimizer": "dpassay.adversaries.opacus",
}

__all__ = [
    "ADVERSARIES",
    "VARIANTS",
    "AdaptivePoison",
    "Adversary",
    "AuditStopped",
    "CanaryOptimizer",
    "ClipBKD",
    "Crafted",
    "Data",
    "FromTrainedStart",
    "GradientCanary",
    "LikelihoodRatio",
    "LossScore",
    "MaliciousData",
    "NaturalExample",
    "OneRun",
    "PlayedGame",
    "Searched",
    "StaticPoison",
    "along",
    "capabilities",
    "dirac_canaries",
    "lower_bound_in_noise",
    "mislabelled_canaries",
    "play",
    "steps_bound",
]

_OLD = {
    "Game": "dpassay.adversaries.PlayedGame",
    "GameStopped": "dpassay.errors.AuditStopped",
}

lazily(__name__, _PUBLIC, _OLD)
