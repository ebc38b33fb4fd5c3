"""Noise taken out of a walk: the variance it assumes, the means it gives, what it gains."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpassay.learn import PrivateLogisticRegression
from dpassay.learn.logistic_shrinkage import (
    _POWER,
    _VARIANCES,
    Shrinkage,
    shrink_factors,
)
from rates import assert_rate

EVEN = np.full(len(_VARIANCES), 1 / len(_VARIANCES))


def walks(rate, momentum, deviation, steps, size, rng):
    """Walks of pure noise, as gradient steps make them."""
    V = U = np.zeros(size)
    for _ in range(steps):
        V = momentum * V + deviation * rng.standard_normal(size)
        U = U - rate * V
    return U


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_variance_is_that_of_the_walk(momentum):
    """The share of walks within a deviation; erf(1/√2)."""
    shrinkage = Shrinkage(0.5, momentum, 2.0)
    for _ in range(30):
        shrinkage(np.zeros((3, 1)))
    walk = walks(0.5, momentum, 2.0, 30, 20_000, np.random.default_rng(0))
    z = np.abs(walk) / math.sqrt(shrinkage.variance)
    assert_rate(int((z <= 1).sum()), z.size, 0.682689)
    with pytest.raises(AssertionError):
        assert_rate(int((z <= 0.9).sum()), z.size, 0.682689)  # a variance that is 19 % too small


def test_one_round_of_the_fit_against_quadrature():
    """With one weight and many rounds behind it, the factor is E[w | u]/u of the mixture."""
    u = 2.5
    factors, shares = shrink_factors(np.array([u**2]), EVEN)
    parts = list(zip(shares, np.sqrt(_VARIANCES), strict=True))

    def joint(w):
        spread = sum(s * stats.norm.pdf(w, scale=d) for s, d in parts if d > 0)
        return spread * stats.norm.pdf(u - w)

    whole = integrate.quad(joint, -200, 200, points=[0, u], limit=500)[0]
    whole += shares[0] * stats.norm.pdf(u)  # no weight at all
    mean = integrate.quad(lambda w: w * joint(w), -200, 200, points=[0, u], limit=500)[0] / whole
    assert factors[0] == pytest.approx((mean / u) ** _POWER, rel=1e-3)


def test_factors_are_shares_that_grow_with_the_weight():
    ratios = np.concatenate([[0.0], np.geomspace(1e-4, 1e9, 300)])
    factors, shares = shrink_factors(ratios, EVEN)
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0).all()
    assert ((factors >= 0) & (factors < 1)).all()
    assert (np.diff(factors) >= 0).all()
    assert factors[-1] > 0.999


def test_few_large_weights_are_kept_and_noise_is_taken_out():
    rng = np.random.default_rng(1)
    truth = np.where(np.arange(1000) < 20, 30.0, 0.0)
    walk, shares = truth + rng.standard_normal(1000), EVEN
    for _ in range(50):
        factors, shares = shrink_factors(walk**2, shares)
    error = np.square(walk * factors - truth).sum()
    assert error < 0.2 * np.square(walk - truth).sum()  # a common factor would take out .05 at most
    assert factors[:20].min() > 0.95


def test_steps_add_up_behind_the_shrinkage():
    """What it returned is subtracted again: the walk is the sum of the steps, in any precision."""
    rng, shrinkage = np.random.default_rng(2), Shrinkage(1.0, 0.0, 0.1)
    W, total = np.zeros((4, 2)), np.zeros((4, 2))
    for _ in range(10):
        step = rng.normal(size=(4, 2))
        W, total = shrinkage(W + step), total + step
    np.testing.assert_allclose(shrinkage.walk, total, atol=1e-12)
    single = Shrinkage(1.0, 0.0, 0.1)(np.ones((4, 2), np.float32))
    assert single.dtype == np.float32


def test_without_noise_nothing_is_shrunk():
    W = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(Shrinkage(1.0, 0.5, 0.0)(W), W)


def test_it_pays_where_few_columns_matter(monkeypatch):
    """Log-loss of a fit with the shrinkage, and of the same without it."""
    rng = np.random.default_rng(3)
    X = rng.choice([-1.0, 1.0], (4000, 60)) / math.sqrt(60)
    y = (rng.random(4000) < 1 / (1 + np.exp(-12 * X[:, 0]))).astype(int)

    def excess():
        model = PrivateLogisticRegression(0.5, 1e-5, data_norm=1.0, random_state=0).fit(X, y)
        return -model.predict_log_proba(X)[np.arange(4000), y].mean()

    with_it = excess()
    monkeypatch.setattr(Shrinkage, "__call__", lambda _, W: W)
    assert with_it < 0.7 * excess()
