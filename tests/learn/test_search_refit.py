"""A search that spends a little, and a last fit on all records with the rest; texts too."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline

import dpassay as da
from dpassay.learn import (
    PrivateLogisticRegression,
    PrivatePreprocessor,
    PrivateRidge,
    PrivateSearchCV,
)
from dpassay.learn.base import Budget
from dpassay.learn.search_price import plan_search, run_epsilon
from dpassay.privacy import Gaussian, Selected, Sequence

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (3000, 4))
Y = X @ [1.0, -1.0, 0.5, 0.0] + 0.2 * RNG.normal(size=3000)
RIDGE = PrivateRidge(bounds=(-1, 1), target_bound=3.0)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("law", ["poisson", "negative-binomial"])
def test_search_and_last_fit_together_meet_the_target(relation, law):
    budget = Budget(1.0, 1e-6, relation)
    plan = plan_search(budget, 5.0, law, 1.0, 0.2)
    assert 0.999 < da.account(plan.event).epsilon(1e-6) <= 1.0
    runs, last = plan.event.events
    assert runs == Selected(Gaussian(plan.run_noise, relation), 5.0, law, 1.0)
    assert last == Gaussian(plan.fit_noise, relation)
    assert da.account(runs).epsilon(1e-6) <= 0.2
    assert run_epsilon(1e-6, plan.fit_noise) > 0.75
    assert plan_search(budget, 5.0, law, 1.0).fit_noise is None


def test_the_last_fit_sees_all_records_and_costs_what_was_left(monkeypatch, tmp_path):
    spent = []
    told = PrivateRidge._spending

    def spy(self, event, n_records, assumptions=()):
        spent.append((event, n_records))
        return told(self, event, n_records, assumptions)

    monkeypatch.setattr(PrivateRidge, "_spending", spy)
    ledger = da.Ledger(tmp_path / "spent.db", budget=da.ApproxDP(1.0, 1e-6))
    search = PrivateSearchCV(
        RIDGE, {"alpha": [1.0, 5.0]}, epsilon=1.0, delta=1e-6, ledger=ledger, random_state=0
    ).fit(X, Y)
    assert isinstance(search.event_, Sequence)
    event, n_records = spent[-1]
    assert n_records == 3000
    assert {n for _, n in spent[:-1]} == {2250, 3000}  # runs, and fits to made-up records
    rest = search.event_.events[-1]
    assert da.account(event).epsilon(1e-6) <= da.account(rest).epsilon(1e-6) * (1 + 1e-9)
    assert da.account(event).epsilon(1e-6) > 0.9 * da.account(rest).epsilon(1e-6)
    assert search.best_estimator_.event_ == search.event_
    assert [entry.event for entry in ledger.entries()] == [search.event_]


def test_where_there_is_nothing_to_find_little_is_lost():
    """Beside an unsearched fit, and the best run as it is, on the same table."""
    found = {1.0: [], 0.2: []}
    for share, scores in found.items():
        for seed in range(4):
            search = PrivateSearchCV(
                RIDGE, {"fit_intercept": [True]}, epsilon=0.3,
                delta=1e-6, n_runs=4.0, search_share=share, law="negative-binomial",
                random_state=seed,
            )  # fmt: skip
            scores.append(search.fit(X, Y).score(X, Y))
    plain = [
        PrivateRidge(0.3, 1e-6, bounds=(-1, 1), target_bound=3.0, random_state=s)
        .fit(X, Y)
        .score(X, Y)
        for s in range(4)
    ]
    assert np.mean(found[0.2]) > np.mean(found[1.0])
    assert np.mean(found[0.2]) > np.mean(plain) - 0.03


def test_a_pipeline_with_texts_is_searched():
    texts = np.where(Y > 0, "good fine sun", "bad dark rain").astype(object)
    model = PrivateLogisticRegression(data_norm=1.0, classes=[False, True])
    words = make_pipeline(HashingVectorizer(n_features=16), model)
    grid = {"privatelogisticregression__max_iter": [20, 40]}
    options = {"epsilon": 3.0, "delta": 1e-6, "n_runs": 3.0, "law": "negative-binomial"}
    search = PrivateSearchCV(words, grid, random_state=0, **options).fit(list(texts), Y > 0)
    assert search.score(list(texts), Y > 0) > 0.9
    assert search.privacy_.epsilon(1e-6) <= 3.0


def test_a_pipeline_with_a_frame_is_searched():
    frame = pd.DataFrame({"size": X[:, 0] * 50, "kind": np.where(X[:, 1] > 0, "a", "b")})
    ready = PrivatePreprocessor({"size": (-50, 50)}, {"kind": ["a", "b"]})
    model = PrivateRidge(data_norm=math.sqrt(2), target_bound=3.0)
    grid = {"privateridge__alpha": [0.1, 10.0]}
    search = PrivateSearchCV(make_pipeline(ready, model), grid, epsilon=3.0, random_state=0)
    assert search.fit(frame, Y).score(frame, Y) > 0.6
    assert list(search.feature_names_in_) == ["size", "kind"]


def test_the_noise_of_a_score_is_known_from_public_numbers():
    X, y = np.linspace(-1, 1, 200)[:, None], np.linspace(-1, 1, 200)
    ridge = PrivateRidge(data_norm=1.0, target_bound=1.0)
    options = {"epsilon": 1.0, "delta": 1e-5, "n_runs": 6, "random_state": 0}
    found = [
        PrivateSearchCV(ridge, {"residual_bound": [0.5, 1.0]}, **options).fit(X[:n], y[:n])
        for n in (100, 200)
    ]
    assert found[0].score_deviation_ == pytest.approx(2 * found[1].score_deviation_)
    assert found[1].score_deviation_ == pytest.approx(28.535 / (0.25 * 200), rel=1e-3)
