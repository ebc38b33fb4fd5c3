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


def test_as_many_values_are_put_into_order_as_is_said_beforehand():
    rng = np.random.default_rng(0)
    scores, worlds = rng.integers(0, 10, 40_000).astype(float), rng.integers(0, 2, 40_000)
    assert [counting.n_ordered(first) for first in (0, 9999, 10_000, 10**6)] == [0, 9, 10, 40]
    assert choose_among(worlds, scores, 10_000, 40_000, False)[1] is not scores
    assert choose_among(worlds, scores, 9999, 40_000, False)[1] is scores


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


def shifted(n, seed=0, shift=0.0):
    """Normal scores that are ``shift`` higher in world 1."""
    rng = np.random.default_rng(seed)
    worlds = rng.integers(0, 2, n)
    return worlds, rng.normal(size=n) + shift * worlds


def test_where_more_trials_taught_the_score_its_border_stays():
    worlds, scores = shifted(20_000, shift=0.5)
    settled, _ = choose_among(worlds, scores, 4000, 20_000, False, n_taught=4000)
    rule = settled.best_at(0.0, 0.05)
    assert {rule.low, rule.high} <= {0.0, -np.inf, np.inf}
    free, _ = choose_among(worlds, scores, 4000, 20_000, False, n_taught=3999)
    assert len(free) > len(settled) == 3
    given, _ = choose_among(worlds, scores, 4000, 20_000, True, n_taught=4000)
    assert not given.settled
    assert not given.border.any()


def test_one_half_of_the_trials_judges_what_the_other_takes():
    """The best of thousands of rules on noise promises nothing on trials that did not choose."""
    worlds, scores = shifted(8000)
    found, _ = choose_among(worlds, scores, 4000, 8000, True)
    odds = found._odds(found.correct, found.wrong, found.n, 0.0, 1.0)
    assert np.log(odds.max()) > 0.05  # the luckiest rule on the trials that chose it
    assert np.log([found._judge(0.0, 0.05, caution)[0] for caution in (1.0, 2.0, 4.0)]).max() < 0


def test_a_tail_that_nobody_has_judged_is_not_taken():
    """Both halves take the large region; together they would take 78 to 48 in the tail."""
    never, no = np.full(2, -np.inf), np.zeros(2, bool)
    correct, wrong = np.array([[13_000, 39]] * 2), np.array([[10_000, 24]] * 2)
    found = counting.Candidates(
        never, np.array([1.0, 2.0]), no, correct, wrong, n=2_000_000, growth=4.0, border=no
    )
    odds = found._odds(found.correct, found.wrong, found.n, 0.0, 1.0)
    assert odds[1] > odds[0]
    assert found.best_at(0.0, 0.05).high == 1.0


def test_halves_add_up_to_the_counts_of_a_rule():
    worlds, scores = shifted(3001, shift=1.0)
    found, _ = choose_among(worlds, scores, 3001, 3001, True)
    for number in (0, len(found) // 3, len(found) - 1):
        seen = found.rule(number).count(worlds, scores)
        assert (seen.correct, seen.wrong) == (found.correct[number], found.wrong[number])


def test_a_border_that_separates_nothing_is_no_rule():
    worlds, scores = shifted(4000, shift=0.5)
    found, _ = choose_among(worlds, scores + 100, 2000, 4000, False, n_taught=4000)
    assert not found.settled
    assert not found.border.any()
    nothing, _ = choose_among(worlds, np.zeros(4000), 2000, 4000, False)
    assert len(nothing) == 0
