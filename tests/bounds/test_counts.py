"""Bounds from the counts of one fixed test: golden numbers, exact coverage, laws, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from dpassay._special.quantiles import binomial_upper
from dpassay.bounds.counts import (
    METHODS,
    Counts,
    epsilon_of_rates,
    evaluate,
    jeffreys_limit,
    katz,
    lower_bound_from_counts,
)
from dpassay.errors import InvalidArgument

TRAMER = {"tp": 4922, "fn": 95078, "fp": 174, "tn": 99826}  # Tramèr et al. 2022, 100 000 per side
NASR = {"tp": 970, "fn": 30, "fp": 20, "tn": 980}  # Nasr et al. 2021, worked example
CIFAR = {"tp": 17, "fn": 983, "fp": 2, "tn": 998}  # Nasr et al. 2021, API attack at epsilon = 4
PERFECT = {"tp": 1000, "fn": 0, "fp": 0, "tn": 1000}


def bound(counts, method="clopper-pearson", delta=1e-5, confidence=0.95):
    return lower_bound_from_counts(**counts, delta=delta, confidence=confidence, method=method)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("counts", "method", "confidence", "expected"),
    [
        # The ceiling that Nasr et al. 2021 quote as 5.60, and what it is with half the trials.
        (PERFECT, "clopper-pearson", 0.95, 5.60058),
        ({"tp": 500, "fn": 0, "fp": 0, "tn": 500}, "clopper-pearson", 0.95, 4.90558),
        (NASR, "clopper-pearson", 0.95, 3.4393),
        (NASR, "clopper-pearson", 0.90, 3.5015),  # one-sided 95 % for each rate
        (CIFAR, "clopper-pearson", 0.95, 0.3200),
        (CIFAR, "clopper-pearson", 0.90, 0.5465),
        (TRAMER, "clopper-pearson", 1 - 1e-10, 2.7950),  # published as "> 2.79"
        (TRAMER, "clopper-pearson", 1 - 2e-10, 2.8033),
        # privacy-estimates 0.1.0
        (NASR, "jeffreys", 0.95, 3.4598),
        (TRAMER, "clopper-pearson", 0.95, 3.1664),
        (TRAMER, "jeffreys", 0.95, 3.1691),
        # Both directions at half the level: the two-sided 95 % limit of one direction.
        (TRAMER, "katz", 0.95, 3.19128),
    ],
)
def test_golden_bounds(counts, method, confidence, expected):
    digits = len(str(expected).split(".")[1])
    found = bound(counts, method, confidence=confidence).epsilon
    assert found == pytest.approx(expected, abs=0.6 * 10.0**-digits)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("alpha", "expected"), [(0.05, 3.21554), (0.025, 3.19128), (1e-10, 2.85233)]
)
def test_golden_katz_in_one_direction(alpha, expected):
    assert katz(Counts(**TRAMER), 1e-5, alpha) == pytest.approx(expected, abs=6e-6)


@pytest.mark.golden
def test_golden_mu_uses_both_upper_limits():
    numbers = bound(TRAMER, "gdp", confidence=1 - 1e-10).details
    assert numbers["mu_lower"] == pytest.approx(1.08057, abs=6e-6)
    assert numbers["fnr_upper"] == pytest.approx(0.955082, abs=6e-7)
    assert numbers["fpr_upper"] == pytest.approx(0.0027445, abs=6e-8)


def test_upper_limit_inverts_the_binomial_tail():
    errors, trials = np.array([0, 1, 20, 999, 500_000]), np.array([7, 1000, 1000, 1000, 10**6])
    for alpha in (0.3, 0.025, 1e-6, 5e-11):
        limit = binomial_upper(errors, trials, alpha)
        assert stats.binom.cdf(errors, trials, limit) == pytest.approx(alpha, rel=1e-5)


@pytest.mark.golden
def test_upper_limit_is_right_where_scipy_is_not():
    # 40 digits with mpmath; scipy.special.betainccinv 1.17 answers 2.898e-06.
    assert binomial_upper(999, 369_246_126, 1e-6) == pytest.approx(3.134975781546279e-06, rel=1e-5)


def test_limits_are_one_when_every_trial_erred():
    assert binomial_upper([5, 1], [5, 1], 0.025).tolist() == [1, 1]
    assert jeffreys_limit([5, 1], [5, 1], 0.025).tolist() == [1, 1]


def test_gaussian_epsilon_is_exact_and_rounded_down():
    found = bound(NASR, "gdp")
    mu = found.details["mu_lower"]

    def excess(epsilon):
        other = math.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2)
        return stats.norm.cdf(-epsilon / mu + mu / 2) - other - 1e-5

    root = optimize.brentq(excess, 0, 100, xtol=1e-12)
    assert found.epsilon == pytest.approx(root, rel=1e-9)
    assert found.epsilon <= root * (1 + 1e-12)


def test_gaussian_bound_never_takes_an_absolute_value():
    # An attack that is worse than useless shows nothing: |mu| was a real bug (jax_privacy #270).
    assert bound({"tp": 10, "fn": 990, "fp": 990, "tn": 10}, "gdp").epsilon == 0
    assert bound({"tp": 500, "fn": 500, "fp": 500, "tn": 500}, "gdp").epsilon == 0


@pytest.mark.parametrize(
    "counts",
    [
        PERFECT,
        {"tp": 0, "fn": 5, "fp": 0, "tn": 5},
        {"tp": 5, "fn": 0, "fp": 5, "tn": 0},
        {"tp": 0, "fn": 5, "fp": 5, "tn": 0},
    ],
)
def test_katz_is_zero_with_a_reason_where_it_is_undefined(counts):
    found = bound(counts, "katz")
    assert found.epsilon == 0
    undefined = counts["fp"] == 0 or counts["tp"] == 0, counts["fn"] == 0 or counts["tn"] == 0
    assert ("undefined" in found.selection) == all(undefined)


def test_assumptions_are_stated():
    stated = {method: bound(NASR, method).assumption for method in METHODS}
    assert stated["clopper-pearson"] == "none"
    assert stated["gdp"] == "Gaussian trade-off"
    assert stated["katz"] == "asymptotic normality"
    assert "credible, not coverage" in stated["bayes"]
    assert stated["jeffreys"] != "none"
    assert "assuming Gaussian trade-off" in str(bound(NASR, "gdp"))


# --- exact coverage: every pair of counts is weighed with its probability -------------------------

RATES = [(0.3, 0.3), (0.05, 0.05), (0.02, 0.4), (0.5, 0.01), (0.1, 0.3), (0.003, 0.2), (0.15, 0.15)]


def error_probability(epsilon_lower, fpr, fnr, n_out, n_in, delta=0.0):
    """The exact probability that a bound exceeds the least epsilon that allows these rates."""
    truth = float(epsilon_of_rates(fpr, fnr, delta)) + 1e-12
    of_fp = stats.binom.pmf(np.arange(n_out + 1), n_out, fpr)
    of_fn = stats.binom.pmf(np.arange(n_in + 1), n_in, fnr)
    total = 0.0
    for fp in np.flatnonzero(of_fp > 1e-6):
        for fn in np.flatnonzero(of_fn > 1e-6):
            counts = Counts(n_in - fn, fn, fp, n_out - fp)
            total += of_fp[fp] * of_fn[fn] * (epsilon_lower(counts) > truth)
    return total


def epsilon_by(method):
    return lambda counts: evaluate(method, counts, 0.0, 0.2)[0]


@pytest.mark.parametrize(("fpr", "fnr"), RATES)
def test_clopper_pearson_covers_exactly(fpr, fnr):
    assert error_probability(epsilon_by("clopper-pearson"), fpr, fnr, 25, 25) <= 0.2


def test_jeffreys_does_not_cover_everywhere():
    # So that the test above can fail, and the assumption is no formality.
    assert error_probability(epsilon_by("clopper-pearson"), 0.14, 0.3, 10, 400) <= 0.2
    assert error_probability(epsilon_by("jeffreys"), 0.14, 0.3, 10, 400) > 0.2


@pytest.mark.golden
@pytest.mark.parametrize(("tpr", "fpr", "expected"), [(0.1, 0.02, 0.038), (0.5, 0.01, 0.007)])
def test_golden_miss_rate_of_katz(tpr, fpr, expected):
    # Exact miss rates at nominal 5 %, 500 trials per world, computed for the method's notes.
    miss = error_probability(lambda c: katz(c, 0.0, 0.05), fpr, 1 - tpr, 500, 500)
    assert miss == pytest.approx(expected, abs=5e-4)


# --- laws -----------------------------------------------------------------------------------------

COUNTS = st.fixed_dictionaries({name: st.integers(0, 60) for name in ("tp", "fn", "fp", "tn")})
SOME = COUNTS.filter(lambda c: c["tp"] + c["fn"] and c["fp"] + c["tn"])
METHOD = st.sampled_from(METHODS)


@given(SOME, METHOD, st.floats(0.5, 0.98))
def test_more_confidence_never_gives_a_larger_bound(counts, method, confidence):
    looser = bound(counts, method, confidence=confidence).epsilon
    assert bound(counts, method, confidence=confidence + 0.01).epsilon <= looser + 1e-9


@given(SOME, METHOD, st.floats(1e-6, 0.4))
def test_a_larger_delta_never_gives_a_larger_bound(counts, method, delta):
    smaller = bound(counts, method, delta=delta).epsilon
    assert bound(counts, method, delta=2 * delta).epsilon <= smaller + 1e-9


@given(SOME, METHOD, st.sampled_from([1e-9, 1e-5, 0.2]))
def test_no_bound_is_above_its_ceiling(counts, method, delta):
    found = bound(counts, method, delta=delta)
    assert 0 <= found.epsilon <= found.ceiling + 1e-9
    assert math.isfinite(found.ceiling)


@given(SOME, METHOD)
def test_the_worlds_may_be_exchanged(counts, method):
    mirrored = {"tp": counts["tn"], "fn": counts["fp"], "fp": counts["fn"], "tn": counts["tp"]}
    assert bound(mirrored, method).epsilon == pytest.approx(bound(counts, method).epsilon, abs=1e-8)


def test_fewer_errors_never_give_a_smaller_bound():
    for method in ("clopper-pearson", "jeffreys", "gdp", "bayes"):
        found = [
            bound({"tp": 100 - k, "fn": k, "fp": 5, "tn": 95}, method).epsilon for k in range(101)
        ]
        if method != "bayes":  # which knows that a test that always errs can be turned round
            assert np.all(np.diff(found) <= 1e-9)
        assert np.all(np.diff(found[:51]) <= 1e-9)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "katz"])
def test_ceiling_is_what_a_perfect_attack_shows(method):
    assert bound(NASR, method, delta=0.01).ceiling == bound(PERFECT, method, delta=0.01).epsilon


@pytest.mark.parametrize("confidence", [0.8, 0.95, 1 - 1e-10])
def test_katz_ceiling_is_attained_by_some_counts(confidence):
    few = [{"tp": 200, "fn": 0, "fp": k, "tn": 200 - k} for k in range(201)]
    best = max(bound(counts, "katz", confidence=confidence).epsilon for counts in few)
    assert bound(few[0], "katz", confidence=confidence).ceiling == pytest.approx(best)


def test_ceiling_includes_delta():
    assert bound(PERFECT, delta=0.5).ceiling == pytest.approx(
        math.log((0.5 - (1 - 0.025**1e-3)) / (1 - 0.025**1e-3))
    )


# --- refusals -------------------------------------------------------------------------------------

GOOD = {"tp": 5, "fn": 1, "fp": 1, "tn": 5, "delta": 1e-5}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"tp": -1}, r"tp=-1 must lie in \[0, 2\^53\]"),
        ({"fn": 1.5}, "fn=1.5 must be a whole number"),
        ({"fp": math.nan}, "fp=nan must be a whole number"),
        ({"tp": 0, "fn": 0}, r"tp \+ fn=0 .* Play trials with the canary"),
        ({"fp": 0, "tn": 0}, r"fp \+ tn=0 .* Play trials without the canary"),
        ({"delta": 1.0}, r"delta=1 must lie in \[0, 1\)"),
        ({"delta": math.nan}, "delta=nan"),
        ({"delta": -1e-9}, "delta=-1e-09"),
        ({"confidence": 1.0}, r"confidence=1 must lie in \(0, 1\)"),
        ({"confidence": math.nan}, "confidence=nan"),
        ({"method": "exact"}, "method='exact' must be one of 'clopper-pearson'"),
        ({"method": "gdp", "delta": 0.0}, "no finite epsilon at 0"),
    ],
)
def test_refusals_name_the_argument(bad, message):
    with pytest.raises(InvalidArgument, match=message):
        lower_bound_from_counts(**{**GOOD, **bad})
