"""The parts of an adversary against DP-SGD: who crafts, who trains, who tells the worlds apart.

Names are imported when they are first used. Games need JAX (``pip install 'dpassay[lab]'``); the
distinguishers alone do not.
"""

from dpassay._lazy import lazily

_CRAFTERS = (
    "Data",
    "Crafted",
    "NaturalExample",
    "StaticPoison",
    "ClipBKD",
    "AdaptivePoison",
    "GradientCanary",
    "MaliciousData",
    "FromTrainedStart",
)
_SIX = ("ADVERSARIES", "VARIANTS", "Adversary", "capabilities")
_GAME = ("Game", "GameStopped", "play", "steps_bound")
_PUBLIC = {
    "LikelihoodRatio": "dpassay.adversaries.likelihood",
    "LossScore": "dpassay.adversaries.likelihood",
    "along": "dpassay.adversaries.likelihood",
    **dict.fromkeys(_CRAFTERS, "dpassay.adversaries.crafters"),
    **dict.fromkeys(_SIX, "dpassay.adversaries.six"),
    **dict.fromkeys(_GAME, "dpassay.adversaries.game"),
    "lower_bound_in_noise": "dpassay.adversaries.family",
    "Searched": "dpassay.adversaries.search",
    "OneRun": "dpassay.adversaries.one_run",
    "dirac_canaries": "dpassay.adversaries.one_run",
    "mislabelled_canaries": "dpassay.adversaries.one_run",
    "CanaryOptimizer": "dpassay.adversaries.opacus",
}

__all__ = list(_PUBLIC)


__getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
