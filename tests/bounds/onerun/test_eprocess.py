"""Betting on guesses: means, Ville's inequality and order, all by enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.bounds.onerun.eprocess import betting_epsilon, log_wealth
from dpassay.bounds.onerun.pvalues import pure_epsilon

N = np.arange(1, 11)
PATTERNS = np.array(list(itertools.product((0, 1), repeat=N.size)))
RIGHT = np.cumsum(PATTERNS, axis=1)


def probabilities(p):
    right = PATTERNS.sum(axis=1)
    return p**right * (1 - p) ** (N.size - right)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
def test_mean_wealth_is_one_at_the_limit_and_less_below(epsilon):
    q = 1 / (1 + math.exp(-epsilon))
    wealth = np.array([np.exp(log_wealth(epsilon, N, v)) for v in RIGHT])
    assert probabilities(q) @ wealth == pytest.approx(np.ones(N.size))
    assert np.all(probabilities(q - 0.05) @ wealth < 1)
    assert np.all(probabilities(q + 0.05) @ wealth > 1)  # a mutant with too small a q gains


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_bound_errs_at_most_as_often_as_it_says(epsilon):
    q, level = 1 / (1 + math.exp(-epsilon)), 0.2
    kinds, inverse = np.unique(RIGHT, axis=0, return_inverse=True)
    bounds = np.array([betting_epsilon(N, v, level)[0] for v in kinds])
    wrong = probabilities(q)[(bounds > epsilon)[inverse.ravel()]].sum()
    assert wrong <= level


@given(st.lists(st.booleans(), min_size=1, max_size=80), st.floats(0, 4))
def test_wealth_falls_in_epsilon_and_the_bound_stops_where_it_is_enough(steps, epsilon):
    n, v = np.arange(1, len(steps) + 1), np.cumsum(steps)
    assert np.all(log_wealth(epsilon, n, v) >= log_wealth(epsilon + 0.3, n, v))
    found, index = betting_epsilon(n, v, 0.05)
    assert found <= max(float(pure_epsilon(len(steps), len(steps), 0.05)), 0)
    if found > 0:
        assert log_wealth(found, n, v)[index] >= math.log(20) - 1e-9


def test_perfect_guesses_come_close_to_the_ceiling():
    n = np.arange(1, 1001)
    found, _ = betting_epsilon(n, n, 0.05)
    assert 5.2 < found < 5.809


def test_a_leak_is_paid_for():
    n = np.arange(1, 1001)
    plain, _ = betting_epsilon(n, n, 0.05)
    some, _ = betting_epsilon(n, n, 0.05, leak=0.04)
    assert 0 < some < plain
    # Too large a leak to be paid for at small epsilon: nothing below log(2 L / level - 1) is said.
    v = np.round(0.8 * n).astype(int)
    assert betting_epsilon(n, v, 0.05, leak=0.0)[0] > 1
    assert betting_epsilon(n, v, 0.05, leak=2.0)[0] == 0
    assert betting_epsilon(n, n, 0.05, leak=2.0)[0] > math.log(2 * 2 / 0.05 - 1)
