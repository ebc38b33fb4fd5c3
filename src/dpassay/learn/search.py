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
every order, and for the Poisson law also delta at log(1 + 1/(order - 1)). That is settled for every
setting before any data are touched (``search_price``). (Which setting was drawn,
and which coins were thrown, does not depend on the record: the output is a mixture with the same
weights on both data sets, and the divergence of mixtures is at most that of their worst parts.
Under replace-one, the new record takes the coin of the old.) The runs are independent, so that the
whole is :class:`~dpassay.privacy.Selected`, ``Selected(Gaussian(s), n_runs, law)``, and s is the
least noise for which this meets (epsilon, delta).

**What a score costs.** Every record's score is clipped to [0, 1]; their sum is divided by the
public expected size of the validation part, so that one record moves it by 1/(share · n).

**What is kept for the end.** The runs spend ``search_share`` of epsilon, on fits that are only good
enough to be compared; the setting of the best run is then fitted to *all* records with what is
left. That is one more release after the search: the events compose. Where there is nothing to find,
the result is that of a fit without a search at about four fifths of epsilon. With
``search_share=1`` the best run itself is the result.

How long ``fit`` took says something about K, which must stay unknown: do not publish it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dpassay import _check
from dpassay._records import take
from dpassay._rng import RngLike
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.learn.base import Budget, PrivateMixin, RandomState, check_data
from dpassay.learn.declared import label_set
from dpassay.learn.scorings import Scoring, private_part, scoring_of
from dpassay.learn.search_data import Blank, blank_like, read_as_it_is
from dpassay.learn.search_price import (
    affordable_epsilon,
    candidate,
    is_within,
    plan_search,
    run_epsilon,
    too_dear,
)
from dpassay.mechanisms import gaussian, secure_generator
from dpassay.privacy.budget import DEFAULT_EPSILON, budget
from dpassay.privacy.ledger import Ledger
from dpassay.privacy.risk import Risk
from dpassay.privacy.selection import LAWS, gamma_of
from dpassay.types import FloatArray, NoiseLevel

_PAID_BY_THE_SEARCH = (
    "epsilon",
    "delta",
    "rho",
    "risk",
    "neighbouring",
    "n_records",
    "ledger",
    "random_state",
)


def _has(method: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(getattr(self, "best_estimator_", self.estimator), method)


@dataclass(eq=False, repr=False)
class PrivateSearchCV(PrivateMixin, MetaEstimatorMixin, BaseEstimator):
    """The best of a random number of fits with settings from a grid; (epsilon, delta)-DP in all.

    Args:
        estimator: a private estimator of :mod:`dpassay.learn`, or a pipeline that ends in one and
            whose other steps learn nothing and look at one record at a time; a pipeline gets X
            as it is, frames and texts too. Its ``epsilon`` and
            ``delta`` are set by the search; its ``neighbouring`` is that of the search.
        param_grid: settings to draw from, as for GridSearchCV: lists by parameter, or several such.
        epsilon: the privacy parameter of the whole search; inf searches without privacy.
        delta: the probability that may escape epsilon.
        risk: what an attacker may gain at most from the whole search, in place of epsilon; as in
            :class:`PrivateRidge`.
        search_share: the share of epsilon that the runs spend; the rest is for the last fit, on
            all records. 1 releases the best run itself.
        n_runs: the expected number of runs, above 1.
        law: of their number: "poisson" (no run at all with probability exp(-n_runs), which is an
            error) or "negative-binomial" (at least one; its number varies more).
        shape: of the negative binomial law; 1 is geometric, 0 logarithmic (cheaper, more uneven).
        validation_share: the probability with which a record goes to the validation part.
        scoring: ``scoring(model, X, y)`` returns a number in [0, 1] per record (others are
            clipped), each of which may depend on the model and that record alone; more is better.
            Or a name: "accuracy" (None) and "neg_brier_score" of classifiers,
            "neg_mean_squared_error" (None) and "neg_mean_absolute_error" of regressors, as in
            scikit-learn but scaled to [0, 1], for targets clipped to their declared bound.
        n_records: the public number of records; None takes that of the data.
        ledger: where the search is recorded, as one event.
        random_state: None for secure noise; a seed for a search that can be replayed (not private).

    Attributes:
        best_estimator_: fitted to all records (to the training part with ``search_share=1``).
        best_params_: its setting.
        best_score_: its noisy score.
        score_deviation_: of the noise in a score: known before the search, from public numbers.
            Settings whose scores differ by less are chosen among as by dice.
        event_, privacy_, noise_, assumptions_: see :class:`~dpassay.learn.base.PrivateMixin`.

    """

    estimator: Any
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    _: KW_ONLY
    epsilon: float = DEFAULT_EPSILON
    delta: float = 1e-5
    risk: Risk | None = None
    search_share: float = 0.2
    n_runs: float = 10.0
    law: Literal["poisson", "negative-binomial"] = "poisson"
    shape: float = 1.0
    validation_share: float = 0.25
    scoring: Scoring | str | None = None
    n_records: int | None = None
    ledger: Ledger | None = None
    random_state: RandomState = None

    def _budget(self) -> Budget:
        relation = getattr(private_part(self.estimator), "neighbouring", None)
        return budget(self.epsilon, self.delta, relation, self.risk)

    def fit(self, X: Any, y: Any) -> "PrivateSearchCV":
        """Search, and record what it cost.

        Raises:
            InvalidArgument: the estimator is not private, or pays by itself; a setting of the grid
                would spend more than a run may. No data were touched.
            BudgetExceeded: the ledger refused; nothing was computed.
            DpassayError: no run was drawn (Poisson law only), whatever the data.

        """
        X, y = self._read(X, y, **self._kind_of_y())
        settings = self._settings()
        candidate(self.estimator, {}, {})  # refuses what is not private
        allowed, share = self._budget(), self._share()
        scoring = scoring_of(self.scoring, self.estimator)
        n_records = self._public_records(X)
        search = (self.n_runs, self.law, self.shape, self._search_share())
        allowed = self._keep_risk(allowed, lambda tried: plan_search(tried, *search))
        plan = plan_search(allowed, *search)
        public, assumptions = self._public(y, allowed, max(1, round((1 - share) * n_records)))
        price = partial(_price_settings, self.estimator, settings, blank_like(X))
        candidates = price(public, plan.run_noise, self.law)
        # The last fit composes by Rényi divergences alone, whatever the law.
        last = public | {"n_records": n_records}
        finals = None if plan.fit_noise is None else price(last, plan.fit_noise, "")
        self.score_deviation_ = plan.run_noise / (share * n_records)
        rng = self._rng()
        draws: Any = secure_generator() if rng is None else rng
        with self._spending(plan.event, n_records, assumptions):
            validation = draws.random(X.shape[0]) < share
            run = _Run(
                training=take((X, y), np.flatnonzero(~validation)),
                validation=take((X, y), np.flatnonzero(validation)),
                scoring=scoring,
                expected_size=share * n_records,
                noise=plan.run_noise,
                law=self.law,
                rng=rng,
            )
            n_runs = _number_of_runs(self.n_runs, self.law, self.shape, draws)
            place = self._keep_best(run, candidates, n_runs, draws)
            if finals is not None:
                self._fit_last(finals[place][0], X, y, plan.fit_noise or 0.0, rng)
        self._state_whole()
        return self

    def _keep_best(self, run: "_Run", candidates: list[Any], n: int, draws: Any) -> int:
        """Play the runs, keep the best, and say which setting it has."""
        best_score, place = -math.inf, 0
        for _ in range(n):
            drawn = int(draws.integers(len(candidates)))
            prepared, params = candidates[drawn]
            model, score, level = run(prepared, params)
            if score > best_score:
                best_score, place = score, drawn
                self.best_estimator_, self.best_params_, self.best_score_ = model, params, score
                self.noise_: NoiseLevel = level
        if best_score == -math.inf:
            raise DpassayError(
                f"n_runs={self.n_runs:g}: no run was drawn, as happens with probability "
                f"{math.exp(-self.n_runs):.1g} whatever the data. Fit again (the ledger counts "
                "this one), with more runs or law='negative-binomial'."
            )
        return place

    def _fit_last(self, prepared: Any, X: Any, y: Any, noise: float, rng: RngLike) -> None:
        """Fit the best setting to all records, with what the search left."""
        model: Any = clone(prepared)
        last = private_part(model).set_params(random_state=rng)
        model.fit(X, y)
        if noise and not is_within(last.event_, noise, ""):  # its event depends on the data
            raise too_dear(last.event_, self.best_params_)
        self.best_estimator_, self.noise_ = model, last.noise_

    def _state_whole(self) -> None:
        """What the best one cost is what the search did; its own fit is only a part of that."""
        best = private_part(self.best_estimator_)
        best.event_, best.assumptions_ = self.event_, self.assumptions_
        best.n_records_ = self.n_records_

    # Arguments.

    def _read(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """X as numbers; for a pipeline as it is, which its steps check and read."""
        if isinstance(self.estimator, Pipeline):
            return read_as_it_is(self, X, y, **options)
        return check_data(self, X, y, accept_sparse="csr", dtype=np.float64, **options)

    def _search_share(self) -> float:
        remedy = "It is the share of epsilon that the runs spend."
        return _check.number(
            "search_share", self.search_share, low=0, high=1, low_open=True, remedy=remedy
        )

    def _kind_of_y(self) -> dict[str, bool]:
        return {} if is_classifier(self.estimator) else {"y_numeric": True}

    def _share(self) -> float:
        remedy = "It is the probability with which a record goes to the validation part."
        return _check.number(
            "validation_share", self.validation_share, low=0, high=1, low_open=True,
            high_open=True, remedy=remedy,
        )  # fmt: skip

    def _settings(self) -> list[dict[str, Any]]:
        settings = list(ParameterGrid(self.param_grid))  # type: ignore[arg-type]
        names = {name for setting in settings for name in setting}
        wrong = sorted(name for name in names if name.split("__")[-1] in _PAID_BY_THE_SEARCH)
        if wrong:
            raise InvalidArgument(f"param_grid must not vary {wrong[0]!r}; the search sets it.")
        return settings

    def _public(self, y: Any, budget: Budget, n_training: int) -> tuple[Any, tuple[str, ...]]:
        """What every candidate is told, and what that assumes."""
        public: dict[str, Any] = {
            "delta": budget.delta,
            "neighbouring": budget.neighbouring,
            "n_records": n_training,
        }
        if not is_classifier(self.estimator):
            return public, ()
        check_classification_targets(y)
        labels, _, assumptions = label_set(y, private_part(self.estimator).classes)
        return public | {"classes": labels}, assumptions

    # What the best model does.

    def _best(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        X = self._read(X, reset=False)
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
        X = self._read(X, reset=False)
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


# What is drawn.


def _price_settings(
    estimator: Any,
    settings: list[dict[str, Any]],
    blank: Blank,
    public: Mapping[str, Any],
    noise: float,
    law: str,
) -> list[tuple[Any, dict[str, Any]]]:
    """Every setting's estimator, with the epsilon that it may spend, and the setting."""
    priced, most = [], run_epsilon(public["delta"], noise)
    for params in settings:
        model = candidate(estimator, params, public)
        epsilon = affordable_epsilon(model, blank, most, noise, law, params) if noise else most
        private_part(model).set_params(epsilon=epsilon)
        priced.append((model, params))
    return priced


def _number_of_runs(mean: float, law: str, shape: float, draws: np.random.Generator) -> int:
    """Draw the number of runs, which must stay secret."""
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
    """One run of the search: a fit and its noisy score."""

    def __init__(
        self,
        *,
        training: tuple[Any, Any],
        validation: tuple[Any, Any],
        scoring: Scoring,
        expected_size: float,
        noise: float,
        law: str,
        rng: RngLike,
    ) -> None:
        self.training, self.validation = training, validation
        self.scoring, self.expected_size = scoring, expected_size
        self.noise, self.law, self.rng = noise, law, rng

    def __call__(self, prepared: Any, params: Mapping[str, Any]) -> tuple[Any, float, NoiseLevel]:
        # The generator is shared, not copied: every run must have noise of its own.
        model: Any = clone(prepared)
        last = private_part(model).set_params(random_state=self.rng)
        model.fit(*self.training)
        mean = self._mean_score(model)
        if self.noise == 0:
            return model, mean, last.noise_
        if not is_within(last.event_, self.noise, self.law):  # its event depends on the data
            raise too_dear(last.event_, params)
        release = gaussian(
            mean, sensitivity=1 / self.expected_size, mu=1 / self.noise, rng=self.rng
        )
        return model, float(release.value), last.noise_

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
