"""Private choice of hyper-parameters, by a random number of runs.

Trying many settings and keeping the best gives the data away as surely as training on them: the
choice depends on every record. ``PrivateSearchCV`` pays for it once (Papernot and Steinke 2022):
it draws the number K of runs from a Poisson or negative binomial law; each run draws a setting from
the grid, fits it on the training part and scores it, with noise, on the validation part; the run of
the highest noisy score is released and all else forgotten.

**What a run costs.** Before the first run every record goes to the validation part by a coin of its
own, or else to the training part. Fix the coins. A record of the training part touches the fits
alone: a score is computed from a model and other records. A record of the validation part touches
the scores alone. So a run costs the *larger* of its fit and its score, not their sum; both are made
to cost ``Gaussian(s)`` at the most, in what the theorem of the law asks for: Rényi divergence at
every order, and for the Poisson law also delta at log(1 + 1/(order - 1)). (Which setting was drawn,
and which coins were thrown, does not depend on the record: the output is a mixture with the same
weights on both data sets, and the divergence of mixtures is at most that of their worst parts.
Under replace-one, the new record takes the coin of the old.) The runs are independent, so that the
whole is :class:`~dpassay.privacy.Selected`, ``Selected(Gaussian(s), n_runs, law)``, and s is the
least noise for which this meets (epsilon, delta).

**What a score costs.** Every record's score is clipped to [0, 1]; their sum is divided by the
public expected size of the validation part, so that one record moves it by 1/(share · n).

How long ``fit`` took says something about K, which must stay unknown: do not publish it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpassay import _check
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.learn.base import Budget, PrivateMixin, bounded_targets, label_set
from dpassay.learn.ledger import Ledger
from dpassay.mechanisms import gaussian, secure_generator
from dpassay.mechanisms.noise import Rng
from dpassay.privacy import GDP, Event, Gaussian, Selected, account, calibrate
from dpassay.privacy.selection import LAWS, gamma_of
from dpassay.types import FloatArray, NoiseLevel

Scoring = Callable[[Any, Any, Any], FloatArray]
_PAID_BY_THE_SEARCH = ("epsilon", "delta", "neighbouring", "n_records", "ledger", "random_state")


def _has(method: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(getattr(self, "best_estimator_", self.estimator), method)


class PrivateSearchCV(PrivateMixin, MetaEstimatorMixin, BaseEstimator):
    """The best of a random number of fits with settings from a grid; (epsilon, delta)-DP in all.

    Args:
        estimator: a private estimator of :mod:`dpassay.learn`. Its ``epsilon`` and ``delta`` are
            set by the search; its ``neighbouring`` is that of the search.
        param_grid: settings to draw from, as for GridSearchCV: lists by parameter, or several such.
        epsilon: the privacy parameter of the whole search; inf searches without privacy.
        delta: the probability that may escape epsilon.
        n_runs: the expected number of runs, above 1. Ten cost half the budget of each fit.
        law: of their number: "poisson" (no run at all with probability exp(-n_runs), which is an
            error) or "negative-binomial" (at least one; its number varies more).
        shape: of the negative binomial law; 1 is geometric, 0 logarithmic (cheaper, more uneven).
        validation_share: the probability with which a record goes to the validation part.
        scoring: ``scoring(model, X, y)`` returns a number in [0, 1] per record (others are
            clipped), each of which may depend on the model and that record alone; more is better.
            None takes accuracy, or 1 less the squared error over the squared range of the target.
        n_records: the public number of records; None takes that of the data.
        ledger: where the search is recorded, as one event.
        random_state: None for secure noise; a seed for a search that can be replayed (not private).

    Attributes:
        best_estimator_: fitted on the training part.
        best_params_: its setting.
        best_score_: its noisy score.
        event_, privacy_, noise_, assumptions_: see :class:`~dpassay.learn.base.PrivateMixin`.

    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        n_runs: float = 10.0,
        law: str = "poisson",
        shape: float = 1.0,
        validation_share: float = 0.25,
        scoring: Scoring | None = None,
        n_records: int | None = None,
        ledger: Ledger | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.n_runs = n_runs
        self.law = law
        self.shape = shape
        self.validation_share = validation_share
        self.scoring = scoring
        self.n_records = n_records
        self.ledger = ledger
        self.random_state = random_state

    def _budget(self) -> Budget:
        epsilon = _check.epsilon(self.epsilon, positive=True)
        relation = _check.neighbouring(self.estimator.neighbouring)
        return Budget(epsilon, _check.delta(self.delta), relation)  # type: ignore[arg-type]

    def fit(self, X: Any, y: Any) -> "PrivateSearchCV":
        """Search, and record what it cost.

        Raises:
            InvalidArgument: the estimator is not private, or pays by itself; a setting of the grid
                would spend more than a run may.
            BudgetExceeded: the ledger refused; nothing was computed.
            DpassayError: no run was drawn (Poisson law only), whatever the data.

        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, **self._kind_of_y())
        candidates = self._candidates()
        budget = self._budget()
        share = self._share()
        n_records = self._public_records(X)
        prepared, assumptions = self._prepared(y, max(1, round((1 - share) * n_records)))
        event, noise = _planned(budget, self.n_runs, self.law, self.shape)
        rng = self._rng()
        draws: Any = secure_generator() if rng is None else rng
        self._spend(event, n_records, assumptions)
        validation = draws.random(X.shape[0]) < share
        run = _Run(
            prepared=prepared.set_params(**_inner_budget(budget, noise)),
            training=(X[~validation], y[~validation]),
            validation=(X[validation], y[validation]),
            scoring=self.scoring or _default_scoring(self.estimator),
            expected_size=share * n_records,
            noise=noise,
            law=self.law,
            rng=rng,
        )
        self._keep_best(
            run, candidates, _number_of_runs(self.n_runs, self.law, self.shape, draws), draws
        )
        return self

    def _keep_best(self, run: "_Run", candidates: list[Any], n: int, draws: Any) -> None:
        best_score = -math.inf
        for _ in range(n):
            params = candidates[draws.integers(len(candidates))]
            model, score, level = run(params)
            if score > best_score:
                best_score = score
                self.best_estimator_, self.best_params_, self.best_score_ = model, params, score
                self.noise_: NoiseLevel = level
        if best_score == -math.inf:
            raise DpassayError(
                f"n_runs={self.n_runs:g}: no run was drawn, as happens with probability "
                f"{math.exp(-self.n_runs):.1g} whatever the data. Fit again (the ledger counts "
                "this one), with more runs or law='negative-binomial'."
            )
        # What the best one cost is what the search did; its own fit is only a part of that.
        self.best_estimator_.event_ = self.event_
        self.best_estimator_.assumptions_ = self.assumptions_

    # Arguments.

    def _kind_of_y(self) -> dict[str, bool]:
        return {} if is_classifier(self.estimator) else {"y_numeric": True}

    def _share(self) -> float:
        remedy = "It is the probability with which a record goes to the validation part."
        return _check.number(
            "validation_share", self.validation_share, low=0, high=1, low_open=True,
            high_open=True, remedy=remedy,
        )  # fmt: skip

    def _candidates(self) -> list[dict[str, Any]]:
        if not isinstance(self.estimator, PrivateMixin) or isinstance(self.estimator, type(self)):
            raise InvalidArgument(
                f"estimator={self.estimator!r} must be a private estimator of dpassay.learn; the "
                "search cannot pay for others."
            )
        if self.estimator.ledger is not None:
            raise InvalidArgument(
                "the estimator has a ledger of its own, which would count every run of a search "
                "that is paid for as a whole. Pass ledger= to the search instead."
            )
        candidates = list(ParameterGrid(self.param_grid))  # type: ignore[arg-type]
        wrong = sorted({name for c in candidates for name in c if name in _PAID_BY_THE_SEARCH})
        if wrong:
            raise InvalidArgument(f"param_grid must not vary {wrong[0]!r}; the search sets it.")
        return candidates

    def _prepared(self, y: Any, n_training: int) -> tuple[Any, tuple[str, ...]]:
        """A clone that knows what is public, and what that assumes."""
        prepared: Any = clone(self.estimator)
        prepared.set_params(n_records=n_training)
        if not is_classifier(prepared):
            return prepared, ()
        check_classification_targets(y)
        labels, _, assumptions = label_set(y, prepared.classes)
        return prepared.set_params(classes=labels), assumptions

    # What the best model does.

    def _best(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return getattr(self.best_estimator_, method)(X)

    def predict(self, X: Any) -> Any:
        """What the best model predicts."""
        return self._best("predict", X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """The probabilities of the best model."""
        return self._best("predict_proba", X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """The scores of the best model."""
        return self._best("decision_function", X)

    def score(self, X: Any, y: Any) -> float:
        """The accuracy or R² of the best model on these data; not private."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self.best_estimator_.score(X, y)

    @property
    def classes_(self) -> Any:
        """The label set, of a classifier."""
        return self.best_estimator_.classes_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags = inner.target_tags
        return tags


# The price.


@lru_cache(maxsize=256)
def _planned(budget: Budget, n_runs: float, law: str, shape: float) -> tuple[Event, float]:
    """The event of the search, and the noise over sensitivity in each of its runs (0 for none)."""
    from dpassay.privacy import NonPrivate

    def event(noise: float) -> Event:
        return Selected(Gaussian(noise, budget.neighbouring), n_runs, law, shape)

    event(1.0)  # refuses what is out of range
    if not budget.is_private:
        return NonPrivate(budget.neighbouring), 0.0
    remedy = "Gaussian noise is never pure; take delta below 1/n."
    _check.number("delta", budget.delta, low=0, high=1, low_open=True, remedy=remedy)
    noise = calibrate(event, budget.target, method="rdp")
    return event(noise), noise


@lru_cache(maxsize=256)
def _inner_budget(budget: Budget, noise: float) -> dict[str, float]:
    """The (epsilon, delta) of a fit that costs what one Gaussian release with this noise does."""
    if noise == 0:
        return {"epsilon": math.inf, "delta": budget.delta}
    return {"epsilon": GDP(1 / noise).epsilon(budget.delta), "delta": budget.delta}


@lru_cache(maxsize=256)
def _is_within(event: Event, noise: float, law: str) -> bool:
    """Whether the event costs what a Gaussian release with this noise does, or less, everywhere."""
    gaussian_event = Gaussian(noise, event.neighbouring)
    allowed: Any = account(gaussian_event, "rdp")
    spent: Any = account(event, "rdp")
    within = bool((spent.epsilons <= allowed.epsilons * (1 + 1e-9)).all())
    if law != "poisson" or not within:
        return within
    points = -np.log1p(-1 / allowed.orders)
    return bool((account(event).delta(points) <= account(gaussian_event).delta(points)).all())


def _number_of_runs(mean: float, law: str, shape: float, draws: np.random.Generator) -> int:
    """A draw of K; never to be told."""
    _check.choice("law", law, LAWS)
    if law == "poisson":
        return int(draws.poisson(mean))
    gamma = gamma_of(mean, shape)
    if shape == 0:
        return int(draws.logseries(1 - gamma))
    n = 0
    while n == 0:  # truncated: at least one
        n = int(draws.negative_binomial(shape, gamma))
    return n


# A run.


class _Run:
    """Q: one fit and its noisy score."""

    def __init__(
        self,
        *,
        prepared: Any,
        training: tuple[Any, Any],
        validation: tuple[Any, Any],
        scoring: Scoring,
        expected_size: float,
        noise: float,
        law: str,
        rng: Rng,
    ) -> None:
        self.prepared, self.training, self.validation = prepared, training, validation
        self.scoring, self.expected_size = scoring, expected_size
        self.noise, self.law, self.rng = noise, law, rng

    def __call__(self, params: Mapping[str, Any]) -> tuple[Any, float, NoiseLevel]:
        # The generator is shared, not copied: every run must have noise of its own.
        model: Any = clone(self.prepared)
        model.set_params(**params, random_state=self.rng).fit(*self.training)
        mean = self._mean_score(model)
        if self.noise == 0:
            return model, mean, model.noise_
        self._refuse_what_is_not_paid_for(model, params)
        release = gaussian(
            mean, sensitivity=1 / self.expected_size, mu=1 / self.noise, rng=self.rng
        )
        return model, float(release.value), model.noise_

    def _refuse_what_is_not_paid_for(self, model: Any, params: Mapping[str, Any]) -> None:
        if model.privacy_.kind == "estimate":
            raise InvalidArgument(
                f"param_grid: a fit with {params!r} has an estimate for its privacy, no bound that "
                "a search could add to. Use another solver."
            )
        if not _is_within(model.event_, self.noise, self.law):
            raise InvalidArgument(
                f"param_grid: a fit with {params!r} has the event {model.event_!r}, which is "
                "dearer than a Gaussian release at some Rényi order (or delta, for "
                "law='poisson'), though not at the (epsilon, delta) it was given. Use a solver "
                "with Gaussian noise on full batches, or zCDP with law='negative-binomial'."
            )

    def _mean_score(self, model: Any) -> float:
        X, y = self.validation
        if X.shape[0] == 0:
            return 0.0
        scores = np.asarray(self.scoring(model, X, y), float)
        if scores.shape != (X.shape[0],):
            raise InvalidArgument(
                f"scoring returned shape {scores.shape} for {X.shape[0]} records; it must return "
                "one number per record."
            )
        # A NaN is the worst score, for the sum must stay bounded.
        return float(np.clip(np.nan_to_num(scores, nan=0.0), 0, 1).sum() / self.expected_size)


def _default_scoring(estimator: Any) -> Scoring:
    if is_classifier(estimator):
        return lambda model, X, y: np.asarray(model.predict(X) == y, float)

    def closeness(model: Any, X: Any, y: Any) -> FloatArray:
        targets = bounded_targets(y, model.target_bound)
        predicted = bounded_targets(model.predict(X), model.target_bound)
        return 1 - ((predicted.values - targets.values) / (2 * targets.bound)) ** 2

    return closeness
