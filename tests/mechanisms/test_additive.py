"""Laplace and Gaussian noise: the law at every level, the calibration, the shape of a release."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import laplace as laplace_law
from scipy.stats import norm

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import gaussian, gaussian_multiplier, laplace
from dpassay.privacy import events
from dpassay.privacy.gaussian import delta_of
from mechanisms.levels import LEVELS, rng_of
from rates import assert_rate

N = 20_000


def assert_law(noise, law):
    """Counts beyond some points must be plausible under the law; false alarm 6e-9 in all."""
    scale = law.std()
    for point in (-scale, 0.0, scale / 2):
        assert_rate(np.sum(noise > point), noise.size, law.sf(point))
    for point in (scale, 1.5 * scale, 3 * scale):
        assert_rate(np.sum(np.abs(noise) > point), noise.size, 2 * law.sf(point))


@pytest.mark.parametrize("level", LEVELS)
class TestLaw:
    """Every level draws what it says, and noise that is 10 % too small is noticed."""

    def noise(self, mechanism, level, sensitivity, **privacy):
        values, rng = np.full(N, 5.0), rng_of(level)
        release = mechanism(values, sensitivity=sensitivity, rng=rng, **privacy)
        assert release.noise == level
        return release.value - 5.0

    def test_laplace(self, level):
        assert_law(self.noise(laplace, level, 3.0, epsilon=1.5), laplace_law(scale=2.0))

    def test_laplace_too_small(self, level):
        noise = self.noise(laplace, level, 2.7, epsilon=1.5)
        with pytest.raises(AssertionError):
            assert_law(noise, laplace_law(scale=2.0))

    def test_gaussian(self, level):
        assert_law(self.noise(gaussian, level, 3.0, mu=1.5), norm(scale=2.0))

    def test_gaussian_too_small(self, level):
        noise = self.noise(gaussian, level, 2.7, mu=1.5)
        with pytest.raises(AssertionError):
            assert_law(noise, norm(scale=2.0))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("mechanism", "privacy", "excess"), [(laplace, "epsilon", 5.0), (gaussian, "mu", 2.0)]
)
def test_variance(level, mechanism, privacy, excess):
    """Of 10⁵ draws; a tenth too little noise is a fifth too little variance."""
    n, scale = 100_000, 2.0
    release = mechanism(np.zeros(n), sensitivity=scale, rng=rng_of(level), **{privacy: 1.0})
    variance = scale**2 * (2 if mechanism is laplace else 1)
    ratio = np.mean(release.value**2) / variance
    # The variance of x² is (kurtosis - 1) variances²: 5 for Laplace, 2 for Gaussian noise.
    limit = 6.2 * math.sqrt(excess / n)
    assert abs(ratio - 1) < limit
    assert abs(0.9**2 * ratio - 1) > limit


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("mechanism", "privacy"), [(laplace, {"epsilon": 1.0}), (gaussian, {"mu": 1.0})]
)
def test_shapes(level, mechanism, privacy):
    def release(value):
        return mechanism(value, sensitivity=1e-12, rng=rng_of(level), **privacy).value

    assert type(release(2)) is float
    assert type(release(np.float32(2))) is float
    assert release(2) == pytest.approx(2, abs=1e-9)
    values = np.arange(6.0).reshape(2, 3)
    assert release(values) == pytest.approx(values, abs=1e-9)
    assert release([]).shape == (0,)
    assert values.tolist() == [[0, 1, 2], [3, 4, 5]]  # the caller's array is left alone


def test_entries_have_noise_of_their_own():
    for level in LEVELS:
        noise = laplace(np.zeros(50), sensitivity=1.0, epsilon=1.0, rng=rng_of(level)).value
        assert len(np.unique(noise)) == 50


def test_reproducible():
    def release(rng):
        return gaussian(np.zeros(4), sensitivity=1.0, mu=1.0, rng=rng).value

    assert np.array_equal(release(3), release(3))
    assert not np.array_equal(release(3), release(4))
    generator = np.random.default_rng(3)
    assert np.array_equal(release(generator), release(3))
    assert not np.array_equal(release(generator), release(3))  # the generator has moved on
    secure = [release(None) for _ in range(2)]
    assert not np.array_equal(*secure)


def test_map_keeps_what_it_cost():
    release = laplace(2.0, sensitivity=1.0, epsilon=0.5, rng=0, neighbouring="replace-one")
    rounded = release.map(round)
    assert rounded.value == round(release.value)
    assert isinstance(rounded.value, int)
    assert rounded.event == release.event == events.Laplace(2.0, "replace-one")
    assert (rounded.sensitivity, rounded.noise) == (1.0, "reproducible")


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "sigma"),
    # The exact curve of Balle and Wang (2018) at delta = 1e-6, computed independently.
    [(0.5, 8.057618), (1, 4.224679), (2, 2.230476), (4, 1.193519), (8, 0.652935), (16, 0.368612)],
)
def test_analytic_multiplier(epsilon, sigma):
    assert gaussian_multiplier(epsilon=epsilon, delta=1e-6) == pytest.approx(sigma, abs=6e-7)


@given(epsilon=st.floats(1e-3, 60), delta=st.floats(1e-12, 0.5))
def test_analytic_multiplier_is_enough_and_not_more(epsilon, delta):
    multiplier = gaussian_multiplier(epsilon=epsilon, delta=delta)
    # delta_of errs upwards, by a margin of its own beyond the one that the multiplier has.
    assert delta_of(np.asarray(epsilon), np.asarray(1 / multiplier)) <= delta * (1 + 1e-12)
    assert delta_of(np.asarray(epsilon), np.asarray(1 / (multiplier * (1 - 1e-9)))) > delta


def test_classic_formula_is_not_enough_at_large_epsilon():
    classic = math.sqrt(2 * math.log(1.25 / 1e-6)) / 16
    assert classic < gaussian_multiplier(epsilon=16, delta=1e-6)
    assert delta_of(np.asarray(16.0), np.asarray(1 / classic)) > 30e-6


def test_statements_of_privacy_agree():
    assert gaussian_multiplier(rho=0.125) == gaussian_multiplier(mu=0.5) == 2.0
    event = gaussian(0.0, sensitivity=7.0, epsilon=1.0, delta=1e-6, rng=0).event
    assert event == events.Gaussian(gaussian_multiplier(epsilon=1.0, delta=1e-6), "add-remove")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"epsilon": 1.0},
        {"delta": 1e-6},
        {"epsilon": 1.0, "delta": 1e-6, "rho": 0.1},
        {"rho": 0.1, "mu": 1.0},
        {"epsilon": 1.0, "rho": 0.1},
    ],
)
def test_gaussian_takes_exactly_one_statement(given):
    with pytest.raises(InvalidArgument, match="exactly one of"):
        gaussian(0.0, sensitivity=1.0, **given)


@pytest.mark.parametrize("sensitivity", [1e-301, 1e301])
def test_scales_where_floats_end_are_refused(sensitivity):
    with pytest.raises(InvalidArgument, match="other units"):
        laplace(0.0, sensitivity=sensitivity, epsilon=1.0)
