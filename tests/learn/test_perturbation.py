"""Output and objective perturbation: solvers that end, noise levels, sensitivities attained."""

import math

import numpy as np
import pytest
from scipy import special

from dpassay.errors import DpassayError, InvalidArgument
from dpassay.learn import PrivateLogisticRegression
from dpassay.learn.base import Budget
from dpassay.learn.logistic_plans import Setting
from dpassay.learn.perturbation import (
    ObjectivePerturbation,
    accelerated,
)

# The solver.


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e6])
def test_accelerated_steps_end_where_they_should(condition):
    """On a quadratic, from far away; plain steps would take the square of their number."""
    curvatures = np.geomspace(1.0, condition, 5)
    seen = []

    def gradient(w):
        seen.append(w)
        return curvatures * (w - 3)

    w = accelerated(gradient, np.full(5, 1e4), 1.0, condition, 1e-6)
    assert np.linalg.norm(curvatures * (w - 3)) <= 1e-6
    assert len(seen) <= 5 + 4 * math.sqrt(condition) * math.log(2e4 * condition**2 / 1e-6)


def test_a_gradient_that_rounding_keeps_up_is_an_error_and_no_loop():
    with pytest.raises(DpassayError, match="Nothing was released"):
        accelerated(lambda w: w - w + 1e-3, np.zeros(3), 1.0, 2.0, 1e-6)
    with pytest.raises(DpassayError, match="gradient of norm nan"):
        accelerated(lambda w: w * math.nan, np.zeros(3), 1.0, 2.0, 1e-6)


def test_a_penalty_at_which_the_solver_might_fail_on_some_data_is_refused_on_all():
    X, y = np.eye(50), np.arange(50) % 2
    options = {"data_norm": 1.0, "fit_intercept": False, "random_state": 0}
    with pytest.raises(InvalidArgument, match=r"penalty=1e-09 must be at least 5e-07"):
        PrivateLogisticRegression(solver="output", penalty=1e-9, **options).fit(X, y)
    PrivateLogisticRegression(solver="output", penalty=1e-6, **options).fit(X, y)
    budget = Budget(200.0, 1e-5, "add-remove")  # the proof alone would do with 1e-17
    setting = Setting(50, 50, 2, 1.0, budget, False, penalty=1e-12)
    assert ObjectivePerturbation(setting).penalty == pytest.approx(5e-7)


# Noise.


def test_small_releases_are_exact_and_the_tilt_is_cryptographic():
    X, y = np.eye(4), np.arange(4) % 2
    models = {
        solver: PrivateLogisticRegression(solver=solver, data_norm=1.0).fit(X, y)
        for solver in ("output", "objective")
    }
    assert models["output"].noise_ == "exact"
    assert models["objective"].noise_ == "cryptographic"
    wide = PrivateLogisticRegression(solver="output", data_norm=1.0).fit(np.zeros((4, 2000)), y)
    assert wide.noise_ == "cryptographic"


def drawn_tilt(share, monkeypatch, neighbouring):
    """Rows of zeros have no gradient: what is released is the tilt over the penalty."""
    honest = ObjectivePerturbation.deviation.fget
    with monkeypatch.context() as patch:
        patch.setattr(ObjectivePerturbation, "deviation", property(lambda s: share * honest(s)))
        model = PrivateLogisticRegression(
            2.0, 1e-3, solver="objective", data_norm=2.0, penalty=10.0, fit_intercept=False,
            neighbouring=neighbouring, random_state=0,
        ).fit(np.zeros((10, 40_000)), np.arange(10) % 2)  # fmt: skip
    return 10.0 * model.coef_.ravel()


@pytest.mark.parametrize(("neighbouring", "changes"), [("add-remove", 1), ("replace-one", 2)])
def test_the_tilt_that_is_drawn_is_the_one_that_the_proof_asks_for(
    neighbouring, changes, monkeypatch
):
    """Of 40 000 normal entries the mean square is within five deviations, 3.6 %."""
    # .99 · 2 of epsilon, three quarters of it; tails of both records at .99 · delta; L = 2.
    epsilon, tail = 0.75 * 0.99 * 2.0, 0.99e-3 / changes
    t = math.sqrt(2) * float(special.erfcinv(tail))
    s = 2.0 * changes * (t + math.sqrt(t * t + 2 * epsilon)) / (2 * epsilon)
    assert np.square(drawn_tilt(1.0, monkeypatch, neighbouring) / s).mean() == pytest.approx(
        1.0, abs=0.036
    )
    mutant = np.square(drawn_tilt(0.9, monkeypatch, neighbouring) / s).mean()
    assert mutant < 1 - 0.036
