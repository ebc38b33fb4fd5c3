"""Bands: the exact price against polynomials and sampling, coverage with and without ties."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.polynomial import Polynomial

from dpassay._special.quantiles import binomial_upper
from dpassay.bounds.bands import BANDS, common_level, crossing_probability, ranks, total_price
from rates import assert_rate, assert_rate_at_most

KINDS = tuple(BANDS)


def staying_below(bounds):
    """P(V_(j) <= b_j for all j) by exact integration of polynomials, innermost variable first."""
    inner = Polynomial([Fraction(1)])
    for bound in reversed([Fraction(b) for b in bounds]):
        primitive = Polynomial([Fraction(0), *(c / (i + 1) for i, c in enumerate(inner.coef))])
        inner = Polynomial([primitive(bound)]) - primitive
    return math.factorial(len(bounds)) * float(inner(Fraction(0)))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("level", [0.3, 0.02, 1e-4])
def test_exact_price_equals_the_integral(n, level):
    bounds = binomial_upper(np.arange(n), n, level)
    expected = 1 - staying_below(bounds)
    assert crossing_probability(np.arange(n) + 1, bounds, n) == pytest.approx(expected, abs=1e-12)


def test_exact_price_on_some_of_the_ranks_equals_the_integral():
    n, some = 9, np.array([0, 3, 7])
    bounds = binomial_upper(some, n, 0.1)
    every = np.ones(n)  # a rank that is not in the set is limited by the next one that is
    for rank, bound in zip(some[::-1], bounds[::-1], strict=True):
        every[: rank + 1] = bound
    expected = 1 - staying_below(every)
    assert crossing_probability(some + 1, bounds, n) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "level"), [(60, 0.002), (2500, 0.001)])
def test_exact_price_equals_the_sampled_one(n, level):
    grid = BANDS["band"].ranks(n).astype(int)
    bounds = binomial_upper(grid, n, level)
    smallest = np.sort(np.random.default_rng(3).random((4000, n)), axis=1)[:, grid]
    crossed = int(np.sum((smallest > bounds).any(axis=1)))
    assert_rate(crossed, 4000, crossing_probability(grid + 1, bounds, n))


@pytest.mark.parametrize(("n", "levels"), [(1000, 47), (10_000, 69), (100_000, 91)])
def test_equal_levels_cost_far_less_than_their_number(n, levels):
    level = common_level("band", n, n, 0.05)
    assert 0.025 / level == pytest.approx(levels, rel=0.02)


@pytest.mark.parametrize("n", [1, 2, 7, 100, 1999, 2000, 31_337, 5_000_000])
@pytest.mark.parametrize("kind", ["band", "bonferroni"])
def test_ranks_reach_from_end_to_end(kind, n):
    grid = BANDS[kind].ranks(n)
    assert (grid[0], grid[-1]) == (0, n - 1)
    assert np.all(np.diff(grid) >= 1)
    assert grid.size <= 2000
    assert np.array_equal(grid, n - 1 - grid[::-1])


def test_ranks_are_all_of_a_small_sample():
    assert ranks(50, 1.03, 1000).tolist() == list(range(50))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1, 1), (30, 30), (30, 1000), (700, 5)])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-4, 1e-9, 1e-14])
def test_common_level_spends_alpha_and_no_more(kind, sizes, alpha):
    level = common_level(kind, *sizes, alpha)
    assert total_price(kind, *sizes, level) <= alpha
    assert total_price(kind, *sizes, level * 1.03) > 0.98 * alpha


@pytest.mark.parametrize("kind", KINDS)
def test_limits_are_monotone_and_end_at_one(kind):
    counts = np.arange(301)
    limits = BANDS[kind].limits(counts, 300, 0.01)
    assert np.all(np.diff(limits) >= 0)
    assert np.all(limits >= counts / 300)
    assert limits[-1] == 1
    assert np.all(BANDS[kind].limits(counts, 300, 0.001) >= limits)


@pytest.mark.golden
def test_golden_width_of_dkw():
    # One-sided with Massart's constant: sqrt(log(1 / 0.025) / 2000).
    assert BANDS["dkw"].limits(np.array([100.0]), 1000, 0.025)[0] == pytest.approx(0.1429469)


def some_rate_is_above(kind, scores, rate_above, level):
    """Whether, at any threshold, the true rate of scores >= threshold exceeds its limit."""
    ordered = np.sort(scores).astype(float)
    thresholds = np.nextafter(ordered, np.inf)  # just above a score the rate is the largest
    above = ordered.size - np.searchsorted(ordered, thresholds)
    limits = BANDS[kind].limits(above, ordered.size, level)
    return bool(np.any(rate_above(thresholds) > limits))


@pytest.mark.parametrize("kind", KINDS)
def test_bands_hold_at_all_thresholds_at_once(kind):
    rng, n, level = np.random.default_rng(8), 40, common_level(kind, 40, 40, 0.4)
    missed = sum(
        some_rate_is_above(kind, rng.random(n), lambda t: 1 - t, level) for _ in range(3000)
    )
    price = BANDS[kind].price(n, level)
    assert_rate_at_most(missed, 3000, price)
    if kind == "band":  # whose price is exact for continuous scores
        assert_rate(missed, 3000, price)


@pytest.mark.parametrize("kind", KINDS)
def test_bands_hold_with_ties(kind):
    rng, n, level = np.random.default_rng(8), 40, common_level(kind, 40, 40, 0.4)

    def rate_above(t):
        return (np.arange(5) >= t[:, None]).mean(axis=1)

    missed = sum(
        some_rate_is_above(kind, rng.integers(5, size=n), rate_above, level) for _ in range(2000)
    )
    assert_rate_at_most(missed, 2000, BANDS[kind].price(n, level))


def test_the_check_catches_limits_that_do_not_pay_for_their_number():
    rng, n = np.random.default_rng(8), 40
    missed = sum(
        some_rate_is_above("band", rng.random(n), lambda t: 1 - t, 0.2) for _ in range(500)
    )
    with pytest.raises(AssertionError, match="chance"):
        assert_rate_at_most(missed, 500, 0.2)


def test_band_is_sharper_than_dkw_in_the_tail_and_not_in_the_middle():
    n = 1000
    band, dkw = (
        BANDS[kind].limits(np.array([0.0, 500.0]), n, common_level(kind, n, n, 0.05))
        for kind in ("band", "dkw")
    )
    assert band[0] < dkw[0] / 5
    assert dkw[1] < band[1]
