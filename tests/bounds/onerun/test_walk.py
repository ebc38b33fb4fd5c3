"""The walk of right guesses: goldens of HW3, enumeration, the price of a leak."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from bounds.onerun import linear_programmes as lp
from dpassay.bounds.onerun.pvalues import pure_epsilon
from dpassay.bounds.onerun.walk import (
    block_rate,
    block_units,
    calibrated_epsilon,
    crossing_probability,
    limits,
    looks,
)

EPSILONS = (0, 0.5, 1, 2, 4)
POWERS = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 500])


@pytest.mark.golden
@pytest.mark.parametrize(
    ("pairs", "level", "probabilities"),
    [
        (np.arange(1, 501), 0.05, (0.3165, 0.3142, 0.3135, 0.2784, 0.1598)),
        (np.arange(1, 33), 0.05, (0.1520, 0.1443, 0.1456, 0.1011, 0.0)),
        (np.arange(1, 501), 0.05 / 500, (0.00176, 0.00170, 0.00158, 0.00122, 0.00032)),
        (POWERS, 0.05, (0.1820, 0.1766, 0.1797, 0.1380, 0.0672)),
        (POWERS, 0.005, (0.0225, 0.0156, 0.0188, 0.0163, 0.0070)),
    ],
)
def test_how_often_the_largest_bound_is_wrong(pairs, level, probabilities):
    """Exact probabilities that some bound at this level is above the truth."""
    for epsilon, expected in zip(EPSILONS, probabilities, strict=True):
        found = crossing_probability(2 * pairs, limits(2 * pairs, epsilon, level), epsilon)
        assert found == pytest.approx(expected, abs=6e-5)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("pairs", "level", "worst"), [(500, 0.004, 0.0475), (128, 0.0065, 0.0473), (32, 0.012, 0.0460)]
)
def test_levels_that_hold_for_all_numbers_of_guesses(pairs, level, worst):
    n = 2 * np.arange(1, pairs + 1)
    each = [crossing_probability(n, limits(n, e, level), e) for e in np.arange(0, 3.01, 0.05)]
    assert max(each) == pytest.approx(worst, abs=2e-4)


def enumerate_walks(epsilon, guesses):
    """Every pattern of right and wrong with its probability."""
    q = 1 / (1 + np.exp(-epsilon))
    patterns = np.array(list(itertools.product((0, 1), repeat=guesses)))
    right = patterns.sum(axis=1)
    return patterns, q**right * (1 - q) ** (guesses - right)


@given(st.floats(0, 3), st.lists(st.integers(-1, 6), min_size=4, max_size=4))
def test_crossing_probability_against_enumeration(epsilon, most_wrong):
    n, most = np.array([2, 5, 6, 10]), np.sort(np.minimum(most_wrong, [1, 4, 5, 9]))
    patterns, probability = enumerate_walks(epsilon, 10)
    wrong = np.cumsum(1 - patterns, axis=1)[:, n - 1]
    expected = probability[(wrong <= most).any(axis=1)].sum()
    assert crossing_probability(n, most, epsilon) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 5.0])
def test_crossing_probability_far_out_against_one_look(epsilon):
    n, q = 200_000, 1 / (1 + np.exp(-epsilon))
    most = int(binom.ppf(0.01, n, 1 - q))
    found = crossing_probability(np.array([1000, n]), np.array([-1, most]), epsilon)
    assert found == pytest.approx(binom.cdf(most, n, 1 - q), rel=1e-9)


@given(st.integers(1, 3000), st.floats(0, 8), st.floats(1e-6, 0.3))
def test_limits_are_the_last_counts_at_the_level(guesses, epsilon, level):
    most = limits(np.array([guesses]), epsilon, level)[0]
    error = 1 / (1 + np.exp(epsilon))
    assert most == -1 or binom.cdf(most, guesses, error) <= level * (1 + 1e-8)
    assert most == guesses - 1 or binom.cdf(most + 1, guesses, error) > level * (1 - 1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 0.8, 1.3])
def test_calibrated_bound_errs_at_most_as_often_as_it_says(epsilon):
    """Exactly, over all patterns of 12 guesses; the naive largest bound errs too often."""
    level, n = 0.1, np.arange(1, 13)
    patterns, probability = enumerate_walks(epsilon, n.size)
    right = np.cumsum(patterns, axis=1)
    unique, inverse = np.unique(
        pure_epsilon(n, right, level).max(axis=1).round(9), return_inverse=True
    )
    bound = np.array(
        [
            calibrated_epsilon(n, right[np.argmax(inverse == i)], level)[0]
            for i in range(unique.size)
        ]
    )
    wrong = probability[(bound > epsilon)[inverse]].sum()
    assert wrong <= level
    naive = probability[(unique > epsilon)[inverse]].sum()
    assert naive >= wrong
    if epsilon == 0:
        assert naive > 1.3 * level
        assert wrong > 0.6 * level  # it is not merely cautious


@given(st.floats(0.3, 0.95), st.integers(0, 100))
def test_calibrated_bound_lies_below_the_naive_one_and_comes_from_its_look(accuracy, seed):
    n = 2 * looks(100)
    steps = np.random.default_rng(seed).random(200) < accuracy
    right = np.cumsum(steps)[n - 1]
    found, index = calibrated_epsilon(n, right, 0.05)
    naive = pure_epsilon(n, right, 0.05)
    assert found <= max(naive.max(), 0)
    assert found == 0 or found < naive.max()
    assert index == np.argmax(naive)


@pytest.mark.parametrize(("block", "tight"), [(1, 0.5), (2, 0.5), (3, 0.9), (6, 0.9)])
def test_price_of_a_leak_against_linear_programmes(block, tight):
    """No law of six guesses that leaks L can add more than L block_rate to a rising event."""
    rng = np.random.default_rng(block)
    tightest = 0.0
    for _ in range(30):
        epsilon, leak = rng.uniform(0, 2), 10 ** rng.uniform(-3, -0.7)
        stops = np.arange(block, 7, block)
        needed = [int(rng.integers(1, n + 2)) for n in stops]

        def event(x, stops=stops, needed=needed):
            return any(sum(x[:n]) >= v for n, v in zip(stops, needed, strict=True))

        patterns, probability = enumerate_walks(epsilon, 6)
        plain = sum(p for x, p in zip(patterns, probability, strict=True) if event(x))
        price = leak * block_rate(block, epsilon)
        brute = lp.most_over_patterns(6, event, epsilon, leak)
        assert brute <= min(plain + price, 1) + 1e-9
        tightest = max(tightest, (brute - plain) / price)
    assert tightest > tight  # so half the price would be too little


def test_block_rate_of_single_guesses_is_the_error_rate():
    for epsilon in (0.0, 1.0, 4.0):
        assert block_rate(1, epsilon) == pytest.approx(1 / (1 + np.exp(epsilon)), rel=1e-7)


def test_block_rate_looks_in_the_right_window():
    n = 3000
    for epsilon in (0.0, 2.0):
        q = 1 / (1 + np.exp(-epsilon))
        v = np.arange(1, n + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            rho = binom.sf(v - 1, n, q) * binom.cdf(v - 1, n, q) / (v * binom.pmf(v, n, q))
        assert block_rate(n, epsilon) == pytest.approx(np.nanmax(rho[np.isfinite(rho)]), rel=1e-7)


@given(st.floats(1e-6, 3), st.sampled_from([1, 2]))
def test_blocks_keep_the_price_within_half_the_level_where_there_is_room(leak, per_unit):
    units = block_units(leak, 0.05, per_unit, 10**9)
    assert leak * block_rate(units * per_unit, 0.0) <= 0.025
    assert units == 1 or leak * block_rate(units * per_unit // 2, 0.0) > 0.025


def test_blocks_are_a_quarter_of_that_where_there_is_not():
    assert [block_units(1.0, 0.05, 2, most) for most in (10**6, 5000, 500)] == [512, 256, 128]
    assert block_units(0.0, 0.05, 2, 1) == 1
    assert block_units(1e6, 0.05, 2, 100) > 100


def test_a_price_too_high_at_zero_leaves_larger_epsilons_to_be_refuted():
    n = 128 * np.arange(1, 8)
    right = np.round(n * 0.9).astype(int)
    assert 1.0 * block_rate(128, 0.0) > 0.05
    found, _ = calibrated_epsilon(n, right, 0.05, leak=1.0, block=128)
    assert 1.0 < found < calibrated_epsilon(n, right, 0.05)[0]
    most_wrong = limits(n, pure_epsilon(n, right, 0.05).max(), 0.05)
    price = block_rate(128, found)
    assert crossing_probability(n, most_wrong, found) + price <= 0.05


def test_a_leak_lowers_the_calibrated_bound():
    n = 2 * looks(500)
    right = np.round(n * 0.8).astype(int)
    bounds = [calibrated_epsilon(n, right, 0.05, leak, 2)[0] for leak in (0.0, 0.01, 0.05)]
    assert bounds[0] > bounds[1] > bounds[2] > 0


def test_looks_are_all_up_to_32_then_sparse_and_end_at_the_last():
    assert looks(0).size == 0
    assert looks(20).tolist() == list(range(1, 21))
    many = looks(50_000)
    assert many[-1] == 50_000
    assert many.size < 120
    assert np.all(np.diff(many) > 0)
