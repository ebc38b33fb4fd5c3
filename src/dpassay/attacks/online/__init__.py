"""Attacks that are learned while the claim is bet against."""

from dpassay.attacks.online.attack import VERSION, OnlineAttack, Ranked

__all__ = ["VERSION", "OnlineAttack", "Ranked"]
