import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpassay as da
from dpassay.errors import CalibrationError, InvalidArgument
from dpassay.privacy import (
    BoundedRange,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    Repeated,
    account,
    calibrate,
    dp_sgd_event,
    exponential_epsilon,
    gaussian_noise_multiplier,
    laplace_noise_multiplier,
    randomized_response_noise,
)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "q", "steps", "expected"),
    [(2, 0.01, 1000, 0.959103), (8, 0.004, 15000, 0.648180), (8, 0.1, 100_000, 18.997786)],
)
def test_dp_sgd(epsilon, q, steps, expected):
    # dp-accounting 0.6.0: calibrate_dp_mechanism with PLD.
    noise = calibrate(lambda s: dp_sgd_event(s, q, steps), da.ApproxDP(epsilon, 1e-5))
    assert noise == pytest.approx(expected, rel=1e-5)
    price = account(dp_sgd_event(noise, q, steps)).epsilon(1e-5)
    assert epsilon * (1 - 2e-6) <= price <= epsilon


@settings(max_examples=5)
@given(st.floats(0.2, 8), st.floats(-8, -3), st.floats(0.005, 0.3), st.integers(1, 500))
def test_calibrate_then_account_is_never_above_the_target(epsilon, exponent, q, steps):
    target = da.ApproxDP(epsilon, 10.0**exponent)
    noise = calibrate(lambda s: dp_sgd_event(s, q, steps), target)
    price = account(dp_sgd_event(noise, q, steps)).epsilon(target.delta_upper)
    assert price <= epsilon
    assert price >= epsilon * (1 - 1e-4)


@pytest.mark.parametrize("method", ["rdp", "zcdp", "gdp", "advanced", "basic", "pld"])
def test_the_method_asked_for_decides(method):
    noise = calibrate(lambda s: Repeated(Gaussian(s), 10), da.ApproxDP(1.0, 1e-6), method=method)
    price = account(Repeated(Gaussian(noise), 10), method).epsilon(1e-6)
    assert price == pytest.approx(1.0, rel=1e-5)
    assert price <= 1.0
    assert noise >= calibrate(lambda s: Repeated(Gaussian(s), 10), da.ApproxDP(1.0, 1e-6)) * (
        1 - 1e-9
    )


def test_other_targets():
    assert calibrate(Gaussian, da.ZCDP(0.5)) == pytest.approx(1.0)
    assert calibrate(lambda s: Repeated(Gaussian(s), 4), da.GDP(0.5)) == pytest.approx(4.0)
    assert calibrate(Laplace, da.PureDP(0.5)) == pytest.approx(2.0)
    assert calibrate(lambda s: Repeated(Laplace(s), 3), da.PureDP(0.5)) == pytest.approx(6.0)
    assert account(Laplace(calibrate(Laplace, da.PureDP(0.3))), "basic").epsilon(0.0) <= 0.3
    selections = calibrate(lambda s: Repeated(BoundedRange(1 / s), 100), da.ApproxDP(1.0, 1e-6))
    assert 1 / selections == pytest.approx(0.044142, abs=1e-5)  # zCDP decides here
    selections = calibrate(
        lambda s: Repeated(BoundedRange(1 / s), 100), da.ApproxDP(1.0, 1e-6), method="exponential"
    )
    assert 1 / selections == pytest.approx(0.04735, abs=2e-5)
    one = calibrate(lambda s: Repeated(BoundedRange(1 / s), 1), da.ApproxDP(10.0, 1e-6))
    assert 10 <= 1 / one < 10.01  # tries hundreds on its way


def test_a_target_out_of_reach():
    with pytest.raises(CalibrationError, match="1e12"):
        calibrate(lambda s: Pure(1.0), da.ApproxDP(0.5, 1e-6))


def test_targets_that_are_refused():
    estimate = account(dp_sgd_event(1.0, 0.1, 10), "gdp-clt")
    with pytest.raises(InvalidArgument, match="estimate"):
        calibrate(Gaussian, estimate)
    with pytest.raises(InvalidArgument, match="method="):
        calibrate(Gaussian, da.ApproxDP(1, 1e-5), method="gdp-clt")
    with pytest.raises(InvalidArgument, match="target="):
        calibrate(Gaussian, da.RDP([2.0], [0.1]))


# Closed forms


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "sigma"),
    [(0.5, 8.057618), (1, 4.224679), (2, 2.230476), (4, 1.193519), (8, 0.652935), (16, 0.368612)],
)
def test_analytic_gaussian(epsilon, sigma):
    # Balle and Wang 2018 at delta = 1e-6.
    assert gaussian_noise_multiplier(epsilon, 1e-6) == pytest.approx(sigma, abs=6e-7)
    assert da.GDP(1 / gaussian_noise_multiplier(epsilon, 1e-6)).delta(epsilon) <= 1e-6
    assert calibrate(Gaussian, da.ApproxDP(epsilon, 1e-6)) == pytest.approx(sigma, abs=6e-7)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "delta", "at_delta"),
    [(1, 3.20e-9, 0.7837), (8, 6.51e-7, 7.8664), (16, 3.18e-5, 18.3138)],
)
def test_the_classic_formula_under_noises_at_large_epsilon(epsilon, delta, at_delta):
    classic = da.GDP(epsilon / math.sqrt(2 * math.log(1.25e6)))
    assert classic.delta(epsilon) == pytest.approx(delta, rel=5e-3)
    assert classic.epsilon(1e-6) == pytest.approx(at_delta, abs=6e-5)


@given(st.floats(0.01, 10), st.integers(2, 30))
def test_randomized_response_has_the_epsilon_it_was_made_for(epsilon, k):
    noise = randomized_response_noise(epsilon, k)
    truth, other = 1 - noise + noise / k, noise / k
    assert math.log(truth / other) == pytest.approx(epsilon)
    price = account(RandomizedResponse(noise, k), "basic").epsilon(0.0)
    assert price == pytest.approx(epsilon)


def test_laplace_and_exponential():
    assert laplace_noise_multiplier(0.25) == 4
    assert exponential_epsilon(0.024355970, 100) == pytest.approx(0.044142, abs=1e-6)
    spent = account(Repeated(BoundedRange(exponential_epsilon(0.1, 7)), 7), "zcdp").rho
    assert spent == pytest.approx(0.1)


BAD = [
    (lambda v: gaussian_noise_multiplier(v, 1e-5), "epsilon", [-1, np.nan, np.inf]),
    (lambda v: gaussian_noise_multiplier(1.0, v), "delta", [0, 1, -1, np.nan]),
    (lambda v: laplace_noise_multiplier(v), "epsilon", [0, -1, np.nan]),
    (lambda v: randomized_response_noise(v), "epsilon", [-1, np.nan]),
    (lambda v: randomized_response_noise(1.0, v), "n_categories", [1, 2.5]),
    (lambda v: exponential_epsilon(v), "rho", [0, -1, np.nan]),
    (lambda v: exponential_epsilon(0.1, v), "count", [0, 1.5]),
]


@pytest.mark.parametrize(("call", "name", "value"), [(c, n, v) for c, n, vs in BAD for v in vs])
def test_bad_values_are_named(call, name, value):
    with pytest.raises(InvalidArgument, match=name):
        call(value)
