import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.privacy.events import Gaussian, Sampled
from dpassay.privacy.profiles import profiles
from dpassay.privacy.tradeoff import Tradeoff, supporting_lines

EPSILONS = np.linspace(0, 4, 41)


def of_pair(p, q):
    """The trade-off of a discrete pair by the Neyman-Pearson lemma: the lower hull of all tests."""
    order = np.argsort(-p / np.maximum(q, 1e-300))
    fpr = np.concatenate([[0], np.cumsum(q[order])])
    fnr = np.concatenate([[1], 1 - np.cumsum(p[order])])
    return Tradeoff(np.append(fpr[:-1], 1.0), np.clip(np.append(fnr[:-1], 0.0), 0, 1))


@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_delta_of_a_discrete_pair(seed, size):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
    f = of_pair(p, q)
    for x in (0.0, 0.3, 1.0, 2.0):
        one = np.maximum(p - np.exp(x) * q, 0).sum()
        other = np.maximum(q - np.exp(x) * p, 0).sum()
        assert f.delta(x) == pytest.approx(max(one, other), abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_inverse_exchanges_the_two_worlds(seed, size):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
    x = np.linspace(0, 1, 33)
    np.testing.assert_allclose(of_pair(p, q).inverse()(x), of_pair(q, p)(x), atol=1e-9)


def test_there_and_back():
    """delta(epsilon) -> f -> delta(epsilon)."""
    for curve in (da.GDP(0.7), da.PureDP(1.0), da.ApproxDP(0.5, 1e-3)):
        f = Tradeoff.sample(supporting_lines(curve.delta))
        np.testing.assert_allclose(f.delta(EPSILONS), curve.delta(EPSILONS), atol=2e-4)


def test_lines_never_lie_above_the_function():
    x = np.concatenate([np.linspace(0, 1, 201), np.logspace(-9, -1, 50)])
    for curve in (da.GDP(0.2), da.GDP(1.0), da.GDP(4.0)):
        approximate, exact = supporting_lines(curve.delta)(x), curve.tradeoff(x)
        assert np.all(approximate <= exact + 1e-12)
        np.testing.assert_allclose(approximate, exact, atol=1e-5)


def test_symmetrise_is_below_both_and_convex():
    f = of_pair(np.array([0.1, 0.2, 0.7]), np.array([0.5, 0.3, 0.2]))
    g = f.symmetrise()
    x = np.linspace(0, 1, 101)
    assert np.all(g(x) <= np.minimum(f(x), f.inverse()(x)) + 1e-12)
    assert np.all(np.diff(np.diff(g(x))) >= -1e-9)
    np.testing.assert_allclose(g(x), g.inverse()(x), atol=1e-9)


@pytest.mark.parametrize("q", [0.05, 0.3, 1.0])
def test_subsampling_operator_is_the_profile_of_sampling_without_replacement(q):
    f = Tradeoff.sample(da.GDP(1.5).tradeoff, points=20001).subsample(q)
    event = Sampled(Gaussian(1 / 1.5, "replace-one"), q, "without-replacement")
    np.testing.assert_allclose(f.delta(EPSILONS), profiles(event)[0](EPSILONS), atol=2e-7)


def test_subsampling_before_convexification_is_asymmetric():
    f = Tradeoff.sample(da.GDP(1.5).tradeoff)
    mixed = f.mix(0.3)
    x = np.linspace(0.01, 0.99, 50)
    assert np.max(np.abs(mixed(x) - mixed.inverse()(x))) > 0.01
    np.testing.assert_allclose(mixed(x), 0.3 * f(x) + 0.7 * (1 - x), atol=1e-12)


@pytest.mark.parametrize(
    ("fpr", "fnr"),
    [
        ([0, 1], [1, 0, 0]),
        ([0.1, 1], [1, 0]),
        ([0, 0.5, 0.5, 1], [1, 0.5, 0.4, 0]),
        ([0, 1], [np.nan, 0]),
    ],
)
def test_bad_points(fpr, fnr):
    with pytest.raises(InvalidArgument):
        Tradeoff(np.array(fpr, float), np.array(fnr, float))
