"""No upper bound below the truth: what was seen to fall below it, and a slice of the sweep."""

import dataclasses
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy import RDP, renyi, sampled_gaussian
from dpassay.privacy.accounting import METHODS, PROOFS, account
from dpassay.privacy.curves import Numeric
from dpassay.privacy.events import (
    Approx,
    BoundedRange,
    Gaussian,
    Laplace,
    Pure,
    Repeated,
    Sampled,
    Sequence,
    dp_sgd_event,
)


def _sweep():
    path = Path(__file__).parents[2] / "benchmarks" / "sweep_events.py"
    spec = importlib.util.spec_from_file_location("sweep_events", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Truths by mpmath at 50 digits: the binomial sum, the Gaussian mixture.
@pytest.mark.parametrize(
    ("event", "truth"),
    [
        (Repeated(Pure(1e-8), 10**6), 3.98942180664213e-6),
        (Pure(1e-7), 4.9999999999999583e-08),
        (Pure(1e-12), 5e-13),
        (Sampled(Pure(1.0), 3e-9), 3e-9 * 0.46211715726000975),
        (dp_sgd_event(750.8857846875513, 1.2369362418654142e-08, 1), 6.571786796749e-12),
    ],
)
def test_total_variation_of_tiny_events(event, truth):
    for method in ("best", "pld", "rdp", "zcdp", "optimal"):
        try:
            curve = account(event, method)
        except UnsupportedEvent:
            continue
        assert curve.delta(0.0) >= truth, method
    assert account(event).delta(0.0) <= truth * 1.02


def test_tiny_exponential_mechanisms():
    event = Repeated(BoundedRange(1e-8), 10**6)
    one = account(BoundedRange(1e-8)).delta(0.0)
    assert one >= 2.5e-9 * (1 - 1e-8)
    # One of 10^6 mechanisms alone has a quarter of its epsilon; all together at least that.
    assert one < account(event).delta(0.0) < 3e-6
    assert account(event).epsilon(1e-9) > 0


def test_no_tiny_sampled_gaussian_is_refused():
    rng = np.random.default_rng(0)
    for _ in range(40):
        sigma, q = 10 ** rng.uniform(-1, 15), 10 ** rng.uniform(-15, -0.01)
        assert 0 < account(dp_sgd_event(sigma, q, 3), "rdp").delta(0.0) < 1


# Rényi divergences by mpmath at 50 digits.
RANDOMIZED = [
    (1e-8, 1.25, 6.25e-17),
    (1e-8, 2, 1e-16),
    (1e-8, 512, 2.559999999988837e-14),
    (1, 2, 0.7353256640555192),
    (0.1, 1.01, 0.00504571103445405),
]
SAMPLED = [
    (1.25, 0.01, 0.5, 1.8977736419057e-3),
    (1.5, 0.01, 0.5, 2.6298912081613e-3),
    (1.01, 1e-6, 0.5, 2.7041198620489e-11),
    (1.1, 0.001, 1, 9.427819201135e-7),
    (2.5, 0.01, 1, 2.1757533228188e-4),
    (10.5, 0.01, 0.5, 15.910075057592),
    (8, 0.01, 1, 8.9364390760603e-4),
    (32, 0.001, 0.7, 25.522475130057),
    (256, 0.1, 2, 29.688385161543),
    (1.25, 0.5, 0.3, 4.1706363253078),
]


@pytest.mark.golden
@pytest.mark.parametrize(("epsilon", "order", "divergence"), RANDOMIZED)
def test_divergences_of_pure_events(epsilon, order, divergence):
    said = renyi.of_randomized_response(float(epsilon), 2, np.array([float(order)]))[0]
    assert said == pytest.approx(divergence, rel=2e-13)


@pytest.mark.golden
@pytest.mark.parametrize(("order", "q", "sigma", "divergence"), SAMPLED)
def test_divergences_of_sampled_gaussians(order, q, sigma, divergence):
    said = sampled_gaussian.divergences(float(sigma), q, np.array([float(order)]))[0]
    assert said == pytest.approx(divergence, rel=1e-11)
    doubled = sampled_gaussian.divergences(float(sigma), q, np.array([float(order)]), doubled=True)
    assert said < doubled[0] <= 2 * said * (1 + 1e-9) + math.log(2) / (order - 1)


def test_divergences_of_tiny_rates():
    # Order 232 was 16 % too small when it was summed around 1.
    orders = np.array([2.0, 64.0, 232.0, 256.0])
    truth = [2.7134916558786e-22, 8.6831732988234e-21, 3.14765032083e-20, 3.473269319544e-20]
    said = sampled_gaussian.divergences(750.88, 1.2369e-8, orders)
    np.testing.assert_allclose(said, truth, rtol=1e-4)  # q and sigma were printed so
    assert np.all(np.diff(said / orders) > 0)


def test_the_chord_is_above_the_quadrature():
    orders = np.array([1.5, 3.3, 7.25])
    chord = renyi.from_log_excess(sampled_gaussian._chord(0.5, 0.01, orders), orders)
    assert np.all(chord >= sampled_gaussian.divergences(0.5, 0.01, orders))


def test_a_divergence_of_zero_beside_positive_ones_is_refused():
    with pytest.raises(InvalidArgument, match="0 at order 2"):
        RDP(orders=[2, 8], epsilons=[0.0, 0.1])
    assert RDP(orders=[2, 8], epsilons=[0.0, 0.0]).delta(0.0) == 0


# Loss distributions


def test_cells_of_a_flat_profile_are_not_zeroed():
    # Truth by mpmath; mass that was zeroed and spread over all cells gave .04999999678.
    curve = account(Sampled(Laplace(0.02), 0.05), "pld")
    assert curve.delta(8.620689655172413) >= 0.04999999977
    x = np.linspace(0.0, 46.0, 400)
    shifted = np.log1p(np.expm1(x) / 0.05)
    truth = -0.05 * np.expm1(np.minimum(shifted - 50, 0) / 2)
    excess = curve.delta(x) / truth - 1
    assert np.all(excess >= -1e-14)  # rounding of the truth here
    assert np.all(excess[x < 40] <= 1e-9)
    assert curve.delta(7.625) >= 0.04999999985946971


# Best


CONSISTENT = [
    Sampled(Approx(1.0, 1e-3), 0.01),
    Sequence((Pure(0.3), Approx(0.2, 1e-7))),
    Repeated(Laplace(3.0), 4),
]


@pytest.mark.parametrize("event", CONSISTENT, ids=repr)
@pytest.mark.parametrize("method", ["best", "advanced", "basic", "rdp"])
def test_epsilon_and_delta_are_inverse(event, method):
    try:
        curve = account(event, method)
    except UnsupportedEvent:
        return
    deltas = np.array([1e-5, 1e-3, 0.02])
    epsilons = np.asarray(curve.epsilon(deltas))
    seen = np.isfinite(epsilons)
    assert np.all(curve.delta(epsilons[seen]) <= deltas[seen] * (1 + 2e-9))
    asked = np.array([0.0, 0.01704, 0.3])
    assert np.all(curve.epsilon(curve.delta(asked)) <= asked * (1 + 1e-9) + 1e-12)


def test_best_sees_every_method_in_both_directions():
    curve = account(Sampled(Approx(1.0, 1e-3), 0.01))
    epsilon = curve.epsilon(1e-5)
    assert epsilon == pytest.approx(0.01703686, rel=1e-6)
    assert curve.delta(epsilon) <= 1e-5 * (1 + 1e-9)
    assert curve.tradeoff(0.5) >= 1 - curve.delta(0.0) - 0.5


def test_sums_of_stated_deltas_are_met():
    assert account(Repeated(Approx(0.2, 1e-7), 3), "basic").epsilon(3e-7) == pytest.approx(0.6)


EXTREME = [Laplace(1e9), Pure(800.0), Pure(1e5), Laplace(1e-9), Gaussian(1e200), Gaussian(1e-200)]


@pytest.mark.parametrize("event", EXTREME, ids=repr)
def test_extreme_events_have_a_price_by_every_method(event):
    for method in METHODS:
        try:
            curve = account(Repeated(event, 2), method)
        except UnsupportedEvent:
            continue
        assert curve.epsilon(1e-5) >= 0
        if isinstance(curve, Numeric) and curve.is_searched:
            continue  # its delta is slow
        delta = curve.delta(np.array([0.0, 1.0, 1e4]))
        assert np.all((delta >= 0) & (delta <= 1)), method
        assert np.all(np.diff(delta) <= 0)


def test_the_limit_of_laplace_noise_has_no_jump():
    # 4 KL² / Var of the loss: the series, the closed form and the limit of large losses meet.
    for border in (1e-4, 1.0, 40.0):
        sides = (border * (1 - 1e-9), border)
        below, above = (account(Laplace(1 / e), "gdp-clt").mu for e in sides)
        assert below == pytest.approx(above, rel=1e-7)
    assert account(Laplace(1e9), "gdp-clt").mu == pytest.approx(1e-9, rel=1e-6)


def test_curves_can_be_restated():
    for curve in (da.PureDP(1.0), da.ApproxDP(1.0, 1e-5), da.GDP(1.0), da.ZCDP(0.1)):
        again = dataclasses.replace(curve, neighbouring="replace-one")
        assert again.neighbouring == "replace-one"
        assert again.epsilon(1e-3) == curve.epsilon(1e-3)
        assert curve.neighbouring == "add-remove"


def test_a_thin_slice_of_the_sweep():
    sweep = _sweep()
    rng = np.random.default_rng(5)
    for i in range(12):
        case = sweep.draw(rng)
        methods = ("gdp", "rdp", "zcdp", "optimal") if i % 6 else PROOFS
        for method in methods:
            assert not sweep.wrong_side(case, method, rng)
        assert not sweep.wrong_divergences(rng)
