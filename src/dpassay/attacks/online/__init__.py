"""Attacks that are learned while the claim is bet against."""

from dpassay.attacks.online.attack import OnlineAttack, Ranked

__all__ = ["OnlineAttack", "Ranked"]
