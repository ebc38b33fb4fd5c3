"""Private logistic regression, for two classes and more."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.learn.base import Budget, PrivateLinearModel, check_data
from dpassay.learn.calibration import Calibration
from dpassay.learn.declared import Features, label_set
from dpassay.learn.logistic_facts import LogisticFacts, LogisticPlan
from dpassay.learn.logistic_plans import PLANS, choose_solver, plan_for
from dpassay.learn.weights import ClassWeight, bound_weights, class_weights, refuse_weights
from dpassay.optim.products import is_sparse, row_products
from dpassay.types import FloatArray

SOLVERS = ("auto", *PLANS)
Solver = Literal["auto", "gd", "whitened", "sgd", "frank-wolfe", "output", "objective"]
_DTYPES = (np.float64, np.float32)


@dataclass(eq=False, repr=False)
class PrivateLogisticRegression(PrivateLinearModel, ClassifierMixin, BaseEstimator):
    """A linear classifier with a guarantee, (epsilon, delta)-DP of everything that is fitted.

    Args:
        epsilon: the privacy parameter; inf gives scikit-learn's LogisticRegression without penalty.
        delta: the probability that may escape epsilon; below 1/n, and positive but for
            "frank-wolfe".
        risk: what an attacker may gain at most, in place of epsilon: an
            :class:`~dpassay.privacy.Advantage`, AttackRate or BayesError. The fit takes the largest
            epsilon, at this delta, whose event keeps it.
        solver: "gd" (noisy gradient descent on rows that a part of the budget makes even),
            "whitened" (the same on rows made even in all directions, for many dense records),
            "sgd" (on random batches), "frank-wolfe" (on an l1 ball: for many features of which few
            matter), "output" and "objective" (perturbation of the regularised minimiser: classic
            baselines), or "auto": "gd", or "whitened" where noise is small. Steps, rates, clipping
            and penalties come from rules on public quantities
            (:mod:`dpassay.learn.logistic_plans`).
        data_norm: the bound on the l2 norm of a row (the infinity norm for "frank-wolfe"); longer
            rows are shortened to it. With ``bounds`` it applies after scaling.
        bounds: (low, high), numbers or one per feature; a list of pairs, one per feature; or a
            mapping by column name. Entries are clipped to them. One of the two must be declared.
        classes: the label set; None takes that of the data as public, and the claim says so.
        fit_intercept: whether to fit one.
        max_iter: steps; None leaves it to the rule.
        batch_size: the expected size of a batch, for "sgd"; None leaves it to the rule.
        radius: of the l1 ball of "frank-wolfe", for rows as given; None for 30 over a typical
            row's largest entry, which is measured privately.
        calibrated: whether a small part of the budget makes probabilities honest
            (:mod:`dpassay.learn.calibration`), for "gd" and "sgd"; the scores of
            :meth:`decision_function` are then no linear function of the row.
        class_weight: public weights by label, e.g. ``{"yes": 10.0}``, for them and "whitened"; 1
            for labels that are not named. "balanced" is refused: it is computed from the data.
        weight_bound: the public bound on the ``sample_weight`` of a record, which the sensitivity
            is scaled by (:mod:`dpassay.learn.weights`).
        penalty: beside the sum of losses, penalty ||W||²/2, for "output" and "objective" (which
            raises it to what its proof needs); None leaves it to the rule.
        neighbouring: "add-remove" or "replace-one".
        n_records: the public number of records; None takes that of the data, and the claim says so.
        ledger: where every fit is recorded.
        random_state: None for secure noise; a seed for noise that can be replayed (not private).

    Attributes:
        coef_, intercept_: of shapes (1, p) and (1,) for two classes, (K, p) and (K,) for more.
        classes_: the label set, sorted.
        calibration_: what makes calibrated scores of ``X @ coef_.T + intercept_``; None for none.
        solver_, n_iter_, noise_multiplier_: what the rule chose; the last is the noise of one step
            over its sensitivity.
        event_, privacy_, noise_, assumptions_: see :class:`~dpassay.learn.base.PrivateMixin`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 3))
    >>> y = np.where(X @ [2.0, -1.0, 0.5] > 0, "yes", "no")
    >>> model = PrivateLogisticRegression(1.0, 1e-6, bounds=(-1, 1), random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.97, round(model.privacy_.epsilon(1e-6), 6)
    (True, 1.0)

    """

    _: KW_ONLY
    solver: Solver = "auto"
    classes: ArrayLike | None = None
    max_iter: int | None = None
    batch_size: int | None = None
    radius: float | None = None
    penalty: float | None = None
    calibrated: bool = True
    class_weight: ClassWeight | None = None
    weight_bound: float | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "PrivateLogisticRegression":
        """Fit, and record what it cost.

        ``sample_weight`` has one number per record, in [0, ``weight_bound``].

        Raises:
            InvalidArgument: a bound is missing or wrong; the message says what would leak.
            BudgetExceeded: the ledger refused; nothing was computed.

        """
        X, y = check_data(self, X, y, accept_sparse="csr", dtype=_DTYPES)
        check_classification_targets(y)
        budget = self._budget()
        _check.choice("solver", self.solver, SOLVERS)
        self.classes_, codes, assumptions = label_set(y, self.classes)
        by_class = class_weights(self.class_weight, self.classes_)
        weights = bound_weights(
            sample_weight, self.weight_bound, len(codes), by_class=by_class, codes=codes
        )
        if not budget.is_private:
            return self._fit_plain(X, codes, budget, weights)
        features = self._bound_features(X, self._norm())
        facts = self._facts(features, budget)
        allowed = self._keep_risk(budget, lambda b: self._make_plan(replace(facts, budget=b)))
        plan = self._make_plan(replace(facts, budget=allowed))
        refuse_weights(weights, self.solver_)
        solution = self._carry_out(plan, features, codes, facts.n_records, assumptions, weights)
        self.n_iter_, self.noise_multiplier_ = plan.steps, plan.noise_multiplier
        self._set(features, solution.coef, solution.intercept)
        if solution.calibration is not None:
            self.calibration_ = solution.calibration.rescale(features.scale, features.centre)
        return self

    def _make_plan(self, facts: LogisticFacts) -> LogisticPlan:
        """The fit, decided from public quantities before any data are touched."""
        self.solver_ = choose_solver(facts) if self.solver == "auto" else self.solver
        return plan_for(self.solver_, facts)

    def _norm(self) -> Any:
        return "inf" if self.solver == "frank-wolfe" else "l2"

    def _facts(self, features: Features, budget: Budget) -> LogisticFacts:
        return LogisticFacts(
            n_records=self._public_records(features.source),
            n_features=features.shape[1],
            n_classes=len(self.classes_),
            row_bound=features.norm,
            budget=budget,
            fit_intercept=bool(self.fit_intercept),
            max_iter=None if self.max_iter is None else _check.count("max_iter", self.max_iter),
            batch_size=None
            if self.batch_size is None
            else _check.count("batch_size", self.batch_size),
            radius=self._positive("radius"),
            penalty=self._positive("penalty"),
            calibrated=bool(self.calibrated),
            dense=not is_sparse(features.source),
        )

    def _set(self, features: Features, coef: FloatArray, intercept: FloatArray) -> None:
        coef, intercept = np.asarray(coef, float), np.asarray(intercept, float)
        self.coef_, self.intercept_ = features.restore(coef, intercept)
        self.calibration_: Calibration | None = None

    def _fit_plain(
        self, X: Any, codes: Any, budget: Budget, weights: FloatArray | None
    ) -> "PrivateLogisticRegression":
        """Fit scikit-learn's model without privacy, inside the bounds that were declared."""
        from sklearn.linear_model import LogisticRegression

        absent = np.setdiff1d(np.arange(len(self.classes_)), codes)
        if absent.size:
            raise InvalidArgument(
                f"classes={list(self.classes_)!r}: no record has the label "
                f"{self.classes_[absent[0]]!r}, and without privacy nothing is learned about it."
            )
        self.solver_, self.noise_multiplier_ = "lbfgs", 0.0
        self._spend_nothing_private(budget, self._public_records(X))
        features = self._features_without_privacy(X, self._norm())
        plain = LogisticRegression(
            C=np.inf, fit_intercept=bool(self.fit_intercept), max_iter=self.max_iter or 1000
        ).fit(features.values, codes, weights)
        self.n_iter_ = int(np.max(plain.n_iter_))
        self._set(features, plain.coef_, plain.intercept_)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Scores, whose sigmoid or softmax is the probability: (n,) for two classes, else (n, K).

        ``X @ coef_.T + intercept_``, calibrated unless ``calibrated=False``. Those of a row are a
        function of the row, bit for bit: a search that counts right answers must not see others
        change with a record (:func:`~dpassay.optim.products.row_products`).
        """
        check_is_fitted(self)
        X = check_data(self, X, accept_sparse="csr", dtype=_DTYPES, reset=False)
        X = X if is_sparse(X) else np.ascontiguousarray(X)
        scores = row_products(X, self.coef_.T) + self.intercept_
        if self.calibration_ is not None:
            scores = self.calibration_(X, scores)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """The likeliest label of every row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of every label, (n, K)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return special.expit(np.column_stack([-scores, scores]))
        return special.softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """The logarithms of :meth:`predict_proba`, without underflow."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return special.log_expit(np.column_stack([-scores, scores]))
        return special.log_softmax(scores, axis=1)
