"""Auditing in one run: many canaries, a fair coin each, and how many were told apart."""

from dpassay.bounds.onerun.bound import one_run
from dpassay.bounds.onerun.dpsgd import DPSGDForm

__all__ = ["DPSGDForm", "one_run"]
