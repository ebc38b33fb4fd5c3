"""Private l1-constrained regression."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from scipy import sparse

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.learn.base import Budget
from dpassay.learn.declared import Targets, bound_targets
from dpassay.learn.plans import Solution
from dpassay.learn.regressor import LinearRegressor
from dpassay.optim import frank_wolfe as fw
from dpassay.optim.l1_ball import minimise_on_l1_ball
from dpassay.optim.losses import Huber, Loss, Rows, Squared, lipschitz, smoothness
from dpassay.optim.objectives import LinearObjective
from dpassay.optim.polytopes import L1Ball, Polytope
from dpassay.optim.sparse_frank_wolfe import sparse_frank_wolfe
from dpassay.privacy import Event
from dpassay.types import FloatArray

LOSSES = ("huber", "clipped squared")


@dataclass(eq=False, repr=False)
class PrivateLasso(LinearRegressor):
    """Linear regression with ||w||_1 <= radius by Frank-Wolfe, (epsilon, delta)-DP.

    Its error grows with the logarithm of the number of features only, so that it suits many
    features of which few matter. For few features :class:`PrivateRidge` is better.

    Args:
        epsilon: the privacy parameter; inf gives the minimum itself, without privacy.
        delta: the probability that may escape epsilon; below 1/n, or 0.
        risk: what an attacker may gain at most, in place of epsilon: an
            :class:`~dpassay.privacy.Advantage`, AttackRate or BayesError. The fit takes the largest
            epsilon, at this delta, whose event keeps it.
        radius: of the l1 ball, for features as declared (after ``bounds`` scaled them) and targets
            in their own units; the intercept over ``data_norm`` (1 with ``bounds``) counts as one
            more coefficient. A constant that must not be read off the data.
        loss: "huber" (residuals clipped) or "clipped squared" (the squared loss; rows and targets
            are clipped, so that residuals are at most radius · data_norm + target_bound).
        residual_bound: where Huber's residuals are clipped; None for the bound on the targets.
        selection: how vertices are chosen: "gumbel", "permute-and-flip" or "laplace".
        steps: None for the number with the least bound on the excess risk, a function of public
            quantities (:func:`dpassay.optim.frank_wolfe.plan`).
        data_norm: the bound on the infinity norm of a row; entries are clipped to it.
        bounds: (low, high), numbers or one per feature; a list of pairs, one per feature; or a
            mapping by column name. One of the two must be declared.
        target_bound: Y for |y| <= Y, or (low, high); targets are clipped to it.
        fit_intercept: whether to fit one.
        neighbouring: "add-remove" or "replace-one".
        n_records: the public number of records; None takes that of the data, and the claim says so.
        ledger: where every fit is recorded.
        random_state: None for secure noise; a seed for noise that can be replayed (not private).

    Attributes:
        coef_, intercept_: in the units of X and y.
        n_iter_: the number of steps.
        selection_: what a step did; None without privacy.
        event_, privacy_, noise_, assumptions_: see :class:`~dpassay.learn.base.PrivateMixin`.

    Sparse X goes through :func:`~dpassay.optim.sparse_frank_wolfe.sparse_frank_wolfe` (with
    selection "gumbel") and is never densified.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], (20000, 100))
    >>> y = X[:, 3] - X[:, 70]
    >>> model = PrivateLasso(3.0, radius=2, data_norm=1, target_bound=2, random_state=0).fit(X, y)
    >>> sorted(np.argsort(-abs(model.coef_))[:2].tolist())
    [3, 70]

    """

    _: KW_ONLY
    radius: float = 1.0
    loss: Literal["huber", "clipped squared"] = "huber"
    selection: fw.SelectionName = "gumbel"
    steps: int | None = None

    def fit(self, X: Any, y: Any) -> "PrivateLasso":
        """Fit, and record what it cost.

        Raises:
            InvalidArgument: a bound is missing or wrong; the message says what would leak.
            BudgetExceeded: the ledger refused; nothing was computed.

        """
        X, y = self._read(X, y)
        budget = self._budget()
        remedy = "It is the l1 norm that the coefficients may have."
        radius = _check.number("radius", self.radius, low=0, low_open=True, remedy=remedy)
        _check.choice("loss", self.loss, LOSSES)
        if self.residual_bound is not None:
            remedy = "It is where residuals are clipped; leave it None for the bound on targets."
            _check.number(
                "residual_bound", self.residual_bound, low=0, low_open=True, remedy=remedy
            )
        n_records = self._public_records(X)
        if not budget.is_private:
            return self._fit_minimum(X, y, budget, n_records, radius)
        features = self._bound_features(X, "inf")
        targets = bound_targets(y, self.target_bound)
        loss = self._loss(radius * features.norm, targets.bound)

        def make_plan(allowed: Budget) -> fw.FrankWolfePlan:
            return self._make_plan(
                L1Ball(X.shape[1] + bool(self.fit_intercept), radius),
                n_records=n_records,
                lipschitz=lipschitz(loss, features.norm, math.inf),
                smoothness=smoothness(loss, features.norm, 1),
                epsilon=allowed.epsilon,
                delta=allowed.delta,
                neighbouring=allowed.neighbouring,
            )

        run = make_plan(self._keep_risk(budget, make_plan))
        constant = features.norm if self.fit_intercept else 0.0
        plan = LassoPlan(run, loss, radius, constant, n_records)
        solution = self._carry_out(plan, features, targets.values, n_records)
        self.n_iter_, self.selection_ = run.steps, run.selection
        self._keep(solution.coef, solution.intercept, features, targets)
        return self

    def _make_plan(self, polytope: Polytope, **public: Any) -> fw.FrankWolfePlan:
        """The fit, decided from public quantities before any data are touched."""
        return fw.plan(polytope, selection=self.selection, steps=self.steps, **public)

    def _loss(self, largest_score: float, target_bound: float) -> Loss:
        if self.loss == "clipped squared":
            return Squared(largest_score + target_bound)
        return Huber(target_bound if self.residual_bound is None else self.residual_bound)

    def _fit_minimum(
        self, X: Any, y: FloatArray, budget: Budget, n_records: int, radius: float
    ) -> "PrivateLasso":
        """The minimum of the same objective; bounds are kept where they were declared."""
        self._spend_nothing_private(budget, n_records)
        features, targets = self._features_without_privacy(X, "inf"), Targets(y, math.inf, 0.0)
        if self.target_bound is not None:
            targets = bound_targets(y, self.target_bound)
        unbounded = self.residual_bound is None and targets.bound == math.inf
        loss = Squared() if unbounded else self._loss(radius * features.norm, targets.bound)
        scale = features.norm if features.norm < math.inf else 1.0
        constant = scale if self.fit_intercept else 0.0
        objective = LinearObjective(
            loss, Rows(features.values, constant), targets.values, X.shape[0]
        )
        w = objective.matrix(minimise_on_l1_ball(objective, objective.dimension, radius))[:, 0]
        self.n_iter_, self.selection_ = 0, None
        self._keep(w[1:], w[0] * constant, features, targets)
        return self


@dataclass(frozen=True)
class LassoPlan:
    """A fit by Frank-Wolfe, decided from public quantities.

    Attributes:
        run: how many steps, and how vertices are selected.
        loss: the loss of one record.
        radius: the radius of the l1 ball.
        constant: the value of the feature that carries the intercept; 0 without one.
        n_records: the public number that the sum of losses is divided by.

    """

    run: fw.FrankWolfePlan
    loss: Loss
    radius: float
    constant: float
    n_records: int

    @property
    def event(self) -> Event:
        """What is done to the data: one private selection of a vertex per step."""
        return self.run.event

    def solve(self, X: Any, y: FloatArray, rng: RngLike) -> Solution:
        """The coefficients after the last step."""
        objective = LinearObjective(self.loss, Rows(X, self.constant), y, self.n_records)
        done = _solve(objective, self.radius, self.run, rng)
        assert done.noise is not None
        w = objective.matrix(done.w)[:, 0]
        return Solution(w[1:], w[0] * self.constant, done.noise)


def _solve(
    objective: LinearObjective, radius: float, plan: fw.FrankWolfePlan, rng: Any
) -> fw.Solution:
    """Run Frank-Wolfe, by the sparse solver where it applies."""
    chosen, rows = plan.selection, objective.rows
    if chosen is not None and chosen.kind == "gumbel" and sparse.issparse(rows.X):
        return sparse_frank_wolfe(
            rows.X,
            objective.targets,
            objective.loss,
            radius=radius,
            n_records=objective.n_records,
            steps=plan.steps,
            selection=chosen,
            constant=rows.constant,
            rng=rng,
        )
    ball = L1Ball(objective.dimension, radius)
    return fw.frank_wolfe(objective, ball, steps=plan.steps, selection=chosen, rng=rng)
