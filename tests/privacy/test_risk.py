"""Calibration to what an attacker may gain."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpassay.errors import InvalidArgument
from dpassay.privacy import (
    GDP,
    Advantage,
    AttackRate,
    BayesError,
    Gaussian,
    Laplace,
    account,
    calibrate,
    dp_sgd_event,
)
from dpassay.privacy.risk import least_fnr


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (Advantage(0.1), 3.978948280545),
        (Advantage(0.3), 1.297621184417),
        (AttackRate(0.01, 0.1), 0.957124361819),
        (AttackRate(0.001, 0.05), 0.691860212399),
        (AttackRate(0.1, 0.25), 1.647278703283),
    ],
)
def test_one_gaussian(target, golden):
    noise = calibrate(Gaussian, target)
    assert noise >= golden * (1 - 1e-12)
    assert noise == pytest.approx(golden, rel=1e-9)
    assert target.of(account(Gaussian(noise))) <= target.goal


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (Advantage(0.1), 1.422455),
        (Advantage(0.3), 0.687522),
        (AttackRate(0.1, 0.25), 0.802614),
        (AttackRate(0.01, 0.1), 0.633281),
        (AttackRate(0.001, 0.05), 0.563086),
    ],
)
def test_dp_sgd(target, golden):
    def event(noise):
        return dp_sgd_event(noise, 0.01, 1000)

    noise = calibrate(event, target)
    assert noise == pytest.approx(golden, rel=5e-6)
    assert target.of(account(event(noise))) <= target.goal


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.9])
def test_bayes_error_is_that_of_the_best_test(prior):
    error = 0.8 * min(prior, 1 - prior)
    target = BayesError(prior, error)
    mu = 1 / calibrate(Gaussian, target)
    cut = np.linspace(-40, 40, 400_001)
    errors = prior * norm.cdf(cut - mu) + (1 - prior) * norm.sf(cut)
    assert errors.min() == pytest.approx(error, rel=1e-6)


def test_rates_of_any_curve():
    """The line search is below the closed form, and close to it."""
    for fpr in (1e-4, 0.03, 0.5, 0.97):
        exact = GDP(1.3).tradeoff(fpr)
        found = least_fnr(account(dp_sgd_event(1 / 1.3, 1.0, 1), "pld"), fpr)
        assert found <= exact
        assert found == pytest.approx(exact, rel=2e-3, abs=1e-6)
    assert least_fnr(account(Laplace(0.5)), 0.1) <= account(Laplace(0.5)).tradeoff(0.1) + 1e-6


@pytest.mark.parametrize(
    ("target", "noise"),
    [
        (AttackRate(0.01, 0.010001), norm.pdf(norm.ppf(0.01)) / 1e-6),
        (BayesError(0.5, 0.4999999), 0.5 * math.sqrt(2 / math.pi) / 2e-7),
        (Advantage(1e-9), 1 / math.sqrt(2 * math.pi) / 1e-9),
    ],
)
def test_risks_close_to_none(target, noise):
    """What an attack adds to guessing is small against what guessing reaches."""
    found = calibrate(Gaussian, target)
    assert found == pytest.approx(noise, rel=1e-3)
    assert target.of(account(Gaussian(found))) <= target.goal


def test_relations_must_agree():
    with pytest.raises(InvalidArgument, match="replace-one"):
        calibrate(Gaussian, Advantage(0.1, neighbouring="replace-one"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Advantage(0.0), "advantage=0"),
        (lambda: Advantage(math.nan), "advantage=nan"),
        (lambda: AttackRate(0.1, 0.1), "tosses a coin"),
        (lambda: AttackRate(0.0, 0.1), "fpr=0 "),
        (lambda: BayesError(0.1, 0.1), "must be below 0.1"),
    ],
)
def test_bad_targets(make, words):
    with pytest.raises(InvalidArgument, match=words):
        make()
