"""The rule of a final count: what fixes it, and how often its bound errs."""

import numpy as np
import pytest

from dpassay.auditing import counting
from dpassay.auditing.counting import Levels, choose_among
from dpassay.bounds.conditional import epsilon_lower
from rates import assert_rate_at_most

# What three values say is not the order of the values.
WITH, WITHOUT = np.array([0.3, 0.3, 0.4]), np.array([0.2, 0.5, 0.3])


@pytest.fixture(autouse=True)
def few_trials(monkeypatch):
    """Values are ordered anew where they are seen often; here a few hundred times will do."""
    monkeypatch.setattr(counting, "_PER_LEVEL", 500)


def play(n, seed=0, with_canary=WITH, without=WITHOUT):
    rng = np.random.default_rng(seed)
    worlds = rng.integers(0, 2, n)
    drawn = rng.random(n)
    ones, zeros = (np.searchsorted(np.cumsum(p)[:-1], drawn) for p in (with_canary, without))
    return worlds, np.where(worlds == 1, ones, zeros).astype(float)


def test_levels_are_log_ratios_of_counts():
    worlds, scores = play(60_000)
    levels = Levels.of(worlds, scores)
    assert levels.values.tolist() == [0, 1, 2]
    assert levels.heights == pytest.approx(np.log(WITH / WITHOUT), abs=0.05)
    assert levels(np.array([1.0, 7.0]))[1] == 0


@pytest.mark.parametrize("values", [2, 41])
def test_two_values_and_many_are_left_as_they_are(values):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, values, 60_000).astype(float)
    worlds = rng.integers(0, 2, 60_000)
    assert Levels.of(worlds, scores) is None
    assert choose_among(worlds, scores, 30_000, 60_000, False)[1] is scores


def test_what_is_counted_later_does_not_choose():
    """Rules and the order of values are the same whatever the counted trials are."""
    worlds, scores = play(60_000)
    found, ordered = choose_among(worlds, scores, 20_000, 60_000, True)
    worlds[20_000:], scores[20_000:] = 1 - worlds[20_000:], 2 - scores[20_000:]
    again, other = choose_among(worlds, scores, 20_000, 60_000, True)
    assert again.best_at(0.0, 0.05) == found.best_at(0.0, 0.05)
    assert np.array_equal(ordered[:20_000], other[:20_000])


def bound_of(worlds, scores, first, end):
    candidates, ordered = choose_among(worlds, scores, first, end, False)
    seen = candidates.best_at(0.0, 0.05).count(worlds[first:end], ordered[first:end])
    return epsilon_lower(seen, 0.0, 0.05)


def test_the_order_of_values_is_learned():
    worlds, scores = play(200_000)
    assert bound_of(worlds, scores, 40_000, 200_000) > 0.45  # the largest log ratio is .51


def errors_of_bounds(counted, runs=60):
    """How often two equal laws of 24 values get a bound above 0."""
    same, found = np.full(24, 1 / 24), 0
    for seed in range(runs):
        worlds, scores = play(48_000, seed, same, same)
        candidates, ordered = choose_among(worlds, scores, 24_000, 48_000, False)
        seen = candidates.best_at(0.0, 0.05).count(worlds[counted], ordered[counted])
        found += epsilon_lower(seen, 0.0, 0.05) > 0
    return found


def test_the_bound_errs_at_most_as_often_as_it_says():
    assert_rate_at_most(errors_of_bounds(slice(24_000, None)), 60, 0.05)
    with pytest.raises(AssertionError):  # counted on the trials that ordered the values
        assert_rate_at_most(errors_of_bounds(slice(0, 12_000)), 60, 0.05)
