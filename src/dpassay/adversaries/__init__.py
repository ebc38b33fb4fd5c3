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
        Game,
        play,
        steps_bound,
    )
    from dpassay.adversaries.likelihood import LikelihoodRatio, LossScore, along
    from dpassay.adversaries.one_run import OneRun, dirac_canaries, mislabelled_canaries
    from dpassay.adversaries.opacus import CanaryOptimizer
    from dpassay.adversaries.search import Searched
    from dpassay.adversaries.six import (
        ADVERSARIES,
        VARIANTS,
        Adversary,
        capabilities,
    )
    from dpassay.errors import GameStopped

_PUBLIC = {
    "LikelihoodRatio": "dpassay.adversaries.likelihood",
    "LossScore": "dpassay.adversaries.likelihood",
    "along": "dpassay.adversaries.likelihood",
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
    "Game": "dpassay.adversaries.game",
    "GameStopped": "dpassay.errors",
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
    "CanaryOptimizer",
    "ClipBKD",
    "Crafted",
    "Data",
    "FromTrainedStart",
    "Game",
    "GameStopped",
    "GradientCanary",
    "LikelihoodRatio",
    "LossScore",
    "MaliciousData",
    "NaturalExample",
    "OneRun",
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

if not TYPE_CHECKING:  # or every name would be known to a type checker, as Any
    __getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
