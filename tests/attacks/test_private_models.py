"""What a claim allows is not exceeded by models that keep it; without noise it is.

One member and one stranger per training, each training on fresh data: the scores are independent
trials, so that the intervals are about the algorithm and may be held against its claim.
"""

import numpy as np
import pytest

from dpassay import ApproxDP
from dpassay.attacks import attack
from dpassay.learn import PrivateLogisticRegression, PrivateRidge

N, FEATURES, TRAININGS, SURE = 6, 8, 300, 1 - 1e-9
EPSILON, DELTA = 0.1, 1e-3
CLAIM = ApproxDP(EPSILON, DELTA)


def squared_losses(**settings):
    """The loss of a member and of a stranger, for each training."""
    rng = np.random.default_rng(0)
    losses = np.empty((2, TRAININGS))
    for i in range(TRAININGS):
        X = rng.normal(size=(N + 1, FEATURES))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.choice([-1.0, 1.0], N + 1)
        model = PrivateRidge(
            **settings, data_norm=1.0, target_bound=1.0, fit_intercept=False, random_state=i
        )
        model.fit(X[:N], y[:N])
        losses[:, i] = ((model.predict(X) - y) ** 2)[[0, N]]
    return losses


def logistic_losses(**settings):
    """The same for a classifier, whose loss is log(1 + e^-margin)."""
    rng = np.random.default_rng(1)
    losses = np.empty((2, TRAININGS))
    for i in range(TRAININGS):
        X = rng.normal(size=(N + 1, FEATURES))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.arange(N + 1) % 2
        y[[0, N]] = rng.integers(0, 2, 2)  # the others have both classes
        model = PrivateLogisticRegression(
            **settings, data_norm=1.0, classes=[0, 1], fit_intercept=False, random_state=i
        )
        margins = (2 * y - 1) * model.fit(X[:N], y[:N]).decision_function(X)
        losses[:, i] = np.logaddexp(0, -margins)[[0, N]]
    return losses


def attacked(claim, losses=squared_losses, **settings):
    return attack(None, *losses(**settings), claim=claim, confidence=SURE)


@pytest.mark.parametrize(
    ("losses", "options"),
    [
        (squared_losses, {"solver": "output"}),
        (squared_losses, {"solver": "adassp"}),
        (squared_losses, {"solver": "gd"}),
        (logistic_losses, {"solver": "gd", "max_iter": 10}),
        (logistic_losses, {"solver": "objective"}),
    ],
)
def test_the_ceilings_hold(losses, options):
    found = attacked(CLAIM, losses, epsilon=EPSILON, delta=DELTA, **options)
    tops = found.ceilings
    assert found.accuracy.lower < tops.accuracy
    assert found.auc.lower < tops.auc
    assert found.advantage.lower < tops.advantage
    for fpr, tpr in found.tpr_at.items():
        assert tpr.lower <= tops.tpr_at[fpr]


@pytest.mark.parametrize(
    ("losses", "settings"), [(squared_losses, {"alpha": 1e-9}), (logistic_losses, {})]
)
def test_the_mutant_without_noise_is_caught(losses, settings):
    found = attacked(CLAIM, losses, epsilon=np.inf, **settings)
    assert found.auc.lower > found.ceilings.auc
    assert found.advantage.lower > found.ceilings.advantage
