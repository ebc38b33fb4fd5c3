"""Who is guessed: order, cuts, ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.bounds.onerun.ranking import rank
from rates import assert_rate


@given(st.integers(2, 60), st.integers(0, 1000), st.booleans())
def test_counts_are_those_of_a_sort(size, seed, everywhere):
    rng = np.random.default_rng(seed)
    scores, members = rng.permutation(size).astype(float), rng.random(size) < 0.5
    top = int(rng.integers(0, size + 1))
    bottom = int(rng.integers(0, size - top + 1))
    cuts = None if everywhere else [top, size - bottom]
    ranking = rank(scores, members, cuts, rng)
    order = np.argsort(-scores)
    right = members[order[:top]].sum() + (~members[order[size - bottom :]]).sum()
    assert ranking.correct(np.array([top]), np.array([bottom])) == right
    assert ranking.canaries == size


def test_perfect_guesses_are_limited_by_the_coins():
    ranking = rank(np.arange(10.0), np.arange(10) < 3, None, np.random.default_rng(0))
    assert ranking.perfect(np.array([2, 5]), np.array([0, 5])).tolist() == [2, 8]


def test_infinite_scores_are_the_first_and_the_last():
    scores = np.array([0.0, np.inf, -np.inf, 1.0])
    ranking = rank(scores, np.array([False, True, False, True]), [1, 3], np.random.default_rng(0))
    assert ranking.correct(np.array([1]), np.array([1])) == 2


@pytest.mark.parametrize("cuts", [None, [50]])
def test_ties_do_not_leak_the_order_in_which_canaries_were_passed(cuts):
    """Members first and all scores equal: half of the guesses must be right, not all of them."""
    members, rng = np.arange(100) < 50, np.random.default_rng(1)
    top, none = np.array([50]), np.array([0])
    right = sum(
        int(rank(np.zeros(100), members, cuts, rng).correct(top, none)[0]) for _ in range(200)
    )
    # Hypergeometric counts vary less than binomial ones: the stated false alarm is an upper bound.
    assert_rate(right, 200 * 50, 0.5)
    unbroken = int(members[:50].sum()) * 200  # what a stable sort would have found
    with pytest.raises(AssertionError):
        assert_rate(unbroken, 200 * 50, 0.5)
