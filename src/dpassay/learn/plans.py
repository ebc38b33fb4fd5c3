"""What the plans of all learners share: public facts in, an event stated, a solution out.

A learner's ``fit`` collects the public facts of the problem, makes a plan of them, states the
plan's event, and only then lets the plan see the data (:meth:`PrivateMixin._carry_out`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from dpassay._rng import RngLike
from dpassay.learn.calibration import Calibration
from dpassay.mechanisms.additive import gaussian_multiplier
from dpassay.privacy.budget import Budget, Plan
from dpassay.types import FloatArray, NoiseLevel

# Mu is solved from (epsilon, delta) to some 1e-12, and composing releases back to it loses as much
# again. A billionth less than the budget is worth keeps every fit on the right side of its target.
ROOM = 1 - 1e-9

ROUNDING = 1 + 1e-9
"""The factor on sensitivities that covers the rounding of their own formulae."""

SMALLEST_PENALTY = 1e-8
"""Over n and the squared row bound: the least penalty at which exact solvers always succeed."""


TAKES_WEIGHTS = ("gd", "whitened", "sgd", "adassp")
"""Solvers that take weights of records."""


class PublicFacts:
    """What is public about a fit, and what follows from it alone; learners add their own."""

    n_records: int
    n_features: int
    row_bound: float
    budget: Budget
    fit_intercept: bool

    @cached_property
    def mu(self) -> float:
        """The Gaussian privacy that the budget is worth, by the exact curve."""
        return ROOM / gaussian_multiplier(epsilon=self.budget.epsilon, delta=self.budget.delta)

    @property
    def signal(self) -> float:
        """The scale u = n mu, halved where one record replaces another.

        It says how many records stand against one unit of noise.
        """
        return self.n_records * self.mu / self.budget.record_changes


@dataclass(frozen=True)
class Solution:
    """What a plan returns: weights and intercept for rows as bounded, and the level of the noise.

    For regressors coefficients (p,) and a number, for classifiers (k, p) and (k,), and what makes
    calibrated scores of theirs, if that was paid for.
    """

    coef: FloatArray
    intercept: Any
    noise: NoiseLevel
    calibration: Calibration | None = None


class LearnerPlan(Plan, Protocol):
    """A fit that is decided and has stated its event, but has not seen the data."""

    def solve(self, X: Any, y: Any, rng: RngLike, /) -> Solution:
        """Fit the rows, which are inside their bound, to targets or to codes of labels.

        Plans of :data:`TAKES_WEIGHTS` take ``weights`` of the records too, in [0, 1]. Those with a
        true ``takes_parts`` get the features themselves, to look at a part of the rows at a time.
        """
        ...
