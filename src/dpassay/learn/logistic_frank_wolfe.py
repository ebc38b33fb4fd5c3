"""Logistic regression on an l1 ball: the plan of ``solver="frank-wolfe"``.

**The unit of length.** The noise of selections is scaled to the declared bound on the entries of a
row, and the ball too; both are wasted where the entries that there are stay far below it, as those
of rows of l2 norm 1 do. So the first selection chooses a unit R among 21 shares of the bound, 1
to 1/32: the one below which about three quarters of the rows lie. It is one more use of
the exponential mechanism, with the epsilon of a step. Entries are then clipped to R and divided by
it, and the intercept's feature is 1 beside them.

*Sensitivity.* Bin k holds the rows whose largest entry is in (R_(k+1), R_k]; let A_k be the number
of rows up to R_(k+1), B_k that up to R_k. The score -max(0, q N - B_k, A_k - q N) is 0 for the bin
that holds the quantile q of N (public) records; one record added, removed or replaced moves A_k and
B_k by at most 1 each, and a maximum of functions by at most the most that any of them moves: 1.

**The radius** is 30 in that unit. On held-out training records of Adult and digits, accuracy with
radii of 10, 30, 100 was .813, .825, .827 (Adult, epsilon = 1) and .38, .47, .43 (digits, 3): less
cannot reach the weights, and more takes twice the steps for little.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpassay._rng import RngLike
from dpassay.learn.logistic_facts import LogisticFacts, targets_of
from dpassay.learn.plans import Solution
from dpassay.mechanisms.selection import exponential
from dpassay.optim import frank_wolfe as fw
from dpassay.optim.losses import Rows, lipschitz, smoothness
from dpassay.optim.objectives import LinearObjective
from dpassay.optim.polytopes import L1Ball
from dpassay.privacy import Event, Repeated
from dpassay.types import FloatArray

_MOST_STEPS = 3000
_RADIUS = 30.0
_QUANTILE = 0.75
_UNITS = 2.0 ** (-np.arange(21) / 4)  # shares of the row bound


@dataclass(frozen=True)
class FrankWolfe:
    """Frank-Wolfe on the l1 ball: selections of vertices by the exponential mechanism.

    Rows are bounded in the infinity norm. The number of steps is a fifth of what minimises the
    bound on the excess risk, 3000 at most: a step looks at all of dense data.
    """

    facts: LogisticFacts

    def radius(self, unit: float) -> float:
        """The radius of the l1 ball for rows in units; a given radius is for rows as given."""
        given = self.facts.radius
        return _RADIUS if given is None else given * unit

    @cached_property
    def _plan(self) -> fw.FrankWolfePlan:
        plan = self._plan_steps(self.facts.max_iter)
        if self.facts.max_iter is None and plan.steps > _MOST_STEPS:
            return self._plan_steps(_MOST_STEPS)
        return plan

    def _plan_steps(self, steps: int | None) -> fw.FrankWolfePlan:
        facts, budget = self.facts, self.facts.budget
        return self._make_plan(
            self._ball(facts.row_bound),
            n_records=facts.n_records,
            lipschitz=self._lipschitz,
            smoothness=self._smoothness,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
            steps=steps,
        )

    def _make_plan(self, ball: L1Ball, **public: Any) -> fw.FrankWolfePlan:
        """How many steps and how noisy, from public quantities."""
        return fw.plan(ball, selection="gumbel", **public)

    def _ball(self, unit: float) -> L1Ball:
        facts = self.facts
        dimension = (facts.n_features + facts.fit_intercept) * facts.loss.n_scores
        return L1Ball(dimension, self.radius(unit))

    @property
    def _lipschitz(self) -> float:
        return lipschitz(self.facts.loss, 1.0, math.inf)

    @property
    def _smoothness(self) -> float:
        return smoothness(self.facts.loss, 1.0, order=1)

    def _selection(self, unit: float) -> fw.Selection:
        """How vertices are selected; the sensitivity is for rows divided by the unit."""
        budget, planned = self.facts.budget, self._plan.selection
        assert planned is not None
        sensitivity = fw.score_sensitivity(
            self._lipschitz, self.radius(unit), self.facts.n_records, budget.neighbouring
        )
        return fw.Selection(planned.kind, sensitivity, self._epsilon, budget.neighbouring)

    @cached_property
    def _epsilon(self) -> float:
        """The epsilon of one selection; there is one more than steps, which chooses the unit."""
        budget = self.facts.budget
        return fw.calibrate_selection(
            "gumbel",
            sensitivity=1.0,
            steps=self.steps + 1,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
        ).epsilon

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self._plan.steps

    @property
    def noise_multiplier(self) -> float:
        """The scale of the selections' noise over the sensitivity of the scores."""
        return 2 / self._selection(self.facts.row_bound).epsilon

    @property
    def event(self) -> Event:
        """One selection per step, and one of the unit."""
        return Repeated(self._selection(self.facts.row_bound).event, self.steps + 1)

    def solve(self, X: Any, codes: FloatArray, rng: RngLike) -> Solution:
        """Choose the unit, run it, and go back to the units of X."""
        facts, unit = self.facts, self.unit(X, rng)
        X = _in_units(X, unit)
        rows, targets = Rows(X, facts.constant), targets_of(codes, facts.loss, X.dtype)
        objective = LinearObjective(facts.loss, rows, targets, facts.n_records)
        solver = self._sparse if self._is_sparse(X) else self._dense
        found = solver(objective, unit, rng)
        W = objective.matrix(found.w)
        assert found.noise is not None
        return Solution(W[1:].T / unit, facts.constant * W[0], found.noise)

    def unit(self, X: Any, rng: RngLike) -> float:
        """R: what about three quarters of the rows stay below; released and paid for."""
        facts = self.facts
        release = exponential(
            unit_scores(Rows(X, 0.0).norms(math.inf), facts.row_bound, facts.n_records),
            sensitivity=1.0,
            epsilon=self._epsilon,
            rng=rng,
            neighbouring=facts.budget.neighbouring,
        )
        return float(facts.row_bound * _UNITS[release.value])

    def _is_sparse(self, X: Any) -> bool:
        """Whether steps may cost what they touch: same event, same sensitivity, same vertices.

        Not for more than two classes, where a step towards one class changes all K residuals of the
        rows that it touches. The other loop never makes X dense either: its steps
        take X @ W and X'residuals of the sparse X, n K + p K numbers beside it.
        """
        return hasattr(X, "indptr") and self.facts.loss.n_scores == 1

    def _dense(self, objective: LinearObjective, unit: float, rng: RngLike) -> fw.Solution:
        return fw.frank_wolfe(
            objective,
            self._ball(unit),
            steps=self.steps,
            selection=self._selection(unit),
            rng=rng,
        )

    def _sparse(self, objective: LinearObjective, unit: float, rng: RngLike) -> fw.Solution:
        from dpassay.optim.sparse_frank_wolfe import sparse_frank_wolfe

        return sparse_frank_wolfe(
            objective.rows.X,
            objective.targets,
            objective.loss,
            radius=self.radius(unit),
            n_records=objective.n_records,
            steps=self.steps,
            selection=self._selection(unit),
            constant=objective.rows.constant,
            rng=rng,
        )


def unit_scores(norms: FloatArray, row_bound: float, n_records: int) -> FloatArray:
    """How near the quantile every unit is, in records, 0 being best; of sensitivity 1."""
    edges = row_bound * _UNITS
    up_to = np.searchsorted(np.sort(norms), edges, side="right")
    up_to[0] = len(norms)  # within the bound all rows are, up to rounding
    before = np.append(up_to[1:], 0)
    wanted = _QUANTILE * n_records
    return -np.maximum(0.0, np.maximum(wanted - up_to, before - wanted))


def _in_units(X: Any, unit: float) -> Any:
    """X with entries clipped to the unit and divided by it: within ±1, sparse where X is."""
    limit = X.dtype.type(unit)
    if not hasattr(X, "indptr"):
        return np.clip(X, -limit, limit) / limit
    return type(X)((np.clip(X.data, -limit, limit) / limit, X.indices, X.indptr), X.shape)
