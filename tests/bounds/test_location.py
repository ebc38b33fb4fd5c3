import math

import numpy as np
import pytest
from scipy import stats

from dpassay.bounds import lower_bound, lower_bound_gaussian_location
from dpassay.bounds.location import _mu_of_known, _mu_of_unknown, noncentrality_lower
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from rates import assert_rate, assert_rate_at_most

TRIALS = 500


def epsilon(mu):
    return float(gaussian.epsilon_of(1e-5, mu))


def draws(mu, n_in, n_out, seed, s_in=1.0, s_out=1.0):
    rng = np.random.default_rng(seed)
    for _ in range(TRIALS):
        yield rng.normal(mu, s_in, n_in), rng.normal(0, s_out, n_out)


def too_large(mu, sigma, sample):
    """How often mu_lower exceeds mu; epsilon is a function of it, and slower."""
    if sigma is None:
        return sum(_mu_of_unknown(x, y, 0.05) > mu for x, y in sample)
    return sum(_mu_of_known(x, y, sigma, 0.05) > mu for x, y in sample)


@pytest.mark.parametrize("sigma", [1.0, None])
def test_it_errs_as_often_as_it_says(sigma):
    assert_rate(too_large(1.0, sigma, draws(1.0, 60, 40, seed=1)), TRIALS, 0.05)
    assert_rate(too_large(0.5, sigma, draws(0.5, 5, 7, seed=2)), TRIALS, 0.05)


def test_null_scores_show_nothing():
    assert_rate(too_large(0.0, None, draws(0.0, 30, 30, seed=3)), TRIALS, 0.05)


def larger_epsilon(mean, deviation):
    """epsilon(1e-5) of N(0, 1) against N(mean, deviation²), the larger direction, by brute force.

    The divergence is the integral of (p - e^epsilon q)+.
    """
    x = np.linspace(-12, 12 + mean, 200_001)
    p, q = stats.norm.pdf(x), stats.norm.pdf(x, mean, deviation)

    def exceeds(e):
        one, other = np.maximum(p - np.exp(e) * q, 0), np.maximum(q - np.exp(e) * p, 0)
        return max(one.sum(), other.sum()) * (x[1] - x[0]) > 1e-5

    low, high = 0.0, 50.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return low


@pytest.mark.parametrize(("mean", "deviation"), [(1.0, 0.9), (0.3, 0.5), (2.0, 0.2), (1.0, 1.0)])
def test_less_noise_than_sigma_in_one_world_only_adds_to_the_loss(mean, deviation):
    assert larger_epsilon(mean, deviation) >= epsilon(mean) * (1 - 1e-5)


def test_sigma_may_be_an_upper_bound():
    sample = draws(1.0, 40, 40, seed=4, s_in=0.7, s_out=0.9)
    assert_rate_at_most(too_large(1.0, 1.0, sample), TRIALS, 0.05)


def test_a_sigma_that_is_too_small_is_noticed():
    with pytest.raises(AssertionError):
        assert_rate_at_most(too_large(1.0, 0.8, draws(1.0, 60, 40, seed=1)), TRIALS, 0.05)


@pytest.mark.parametrize("df", [2, 3, 7, 100, 39_998])
@pytest.mark.parametrize("t", [1.0, 4.0, 60.0])
@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-6])
def test_limit_of_the_noncentrality(df, t, alpha):
    found = noncentrality_lower(t, df, alpha)
    if found == 0:
        assert stats.t.sf(t, df) >= alpha * (1 - 1e-4)
    else:
        assert stats.nct.sf(t, df, found) == pytest.approx(alpha, rel=2e-5)


def true_level(noncentrality, t, df):
    """P(T >= t) as E P(S <= (Z + noncentrality) / t), on a fine grid of Z."""
    z = np.linspace(max(-noncentrality, -40), 40, 200_001)
    chi = stats.chi2.cdf(df * ((z + noncentrality) / t) ** 2, df)
    return np.trapezoid(stats.norm.pdf(z) * chi, z)


@pytest.mark.parametrize("df", [2, 3, 20])
@pytest.mark.parametrize("t", [1e3, 1e4, 1e7])
@pytest.mark.parametrize("alpha", [0.3, 1e-3, 1e-6, 1e-9])
def test_the_level_is_kept_where_worlds_lie_far_apart(df, t, alpha):
    found = noncentrality_lower(t, df, alpha)
    if found > 0:
        assert true_level(found, t, df) == pytest.approx(alpha, rel=1e-5)
    else:
        assert stats.t.sf(t, df) >= alpha * (1 - 1e-4)


@pytest.mark.parametrize("size", [1e-300, 1e-100, 1e99])
def test_the_size_of_scores_does_not_matter(size):
    x, y = np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.3])
    wanted = lower_bound_gaussian_location(x, y, delta=1e-5, confidence=0.6)
    found = lower_bound_gaussian_location(size * x, size * y, delta=1e-5, confidence=0.6)
    assert found.details["mu_lower"] == pytest.approx(wanted.details["mu_lower"], rel=1e-9)
    assert wanted.details["mu_lower"] > 0.5


def test_worlds_without_noise_show_a_finite_number():
    for sigma in (1e-99, None):
        bound = lower_bound_gaussian_location([1.0, 1.0], [0.0, 5e-324], delta=1e-5, sigma=sigma)
        assert 1e100 < bound.epsilon < math.inf


def test_whole_scores_say_more_than_a_threshold():
    rng = np.random.default_rng(5)
    mu = float(gaussian.mu_of(4.0, 1e-5))
    x, y = rng.normal(mu, 1, 1000), rng.normal(0, 1, 1000)
    counted = lower_bound(x, y, delta=1e-5, method="gdp")
    whole = lower_bound_gaussian_location(x, y, delta=1e-5, sigma=1.0)
    assert counted.epsilon + 0.2 < whole.epsilon < 4.0
    assert "deviation at most 1" in str(whole)
    assert whole.ceiling == math.inf


def test_units_do_not_matter():
    rng = np.random.default_rng(6)
    x, y = rng.normal(1, 1, 100), rng.normal(0, 1, 100)
    for sigma in (1.0, None):
        one = lower_bound_gaussian_location(x, y, delta=1e-5, sigma=sigma)
        other = lower_bound_gaussian_location(
            7 * x + 3, 7 * y + 3, delta=1e-5, sigma=sigma and 7 * sigma
        )
        assert other.epsilon == pytest.approx(one.epsilon, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores_in": [-math.inf, 1.0]}, "method='gdp'"),
        ({"scores_out": [math.nan]}, "scores_out"),
        ({"scores_out": []}, "scores_out is empty"),
        ({"sigma": 0.0}, "sigma=0"),
        ({"sigma": math.nan}, "sigma=nan"),
        ({"delta": 0.0}, "delta=0"),
        ({"confidence": 0.3}, "confidence=0.3"),
        ({"scores_in": [1.0], "scores_out": [0.0]}, "takes 4"),
        ({"scores_in": [1.0, 1.0], "scores_out": [0.0, 0.0]}, "do not vary"),
        # The mean of three times 0.1 is not 0.1: rounding is no deviation.
        ({"scores_in": [0.1, 0.1, 0.1], "scores_out": [0.0, 0.0]}, "do not vary"),
        ({"scores_in": [1e200, 2.0]}, r"scores_in\[0\] must"),
        ({"sigma": 1e-200}, "sigma=1e-200"),
    ],
)
def test_misuse(change, message):
    asked = {"scores_in": [1.0, 2.0], "scores_out": [0.0, 0.5], "delta": 1e-5} | change
    with pytest.raises(InvalidArgument, match=message):
        lower_bound_gaussian_location(asked.pop("scores_in"), asked.pop("scores_out"), **asked)
