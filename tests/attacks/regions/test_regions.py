import math
from dataclasses import replace

import numpy as np
import pytest

from dpassay.attacks.regions import Forecast, learn_from_many, learn_region
from dpassay.attacks.regions.bins import (
    FINE,
    count_columns,
    count_pooled,
    cuts_of,
    heights_around_halves,
    heights_of,
    leave_out,
    log_ratio_of,
    weigh,
)
from dpassay.attacks.regions.choice import (
    Candidate,
    _cut_at,
    _luck_of,
    _screen,
    _Tails,
    choose_region,
    learn_all,
    log_ratio,
    shortlist,
)
from dpassay.attacks.regions.scores import (
    BOOSTING,
    Single,
    families,
    fit_pattern,
    fit_table,
    hashes,
)
from dpassay.attacks.regions.views import Draws, feature_names, flags_of
from dpassay.bounds.conditional import Guesses, epsilon_lower
from dpassay.zoo import mechanisms as zoo
from rates import assert_rate_at_most

NO_FLAGS = np.empty(0)


def played(mechanism, pair, n, seed=0):
    """Rows and worlds of n coin-flip trials."""
    worlds = np.random.default_rng([seed, 9]).integers(0, 2, n)
    parts = [
        mechanism(
            np.array(pair[1 - w], float), np.random.default_rng([seed, w]), (worlds == w).sum()
        )
        for w in (0, 1)
    ]
    parts = [part.reshape(len(part), -1) for part in parts]
    rows = np.empty((n, parts[0].shape[1]))
    for w in (0, 1):
        rows[worlds == w] = parts[w]
    return rows, worlds


def forecast(draws, alpha=0.05):
    def bound(more, fewer):
        return epsilon_lower(Guesses(int(more), int(fewer), draws), 0.0, alpha)

    return Forecast(draws, bound)


# What learners look at.


def test_flags_are_values_that_repeat():
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    rows[::10, 1], rows[::50, 2] = -1000.0, 7.0
    assert flags_of(rows).tolist() == [-1000.0, 7.0]
    assert flags_of(rows[1:2]).size == 0


def test_features_of_a_row_with_flags():
    draws = Draws(np.array([[-1.0, 5.0, 3.0], [-1.0, -1.0, -1.0]]), np.array([-1.0]))
    names = feature_names(draws)
    found = {name: draws.feature(name).tolist() for name in names}
    assert [found[f"entry {j}"][0] for j in range(3)] == [-1, 5, 3]
    assert [found[f"difference {j}"][0] for j in (1, 2)] == [6, -2]
    assert [found[f"rank {j}"][0] for j in range(3)] == [-1, 3, 5]
    summaries = ("sum", "largest", "smallest", "largest-at", "smallest-at")
    assert [found[name][0] for name in summaries] == [7, 5, -1, 1, 0]
    assert (found["flag-count 0"], found["flag-first-at 0"]) == ([1, 3], [0, 0])
    numbers = ("number-at", "number", "numbers-sum", "numbers-largest", "numbers-smallest")
    assert [found[name] for name in numbers] == [[1, 3], [5, 0], [8, 0], [5, 0], [3, 0]]
    assert np.array_equal(draws.features, np.column_stack([found[name] for name in names]))


def test_a_view_is_the_same_in_any_batch():
    rows = np.random.default_rng(0).normal(size=(50, 4)).round(1)
    whole = Draws(rows, flags_of(np.repeat(rows, 20, axis=0)))
    for name in feature_names(whole):
        one_by_one = [Draws(row[None], whole.flags).feature(name)[0] for row in rows]
        assert whole.feature(name).tolist() == one_by_one


def test_hashes_tell_rows_apart_and_know_no_negative_zero():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [1e-300, 1.0]])
    keys = hashes(rows.T)
    assert keys[0] == keys[1]
    assert np.unique(keys).size == 3
    many = np.random.default_rng(0).integers(0, 2, (20_000, 40)).astype(float)
    assert np.unique(hashes(many.T)).size == np.unique(many, axis=0).shape[0]


def test_cuts_separate_few_values_and_give_atoms_a_bin():
    assert cuts_of(np.array([1.0, 2.0, 2.0, 5.0]), np.array([0.5])).tolist() == [2, 5]
    values = np.random.default_rng(0).normal(size=5000)
    values[:500] = 0.25
    cuts = cuts_of(values, FINE)
    assert 0.25 in cuts
    assert np.nextafter(0.25, 1) in cuts
    assert (values < cuts[0]).sum() >= 90  # an outer bin with fewer would be noise


# Scores that are exact where they should be.


def test_a_table_is_the_log_ratio_of_its_counts():
    rows = np.array([[0.0], [0.0], [0.0], [1.0]] * 100)
    worlds = np.array([1, 1, 0, 0] * 100)
    table = fit_table(Draws(rows, NO_FLAGS), worlds)
    scores = table(Draws(np.array([[0.0], [1.0], [9.0]]), NO_FLAGS))
    assert scores == pytest.approx([math.log(200.5 / 100.5), math.log(0.5 / 100.5), 0])


def test_sums_find_the_likelihood_ratio_of_independent_entries():
    rng = np.random.default_rng(1)
    worlds = rng.integers(0, 2, 100_000)
    rows = rng.normal(size=(100_000, 4)) + 0.4 * worlds[:, None]
    fresh = Draws(rng.normal(size=(2000, 4)), NO_FLAGS)
    truth = 0.4 * fresh.rows.sum(axis=1)
    draws = Draws(rows, NO_FLAGS)
    own, pooled = count_columns(draws, worlds, False), count_pooled(draws, worlds, False)
    for fitted in (own.fine(), pooled.fine(), weigh(own.fine(), draws, worlds)):
        assert np.corrcoef(fitted(fresh), truth)[0, 1] > 0.97
        assert np.array_equal(fitted.compact()(fresh), fitted(fresh))


def test_coarse_functions_have_few_heights_and_the_same_counts():
    rng = np.random.default_rng(4)
    worlds = rng.integers(0, 2, 40_000)
    draws = Draws(rng.normal(size=(40_000, 2)) + 0.2 * worlds[:, None], NO_FLAGS)
    counts = count_columns(draws, worlds, False)
    halves = counts.coarse(np.array([0.5]))
    assert [np.unique(height).size for height in halves.heights] == [2, 2]
    at = counts.binning.cuts[0][np.flatnonzero(np.diff(halves.heights[0]))[0]]
    above = draws.columns[0] >= at
    ones, zeros = (above & (worlds == 1)).sum(), (above & (worlds == 0)).sum()
    seen = math.log((ones + 0.5) / (zeros + 0.5))
    assert halves.heights[0][-1] == pytest.approx(seen, rel=0.05)  # a little is drawn off
    assert abs(above.mean() - 0.5) < 0.03


def test_columns_that_say_nothing_are_left_out():
    rng = np.random.default_rng(5)
    worlds = rng.integers(0, 2, 40_000)
    rows = rng.integers(0, 2, (40_000, 3)).astype(float)
    rows[:, 1] = np.where(rng.random(40_000) < 0.2, worlds, rows[:, 1])
    draws = Draws(rows, NO_FLAGS)
    counts = count_columns(draws, worlds, False)
    assert counts.speak == [False, True, False]
    some = leave_out(counts.fine(), counts.speak)
    assert np.unique(some(draws)).size == 2
    assert leave_out(some, [False] * 3) is None


def test_a_pattern_scores_numbers_within_it():
    """Which entry is a number says nothing here, its size says all."""
    rng = np.random.default_rng(2)
    worlds = rng.integers(0, 2, 60_000)
    rows = np.full((60_000, 3), -1.0)
    rows[np.arange(60_000), rng.integers(0, 3, 60_000)] = rng.normal(size=60_000) + worlds
    draws = Draws(rows, np.array([-1.0]))
    pattern = fit_pattern(draws, worlds)
    fresh = Draws(np.array([[-1.0, 3.0, -1.0], [-1.0, -2.0, -1.0], [1.5, -1.0, -1.0]]), draws.flags)
    high, low, middle = pattern(fresh)
    assert high > middle > 0 > low
    assert fit_pattern(Draws(rows, NO_FLAGS), worlds) is None


# Choosing.


def test_tails_count_both_worlds_with_ties():
    tails = _Tails.of(np.array([1.0, 2.0, 2.0, 3.0]), np.array([0, 1, 0, 1]))
    assert tails.thresholds.tolist() == [1, 2, 3]
    assert tails.above.tolist() == [[2, 1, 0], [2, 2, 1]]
    assert tails.below.tolist() == [[0, 1, 2], [0, 0, 1]]


def test_outputs_without_a_score_are_one_value():
    tails = _Tails.of(np.array([-np.inf, 2.0, -np.inf]), np.array([0, 1, 1]))
    assert tails.thresholds.tolist() == [-np.inf, 2]
    assert tails.below.tolist() == [[0, 1], [0, 1]]


def test_a_few_lucky_counts_are_not_much():
    assert log_ratio(np.array([8.0]), np.array([0.0]), 1.0)[0] < math.log(8)
    assert log_ratio(np.array([0.0]), np.array([5.0]), 1.0)[0] == -math.inf


def test_screening_keeps_what_separates():
    rng = np.random.default_rng(3)
    worlds = rng.integers(0, 2, 20_000)
    rows = rng.normal(size=(20_000, 3))
    rows[:, 1] += worlds
    draws = Draws(rows, NO_FLAGS)
    kinds = [(name, fit) for name, fit in families(draws, False) if name.startswith("entry")]
    kept = shortlist(learn_all(kinds * 3, draws, worlds), draws, worlds)
    assert kept[0].name == "entry 1"


def test_trees_must_separate_better_by_more_than_chance():
    rng = np.random.default_rng(3)
    worlds = rng.integers(0, 2, 20_000)
    draws = Draws(rng.normal(size=(20_000, 4)) + 0.01 * worlds[:, None], NO_FLAGS)
    same = [Candidate(name, None, Single("entry 0")) for name in ("a", BOOSTING)]
    assert [one.name for one in shortlist(same, draws, worlds)] == ["a"]
    draws.rows[:, 1] += worlds
    better = [same[0], Candidate(BOOSTING, None, Single("entry 1"))]
    assert BOOSTING in [one.name for one in shortlist(better, draws, worlds)]


def in_folds(rows, worlds):
    half = len(rows) // 2
    draws = Draws(rows, flags_of(rows))
    return (draws.part(0, half), worlds[:half]), (draws.part(half, len(rows)), worlds[half:])


def test_bins_must_promise_more_than_the_feature_itself():
    """Their outermost bin ends the tail, which the feature leaves open."""
    rows, worlds = played(zoo.noisy_max_exponential, ([1] * 5, [2] * 5), 200_000)
    folds = in_folds(rows, worlds)
    kinds = dict(families(folds[0][0]))
    found = learn_all([(name, kinds[name]) for name in ("histogram", "entry 0")], *folds[0])
    assert choose_region(found, folds, forecast(10**7)).candidate.name == "entry 0"


def test_the_best_of_many_scores_owes_more_to_luck():
    """No region is chosen for a tail that one of many meaningless scores is lucky in."""
    assert _luck_of(1) == _luck_of(3) == 1.5
    assert _luck_of(11) == pytest.approx(math.sqrt(2 * math.log(11)))
    rng, rounds = np.random.default_rng(3), 4000
    assert rng.normal(size=(rounds, 11)).max(axis=1).mean() < _luck_of(11)
    plain = forecast(10_000)
    assert plain(80, 20, 1000, 2.0) < plain(80, 20, 1000) == plain(80, 20, 1000, 1.5)


def test_of_equal_scores_one_is_kept():
    """Copies of one score leave room for the next best."""
    rng = np.random.default_rng(4)
    worlds = rng.integers(0, 2, 20_000)
    rows = rng.normal(size=(20_000, 3)) + worlds[:, None] * np.array([0.5, 0.3, 0.2])
    draws = Draws(rows, NO_FLAGS)
    copies = [Candidate(f"copy {k}", None, Single("entry 0")) for k in range(4)]
    others = [Candidate(f"entry {j}", None, Single(f"entry {j}")) for j in (1, 2)]
    assert {one.name for one in shortlist([*copies, *others], draws, worlds)} == {
        "copy 0",
        "entry 1",
        "entry 2",
    }


def test_bins_are_drawn_towards_their_half_and_not_towards_nothing():
    """Twenty bins that say the same little, each less than its own noise."""
    ones, zeros = np.full(20, 1030.0), np.full(20, 1000.0)
    ones[:10], zeros[:10] = zeros[:10], ones[:10].copy()
    assert np.abs(heights_of(ones, zeros)).max() < 0.02
    around = heights_around_halves(ones, zeros, 0.0)
    assert around[10:] == pytest.approx(math.log(1.03), rel=0.25)
    assert around[:10] == pytest.approx(-math.log(1.03), rel=0.25)


def test_a_score_says_nothing_of_how_the_coins_fell():
    """Folds have other shares of world 1, and thresholds of one must fit the scores of the other.

    Twenty columns that say a little each, learned from 45 % and from 55 % of world 1.
    """
    rng, scores = np.random.default_rng(6), []
    fresh = Draws(rng.normal(size=(1000, 20)), NO_FLAGS)
    for share in (0.45, 0.55):
        worlds = (rng.random(20_000) < share).astype(int)
        rows = rng.normal(size=(20_000, 20)) + 0.3 * worlds[:, None]
        scores.append(count_pooled(Draws(rows, NO_FLAGS), worlds, False).fine()(fresh))
    assert abs(np.mean(scores[0] - scores[1])) < 0.1 * np.std(scores[0])


def test_no_draw_judges_what_it_has_taught():
    """A score that only knows the rows that taught it promises nothing, whatever it knew."""

    def remember(draws, worlds):
        known = dict(zip(draws.rows[:, 0].tolist(), worlds.tolist(), strict=True))
        return lambda other: np.array([known.get(value, 0.5) for value in other.rows[:, 0]])

    rng = np.random.default_rng(6)
    rows, worlds = rng.normal(size=(4000, 1)), rng.integers(0, 2, 4000)
    folds = in_folds(rows, worlds)
    found = choose_region(learn_all([("memory", remember)], *folds[0]), folds, forecast(4000))
    assert found.predicted < 0.1
    scores = remember(*folds[0])(folds[0][0])
    assert _screen(scores, folds[0][1])[0] > 3  # on its own draws it knows everything


def test_many_thresholds_are_thinned_and_the_tails_kept():
    scores = np.random.default_rng(7).normal(size=50_000)
    tails = _Tails.of(scores, np.arange(50_000) % 2)
    assert tails.thresholds.size <= 2000
    assert np.array_equal(tails.thresholds[:100], np.sort(scores)[:100])
    assert np.array_equal(tails.thresholds[-100:], np.sort(scores)[-100:])
    threshold = float(np.quantile(scores, 0.3))
    assert tails.inside(True, threshold).sum() == (scores >= threshold).sum()
    assert tails.inside(False, threshold).sum() == (scores < threshold).sum()


@pytest.mark.parametrize(
    ("values", "share", "cut"),
    [
        ([0, 1, 2, 3], 0.5, 1.5),
        ([0, 0, 0, 5], 0.5, 2.5),
        ([0, 5, 5, 5], 0.5, 2.5),
        ([0, 1, 1, 1, 5, 6], 0.6, 3.0),
        ([-math.inf, 2, 3], 0.3, 2.0),
        ([4, 4, 4], 0.5, 4.0),
    ],
)
def test_a_cut_is_between_distinct_scores(values, share, cut):
    assert _cut_at(np.array(values, float), share) == cut


def test_heights_of_a_column_that_says_nothing_are_left_out():
    rng = np.random.default_rng(8)
    zeros, ones = rng.poisson(100, (2, 50)).astype(float)
    assert np.abs(heights_of(ones, zeros)).max() < 0.5 * np.abs(log_ratio_of(ones, zeros)).max()
    more, fewer = np.append(1000 * ones, 500 * ones), np.append(500 * ones, 1000 * ones)
    says = heights_of(more, fewer)
    assert says == pytest.approx(np.repeat([math.log(2), -math.log(2)], 50), rel=0.01)


# From draws to a region, and from a region to a bound.


@pytest.mark.parametrize(
    ("mechanism", "pair", "least"),
    [
        (zoo.noisy_max_laplace, ([0] * 5, [1] * 5), 0.08),
        (zoo.histogram_inverted_scale, ([0, 1, 1, 1, 1], [1] * 5), 5.0),
        (zoo.sparse_vector_5, ([2] * 5 + [0] * 5, [1] * 10), 4.0),
        (zoo.mean_with_true_counts, ([1, 1], [1]), 2.0),
        (zoo.prefix_sums, ([1] * 10, [0] * 10), 0.5),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_mechanism_shows(mechanism, pair, least):
    region = learn_region(*played(mechanism, pair, 120_000), forecast(60_000), boosting=False)
    rows, worlds = played(mechanism, pair, 60_000, seed=1)
    inside = region.contains(rows)
    right = int((inside & (worlds == region.world)).sum())
    wrong = int((inside & (worlds != region.world)).sum())
    assert epsilon_lower(Guesses(right, wrong, 60_000), 0.0, 0.05) > least


def test_a_learned_score_points_to_world_one():
    rows, worlds = played(zoo.laplace, ([1], [40]), 40_000)
    table = np.hstack([np.ones((40_000, 1)), rows])
    learned = learn_from_many(table, worlds, forecast(20_000))
    assert learned.width == 2
    scores = learned.of_table(table)
    assert scores[worlds == 1].mean() > scores[worlds == 0].mean()


def test_outputs_that_the_count_will_order_are_only_told_apart():
    """Where the count orders eleven outputs by itself, no score may take two of them together."""
    pair = [0.0] * 5 + [1.0] * 5, [1.0] * 5 + [0.0] * 5
    rows, worlds = played(zoo.sparse_vector_1, pair, 20_000)
    ordered = learn_region(rows, worlds, replace(forecast(10**6), n_ordered=11))
    assert ordered.name == "table"
    assert np.unique(ordered.score(Draws(rows, ordered.flags))).size == 11
    left = learn_region(rows, worlds, replace(forecast(10**6), n_ordered=10))
    assert left.name != "table"


def test_one_world_only_is_nothing_to_learn_from():
    rows = np.random.default_rng(0).normal(size=(100, 2))
    assert learn_region(rows, np.ones(100, int), forecast(100)) is None


def test_the_same_law_in_both_worlds_is_not_refuted_more_often_than_allowed():
    """The region is chosen on draws of its own, so that the count errs with its level at most."""
    errors, runs = 0, 60
    for seed in range(runs):
        rows, worlds = played(zoo.noisy_argmax_exponential, ([0] * 5, [0] * 5), 6000, seed)
        region = learn_region(rows[:3000], worlds[:3000], forecast(3000), boosting=False)
        inside, later = region.contains(rows[3000:]), worlds[3000:]
        right = int((inside & (later == region.world)).sum())
        wrong = int((inside & (later != region.world)).sum())
        errors += epsilon_lower(Guesses(right, wrong, 3000), 0.0, 0.05) > 0
    assert_rate_at_most(errors, runs, 0.05)


def test_candidates_have_unique_names():
    rows, worlds = played(zoo.sparse_vector_3, ([1] * 10, [2] * 5 + [0] * 5), 20_000)
    draws = Draws(rows, flags_of(rows))
    found = learn_all(families(draws, boosting=False), draws, worlds)
    names = [candidate.name for candidate in found]
    assert len(set(names)) == len(names)
    assert "pattern" in names
