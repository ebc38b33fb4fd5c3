"""Scores that tell one world from the other: distinguishers learned from raw outputs."""

from dpassay.attacks.distinguisher import Distinguisher, learn_distinguisher
from dpassay.attacks.features import describe, features

__all__ = ["Distinguisher", "describe", "features", "learn_distinguisher"]
