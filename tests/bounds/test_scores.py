"""Bounds from scores: the best threshold by brute force, what each rule pays, ties, coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from dpassay._special.quantiles import binomial_upper
from dpassay.bounds.bands import BANDS, common_level
from dpassay.bounds.counts import (
    METHODS,
    epsilon_of_mu,
    epsilon_of_rates,
    lower_bound_from_counts,
    mu_of_rates,
)
from dpassay.bounds.scores import FOLDS, RULES, lower_bound
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from rates import assert_rate_at_most

DELTA = 1e-5
VALID = ("clopper-pearson", "gdp")


def normal_scores(rng, mu, n_in, n_out):
    return rng.normal(mu, 1, n_in), rng.normal(0, 1, n_out)


def spaced_scores(mu, n):
    """Normal quantiles: scores without randomness, for tests of tightness."""
    z = special.ndtri((np.arange(n) + 0.5) / n)
    return z + mu, z


def best_by_brute_force(scores_in, scores_out, kind, method, confidence):
    """The best bound over every threshold, one at a time."""
    level = common_level(kind, len(scores_in), len(scores_out), 1 - confidence)
    every = np.concatenate([scores_in, scores_out])
    best = 0.0
    for t in np.concatenate([every, np.nextafter(every, np.inf)]):
        fp, fn = np.sum(scores_out >= t), np.sum(scores_in < t)
        fpr = BANDS[kind].limits(np.array([fp]), len(scores_out), level)
        fnr = BANDS[kind].limits(np.array([fn]), len(scores_in), level)
        rates = (fpr, fnr, DELTA) if method == "clopper-pearson" else (fpr, fnr)
        value = (epsilon_of_rates if method == "clopper-pearson" else mu_of_rates)(*rates)
        best = max(best, float(value[0]))
    return best if method == "clopper-pearson" else epsilon_of_mu(best, DELTA)


@pytest.mark.parametrize("kind", BANDS)
@pytest.mark.parametrize("method", VALID)
@pytest.mark.parametrize("rounded", [False, True])
def test_the_best_threshold_is_found(kind, method, rounded):
    x, y = normal_scores(np.random.default_rng(2), 2.0, 130, 90)
    x, y = (np.round(x), np.round(y)) if rounded else (x, y)
    found = lower_bound(x, y, delta=DELTA, method=method, threshold=kind, confidence=0.9)
    assert found.epsilon > 0
    assert found.epsilon == pytest.approx(best_by_brute_force(x, y, kind, method, 0.9), rel=1e-9)
    # The threshold that is reported is one that gives the bound.
    level = common_level(kind, 130, 90, 1 - 0.9)
    fpr = BANDS[kind].limits(np.array([np.sum(y >= found.threshold)]), 90, level)
    assert fpr[0] == found.details["fpr_upper"]


def test_a_number_is_a_threshold_fixed_in_advance():
    x, y = normal_scores(np.random.default_rng(1), 1.5, 80, 120)
    y[:3] = 0.75  # a score at the threshold counts as "in"
    for method in METHODS:
        found = lower_bound(x, y, delta=DELTA, method=method, threshold=0.75)
        fn, fp = int(np.sum(x < 0.75)), int(np.sum(y >= 0.75))
        counts = {"tp": 80 - fn, "fn": fn, "fp": fp, "tn": 120 - fp}
        expected = lower_bound_from_counts(**counts, delta=DELTA, method=method)
        assert found.epsilon == expected.epsilon
        assert found.ceiling == expected.ceiling
        assert found.threshold == 0.75
        assert "fixed in advance" in found.selection


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rule", ["split", "kfold"])
def test_parts_are_drawn_by_the_seed_alone(method, rule):
    x, y = normal_scores(np.random.default_rng(4), 2.0, 200, 150)

    def bound(rng):
        return lower_bound(x, y, delta=DELTA, method=method, threshold=rule, rng=rng)

    assert bound(3) == bound(3) == bound(np.random.default_rng(3))
    assert len({bound(seed).threshold for seed in range(6)}) > 1


def test_split_tests_on_scores_that_did_not_choose():
    # The choosing quarter separates perfectly, the rest is useless: luck in choosing buys nothing.
    x, y = normal_scores(np.random.default_rng(4), 0.0, 400, 400)
    x[np.random.default_rng(9).permutation(400)[:100]] += 100
    found = lower_bound(x, y, delta=DELTA, threshold="split", rng=np.random.default_rng(9))
    assert found.threshold > 10
    assert found.epsilon == 0
    assert found.details["tp"] == 0
    assert found.details["tp"] + found.details["fn"] == 300


def test_each_rule_says_how_it_paid():
    x, y = spaced_scores(1.0, 100)
    words = {rule: lower_bound(x, y, delta=DELTA, threshold=rule).selection for rule in RULES}
    assert "tested once on the rest" in words["split"]
    assert f"1/{FOLDS} of the level" in words["kfold"]
    assert "DKW" in words["dkw"]
    assert "union" in words["bonferroni"]
    assert "exact band" in words["band"]
    assert words["auto"] == words["band"]
    assert lower_bound(x, y, delta=DELTA, method="bayes").selection.startswith("chosen on a random")


def test_ceiling_is_what_separated_scores_show():
    near, far = spaced_scores(1.0, 60), spaced_scores(50.0, 60)
    for method in METHODS:
        for rule in RULES if method in VALID else ("auto", "split", "kfold"):
            some, perfect = (
                lower_bound(*scores, delta=DELTA, method=method, threshold=rule)
                for scores in (near, far)
            )
            assert some.epsilon <= some.ceiling
            assert some.ceiling == perfect.ceiling
            assert perfect.epsilon == (0 if method == "katz" else perfect.ceiling)


# --- tightness, without randomness ----------------------------------------------------------------


def unpaid(scores_in, scores_out, statistic):
    """The best of all thresholds without payment: not valid, but what any rule could hope for."""
    n = len(scores_in)
    missed = np.searchsorted(scores_in, scores_out, side="right")
    fpr = binomial_upper(np.arange(n)[::-1], n, 0.025)
    return float(statistic(fpr, binomial_upper(missed, n, 0.025)).max())


@pytest.mark.parametrize(
    ("mu", "n", "share"), [(1.0, 500, 0.66), (1.0, 5000, 0.8), (3.0, 500, 0.78), (3.0, 5000, 0.85)]
)
def test_paying_for_all_thresholds_keeps_most_of_the_bound(mu, n, share):
    x, y = spaced_scores(mu, n)
    hoped = unpaid(x, y, lambda fpr, fnr: epsilon_of_rates(fpr, fnr, DELTA))
    found = lower_bound(x, y, delta=DELTA, threshold="band").epsilon
    assert share * hoped < found < hoped


@pytest.mark.parametrize(("mu", "n", "share"), [(1.0, 500, 0.78), (3.0, 5000, 0.95)])
def test_paying_for_all_thresholds_keeps_most_of_mu(mu, n, share):
    x, y = spaced_scores(mu, n)
    found = lower_bound(x, y, delta=DELTA, threshold="band", method="gdp").details["mu_lower"]
    assert share * unpaid(x, y, mu_of_rates) < found < unpaid(x, y, mu_of_rates) < mu


# --- laws -----------------------------------------------------------------------------------------

SCORES = st.lists(st.integers(-6, 6), min_size=5, max_size=40)
RULE = st.sampled_from(RULES)


@given(SCORES, SCORES, RULE, st.sampled_from(VALID))
def test_only_the_order_of_scores_matters(scores_in, scores_out, rule, method):
    found, cubed = (
        lower_bound(x, y, delta=DELTA, threshold=rule, method=method)
        for x, y in (
            (scores_in, scores_out),
            (np.power(scores_in, 3.0) - 7, np.power(scores_out, 3.0) - 7),
        )
    )
    assert found.epsilon == cubed.epsilon


@given(SCORES, SCORES, st.sampled_from(tuple(BANDS)), st.sampled_from(VALID))
def test_the_worlds_may_be_exchanged(scores_in, scores_out, rule, method):
    found = lower_bound(scores_in, scores_out, delta=DELTA, threshold=rule, method=method)
    mirrored = lower_bound(
        -np.array(scores_out), -np.array(scores_in), delta=DELTA, threshold=rule, method=method
    )
    assert found.epsilon == pytest.approx(mirrored.epsilon, rel=1e-12)


@given(SCORES, SCORES, RULE, st.floats(0.5, 0.95))
def test_more_confidence_never_gives_a_larger_bound(scores_in, scores_out, rule, confidence):
    if rule in ("split", "kfold"):
        return  # which may choose another threshold
    looser, stricter = (
        lower_bound(scores_in, scores_out, delta=DELTA, threshold=rule, confidence=c).epsilon
        for c in (confidence, confidence + 0.04)
    )
    assert stricter <= looser


# --- ties, infinities, small samples --------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", VALID)
@pytest.mark.parametrize("value", [0.0, -math.inf, math.inf])
def test_equal_scores_show_nothing(rule, method, value):
    same = np.full(50, value)
    assert lower_bound(same, same, delta=DELTA, threshold=rule, method=method).epsilon == 0


@pytest.mark.parametrize("rule", RULES)
def test_failed_trials_are_scores_below_all_others(rule):
    # Without the canary every trial failed: as good as any separation.
    x, failed = np.random.default_rng(0).normal(size=100), np.full(100, -math.inf)
    found = lower_bound(x, failed, delta=DELTA, threshold=rule)
    assert found.epsilon == found.ceiling > 1.5
    turned = lower_bound(np.full(100, math.inf), x, delta=DELTA, threshold=rule)
    assert turned.epsilon == turned.ceiling > 1.5


@pytest.mark.parametrize("rule", ["auto", "dkw", "bonferroni", "band", 0.5])
def test_one_trial_in_each_world_is_enough_to_ask(rule):
    found = lower_bound([1.0], [0.0], delta=DELTA, threshold=rule)
    assert found.epsilon == 0
    assert found.ceiling == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores_in": [0.0, math.nan]}, r"scores_in\[1\]=nan .* score below all others"),
        ({"scores_out": [math.nan]}, r"scores_out\[0\]=nan"),
        ({"scores_in": []}, "scores_in is empty"),
        ({"scores_out": []}, "scores_out is empty"),
        ({"scores_in": [[0.0, 1.0]]}, r"scores_in has shape \(1, 2\)"),
        ({"scores_in": 1.0}, r"scores_in has shape \(\)"),
        ({"scores_in": ["a"]}, "scores_in must hold numbers"),
        ({"delta": 1.0}, r"delta=1 must lie in \[0, 1\)"),
        ({"confidence": 1.0}, "confidence=1"),
        ({"method": "exact"}, "method='exact'"),
        ({"threshold": "best"}, "threshold='best' must be one of 'auto'.* pass a number"),
        ({"threshold": math.nan}, "threshold=nan"),
        ({"threshold": None}, "threshold=None must be a number"),
        ({"threshold": "split", "scores_in": [1.0]}, "scores_in holds 1 score.*at least 2"),
        ({"threshold": "kfold", "scores_out": [1.0] * 4}, "scores_out holds 4.*at least 5"),
        ({"threshold": "split", "rng": -1}, "rng=-1"),
        ({"threshold": "band", "method": "katz"}, "method='katz' has no limits .* every threshold"),
        ({"threshold": "dkw", "method": "bayes"}, "Pass threshold='split'"),
        ({"method": "gdp", "delta": 0.0}, "no finite epsilon at 0"),
    ],
)
def test_refusals_name_the_argument(arguments, message):
    good = {"scores_in": np.arange(20.0), "scores_out": np.arange(20.0), "delta": DELTA}
    with pytest.raises(InvalidArgument, match=message):
        lower_bound(**{**good, **arguments})


# --- coverage -------------------------------------------------------------------------------------

MU, TRIALS, REPEATS = 1.0, 4000, 800


def mu_errors(limits, rng):
    """How often the best mu over all thresholds exceeds the truth, limits given by the count."""
    errors = 0
    for _ in range(REPEATS):
        x, y = (np.sort(s) for s in normal_scores(rng, MU, TRIALS, TRIALS))
        fpr, fnr = limits[np.arange(TRIALS)[::-1]], limits[np.searchsorted(x, y, side="right")]
        errors += mu_of_rates(fpr, fnr).max() > MU
    return errors


@pytest.mark.parametrize("kind", BANDS)
def test_best_threshold_covers_under_a_band(kind):
    level = common_level(kind, TRIALS, TRIALS, 0.05)
    limits = BANDS[kind].limits(np.arange(TRIALS + 1), TRIALS, level)
    assert_rate_at_most(mu_errors(limits, np.random.default_rng(12)), REPEATS, 0.05)


def test_best_threshold_without_payment_is_caught():
    limits = binomial_upper(np.arange(TRIALS + 1), TRIALS, 0.025)
    with pytest.raises(AssertionError, match="chance"):
        assert_rate_at_most(mu_errors(limits, np.random.default_rng(12)), REPEATS, 0.05)


@pytest.mark.parametrize("rule", [*RULES[1:], 0.5])
@pytest.mark.parametrize("method", VALID)
def test_bounds_cover_on_gaussian_scores(rule, method):
    rng = np.random.default_rng(77)
    truth = float(gaussian.epsilon_of(np.float64(DELTA), np.float64(0.3)))
    errors = 0
    for _ in range(150):
        x, y = normal_scores(rng, 0.3, 60, 80)
        found = lower_bound(
            x, y, delta=DELTA, threshold=rule, method=method, confidence=0.5, rng=rng
        )
        errors += found.epsilon > truth
    assert_rate_at_most(errors, 150, 0.5)


@pytest.mark.parametrize("rule", RULES[1:])
def test_bounds_cover_on_a_discrete_pair_that_attains_them(rule):
    # Randomized response with epsilon = 1: every threshold between the answers attains the limit.
    rng, truth = np.random.default_rng(78), 1.0
    right = 1 / (1 + math.exp(-truth))
    errors = 0
    for _ in range(200):
        x, y = rng.random(300) < right, rng.random(300) >= right
        errors += (
            lower_bound(x, y, delta=0.0, threshold=rule, confidence=0.7, rng=rng).epsilon > truth
        )
    assert_rate_at_most(errors, 200, 0.3)
