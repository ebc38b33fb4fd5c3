"""Private ridge regression."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.learn.base import Budget
from dpassay.learn.declared import bound_targets
from dpassay.learn.plans import LearnerPlan
from dpassay.learn.regressor import LinearRegressor
from dpassay.learn.ridge_plans import PLANS, RidgeFacts, choose_solver
from dpassay.learn.weights import bound_weights, refuse_weights
from dpassay.types import FloatArray

SOLVERS = ("auto", *PLANS)


@dataclass(eq=False, repr=False)
class PrivateRidge(LinearRegressor):
    """Linear regression with a guarantee, (epsilon, delta)-DP of everything that is fitted.

    Args:
        epsilon: the privacy parameter; inf gives scikit-learn's Ridge.
        delta: the probability that may escape epsilon; positive, below 1/n.
        risk: what an attacker may gain at most, in place of epsilon: an
            :class:`~dpassay.privacy.Advantage`, AttackRate or BayesError. The fit takes the largest
            epsilon, at this delta, whose event keeps it.
        alpha: the penalty alpha ||w||² beside the *sum* of squared residuals, as in Ridge, on
            features as declared (after ``bounds`` scaled them); None leaves it to the solver's
            rule (:mod:`dpassay.learn.ridge_plans`), and is 1 without privacy.
        solver: "gd" (noisy gradient descent), "adassp" (noisy X'X and X'y), "output" (a Huberised
            ridge plus noise), or "auto": "gd", unless n is so large that "adassp" is better; the
            choice rests on public quantities.
        data_norm: the bound on the l2 norm of a row; longer rows are shortened to it. With
            ``bounds`` it applies after scaling.
        bounds: (low, high), numbers or one per feature; a list of pairs, one per feature; or a
            mapping by column name. Entries are clipped to them. One of the two must be declared.
        target_bound: Y for |y| <= Y, or (low, high); targets are clipped to it.
        residual_bound: where residuals are clipped, in the units of y; None leaves it to the rule.
        rho: a target of zero-concentrated privacy, in the place of epsilon and delta: all solvers
            have Gaussian noise, whose price rho is exact, and spend it all.
        weight_bound: the public bound on the ``sample_weight`` of a record, which the sensitivity
            is scaled by (:mod:`dpassay.learn.weights`); for "gd" and "adassp".
        fit_intercept: whether to fit one; where privacy is bought, it is penalised as well.
        neighbouring: "add-remove" or "replace-one".
        n_records: the public number of records; None takes that of the data, and the claim says so.
        ledger: where every fit is recorded.
        random_state: None for secure noise; a seed for noise that can be replayed (not private).

    Attributes:
        coef_, intercept_: as in Ridge, in the units of X and y.
        solver_: the solver that was used.
        event_, privacy_, noise_, assumptions_: see :class:`~dpassay.learn.base.PrivateMixin`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 3))
    >>> y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.normal(size=5000)
    >>> model = PrivateRidge(1.0, 1e-6, bounds=(-1, 1), target_bound=3, random_state=0).fit(X, y)
    >>> model.score(X, y)
    0.98
    >>> model.privacy_.epsilon(1e-6)
    1.0

    """

    _: KW_ONLY
    alpha: float | None = None
    solver: Literal["auto", "gd", "adassp", "output"] = "auto"
    weight_bound: float | None = None
    rho: float | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "PrivateRidge":
        """Fit, and record what it cost.

        ``sample_weight`` has one number per record, in [0, ``weight_bound``].

        Raises:
            InvalidArgument: a bound is missing or wrong; the message says what would leak.
            BudgetExceeded: the ledger refused; nothing was computed.

        """
        X, y = self._read(X, y)
        budget, rho = self._budget(), self._positive("rho")
        alpha = self._positive("alpha")
        _check.choice("solver", self.solver, SOLVERS)
        weights = bound_weights(sample_weight, self.weight_bound, X.shape[0])
        if rho is not None and self.risk is not None:
            raise InvalidArgument(f"rho={rho:g} and risk={self.risk!r}: only one can be met.")
        if rho is None and not budget.is_private:
            return self._fit_ridge(X, y, budget, 1.0 if alpha is None else alpha, weights)
        if rho is None:
            remedy = "All solvers have Gaussian noise; PrivateLasso can be purely epsilon-DP."
            _check.number("delta", budget.delta, low=0, high=1, low_open=True, remedy=remedy)
        features = self._bound_features(X)
        targets = bound_targets(y, self.target_bound)
        facts = RidgeFacts(
            n_records=self._public_records(X),
            n_features=X.shape[1],
            row_bound=features.norm,
            target_bound=targets.bound,
            budget=budget,
            fit_intercept=bool(self.fit_intercept),
            alpha=alpha,
            residual_bound=self._positive("residual_bound"),
            rho=rho,
        )
        allowed = self._keep_risk(budget, lambda b: self._make_plan(replace(facts, budget=b)))
        plan = self._make_plan(replace(facts, budget=allowed))
        refuse_weights(weights, self.solver_)
        solution = self._carry_out(plan, features, targets.values, facts.n_records, weights=weights)
        self._keep(solution.coef, solution.intercept, features, targets)
        return self

    def _make_plan(self, facts: RidgeFacts) -> LearnerPlan:
        """The fit, decided from public quantities before any data are touched."""
        self.solver_ = choose_solver(facts) if self.solver == "auto" else self.solver
        return PLANS[self.solver_](facts)

    def _fit_ridge(
        self, X: Any, y: Any, budget: Budget, alpha: float, weights: FloatArray | None
    ) -> "PrivateRidge":
        """Fit scikit-learn's model without privacy, inside the bounds that were declared."""
        from sklearn.linear_model import Ridge

        self.solver_ = "ridge"
        self._spend_nothing_private(budget, self._public_records(X))
        features = self._features_without_privacy(X)
        if self.target_bound is not None:
            targets = bound_targets(y, self.target_bound)
            y = targets.values + targets.centre
        ridge = Ridge(alpha=alpha, fit_intercept=self.fit_intercept)
        ridge.fit(features.values, y, weights)
        self.coef_, self.intercept_ = features.restore(ridge.coef_, ridge.intercept_)
        return self
