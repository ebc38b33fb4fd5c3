"""Private lasso: checks of scikit-learn, the non-private limit, sparse input, budget."""

import math
import pickle

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.base import clone
from sklearn.linear_model import Lasso
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpassay as da
from dpassay.errors import BudgetExceeded, InvalidArgument
from dpassay.learn import Ledger, PrivateLasso
from dpassay.privacy import events

FIT = {"radius": 2.0, "data_norm": 1.0, "target_bound": 2.0, "random_state": 0}


def regression(n=4000, p=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    return X, X @ np.r_[1.0, -0.6, np.zeros(p - 2)] + 0.3 + 0.05 * rng.normal(size=n)


@parametrize_with_checks([PrivateLasso(data_norm=10.0, target_bound=10.0, radius=5.0, steps=5)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Without privacy.


def test_without_privacy_it_is_scikit_learns_lasso():
    """The constrained problem at the radius of a penalised solution has that solution."""
    X, y = regression(300, 8)
    penalised = Lasso(alpha=0.05, fit_intercept=False, tol=1e-10).fit(X, y)
    radius = np.abs(penalised.coef_).sum()
    ours = PrivateLasso(math.inf, radius=radius, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, penalised.coef_, atol=1e-4)
    assert isinstance(ours.event_, events.NonPrivate)


@pytest.mark.parametrize("kind", ["huber", "clipped squared"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_without_privacy_it_is_the_constrained_minimum(kind, form):
    """An independent solver on w = u - v, u, v >= 0, sum <= radius; the intercept is inside."""
    X, y = regression(200, 5)
    fit = PrivateLasso(
        math.inf, loss=kind, residual_bound=0.3, radius=1.2, data_norm=1.0, target_bound=2.0
    ).fit(form(X), y)

    def objective(uv):
        w = uv[:6] - uv[6:]
        r = np.abs(X @ w[1:] + w[0] - y)
        if kind == "huber":
            return np.where(r <= 0.3, r**2 / 2, 0.3 * (r - 0.15)).mean()
        return (r**2).mean() / 2

    best = optimize.minimize(
        objective,
        np.full(12, 0.05),
        bounds=[(0, None)] * 12,
        constraints={"type": "ineq", "fun": lambda uv: 1.2 - uv.sum()},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    w = np.r_[fit.intercept_, fit.coef_]
    assert np.abs(w).sum() <= 1.2 * (1 + 1e-9)
    assert objective(np.r_[np.maximum(w, 0), np.maximum(-w, 0)]) <= best.fun + 1e-7


# With privacy.


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
@pytest.mark.parametrize("selection", ["gumbel", "laplace", "permute-and-flip"])
def test_spends_what_it_says(neighbouring, selection):
    X, y = regression()
    model = PrivateLasso(1.0, 1e-6, neighbouring=neighbouring, selection=selection, **FIT)
    model.fit(X, y)
    assert 0.95 < model.privacy_.epsilon(1e-6) <= 1.0
    assert model.privacy_.neighbouring == neighbouring
    assert model.privacy_.assumptions == ("n=4000",)
    assert np.abs(model.coef_).sum() + abs(model.intercept_) <= 2.0 + 1e-9


def test_sensitivity_comes_from_what_was_declared():
    """Huber: L0 = residual bound · data norm; squared: (C1 Rinf + Y) Rinf. Over N, times C1."""
    X, y = regression(500, 4)
    options = FIT | {"data_norm": 0.5, "steps": 3}
    huber = PrivateLasso(residual_bound=0.7, **options).fit(X, y)
    assert huber.selection_.sensitivity == pytest.approx(0.7 * 0.5 * 2.0 / 500)
    squared = PrivateLasso(loss="clipped squared", neighbouring="replace-one", **options).fit(X, y)
    assert squared.selection_.sensitivity == pytest.approx(2 * (2 * 0.5 + 2) * 0.5 * 2.0 / 500)
    declared = PrivateLasso(n_records=1000, **options).fit(X, y)
    assert declared.selection_.sensitivity == pytest.approx(2.0 * 0.5 * 2.0 / 1000)


def test_learns():
    X, y = regression()
    assert PrivateLasso(3.0, **FIT).fit(X, y).score(X, y) > 0.9
    assert cross_val_score(PrivateLasso(3.0, **FIT), X, y, cv=3).min() > 0.85


def test_sparse_and_dense_agree():
    """Not the same noise, but as good a fit; bounds scale sparse columns without centring."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((5000, 60)) < 0.2, rng.uniform(-2, 2, (5000, 60)), 0)
    y = X[:, 0] - X[:, 1]
    model = PrivateLasso(5.0, radius=5.0, bounds=(-2, 2), target_bound=4.0, random_state=1)
    scores = [clone(model).fit(form(X), y).score(X, y) for form in (np.asarray, sparse.csr_matrix)]
    assert min(scores) > 0.8
    assert scores[0] == pytest.approx(scores[1], abs=0.1)


def test_units_are_those_of_the_data():
    X, y = regression()
    model = PrivateLasso(math.inf, radius=40.0, bounds=(0, 20), target_bound=(-30, 50))
    model.fit(10 * (X + 1), 10 * y + 7)
    np.testing.assert_allclose(model.coef_[:2], [1.0, -0.6], atol=0.02)
    assert model.predict(10 * (X + 1)) == pytest.approx(10 * y + 7, abs=3.0)


def test_secure_by_default_and_survives_pickling():
    X, y = regression(200, 4)
    model = PrivateLasso(**FIT | {"random_state": None, "steps": 3}).fit(X, y)
    assert model.noise_ == "exact"
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_ledger_that_is_full_refuses(tmp_path):
    X, y = regression(200, 4)
    ledger = Ledger(tmp_path / "spent", budget=da.ApproxDP(1.2, 1e-6))
    model = PrivateLasso(1.0, 1e-6, ledger=ledger, **FIT | {"steps": 3})
    clone(model).fit(X, y)
    with pytest.raises(BudgetExceeded):
        clone(model).fit(X, y)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"data_norm": None}, "data_norm"),
        ({"target_bound": None}, "target_bound"),
        ({"radius": 0.0}, "radius"),
        ({"loss": "squared"}, "loss"),
        ({"selection": "best"}, "selection"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"residual_bound": -1.0}, "bound"),
    ],
)
def test_misuse_is_named(change, name):
    X, y = regression(50, 3)
    with pytest.raises(InvalidArgument, match=name):
        PrivateLasso(**FIT | change).fit(X, y)
