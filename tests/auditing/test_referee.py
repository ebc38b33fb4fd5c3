"""Verdict and bound are one statement: properties over random trials, claims and levels."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpassay as da
from dpassay.auditing import account as accounts
from dpassay.auditing.account import Account
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from rates import assert_rate_at_most


def rules(claim, budget=400, confidence=0.95, both_ways=False, sequential=True, delta=None):
    account = Account.begin(budget, sequential).order(budget)
    return Rules(claim, claimed_delta(claim, delta), confidence, both_ways, account)


def trials(seed, n, scale, shift=1.0):
    rng = np.random.default_rng(seed)
    worlds = rng.integers(0, 2, n)
    return worlds, shift * worlds + rng.laplace(scale=scale, size=n)


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_true_claim_is_seldom_refuted(both_ways):
    """Laplace noise at exactly the claimed epsilon, watched at every trial: 5 % at the most."""
    refuted, fresh = 0, Referee(rules(da.PureDP(1.0), 200, both_ways=both_ways))
    for seed in range(200):
        judge = deepcopy(fresh)
        refuted += judge.take(*trials(seed, 200, scale=1.0))
    assert_rate_at_most(refuted, 200, 0.05)


def test_a_false_claim_is_refuted_whichever_way_the_score_points():
    for sign in (1, -1):
        judge = Referee(rules(da.PureDP(1.0), both_ways=True))
        worlds, scores = trials(0, 400, scale=0.25)
        assert judge.take(worlds, sign * scores)
    one_way = Referee(rules(da.PureDP(1.0)))
    worlds, scores = trials(0, 400, scale=0.25)
    assert not one_way.take(worlds, -scores)


def test_batches_do_not_matter():
    worlds, scores = trials(3, 300, scale=0.4)
    whole = Referee(rules(da.PureDP(1.0), 300))
    whole.take(worlds, scores)
    parts = Referee(rules(da.PureDP(1.0), 300))
    for i in range(0, 300, 7):
        parts.take(worlds[i : i + 7], scores[i : i + 7])
    assert whole.refuted_at == parts.refuted_at is not None
    assert whole.log_wealth == parts.log_wealth
    assert whole.trials == parts.trials == whole.refuted_at
    assert whole.statement() == parts.statement()


def test_many_trials_are_counted_at_the_end(monkeypatch):
    monkeypatch.setattr(accounts, "BETTING_LIMIT", 100)
    judge = Referee(rules(da.PureDP(1.0), 6000))
    worlds, scores = trials(5, 6000, scale=0.7)  # the truth is 1/0.7 = 1.43
    judge.take(worlds[:100], 0 * scores[:100])
    judge.take(worlds[100:], scores[100:])
    assert judge.refuted_at is None
    refuted, bound, fell_at = judge.statement()
    assert refuted
    assert 1.0 < bound.epsilon < 1 / 0.7
    assert bound.method == "conditional"
    assert fell_at.kind == "lower bound"
    assert fell_at.delta_seen > fell_at.delta_allowed == 0
    honest = Referee(rules(da.PureDP(1.0), 6000))
    honest.take(*trials(6, 6000, scale=1.0))
    assert not honest.has_refuted()


def test_fixed_size():
    judge = Referee(rules(da.GDP(0.3), 3000, sequential=False))
    rng = np.random.default_rng(0)
    worlds = rng.integers(0, 2, 3000)
    assert not judge.take(worlds, worlds + rng.normal(size=3000))
    refuted, bound, fell_at = judge.statement()
    assert refuted
    assert bound.assumption == "Gaussian trade-off"
    assert da.GDP(0.3).epsilon(1e-5) < bound.epsilon < da.GDP(1.0).epsilon(1e-5)
    assert fell_at.delta_seen > fell_at.delta_allowed == da.GDP(0.3).delta(fell_at.epsilon)


def test_one_world_only():
    judge = Referee(rules(da.PureDP(1.0), 50, sequential=False))
    judge.take(np.ones(50), np.zeros(50))
    assert not judge.has_refuted()
    assert judge.bound().epsilon == 0


def test_delta_of_the_bound():
    assert claimed_delta(da.PureDP(1.0), None) == 0
    assert claimed_delta(da.ApproxDP(1.0, 1e-6), None) == 1e-6
    assert claimed_delta(da.GDP(1.0), None) == 1e-5
    assert claimed_delta(da.GDP(1.0), 1e-7) == 1e-7


def test_the_wealth_path_has_one_entry_per_trial_and_ends_where_the_claim_falls():
    rng = np.random.default_rng(0)
    worlds = rng.integers(0, 2, 500)
    referee = Referee(rules(da.PureDP(0.5), 500, both_ways=True))
    for part in np.split(np.arange(500), 20):
        if referee.take(worlds[part], worlds[part] + 0.01 * rng.normal(size=25)):
            break
    path = referee.wealth_path()
    assert referee.refuted_at == referee.trials == path.size < 500
    assert path[-1] >= -np.log(0.05) > path[:-1].max()
    assert referee.log_wealth == path[-1]


def test_a_look_before_the_end_does_not_spend_the_count_at_the_end():
    asked = rules(da.PureDP(0.1), 400, sequential=False)
    early = Referee(asked)
    worlds, scores = trials(0, 400, scale=0.1)
    early.take(worlds[:399], scores[:399])
    assert not early.has_refuted()
    assert early.bound().epsilon == 0
    early.take(worlds[399:], scores[399:])
    assert early.has_refuted()


def test_a_claim_waits_for_all_smaller_ones():
    """The claim's own bets may win first; it falls when every smaller epsilon has fallen too."""
    waited = 0
    for seed in range(8):
        referee = Referee(rules(da.PureDP(2.0), 500))
        referee.take(*trials(seed, 500, scale=0.25))
        own = np.flatnonzero(referee.wealth_path() >= referee.wealth_needed)
        if referee.refuted_at is None:
            assert referee.bound().epsilon <= 2.0
            continue
        assert own[0] + 1 <= referee.refuted_at
        waited += own[0] + 1 < referee.refuted_at
        assert referee.bound().epsilon > 2.0
    assert waited < 4


CLAIMS = {
    "pure": lambda x: da.PureDP(x),
    "approximate": lambda x: da.ApproxDP(x, 1e-3),
    "gaussian": lambda x: da.GDP(x),
    "concentrated": lambda x: da.ZCDP(x**2 / 2),
}
scales = st.sampled_from([0.05, 0.3, 0.5, 0.8, 1.0, 3.0])


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(sorted(CLAIMS)),
    size=st.floats(0.05, 4.0),
    scale=scales,
    n=st.integers(2, 3000),
    seed=st.integers(0, 10**6),
    confidence=st.sampled_from([0.5, 0.9, 0.95, 0.999]),
    delta=st.sampled_from([None, 0.0, 1e-6, 0.05]),
    both_ways=st.booleans(),
)
def test_verdict_and_count_are_one_statement(
    kind, size, scale, n, seed, confidence, delta, both_ways
):
    claim = CLAIMS[kind](size)
    judge = Referee(rules(claim, n, confidence, both_ways, sequential=False, delta=delta))
    judge.take(*trials(seed, n, scale))
    assert_one_statement(judge)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(sorted(CLAIMS)),
    size=st.sampled_from([0.3, 1.0, 2.0]),
    scale=scales,
    n=st.integers(2, 120),
    seed=st.integers(0, 10**6),
    delta=st.sampled_from([None, 1e-3]),
)
def test_verdict_and_bets_are_one_statement(kind, size, scale, n, seed, delta):
    judge = Referee(rules(CLAIMS[kind](size), n, both_ways=True, delta=delta))
    judge.take(*trials(seed, n, scale))
    assert_one_statement(judge)


def assert_one_statement(judge):
    """Refuted iff the bound is above the claim; a curve may fall elsewhere, never the reverse."""
    refuted, bound, fell_at = judge.statement()
    claimed = float(judge.rules.claim.epsilon(bound.delta))
    if judge.rules.nested:
        assert refuted == (bound.epsilon > claimed)
    assert refuted or bound.epsilon <= claimed
    assert refuted == (fell_at is not None)
    assert bound.confidence == judge.rules.confidence
    if refuted and fell_at.kind == "lower bound":
        pure = fell_at.delta_allowed == 0
        assert fell_at.delta_seen > fell_at.delta_allowed or pure
        assert fell_at.delta_allowed == pytest.approx(
            float(judge.rules.claim.delta(fell_at.epsilon)), abs=1e-9
        )


@pytest.mark.parametrize("scale", [0.2, 0.5])
def test_a_refutation_shows_a_bound_above_the_claim(scale):
    """In print too: "refuted: epsilon >= 1, claimed 1" says nothing."""
    verdict = da.audit(
        lambda data, rng: data + rng.laplace(scale=scale),
        (1.0, 0.0),
        claim=da.PureDP(1.0),
        score=float,
        trials=1000,
    )
    assert verdict.refuted
    assert verdict.bound.epsilon > 1.0
    assert float(str(verdict).split("epsilon >= ")[1].split()[0]) > 1.0
    assert verdict.fell_at is not None
    assert verdict.fell_at.kind == "estimate"


def test_a_loss_is_measured_after_the_claim_has_fallen():
    """The verdict is that of the fall; the bound comes from four times the trials."""
    worlds, scores = trials(3, 2000, scale=0.25)
    asked = rules(da.PureDP(1.0), 2000)
    plain, longer = Referee(asked), Referee(replace(asked, measure=True))
    for start in range(0, 2000, 25):
        part = slice(start, start + 25)
        plain.take(worlds[part], scores[part])
        longer.take(worlds[part], scores[part])
    assert plain.refuted_at == longer.refuted_at == plain.trials
    assert longer.trials == max(4 * plain.trials, 200)
    assert plain.bound().epsilon < 1.2 < 2.0 < longer.bound().epsilon <= 4.0
    assert longer.has_refuted()


def test_measuring_an_honest_mechanism_changes_nothing():
    worlds, scores = trials(5, 400, scale=1.0)
    asked = rules(da.PureDP(1.0), 400)
    plain, longer = Referee(asked), Referee(replace(asked, measure=True))
    assert not plain.take(worlds, scores)
    assert not longer.take(worlds, scores)
    assert plain.bound() == longer.bound()
