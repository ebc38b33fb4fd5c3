"""Attempts to make one record count for more than is charged for it, or for a fit to say less."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from dpassay.errors import InvalidArgument
from dpassay.learn import (
    PrivateLasso,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateSearchCV,
    logistic_plans,
    search_price,
)
from dpassay.learn.declared import bound_features, row_norms
from dpassay.optim.gradient import noisy_gradient_descent
from dpassay_reproduce.printed.ridge import PrintedRidge


def in_parts(k):
    """A row (k, 0), as k entries of 1 in the same place."""
    return sparse.csr_matrix((np.ones(k), np.zeros(k, int), np.array([0, k])), (1, 2))


@pytest.mark.parametrize("kind", ["l2", "inf"])
@pytest.mark.parametrize("declared", [(1.0, None), (None, (-1, 1))])
def test_an_entry_in_parts_is_clipped_as_a_whole(kind, declared):
    given = in_parts(100)
    features = bound_features(given, *declared, kind)
    assert abs(features.values.toarray()).max() <= 1
    assert given.nnz == 100, "the caller's matrix stays as it is"


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("norm", [1.0, 0.7, 1e-3])
def test_rounding_keeps_clipped_rows_inside(form, norm):
    rng = np.random.default_rng(0)
    X = (10 ** rng.uniform(-4, 2, (20, 3000))).astype(np.float32)
    for kind, order in (("l2", 2), ("inf", np.inf)):
        values = bound_features(form(X), norm, None, kind).values
        values = values.toarray() if sparse.issparse(values) else values
        assert values.dtype == np.float32
        sizes = np.linalg.norm(values.astype(float), ord=order, axis=1)
        assert sizes.max() <= norm
        assert sizes.min() > norm * (1 - 2e-6)
    np.testing.assert_allclose(row_norms(X), np.linalg.norm(X.astype(float), axis=1), rtol=1e-14)


# Searches.


def search(estimator, **parameters):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, (300, 2))
    settings = {"epsilon": 1.0, "n_runs": 5.0, "random_state": 0, "search_share": 1.0} | parameters
    return PrivateSearchCV(estimator, {"fit_intercept": [True]}, **settings).fit(X, X[:, 0])


def test_the_best_of_a_search_states_what_the_search_cost():
    found = search(PrivateRidge(data_norm=1.0, target_bound=1.0))
    assert found.best_estimator_.privacy_.epsilon(1e-5) == found.privacy_.epsilon(1e-5)
    assert found.best_estimator_.assumptions_ == found.assumptions_


def test_a_search_does_not_turn_an_estimate_into_a_bound():
    with pytest.raises(InvalidArgument, match="estimate"):
        search(PrintedRidge(data_norm=1.0, target_bound=1.0))


def test_a_search_of_poisson_length_asks_for_delta_too():
    """Twenty selections have smaller Rényi divergences than the Gaussian, but not deltas."""
    lasso = PrivateLasso(data_norm=1.0, target_bound=1.0, steps=20)
    epsilons = {}
    for law in ("poisson", "negative-binomial"):
        found = search(lasso, law=law)
        assert 0.999 < found.privacy_.epsilon(1e-5) <= 1.0
        run = found.event_.event
        most = search_price.run_epsilon(1e-5, run.noise_multiplier)
        epsilons[law] = found.best_estimator_.epsilon / most
        # What was spent is within what a run may; at the full epsilon it would not have been.
        alone = clone(found.best_estimator_)
        X, y = np.eye(2), np.zeros(2)
        assert search_price.is_within(alone.fit(X, y).event_, run.noise_multiplier, law)
        alone.set_params(epsilon=most).fit(X, y)
        within = search_price.is_within(alone.event_, run.noise_multiplier, law)
        assert within is (law == "negative-binomial")
    assert epsilons["negative-binomial"] == 1
    assert 0.85 < epsilons["poisson"] < 1


# What is stated, what is asked for and what is done.


def labelled(n):
    X = np.random.default_rng(0).uniform(-0.7, 0.7, (n, 2))
    return X, (X[:, 0] > 0).astype(int)


def descent(**parameters):
    settings = {"data_norm": 1.0, "solver": "sgd", "neighbouring": "replace-one"} | parameters
    return PrivateLogisticRegression(random_state=0, **settings)


@pytest.mark.parametrize("batch_size", [3, 7])
def test_the_batches_of_a_fit_are_no_larger_a_share_than_it_states(batch_size, monkeypatch):
    """With more records declared than there are, the share rounded to whole ones was larger."""
    done = []

    def spy(*args, **options):
        release = noisy_gradient_descent(*args, **options)
        done.append(release.event)
        return release

    monkeypatch.setattr(logistic_plans, "noisy_gradient_descent", spy)
    model = descent(n_records=1000, batch_size=batch_size, max_iter=5).fit(*labelled(501))
    stated = model.event_.events[3].event  # after the three that condition the rows
    assert done[0].event.sampling_rate <= stated.sampling_rate
    assert done[0].event.event == stated.event


@pytest.mark.parametrize("alpha", [1e3, 1e5, 1e8])
def test_a_large_penalty_shrinks_and_does_not_diverge(alpha):
    """It did, up to overflow, where a record's NaN would have been the sum's."""
    X, _ = labelled(50)
    model = PrivateRidge(
        solver="gd", alpha=alpha, data_norm=1.0, target_bound=1.0, random_state=0
    ).fit(X, X[:, 0])
    assert np.abs(model.coef_).max() < 1


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_answer_does_not_depend_on_the_other_records(n_classes, order):
    """Rows on the boundary, where the last bit decides: a product of all rows flips up to three."""
    rng = np.random.default_rng(0)
    model = PrivateLogisticRegression(classes=range(n_classes), bounds=(-1, 1), random_state=0)
    model.fit(rng.uniform(-1, 1, (50, 8)), np.arange(50) % n_classes)
    flipped = 0
    for _ in range(40):
        w = model.coef_ = rng.standard_normal((1 if n_classes == 2 else n_classes, 8))
        model.intercept_ = np.zeros(len(w))
        normal = w[0] if n_classes == 2 else w[0] - w[1]
        x = np.append(rng.standard_normal(7), 0.0)
        x[-1] = -(x @ normal) / normal[-1]
        X = np.array(np.tile(x, (7, 1)), order=order)
        alone = model.predict(X[:1])[0]
        flipped += sum((X[:n] @ w.T)[-1].argmax() != (X[:1] @ w.T)[0].argmax() for n in range(2, 8))
        flipped += sum(((X[:n] @ w.T)[-1, 0] > 0) != ((X[:1] @ w.T)[0, 0] > 0) for n in range(2, 8))
        assert all((model.predict(X[:n]) == alone).all() for n in range(2, 8))
    assert flipped > 0
