"""Output and objective perturbation: solvers that end, noise levels, sensitivities attained."""

import math

import numpy as np
import pytest
from scipy import special

from dpassay.errors import DpassayError, InvalidArgument
from dpassay.learn import PrivateLogisticRegression
from dpassay.learn.base import Budget
from dpassay.learn.logistic_facts import LogisticFacts
from dpassay.learn.perturbation import (
    ObjectivePerturbation,
    OutputPerturbation,
    descend_accelerated,
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

    w = descend_accelerated(gradient, np.full(5, 1e4), 1.0, condition, 1e-6)
    assert np.linalg.norm(curvatures * (w - 3)) <= 1e-6
    assert len(seen) <= 5 + 4 * math.sqrt(condition) * math.log(2e4 * condition**2 / 1e-6)


def test_a_gradient_that_rounding_keeps_up_is_an_error_and_no_loop():
    with pytest.raises(DpassayError, match="Nothing was released"):
        descend_accelerated(lambda w: w - w + 1e-3, np.zeros(3), 1.0, 2.0, 1e-6)
    with pytest.raises(DpassayError, match="gradient of norm nan"):
        descend_accelerated(lambda w: w * math.nan, np.zeros(3), 1.0, 2.0, 1e-6)


def test_a_penalty_at_which_the_solver_might_fail_on_some_data_is_refused_on_all():
    X, y = np.eye(50), np.arange(50) % 2
    options = {"data_norm": 1.0, "fit_intercept": False, "random_state": 0}
    with pytest.raises(InvalidArgument, match=r"penalty=1e-09 must be at least 5e-07"):
        PrivateLogisticRegression(solver="output", penalty=1e-9, **options).fit(X, y)
    PrivateLogisticRegression(solver="output", penalty=1e-6, **options).fit(X, y)
    budget = Budget(200.0, 1e-5, "add-remove")  # the proof alone would do with 1e-17
    facts = LogisticFacts(50, 50, 2, 1.0, budget, False, penalty=1e-12)
    assert ObjectivePerturbation(facts).penalty == pytest.approx(5e-7)


# What rounding hides from the solver.


def exact_gradient(X, codes, n_classes, W, penalty):
    """Of the objective at W in extended precision; constant feature first."""
    A = np.column_stack([np.ones(len(X)), X]).astype(np.longdouble)
    scores = A @ W.astype(np.longdouble)
    if n_classes == 2:
        residuals = 1 / (1 + np.exp(-scores)) - codes[:, None]
    else:
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        residuals = powers / powers.sum(axis=1, keepdims=True) - np.eye(n_classes)[codes]
    return A.T @ residuals + np.longdouble(penalty) * W


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_gradient_where_the_solver_stops_is_within_what_is_charged(n_classes):
    """At the least penalty, where weights are largest, on rows that nearly cancel."""
    rng = np.random.default_rng(0)
    n, p = 3000, 20
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    X = (X + 1e-6 * rng.standard_normal((n, p))) / np.linalg.norm(X, axis=1)[:, None] / 1.001
    codes = rng.integers(0, n_classes, n)
    plan = OutputPerturbation(
        LogisticFacts(n, p, n_classes, 1.0, Budget(1.0, 1e-6, "add-remove"), penalty=6.1e-5)
    )
    W = plan._minimum(X, codes, np.zeros(plan._shape), plan.penalty)
    found = float(np.linalg.norm(exact_gradient(X, codes, n_classes, W, plan.penalty)))
    inexact = plan._inexactness(plan.penalty)
    assert plan.stop < inexact < 1.1 * plan.stop + 1e-4 * plan.lipschitz
    assert found <= inexact
    assert plan.sensitivity * plan.penalty >= plan.lipschitz + 2 * inexact


@pytest.mark.parametrize("kind", [OutputPerturbation, ObjectivePerturbation])
@pytest.mark.parametrize("n", [10**5, 10**7])
def test_sums_of_many_records_are_charged_for(kind, n):
    """n γ_k L, by Higham's bound: it was not in the sensitivity, which had one millionth of L."""
    plan = kind(LogisticFacts(n, 10, 2, 1.0, Budget(1.0, 1e-6, "add-remove")))
    hidden = n * (4096 + n / 4096) * 2.0**-53 * plan.lipschitz
    assert plan._inexactness(plan.penalty, 1.0) >= plan.stop + hidden
    if kind is OutputPerturbation:
        moved = plan.sensitivity * plan.penalty
        assert moved >= plan.lipschitz + 2 * (plan.stop + hidden)


def test_more_rows_than_are_charged_for_are_refused():
    X, y = np.ones((5000, 1)), np.arange(5000) % 2
    for solver in ("output", "objective"):
        model = PrivateLogisticRegression(solver=solver, data_norm=1.0, n_records=2000)
        with pytest.raises(InvalidArgument, match="n_records=2000 is less than half of the 5000"):
            model.fit(X, y)


# Noise.


def test_releases_are_exact_and_the_tilt_is_cryptographic():
    X, y = np.eye(4), np.arange(4) % 2
    models = {
        solver: PrivateLogisticRegression(solver=solver, data_norm=1.0).fit(X, y)
        for solver in ("output", "objective")
    }
    assert models["output"].noise_ == "exact"
    assert models["objective"].noise_ == "cryptographic"
    wide = PrivateLogisticRegression(solver="output", data_norm=1.0).fit(np.zeros((4, 2000)), y)
    assert wide.noise_ == "exact"


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
