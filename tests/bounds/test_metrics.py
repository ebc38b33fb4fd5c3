"""AUC, TPR at FPR, advantage: values by brute force, intervals by coverage, mutants caught."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from dpassay._special.quantiles import binomial_upper
from dpassay.bounds.metrics import advantage, auc, tpr_at_fpr
from dpassay.errors import InvalidArgument
from rates import assert_rate_at_most

SCORES = st.lists(st.integers(-4, 4), min_size=1, max_size=30)
MU = 1.0


def missed(interval_of, truth, n_in, n_out, repeats, seed):
    """How often an interval from Gaussian scores misses the truth."""
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(repeats):
        lower, upper = interval_of(rng.normal(MU, 1, n_in), rng.normal(0, 1, n_out))
        count += not lower <= truth <= upper
    return count


def ends(interval):
    return interval.lower, interval.upper


# --- AUC ------------------------------------------------------------------------------------------


@given(SCORES, SCORES)
def test_auc_counts_pairs(scores_in, scores_out):
    x, y = np.array(scores_in)[:, None], np.array(scores_out)
    expected = np.mean((x > y) + 0.5 * (x == y))
    for method in ("chernoff", "delong"):
        found = auc(scores_in, scores_out, method=method)
        assert found.value == pytest.approx(expected)
        assert 0 <= found.lower <= found.value <= found.upper <= 1


def test_auc_of_separated_scores_has_a_closed_form():
    found = auc(np.ones(500), np.zeros(800))
    assert ends(found) == pytest.approx((0.025 ** (1 / 500), 1.0))
    assert ends(auc(np.zeros(800), np.ones(500))) == pytest.approx((0.0, 1 - 0.025 ** (1 / 500)))
    # DeLong's variance is zero there, and its interval a point: the valid one is given instead.
    assert auc(np.ones(500), np.zeros(800), method="delong") == found


def test_delong_is_the_textbook_variance():
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 1, 40), rng.normal(0, 1, 70)
    wins = (x[:, None] > y).astype(float)
    variance = wins.mean(1).var(ddof=1) / 40 + wins.mean(0).var(ddof=1) / 70
    found = auc(x, y, method="delong")
    assert found.upper - found.lower == pytest.approx(2 * 1.959964 * math.sqrt(variance), rel=1e-6)
    assert found.assumption == "asymptotic normality"


def test_auc_interval_covers():
    truth = stats.norm.cdf(MU / math.sqrt(2))
    wrong = missed(lambda x, y: ends(auc(x, y, confidence=0.5)), truth, 15, 40, 800, 1)
    assert_rate_at_most(wrong, 800, 0.5)


def test_auc_check_catches_an_interval_of_the_wrong_size():
    # As if all pairs were independent.
    def pairs(x, y):
        value = auc(x, y).value
        half = math.sqrt(math.log(20) / (2 * x.size * y.size))
        return value - half, value + half

    truth = stats.norm.cdf(MU / math.sqrt(2))
    with pytest.raises(AssertionError, match="chance"):
        assert_rate_at_most(missed(pairs, truth, 15, 40, 400, 1), 400, 0.1)


# --- TPR at a false-positive rate -----------------------------------------------------------------


def test_tpr_is_read_off_the_roc():
    # Above 98 lie two of a hundred scores: thresholds up to there have a rate of at most 2 %.
    out = np.arange(1.0, 101.0)
    found = tpr_at_fpr([97.5, 98.0, 98.5, 120.0], out, fpr=0.02)
    assert found.value == 0.5
    assert tpr_at_fpr([97.5, 98.0, 98.5, 120.0], out, fpr=0.029999).value == 0.5
    assert tpr_at_fpr([97.5, 98.0, 98.5, 120.0], out, fpr=0.03).value == 1.0


@pytest.mark.parametrize(("fpr", "n_in", "n_out"), [(0.01, 400, 300), (0.2, 50, 60), (0.5, 30, 30)])
def test_tpr_interval_covers(fpr, n_in, n_out):
    truth = stats.norm.sf(stats.norm.isf(fpr) - MU)

    def interval(x, y):
        return ends(tpr_at_fpr(x, y, fpr=fpr, confidence=0.5))

    assert_rate_at_most(missed(interval, truth, n_in, n_out, 800, 2), 800, 0.5)


def test_tpr_check_catches_a_threshold_taken_as_known():
    def plug_in(x, y):
        k = np.sum(x > np.quantile(y, 0.99))
        return 1 - binomial_upper(x.size - k, x.size, 0.025), binomial_upper(k, x.size, 0.025)

    truth = stats.norm.sf(stats.norm.isf(0.01) - MU)
    with pytest.raises(AssertionError, match="chance"):
        assert_rate_at_most(missed(plug_in, truth, 400, 300, 400, 2), 400, 0.05)


def test_tpr_interval_is_honest_about_too_few_trials():
    found = tpr_at_fpr(np.ones(1000), np.zeros(50), fpr=1e-3)
    assert found.value == 1
    assert found.lower == 0  # 50 trials cannot show a false-positive rate of 1e-3
    assert tpr_at_fpr(np.ones(1000), np.zeros(10_000), fpr=1e-3).lower > 0.99


@given(SCORES, SCORES, st.floats(0.01, 0.99))
def test_tpr_interval_is_ordered(scores_in, scores_out, fpr):
    found = tpr_at_fpr(scores_in, scores_out, fpr=fpr)
    assert 0 <= found.lower <= found.upper <= 1
    assert 0 <= found.value <= 1


# --- advantage ------------------------------------------------------------------------------------


@given(SCORES, SCORES)
def test_advantage_is_the_largest_difference_of_rates(scores_in, scores_out):
    x, y = np.array(scores_in), np.array(scores_out)
    expected = max(np.mean(x >= t) - np.mean(y >= t) for t in range(-5, 6))
    for band in ("band", "dkw", "bonferroni"):
        found = advantage(x, y, band=band)
        assert found.value == pytest.approx(max(expected, 0))
        assert 0 <= found.lower <= found.value + 1e-12
        assert found.value <= found.upper + 1e-12 <= 1 + 1e-12


@pytest.mark.parametrize("band", ["band", "dkw", "bonferroni"])
def test_advantage_interval_covers(band):
    truth = 2 * stats.norm.cdf(MU / 2) - 1

    def interval(x, y):
        return ends(advantage(x, y, confidence=0.5, band=band))

    assert_rate_at_most(missed(interval, truth, 60, 90, 500, 3), 500, 0.5)


def test_advantage_check_catches_the_plain_maximum():
    def plain(x, y):
        return advantage(x, y).value, 1.0

    truth = 2 * special.ndtr(MU / 2) - 1
    with pytest.raises(AssertionError, match="chance"):
        assert_rate_at_most(missed(plain, truth, 60, 90, 300, 3), 300, 0.5)


def test_advantage_by_dkw_is_the_maximum_and_two_widths():
    x, y = np.random.default_rng(1).normal(size=(2, 400))
    found = advantage(x + 1, y, band="dkw")
    width = math.sqrt(math.log(4 / 0.05) / 800)
    assert ends(found) == pytest.approx((found.value - 2 * width, found.value + 2 * width))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auc([math.nan], [1.0]), r"scores_in\[0\]=nan"),
        (lambda: auc([1.0], []), "scores_out is empty"),
        (lambda: auc([1.0], [1.0], confidence=1.0), "confidence=1"),
        (lambda: auc([1.0], [1.0], method="bootstrap"), "method='bootstrap'"),
        (lambda: tpr_at_fpr([1.0], [1.0], fpr=0.0), r"fpr=0 must lie in \(0, 1\)"),
        (lambda: tpr_at_fpr([1.0], [1.0], fpr=math.nan), "fpr=nan"),
        (lambda: tpr_at_fpr([], [1.0], fpr=0.1), "scores_in is empty"),
        (lambda: advantage([1.0], [1.0], band="split"), "band='split'"),
        (lambda: advantage([[1.0]], [1.0]), r"scores_in has shape \(1, 1\)"),
    ],
)
def test_refusals_name_the_argument(call, message):
    with pytest.raises(InvalidArgument, match=message):
        call()
