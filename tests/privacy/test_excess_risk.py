"""The bounds of Micali 2022 with the constants that their proofs give."""

import math

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.privacy import excess_risk as risk

SETTING = {"n_records": 1000, "lipschitz": 1.0, "radius": 1.0, "epsilon": 1.0, "delta": 1e-6}


@pytest.mark.golden
@pytest.mark.parametrize(
    ("steps", "value"),
    [
        (1, 1.0),
        (2, 0.7777778),
        (5, 0.4733333),
        (10, 0.2901863),
        (100, 0.03794167),
        (1000, 0.003970084),
    ],
)
def test_step_decay(steps, value):
    """Values of the recursion, computed by hand; and always below 4/(T + 2)."""
    assert risk.step_decay(steps) == pytest.approx(value, rel=1e-6)
    assert risk.step_decay(steps) <= 4 / (steps + 2)


def test_step_decay_is_the_recursion():
    a, values = 1.0, []
    for t in range(500):
        gamma = 2 / (t + 2)
        a = (1 - gamma) * a + gamma**2
        values.append(a)
    np.testing.assert_allclose(risk.step_decay(np.arange(1, 501)), values, rtol=1e-12)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("k", "value"),
    [(1, 0.0), (2, 0.75), (10, 2.235806), (20, 2.904592), (100, 4.494230), (1000, 6.792324)],
)
def test_laplace_maximum(k, value):
    assert risk.laplace_maximum(k) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("k", [59, 60, 61, 62])
def test_laplace_maximum_has_no_seam(k):
    j = np.arange(1, k + 1)
    assert risk.laplace_maximum(k) == pytest.approx(((1 - 0.5**j) / j).sum(), rel=1e-13)


@pytest.mark.parametrize("noise", risk.NOISES)
def test_selection_error_bounds_what_is_seen(noise):
    """The worst score vector of a few: the bound holds and is not 2.2 times too large."""
    rng = np.random.default_rng(0)
    draw = {"gumbel": rng.gumbel, "exponential": rng.exponential, "laplace": rng.laplace}[noise]
    bound, worst = risk.selection_error(noise, 1.0, 20), 0.0
    for behind in np.linspace(0, 6, 13):
        scores = np.full(20, -behind)
        scores[0] = 0.0
        chosen = (scores + draw(size=(20_000, 20))).argmax(axis=1)
        worst = max(worst, -scores[chosen].mean())
    assert bound / 2.2 < worst <= bound


@pytest.mark.golden
@pytest.mark.parametrize(
    ("error", "steps", "bound"),
    [(2 * math.log(22) * 0.0841043, 9.82, 2.444), (math.log(22) * 0.0090618, 68.8, 0.349)],
)
def test_optimal_steps(error, steps, bound):
    """L0 = L1 = C1 = 1, N = 1000, epsilon = 1, delta = 1e-6, k = 22: the document's noise, ours."""
    T = risk.optimal_steps(error, smoothness=1.0, diameter=2.0)
    assert pytest.approx(steps, rel=1e-3) == T
    assert 1.5 * error * math.sqrt(T) == pytest.approx(bound, rel=2e-3)
    at = [error * math.sqrt(t) + 8 / t for t in (0.99 * T, T, 1.01 * T)]
    assert min(at) == at[1] == pytest.approx(1.5 * error * math.sqrt(T))


def test_optimal_steps_without_noise():
    assert risk.optimal_steps(0.0, smoothness=1.0, diameter=2.0) == math.inf


@pytest.mark.golden
def test_sgd_of_table_3_2():
    """T = N = 1000, p = 10, D = 2: 2 D G (2 + log T)/√T with G² = 1 + 80 log(1e6)."""
    noise = math.sqrt(8 * math.log(1e6))
    bound = risk.sgd_excess_risk(1000, lipschitz=1, noise=noise, n_features=10, diameter=2)
    assert noise == pytest.approx(10.5, abs=0.02)
    assert bound == pytest.approx(
        4 * math.sqrt(1 + 80 * math.log(1e6)) * 8.907755 / math.sqrt(1000)
    )


def test_dimension_costs_a_root_for_sgd_and_a_logarithm_for_frank_wolfe():
    setting = {"n_records": 1000, "epsilon": 1.0, "delta": 1e-6}
    small, large = (risk.sgd_rate(n_features=p, **setting) for p in (100, 10_000))
    assert large / small == pytest.approx(10)
    small, large = (risk.selection_error("gumbel", 1.0, 2 * p) for p in (100, 10_000))
    assert large / small == pytest.approx(math.log(20_000) / math.log(200))


def test_population_adds_a_root_of_n():
    setting = {"n_records": 400, "n_features": 10, "epsilon": 1.0, "delta": 1e-6}
    extra = risk.sgd_rate(**setting, population=True) - risk.sgd_rate(**setting)
    assert extra == pytest.approx(0.05)


def test_batch_gradient_error_bounds_what_is_seen():
    """Rademacher gradients are the worst; the bound holds and is not 1.3 times too large."""
    rng = np.random.default_rng(0)
    means = rng.choice([-1.0, 1.0], size=(400, 64, 200)).mean(axis=1)
    seen = np.abs(means).max(axis=1).mean()
    assert seen <= risk.batch_gradient_error(1.0, 64, 200) <= 1.3 * seen


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: risk.step_decay(0), "steps"),
        (lambda: risk.selection_error("normal", 1.0, 2), "noise"),
        (lambda: risk.selection_error("gumbel", math.nan, 2), "scale"),
        (lambda: risk.optimal_steps(1.0, smoothness=math.nan, diameter=1.0), "smoothness"),
        (lambda: risk.batch_gradient_error(1.0, 0, 2), "batch_size"),
    ],
)
def test_misuse_is_named(call, name):
    with pytest.raises(InvalidArgument, match=name):
        call()
