import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.privacy.membership import (
    attack_limits,
    odds_of_curve,
    odds_of_gaussian,
    odds_of_laplace,
    posterior_bounds,
    posterior_bounds_loose,
)


@given(st.floats(0.01, 0.99), st.floats(0, 5), st.floats(-1, 1))
def test_posterior_of_any_output_lies_within(prior, epsilon, share):
    ratio = math.exp(share * epsilon)  # of the likelihoods with and without the record
    posterior = prior * ratio / (prior * ratio + 1 - prior)
    low, high = posterior_bounds(prior, epsilon)
    assert low - 1e-12 <= posterior <= high + 1e-12
    wide_low, wide_high = posterior_bounds_loose(prior, epsilon)
    assert wide_low <= low + 1e-12
    assert wide_high >= high - 1e-12


def test_sharp_bounds_are_attained():
    assert posterior_bounds(0.2, 1.0)[1] == pytest.approx(0.2 * math.e / (0.2 * math.e + 0.8))


@pytest.mark.golden
def test_accuracy_limit():
    # (e^eps + delta)/(1 + e^eps) at epsilon = 1: .7311.
    assert attack_limits(da.PureDP(1.0)).accuracy == pytest.approx(0.7311, abs=5e-5)
    limits = attack_limits(da.ApproxDP(1.0, 0.01))
    assert limits.accuracy == pytest.approx((math.e + 0.01) / (1 + math.e))
    assert limits.advantage == pytest.approx((math.e - 1 + 0.02) / (math.e + 1))


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3))
def test_no_attack_beats_the_limits(seed, epsilon):
    """Any test of an epsilon-DP mechanism, here a random post-processing of randomized response."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + math.exp(-epsilon))
    channel = rng.dirichlet(np.ones(5), size=2)
    with_record, without = (w @ channel for w in (np.array([p, 1 - p]), np.array([1 - p, p])))
    guess_in = rng.random(5)
    tpr, fpr = with_record @ guess_in, without @ guess_in
    limits = attack_limits(da.PureDP(epsilon), fpr=fpr)
    assert (tpr + 1 - fpr) / 2 <= limits.accuracy + 1e-12
    assert tpr - fpr <= limits.advantage + 1e-12
    assert tpr <= limits.tpr + 1e-12


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "laplace", "worst"),
    [(0.1, 48, 48), (0.5, 39, 38), (1, 30, 27), (2, 18, 12), (4, 7, 2)],
)
def test_odds_out_of_a_hundred(epsilon, laplace, worst):
    # Nanayakkara et al. 2023 print 39 and 61 for a Laplace count at epsilon = 0.5.
    assert round(100 * odds_of_laplace(epsilon).if_out) == laplace
    assert round(100 * odds_of_curve(da.PureDP(epsilon)).if_out) == worst


def test_odds_of_gaussian_releases():
    mu = 1 / da.privacy.gaussian_noise_multiplier(1.0, 1e-5)
    by_pair, by_curve = odds_of_gaussian(1.0, 1e-5), odds_of_curve(da.GDP(mu))
    assert by_pair.if_out == pytest.approx(by_curve.if_out)
    assert by_pair.if_in == pytest.approx(1 - by_pair.if_out)
    general = odds_of_curve(da.ApproxDP(1.0, 1e-5)).if_out
    assert general == pytest.approx((1 - 1e-5) / (1 + math.e), abs=1e-9)
    assert general < by_pair.if_out


@pytest.mark.parametrize(
    "call",
    [
        lambda: posterior_bounds(0.0, 1.0),
        lambda: posterior_bounds(1.0, 1.0),
        lambda: posterior_bounds(float("nan"), 1.0),
        lambda: posterior_bounds(0.5, -1.0),
        lambda: posterior_bounds_loose(0.5, float("nan")),
        lambda: attack_limits(da.GDP(1.0), fpr=1.5),
        lambda: odds_of_laplace(-1.0),
        lambda: odds_of_gaussian(1.0, 1.0),
    ],
)
def test_bad_values(call):
    with pytest.raises(InvalidArgument):
        call()
