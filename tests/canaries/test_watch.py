"""The watch without any framework: blocks, scores, verdicts, checkpoints."""

import json

import numpy as np
import pytest
from scipy import stats

import dpassay as da
from dpassay.canaries.watch import Watch
from dpassay.canaries.watch_blocks import make_blocks
from dpassay.canaries.watch_sums import (
    ResidualSums,
    add_scores,
    estimate_noise,
    finish_scores,
    score_step,
)
from dpassay.errors import InvalidArgument, InvalidTarget

SIGMA, STEPS = 5.0, 16  # full batches: GDP(0.8)


def play(watch, *, steps=STEPS, sigma=SIGMA, rate=1.0, added=1.0, seed=7, data=0.0, told=None):
    """Steps of DP-SGD along the canaries: ``added`` is the share of the noise that is there."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        drawn = watch.draw(rate)
        noise = added * sigma * random.standard_normal(watch.n_canaries)
        other = data * random.standard_normal(watch.n_canaries)
        watch.take(drawn + noise + other, drawn, told or sigma, rate, known=drawn + noise)
    return watch


# ------------------------------------------------------------------------- blocks and scores


def test_blocks_are_orthonormal():
    """So that kappa is 1: two canaries share no parameter."""
    blocks = make_blocks(103, 20, seed=3)
    directions = np.array([blocks.spread(row) for row in np.eye(20)])
    np.testing.assert_allclose(directions @ directions.T, np.eye(20), atol=1e-14)
    weights = np.arange(20.0)
    np.testing.assert_allclose(blocks.project(blocks.spread(weights)), weights)
    assert not np.array_equal(blocks.places, make_blocks(103, 20, seed=4).places)


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 8.0])
def test_scores_are_log_likelihood_ratios(sigma, rate):
    seen = np.linspace(-3, 4, 29)
    without, within = stats.norm.pdf(seen, 0, sigma), stats.norm.pdf(seen, 1, sigma)
    expected = np.log((1 - rate) + rate * within / without)
    np.testing.assert_allclose(score_step(seen, sigma, rate), expected, rtol=1e-9, atol=1e-12)


def test_scores_of_small_noise_neither_overflow_nor_vanish():
    seen = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    small = score_step(seen, 1e-3, 0.25)
    np.testing.assert_allclose(small[3:], np.log(0.25) + (seen[3:] - 0.5) * 1e6)
    np.testing.assert_allclose(small[:2], np.log(0.75))
    assert score_step(seen, 1e-200, 1.0).tolist() == [-np.inf, -np.inf, 0, np.inf, np.inf]
    assert score_step(seen, 0.0, 1.0).tolist() == [-np.inf, -np.inf, 0, np.inf, np.inf]
    both = add_scores(np.array([np.inf, np.inf]), np.array([-np.inf, 1.0]))
    assert finish_scores(both).tolist() == [0, np.inf]


def test_residuals_are_those_of_all_steps():
    values = np.random.default_rng(0).gamma(2.0, size=(5, 40))
    sums = ResidualSums()
    for row in values:
        sums.add(row)
    again = ResidualSums.read(json.loads(json.dumps(sums.numbers())))
    for kept in (sums, again):
        found = kept.summary()
        assert found.mean == pytest.approx(values.mean())
        assert found.variance == pytest.approx(values.var())
        assert found.kurtosis == pytest.approx(stats.kurtosis(values.ravel(), fisher=False))
        assert kept.deviation() == pytest.approx(np.sqrt(np.mean(values**2)))
        after = np.mean(values[1:] * values[:-1]) / np.mean(values**2)
        between = np.mean(values[:, 1:] * values[:, :-1]) / np.mean(values**2)
        assert found.largest_correlation == pytest.approx(max(after, between))


def test_noise_of_one_seed_shows_in_the_correlation():
    watch = Watch(1000, 1000)
    same = np.random.default_rng(0).standard_normal(1000)
    for _ in range(4):
        drawn = watch.draw(1.0)
        watch.take(drawn + SIGMA * same, drawn, SIGMA, 1.0, known=drawn + SIGMA * same)
    residuals = watch.judge(delta=1e-5).one_training.residuals
    assert residuals.largest_correlation == pytest.approx(1)


def test_draws_are_fair_and_only_of_canaries_that_are_in():
    watch = Watch(4000, 4000, rng=1)
    assert abs(watch.coins.mean() - 0.5) < 6 * 0.5 / np.sqrt(4000)
    drawn = np.array([watch.draw(0.1) for _ in range(50)])
    assert not drawn[:, ~watch.coins].any()
    share = drawn[:, watch.coins].mean()
    assert abs(share - 0.1) < 6 * np.sqrt(0.09 / drawn[:, watch.coins].size)
    assert (watch.draw(1.0) == watch.coins).all()


def test_there_is_at_most_one_canary_per_parameter():
    assert Watch(300).n_canaries == 300
    with pytest.raises(InvalidArgument, match="canaries=0"):
        Watch(300, 0)
    with pytest.raises(InvalidArgument, match="where='behind'"):
        Watch(300, where="behind")


# ------------------------------------------------------------------------- verdicts


def test_the_noise_of_a_step_is_estimated_without_coins():
    """Near 1 of it where it is as stated, and what it is elsewhere; scores then use it."""
    random = np.random.default_rng(0)
    for sigma, rate in ((0.3, 0.1), (1.0, 0.02), (2.0, 0.5), (6.0, 1.0)):
        drawn = (random.random(5000) < rate / 2).astype(float)
        for share in (1.0, 0.5, 3.0):
            seen = drawn + share * sigma * random.standard_normal(5000)
            assert estimate_noise(seen, sigma, rate) == pytest.approx(share * sigma, rel=0.06)
        assert estimate_noise(drawn, sigma, rate) < sigma / 10
    assert estimate_noise(drawn, 0.0, 1.0) == 0.0


def test_half_the_noise_falls_in_sampled_batches_too():
    """Scores at the stated noise would be centred elsewhere and guess badly: see the estimate."""
    watch = play(Watch(400), sigma=1.0, rate=0.2, steps=60, added=0.5)
    assert np.mean((watch.scores() > 0) == watch.coins) > 0.85
    verdict = watch.judge(delta=1e-5)
    assert verdict.refuted
    assert verdict.one_training.sampling_rate == 0.2


@pytest.mark.parametrize("added", [1.0, 0.5])
def test_noise_as_claimed_stands_and_half_of_it_falls(added):
    verdict = play(Watch(2000, 1000), added=added).judge(delta=1e-5)
    claimed = da.GDP(mu=0.8).epsilon(1e-5)
    assert verdict.claim.epsilon(1e-5) == pytest.approx(claimed, rel=1e-6)
    assert verdict.refuted == (added < 1)
    assert (verdict.p_value <= 0.05) == verdict.refuted
    assert (verdict.bound.epsilon > claimed) == verdict.refuted
    assert verdict.kind == "one run"
    facts = verdict.one_training
    assert (facts.kappa, facts.noise_multiplier, facts.steps) == (1, SIGMA, STEPS)
    assert facts.residuals.variance == pytest.approx(added**2, rel=0.1)
    form, plain = facts.bounds
    assert form is verdict.bound
    assert "DP-SGD" in form.assumption
    assert plain.assumption == "none"
    assert plain.epsilon < form.epsilon
    text = str(verdict)
    assert ("too little noise was added" in text) == verdict.refuted
    for said in ("not exercised: clipping", "sampling", "accountant", "unit: record", "kappa 1"):
        assert said in text


def test_a_refutation_near_the_level_is_called_close():
    watch = play(Watch(2000, 2000, rng=1))
    chance = watch.judge(delta=1e-5).p_value
    close = watch.judge(delta=1e-5, confidence=(1 - chance) / 2)
    assert close.refuted
    assert close.one_training.notes[0].startswith("A close call, p = ")
    assert "where one is judged every day pass confidence=" in str(close)
    clear = play(Watch(2000, 2000, rng=1), added=0.5).judge(delta=1e-5)
    assert clear.refuted
    assert "close call" not in str(clear)


def test_claims_of_every_form():
    watch = play(Watch(2000, 2000))
    for claim in ((1.0, 1e-5), "1,1e-5", "gdp:0.3", da.ApproxDP(1.0, 1e-5)):
        verdict = watch.judge(delta=1e-5, claim=claim)
        assert verdict.refuted, claim
        assert verdict.p_value is None
        assert "assumes what that assumes" in str(verdict)
    assert not watch.judge(claim=(9.0, 1e-5)).refuted
    text = f"dp-sgd:noise_multiplier={2 * SIGMA},sampling_rate=1,steps={STEPS}"
    described = watch.judge(delta=1e-5, claim=text)
    assert described.refuted
    assert described.p_value <= 0.05
    with pytest.raises(InvalidArgument, match="add-remove"):
        watch.judge(claim=da.ApproxDP(1.0, 1e-5, neighbouring="replace-one"))


def test_noise_that_changed_on_the_way_is_noted_and_judged():
    watch = play(Watch(1000), steps=8, seed=1)
    play(watch, steps=8, sigma=2.5, seed=2)
    assert watch.history == [(5.0, 1.0, 8), (2.5, 1.0, 8)]
    own, given = watch.judge(delta=1e-5), watch.judge(delta=1e-5, claim=(0.5, 1e-5))
    together = da.GDP(mu=np.sqrt(8 / 25 + 8 / 6.25)).epsilon(1e-5)
    assert own.claim.epsilon(1e-5) == pytest.approx(together, rel=1e-3)
    assert (own.refuted, given.refuted) == (False, True)
    for verdict in (own, given):
        assert "changed on the way: 8 steps with noise 5" in str(verdict)


def test_an_accountant_that_was_told_of_a_quarter_of_the_steps_is_refuted():
    watch = play(Watch(2000, 2000), steps=24)
    watch.accounted = lambda: [(SIGMA, 1.0, 6)]
    verdict = watch.judge(delta=1e-5)
    assert verdict.claim.epsilon(1e-5) == pytest.approx(
        da.GDP(mu=np.sqrt(6) / SIGMA).epsilon(1e-5), rel=1e-6
    )
    assert verdict.refuted
    assert "the accountant was told 6 steps" in str(verdict)
    watch.accounted = lambda: [(SIGMA, 1.0, 48)]  # the watch came late
    assert not watch.judge(delta=1e-5).refuted


def test_data_that_are_not_subtracted_only_cost_power():
    watch = play(Watch(2000, 2000), added=0.5, data=4.0)
    known, released = (watch.judge(delta=1e-5, view=view) for view in ("known", "released"))
    assert known.refuted
    assert 0 < released.bound.epsilon < known.bound.epsilon
    assert released.one_training.residuals is None
    assert "the other data known" in known.one_training.view
    assert "the other data known" not in released.one_training.view


def test_no_noise_at_all_is_refuted():
    assert play(Watch(500), sigma=0.0, told=2.0).judge(delta=1e-5).refuted
    silent = play(Watch(500), sigma=0.0, steps=2)
    assert set(np.abs(silent.scores())) == {np.inf}
    assert silent.judge(claim=(3.0, 1e-5)).refuted
    with pytest.raises(InvalidArgument, match="noise_multiplier=0, which promises nothing"):
        silent.judge(delta=1e-5)


def test_an_audit_around_it_hears_the_verdict_and_may_ask_another_question():
    watch = play(Watch(1000))
    with da.canaries.audit(claim=(0.5, 1e-5), confidence=0.9) as heard:
        verdict = watch.judge(delta=1e-5)
    assert heard.verdicts == [verdict]
    assert verdict.refuted
    assert (verdict.confidence, verdict.claim) == (0.9, da.ApproxDP(0.5, 1e-5))


def test_a_watch_that_saw_nothing_says_why():
    with pytest.raises(InvalidTarget, match="steps another optimizer"):
        Watch(100).judge(delta=1e-5)


def test_a_view_that_was_not_seen_is_refused():
    watch = Watch(100)
    watch.take(np.zeros(100), np.zeros(100), 1.0, 1.0)
    with pytest.raises(InvalidArgument, match="view='known'"):
        watch.scores("known")
    assert (watch.scores() == watch.scores("released")).all()


# ------------------------------------------------------------------------- checkpoints


def test_a_resumed_watch_ends_as_one_that_was_never_stopped():
    whole = play(play(Watch(900, 300, rng=5), rate=0.5, seed=1), rate=0.5, seed=2)
    first = play(Watch(900, 300, rng=5), rate=0.5, seed=1)
    state = json.loads(json.dumps(first.state_dict()))
    second = Watch(900, 300, rng=99)
    second.load_state_dict(state)
    play(second, rate=0.5, seed=2)
    assert (second.coins == whole.coins).all()
    assert (second.blocks.places == whole.blocks.places).all()
    assert (second.scores() == whole.scores()).all()
    assert second.history == whole.history
    assert second.state_dict() == whole.state_dict()


def test_the_state_of_another_watch_is_refused():
    state = Watch(900, 300).state_dict()
    with pytest.raises(InvalidArgument, match="n_canaries=300, this watch has 200"):
        Watch(900, 200).load_state_dict(state)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_overflowed_does_not_hide_the_others(value):
    watch, rng = Watch(300, 300), np.random.default_rng(3)
    for step in range(6):
        drawn = watch.draw(1.0)
        seen = drawn + 1.5 * rng.standard_normal(300)  # half of the stated noise
        seen[0] = value if step == 2 else seen[0]
        watch.take(seen, drawn, 3.0, 1.0, known=seen)
    assert watch.judge(delta=1e-5).refuted


def test_a_pure_claim_is_judged_by_what_it_says_at_another_delta():
    watch, rng = Watch(300, 300), np.random.default_rng(3)
    for _ in range(6):
        drawn = watch.draw(1.0)
        seen = drawn + 3 * rng.standard_normal(300)
        watch.take(seen, drawn, 3.0, 1.0, known=seen)
    verdict = watch.judge(claim="1")
    assert verdict.refuted
    assert verdict.bound.delta == 1e-5
    with pytest.raises(InvalidArgument, match="delta=0"):
        watch.judge(claim="1", delta=0)
