"""Logistic regression on an l1 ball: the plan of ``solver="frank-wolfe"``."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpassay.learn.logistic_plans import Setting, Solution, default_radius, targets_of
from dpassay.mechanisms.noise import Rng
from dpassay.optim import frank_wolfe as fw
from dpassay.optim.losses import Rows, lipschitz, smoothness
from dpassay.optim.objectives import LinearObjective
from dpassay.optim.polytopes import L1Ball
from dpassay.privacy import Event
from dpassay.types import FloatArray

_MOST_STEPS = 3000


@dataclass(frozen=True)
class FrankWolfe:
    """Frank-Wolfe on the l1 ball: selections of vertices by the exponential mechanism.

    Rows are bounded in the infinity norm. The number of steps is a fifth of what minimises the
    bound on the excess risk, 3000 at most: a step looks at all of dense data, and after so many the
    curvature's part of that bound is below .07 (default radius, row bound of 1 or more).
    """

    setting: Setting

    @property
    def radius(self) -> float:
        """Of the l1 ball."""
        return self.setting.radius or default_radius(self.setting)

    @cached_property
    def _plan(self) -> fw.Plan:
        plan = self._planned(self.setting.max_iter)
        if self.setting.max_iter is None and plan.steps > _MOST_STEPS:
            return self._planned(_MOST_STEPS)
        return plan

    def _planned(self, steps: int | None) -> fw.Plan:
        setting, budget = self.setting, self.setting.budget
        bound = max(setting.row_bound, setting.constant)
        dimension = (setting.n_features + setting.fit_intercept) * setting.loss.n_scores
        return fw.plan(
            L1Ball(dimension, self.radius),
            n_records=setting.n_records,
            lipschitz=lipschitz(setting.loss, bound, math.inf),
            smoothness=smoothness(setting.loss, bound, order=1),
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
            calibration=setting.calibration,
            selection="laplace" if setting.calibration != "tight" else "gumbel",
            steps=steps,
        )

    @property
    def steps(self) -> int:
        """T."""
        return self._plan.steps

    @property
    def noise_multiplier(self) -> float:
        """The scale of the selections' noise over the sensitivity of the scores."""
        selection = self._plan.selection
        assert selection is not None
        return selection.scale / selection.sensitivity

    @property
    def event(self) -> Event:
        """One selection per step."""
        return self._plan.event

    def solve(self, X: Any, codes: FloatArray, rng: Rng) -> Solution:
        """Run it, and split the flat vector."""
        setting = self.setting
        rows, targets = Rows(X, setting.constant), targets_of(codes, setting.loss, X.dtype)
        objective = LinearObjective(setting.loss, rows, targets, setting.n_records)
        found = self._sparse(objective, rng) if self._is_sparse(X) else self._dense(objective, rng)
        W = objective.matrix(found.w)
        assert found.noise is not None
        return Solution(W[1:].T, setting.constant * W[0], found.noise)

    def _is_sparse(self, X: Any) -> bool:
        """Whether steps may cost what they touch: same event, same sensitivity, same vertices."""
        # The document's Laplace selections are not sampled in less than one operation per vertex.
        tight, single = self.setting.calibration == "tight", self.setting.loss.n_scores == 1
        return hasattr(X, "indptr") and tight and single

    def _dense(self, objective: LinearObjective, rng: Rng) -> fw.Solution:
        return fw.frank_wolfe(
            objective,
            L1Ball(objective.dimension, self.radius),
            steps=self.steps,
            selection=self._plan.selection,
            rng=rng,
        )

    def _sparse(self, objective: LinearObjective, rng: Rng) -> fw.Solution:
        from dpassay.optim.sparse_frank_wolfe import sparse_frank_wolfe

        assert self._plan.selection is not None
        return sparse_frank_wolfe(
            objective.rows.X,
            objective.targets,
            objective.loss,
            radius=self.radius,
            n_records=objective.n_records,
            steps=self.steps,
            selection=self._plan.selection,
            constant=objective.rows.constant,
            rng=rng,
        )
