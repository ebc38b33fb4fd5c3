"""Where the product theorems end: mechanisms that they do not cover must be seen to break them."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from dpassay.bounds.onerun import weighted
from dpassay.bounds.onerun.certainty import Certainty
from dpassay.bounds.onerun.product import FixedCount
from dpassay.privacy import GDP

M, RUNS = 1000, 2000


def critical(statistic, level=0.05):
    """The largest value that refutes at the level, from null draws."""
    return np.quantile(statistic, level, method="lower") - 1


def test_shared_luck_errs():
    """One |L| for all canaries, each of which is 1-GDP by itself: not a product, and not DP-SGD.

    The limit of what a bound in the DP-SGD form may say: noise whose scale is drawn once for all.
    """
    certainty = Certainty.of_curve(GDP(mu=1.0))
    cuts, rng = weighted.cut_ranks(M), np.random.default_rng(0)
    weights = weighted.weigh(certainty, cuts)
    places = weighted.draw_places(cuts, 20_000, rng)
    null = weighted.draw_errors(certainty, cuts, places, rng) @ weights
    luck = special.expit(-np.abs(rng.normal(0.5, 1.0, size=RUNS)))[:, None]
    wrong = rng.random((RUNS, M)) < luck  # equally certain: their order is chance
    seen = wrong @ np.repeat(weights, np.diff(cuts, prepend=0))
    assert np.mean(seen <= critical(null)) > 0.10
    few = sum(FixedCount(M, M, u).p_value(certainty) <= 0.05 for u in range(M))
    assert np.mean(wrong.sum(axis=1) < few) > 0.30


def chance_of_all_right(law, statistic):
    """The best chance, over guesses, that the statistic of the errors of two canaries is 0."""
    total = 0.0
    for seen in {key[0] for key in law}:
        here = {coins: p for (y, coins), p in law.items() if y == seen}
        total += max(
            sum(p for coins, p in here.items() if statistic(coins, guess, first) == 0)
            for guess in itertools.product((0, 1), repeat=2)
            for first in (0, 1)
        )
    return total


def errors_of_both(coins, guess, first):
    return sum(s != g for s, g in zip(coins, guess, strict=True))


def errors_of_first(coins, guess, first):
    return coins[first] != guess[first]


def law_of_draws(draws):
    """P(seen, coins) of two canaries: one step without noise, drawn together as stated."""
    law = {}
    for coins in itertools.product((0, 1), repeat=2):
        for drawn, p in draws.items():
            seen = tuple(s * b for s, b in zip(coins, drawn, strict=True))
            law[seen, coins] = law.get((seen, coins), 0.0) + p / 4
    return law


POISSON = dict.fromkeys(itertools.product((0, 1), repeat=2), 0.25)


@pytest.mark.parametrize(
    ("draws", "statistic", "allowed", "reached"),
    [
        ({(0, 0): 0.5, (1, 1): 0.5}, errors_of_both, 0.5625, 0.625),  # shared draws
        ({(0, 1): 0.5, (1, 0): 0.5}, errors_of_first, 0.8125, 0.875),  # batches of a fixed size
    ],
)
def test_dependent_draws_break_it_with_joint_decoding(draws, statistic, allowed, reached):
    """Every canary by itself is drawn at rate 1/2 either way; together they say more."""
    assert chance_of_all_right(law_of_draws(POISSON), statistic) == pytest.approx(allowed)
    assert chance_of_all_right(law_of_draws(draws), statistic) == pytest.approx(reached)


def test_abstention_that_counts_as_no_error_breaks_it():
    """Six canaries, guessed only where the posterior is beyond .2 and .8: no error with .755."""
    mu, canaries = math.sqrt(2), 6
    sure = math.log(0.8 / 0.2)
    abstaining = (1 - special.ndtr(-mu / 2 - sure / mu)) ** canaries
    walk = FixedCount(canaries, canaries, 0).p_value(Certainty.of_curve(GDP(mu=mu)))
    assert abstaining == pytest.approx(0.755, abs=1e-3)
    assert walk == pytest.approx(0.193, abs=1e-3)


def test_correlated_noise_is_less_private_than_its_margins():
    """Noise shared by all coordinates tells half of itself: claims of 1-GDP are false there."""
    rng, certainty = np.random.default_rng(0), Certainty.of_curve(GDP(mu=1.0))
    few = sum(FixedCount(M, M, u).p_value(certainty) <= 0.05 for u in range(M))
    members = rng.random((200, M)) < 0.5
    own, shared = rng.normal(size=(200, M)), rng.normal(size=(200, 1))
    seen = members + math.sqrt(0.5) * (own + shared)
    scores = seen - seen.mean(axis=1, keepdims=True)
    wrong = ((scores > 0) != members).sum(axis=1)
    assert np.mean(wrong < few) > 0.99
