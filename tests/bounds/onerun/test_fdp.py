"""Trade-off functions in one run: the recursion against its formula, brute force, a table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import norm

from bounds.onerun import linear_programmes as lp
from dpassay.bounds.onerun import fdp
from dpassay.privacy import GDP, ZCDP, ApproxDP, PureDP


def slow_refutes(level, guesses, correct, canaries, inverse):
    """Mahloujifar, Melis and Chaudhuri's test as it is written: all steps, no short cuts."""
    r, h = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        new = max(h, inverse(r))
        r, h = min(1, r + i / (guesses - i) * (new - h)), new
    return r + h >= guesses / canaries


@given(st.integers(1, 60), st.floats(0.01, 4), st.floats(1e-4, 0.5), st.floats(1, 30), st.data())
def test_recursion_against_the_formula(guesses, mu, level, factor, data):
    correct = data.draw(st.integers(1, guesses))
    canaries = guesses * factor
    found = fdp.refutes(level, guesses, correct, canaries, fdp.gaussian_inverse(mu))
    slow = slow_refutes(
        level, guesses, correct, canaries, lambda x: norm.cdf(norm.ppf(x) - mu) if x < 1 else 1.0
    )
    assert found == slow


@pytest.mark.parametrize(
    ("guesses", "correct", "canaries"), [(100, 90, 1000), (40, 40, 40), (333, 271, 500)]
)
def test_largest_refuted_gaussian_against_the_slow_test(guesses, correct, canaries):
    mu, _ = fdp.largest_refuted(
        np.array([guesses]), np.array([correct]), canaries, 0.05, lambda m: GDP(mu=m)
    )
    for theta, expected in ((mu * (1 - 1e-6), True), (mu * (1 + 1e-6), False)):
        assert slow_refutes(
            0.05, guesses, correct, canaries, lambda x, t=theta: norm.cdf(norm.ppf(x) - t)
        ) is np.bool_(expected)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("mu", "published"),
    [(2.0, 8.16), (1.0, 3.61), (0.5, 1.59)],  # their table 1, 1e5 canaries
)
def test_published_table(mu, published):
    """Quantile-spaced Gaussian scores, best number of guesses; theirs come from random draws."""
    half = 50_000
    z = ndtri((np.arange(half) + 0.5) / half)
    order = np.argsort(-np.concatenate([z + mu, z]))
    right = np.cumsum(order < half)
    k = np.unique(np.geomspace(100, half, 25).astype(int))
    found, _ = fdp.largest_refuted(2 * k, 2 * right[k - 1], 2 * half, 0.05, lambda m: GDP(mu=m))
    epsilon = GDP(mu=found).epsilon(1e-5)
    assert 0.88 * published < epsilon < 1.02 * published
    assert found < mu


@pytest.mark.parametrize(("kinds", "share"), [((1, -1), 1.0), ((1,), 0.5)])
def test_no_mechanism_beats_the_p_value(kinds, share):
    """Guesses of one kind count half the canaries; a quarter would be too few."""
    tightest = 0.0
    for canaries, guesses, epsilon, delta in (
        (3, 2, 0.5, 0.05),
        (4, 1, 0.0, 0.1),
        (4, 2, 1.0, 0.02),
    ):
        claim = ApproxDP(epsilon=epsilon, delta=delta)
        for correct in range(1, guesses + 1):
            brute = lp.most_over_mechanisms(canaries, {guesses: correct}, epsilon, delta, kinds)
            p = fdp.p_value(guesses, correct, canaries * share, claim)
            assert brute <= p + 1e-9
            tightest = max(
                tightest, brute / fdp.p_value(guesses, correct, canaries * share / 2, claim)
            )
    assert tightest > 1


@pytest.mark.parametrize(
    "curve", [PureDP(epsilon=1.0), ApproxDP(epsilon=0.5, delta=1e-3), ZCDP(rho=0.3), GDP(mu=1.0)]
)
def test_lines_stay_below_the_trade_off(curve):
    inverse = fdp.curve_inverse(curve)
    x = np.concatenate([np.geomspace(1e-7, 0.5, 40), np.linspace(0.5, 1, 20)])
    exact = curve.tradeoff(1 - x)
    lines = np.array([inverse(float(v)) for v in x])
    if isinstance(curve, ZCDP):  # its own trade-off is made of other lines from below
        assert np.all(lines <= np.maximum(exact * (1 + 1e-3), exact + 1e-9))
    else:
        assert np.all(lines <= exact * (1 + 1e-9) + 1e-15)
        assert np.all(lines >= exact * (1 - 2e-3) - 1e-12)


@given(st.floats(1e-6, 8), st.floats(1e-12, 0.9))
def test_epsilon_of_a_curve_is_rounded_down(mu, delta):
    found = fdp.epsilon_lower(GDP(mu=mu), delta)
    exact = GDP(mu=mu).epsilon(delta)
    assert exact * (1 - 1e-9) - 1e-11 <= found <= exact
    claim = ApproxDP(epsilon=mu, delta=1e-5)
    assert fdp.epsilon_lower(claim, 1e-5) == pytest.approx(mu, rel=1e-11)
    assert fdp.epsilon_lower(claim, 1e-5) <= mu


@given(st.integers(1, 200), st.floats(0.05, 3), st.data())
def test_p_value_is_the_least_level_that_refutes(guesses, mu, data):
    correct = data.draw(st.integers(1, guesses))
    p = fdp.p_value(guesses, correct, 2 * guesses, GDP(mu=mu))
    inverse = fdp.gaussian_inverse(mu)
    assert p == 1 or fdp.refutes(p, guesses, correct, 2 * guesses, inverse)
    assert p < 1e-14 or not fdp.refutes(p * (1 - 1e-6), guesses, correct, 2 * guesses, inverse)


def test_best_of_several_candidates():
    n, v = np.array([10, 50, 100, 400]), np.array([9, 46, 90, 320])
    each = [
        fdp.largest_refuted(n[i : i + 1], v[i : i + 1], 1000, 0.05, lambda m: GDP(mu=m))[0]
        for i in range(4)
    ]
    best, index = fdp.largest_refuted(n, v, 1000, 0.05, lambda m: GDP(mu=m))
    assert index == int(np.argmax(each))
    assert best == pytest.approx(max(each), rel=1e-7)
