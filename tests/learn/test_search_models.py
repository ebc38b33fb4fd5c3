"""Private search over classifiers, lassos and pipelines: what is priced, refused and found."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from dpassay.errors import InvalidArgument
from dpassay.learn import (
    Ledger,
    PrivateLasso,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateSearchCV,
    search_price,
)
from dpassay.learn.logistic_plans import StochasticGradient
from dpassay.learn.scorings import scoring_of
from dpassay.privacy import Selected

LOGISTIC = PrivateLogisticRegression(data_norm=1.5)
RIDGE = PrivateRidge(data_norm=1.5, target_bound=1.5)
LASSO = PrivateLasso(data_norm=1.0, target_bound=1.5, radius=2.0)


def labelled(n=3000, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.digitize(X[:, 0], np.linspace(-1, 1, n_classes + 1)[1:-1])


def search(estimator, grid, **parameters):
    given = {"epsilon": 3.0, "n_runs": 4.0, "law": "negative-binomial", "random_state": 0}
    given["search_share"] = 1.0
    return PrivateSearchCV(estimator, grid, **given | parameters)


# What a run costs is settled before data are touched.

PAID = {
    "gd and output": (LOGISTIC, {"solver": ["gd", "output"]}, "poisson", 1.0),
    "many classes": (LOGISTIC, {"max_iter": [30, 60]}, "poisson", 1.0),
    "frank-wolfe": (LOGISTIC, {"solver": ["frank-wolfe"], "max_iter": [40]}, "poisson", 0.8),
    "ridge": (RIDGE, {"solver": ["gd", "adassp", "output"]}, "poisson", 1.0),
    "lasso": (LASSO, {"selection": ["gumbel"], "steps": [10, 40]}, "poisson", 0.8),
    "laplace": (LASSO, {"selection": ["laplace"], "steps": [10]}, "negative-binomial", 0.7),
}


@pytest.mark.parametrize("name", PAID)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_every_fit_is_within_what_a_run_may_cost_and_near_it(name, relation):
    estimator, grid, law, least = PAID[name]
    X, y = labelled(300, 4 if name == "many classes" else 2)
    spent = []

    class Spy(type(estimator)):
        def _spending(self, event, n_records, assumptions=()):
            spent.append((event, n_records, self.epsilon))
            return super()._spending(event, n_records, assumptions)

    model = Spy(**estimator.get_params()).set_params(neighbouring=relation)
    found = search(model, grid, law=law).fit(X, y)
    assert isinstance(found.event_, Selected)
    assert 0.999 * 3 < found.privacy_.epsilon(1e-5) <= 3
    noise = found.event_.event.noise_multiplier
    most = search_price.run_epsilon(1e-5, noise)
    by_epsilon = {}
    for event, n_records, epsilon in spent:
        by_epsilon.setdefault(epsilon, set()).add(event)
        assert n_records == 225
    # The fits on the data are the last ones, with events that a made-up fit had before.
    event, _, epsilon = spent[-1]
    assert search_price.is_within(event, noise, law)
    assert event in by_epsilon[epsilon]
    assert least * most <= epsilon <= most


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"solver": ["gd", "objective"]}, "Approx.*dearer than a Gaussian"),
        ({"solver": ["sgd"], "max_iter": [2], "batch_size": [20]}, "Sampled.*dearer"),
    ],
)
def test_what_a_run_cannot_pay_for_is_refused_before_data_are_touched(
    grid, message, tmp_path, monkeypatch
):
    # Its calibration takes seconds, and no amount of noise gives it divergences at all orders.
    monkeypatch.setattr(StochasticGradient, "noise_multiplier", 5.0)
    ledger = Ledger(tmp_path / "spent.db")
    with pytest.raises(InvalidArgument, match=message):
        search(LOGISTIC, grid, ledger=ledger).fit(*labelled(100))
    assert ledger.entries() == []


# What is found.


def test_a_classifier_is_chosen_well():
    X, y = labelled(4000)
    model, grid = clone(LOGISTIC).set_params(solver="output"), {"penalty": [1e-3, 1e-2, 30.0]}
    found = search(model, grid, n_runs=30.0, shape=3.0).fit(X, y)
    assert found.best_params_ == {"penalty": 30.0}  # the others are noise
    assert found.score(X, y) > 0.95
    assert found.predict_proba(X).shape == (4000, 2)
    assert found.decision_function(X).shape == (4000,)
    assert list(found.classes_) == [0, 1]


# Scores.


def test_scores_by_name():
    X, y = labelled(200, 3)
    model = PrivateLogisticRegression(math.inf).fit(X, y)
    right = model.predict(X) == y
    assert scoring_of(None, model) is scoring_of("accuracy", model)
    np.testing.assert_array_equal(scoring_of("accuracy", model)(model, X, y), right)
    brier = scoring_of("neg_brier_score", model)(model, X, y)
    truth = np.eye(3)[y]
    np.testing.assert_allclose(brier, 1 - ((model.predict_proba(X) - truth) ** 2).sum(axis=1) / 2)
    assert brier.min() >= 0

    regressor = PrivateRidge(math.inf, target_bound=(0, 4), fit_intercept=False)
    regressor.fit(np.ones((3, 1)), np.full(3, 1.0))
    regressor.coef_ = np.array([3.0])
    at = np.array([[1.0], [1.0], [-1.0]]), np.array([1.0, 9.0, 4.0])  # 3 for 1, 3 for 4, 0 for 4
    for name, expected in {
        "neg_mean_squared_error": [1 - 4 / 16, 1 - 1 / 16, 0],
        "neg_mean_absolute_error": [0.5, 0.75, 0],
    }.items():
        np.testing.assert_allclose(scoring_of(name, regressor)(regressor, *at), expected)
    assert scoring_of(None, regressor) is scoring_of("neg_mean_squared_error", regressor)


@pytest.mark.parametrize(
    ("estimator", "scoring"),
    [(LOGISTIC, "roc_auc"), (LOGISTIC, "neg_mean_squared_error"), (RIDGE, "r2")],
)
def test_scores_that_are_no_mean_over_records_are_refused(estimator, scoring):
    with pytest.raises(InvalidArgument, match=f"scoring='{scoring}' must be one of"):
        search(estimator, {"max_iter": [3]}, scoring=scoring).fit(*labelled(50))


# Pipelines.


def test_a_pipeline_that_learns_nothing_before_its_last_step_can_be_searched():
    X, y = labelled(3000)
    both = FunctionTransformer(lambda X: X[:, :1])
    pipeline = Pipeline([("norm", Normalizer()), ("both", both), ("fit", LOGISTIC)])
    grid = {"fit__max_iter": [40, 80], "both": ["passthrough", both]}
    found = search(pipeline, grid, scoring="neg_brier_score").fit(X, y)
    assert isinstance(found.best_estimator_, Pipeline)
    last = found.best_estimator_.steps[-1][1]
    assert last.event_ == found.event_
    assert last.n_records == 2250
    assert found.score(X, y) > 0.95
    assert found.predict_proba(X).shape == (3000, 2)


@pytest.mark.parametrize(
    ("pipeline", "grid", "message"),
    [
        (make_pipeline(StandardScaler(), RIDGE), {"privateridge__alpha": [1.0]}, "learns from the"),
        (make_pipeline(Normalizer(), RIDGE), {"normalizer": [StandardScaler()]}, "learns from the"),
        (make_pipeline(Normalizer(), Ridge()), {"ridge__alpha": [1.0]}, "private estimator"),
        (make_pipeline(Normalizer(), RIDGE), {"privateridge": [Ridge()]}, "private estimator"),
        (make_pipeline(Normalizer(), RIDGE), {"privateridge__epsilon": [9.0]}, "must not vary"),
    ],
)
def test_a_pipeline_that_leaks_is_refused(pipeline, grid, message):
    with pytest.raises(InvalidArgument, match=message):
        search(pipeline, grid).fit(*labelled(50))


def test_a_step_that_the_grid_brings_in_gets_the_budget_of_a_run():
    X, y = labelled(300)
    pipeline = make_pipeline(Normalizer(), RIDGE)
    dear = PrivateRidge(1e6, 0.5, data_norm=1.5, target_bound=1.5, n_records=7)
    found = search(pipeline, {"privateridge": [dear]}).fit(X, y)
    last = found.best_estimator_.steps[-1][1]
    assert last.epsilon < 3
    assert (last.delta, last.n_records) == (1e-5, 225)


def test_a_failure_on_made_up_records_says_what_they_were():
    def refuse(X):
        raise ValueError("not these")

    pipeline = make_pipeline(FunctionTransformer(refuse), RIDGE)
    with pytest.raises(ValueError, match="not these") as caught:
        search(pipeline, {"privateridge__alpha": [1.0]}).fit(*labelled(50))
    assert "made-up records" in caught.value.__notes__[0]
