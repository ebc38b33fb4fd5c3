"""Frank-Wolfe's unit of length and radius: what they cost, and that they make it learn."""

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

import dpassay as da
from dpassay.learn import PrivateLogisticRegression
from dpassay.learn.base import Budget
from dpassay.learn.logistic_facts import LogisticFacts
from dpassay.learn.logistic_frank_wolfe import _UNITS, FrankWolfe, _in_units, unit_scores
from rates import assert_rate

BUDGET = Budget(1.0, 1e-6, "add-remove")


def test_scores_of_units_move_by_one_at_most():
    rng, changes = np.random.default_rng(0), []
    for _ in range(300):
        n = rng.integers(1, 12)
        norms, other = 2.0 ** rng.uniform(-6, 0, n), 2.0 ** rng.uniform(-6, 0)
        scores = unit_scores(norms, 1.0, 10)
        removed = unit_scores(norms[1:], 1.0, 10)
        replaced = unit_scores(np.append(norms[1:], other), 1.0, 10)
        changes += [np.abs(scores - removed).max(), np.abs(scores - replaced).max()]
    assert max(changes) == pytest.approx(1.0)


def test_the_best_unit_is_the_bin_of_the_quantile():
    norms = np.linspace(0.001, 0.8, 1000)  # its three quarters quantile is .6
    scores = unit_scores(norms, 1.0, 1000)
    found = _UNITS[scores.argmax()]
    assert found / 2**0.25 <= 0.6 <= found
    assert unit_scores(np.zeros(10), 1.0, 10).argmax() == len(_UNITS) - 1
    assert unit_scores(np.full(10, 1 + 1e-16), 1.0, 10).argmax() == 0


def test_the_unit_is_drawn_with_the_noise_of_its_event():
    """One unit against all others, 2 behind it: the odds of the exponential mechanism."""
    plan = FrankWolfe(LogisticFacts(8, 1, 2, 1.0, Budget(6.0, 0.0, "add-remove"), max_iter=1))
    epsilon = plan.event.event.epsilon
    assert plan.event.count == 2
    assert epsilon == pytest.approx(3.0)  # of each of two selections, by basic composition
    X = np.repeat([[1.0], [0.01]], 4, axis=0)
    rng, trials = np.random.default_rng(1), 4000
    first = sum(plan.unit(X, rng) == 1.0 for _ in range(trials))
    weights = np.exp(epsilon * unit_scores(X[:, 0], 1.0, 8) / 2)
    assert_rate(first, trials, weights[0] / weights.sum())
    with pytest.raises(AssertionError):
        louder = np.exp(0.9 * epsilon * unit_scores(X[:, 0], 1.0, 8) / 2)
        assert_rate(first, trials, louder[0] / louder.sum())


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_all_selections_together_meet_the_target(delta, n_classes):
    plan = FrankWolfe(LogisticFacts(5000, 20, n_classes, 1.0, Budget(1.0, delta, "add-remove")))
    spent = da.account(plan.event).epsilon(delta)
    assert 0.99 < spent <= 1.0
    assert plan.event.count == plan.steps + 1


@pytest.mark.parametrize("unit", [1.0, 0.25])
def test_sensitivity_is_that_of_rows_in_units(unit):
    """A score is a sum of -<gradient, vertex>/N: entries within 1, the radius in that unit."""
    plan = FrankWolfe(LogisticFacts(100, 3, 2, 1.0, BUDGET))
    assert plan._selection(unit).sensitivity == pytest.approx(30 / 100)
    given = FrankWolfe(LogisticFacts(100, 3, 2, 1.0, BUDGET, radius=8.0))
    assert given._selection(unit).sensitivity == pytest.approx(8 * unit / 100)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_in_units_are_within_one(dtype):
    X = np.random.default_rng(2).normal(size=(50, 4)).astype(dtype)
    for unit in _UNITS:
        dense, thin = _in_units(X, unit), _in_units(sparse.csr_array(X), unit)
        assert np.abs(dense).max() == 1
        assert dense.dtype == dtype
        np.testing.assert_array_equal(thin.toarray(), dense)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_weights_come_back_in_the_units_of_the_rows(storage):
    """Small entries under a large bound: learned as if the bound had been tight."""
    rng = np.random.default_rng(3)
    X = (rng.random((4000, 30)) < 0.3) / 10
    y = (X[:, 0] > X[:, 1]).astype(int)
    model = PrivateLogisticRegression(
        3.0, 1e-6, solver="frank-wolfe", data_norm=1.0, random_state=0
    ).fit(storage(X), y)
    assert model.score(storage(X), y) > 0.9
    l1 = 0.1 * np.abs(model.coef_).sum() + abs(float(model.intercept_[0]))
    assert l1 <= 30 * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "least"), [(10.0, 0.7), (1.0, 0.15)])
def test_it_learns_digits(epsilon, least):
    # The largest class is a tenth; the means of twenty seeds are .816 and .222.
    X, y = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    test = np.arange(len(X)) % 4 == 0
    scores = [
        PrivateLogisticRegression(epsilon, solver="frank-wolfe", data_norm=1.0, random_state=seed)
        .fit(X[~test], y[~test])
        .score(X[test], y[test])
        for seed in range(10)
    ]
    assert np.mean(scores) > least


def test_a_sparse_table_of_many_classes_takes_no_dense_memory():
    import tracemalloc

    rng = np.random.default_rng(4)
    X = sparse.random_array((4000, 5000), density=0.002, random_state=rng, format="csr")
    y = rng.integers(0, 3, 4000)
    model = PrivateLogisticRegression(
        1.0, 1e-6, solver="frank-wolfe", data_norm=1.0, max_iter=3, random_state=0
    )
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.05 * math.prod(X.shape) * 8
