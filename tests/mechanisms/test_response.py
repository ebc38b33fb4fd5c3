"""Randomized response: its law, its exact probability, and unbiased estimates by enumeration."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import (
    estimate_frequencies,
    frequency_variance,
    laplace,
    randomized_response,
)
from dpassay.mechanisms.response import _uniform_below, noise_probability
from dpassay.privacy import events
from dpassay.types import Release
from mechanisms.levels import LEVELS, rng_of
from rates import assert_rate

N = 20_000


def report_rate(epsilon, k):
    """P(a category is reported as itself)."""
    return math.exp(epsilon) / (math.exp(epsilon) + k - 1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("k", [2, 3, 7])
def test_law(level, k):
    epsilon = 1.2
    truth = np.full(N, 1)
    release = randomized_response(truth, n_categories=k, epsilon=epsilon, rng=rng_of(level))
    assert release.noise == level
    stays = report_rate(epsilon, k)
    assert_rate(np.sum(release.value == 1), N, stays)
    for other in set(range(k)) - {1}:
        assert_rate(np.sum(release.value == other), N, (1 - stays) / (k - 1))
    with pytest.raises(AssertionError):  # a mutant: the uniform draw never gives the truth
        assert_rate(np.sum(release.value == 1), N, 1 - noise_probability(epsilon, k))


@given(epsilon=st.floats(1e-18, 800), k=st.integers(2, 1000))
def test_probability_is_never_too_small(epsilon, k):
    p = Fraction(noise_probability(epsilon, k))
    assert 0 < p <= 1
    assert p * 2**53 == int(p * 2**53)
    with localcontext() as context:
        context.prec = 400
        needed = Decimal(k) / (Decimal(epsilon).exp() - 1 + k)
        found = Decimal(p.numerator) / Decimal(p.denominator)
        assert found >= needed
        assert found <= needed * (1 + Decimal(2) ** -49) + Decimal(2) ** -53


def test_uniform_draws_reject_the_last_incomplete_block():
    class Words:
        def __init__(self, *pieces):
            self.pieces = iter(pieces)

        def words(self, n):
            return np.array(next(self.pieces), dtype=np.uint64)

    # 2^64 = 1 (mod 3): the last word belongs to no complete block and is drawn again.
    assert _uniform_below(3, 3, Words([2**64 - 1, 2**64 - 2, 4], [2**64 - 1], [5])).tolist() == [
        2,
        2,
        1,
    ]
    assert _uniform_below(4, 1, Words([2**64 - 1])).tolist() == [3]


def test_categories_by_name_and_shapes():
    values = np.array([["no", "yes"], ["never", "no"]])
    release = randomized_response(values, categories=["yes", "no", "never"], epsilon=60.0, rng=0)
    assert np.array_equal(release.value, values)
    assert release.event.n_categories == 3
    one = randomized_response("no", categories=["yes", "no"], epsilon=60.0, rng=0)
    assert one.value == "no"
    assert type(one.value) is str
    assert type(randomized_response(True, n_categories=2, epsilon=1.0).value) is int
    assert randomized_response([], n_categories=2, epsilon=1.0).value.shape == (0,)


def test_event_is_that_of_one_respondent():
    many, one = (randomized_response(v, n_categories=4, epsilon=1.0) for v in ([0] * 99, 0))
    assert many.event == one.event == events.RandomizedResponse(noise_probability(1.0, 4), 4)
    assert (many.sensitivity, many.noise) == (1.0, "exact")


def enumerate_estimates(truth, k, epsilon):
    """All reports with their probabilities, and the estimate from each."""
    event = events.RandomizedResponse(noise_probability(epsilon, k), k)
    q = event.noise_probability / k
    chances, estimates = [], []
    for reports in product(range(k), repeat=len(truth)):
        hits = np.where(np.equal(reports, truth), 1 - event.noise_probability + q, q)
        chances.append(math.prod(hits))
        estimates.append(estimate_frequencies(Release(np.array(reports), event, 1.0, "exact")))
    return event, np.array(chances), estimates


@pytest.mark.parametrize(("truth", "k"), [((0, 1, 1), 2), ((0, 0, 2), 3), ((1, 3), 4)])
def test_estimates_and_their_variances_are_unbiased(truth, k):
    event, chances, estimates = enumerate_estimates(truth, k, 0.9)
    assert chances.sum() == pytest.approx(1)
    shares = np.bincount(truth, minlength=k) / len(truth)
    frequencies = np.array([e.frequencies for e in estimates])
    assert frequencies.sum(axis=1) == pytest.approx(1)
    assert chances @ frequencies == pytest.approx(shares)
    variance = chances @ (frequencies - shares) ** 2
    assert frequency_variance(shares, len(truth), event) == pytest.approx(variance)
    assert chances @ np.array([e.variances for e in estimates]) == pytest.approx(variance)


@pytest.mark.golden
def test_variance_of_two_categories():
    # epsilon = log((1/2 + g)/(1/2 - g)): variance (1/4 - g²)/(4 g² n), whatever the share.
    g, n = 0.2, 50
    epsilon = math.log((0.5 + g) / (0.5 - g))
    event = events.RandomizedResponse(noise_probability(epsilon, 2), 2)
    expected = (0.25 - g * g) / (4 * g * g * n)
    assert frequency_variance([0.0, 0.3, 1.0], n, event) == pytest.approx([expected] * 3)


def test_estimates_from_named_categories():
    release = randomized_response(
        ["a"] * 30_000 + ["b"] * 10_000, categories=["b", "c", "a"], epsilon=3.0, rng=4
    )
    estimate = estimate_frequencies(release, ["b", "c", "a"])
    spread = 7 * np.sqrt(estimate.variances)  # Bernstein: beyond 7 deviations below 1e-9
    assert np.all(np.abs(estimate.frequencies - [0.25, 0.0, 0.75]) < spread)
    assert spread.max() < 0.02


def test_misuse():
    with pytest.raises(InvalidArgument, match="pass exactly one"):
        randomized_response([0], epsilon=1.0)
    with pytest.raises(InvalidArgument, match="pass exactly one"):
        randomized_response([0], n_categories=2, categories=[0, 1], epsilon=1.0)
    with pytest.raises(InvalidArgument, match="different categories"):
        randomized_response([0], categories=["a", "a"], epsilon=1.0)
    with pytest.raises(InvalidArgument, match="must be RandomizedResponse"):
        estimate_frequencies(laplace(0.0, sensitivity=1.0, epsilon=1.0, rng=0))
    blind = randomized_response([0, 1], n_categories=2, epsilon=1e-18)
    with pytest.raises(InvalidArgument, match="say nothing"):
        estimate_frequencies(blind)
    with pytest.raises(InvalidArgument, match="at least one report"):
        estimate_frequencies(randomized_response([], n_categories=2, epsilon=1.0))
    with pytest.raises(InvalidArgument, match="were named"):
        estimate_frequencies(randomized_response([0], n_categories=2, epsilon=1.0), [0, 1, 2])


@pytest.mark.parametrize("values", [[2], [-1], [0.5], [math.nan], ["a"], [None], [math.inf]])
def test_values_outside_the_categories(values):
    with pytest.raises(InvalidArgument, match="values"):
        randomized_response(values, n_categories=2, epsilon=1.0)
