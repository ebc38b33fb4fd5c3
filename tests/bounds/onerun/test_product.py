"""Independent canaries: the sorted walk by enumeration, the formulae by other means, goldens."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from tests.rates import assert_rate

from dpassay.bounds import DPSGDForm, lower_bound_gaussian_location, one_run
from dpassay.bounds.onerun import product, weighted
from dpassay.bounds.onerun.certainty import Certainty
from dpassay.bounds.onerun.dpsgd import certainty_of_event, join_phases
from dpassay.bounds.onerun.product import FixedCount
from dpassay.bounds.onerun.weighted import WeightedCount, afford, cut_ranks, draws_for, weigh
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ApproxDP, PureDP, account, dp_sgd_event
from dpassay.privacy import gaussian as formulae
from dpassay.privacy.combined import Numeric

LEVEL = 0.05


def gdp(mu):
    return Certainty.of_curve(GDP(mu=mu))


def gaussian(canaries, mu, seed):
    rng = np.random.default_rng(seed)
    members = rng.random(canaries) < 0.5
    return rng.normal(size=canaries) + mu * members, members


# --- Theorem 1 by enumeration -------------------------------------------------------------------


def posterior(p, q, seen):
    """P(S | seen) for every vector of coins, canaries independent with outcomes from p or q."""
    weights = {}
    for coins in itertools.product((0, 1), repeat=len(seen)):
        each = [(p if s else q)[y] for s, y in zip(coins, seen, strict=True)]
        weights[coins] = math.prod(each) / 2 ** len(seen)
    return weights


def best_chance(weights, statistic, most):
    """max over orders and guesses of P(statistic of the errors <= most), not normalised."""
    m = len(next(iter(weights)))
    best = 0.0
    for order in itertools.permutations(range(m)):
        for guess in itertools.product((0, 1), repeat=m):
            wrong = {s: [s[i] != guess[i] for i in order] for s in weights}
            best = max(best, sum(w for s, w in weights.items() if statistic(wrong[s]) <= most))
    return best


def walk_chance(p, q, m, statistic, most):
    """P(statistic <= most) of the sorted walk: outcomes in order of certainty, errors apart."""
    mass = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    error = [min(a, b) / (a + b) for a, b in zip(p, q, strict=True)]
    total = 0.0
    for seen in itertools.product(range(len(p)), repeat=m):
        rates = sorted(error[y] for y in seen)
        for wrong in itertools.product((0, 1), repeat=m):
            if statistic(wrong) <= most:
                chance = [r if x else 1 - r for r, x in zip(rates, wrong, strict=True)]
                total += math.prod(mass[y] for y in seen) * math.prod(chance)
    return total


STATISTICS = {
    "the first two": lambda wrong: sum(wrong[:2]),
    "all": sum,
    "weighted": lambda wrong: sum(w * x for w, x in zip((5, 3, 2), wrong, strict=True)),
}
P, Q = (0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4)


@pytest.mark.parametrize("name", list(STATISTICS))
@pytest.mark.parametrize("most", [0, 1, 3])
def test_no_strategy_beats_the_sorted_walk(name, most):
    """All orders and guesses for every outcome of three canaries: the best reaches the walk."""
    statistic = STATISTICS[name]
    outcomes = itertools.product(range(4), repeat=3)
    best = sum(best_chance(posterior(P, Q, seen), statistic, most) for seen in outcomes)
    assert best == pytest.approx(walk_chance(P, Q, 3, statistic, most), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_nor_does_one_that_sees_a_garbled_version(seed):
    """What is seen mixes all canaries at random: still a randomised function of the Y_i."""
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.full(6, 0.1), size=4**3).reshape(4, 4, 4, 6)
    merged = [dict.fromkeys(itertools.product((0, 1), repeat=3), 0.0) for _ in range(6)]
    for seen in itertools.product(range(4), repeat=3):
        for coins, weight in posterior(P, Q, seen).items():
            for z in range(6):
                merged[z][coins] += weight * kernel[seen][z]
    for statistic in STATISTICS.values():
        best = sum(best_chance(weights, statistic, 1) for weights in merged)
        assert best <= walk_chance(P, Q, 3, statistic, 1) + 1e-12


# --- how certain guesses can be -----------------------------------------------------------------


@pytest.mark.golden
def test_error_rates_of_known_curves():
    shares = np.array([0.01, 0.1, 0.5, 1.0])
    assert gdp(1.0).rate(shares) == pytest.approx(
        [0.041554, 0.096742, 0.206863, 0.308538], abs=1e-6
    )
    approx = Certainty.of_curve(ApproxDP(epsilon=2.0, delta=1e-5)).rate(np.array([0.001, 1.0]))
    assert approx == pytest.approx([0.118011, 0.119202], abs=1e-6)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("training", "bayes", "tenth"),
    [
        ((1.0, 0.1, 50), 0.341066, 0.138851),
        ((0.8, 0.01, 1000), 0.385228, 0.221984),
        ((0.7994, 0.025, 200), 0.378272, 0.204493),
    ],
)
def test_error_rates_of_dp_sgd(training, bayes, tenth):
    """Of the pair itself, which is not symmetric; the symmetric curve allows less certainty."""
    pair = certainty_of_event(dp_sgd_event(*training)).rate(np.array([1.0, 0.1]))
    assert pair == pytest.approx([bayes, tenth], abs=4e-6)
    assert np.all(pair <= np.array([bayes, tenth]) + 5e-7)  # rounded downwards
    curve = Certainty.of_curve(account(dp_sgd_event(*training), "pld")).rate(np.array([1.0, 0.1]))
    assert np.all(curve < pair)


def masses(p, q, share):
    """C(share) by its definition: outcomes by falling |log p/q|, the last one in part."""
    p, q = np.asarray(p), np.asarray(q)
    order = np.argsort(-np.abs(np.log(p / q)))
    ends = np.append(0.0, np.cumsum((p + q)[order] / 2))
    return np.interp(share, ends, np.append(0.0, np.cumsum(np.minimum(p, q)[order] / 2)))


def profile(p, q, t):
    return np.maximum(np.asarray(p) - np.exp(t)[:, None] * np.asarray(q), 0.0).sum(axis=1)


def test_the_envelope_of_lines_is_the_definition():
    """A pair of four outcomes that is not symmetric, with its own losses on the grid."""
    losses = np.abs(np.log(np.array(P) / Q))
    grid = np.unique(np.concatenate([np.linspace(0, 2.5, 50), losses]))
    found = Certainty.of_profiles(grid, profile(P, Q, grid), profile(Q, P, grid))
    shares = np.linspace(0, 1, 201)
    assert found.errors(shares) == pytest.approx(masses(P, Q, shares), abs=1e-12)
    coarse = Certainty.of_profiles(grid[::7], profile(P, Q, grid[::7]), profile(Q, P, grid[::7]))
    assert np.all(coarse.errors(shares) <= found.errors(shares) + 1e-15)


def test_guesses_of_one_kind():
    """All say "in": outcomes by falling p/q, wrong with the mass of q."""
    losses = np.log(np.array(P) / Q)
    grid = np.unique(np.append(np.abs(losses), [0.0, 3.0]))
    found = Certainty.of_one_kind(grid, profile(P, Q, grid), profile(Q, P, grid))
    p, q = np.array(P), np.array(Q)  # already in this order
    ends, wrong = np.append(0, np.cumsum(p + q) / 2), np.append(0, np.cumsum(q) / 2)
    shares = np.linspace(0, 1, 101)
    assert found.errors(shares) == pytest.approx(np.interp(shares, ends, wrong), abs=1e-12)


@given(st.floats(0.01, 6.0), st.floats(1e-6, 1.0))
def test_errors_are_never_above_the_gaussian_ones(mu, share):
    """Closed form: a -> share Phi(mu/2 - a) + Phi(-mu/2 - a), errors Phi(-mu/2 - a)."""
    high = 60.0
    low = 0.0
    for _ in range(200):
        a = (low + high) / 2
        inside = special.ndtr(mu / 2 - a) + special.ndtr(-mu / 2 - a) > share
        low, high = (a, high) if inside else (low, a)
    exact, found = special.ndtr(-mu / 2 - high), float(gdp(mu).errors(np.array(share)))
    assert found <= exact * (1 + 1e-9)
    assert found >= exact * 0.999 - 1e-9


# --- a fixed number of guesses ------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize(
    ("canaries", "guesses", "wrong", "mu", "epsilon"),
    [
        (1000, 100, 10, 0.75370, 3.1644),
        (1000, 1000, 309, 0.85816, 3.6700),
        (10_000, 1000, 97, 0.92775, 4.0141),
        (100_000, 10_000, 967, 0.97805, 4.2662),
        (1000, 250, 4, 1.65812, 7.9541),
    ],
)
def test_bounds_of_a_fixed_number(canaries, guesses, wrong, mu, epsilon):
    found = FixedCount(canaries, guesses, wrong).largest_refuted(gdp, LEVEL, 2.0**20)
    assert mu - 5e-5 < found < mu + 5e-6  # from below
    assert GDP(mu=found).epsilon(1e-5) == pytest.approx(epsilon, abs=2e-4)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("count", "p_value"),
    [((1000, 100, 10), 0.62186), ((10_000, 1000, 97), 0.53670), ((1000, 1000, 309), 0.52800)],
)
def test_p_values_of_a_fixed_number(count, p_value):
    found = FixedCount(*count).p_value(gdp(1.0))
    assert p_value - 5e-6 < found < p_value + 1e-4


@pytest.mark.golden
def test_a_fixed_number_and_a_point():
    point = FixedCount(1000, 100, 3).p_value(Certainty.of_curve(ApproxDP(2.0, 1e-5)))
    assert point == pytest.approx(0.0015567, abs=1e-7)
    perfect = FixedCount(1000, 100, 0)
    pure = perfect.largest_refuted(lambda e: Certainty.of_curve(PureDP(e)), LEVEL, 100.0)
    approx = perfect.largest_refuted(lambda e: Certainty.of_curve(ApproxDP(e, 1e-5)), LEVEL, 100.0)
    assert (pure, approx) == (pytest.approx(3.49297, abs=1e-5), pytest.approx(3.49286, abs=1e-5))


# mu, canaries, guesses, wrong and epsilon of Xiang et al. (2025): half the guesses of each kind.
XIANG = [
    (0.5, 1000, 100, 26, 1.1926),
    (0.5, 1000, 1000, 401, 1.414),
    (0.5, 10_000, 2500, 755, 1.8052),
    (0.5, 100_000, 25_000, 7545, 1.9348),
    (1.0, 1000, 100, 10, 3.1645),
    (1.0, 1000, 250, 36, 3.6327),
    (1.0, 1000, 1000, 309, 3.67),
    (1.0, 10_000, 1000, 97, 4.0141),
    (1.0, 10_000, 2500, 364, 4.1371),
    (1.0, 100_000, 10_000, 967, 4.2662),
    (1.0, 100_000, 50_000, 10_343, 4.3144),
    (2.0, 1000, 250, 4, 7.9541),
    (2.0, 10_000, 1000, 5, 8.7173),
    (2.0, 100_000, 10_000, 51, 9.5899),
    (2.0, 100_000, 50_000, 2016, 9.8905),
]


@pytest.mark.golden
def test_fifteen_published_rows():
    shares = []
    for mu, canaries, guesses, wrong, epsilon in XIANG:
        found = FixedCount(canaries, guesses, wrong).largest_refuted(gdp, LEVEL, 2.0**20, 1e-6)
        bound = GDP(mu=found).epsilon(1e-5)
        assert bound == pytest.approx(epsilon, abs=5e-4)
        shares.append(bound / GDP(mu=mu).epsilon(1e-5))
    assert np.mean(shares) > 0.85


@pytest.mark.parametrize("guesses", [1, 3, 5])
def test_the_formula_by_enumeration(guesses):
    """Five canaries with two certainties: all counts of certain ones."""
    m, delta = 5, 0.3
    certainty = Certainty.of_curve(ApproxDP(1.0, delta))
    error = float(special.expit(-1.0))
    for most in range(guesses):
        exact = sum(
            stats.binom.pmf(k, m, delta) * stats.binom.cdf(most, max(guesses - k, 0), error)
            for k in range(m + 1)
        )
        found = FixedCount(m, guesses, most).p_value(certainty)
        assert exact * (1 - 1e-9) <= found <= exact * (1 + 2e-3)


def test_the_formula_by_simulation():
    """Forty Gaussian canaries, a sorted walk each."""
    rng, draws, m, r = np.random.default_rng(0), 40_000, 40, 12
    loss = np.sort(np.abs(rng.normal(0.5, 1.0, size=(draws, m))), axis=1)[:, ::-1][:, :r]
    wrong = (rng.random(loss.shape) < special.expit(-loss)).sum(axis=1)
    for most in (0, 1, 2, 4):
        p = FixedCount(m, r, most).p_value(gdp(1.0))
        assert_rate(int((wrong <= most).sum()), draws, p * (1 - 1e-3))


# --- the weighted count -------------------------------------------------------------------------


@pytest.mark.golden
def test_mean_errors_of_the_groups():
    cuts = cut_ranks(1000)
    rng = np.random.default_rng(0)
    places = weighted.draw_places(cuts, 100_000, rng)
    errors = weighted.draw_errors(gdp(1.0), cuts, places, rng).mean(axis=0)
    means = [0.173, 0.252, 0.637, 1.653, 4.372, 10.216, 19.136, 37.159, 46.253, 54.758, 62.941]
    assert errors == pytest.approx([*means, 70.976], abs=0.13)  # five deviations of the largest
    assert errors[:5] == pytest.approx(means[:5], abs=0.03)
    assert errors.sum() == pytest.approx(308.5, abs=0.25)


def test_draws_have_the_law_of_the_sorted_walk():
    """Thirty canaries, sorted one by one, beside the draws that only look at the cuts."""
    m, draws, rng = 30, 40_000, np.random.default_rng(0)
    cuts = cut_ranks(m)
    weights = weigh(gdp(1.0), cuts)
    loss = np.sort(np.abs(rng.normal(0.5, 1.0, size=(draws, m))), axis=1)[:, ::-1]
    wrong = rng.random(loss.shape) < special.expit(-loss)
    per_rank = np.repeat(weights, np.diff(cuts, prepend=0))
    walked = wrong @ per_rank
    places = weighted.draw_places(cuts, draws, rng)
    drawn = weighted.draw_errors(gdp(1.0), cuts, places, rng) @ weights
    assert stats.ks_2samp(walked, drawn).pvalue > 1e-6
    # Mutant: everybody's error is that of the whole group, whatever the places.
    flat = rng.binomial(np.diff(cuts, prepend=0), 0.31, size=(draws, cuts.size)) @ weights
    assert stats.ks_2samp(walked, flat).pvalue < 1e-6


@given(st.integers(1, 3000))
def test_groups_of_few_canaries(canaries):
    cuts = cut_ranks(canaries)
    assert cuts[-1] == canaries
    assert cuts[0] >= 1
    assert np.all(np.diff(cuts) > 0)
    weights = weigh(gdp(1.0), cuts)
    assert weights.size == cuts.size
    assert np.all(np.diff(weights) <= 0)
    assert weights[-1] >= 0


def test_p_values_are_never_zero_and_know_their_draws():
    cuts = cut_ranks(1000)
    count = WeightedCount(cuts, weigh(gdp(1.0), cuts), 0, 7, draws_for(LEVEL))
    assert count.p_value(gdp(1.0)) == 1 / 20_000
    assert count.p_value(gdp(1.0)) == count.p_value(gdp(1.0))
    assert replace(count, seen=10**9).p_value(gdp(1.0)) == 1


def test_the_price_of_a_search_is_within_the_level():
    """By the integral over p itself: all looks wrong together would be the worst."""
    for level in (0.05, 0.01, 0.001):
        draws = draws_for(level)
        first = int(0.1 * draws)
        most, most_first = afford(level, draws, first)
        p = np.linspace(0, 5 * level, 400_001)
        looks = weighted._LOOKS * (
            stats.binom.cdf(most, draws, p) + stats.binom.cdf(most_first, first, p)
        )
        assert np.trapezoid(np.minimum(looks, 1.0), p) <= level
        more = weighted._LOOKS * stats.binom.cdf(most + 1, draws, p)
        assert np.trapezoid(np.minimum(more, 1.0), p) > 0.998 * level
        assert (most + 1) / (draws + 1) > 0.65 * level


# --- the bound ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "canaries", "expected", "within"),
    [(1, 10_000, 0.866, 0.02), (4, 1000, 0.867, 0.04), (4, 10_000, 0.957, 0.02)],
)
def test_it_is_as_sharp_as_a_test_that_knows_the_scores_are_gaussian(
    epsilon, canaries, expected, within
):
    """On the same draws; and at the mean count what the planning formula says."""
    mu = float(formulae.mu_of(epsilon, 1e-5))
    for seed in range(2):
        scores, members = gaussian(canaries, mu, seed)
        found = one_run(scores, members, delta=1e-5, method="product").epsilon
        sides = scores[members], scores[~members]
        known = lower_bound_gaussian_location(*sides, delta=1e-5).epsilon
        assert abs(found - known) < 2 * within * epsilon  # one draw; their means differ by less
    cuts = cut_ranks(canaries)
    weights = weigh(gdp(1.0), cuts)
    errors = canaries * np.diff(gdp(mu).errors(cuts / canaries), prepend=0.0)
    count = WeightedCount(cuts, weights, round(errors @ weights), 3, draws_for(LEVEL))
    share = GDP(mu=count.largest_refuted(gdp, LEVEL, 64.0)).epsilon(1e-5) / epsilon
    assert share == pytest.approx(expected, abs=within / 2)


def test_what_the_result_says():
    scores, members = gaussian(1000, 1.0, 0)
    bound = one_run(scores, members, delta=1e-5, method="product", family=GDP, claim=GDP(mu=0.5))
    assert bound.assumption == "Gaussian trade-off, canaries independent given their coins"
    assert bound.p_value < 1e-3
    assert bound.epsilon == pytest.approx(GDP(mu=bound.mu_lower).epsilon(1e-5), rel=1e-9)
    assert bound.epsilon < bound.ceiling < 50
    details = bound.details
    assert (details["guesses"], details["simulations"]) == (1000, 19_999)
    assert details["correct"] == np.sum((scores > np.median(scores)) == members)
    point = one_run(scores, members, delta=1e-5, method="product", family="approx")
    assert point.assumption == "canaries independent given their coins"


def test_bound_and_test_agree():
    """The bound reaches a claim of its family where, and only where, the test refutes it."""
    scores, members = gaussian(400, 1.0, 0)
    for mu in (0.55, 0.8, 0.87, 0.9, 0.93, 1.0):
        bound = one_run(scores, members, delta=1e-5, method="product", claim=GDP(mu=mu))
        if bound.p_value <= LEVEL:
            assert bound.mu_lower >= mu
        else:
            assert bound.mu_lower <= mu


def test_the_price_of_a_search_is_what_it_can_afford():
    """At the level that a count costs, the search refutes with it and with none more."""
    counts = np.unique(np.geomspace(1, 19_998, 40).astype(int))
    prices = [weighted.price(c, 19_999) for c in counts]
    assert all(np.diff(prices) >= 0)
    assert all(cost > (1 + c) / 20_000 for c, cost in zip(counts[:-1], prices[:-1], strict=True))
    for c, cost in zip(counts, prices, strict=True):
        if cost < 0.5:
            assert weighted.afford(cost * (1 + 1e-9), 19_999, 1999)[0] == c
    assert weighted.price(0, 19_999) < 3e-4
    assert weighted.price(19_999, 19_999) == 1


def test_draws_depend_on_the_seed_alone():
    scores, members = gaussian(500, 1.0, 3)
    one, again, other = (
        one_run(scores, members, delta=1e-5, method="product", rng=rng) for rng in (0, 0, 1)
    )
    assert one == again
    assert one.details["seed"] != other.details["seed"]
    assert other.epsilon == pytest.approx(one.epsilon, rel=0.02)


def test_order_and_place_of_the_canaries_do_not_matter():
    scores, members = gaussian(2000, 1.0, 4)
    bound = one_run(scores, members, delta=1e-5, method="product")
    moved = one_run(scores + 1e6, members, delta=1e-5, method="product")
    stretched = one_run(1e-9 * scores, members, delta=1e-5, method="product")
    assert moved.epsilon == stretched.epsilon == bound.epsilon


def test_ties_are_broken_at_random():
    """Members first, all scores equal: the order of the canaries must not tell."""
    members = np.arange(2000) < 1000
    bound = one_run(np.zeros(2000), members, delta=1e-5, method="product", claim=GDP(mu=0.0))
    assert bound.epsilon == 0
    assert bound.p_value > 1e-3


def test_scores_at_the_centre_abstain_and_count_as_errors():
    """Half of the canaries say nothing: they are guessed last, by a coin, not left out."""
    scores, members = gaussian(2000, 1.5, 0)
    quiet = np.where(np.abs(scores - 0.75) > 1.0, scores - 0.75, 0.0)
    bound = one_run(quiet, members, delta=1e-5, method="product", centre=0.0)
    loud = quiet != 0
    alone = one_run(quiet[loud], members[loud], delta=1e-5, method="product", centre=0.0)
    assert bound.details["guesses"] == 2000
    assert bound.epsilon < GDP(mu=1.5).epsilon(1e-5) < alone.epsilon


def test_coins_of_the_same_seed_are_not_found_again():
    """The coins came from default_rng(0), as do the guesses at scores that say nothing."""
    members = np.random.default_rng(0).random(4000) < 0.5
    bound = one_run(np.zeros(4000), members, delta=1e-5, method="product", centre=0.0, rng=0)
    assert bound.epsilon == 0
    assert bound.details["correct"] < 2200


def test_infinite_scores_are_the_most_certain():
    scores, members = gaussian(1000, 1.0, 0)
    told = np.where(np.arange(1000) < 100, np.where(members, np.inf, -np.inf), scores)
    plain = one_run(scores, members, delta=1e-5, method="product")
    assert one_run(told, members, delta=1e-5, method="product").epsilon > plain.epsilon
    every = one_run(np.where(members, np.inf, -np.inf), members, delta=1e-5, method="product")
    assert every.details["correct"] >= 500


@pytest.mark.parametrize("guesses", [200, (100, 100), (200, 0), (0, 200)])
def test_numbers_of_guesses(guesses):
    scores, members = gaussian(1000, 1.0, 0)
    bound = one_run(scores, members, delta=1e-5, method="product", guesses=guesses)
    assert bound.details["guesses"] == 200
    assert bound.threshold == ((100, 100) if guesses == 200 else guesses)
    assert 0 < bound.epsilon < bound.ceiling
    wrong = 200 - int(bound.details["correct"])
    if guesses == (100, 100):
        found = FixedCount(1000, 200, wrong).largest_refuted(gdp, LEVEL, 2.0**20)
        assert bound.mu_lower == pytest.approx(found, rel=1e-6)


def test_one_kind_of_guess_errs_less_than_both_by_nothing():
    """A share g that is guessed "in" is as certain as the share 2g of both kinds together."""
    both, one = gdp(1.0), Certainty.of_curve(GDP(mu=1.0), "top")
    shares = np.array([0.01, 0.05, 0.2])
    assert one.rate(shares) == pytest.approx(both.rate(2 * shares), rel=2e-4)


@pytest.mark.parametrize("side", ["top", "bottom"])
def test_sides(side):
    scores, members = gaussian(2000, 1.5, 1)
    bound = one_run(scores, members, delta=1e-5, method="product", sides=side)
    assert 0 < bound.epsilon < GDP(mu=1.5).epsilon(1e-5)


def test_very_high_confidence_uses_no_draws():
    scores, members = gaussian(2000, 1.0, 0)
    bound = one_run(scores, members, delta=1e-5, method="product", confidence=1 - 1e-6)
    assert "simulations" not in bound.details
    assert bound.details["guesses"] == 1000
    assert bound.epsilon > 0


@pytest.mark.parametrize("canaries", [1, 2, 7])
def test_few_canaries(canaries):
    members = np.arange(canaries) % 2 == 0
    bound = one_run(np.where(members, 1.0, -1.0), members, delta=1e-5, method="product", centre=0)
    assert 0 <= bound.epsilon <= bound.ceiling


# --- DP-SGD as a family -------------------------------------------------------------------------


def ratios(noise, rate, steps, canaries, seed):
    """Log-likelihood ratios of canaries that are drawn at a rate, and their coins."""
    rng = np.random.default_rng(seed)
    members = rng.random(canaries) < 0.5
    scores = np.zeros(canaries)
    for _ in range(steps):
        drawn = members & (rng.random(canaries) < rate)
        y = drawn + noise * rng.normal(size=canaries)
        scores += np.logaddexp(np.log1p(-rate), np.log(rate) + (y - 0.5) / noise**2)
    return scores, members


def test_a_form_is_its_own_claim():
    form = DPSGDForm.of(0.8, 0.1, 20)
    scores, members = ratios(0.8, 0.1, 20, 4000, 0)
    bound = one_run(scores, members, delta=1e-5, method="product", family=form, centre=0.0)
    truth = form.epsilon_lower(1.0, 1e-5)
    assert 0.7 * truth < bound.epsilon < truth
    assert bound.p_value > LEVEL
    assert "one fixed scale" in bound.assumption
    assert bound.details["noise_multiplier_upper"] == pytest.approx(
        0.8 * bound.details["noise_scale_upper"]
    )
    half, members = ratios(0.4, 0.1, 20, 1000, 1)
    refuted = one_run(half, members, delta=1e-5, method="product", family=form, centre=0.0)
    assert refuted.p_value == weighted.price(0, 19_999)
    assert refuted.details["noise_multiplier_upper"] < 0.8


def test_full_batches_are_gaussian():
    form = DPSGDForm.of(5.0, 1.0, 25)
    shares = np.array([0.1, 1.0])
    assert form.certainty(1.0).rate(shares) == pytest.approx(gdp(1.0).rate(shares), rel=1e-6)
    assert form.epsilon_lower(1.0, 1e-5) == pytest.approx(GDP(mu=1.0).epsilon(1e-5), rel=1e-9)
    two = DPSGDForm(((5.0, 1.0, 9), (5.0, 1.0, 16)))
    assert two.certainty(1.0).rate(shares) == pytest.approx(form.certainty(1.0).rate(shares))


def test_phases_compose():
    """A training in two halves is the training; a noisier half shows less."""
    whole, halves = DPSGDForm.of(1.0, 0.1, 20), DPSGDForm(((1.0, 0.1, 8), (1.0, 0.1, 12)))
    shares = np.array([0.1, 1.0])
    assert halves.certainty(1.0).rate(shares) == pytest.approx(
        whole.certainty(1.0).rate(shares), rel=1e-6
    )
    epsilons = [form.epsilon_lower(1.0, 1e-5) for form in (whole, halves)]
    assert epsilons[1] == pytest.approx(epsilons[0], rel=1e-3)
    noisier = DPSGDForm(((1.0, 0.1, 8), (2.0, 0.1, 12)))
    upper = account(noisier.event(), "pld").epsilon(1e-5)
    assert 0.98 * upper < noisier.epsilon_lower(1.0, 1e-5) <= upper < epsilons[0]
    mixed = DPSGDForm(((4.0, 1.0, 4), (1.0, 0.1, 8)))
    upper = account(mixed.event(), "pld").epsilon(1e-5)
    assert 0.97 * upper < mixed.epsilon_lower(1.0, 1e-5) <= upper


def test_many_kinds_of_steps_are_joined_on_the_safe_side():
    """Noise that is scheduled step by step: bounds on both sides, and close to each other."""
    phases = tuple((4 * 0.995**k, 1.0 if k % 2 else 0.5, 1) for k in range(98))
    safe, loose = (join_phases(phases, private=private) for private in (True, False))
    assert len(safe) == len(loose) <= 24
    assert sum(steps for _, _, steps in safe) == sum(steps for _, _, steps in loose) == 98
    for rate in (0.5, 1.0):
        rows = [
            sorted(n for n, q, t in part for _ in range(t) if q == rate)
            for part in (loose, phases, safe)
        ]
        assert all(low <= true <= high for low, true, high in zip(*rows, strict=True))
        assert np.mean(rows[2]) < 1.05 * np.mean(rows[0])
    few = ((2.0, 0.5, 3), (1.0, 0.5, 4), (2.0, 0.5, 5))
    assert set(join_phases(few, private=True)) == {(2.0, 0.5, 8), (1.0, 0.5, 4)}
    batches = tuple((1.0, 0.01 * k, 1) for k in range(1, 51))
    assert all(
        low[1] <= high[1]
        for low, high in zip(
            join_phases(batches, private=True), join_phases(batches, private=False), strict=True
        )
    )
    text = DPSGDForm(phases[1::2]).assumption
    assert "(49 steps at rate 1, Poisson batches)" in text
    assert "47 more rates" in DPSGDForm(batches).assumption


def test_overlapping_canaries_cost_a_root_of_kappa():
    """Theorem 3: the refuted noise grows by sqrt(kappa), and a claim is harder to refute."""
    scores, members = ratios(2.8, 0.999999, 10, 2000, 0)
    bounds = [
        one_run(
            scores,
            members,
            delta=1e-5,
            method="product",
            family=DPSGDForm.of(3.0, 1.0, 10, kappa=kappa),
            centre=0.0,
        )
        for kappa in (1.0, 1.5)
    ]
    noise = [bound.details["noise_multiplier_upper"] for bound in bounds]
    assert noise[1] == pytest.approx(math.sqrt(1.5) * noise[0], rel=0.004)
    assert bounds[1].p_value > bounds[0].p_value
    assert bounds[1].epsilon < bounds[0].epsilon


def test_the_gram_matrix_of_random_canaries():
    """Theorem 3's kappa: 1 for an orthonormal set, m for one direction, 2.25 for 100 in 400."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 400))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.linalg.eigvalsh(rows @ rows.T)[-1] == pytest.approx(2.25, abs=0.15)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"guesses": "grid"}, "guesses='grid' has no proof with method='product'"),
        ({"max_guesses": 5}, "max_guesses=5 has no meaning"),
        ({"centre": math.nan}, "centre=nan"),
        ({"family": "laplace"}, "family='laplace' must be"),
        ({"delta": 0.0}, "delta=0 gives Gaussian noise of every scale"),
    ],
)
def test_misuse(options, text):
    scores, members = gaussian(50, 1.0, 0)
    with pytest.raises(InvalidArgument, match=text.replace("(", r"\(")):
        one_run(scores, members, method="product", **({"delta": 1e-5} | options))


@pytest.mark.parametrize(
    ("phases", "kappa", "text"),
    [
        ((), 1.0, "phases is empty"),
        (((1.0, 0.1),), 1.0, "must be a triple"),
        (((1.0, 1.2, 10),), 1.0, "sampling_rate=1.2"),
        (((0.0, 0.1, 10),), 1.0, "noise_multiplier"),
        (((1.0, 0.1, 10),), 0.5, "kappa=0.5"),
    ],
)
def test_forms_are_checked(phases, kappa, text):
    with pytest.raises(InvalidArgument, match=text):
        DPSGDForm(phases, kappa)


def test_other_methods_take_no_centre_and_no_form():
    scores, members = gaussian(50, 1.0, 0)
    with pytest.raises(InvalidArgument, match="must be None for method='steinke'"):
        one_run(scores, members, delta=1e-5, centre=0.0)
    with pytest.raises(InvalidArgument, match="pass method='product'"):
        one_run(scores, members, delta=1e-5, method="fdp", family=DPSGDForm.of(1.0, 0.1, 5))


def test_any_curve_is_a_claim():
    """A curve that is known by a function alone, and an event."""
    scores, members = gaussian(2000, 1.0, 0)
    curve = Numeric("three times", delta_at=lambda e: np.exp(-3 * e) / 2)
    tested = one_run(scores, members, delta=1e-5, method="product", claim=curve)
    assert 0 < tested.p_value <= 1
    event = one_run(
        scores, members, delta=1e-5, method="product", claim=dp_sgd_event(1.0, 0.01, 10)
    )
    assert event.p_value == 1 / 20_000


@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_delta_0_is_refused_for_a_form_of_dp_sgd(rate):
    form = DPSGDForm.of(1.0, rate, 3)
    with pytest.raises(InvalidArgument, match="infinite epsilon"):
        one_run(np.arange(4.0), [0, 1, 0, 1], delta=0, method="product", family=form)


def test_all_looks_of_a_search_are_paid_for_and_so_is_the_claim():
    """Powers of two from 1 down to the smallest, the halvings, and the member that is claimed."""
    powers = round(-math.log2(product.SMALLEST)) + 1
    assert powers + weighted._HALVINGS + 1 <= weighted._LOOKS
