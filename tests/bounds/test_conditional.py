"""The conditional bound: golden values, one test read in three directions, exact error rates."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpassay.bounds import lower_bound_from_coins
from dpassay.bounds.conditional import Guesses, delta_lower, epsilon_lower, p_value
from dpassay.bounds.counts import Counts, evaluate
from dpassay.errors import InvalidArgument

# Right and wrong guesses at alpha = 0.05, computed with SciPy's beta quantile.
PURE = [
    (100, 10, 1.739925),
    (1000, 900, 0.028764),
    (300_000, 270_000, 0.100994),
    (580_000, 0, 12.173592),
    (5, 0, 0.197763),
]
# Right, wrong, trials, delta; the number of marks and the bound by marks.
MARKS = [
    (1000, 300, 10_000, 1e-3, 12, 1.078760),
    (300_000, 200_000, 20_000_000, 1e-5, 127, 0.400143),
    (50, 0, 1000, 1e-5, 0, 2.749097),
]


@pytest.mark.parametrize(("correct", "wrong", "epsilon"), PURE)
def test_golden_values_of_pure_dp(correct, wrong, epsilon):
    seen = Guesses(correct, wrong, 10**8)
    assert epsilon_lower(seen, 0.0, 0.05) == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize(("correct", "wrong", "trials", "delta", "marks", "epsilon"), MARKS)
def test_golden_values_with_delta(correct, wrong, trials, delta, marks, epsilon):
    seen = Guesses(correct, wrong, trials)
    assert seen.marks(delta, 0.005) == marks
    assert epsilon_lower(seen, delta, 0.05, "marks") == pytest.approx(epsilon, abs=1e-6)


def test_the_share_of_guesses_beats_marks_where_delta_matters():
    for correct, wrong, trials, delta, *_ in MARKS[:2]:
        seen = Guesses(correct, wrong, trials)
        assert epsilon_lower(seen, delta, 0.05) > epsilon_lower(seen, delta, 0.05, "marks")


@pytest.mark.parametrize(
    ("correct", "wrong", "n", "two_limits"),
    [
        (100, 10, 5000, 1.489719),
        (1000, 900, 5000, -0.010236),
        (300_000, 270_000, 10**7, 0.098112),
    ],
)
def test_one_limit_is_above_two(correct, wrong, n, two_limits):
    """Clopper-Pearson limits at half of alpha each, as for worlds in fixed numbers."""
    counts = Counts(tp=correct, fn=n - correct, fp=wrong, tn=n - wrong)
    assert evaluate("clopper-pearson", counts, 0.0, 0.05)[0] == pytest.approx(
        max(two_limits, 0), abs=1e-6
    )
    assert epsilon_lower(Guesses(correct, wrong, 2 * n), 0.0, 0.05) > two_limits


def _tail(correct, wrong, odds):
    """P(Bin(n, odds / (1 + odds)) >= correct) with 40 digits, term by term."""
    n, term, total = correct + wrong, mpmath.mpf(1), mpmath.mpf(1)
    for j in range(wrong):
        term *= mpmath.mpf(n - j) / (j + 1) / odds
        total += term
    return total * (odds / (1 + odds)) ** n


@pytest.mark.parametrize(
    ("correct", "wrong"), [(1, 0), (7, 3), (30, 0), (400, 395), (99_000, 1000), (9000, 2)]
)
@pytest.mark.parametrize("alpha", [0.2, 1e-3, 1e-9])
def test_the_bound_solves_its_equation_in_high_precision(correct, wrong, alpha):
    epsilon = epsilon_lower(Guesses(correct, wrong, 10**6), 0.0, alpha)
    with mpmath.workdps(40):
        tail = float(_tail(correct, wrong, mpmath.exp(mpmath.mpf(epsilon))))
    assert tail == pytest.approx(alpha, rel=2e-6)


counts = st.integers(0, 3000)
levels = st.sampled_from([1e-6, 1e-3, 0.01, 0.05, 0.2])
deltas = st.sampled_from([0.0, 1e-6, 1e-3, 0.02, 0.3])
epsilons = st.floats(0.0, 6.0)


@st.composite
def guesses(draw):
    correct, wrong = draw(counts), draw(counts)
    if draw(st.booleans()) and correct + wrong:
        return Guesses(correct, wrong, correct + wrong, sides=2, abstains=False)
    extra = draw(st.integers(0, 20_000))
    return Guesses(correct, wrong, correct + wrong + extra, draw(st.sampled_from([1, 2])))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seen=guesses(), delta=deltas, epsilon=epsilons, alpha=levels)
def test_bound_and_p_value_are_one_test(seen, delta, epsilon, alpha):
    """(epsilon, delta) falls iff the bound at delta is above epsilon; likewise in delta."""
    lower = epsilon_lower(seen, delta, alpha)
    if abs(lower - epsilon) > 1e-5:
        rejected = p_value(seen, epsilon, delta, seen.level_spent(delta, alpha)) <= alpha
        assert rejected == (lower > epsilon)
    if delta > 0 and abs(delta_lower(seen, epsilon, alpha) - delta) > 1e-5:
        assert (delta_lower(seen, epsilon, alpha) > delta) == (lower > epsilon)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(seen=guesses(), delta=deltas, alpha=levels)
def test_laws(seen, delta, alpha):
    """More confidence, more delta and more wrong guesses never raise the bound."""
    lower = epsilon_lower(seen, delta, alpha)
    assert epsilon_lower(seen, delta, alpha / 2) <= lower
    assert epsilon_lower(seen, min(2 * delta + 1e-6, 0.9), alpha) <= lower
    if seen.abstains:
        worse = Guesses(seen.correct, seen.wrong + 1, seen.trials + 1, seen.sides)
        assert epsilon_lower(worse, 0.0, alpha) <= epsilon_lower(seen, 0.0, alpha)


def error_probability(n, right, wrong, epsilon, delta, alpha, sides, spend=1.0, form="share"):
    """The exact chance that the bound exceeds epsilon: a sum over all counts of n trials."""
    total = 0.0
    for made in range(n + 1):
        chance = stats.binom.pmf(made, n, right + wrong)
        if chance < 1e-12:
            continue
        # Bounds rise with the number of right guesses: find the first that errs.
        low, high = 0, made + 1
        while low < high:
            v = (low + high) // 2
            seen = Guesses(v, made - v, n, sides)
            errs = epsilon_lower(seen, delta, min(alpha * spend, 0.999), form) > epsilon
            low, high = (low, v) if errs else (v + 1, high)
        total += chance * stats.binom.sf(low - 1, made, right / (right + wrong))
    return total


@pytest.mark.parametrize("form", ["share", "marks"])
@pytest.mark.parametrize(
    ("rate", "epsilon", "delta", "sides"),
    [(0.1, 1.0, 0.0, 1), (0.3, 0.3, 0.0, 2), (0.05, 1.0, 0.02, 1), (0.2, 0.5, 0.1, 2)],
)
def test_the_exact_error_is_below_alpha_at_the_boundary(rate, epsilon, delta, sides, form):
    """At a mechanism that just meets (epsilon, delta): P(bound > epsilon), over all outcomes."""
    wrong = rate
    right = math.exp(epsilon) * wrong + delta * sides / 2
    found = error_probability(120, right, wrong, epsilon, delta, 0.05, sides, form=form)
    assert 1e-6 < found <= 0.05


def test_a_level_that_is_spent_twice_is_seen():
    """The mutant: with twice the level the exact error is above alpha."""
    right, wrong = math.e * 0.2, 0.2
    assert error_probability(120, right, wrong, 1.0, 0.0, 0.05, 1, spend=2.0) > 0.05


def test_delta_is_not_free():
    """The mutant leaves delta out: a mechanism of (1, 0.2)-DP breaks the bound nearly always."""
    right, wrong = math.e * 0.1 + 0.1, 0.1
    assert error_probability(120, right, wrong, 1.0, 0.0, 0.05, 1) > 0.2


def test_no_guess_shows_nothing():
    for seen in (Guesses(0, 0, 10), Guesses(0, 5, 10)):
        assert epsilon_lower(seen, 1e-5, 0.05) == -math.inf
        assert delta_lower(seen, 0.0, 0.05) == 0
        assert p_value(seen, 0.0, 0.0) == 1
    found = lower_bound_from_coins(correct=0, wrong=3, trials=9, delta=0.0)
    assert found.epsilon == 0
    assert np.isfinite(found.ceiling)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"correct": -1}, "correct=-1"),
        ({"wrong": 50}, "trials=20 must be at least"),
        ({"sides": 3}, "sides=3"),
        ({"abstains": False}, "abstains=False"),
        ({"delta": 1.0}, "delta=1"),
        ({"confidence": 1.0}, "confidence=1"),
        ({"leak": "none"}, "leak='none'"),
    ],
)
def test_bad_values(change, match):
    options = {"correct": 5, "wrong": 1, "trials": 20, "delta": 0.0} | change
    with pytest.raises(InvalidArgument, match=match):
        lower_bound_from_coins(**options)
