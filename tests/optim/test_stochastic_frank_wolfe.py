"""Batches: who is in them, what they cost, and that the cost is not understated."""

import math

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.optim import stochastic_frank_wolfe as sfw
from dpassay.optim.frank_wolfe import Selection
from dpassay.optim.losses import Logistic, Rows
from dpassay.optim.objectives import LinearObjective
from dpassay.optim.polytopes import L1Ball
from dpassay.privacy import account, events

SETTING = {"n_records": 1000, "lipschitz": 1.0, "epsilon": 1.0, "delta": 1e-6}
BALL = L1Ball(4, 2.0)


def test_disjoint_batches_cost_one_selection():
    plan = sfw.stochastic_plan(BALL, steps=20, **SETTING)
    assert isinstance(plan.event, events.BoundedRange)
    assert account(plan.event).epsilon(1e-6) <= 1.0
    assert plan.batch_size == 50
    assert plan.selection.sensitivity == pytest.approx(2.0 / 50)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("scheme", "neighbouring"),
    [("poisson", "add-remove"), ("without-replacement", "replace-one")],
)
def test_sampled_batches_are_amplified(scheme, neighbouring):
    """One step of pure epsilon: log(1 + q (e^e0 - 1)) = epsilon, so e0 = log(1 + (e - 1)/q)."""
    options = SETTING | {"scheme": scheme, "neighbouring": neighbouring, "delta": 0.0}
    plan = sfw.stochastic_plan(BALL, steps=1, batch_size=100, **options)
    assert plan.selection.epsilon == pytest.approx(math.log1p((math.e - 1) / 0.1), rel=1e-9)
    many = sfw.stochastic_plan(BALL, steps=30, batch_size=100, **options | {"delta": 1e-6})
    assert 0.999 < account(many.event, "optimal").epsilon(1e-6) <= 1.0


def batches(scheme, n_rows=1000, steps=20, size=50, seed=0):
    plan = sfw.StochasticPlan(scheme, steps, 1000, size, None)
    return list(sfw._batches(plan, n_rows, np.random.default_rng(seed)))


def test_disjoint_batches_use_every_record_once():
    """Also when there are fewer records than were declared; and no size is fixed."""
    for n_rows in (1000, 3, 0):
        drawn = batches("disjoint", n_rows)
        assert len(drawn) == 20
        assert sorted(np.concatenate(drawn).tolist()) == list(range(n_rows))
    assert len({len(rows) for rows in batches("disjoint")}) > 3


def test_a_record_less_moves_no_other():
    """The others' batches stay, given the same coins: what consecutive pieces would not do."""
    full, less = batches("disjoint", 1000), batches("disjoint", 999)
    assert all(set(a) - {999} == set(b) for a, b in zip(full, less, strict=True))


def test_sizes_of_sampled_batches():
    assert {len(rows) for rows in batches("without-replacement")} == {50}
    assert all(len(set(rows)) == 50 for rows in batches("without-replacement"))
    assert {len(rows) for rows in batches("independent")} == {50}
    total = sum(len(rows) for rows in batches("poisson", steps=400))
    assert abs(total - 20_000) < 6 * math.sqrt(20_000)


def logistic(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    y = (rng.random(n) < 1 / (1 + np.exp(-4 * X[:, 0]))).astype(float)
    return LinearObjective(Logistic(), Rows(X, constant=0.0), y, n)


@pytest.mark.parametrize("iterate", sfw.ITERATES)
@pytest.mark.parametrize("scheme", sfw.SCHEMES)
def test_every_form_learns(scheme, iterate):
    objective = logistic()
    plan = sfw.StochasticPlan(scheme, 60, 3000, 50, None)
    run = sfw.stochastic_frank_wolfe(
        objective, BALL, plan, n_rows=3000, step=0.05, iterate=iterate, rng=3
    )
    assert objective.value(run.w) < 0.98 * math.log(2)
    assert np.abs(run.w).sum() <= 2.0 + 1e-12
    assert isinstance(run.event, events.NonPrivate)


def test_a_private_run():
    objective = logistic(20_000)
    options = SETTING | {"n_records": 20_000}
    plan = sfw.stochastic_plan(BALL, steps=10, **options)
    run = sfw.stochastic_frank_wolfe(objective, BALL, plan, n_rows=20_000, rng=0)
    assert objective.value(run.w) < 0.95 * math.log(2)
    assert run.event == plan.event
    assert run.noise == "reproducible"
    secure = sfw.stochastic_frank_wolfe(objective, BALL, plan, n_rows=20_000)
    assert secure.noise == "exact"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"scheme": "independent"}, "scheme"),
        ({"scheme": "poisson"}, "batch_size"),
        ({"scheme": "poisson", "batch_size": 2000}, "batch_size"),
        ({"scheme": "poisson", "batch_size": 9, "neighbouring": "replace-one"}, "neighbouring"),
        ({"batch_size": 7}, "batch_size"),
        ({"steps": 0}, "steps"),
        ({"epsilon": math.inf}, "epsilon"),
    ],
)
def test_misuse_is_named(change, name):
    with pytest.raises(InvalidArgument, match=name):
        sfw.stochastic_plan(BALL, **{"steps": 5} | SETTING | change)
    with pytest.raises(InvalidArgument, match="independent"):
        sfw.StochasticPlan("independent", 5, 10, 2, Selection("gumbel", 1.0, 1.0))
