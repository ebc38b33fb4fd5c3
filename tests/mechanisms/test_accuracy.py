"""Accuracy statements: exact where they say so, and met by what the mechanisms draw."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import (
    exponential,
    exponential_accuracy,
    gaussian,
    gaussian_accuracy,
    laplace,
    laplace_accuracy,
)
from mechanisms.levels import permute_and_flip_law, softmax_law
from rates import assert_rate, assert_rate_at_most

N, K, BETA = 20_000, 5, 0.1


def exceeding(mechanism, t, **privacy):
    """In how many of N releases of K entries the noise exceeds t somewhere."""
    release = mechanism(np.zeros((N, K)), sensitivity=2.0, rng=1, **privacy)
    return np.sum(np.abs(release.value).max(axis=1) >= t)


@pytest.mark.parametrize(
    ("mechanism", "accuracy", "privacy"),
    [
        (laplace, laplace_accuracy, {"epsilon": 0.5}),
        (gaussian, gaussian_accuracy, {"rho": 0.3}),
        (gaussian, gaussian_accuracy, {"epsilon": 1.0, "delta": 1e-5}),
    ],
)
def test_additive_noise_exceeds_it_with_probability_beta(mechanism, accuracy, privacy):
    t = accuracy(BETA, sensitivity=2.0, n_queries=K, **privacy)
    union = accuracy(BETA, sensitivity=2.0, n_queries=K, method="union", **privacy)
    assert t <= union <= 1.05 * t
    assert_rate(exceeding(mechanism, t, **privacy), N, BETA)
    assert_rate_at_most(exceeding(mechanism, union, **privacy), N, BETA)
    with pytest.raises(AssertionError):  # a mutant: 10 % less is exceeded too often
        assert_rate_at_most(exceeding(mechanism, 0.9 * t, **privacy), N, BETA)


@pytest.mark.golden
def test_closed_forms():
    assert laplace_accuracy(0.05, sensitivity=3.0, epsilon=1.5) == pytest.approx(
        2 * math.log(20), rel=1e-12
    )
    assert laplace_accuracy(
        0.05, sensitivity=3.0, epsilon=1.5, n_queries=10, method="union"
    ) == pytest.approx(2 * math.log(200), rel=1e-12)
    # The 97.5 % point of the normal distribution.
    assert gaussian_accuracy(0.05, sensitivity=1.0, mu=1.0) == pytest.approx(1.959963984540054)
    # sigma (log R + log 1/beta) with sigma = 2 sensitivity / epsilon.
    assert exponential_accuracy(
        0.05, sensitivity=1.0, epsilon=0.5, n_candidates=7, method="union"
    ) == pytest.approx(4 * math.log(7 / 0.05))


@given(beta=st.floats(1e-12, 1 - 1e-9), k=st.integers(1, 10**9))
def test_union_is_never_below_exact(beta, k):
    for method in ("laplace", "gaussian", "exponential"):
        accuracy, rest = {
            "laplace": (laplace_accuracy, {"epsilon": 1.0, "n_queries": k}),
            "gaussian": (gaussian_accuracy, {"mu": 1.0, "n_queries": k}),
            "exponential": (exponential_accuracy, {"epsilon": 1.0, "n_candidates": k}),
        }[method]
        least = accuracy(beta, sensitivity=1.0, **rest)
        assert 0 <= least <= accuracy(beta, sensitivity=1.0, method="union", **rest) + 1e-9


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("beta", [0.01, 0.2])
def test_exponential_accuracy_is_the_least_that_always_holds(beta, monotone):
    n, epsilon = 6, 1.3
    scale = (1 if monotone else 2) / epsilon
    a = exponential_accuracy(
        beta, sensitivity=1.0, epsilon=epsilon, n_candidates=n, monotone=monotone
    )
    worst = softmax_law([0.0] + [-a] * (n - 1), scale)
    assert worst[1:].sum() == pytest.approx(beta, rel=1e-9)
    rng = np.random.default_rng(2)
    for _ in range(200):
        scores = rng.uniform(-2 * a, 0, n)
        short = scores < scores.max() - a
        assert softmax_law(scores, scale)[short].sum() <= beta + 1e-12
        flipped = permute_and_flip_law(scores[:4], scale)
        for limit in (0.2 * a, 0.5 * a, a):  # never worse, at any shortfall
            late = scores[:4] < scores[:4].max() - limit
            assert flipped[late].sum() <= softmax_law(scores[:4], scale)[late].sum() + 1e-12


def test_exponential_accuracy_is_met_by_draws():
    n, beta = 50, 0.1
    a = exponential_accuracy(beta, sensitivity=1.0, epsilon=1.0, n_candidates=n)
    scores = np.array([0.0] + [-a * 1.0000001] * (n - 1))
    rng = np.random.default_rng(3)
    bad = sum(
        exponential(scores, sensitivity=1.0, epsilon=1.0, rng=rng).value > 0 for _ in range(N)
    )
    assert_rate(bad, N, beta)


def test_nothing_to_choose_is_never_wrong():
    assert exponential_accuracy(0.5, sensitivity=1.0, epsilon=1.0, n_candidates=1) == 0.0
    assert exponential_accuracy(0.6, sensitivity=1.0, epsilon=1.0, n_candidates=2) == 0.0


@pytest.mark.parametrize("beta", [0, 1, -0.1, 1.5, math.nan, math.inf, "x"])
def test_beta_is_a_probability(beta):
    for accuracy, rest in (
        (laplace_accuracy, {"epsilon": 1.0}),
        (gaussian_accuracy, {"mu": 1.0}),
        (exponential_accuracy, {"epsilon": 1.0, "n_candidates": 3}),
    ):
        with pytest.raises(InvalidArgument, match="beta="):
            accuracy(beta, sensitivity=1.0, **rest)
