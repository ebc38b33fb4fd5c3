"""No upper bound below the truth: what was seen to fall below it, and a slice of the sweep."""

import dataclasses
import importlib.util
import math
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy import RDP, composition, renyi, sampled_gaussian, selection
from dpassay.privacy.accounting import METHODS, PROOFS, account
from dpassay.privacy.combined import Numeric
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
    assert curve.tradeoff(0.5) >= 1 - curve.delta(0.0) - 0.5 - 1e-13  # rounded down


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
    for i in range(7):
        case = sweep.draw(rng)
        methods = ("gdp", "rdp", "zcdp", "optimal") if i % 6 else PROOFS
        assert not sweep.wrong_sides(case, methods, rng)
        assert not sweep.wrong_divergences(rng)


NO_FINITE_LOSS_IS_THE_LARGEST = [
    da.ZCDP(1.0),
    da.ZCDP(5e-324),
    da.GDP(1.0),
    da.GDP(5e-324),
    RDP([2.0, 8.0], [0.1, 0.4]),
    account(Sampled(Gaussian(1.0), 1e-20), "basic"),
    account(dp_sgd_event(1.0, 0.01, 1000), "fourier"),
]


@pytest.mark.parametrize("curve", NO_FINITE_LOSS_IS_THE_LARGEST, ids=repr)
def test_delta_is_positive_however_large_epsilon_is(curve):
    delta = curve.delta([0.0, 1.0, 1e5, 1e154, 1e200, 1e300, 1.7e308])
    assert np.all(delta > 0)
    assert np.all(np.diff(delta) <= 0)
    assert curve.delta(math.inf) == 0


def test_the_smallest_pure_epsilon_has_a_delta():
    assert da.PureDP(5e-324).delta([0.0, 5e-324]).tolist() == [pytest.approx(2.2e-308, rel=0.1), 0]


def test_sums_and_products_of_stated_numbers_are_rounded_up():
    rng = np.random.default_rng(0)
    for _ in range(100):
        parts, (q, d) = 10 ** rng.uniform(-10, 0, 7), rng.uniform(size=2)
        epsilon, delta = composition.basic(parts, parts / 10)
        assert Fraction(epsilon) >= sum(map(Fraction, parts.tolist()))
        assert Fraction(delta) >= sum(map(Fraction, (parts / 10).tolist()))
        assert Fraction(composition.amplify(1.0, d, q)[1]) >= Fraction(q) * Fraction(d)
        assert composition.basic([epsilon, 0.0])[0] == epsilon  # nothing is added to nothing
    with mp.workdps(40):
        kept = (1 - mp.mpf(1e-9)) * mp.fprod(1 - mp.mpf(p) / 10 for p in parts.tolist())
        assert composition.advanced(parts, parts / 10, slack=1e-9)[1] >= 1 - kept


def test_prices_of_selections_are_rounded_up():
    orders, rng = np.array([1.1, 2.0, 8.0, 64.0]), np.random.default_rng(0)
    a = [mp.mpf(order) for order in orders.tolist()]
    for _ in range(60):
        runs, mean = 10 ** rng.uniform(-20, 1) * orders, 1 + 10 ** rng.uniform(-9, 5)
        deltas, shape = 10 ** rng.uniform(-9, 0, 4), float(rng.choice([0, 0.5, 1, 10]))
        with mp.workdps(40):
            r, d = ([mp.mpf(x) for x in values.tolist()] for values in (runs, deltas))
            g = mp.mpf(selection.gamma_of(mean, shape))
            m = shape * (1 - g) / (g * (1 - g**shape)) if shape else (1 - g) / (g * -mp.log(g))
            extra = min(
                [-mp.log(g)] + [((b - 1) * x - mp.log(g)) / b for b, x in zip(a, r, strict=True)]
            )
            for i in range(4):
                paid = r[i] + mean * d[i] + mp.log(mp.mpf(mean)) / (a[i] - 1)
                assert selection.poisson_price(orders, runs, deltas, mean)[i] >= paid
                paid = r[i] + (1 + mp.mpf(shape)) * extra + mp.log(m) / (a[i] - 1)
                assert selection.negative_binomial_price(orders, runs, mean, shape)[i] >= paid


def test_error_rates_from_supporting_lines_are_rounded_down():
    for epsilon in np.linspace(0.01, 3, 40).tolist():
        curve = Numeric("pure", delta_at=da.PureDP(epsilon).delta)
        corner = 1 / (1 + math.exp(epsilon))  # where the line of slope -1 touches
        with mp.workdps(40):
            growth, x = mp.e ** mp.mpf(epsilon), mp.mpf(corner)
            assert curve.tradeoff(corner) <= max(1 - growth * x, (1 - x) / growth)
