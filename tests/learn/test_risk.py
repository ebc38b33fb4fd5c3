"""A risk in place of epsilon: the fit spends what keeps it, and no more than a thousandth less."""

import math

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.learn import (
    PrivateLasso,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateSearchCV,
)
from dpassay.privacy import GDP, Advantage, AttackRate, BayesError

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 3))
Y = X @ [1.0, -1.0, 0.5]
RIDGE = {"bounds": (-1, 1), "target_bound": 3, "random_state": 0}
LASSO = {"data_norm": 1, "target_bound": 3, "steps": 4, "random_state": 0}
RATE, ERROR = AttackRate(fpr=0.01, tpr=0.1), BayesError(prior=0.5, error=0.4)


@pytest.mark.parametrize(
    ("kind", "options", "risk"),
    [
        (PrivateRidge, RIDGE, RATE),
        (PrivateRidge, RIDGE | {"solver": "output"}, ERROR),
        (PrivateLasso, LASSO, ERROR),
        (PrivateLasso, LASSO | {"delta": 0.0}, Advantage(0.1)),
        (PrivateLogisticRegression, {"bounds": (-1, 1), "random_state": 0}, Advantage(0.1)),
    ],
)
def test_fits_keep_a_risk(kind, options, risk):
    labels = Y > 0 if kind is PrivateLogisticRegression else Y
    reached = risk.of(kind(risk=risk, **options).fit(X, labels).privacy_)
    assert risk.goal * (1 - 2e-3) <= reached <= risk.goal


def test_gaussian_noise_spends_the_epsilon_of_its_risk():
    model = PrivateRidge(risk=Advantage(0.1), delta=1e-6, **RIDGE).fit(X, Y)
    exact = GDP(1 / 3.978948280545).epsilon(1e-6)
    assert model.privacy_.epsilon(1e-6) == pytest.approx(exact, rel=1e-6)
    risk = Advantage(0.1, neighbouring="replace-one")
    other = PrivateRidge(risk=risk, delta=1e-6, neighbouring="replace-one", **RIDGE).fit(X, Y)
    assert other.privacy_.epsilon(1e-6) == pytest.approx(exact, rel=1e-6)
    assert other.privacy_.neighbouring == "replace-one"


def test_a_search_keeps_a_risk():
    search = PrivateSearchCV(
        PrivateRidge(**RIDGE), {"alpha": [1.0, 10.0]}, risk=Advantage(0.3), random_state=0
    ).fit(X, Y)
    assert 0.29 <= Advantage(0.3).of(search.privacy_) <= 0.3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 3.0}, "epsilon=3 and risk=.*only one can be met"),
        ({"epsilon": math.inf}, "epsilon=inf and risk="),
        ({"neighbouring": "replace-one"}, "risk.neighbouring='add-remove' must be that of the fit"),
        ({"rho": 0.1}, r"rho=0\.1 and risk="),
        ({"risk": 0.1}, r"risk=0\.1 must be an Advantage"),
    ],
)
def test_refused(options, words):
    model = PrivateRidge(**({"risk": Advantage(0.1)} | RIDGE | options))
    with pytest.raises(InvalidArgument, match=words):
        model.fit(X, Y)


def test_a_search_pays_for_its_estimator():
    estimator = PrivateRidge(risk=Advantage(0.1), **RIDGE)
    with pytest.raises(InvalidArgument, match="whatever the search decides"):
        PrivateSearchCV(estimator, {"alpha": [1.0]}, random_state=0).fit(X, Y)
    with pytest.raises(InvalidArgument, match="must not vary 'risk'"):
        PrivateSearchCV(PrivateRidge(**RIDGE), {"risk": [Advantage(0.1)]}).fit(X, Y)
