"""P-values of right guesses: goldens, brute force, laws."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom

from bounds.onerun import linear_programmes as lp
from dpassay.bounds.onerun.pvalues import (
    Chosen,
    Exact,
    Steinke,
    hoeffding_epsilon,
    largest_epsilon,
    leak_rate_bound,
    log_pmf,
    pure_epsilon,
    reserve,
    tail,
)

LEVEL = 0.05


def epsilon_of(p_value, guesses, correct, level=LEVEL):
    return largest_epsilon(p_value, guesses, correct, level)[0]


@pytest.mark.golden
@pytest.mark.parametrize(
    ("guesses", "correct", "epsilon"),
    [
        (10, 9, 0.429845),
        (100, 80, 0.958392),
        (200, 150, 0.821396),
        (1000, 600, 0.297468),
        (64, 64, 3.038199),
        (1000, 1000, 5.809068),
        (100, 50, -0.349013),
        (2, 2, -1.2448),
    ],
)
def test_pure_bound_of_hw3(guesses, correct, epsilon):
    found = pure_epsilon(guesses, correct, LEVEL)
    assert found == pytest.approx(epsilon, abs=5e-5 if guesses == 2 else 6e-7)
    seen = binom.sf(correct - 1, guesses, 1 / (1 + np.exp(-found)))
    assert LEVEL * (1 - 1e-7) <= seen <= LEVEL


@pytest.mark.golden
@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "epsilons"),
    [  # levels of delta 0, 1e-6, 1e-5, 1e-4, 1e-3
        (1000, 100, 90, (1.630823, 1.630358, 1.626143, 1.580560, 0.388474)),
        (1000, 200, 150, (0.821396, 0.821254, 0.819973, 0.806512, 0.454401)),
        (1000, 1000, 600, (0.297468, 0.297444, 0.297227, 0.295012, 0.265991)),
        (1000, 200, 200, (4.193630, 4.190924, 4.166490, 3.909112, 1.730453)),
        (1000, 1000, 1000, (5.809068, 5.806397, 5.782283, 5.529350, 3.488995)),
        (16384, 1000, 700, (0.732011, 0.731567, 0.727428, 0.649959, 0.0)),
    ],
)
def test_published_bound(canaries, guesses, correct, epsilons):
    for delta, epsilon in zip((0, 1e-6, 1e-5, 1e-4, 1e-3), epsilons, strict=True):
        found = epsilon_of(Steinke(canaries, delta), guesses, correct)
        assert found == pytest.approx(epsilon, abs=6e-7)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "delta", "epsilon"),
    [
        (1000, 100, 100, 0, 3.4930),
        (1000, 100, 100, 1e-5, 3.4654),
        (1000, 1000, 1000, 1e-5, 5.7823),
        (5000, 500, 450, 1e-5, 1.9414),
        (100, 100, 75, 0, 0.7022),
        (100_000, 1000, 950, 1e-5, 2.4948),
    ],
)
def test_published_bound_of_public_ports(canaries, guesses, correct, delta, epsilon):
    assert epsilon_of(Steinke(canaries, delta), guesses, correct) == pytest.approx(
        epsilon, abs=6e-5
    )


@given(st.integers(1, 300), st.floats(0, 6), st.floats(1e-9, 1e-2), st.integers(1, 20), st.data())
def test_published_p_value_is_its_formula(guesses, epsilon, delta, factor, data):
    correct = data.draw(st.integers(1, guesses))
    q = 1 / (1 + math.exp(-epsilon))
    beta = binom.sf(correct - 1, guesses, q)
    i = np.arange(1, correct + 1)
    windows = (binom.sf(correct - i - 1, guesses, q) - beta) / i
    expected = min(1, beta + 2 * factor * guesses * delta * windows.max()) if beta <= 0.5 else 1.0
    found = Steinke(factor * guesses, delta)(epsilon, guesses, correct)
    assert expected * (1 - 1e-12) - 1e-13 <= found <= expected * (1 + 1e-6) + 1e-13
    quick = Steinke(factor * guesses, delta).at_least(epsilon, guesses, correct)
    assert quick <= found * (1 + 1e-9)


@pytest.mark.parametrize(("canaries", "guesses"), [(2, 2), (3, 2), (3, 3), (4, 3)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.05), (0.7, 0.01), (1.5, 0.1)])
def test_exact_p_value_is_the_most_over_all_mechanisms(canaries, guesses, epsilon, delta):
    for correct in range(1, guesses + 1):
        brute = lp.most_over_mechanisms(canaries, {guesses: correct}, epsilon, delta)
        assert Exact(canaries * delta)(epsilon, guesses, correct) == pytest.approx(brute, abs=1e-8)


@pytest.mark.parametrize(("canaries", "guesses"), [(3, 1), (3, 2), (4, 2), (3, 3)])
def test_guesses_of_one_kind_leak_half(canaries, guesses):
    for epsilon, delta in ((0.0, 0.05), (1.0, 0.02)):
        for correct in range(1, guesses + 1):
            brute = lp.most_over_mechanisms(
                canaries, {guesses: correct}, epsilon, delta, kinds=(1,)
            )
            assert brute <= Exact(canaries * delta / 2)(epsilon, guesses, correct) + 1e-9


def worst_law(guesses, correct, epsilon, leak):
    """The law of the number of right guesses that attains the exact p-value."""
    q = 1 / (1 + math.exp(-epsilon))
    n = np.arange(guesses + 1)
    law = binom.pmf(n, guesses, q)
    step = leak / (correct * law[correct])
    weight = 1 - step * law[correct:].sum() + step * (n >= correct)
    assert weight.min() >= 0
    return law * weight


@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "epsilon", "delta"),
    [(1000, 200, 130, 0.3, 1e-5), (5000, 100, 97, 2.0, 1e-4), (300, 300, 180, 0.1, 1e-3)],
)
def test_exact_p_value_is_attained_by_a_private_algorithm(
    canaries, guesses, correct, epsilon, delta
):
    law = worst_law(guesses, correct, epsilon, canaries * delta)
    assert law.sum() == pytest.approx(1)
    n = np.arange(1, guesses + 1)
    right, wrong = n * law[1:] / canaries, (guesses - n + 1) * law[:-1] / canaries
    grow = np.exp(epsilon)
    spent = np.maximum(right - grow * wrong, 0).sum() + np.maximum(wrong - grow * right, 0).sum()
    assert spent == pytest.approx(delta, rel=1e-6)  # (epsilon, delta)-DP, and no better
    p = Exact(canaries * delta)(epsilon, guesses, correct)
    assert law[correct:].sum() == pytest.approx(p, rel=1e-9)


def test_mutant_that_charges_for_guesses_only_is_caught_by_the_worst_algorithm():
    canaries, guesses, correct, delta = 16384, 1000, 700, 1e-4

    def mutant(epsilon, guesses, correct):  # + r delta in place of 2 m delta
        return tail(epsilon, guesses, correct) + guesses * delta * leak_rate_bound(
            epsilon, guesses, correct
        )

    claimed = epsilon_of(mutant, guesses, correct)
    honest = epsilon_of(Exact(canaries * delta), guesses, correct)
    law = worst_law(guesses, correct, claimed, canaries * delta)
    assert law[correct:].sum() > 1.2 * LEVEL  # true epsilon = claimed, and it is refuted too often
    law = worst_law(guesses, correct, honest, canaries * delta)
    assert law[correct:].sum() <= LEVEL


@given(st.integers(1, 5000), st.floats(0, 8), st.floats(1e-9, 0.1), st.floats(1, 50), st.data())
def test_exact_is_never_above_the_published_one_where_it_matters(
    guesses, epsilon, delta, factor, data
):
    correct = data.draw(st.integers(1, guesses))
    canaries = math.ceil(guesses * factor)
    published = Steinke(canaries, delta)(epsilon, guesses, correct)
    exact = Exact(canaries * delta)(epsilon, guesses, correct)
    assert tail(epsilon, guesses, correct) > 0.5 or exact <= published * (1 + 1e-9)


@given(st.integers(1, 300), st.floats(0, 4), st.data())
def test_leak_rate_is_one_minus_q_over_the_gap_of_means(guesses, epsilon, data):
    correct = data.draw(st.integers(1, guesses))
    q = 1 / (1 + math.exp(-epsilon))
    n = np.arange(guesses + 1)
    pmf = binom.pmf(n, guesses, q)
    assume(min(pmf[correct:].sum(), pmf[:correct].sum()) > 1e-200)
    above, below = (np.average(n[part], weights=pmf[part]) for part in (n >= correct, n < correct))
    rho = leak_rate_bound(epsilon, guesses, correct) * binom.cdf(correct - 1, guesses, q)
    assert rho == pytest.approx((1 - q) / (above - below), rel=1e-8)


def test_published_p_value_fails_far_above_any_level():
    brute = lp.most_over_mechanisms(4, {4: 1}, 0.0, 0.05)
    assert brute == pytest.approx(0.984375)
    formula = 15 / 16 + 2 * 4 * 0.05 * (1 / 16)
    assert formula < brute - 0.02
    assert Steinke(4, 0.05)(0.0, 4, 1) == 1  # so it is not used there


def test_a_number_of_guesses_chosen_by_the_output_needs_a_shared_level():
    """Two guesses, both right, or four, three of them right: each alone would look innocent."""
    canaries, delta, threshold = 4, 0.175, {2: 2, 4: 3}
    brute = lp.most_over_mechanisms(canaries, threshold, 0.0, delta)
    each = [float(Exact(canaries * delta)(0.0, n, v)) for n, v in threshold.items()]
    assert brute > max(each) + 0.03
    betas = [float(tail(0.0, n, v)) for n, v in threshold.items()]
    rates = [float(leak_rate_bound(0.0, n, v)) for n, v in threshold.items()]
    assert brute <= max(betas) + canaries * delta * max(rates)


@given(st.integers(1, 2000), st.floats(0, 6), st.floats(1e-8, 0.5), st.data())
def test_chosen_keeps_both_terms_within_their_shares(guesses, epsilon, leak, data):
    correct = data.draw(st.integers(1, guesses))
    chosen = Chosen(Exact(leak), leak, LEVEL, canaries=2 * guesses)
    if chosen(epsilon, guesses, correct) <= LEVEL:
        beta = tail(epsilon, guesses, correct)
        rate = leak_rate_bound(epsilon, guesses, correct)
        assert beta <= (1 - chosen.share) * LEVEL
        assert leak * rate <= chosen.share * LEVEL * (1 + 1e-12)
    assert 0 < chosen.share <= 0.5


@given(st.integers(1, 400), st.floats(0, 5), st.data())
def test_leak_rate_is_its_formula_and_rises_with_epsilon(guesses, epsilon, data):
    correct = data.draw(st.integers(1, guesses))
    q = 1 / (1 + math.exp(-epsilon))
    assume(binom.pmf(correct, guesses, q) > 1e-280)
    expected = binom.sf(correct - 1, guesses, q) / (correct * binom.pmf(correct, guesses, q))
    found = leak_rate_bound(epsilon, guesses, correct)
    assert found == pytest.approx(expected, rel=1e-8)
    assert leak_rate_bound(epsilon + 0.1, guesses, correct) >= found * (1 - 1e-12)


def test_leak_rate_where_the_tail_underflows():
    rate = leak_rate_bound(0.0, 5000, 5000)
    assert tail(0.0, 5000, 5000) == 0
    assert rate == pytest.approx(1 / 5000, rel=1e-12)


@pytest.mark.parametrize(
    ("guesses", "wrong", "error"),
    [(10, 3, 0.2), (1000, 1, 0.3), (100_000, 40_123, 0.4), (50, 0, 0.1)],
)
def test_log_pmf_against_integers(guesses, wrong, error):
    log_choose = math.log(math.comb(guesses, wrong))
    expected = log_choose + wrong * math.log(error) + (guesses - wrong) * math.log1p(-error)
    scale = max(1.0, abs(log_choose))
    assert float(log_pmf(wrong, guesses, error)) == pytest.approx(
        expected, abs=4e-16 * scale + 1e-12
    )


def test_log_pmf_sums_to_one_for_millions():
    n, error = 10_000_000, 0.3
    x = np.arange(3_000_000 - 20_000, 3_000_000 + 20_001.0)
    assert np.exp(log_pmf(x, n, error)).sum() == pytest.approx(1, abs=1e-12)


def test_pure_bound_holds_its_precision_for_millions_of_perfect_guesses():
    n = 10_000_000
    epsilon = float(pure_epsilon(n, n, LEVEL))
    # q^n = level exactly: 1 - q = 1 - level^(1/n)
    exact = -math.log(math.expm1(-math.log(LEVEL) / n))
    assert exact - 1e-7 <= epsilon <= exact
    assert tail(epsilon, n, n) <= LEVEL


@pytest.mark.golden
def test_hoeffding_is_its_closed_form():
    p = 0.8 - math.sqrt(math.log(20) / 200)
    assert hoeffding_epsilon(100, 80, 0.0, LEVEL) == pytest.approx(math.log(p / (1 - p)), abs=2e-8)
    assert hoeffding_epsilon(2, 1, 0.0, LEVEL) == -np.inf
    p = 0.8 - math.sqrt(math.log(4 / 0.04) / 200)  # four looks, .01 of the level for delta
    shared = hoeffding_epsilon(100, 80, 0.02, LEVEL, looks=4)
    assert shared == pytest.approx(math.log(p / (1 - p)), abs=2e-8)


@given(st.integers(1, 3000), st.floats(0, 0.04), st.data())
def test_hoeffding_is_never_above_the_exact_bound(guesses, leak, data):
    correct = data.draw(st.integers(0, guesses))
    closed = float(hoeffding_epsilon(guesses, correct, leak, LEVEL))
    assert max(closed, 0) <= epsilon_of(Exact(leak), guesses, correct) + 1e-9


@pytest.mark.parametrize("guesses", range(790, 870, 4))
def test_perfect_guesses_count_where_tails_leave_the_range_of_the_library(guesses):
    assert 5.0 < epsilon_of(Exact(0.04), guesses, guesses) < pure_epsilon(guesses, guesses, LEVEL)


def test_reserve_pays_for_any_leak():
    assert reserve(0.0, LEVEL) == (LEVEL, 0.0)
    left, floor = reserve(0.02, LEVEL)
    assert (left, floor) == (pytest.approx(0.04), 0.0)
    for leak in (0.051, 1.0, 50.0):
        left, floor = reserve(leak, LEVEL)
        assert left + leak / (1 + math.exp(floor)) == pytest.approx(LEVEL)


@pytest.mark.parametrize("make", [lambda leak: Exact(leak), lambda leak: Steinke(400, leak / 400)])
@given(st.integers(1, 400), st.floats(0, 0.3), st.data())
def test_bound_is_the_last_epsilon_that_is_refuted(make, guesses, leak, data):
    correct = data.draw(st.integers(0, guesses))
    p_value = make(leak)
    found = epsilon_of(p_value, guesses, correct)
    if found > 0:
        assert p_value(found, guesses, correct) <= LEVEL
    assert p_value(found + 1e-6, guesses, correct) > LEVEL


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0.4, 1)), min_size=1, max_size=40))
def test_best_candidate_is_the_best_of_all(candidates):
    n = np.array([c[0] for c in candidates])
    v = np.round(n * np.array([c[1] for c in candidates]))
    for p_value in (Steinke(2000, 1e-4), Exact(0.2), Exact(0.0)):
        best, index = largest_epsilon(p_value, n, v, LEVEL)
        each = [epsilon_of(p_value, a, b) for a, b in zip(n, v, strict=True)]
        assert best == pytest.approx(max(each), abs=1e-8)
        assert each[index] == pytest.approx(best, abs=1e-8)
