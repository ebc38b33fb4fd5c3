import numpy as np
import pytest

import dpassay as da
from dpassay.auditing import referee as module
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from rates import assert_rate_at_most


def rules(claim, budget=400, confidence=0.95, both_ways=False, sequential=True):
    return Rules(claim, claimed_delta(claim, None), confidence, budget, both_ways, sequential)


def trials(seed, n, scale, shift=1.0):
    rng = np.random.default_rng(seed)
    worlds = rng.integers(0, 2, n)
    return worlds, shift * worlds + rng.laplace(scale=scale, size=n)


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_true_claim_is_seldom_refuted(both_ways):
    """Laplace noise at exactly the claimed epsilon, watched at every trial: 5 % at the most."""
    refuted = 0
    for seed in range(200):
        judge = Referee(rules(da.PureDP(1.0), 200, both_ways=both_ways))
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
    assert whole.bound() == parts.bound()


def test_many_trials_are_tested_at_the_end(monkeypatch):
    monkeypatch.setattr(module, "BETTING_LIMIT", 100)
    judge = Referee(rules(da.PureDP(1.0), 6000))
    worlds, scores = trials(5, 6000, scale=0.7)  # the truth is 1/0.7 = 1.43
    judge.take(worlds[:100], 0 * scores[:100])
    judge.take(worlds[100:], scores[100:])
    assert judge.refuted_at is None
    assert judge.refuted()
    assert 1.0 < judge.bound().epsilon < 1 / 0.7
    honest = Referee(rules(da.PureDP(1.0), 6000))
    honest.take(*trials(6, 6000, scale=1.0))
    assert not honest.refuted()


def test_fixed_size():
    judge = Referee(rules(da.GDP(0.3), 3000, sequential=False))
    rng = np.random.default_rng(0)
    worlds = rng.integers(0, 2, 3000)
    assert not judge.take(worlds, worlds + rng.normal(size=3000))
    assert judge.refuted()
    bound = judge.bound()
    assert bound.assumption == "Gaussian trade-off"
    assert da.GDP(0.3).epsilon(1e-5) < bound.epsilon < da.GDP(1.0).epsilon(1e-5)


def test_one_world_only():
    judge = Referee(rules(da.PureDP(1.0), 50, sequential=False))
    judge.take(np.ones(50), np.zeros(50))
    assert not judge.refuted()
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


def test_a_look_before_the_end_does_not_spend_the_test_at_the_end():
    """At level 1/2 and without bets: the final test would refute, a look must not."""
    judge = Referee(rules(da.PureDP(0.1), 400, sequential=False))
    judge.take(*trials(0, 400, scale=0.1))
    assert judge.refuted()
    assert not judge.refuted(over=False)
    assert judge.bound(over=False).method == "sequential" != judge.bound().method
