"""Verdicts: three of them, intervals that cover, and nothing decided by two points."""

import numpy as np
import pytest
from scipy.stats import binom

from dpassay_reproduce import claims
from dpassay_reproduce.claims import FAILS, HOLDS, UNDECIDED, Estimate
from rates import assert_rate


def test_intervals_cover_as_often_as_they_say():
    x = np.random.default_rng(0).normal(size=(2000, 4))
    seen = [claims.estimate(row) for row in x]
    assert_rate(sum(e.low <= 0 <= e.high for e in seen), 2000, 0.99)


def test_intervals_of_two_standard_errors_would_be_caught():
    """The mutant: two standard errors of four values, taken for 99 %."""
    x = np.random.default_rng(0).normal(size=(2000, 4))
    near = np.abs(x.mean(axis=1)) <= 2 * x.std(axis=1, ddof=1) / 2
    with pytest.raises(AssertionError):
        assert_rate(int(near.sum()), 2000, 0.99)


@pytest.mark.parametrize("k", [0, 1, 7, 20])
def test_shares_have_exact_intervals(k):
    seen = claims.estimate_share(k, 20)
    assert k == 0 or binom.sf(k - 1, 20, seen.low) == pytest.approx(0.005)
    assert k == 20 or binom.cdf(k, 20, seen.high) == pytest.approx(0.005)
    assert seen.low <= k / 20 <= seen.high


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        (claims.judge_above, (HOLDS, UNDECIDED, FAILS)),
        (claims.judge_below, (FAILS, UNDECIDED, HOLDS)),
        (lambda seen: claims.judge_within(seen, 0.5, 9), (HOLDS, UNDECIDED, FAILS)),
        (lambda seen: claims.judge_order(seen, Estimate(0, 0, 0)), (HOLDS, UNDECIDED, FAILS)),
    ],
)
def test_all_of_the_interval_decides(judge, expected):
    seen = Estimate(2, 1, 3), Estimate(0, -1, 1), Estimate(-2, -3, -1)
    assert tuple(map(judge, seen)) == expected
    assert judge(claims.estimate([1.0, 1.0])) == UNDECIDED  # two points that happen to agree


def test_many_are_judged_together():
    assert claims.judge_all([HOLDS, HOLDS]) == HOLDS
    assert claims.judge_all([HOLDS, UNDECIDED]) == UNDECIDED
    assert claims.judge_all([UNDECIDED, FAILS]) == FAILS
    assert claims.judge_most([HOLDS, HOLDS, FAILS]) == HOLDS
    assert claims.judge_most([HOLDS, UNDECIDED, FAILS]) == UNDECIDED
    assert claims.judge_most([HOLDS, FAILS]) == FAILS


def test_what_is_missing_is_left_out_of_a_ratio():
    assert claims.estimate_log_ratio(np.array([2.0, np.nan]), np.array([1.0, 1.0])).high == np.inf
    seen = claims.estimate_log_ratio(np.full(4, np.e), np.ones(4))
    assert (seen.low, seen.high) == pytest.approx((1, 1))


def test_a_claim_says_how_it_was_judged():
    said = str(claims.claim_exactly("A is B.", "they are equal.", False, "A is 1, B is 2."))
    assert said == "Claim: A is B. Criterion: they are equal. It fails: A is 1, B is 2."
