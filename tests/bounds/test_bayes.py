"""The credible bound against two-dimensional quadrature, against sampling at a billion trials."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from dpassay.bounds import bayes
from dpassay.bounds.bayes import credible_interval, credible_lower
from dpassay.errors import InvalidArgument
from rates import assert_rate, assert_rate_at_most

README = {"tp": 487, "fn": 0, "fp": 512, "tn": 1, "delta": 1e-5}
NASR = {"tp": 970, "fn": 30, "fp": 20, "tn": 980, "delta": 1e-5}


@pytest.mark.golden
def test_golden_interval_of_the_authors():
    # privacy-estimates' README gives [0.145, 6.399] with a tolerance of 1e-2; the exact quadrature
    # of the same posterior [0.1439, 6.4156].
    low, high = credible_interval(**README, confidence=0.9)
    assert (low, high) == pytest.approx((0.1439, 6.4156), abs=6e-5)


@pytest.mark.golden
def test_golden_bounds_of_privacy_estimates():
    # 0.1.0, root finding to 1e-2: one-sided 3.563, two-sided [3.511, 4.339].
    assert credible_lower(970, 30, 20, 980, 1e-5, 0.05) == pytest.approx(3.563, abs=5e-3)
    assert credible_interval(**NASR) == pytest.approx((3.511, 4.339), abs=5e-3)


def mass_outside(epsilon, tp, fn, fp, tn, delta, points=1500):
    """P(epsilon > x) by brute force: count grid points of quantiles outside the privacy region.

    The two grids differ, so that equal posteriors do not put points on the region's edge.
    """
    levels, others = ((np.arange(n) + 0.5) / n for n in (points, points + 9))
    fnr = special.betaincinv(fn + 0.5, tp + 0.5, levels)[:, None]
    fpr = special.betaincinv(fp + 0.5, tn + 0.5, others)
    low = np.maximum(1 - delta - np.exp(epsilon) * fnr, np.exp(-epsilon) * (1 - delta - fnr))
    high = np.minimum(1 + np.exp(-epsilon) * (delta - fnr), delta + np.exp(epsilon) * (1 - fnr))
    return np.mean((fpr < low) | (fpr > high))


@pytest.mark.parametrize(
    "counts",
    [
        (970, 30, 20, 980),
        (487, 0, 512, 1),
        (10, 0, 0, 10),
        (3, 7, 2, 8),
        (1, 9, 9, 1),
        (0, 20, 0, 20),
        (4922, 95078, 174, 99826),
    ],
)
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_posterior_equals_two_dimensional_quadrature(counts, delta):
    posterior = bayes._Posterior(*counts, delta)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 3.25, 3.6, 4.0, 6.0):
        expected = mass_outside(epsilon, *counts, delta)
        assert posterior.above(epsilon) == pytest.approx(expected, abs=1e-4)


def sampled_epsilon(rng, n, tp, fn, fp, tn, delta):
    """Draws of epsilon from the posterior: the largest of the four inequalities."""
    fnr, fpr = rng.beta(fn + 0.5, tp + 0.5, n), rng.beta(fp + 0.5, tn + 0.5, n)
    pairs = ((1 - fnr, fpr), (fpr, 1 - fnr), (1 - fpr, fnr), (fnr, 1 - fpr))
    with np.errstate(divide="ignore"):
        ratios = [np.log(np.maximum(p - delta, 0)) - np.log(q) for p, q in pairs]
    return np.maximum(np.max(ratios, axis=0), 0)


BILLION = 10**9
LARGE = [
    (BILLION * 9 // 10, BILLION // 10, BILLION // 100, BILLION * 99 // 100),
    (BILLION, 0, 0, BILLION),
    (BILLION // 2, BILLION // 2, 3, BILLION - 3),
    (50, BILLION - 50, 0, BILLION),
    (BILLION, 0, 500, 500),
    (100_000 - 95_078, 95_078, 174, 99_826),
]


@pytest.mark.parametrize("counts", LARGE)
def test_bound_is_right_up_to_a_billion_trials(counts):
    draws = sampled_epsilon(np.random.default_rng(5), 200_000, *counts, 1e-9)
    for alpha in (0.5, 0.05, 1e-3):
        bound = credible_lower(*counts, 1e-9, alpha)
        assert_rate(int(np.sum(draws < bound)), draws.size, alpha)


def test_the_check_by_sampling_catches_a_bound_that_is_slightly_off():
    counts = LARGE[0]
    draws = sampled_epsilon(np.random.default_rng(5), 200_000, *counts, 1e-9)
    off = credible_lower(*counts, 1e-9, 0.05) + 0.1 * draws.std()
    with pytest.raises(AssertionError, match="chance"):
        assert_rate(int(np.sum(draws < off)), draws.size, 0.05)


def test_the_posterior_does_not_pay_for_the_larger_of_two_directions():
    # Equal error rates attain both inequalities: the bound at 95 % errs near 0.05 (1 - log 0.05).
    rng, n, repeats = np.random.default_rng(6), 500, 300
    truth = np.log(0.9 / 0.1)
    wrong = 0
    for fn, fp in rng.binomial(n, 0.1, size=(repeats, 2)):
        wrong += credible_lower(n - fn, fn, fp, n - fp, 0.0, 0.05) > truth
    assert_rate(wrong, repeats, 0.05 * (1 - np.log(0.05)))
    with pytest.raises(AssertionError, match="chance"):
        assert_rate_at_most(wrong, repeats, 0.05)


@given(
    st.tuples(*[st.integers(0, 300)] * 4).filter(lambda c: c[0] + c[1] and c[2] + c[3]),
    st.sampled_from([0.0, 1e-5, 0.3]),
)
def test_posterior_falls_from_one_to_zero(counts, delta):
    above = [bayes._Posterior(*counts, delta).above(x) for x in (0, 0.3, 1, 3, 10, 60)]
    assert np.all(np.diff(above) <= 1e-8)
    assert above[0] <= 1 + 1e-8
    assert above[-1] < 1e-6
    if delta == 0:
        assert above[0] == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"tp": -1}, "tp=-1"),
        ({"tp": 0, "fn": 0}, r"tp \+ fn=0"),
        ({"fp": 0, "tn": 0}, r"fp \+ tn=0"),
        ({"delta": 1.0}, "delta=1"),
        ({"confidence": 0.0}, "confidence=0"),
    ],
)
def test_refusals_name_the_argument(bad, message):
    with pytest.raises(InvalidArgument, match=message):
        credible_interval(**{**NASR, **bad})
