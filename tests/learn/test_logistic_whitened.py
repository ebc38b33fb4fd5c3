"""Descent on whitened rows: its price, its sensitivities, and the floor that it lifts."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dpassay.learn import PrivateLogisticRegression, logistic_whitened
from dpassay.learn.base import Budget
from dpassay.learn.logistic_facts import LogisticFacts
from dpassay.learn.logistic_plans import choose_solver
from dpassay.learn.logistic_whitened import WhitenedDescent, second_moments
from dpassay.optim.gradient import noisy_gradient_descent
from rates import assert_rate

RELATIONS = ["add-remove", "replace-one"]


def facts(n=1000, p=4, relation="add-remove", epsilon=1.0, **options):
    return LogisticFacts(n, p, 2, 1.0, Budget(epsilon, 1e-6, relation), **options)


def collinear(n, seed=0):
    """Two columns that differ by little, on whose difference the label depends."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.9, 0.9, (n, 4))
    X[:, 1] = X[:, 0] + 0.02 * rng.normal(size=n)
    return X, (120 * (X[:, 1] - X[:, 0]) + X[:, 2] + rng.logistic(size=n) > 0).astype(int)


@pytest.mark.parametrize(("relation", "least"), [("add-remove", 4.0), ("replace-one", 4 * 2**0.5)])
def test_second_moments_move_by_their_sensitivity_at_most(relation, least):
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(300):
        rows = rng.normal(size=(5, 3)) * 10 ** rng.uniform(-1, 3, (5, 1))
        other = rows[1:] if relation == "add-remove" else np.vstack([rng.normal(size=3), rows[1:]])
        if relation == "replace-one":  # the worst pair is orthogonal
            other[0] = 1e3 * np.cross(rows[0], other[0])
        worst = max(worst, np.linalg.norm(second_moments(rows, 2.0) - second_moments(other, 2.0)))
    assert 0.99 * least < worst <= least * (1 + 1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_noise_of_the_second_moments_is_that_of_the_event(relation):
    """As a vector of the matrix' norm: diagonal, and sqrt(2) times what is above it."""
    plan, d = WhitenedDescent(facts(relation=relation)), 100
    noise = plan.noisy_moments(np.zeros((3, d)), 2.0, np.random.default_rng(1))
    vector = np.concatenate([np.diag(noise), math.sqrt(2) * noise[np.triu_indices(d, 1)]])
    sensitivity = 4.0 / 1000 * (1 if relation == "add-remove" else math.sqrt(2))
    assert plan.event.events[2] == plan.event.events[3]
    z = np.abs(vector) / (plan.event.events[2].noise_multiplier * sensitivity)
    assert_rate(int((z <= 1).sum()), z.size, 0.682689)
    with pytest.raises(AssertionError):
        assert_rate(int((0.9 * z <= 1).sum()), z.size, 0.682689)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_is_done_is_what_was_stated(relation, n_classes, monkeypatch):
    done = []

    def spy(*args, **options):
        release = noisy_gradient_descent(*args, **options)
        done.append(release.event)
        return release

    monkeypatch.setattr(logistic_whitened, "noisy_gradient_descent", spy)
    X = np.random.default_rng(2).uniform(-1, 1, (500, 3))
    model = PrivateLogisticRegression(
        1.0, 1e-6, bounds=(-1, 1), solver="whitened", neighbouring=relation, random_state=0
    ).fit(X, np.arange(500) % n_classes)
    assert done == [model.event_.events[4]]
    assert 1 - 1e-4 < model.privacy_.epsilon(1e-6) <= 1.0


def test_it_is_taken_where_noise_is_small():
    assert choose_solver(facts(1000)) == "gd"
    assert choose_solver(facts(1_000_000)) == "whitened"
    assert choose_solver(facts(1_000_000, dense=False)) == "gd"
    assert choose_solver(facts(1_000_000, p=1000)) == "gd"


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_collinear_columns_are_told_apart(fit_intercept):
    """Where descent on even columns has a floor that no epsilon lifts."""
    X, y = collinear(12_000)
    options = {"bounds": (-1, 1), "fit_intercept": fit_intercept, "random_state": 0}
    found = {
        solver: PrivateLogisticRegression(50.0, 1e-6, solver=solver, **options)
        .fit(X[:8000], y[:8000])
        .score(X[8000:], y[8000:])
        for solver in ("auto", "gd")
    }
    plain = LogisticRegression(C=np.inf, fit_intercept=fit_intercept, max_iter=1000)
    best = plain.fit(X[:8000], y[:8000]).score(X[8000:], y[8000:])
    assert found["auto"] > best - 0.01
    assert found["gd"] < best - 0.02


def test_declared_rows_come_in_parts_and_secure_noise_works(monkeypatch):
    monkeypatch.setattr(logistic_whitened, "_PART", 64)
    X, y = collinear(300)
    seeded = [
        PrivateLogisticRegression(
            9.0, 1e-6, solver="whitened", bounds=(-1, 1), data_norm=0.8, random_state=0
        ).fit(X, y)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(seeded[0].coef_, seeded[1].coef_)
    monkeypatch.undo()
    whole = seeded[0].fit(X, y)
    np.testing.assert_allclose(whole.coef_, seeded[1].coef_, rtol=1e-3)
    free = PrivateLogisticRegression(9.0, 1e-6, solver="whitened", data_norm=1.0).fit(X, y)
    assert free.noise_ == "cryptographic"
