"""Every profile against the distributions that it is the worst case of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpassay.errors import UnsupportedEvent
from dpassay.privacy.events import (
    Approx,
    BoundedRange,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    Sampled,
    ZeroConcentrated,
)
from dpassay.privacy.profiles import profiles

POINTS = np.array([-3.0, -1.0, -0.4, -0.05, 0.0, 0.05, 0.4, 1.0, 1.9, 3.0])


GRID = np.linspace(-20, 21, 410_001)  # both centres are grid points, so no kink of Laplace is cut


def hockey_stick(p, q, x):
    """The integral of (p - e^x q)⁺ for densities on the line."""
    return np.trapezoid(np.maximum(p(GRID) - np.exp(x) * q(GRID), 0.0), GRID)


DENSITIES = {
    "gaussian": (Gaussian(0.8), lambda m: stats.norm(m, 0.8).pdf),
    "laplace": (Laplace(0.7), lambda m: stats.laplace(m, 0.7).pdf),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_additive_noise(name):
    event, density = DENSITIES[name]
    remove, add = profiles(event)
    assert remove is add
    for x in POINTS:
        assert remove(np.array([x]))[0] == pytest.approx(
            hockey_stick(density(1), density(0), x), abs=2e-7
        )


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("q", [0.1, 0.6])
def test_poisson_sampling_mixes_one_side(name, q):
    event, density = DENSITIES[name]
    with_record, without = density(1), density(0)

    def mixture(t):
        return (1 - q) * without(t) + q * with_record(t)

    remove, add = profiles(Sampled(event, q))
    for x in POINTS:
        assert remove(np.array([x]))[0] == pytest.approx(
            hockey_stick(mixture, without, x), abs=2e-7
        )
        assert add(np.array([x]))[0] == pytest.approx(hockey_stick(without, mixture, x), abs=2e-7)


def test_sampling_at_rate_one_is_no_sampling():
    remove, add = profiles(Sampled(Gaussian(1.3), 1.0))
    plain = profiles(Gaussian(1.3))[0](POINTS)
    np.testing.assert_allclose(remove(POINTS), plain, atol=1e-14)
    np.testing.assert_allclose(add(POINTS), plain, atol=1e-14)


def pair_profile(p, q, x):
    return np.maximum(p - np.exp(x)[:, None] * q, 0).sum(axis=1)


@pytest.mark.parametrize(
    ("event", "p"),
    [
        (Pure(0.9), [1 / (1 + np.exp(-0.9)), 1 / (1 + np.exp(0.9))]),
        (Approx(0.9, 0.1), [0.1, 0.9 / (1 + np.exp(-0.9)), 0.9 / (1 + np.exp(0.9)), 0.0]),
        (RandomizedResponse(0.4, 4), [0.7, 0.1, 0.1, 0.1]),
    ],
)
def test_discrete_pairs(event, p):
    p = np.array(p)
    q = np.array([p[1], p[0], *p[2:]]) if isinstance(event, RandomizedResponse) else p[::-1]
    np.testing.assert_allclose(profiles(event)[0](POINTS), pair_profile(p, q, POINTS), atol=1e-14)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 4), st.integers(2, 6))
def test_bounded_range_dominates_every_exponential_mechanism(seed, epsilon, size):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=size) * 3
    moved = scores + rng.uniform(-1, 1, size)
    p, q = (np.exp(epsilon / 2 * s) / np.exp(epsilon / 2 * s).sum() for s in (scores, moved))
    assert np.all(pair_profile(p, q, POINTS) <= profiles(BoundedRange(epsilon))[0](POINTS) + 1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_bounded_range_is_attained(epsilon):
    """At each x some two-valued loss on {t - epsilon, t} reaches it."""
    profile = profiles(BoundedRange(epsilon))[0]
    for x in np.linspace(-0.9 * epsilon, 0.9 * epsilon, 7):
        t = np.linspace(0, epsilon, 20001)
        top = (np.exp(epsilon) - np.exp(t)) / np.expm1(epsilon)
        best = np.max(
            top * np.maximum(-np.expm1(x - t), 0)
            + (1 - top) * np.maximum(-np.expm1(x - t + epsilon), 0)
        )
        assert profile(np.array([x]))[0] == pytest.approx(best, rel=1e-6)


def test_mutant_with_less_noise_is_seen():
    """The comparison is sharp enough to tell noise that is 10 % too small."""
    event, density = DENSITIES["gaussian"]
    mutant = profiles(Gaussian(0.9 * event.noise_multiplier))[0](np.array([1.0]))[0]
    assert abs(mutant - hockey_stick(density(1), density(0), 1.0)) > 1e-3


@pytest.mark.parametrize(
    "event",
    [
        ZeroConcentrated(0.1),
        Sampled(Gaussian(1.0, "replace-one"), 0.1),
        Sampled(Sampled(Gaussian(1.0), 0.1), 0.1),
    ],
)
def test_what_has_no_profile_is_refused_by_name(event):
    with pytest.raises(UnsupportedEvent, match=type(event).__name__):
        profiles(event)
