"""Sequential tests: predictable, the same in any batch, honest at all times, quick to refute."""

import copy
import math
import pickle

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.bounds import betting, wealth
from dpassay.bounds.betting import FORMS, N_BINS, Lines
from dpassay.bounds.families import Family
from dpassay.bounds.ladder import move_up
from dpassay.bounds.sequential import (
    ConfidenceSequence,
    SequentialTest,
    sequential_bound,
    sequential_test,
)
from dpassay.bounds.steps import epsilon_of_steps
from dpassay.bounds.wealth import PastRanks, Rounds, next_lesson
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ApproxDP, PureDP, dp_sgd_event, gaussian
from dpassay.privacy.accounting import account
from dpassay.types import LowerBound
from rates import assert_rate_at_most

SCORES = st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, 1e308, math.inf]), min_size=1)


def mu_of(epsilon):
    return float(np.ravel(gaussian.mu_of(np.array([epsilon]), np.array([1e-5])))[0])


def coin_trials(seed, trials, shift):
    rng = np.random.default_rng([seed, 1])
    worlds = rng.integers(0, 2, trials)
    return worlds, rng.normal(size=trials) + shift * worlds


def paired_trials(seed, pairs, shift, rho=0.0):
    rng = np.random.default_rng([seed, 2])
    out = rng.normal(size=pairs)
    scores = rho * out + math.sqrt(1 - rho**2) * rng.normal(size=pairs) + shift
    return np.tile([1, 0], pairs), np.column_stack([scores, out]).ravel()


def trials_for(form, seed, trials, shift):
    make = coin_trials if form == "coin" else lambda s, n, m: paired_trials(s, n // 2, m)
    return make(seed, trials, shift)


def refutations(fresh, streams):
    """How many streams of trials refute a claim at some time."""
    return sum(copy.deepcopy(fresh).update(*stream) for stream in streams)


# --- Ranks.


def ranks_of(worlds, scores):
    ranks = PastRanks()
    for world, score in zip(worlds, scores, strict=True):
        ranks.add(world, score)
    return ranks


def slow_rank(out, with_canary, x):
    """Half the mid-rank in each list; a straight line between neighbours; halfway to the ends."""

    def mid(v):
        shares = [np.mean(np.array(a) < v) + np.mean(np.array(a) <= v) for a in (out, with_canary)]
        return sum(shares) / 4

    past = sorted({*out, *with_canary})
    if x in past:
        return mid(x)
    low = max((v for v in past if v < x), default=None)
    high = min((v for v in past if v > x), default=None)
    if low is None or high is None:
        return mid(high) / 2 if low is None else (1 + mid(low)) / 2
    share = (x - low) / (high - low) if math.isfinite(high - low) else 0.5
    return mid(low) + share * (mid(high) - mid(low))


@given(SCORES, SCORES, st.sampled_from([-math.inf, -2.0, -1.0, 0.2, 0.5, 3.0, 1.2e308, math.inf]))
def test_ranks_against_their_definition(out, with_canary, x):
    rank = wealth._balanced_rank(sorted(out), sorted(with_canary), x)
    assert 0 <= rank <= 1
    assert rank == pytest.approx(slow_rank(out, with_canary, x), abs=1e-12)


def test_ranks_rise_with_the_score():
    rng = np.random.default_rng(1)
    out, with_canary = sorted(rng.normal(size=7)), sorted(rng.normal(size=30))
    ranks = [wealth._balanced_rank(out, with_canary, x) for x in np.linspace(-4, 4, 999)]
    assert np.all(np.diff(ranks) >= 0)


def test_unequal_numbers_do_not_move_the_middle():
    ranks = ranks_of([0] * 3 + [1] * 50, [*range(3), *range(100, 150)])
    assert all(ranks.bin(x) < N_BINS // 2 for x in (-1.0, 1.5, 2.0))
    assert all(ranks.bin(x) >= N_BINS // 2 for x in (99.0, 120.0, 200.0))


def test_no_bet_before_both_worlds_are_seen():
    assert ranks_of([1, 1], [0.0, 1.0]).bin(0.5) is None
    test = sequential_test([1, 1, 0], [0.0, 1.0, 2.0], claim=PureDP(epsilon=1.0))
    assert np.all(test.wealth_path[:3] == 0)


def test_the_pool_stops_growing_and_ranks_go_on(monkeypatch):
    monkeypatch.setattr(wealth, "POOL", 4)
    ranks = ranks_of([0, 1, 0, 1, 0, 1], [0.0, 1.0, 2.0, 3.0, 50.0, 60.0])
    assert ranks.bin(40.0) == ranks.bin(70.0)


def outcomes(form, worlds, scores):
    return Rounds(FORMS[form]).play(list(worlds), list(scores))


def peeking(self, world, score):
    """A mutant that ranks a trial among itself and the past."""
    self._ranks.add(world, score)
    position = self._ranks.bin(score)
    return 2 * N_BINS if position is None else world * N_BINS + position


def assert_bins_do_not_know_the_world():
    worlds, scores = coin_trials(3, 12, 1.0)
    other = worlds.copy()
    other[-1] = 1 - worlds[-1]
    last = [outcomes("coin", w, scores)[-1] % N_BINS for w in (worlds, other)]
    assert last[0] == last[1]


def test_the_bin_of_a_trial_does_not_know_its_world(monkeypatch):
    assert_bins_do_not_know_the_world()
    monkeypatch.setattr(Rounds, "_coin", peeking)
    with pytest.raises(AssertionError):
        assert_bins_do_not_know_the_world()


def test_each_half_of_a_pair_is_ranked_without_the_other():
    worlds, scores = paired_trials(4, 10, 1.0)
    other = scores.copy()
    other[-1] += 5.0
    with_canary = [outcomes("pairs", worlds, s)[-1] // N_BINS for s in (scores, other)]
    assert with_canary[0] == with_canary[1]
    swapped = worlds.reshape(-1, 2)[:, ::-1].ravel(), scores.reshape(-1, 2)[:, ::-1].ravel()
    assert np.array_equal(outcomes("pairs", *swapped), outcomes("pairs", worlds, scores))


# --- The same in any batch.


def batches(seed, trials):
    """Ways to cut a row of trials: all at once, one by one, and at random places."""
    rng = np.random.default_rng(seed)
    cuts = [np.array([], int), np.arange(1, trials)]
    return cuts + [np.sort(rng.choice(trials, size=n, replace=False)) for n in (3, 40)]


@pytest.mark.parametrize("form", FORMS)
def test_wealth_is_the_same_bit_for_bit_in_any_batch(form):
    worlds, scores = trials_for(form, 5, 500, 0.9)
    fresh = SequentialTest(GDP(mu=0.5), form=form)
    seen = []
    for cuts in batches(6, 500):
        test = copy.deepcopy(fresh)
        for w, x in zip(np.split(worlds, cuts), np.split(scores, cuts), strict=True):
            test.update(w, x)
        seen.append((test.wealth_path.tobytes(), test.log_wealth, test.refuted_at, test.trials))
    assert seen.count(seen[0]) == len(seen)
    assert seen[0][2] is not None


@pytest.mark.parametrize("form", FORMS)
def test_a_bound_is_the_same_in_any_batch(form):
    worlds, scores = trials_for(form, 7, 300, 2.0)
    fresh = ConfidenceSequence(Family.gdp(1e-5, [0.5, 1, 2, 4]), form=form)
    seen = []
    for cuts in batches(8, 300):
        sequence = copy.deepcopy(fresh)
        for w, x in zip(np.split(worlds, cuts), np.split(scores, cuts), strict=True):
            sequence.update(w, x)
        seen.append((sequence.refuted_at.tolist(), sequence.bound()))
    assert seen.count(seen[0]) == len(seen)
    assert seen[0][1].epsilon > 1


@pytest.mark.parametrize("form", FORMS)
def test_a_test_can_be_stored_and_go_on(form):
    worlds, scores = trials_for(form, 24, 121, 0.9)
    whole = sequential_test(worlds, scores, claim=GDP(mu=0.5), form=form)
    half = sequential_test(worlds[:51], scores[:51], claim=GDP(mu=0.5), form=form)
    stored = pickle.loads(pickle.dumps(half))
    stored.update(worlds[51:], scores[51:])
    assert np.array_equal(stored.wealth_path, whole.wealth_path)


def test_lessons_are_at_fixed_rounds():
    rounds = [0]
    while rounds[-1] < 10**5:
        rounds.append(next_lesson(rounds[-1]))
    assert rounds[:23] == [*range(21), 22, 24]
    assert max(np.diff(rounds)) == 1000


def test_wealth_is_what_the_components_are_worth():
    # By hand: shares times products of factors, with the learner's portfolio relearned as it was.
    worlds, scores = coin_trials(9, 30, 1.0)
    test = sequential_test(worlds, scores, claim=GDP(mu=0.5))
    book = wealth.Book.of([GDP(mu=0.5)], FORMS["coin"])
    played = outcomes("coin", worlds, scores)
    worth, weights, counts = book.shares[0].copy(), book.weights[0], np.zeros(2 * N_BINS + 1)
    for t, outcome in enumerate(played):
        if t in (0, *range(1, 21), 22, 24, 26, 28, 30):
            seen = counts[:-1].reshape(2, N_BINS)
            evidence = (wealth.PRIOR_ROUNDS * book.prior[0] + seen) / (
                wealth.PRIOR_ROUNDS + seen.sum()
            )
            weights = betting.improve(weights, book.pays[0], evidence, FORMS["coin"], 12)
            bet = betting.with_cash(betting.factors(weights, book.pays[0]))
        learner = 1.0 if outcome == 2 * N_BINS else bet.ravel()[outcome]
        worth *= np.append(np.exp(book.logs[0, :-1, outcome]), learner)
        counts[outcome] += 1
    assert book.shares[0].sum() == pytest.approx(1)
    assert test.e_value == pytest.approx(worth.sum())


# --- Honest at all times.


def gaussian_null(form):
    shift = mu_of(2)
    return SequentialTest(GDP(mu=shift), form=form), lambda s: trials_for(form, s, 250, shift)


def response_null(form):
    def stream(seed):
        rng = np.random.default_rng([seed, 3])
        worlds = trials_for(form, seed, 250, 0.0)[0]
        return worlds, np.where(rng.random(250) < 1 / (1 + np.exp(-1.0)), worlds, 1 - worlds)

    return SequentialTest(PureDP(epsilon=1.0), form=form), stream


@pytest.mark.parametrize("null", [gaussian_null, response_null])
@pytest.mark.parametrize("form", FORMS)
def test_a_mechanism_that_just_meets_its_claim_is_rarely_refuted(null, form):
    fresh, stream = null(form)
    assert_rate_at_most(refutations(fresh, map(stream, range(100))), 100, 0.05)


def priced_without_d(s, d):
    pays = np.stack([np.append(2 * s / s, [0, 2]), np.append(2 / s, [2, 0])])
    return Lines(s, d, pays)


def test_assets_that_are_not_divided_by_their_price_are_caught(monkeypatch):
    monkeypatch.setattr(Lines, "_price", staticmethod(priced_without_d))
    fresh, stream = gaussian_null("coin")
    with pytest.raises(AssertionError, match=r"against p<=0\.05"):
        assert_rate_at_most(refutations(fresh, map(stream, range(40))), 40, 0.05)


@pytest.fixture
def few_lessons(monkeypatch):
    """A lazy learner: what is valid stays valid, and saves time."""
    monkeypatch.setattr(wealth, "LEARNING_STEPS", 2)


def opposed(form, streams):
    """Refutations of a true Gaussian claim when the scores of a pair are correlated by -0.95."""
    shift = mu_of(2)
    fresh = SequentialTest(GDP(mu=shift), form=form)
    return refutations(fresh, (paired_trials(s, 300, shift, rho=-0.95) for s in range(streams)))


@pytest.mark.usefixtures("few_lessons")
def test_dependent_pairs_are_safe_with_the_linear_form():
    assert_rate_at_most(opposed("shared-seed", 100), 100, 0.05)


@pytest.mark.usefixtures("few_lessons")
def test_dependent_pairs_are_not_safe_with_the_product_form():
    with pytest.raises(AssertionError, match=r"against p<=0\.05"):
        assert_rate_at_most(opposed("pairs", 400), 400, 0.05)


# --- Quick to refute.


@pytest.mark.parametrize("form", FORMS)
def test_epsilon_4_is_soon_told_from_a_claim_of_2(form):
    # In benchmarks/sequential.py half of the audits refute within 200 trials and 80 % within 350;
    # at most 25 % should need more than 500.
    fresh = SequentialTest(GDP(mu=mu_of(2)), form=form)
    streams = [trials_for(form, seed, 500, mu_of(4)) for seed in range(40)]
    assert_rate_at_most(40 - refutations(fresh, streams), 40, 0.25)


@pytest.mark.parametrize(
    ("claim", "form", "most"),
    [
        (ApproxDP(epsilon=0.21, delta=1e-5), "coin", 14),
        (ApproxDP(epsilon=0.21, delta=1e-5), "pairs", 14),
        (PureDP(epsilon=1.0), "coin", 22),
        (PureDP(epsilon=1.0), "pairs", 20),
        (PureDP(epsilon=1.0), "shared-seed", 36),
    ],
)
def test_a_perfect_attack_needs_few_trials(claim, form, most):
    rng = np.random.default_rng(11)
    worlds = trials_for(form, 11, 60, 0.0)[0]
    for scores in (worlds, rng.normal(size=60) + 100 * worlds, np.where(worlds, 0.0, -np.inf)):
        test = sequential_test(worlds, scores, claim=claim, form=form)
        assert test.refuted_at is not None
        assert test.refuted_at <= most


def test_either_direction_of_a_leak_is_found():
    # Half of the trials of one world give it away; the other world never looks like that.
    for leaking, sign in ((1, 1.0), (0, -1.0)):
        rng = np.random.default_rng(12)
        worlds = rng.integers(0, 2, 300)
        seen = (worlds == leaking) & (rng.random(300) < 0.5)
        scores = np.where(seen, sign * np.inf, rng.normal(size=300))
        assert sequential_test(worlds, scores, claim=PureDP(epsilon=1.0)).refuted


def test_scores_that_say_the_opposite_prove_nothing():
    worlds, scores = coin_trials(13, 400, -2.0)
    test = sequential_test(worlds, scores, claim=PureDP(epsilon=0.5))
    assert not test.refuted
    assert sequential_test(worlds, -scores, claim=PureDP(epsilon=0.5)).refuted


def test_more_dependence_refutes_sooner_with_a_shared_seed():
    fresh = SequentialTest(GDP(mu=mu_of(2)), confidence=1 - 1e-6, form="shared-seed")
    needed = []
    for rho in (0.0, 0.95):
        test = copy.deepcopy(fresh)
        test.update(*paired_trials(14, 1500, mu_of(4), rho=rho))
        needed.append(test.refuted_at)
    assert needed[1] < 0.6 * needed[0]


# --- What a test says of itself.


def test_refuted_at_is_the_first_time_that_wealth_reaches_the_mark():
    worlds, scores = coin_trials(15, 800, 1.5)
    test = sequential_test(worlds, scores, claim=GDP(mu=0.5), confidence=0.99)
    path = test.wealth_path
    assert path.size == test.trials == 800
    assert path[test.refuted_at - 1] >= math.log(100) > path[: test.refuted_at - 1].max()
    assert test.log_wealth == path[-1]
    assert test.e_value == pytest.approx(math.exp(path[-1]))
    assert (test.confidence, test.claim) == (0.99, GDP(mu=0.5))


def test_pairs_count_as_two_trials_and_half_a_pair_waits():
    worlds, scores = paired_trials(16, 60, 3.0)
    test = SequentialTest(GDP(mu=0.5), form="pairs")
    assert not test.update(worlds[:1], scores[:1])
    assert (test.trials, test.wealth_path.size) == (1, 0)
    assert test.update(worlds[1:], scores[1:])
    assert (test.trials, test.wealth_path.size) == (120, 60)
    assert test.refuted_at % 2 == 0
    assert test.wealth_path[test.refuted_at // 2 - 1] >= math.log(20)


def test_a_fresh_test_has_seen_nothing():
    test = SequentialTest(GDP(mu=1.0))
    test.update([], [])
    assert (test.trials, test.log_wealth, test.e_value) == (0, 0.0, 1.0)
    assert (test.refuted, test.refuted_at, test.wealth_path.size) == (False, None, 0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("values", [[-np.inf], [0.0, 0.0], [-np.inf, np.inf, 0.0, 1e308, -1e308]])
def test_ties_and_infinities_are_scores_like_any_other(form, values):
    worlds = trials_for(form, 17, 60, 0.0)[0]
    scores = np.random.default_rng(17).choice(values, 60)
    test = sequential_test(worlds, scores, claim=PureDP(epsilon=0.3), form=form)
    assert np.isfinite(test.wealth_path).all()


def test_wealth_does_not_fall_for_ever():
    # Trials that carry nothing: each component loses, but never more than its cash allows.
    worlds, scores = coin_trials(18, 3000, 0.0)
    test = sequential_test(worlds, scores, claim=GDP(mu=1.0))
    assert -8 < test.log_wealth < 0


# --- A family of claims.


def put_refuted_at(sequence, values):
    """Let each member have been refuted after so many trials."""
    rest = np.array(values)
    for watch in sequence._ladder.groups():
        watch.refuted_at, rest = np.split(rest, [len(watch.refuted_at)])


def test_the_bound_is_the_top_of_the_run_from_below():
    sequence = ConfidenceSequence(Family.approx_dp(1e-5, [0.5, 1.0, 2.0, 4.0]))
    for refuted_at, epsilon in (
        ([0, 0, 0, 0], 0.0),
        ([0, 3, 5, 7], 0.0),
        ([9, 0, 5, 7], 0.5),
        ([9, 2, 5, 0], 2.0),
        ([9, 2, 5, 7], 4.0),
    ):
        put_refuted_at(sequence, refuted_at)
        assert sequence.epsilon == (math.nextafter(epsilon, math.inf) if epsilon else 0.0)


def errors_of(rule, streams=300, members=20):
    """How often a rule errs when all members are true and each is refuted by chance at 5 %.

    Tests of members that learn apart are about independent; the worst that is allowed.
    """
    rng = np.random.default_rng(19)
    sequence = ConfidenceSequence(Family.approx_dp(1e-5, [1.0 + i for i in range(members)]))
    errors = 0
    for _ in range(streams):
        put_refuted_at(sequence, np.where(rng.random(members) < 0.05, 10, 0))
        errors += rule(sequence) > 0
    return errors


def test_the_largest_refuted_member_would_err_too_often():
    assert_rate_at_most(errors_of(lambda s: s.epsilon), 300, 0.05)
    with pytest.raises(AssertionError, match=r"against p<=0\.05"):
        largest = errors_of(lambda s: s.refuted_at.max())
        assert_rate_at_most(largest, 300, 0.05)


def test_the_bound_rarely_exceeds_the_truth():
    # The truth is the third member, so that an error is a bound at or above it.
    fresh = ConfidenceSequence(Family.gdp(1e-5, [0.5, 1.0, 2.0, 2.2, 2.5, 3.0]))
    errors = 0
    for seed in range(100):
        sequence = copy.deepcopy(fresh)
        errors += sequence.update(*coin_trials(seed, 250, mu_of(2))) > 1.99
    assert_rate_at_most(errors, 100, 0.05)


def test_the_bound_never_falls_and_its_members_are_tests():
    worlds, scores = coin_trials(20, 900, mu_of(4))
    family = Family.gdp(1e-5, [0.5, 1.0, 2.0, 3.0, 4.0])
    sequence = ConfidenceSequence(family)
    parts = zip(np.split(worlds, 75), np.split(scores, 75), strict=True)
    bounds = [sequence.update(w, x) for w, x in parts]
    assert np.all(np.diff(bounds) >= 0)
    assert 1 <= sequence.n_refuted < 5
    alone = [
        sequential_test(worlds, scores, claim=curve).refuted_at or 0 for curve in family.curves
    ]
    assert sequence.refuted_at.tolist() == alone


def test_bounds_say_what_they_rest_on():
    worlds, scores = coin_trials(21, 600, 3.0)
    free = sequential_bound(worlds, scores, delta=1e-5)
    shaped = sequential_bound(worlds, scores, delta=1e-5, family="gdp", confidence=0.9)
    assert isinstance(free, LowerBound)
    assert (free.method, free.assumption, free.confidence) == ("sequential", "none", 0.95)
    assert (shaped.assumption, shaped.confidence) == ("Gaussian trade-off", 0.9)
    assert 0.5 < free.epsilon < GDP(mu=3.0).epsilon(1e-5)
    assert free.epsilon < shaped.epsilon < GDP(mu=3.0).epsilon(1e-5)
    assert free.epsilon < free.ceiling
    assert free.details["trials"] == 600


@pytest.mark.parametrize("form", FORMS)
def test_the_ceiling_is_what_a_perfect_attack_shows(form):
    worlds = trials_for(form, 22, 200, 0.0)[0]
    family = Family.approx_dp(1e-5, [0.5, 1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0])
    settings = {"delta": 1e-5, "family": family, "form": form}
    perfect = sequential_bound(worlds, 1.0 * worlds, **settings)
    blind = sequential_bound(worlds, np.zeros(200), **settings)
    assert perfect.epsilon == perfect.ceiling == blind.ceiling
    # No audit of n guesses shows more than -log(alpha^(-1/n) - 1) (Steinke and others 2023).
    assert 2 < perfect.epsilon < -math.log(0.05 ** (-1 / 200) - 1)
    assert blind.epsilon == 0


def test_gaussian_members_are_never_labelled_above_their_epsilon():
    family = Family.gdp(1e-5)
    exact = [curve.epsilon(1e-5) for curve in family.curves]
    assert np.all(np.array(family.epsilons) <= exact)
    assert family.epsilons == pytest.approx(exact, rel=1e-9)


def test_a_family_of_noise_levels():
    # Four steps on the full batch are one Gaussian release with mu = 2 / noise_multiplier.
    family = Family.of(
        lambda sigma: account(dp_sgd_event(sigma, 1.0, 4), "pld"),
        noise_multipliers=[1.0, 4.0, 2.0],
        epsilons=[epsilon_of_steps(1 / sigma, 1.0, 4, 1e-5) for sigma in (1.0, 4.0, 2.0)],
        delta=1e-5,
        assumption="DP-SGD with some noise multiplier",
    )
    exact = [GDP(mu=2 / sigma) for sigma in (4.0, 2.0, 1.0)]
    assert family.epsilons == pytest.approx([c.epsilon(1e-5) for c in exact], rel=2e-3)
    assert all(e <= c.epsilon(1e-5) for e, c in zip(family.epsilons, exact, strict=True))
    for curve, gdp in zip(family.curves, exact, strict=True):
        lines = Lines.of(curve)
        steep = lines.slopes >= 1
        assert np.all(lines.offsets[steep] >= gdp.delta(np.log(lines.slopes[steep])) - 1e-12)
    bound = sequential_bound(*coin_trials(23, 400, 2.0), delta=1e-5, family=family)
    assert bound.epsilon == family.epsilons[1]
    assert bound.assumption == "DP-SGD with some noise multiplier"


def test_upper_bounds_label_no_lower_bound():
    with pytest.raises(InvalidArgument, match="its epsilon is no lower bound"):
        Family.of(
            lambda sigma: account(dp_sgd_event(sigma, 0.1, 4), "rdp"),
            noise_multipliers=[1.0, 2.0],
            delta=1e-5,
        )
    with pytest.raises(InvalidArgument, match="epsilons has 1 entries for 2 curves"):
        Family.of([PureDP(1.0), PureDP(2.0)], epsilons=[1.0], delta=0.0)


def test_labels_are_rounded_down():
    family = Family.of([GDP(1.0), GDP(2.0)], delta=1e-5)
    for label, curve in zip(family.epsilons, family.curves, strict=True):
        assert curve.epsilon(1e-5) * (1 - 1e-10) < label < curve.epsilon(1e-5)


def test_a_family_of_curves_is_sorted():
    family = Family.of([PureDP(epsilon=2.0), PureDP(epsilon=1.0)], delta=0.0)
    assert family.epsilons == (1.0, 2.0)
    assert family.curves[0] == PureDP(epsilon=1.0)


# --- Misuse.


@pytest.mark.parametrize(
    ("worlds", "scores", "message"),
    [
        ([0, 1], [0.0, np.nan], r"scores\[1\]=nan .* score -inf"),
        ([0, np.nan], [0.0, 1.0], r"worlds\[1\]=nan"),
        ([0, 2], [0.0, 1.0], r"worlds\[1\] must lie in \[0, 1\]"),
        ([0, 0.5], [0.0, 1.0], r"worlds=0.5 must be 0 or 1"),
        ([0, 1, 1], [0.0, 1.0], r"worlds has shape \(3,\), scores \(2,\)"),
        ([[0, 1]], [[0.0, 1.0]], r"shape \(1, 2\)"),
        (["in"], [0.0], "worlds must hold numbers"),
    ],
)
def test_bad_trials_are_refused_and_leave_no_trace(worlds, scores, message):
    test = SequentialTest(GDP(mu=1.0))
    with pytest.raises(InvalidArgument, match=message):
        test.update(worlds, scores)
    assert test.trials == 0


@pytest.mark.parametrize("form", ["pairs", "shared-seed"])
def test_pairs_must_be_one_of_each(form):
    test = SequentialTest(GDP(mu=1.0), form=form)
    test.update(1, 0.5)
    with pytest.raises(InvalidArgument, match="twice world 1"):
        test.update([1, 0], [0.5, 0.5])
    test.update([0, 1, 0], [0.5, 0.5, 0.1])
    assert test.trials == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SequentialTest(1.0), "claim=1.0 must be a privacy curve"),
        (lambda: SequentialTest(GDP(mu=1.0), confidence=1.0), "confidence=1 must lie in"),
        (lambda: SequentialTest(GDP(mu=1.0), confidence=np.nan), "confidence=nan must lie in"),
        (lambda: SequentialTest(GDP(mu=1.0), form="pair"), "form='pair' must be one of 'coin'"),
        (lambda: ConfidenceSequence([GDP(mu=1.0)]), "must be a Family"),
        (lambda: ConfidenceSequence(Family.gdp(1e-5, [1]), confidence=0), "confidence=0"),
        (lambda: Family.gdp(0.0), "delta=0 must lie in .* Gaussian noise has no finite epsilon"),
        (lambda: Family.gdp(1e-5, [0.0, 1.0]), r"epsilons\[0\] must"),
        (lambda: Family.approx_dp(1.0), "delta=1 must lie in"),
        (lambda: Family.approx_dp(1e-5, [2.0, 1.0]), "must increase"),
        (lambda: Family.approx_dp(1e-5, []), "epsilons is empty"),
        (lambda: Family.of([PureDP(1.0), PureDP(1.0)], delta=0.0), "must increase"),
        (lambda: Family.of([GDP(mu=1.0)], delta=0.0), r"epsilons\[0\]=inf"),
        (lambda: Family.of([3.0], delta=0.0), "curves=3.0 must be a privacy curve"),
        (lambda: Family.of(GDP, delta=1e-5), "epsilons is empty"),
        (lambda: Family.of(GDP, delta=1e-5, noise_multipliers=[0]), "noise_multiplier=0"),
        (
            lambda: Family((PureDP(2.0), PureDP(1.0)), (0.5, 1.0), 0.0),
            "not nested: delta falls",
        ),
        (lambda: sequential_bound([], [], delta=1e-5, family="pure"), "family='pure' must be"),
        (
            lambda: sequential_bound([], [], delta=1e-6, family=Family.gdp(1e-5, [1])),
            "delta=1e-06 must be that of the family",
        ),
    ],
)
def test_misuse_is_named(call, message):
    with pytest.raises(InvalidArgument, match=message):
        call()


def test_a_family_says_no_more_than_its_curves():
    with pytest.raises(InvalidArgument, match="must not exceed"):
        Family((GDP(mu=0.1),), (5.0,), 1e-5, "Gaussian trade-off")
    with pytest.raises(InvalidArgument, match="assumption"):
        Family((GDP(mu=0.1),), (0.1,), 1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1.0, 30.0, 499.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_refuted_member_has_its_bound_above_it_and_has_paid_for_that(epsilon, delta):
    family = Family.approx_dp(delta, [epsilon, 600.0])
    lines = Lines.of(family.curves[0])
    said = move_up(family, 0, lines.pays, surplus=0.0)
    assert said == math.nextafter(epsilon, math.inf)
    with mp.workdps(40):  # no asset has a mean above 1 under the claim of the bound itself
        e, d0 = mp.mpf(said), mp.mpf(delta)
        for slope, pay in zip(lines.slopes.tolist(), lines.pays[1].tolist(), strict=False):
            s, x = mp.mpf(slope), abs(mp.log(mp.mpf(slope)))
            d = d0 + (1 - d0) * (mp.e**e - mp.e**x) / (mp.e**e + 1) if x < e else d0
            offset = d if s >= 1 else 1 - s + s * d
            assert mp.mpf(pay) * (s + offset) / 2 <= 1
