"""The parts of an adversary against DP-SGD: who tells the worlds apart, and by what.

Names are imported when they are first used.
"""

from dpassay._lazy import lazily

_PUBLIC = {
    "LikelihoodRatio": "dpassay.adversaries.likelihood",
    "LossScore": "dpassay.adversaries.likelihood",
    "along": "dpassay.adversaries.likelihood",
}

__all__ = list(_PUBLIC)


__getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
