"""Margins, searches and inverses: on the safe side everywhere, and close to the truth."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from beta_reference import tails
from dpassay import lower_bound, lower_bound_from_counts
from dpassay._special import quantiles
from dpassay._special.margins import ARITHMETIC, round_down, round_up
from dpassay._special.quantiles import (
    beta_lower,
    beta_upper,
    binomial_lower,
    binomial_most,
    binomial_upper,
    gamma_upper,
    log_odds_lower,
    normal_lower,
    normal_upper,
)
from dpassay._special.search import first_true, last_below, last_true

LEVELS = (0.5, 0.05, 0.025, 1e-6, 1e-12)
TIGHT = 1e-7  # of the level: the four margins of the policy, and something for rounding


def reference_upper(count, trials, x):
    """P(Bin(trials, x) <= count), by mpmath."""
    return tails(count + 1, trials - count, x)[1]


def step_down(x):
    """The next float below, so that limits whose neighbours differ by more are not blamed."""
    return float(np.nextafter(x, 0))


# A slice of what benchmarks/sweep_inverses.py sweeps: the places where SciPy 1.17 was wrong (shapes
# about 1000, large numbers of trials), both edges, and the middle.
SLICE = [
    *((k, n) for n in (1, 2, 3, 10, 4001, 40_000) for k in sorted({0, 1, n // 2, n - 1}) if k < n),
    *((k, 10_100) for k in (998, 999, 1000)),
    *((k, n) for n in (19_999, 39_001) for k in (9, 999, n - 1000)),
    *((k, 369_246_126) for k in (999, 1000)),
    (17, 282_208_529),
    (0, 10**9),
    (10**9 - 3, 10**9),
]


@pytest.mark.parametrize(("count", "trials"), SLICE)
def test_the_upper_limit_is_valid_and_tight(count, trials):
    for level in LEVELS:
        limit = float(binomial_upper(count, trials, level))
        assert reference_upper(count, trials, limit) <= level
        assert reference_upper(count, trials, step_down(limit)) >= level * (1 - TIGHT)


@pytest.mark.parametrize(("count", "trials"), SLICE)
def test_the_lower_limit_is_valid_and_tight(count, trials):
    count = trials - count
    for level in LEVELS:
        limit = float(binomial_lower(count, trials, level))
        assert tails(count, trials - count + 1, limit)[0] <= level
        above = float(np.nextafter(limit, 1))
        assert tails(count, trials - count + 1, above)[0] >= level * (1 - TIGHT)


@pytest.mark.parametrize(("count", "trials"), SLICE)
def test_the_odds_are_below_the_exact_ones(count, trials):
    right = trials - count
    for level in LEVELS:
        odds = mpmath.mpf(float(log_odds_lower(right, count, level)))
        wrong_rate = 1 / (
            1 + mpmath.exp(odds)
        )  # larger than the limit: its tail is below the level
        assert reference_upper(count, trials, wrong_rate) <= level
        shifted = 1 / (1 + mpmath.exp(odds + 1e-6))
        assert reference_upper(count, trials, shifted) > level


def test_half_shapes_too():
    for a, b in ((0.5, 0.5), (999.5, 9101.5), (3.5, 1e6 + 0.5)):
        up, down = float(beta_upper(a, b, 0.01)), float(beta_lower(a, b, 0.01))
        assert 0.01 * (1 - TIGHT) <= tails(a, b, up)[1] <= 0.01
        assert 0.01 * (1 - TIGHT) <= tails(a, b, down)[0] <= 0.01


def test_beyond_the_librarys_range_limits_are_safe():
    for level in (1e-200, 1e-260, 1e-300, 5e-324):
        limit = float(binomial_upper(500, 5000, level))
        assert reference_upper(500, 5000, limit) <= level
        assert reference_upper(500, 5000, limit * 0.99) > level
        limit = float(binomial_lower(500, 5000, level))
        assert tails(500, 4501, limit)[0] <= level
        assert tails(500, 4501, limit * 1.05)[0] > level
    # At 3e14 trials the normal curve is right to many digits.
    exact = 1 / 3 + 1.6449 * math.sqrt(2 / 9 / 3e14)
    assert exact <= float(binomial_upper(1e14, 3e14, 0.05)) <= exact + 1e-5
    assert float(binomial_upper(0, 1e40, 0.05)) >= 0.0
    assert binomial_upper(3, 10, [0.0, -1.0, np.nan, 1.0]).tolist() == [1, 1, 1, 0]
    assert binomial_lower(3, 10, [0.0, -1.0, np.nan, 1.0]).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("name", ["betainccinv", "betaincinv", "gammainccinv", "ndtri"])
@pytest.mark.parametrize("fault", [0.5, 1 - 1e-5, 1 + 1e-5, 1.5, math.nan])
def test_a_wrong_inverse_of_the_library_is_replaced(monkeypatch, name, fault):
    k, n = np.array([3.0, 999.0, 1e6]), np.array([10.0, 10_100.0, 4e6])

    def answers():
        return [
            binomial_upper(k, n, 0.01),
            binomial_lower(k, n, 0.01),
            gamma_upper(np.array([0.5, 7.0]), 1e-3),
            normal_upper([1e-9, 0.3, 0.99]),
        ]

    right = answers()
    original = getattr(special, name)
    monkeypatch.setattr(quantiles.special, name, lambda *args: fault * original(*args))
    for x, y in zip(answers(), right, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


@given(
    st.integers(0, 3000), st.integers(1, 3000), st.floats(1e-12, 0.9), st.sampled_from([1, 1000])
)
def test_limits_are_monotone_in_every_argument(count, more, level, scale):
    k, n = scale * count, scale * (count + more)
    here = binomial_upper(k, n, level)
    assert here <= binomial_upper(k + 1, n, level)
    assert here >= binomial_upper(k, n + 1, level)
    assert here >= binomial_upper(k, n, level * (1 + 1e-6))
    lower = binomial_lower(k, n, level)
    assert lower <= binomial_lower(k + 1, n, level)
    assert lower >= binomial_lower(k, n + 1, level)
    assert lower <= binomial_lower(k, n, level * (1 + 1e-6))
    assert lower <= k / n <= here or level > 0.3


@given(st.integers(0, 400), st.integers(1, 400), st.floats(1e-9, 0.5))
def test_limits_of_complementary_counts_mirror_each_other(count, rest, level):
    n = count + rest
    assert binomial_lower(count, n, level) == pytest.approx(
        1 - binomial_upper(rest, n, level), abs=1e-8
    )


def test_scalars_and_arrays_agree():
    k, n = np.meshgrid([0, 5, 999], [1000, 10_100])
    table = binomial_upper(k, n, 0.025)
    assert table.shape == (2, 3)
    for i in np.ndindex(2, 3):
        assert table[i] == pytest.approx(float(binomial_upper(k[i], n[i], 0.025)), rel=1e-14)


def test_the_quantile_of_a_binomial_is_the_smallest_that_will_do():
    for n, p, level in ((60_000, 0.004, 1e-9), (10, 0.5, 0.3), (5, 1e-3, 1e-30), (7, 1.0, 0.1)):
        m = int(binomial_most(n, p, level))
        beyond = [special.bdtrc(j, n, p) if j < n else 0.0 for j in (m, max(m - 1, 0))]
        assert beyond[0] <= level
        assert m == 0 or beyond[1] > level * (1 - 1e-6)


@pytest.mark.parametrize("shape", [0.5, 1.0, 5.0, 1000.0])
def test_the_gamma_limit_is_valid_and_tight(shape):
    for level in (0.5, 0.01, 1e-9, 1e-100):
        limit = mpmath.mpf(float(gamma_upper(shape, level)))
        assert mpmath.gammainc(shape, limit, regularized=True) <= level
        tight = mpmath.gammainc(shape, limit * (1 - 1e-12), regularized=True)
        assert tight >= level * (1 - TIGHT)
    limit = float(gamma_upper(shape, 1e-290))
    assert mpmath.gammainc(shape, limit, regularized=True) <= 1e-290


@pytest.mark.parametrize("p", [1e-300, 1e-30, 1e-9, 0.025, 0.3, 0.5, 0.7, 0.975, 1 - 1e-12])
def test_normal_quantiles_enclose_the_truth(p):
    low, high = (mpmath.mpf(float(f(p))) for f in (normal_lower, normal_upper))
    assert mpmath.ncdf(low) < p < mpmath.ncdf(high)
    assert high - low <= 3e-12 * max(1, abs(high))


def test_normal_quantiles_at_the_ends():
    for quantile in (normal_lower, normal_upper):
        assert quantile([0.0, 1.0]).tolist() == [-math.inf, math.inf]


# Searches.


@given(st.floats(-5, 5), st.floats(0.1, 30))
def test_last_below_stops_on_the_safe_side(root, steep):
    found = last_below(lambda x: math.expm1(steep * (x - root)), -6, 6)
    assert root - 1e-8 <= found <= root + 1e-15


@given(st.floats(1e-250, 1e250), st.floats(0, 0.1))
def test_searches_stop_on_the_side_that_was_seen(edge, within):
    first = float(first_true(lambda x: x >= edge, 0.0, 1e300, within=within))
    last = float(last_true(lambda x: x <= edge, 0.0, 1e300, within=within))
    assert edge <= first <= edge * (1 + 2 * within)
    assert edge * (1 - 2 * within) <= last <= edge


@given(st.integers(-50, 50), st.integers(0, 200))
def test_whole_searches_find_the_very_number(edge, width):
    low, high = -60, -60 + width
    assert first_true(lambda x: x >= edge, low, high, whole=True) == min(max(edge, low), high)
    assert last_true(lambda x: x <= edge, low, high, whole=True) == max(min(edge, high), low)


def test_searches_at_the_ends():
    never, nan = (lambda x: x > 9), (lambda x: x * math.nan > 0)
    assert first_true(never, 0.0, 1.0) == 1.0
    assert last_true(never, 0.0, 1.0) == 0.0
    assert first_true(nan, 0.0, 1.0) == 1.0
    assert last_true(nan, 0.0, 1.0) == 0.0
    found = first_true(lambda x: x >= np.array([-3.0, 0.3, 9.0]), [-5, 0, 0], [5, 1, 1])
    np.testing.assert_allclose(found, [-3, 0.3, 1])


# Margins.


@given(st.floats(-1e300, 1e300), st.sampled_from([ARITHMETIC, 1e-8, 1e-3]))
def test_rounding_moves_to_its_side(x, margin):
    assert round_down(x, margin) <= x <= round_up(x, margin)
    assert round_up(x, margin) - x == pytest.approx(margin * abs(x), rel=1e-3, abs=1e-300)
    assert round_up(x, margin, size=1.0) >= x + margin * (1 - 1e-3) * (abs(x) <= 1)


def test_rounding_keeps_zero_and_infinities():
    for rounded in (round_up, round_down):
        assert [rounded(x) for x in (0.0, math.inf, -math.inf)] == [0.0, math.inf, -math.inf]
        assert rounded(np.array([0.0, math.inf])).tolist() == [0.0, math.inf]


# What the wrong inverses did.


def test_scores_of_ten_thousand_trials_have_a_bound():
    rng = np.random.default_rng(0)
    scores_in, scores_out = rng.normal(size=10_100), rng.normal(size=10_100)
    assert lower_bound(scores_in, scores_out, delta=0).epsilon < 0.2


def test_one_error_less_never_gives_a_weaker_bound():
    bounds = [
        lower_bound_from_counts(tp=9101, fn=999, fp=k, tn=10_100 - k, delta=1e-5).epsilon
        for k in range(990, 1010)
    ]
    assert all(a > b for a, b in itertools.pairwise(bounds))


def test_limits_fall_smoothly_with_the_number_of_trials():
    n = np.arange(2000, 40_000)
    limits = binomial_upper(999, n, 0.025)
    assert np.all(np.diff(limits) < 0)
    assert np.all(np.abs(np.diff(limits * n)) < 1)
