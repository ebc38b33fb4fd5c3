"""Auditing in one run: many canaries, a fair coin each, and how many were told apart."""

from dpassay.bounds.onerun.bound import one_run

__all__ = ["one_run"]
