"""What a claim allows is not exceeded by models that keep it; without noise it is.

One member and one stranger per training, each training on fresh data: the scores are independent
trials, so that the intervals are about the algorithm and may be held against its claim.
"""

import numpy as np
import pytest

from dpassay import ApproxDP
from dpassay.attacks import attack
from dpassay.learn import PrivateRidge

N, FEATURES, TRAININGS, SURE = 6, 8, 300, 1 - 1e-9


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


def attacked(claim, **settings):
    return attack(None, *squared_losses(**settings), claim=claim, confidence=SURE)


@pytest.mark.parametrize("solver", ["output", "adassp", "gd"])
def test_the_ceilings_hold(solver):
    claim = ApproxDP(0.5, 1e-3)
    found = attacked(claim, epsilon=0.5, delta=1e-3, solver=solver)
    tops = found.ceilings
    assert found.accuracy.lower < tops.accuracy
    assert found.auc.lower < tops.auc
    assert found.advantage.lower < tops.advantage
    for fpr, tpr in found.tpr_at.items():
        assert tpr.lower <= tops.tpr_at[fpr]


def test_the_mutant_without_noise_is_caught():
    found = attacked(ApproxDP(0.5, 1e-3), epsilon=np.inf, alpha=1e-9)
    assert found.auc.lower > found.ceilings.auc
    assert found.advantage.lower > found.ceilings.advantage
