"""Games: exact laws of the scores, verdicts both ways, resumption, deaths, choices paid for."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, norm

import dpassay as da
from adversaries.small import DATA, NETWORK, training
from dpassay import nets
from dpassay.adversaries import (
    ADVERSARIES,
    VARIANTS,
    AuditStopped,
    GradientCanary,
    Searched,
    capabilities,
    play,
    steps_bound,
)
from dpassay.adversaries.game import craft_for, separation
from dpassay.adversaries.trainers import at_once, by_epochs
from dpassay.auditing import judge
from dpassay.auditing.referee import CURVE
from dpassay.errors import InvalidArgument
from dpassay.runs import MemoryLog, Workers, opened
from extras import needs
from rates import assert_rate

SIX, MALICIOUS = list(ADVERSARIES), ADVERSARIES["malicious data"]
FULL = training(steps=4, noise_multiplier=0.8)  # full batches: exactly 2.5-GDP
MU = 2.5


@pytest.fixture(autouse=True)
def _jax():
    needs("jax", "lab")


@pytest.fixture(scope="module")
def games():
    """The malicious data set against full batches, honest and with a tenth less noise."""
    less = replace(FULL, noise_multiplier=0.9 * FULL.noise_multiplier)
    return {
        "honest": play(MALICIOUS, FULL, DATA, trials=2000),
        "less": play(MALICIOUS, less, DATA, trials=2000, rng=1),
    }


def chances(game, mu):
    """Two-sided probabilities of the mean and the spread of scores N(±mu²/2, mu²)."""
    worlds, scores = game.evidence.worlds, game.evidence.scores
    z = (scores - (worlds - 0.5) * mu**2) / mu
    total, n = (z**2).sum(), len(z)
    return 2 * norm.sf(abs(z.sum()) / n**0.5), 2 * min(chi2.cdf(total, n), chi2.sf(total, n))


def test_the_strongest_adversary_has_exactly_gaussian_scores(games):
    assert min(chances(games["honest"], MU)) > 1e-9
    assert min(chances(games["less"], MU)) < 1e-9  # a tenth less noise is noticed
    assert min(chances(games["less"], MU / 0.9)) > 1e-9
    assert_rate(games["honest"].evidence.worlds.sum(), 2000, 0.5)


def test_the_claim_stands_and_falls_with_the_noise(games):
    """The accountant's curve of the training: a true one falls once in 10^3, over all trials."""
    claim = da.account(FULL.event())
    honest = games["honest"].verdict(confidence=0.999)
    assert not honest.refuted
    assert honest.claim.epsilon(1e-5) == pytest.approx(claim.epsilon(1e-5))
    assert "likelihood ratio" in honest.attack
    less = games["less"].verdict(claim)
    assert less.refuted
    assert less.trials == len(less.log_wealth)
    assert not games["less"].verdict(confidence=0.999).refuted  # its own curve is another


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_point_claim_falls_exactly_where_the_bound_is_above_it(games, share):
    """A law that any right version keeps; the test below is the one that caught a fault."""
    shown = games["honest"].bounds(1e-5)["clopper-pearson"].epsilon
    claim = da.ApproxDP(share * shown, 1e-5)
    verdict = games["honest"].verdict(claim)
    assert verdict.refuted == (verdict.bound.epsilon > share * shown)
    assert verdict.bound.confidence == verdict.confidence == 0.95
    assert verdict.bound.delta == 1e-5


def test_a_curve_and_the_bound_beside_it_share_one_level(games):
    """The curve is bet against at a part of the level, the bound has the rest."""
    claim = da.account(da.dp_sgd_event(1.5, 0.5, 12))
    verdict = games["honest"].verdict(claim, confidence=0.9)
    assert verdict.refuted
    assert verdict.log_wealth[-1] >= -np.log(CURVE * 0.1)


def test_bounds_do_not_exceed_the_truth(games):
    bounds = games["honest"].bounds(1e-5, confidence=0.999)
    truth = da.GDP(MU).epsilon(1e-5)
    assert list(bounds) == ["clopper-pearson", "gdp"]
    assert 3 < bounds["clopper-pearson"].epsilon <= bounds["clopper-pearson"].ceiling < truth
    assert 0.6 * truth < bounds["gdp"].epsilon < truth


def test_a_game_that_is_watched_stops_and_bounds_what_holds_at_all_times():
    half = replace(FULL, noise_multiplier=0.5 * FULL.noise_multiplier)
    game = play(MALICIOUS, half, DATA, trials=400, claim=da.account(FULL.event()))
    assert game.evidence.trials < 400
    assert list(game.bounds(1e-5)) == ["sequential"]
    verdict = game.verdict(da.account(FULL.event()))
    assert verdict.refuted
    assert verdict.trials == game.evidence.trials
    assert verdict.bound.method == "sequential"


POISSON = training(sampling_rate=0.5, steps=12, noise_multiplier=1.5)


@pytest.mark.parametrize("name", [*SIX, *VARIANTS])
def test_no_adversary_refutes_the_truth(name):
    """And each tells the worlds apart no better than the accountant lets it (1e-9)."""
    adversary = (ADVERSARIES | VARIANTS)[name]
    game = play(adversary, POISSON, DATA, trials=40, choosing=12)
    assert game.evidence.n_failed == 0
    assert np.isfinite(game.evidence.scores).all()
    assert np.std(game.evidence.scores) > 0
    assert not game.verdict(confidence=1 - 1e-6).refuted
    assert name in capabilities([adversary])


def test_six_in_order():
    assert [len(a.distinguish(POISSON, craft_for(a, POISSON, DATA))) for a in (
        ADVERSARIES["API access"], ADVERSARIES["intermediate poison"], MALICIOUS
    )] == [1, 3, 1]  # fmt: skip
    table = capabilities().splitlines()
    assert [line.split("  ")[0] for line in table[1:]] == SIX
    assert table[0].split() == ["adversary", "access", "manipulation", "data", "set"]


# Trials are kept, shared, and cost what they must.


def n_logged(path):
    with opened(path) as log:
        return [len(log.outcomes(run.key)) for run in log.runs()]


def test_those_who_only_look_differently_share_their_trainings(tmp_path):
    """2 and 3 differ in access; what chooses the third's score is not what it is counted on."""
    store = tmp_path / "trials.db"
    static = play(ADVERSARIES["static poison"], POISSON, DATA, trials=30, store=store)
    assert n_logged(store) == [30]
    third = ADVERSARIES["intermediate poison"]
    everything = play(third, POISSON, DATA, trials=30, choosing=20, store=store)
    assert n_logged(store) == [30, 20]
    assert static.evidence.run == everything.evidence.run
    assert (static.n_choosing, everything.n_choosing) == (0, 20)
    np.testing.assert_array_equal(static.evidence.worlds, everything.evidence.worlds)
    assert everything.distinguisher in ("mean loss", "max loss", "last loss")


@dataclass(frozen=True)
class Interrupted:
    """A trainer that is interrupted, once: while the file is not there."""

    path: str
    after: int

    def __call__(self, plan, made, world, rng):
        note = Path(self.path)
        lines = note.read_text() if note.exists() else ""
        if len(lines) == self.after:
            note.write_text(lines + "!")
            raise KeyboardInterrupt
        note.write_text(lines + ".")
        return at_once(plan, made, world, rng)


def test_interrupted_games_go_on_and_end_the_same(tmp_path):
    adversary = replace(MALICIOUS, train=Interrupted(str(tmp_path / "note"), 7))
    options = {"trials": 20, "store": tmp_path / "trials.db"}
    with pytest.raises(AuditStopped, match=r"after \d of 20 trainings"):
        play(adversary, FULL, DATA, **options)
    game = play(adversary, FULL, DATA, **options)
    before, after = (tmp_path / "note").read_text().split("!")
    assert len(before) == 7
    assert 13 <= len(after) < 20  # some were kept
    whole = play(MALICIOUS, FULL, DATA, trials=20)
    np.testing.assert_array_equal(game.evidence.scores, whole.evidence.scores)


def test_a_worker_that_dies_costs_its_own_trial_alone(tmp_path):
    note = str(tmp_path / "note")

    def deadly(plan, made, world, rng):
        if not os.path.exists(note):
            Path(note).touch()
            os._exit(1)
        return at_once(plan, made, world, rng)

    log = MemoryLog()
    with Workers(1, separate=True) as crew:
        options = {"executor": crew, "store": log}
        game = play(replace(MALICIOUS, train=deadly), FULL, DATA, trials=12, **options)
    whole = play(MALICIOUS, FULL, DATA, trials=12)
    assert (game.n_deaths, game.evidence.n_failed) == (1, 0)
    assert game.verdict().n_deaths == judge(log).n_deaths == 1
    np.testing.assert_array_equal(game.evidence.scores, whole.evidence.scores)


def fails_in_one_world(plan, made, world, rng):
    if world and rng.random() < 0.1:
        raise RuntimeError("no")
    return at_once(plan, made, world, rng)


def always_fails(plan, made, world, rng):
    raise RuntimeError("out of order")


def test_a_training_that_fails_is_an_output():
    game = play(replace(MALICIOUS, train=fails_in_one_world), FULL, DATA, trials=40)
    lost = np.isneginf(game.evidence.scores)
    assert 0 < lost.sum() == game.evidence.n_failed
    assert (game.evidence.worlds[lost] == 1).all()
    with pytest.raises(AuditStopped, match=r"Error(.|\n)*test_game.py"):
        play(replace(MALICIOUS, train=always_fails), FULL, DATA, trials=40)


def diverges_in_one_world(plan, made, world, rng):
    seen = at_once(plan, made, world, rng)
    return np.full_like(seen, np.nan) if world and rng.random() < 0.2 else seen


@pytest.mark.parametrize("name", ["API access", "malicious data"])
def test_a_training_that_diverges_is_an_output(name):
    """What is not a number is the lowest score, whatever the distinguisher makes of it."""
    game = play(replace(ADVERSARIES[name], train=diverges_in_one_world), FULL, DATA, trials=30)
    lost = np.isneginf(game.evidence.scores)
    assert 0 < lost.sum() < game.evidence.worlds.sum()
    assert (game.evidence.worlds[lost] == 1).all()


def test_what_chooses_is_not_what_counts():
    """Neither the trials that chose a score nor those of a search are counted afterwards."""
    shown = {"first": [], "second": []}

    def scores(plan, made):
        return {
            name: lambda seen, rows=rows: rows.extend(map(bytes, seen)) or seen[:, -1]
            for name, rows in shown.items()
        }

    adversary = replace(ADVERSARIES["API access"], distinguish=scores)
    game = play(adversary, FULL, DATA, trials=20, choosing=10)
    (rejected,) = shown.keys() - {game.distinguisher}
    chose, counted = set(shown[rejected]), shown[game.distinguisher][10:]
    assert (len(chose), len(counted)) == (10, 20)
    assert chose.isdisjoint(counted)


def test_what_searched_is_not_what_counts(tmp_path):
    store, adversary = tmp_path / "trials.db", VARIANTS["gradient, dirac"]
    search = Searched(adversary, candidates=2, trials=4, store=store)
    play(replace(adversary, craft=search), FULL, DATA, trials=4, store=store)
    with opened(store) as log:
        seen = [
            payload for run in log.runs() for payload in log.outcomes(run.key).payloads.values()
        ]
    assert len(seen) == len(set(seen)) == 12


# Trainers.


def test_training_by_epochs_is_the_training_cut():
    """With full batches an epoch is a step: the same examples, and the same models."""
    plan = training(noise_multiplier=0.0)
    made = craft_for(ADVERSARIES["adaptive poison"], plan, DATA)
    made = replace(made, start=NETWORK.start(np.random.default_rng(3)))
    for world in (True, False):
        whole, cut = (t(plan, made, world, np.random.default_rng(0)) for t in (at_once, by_epochs))
        np.testing.assert_allclose(cut, whole, atol=1e-3)
    with pytest.raises(InvalidArgument, match=r"momentum=0\.5"):
        by_epochs(training(momentum=0.5), made, True, np.random.default_rng(0))


def test_an_example_by_epochs_is_kept_for_the_epoch():
    plan = training(noise_multiplier=0.0, sampling_rate=0.25)
    made = craft_for(ADVERSARIES["adaptive poison"], plan, DATA)
    seen = by_epochs(plan, made, True, np.random.default_rng(0))
    assert seen.shape == (8,)


# Search.


@dataclass(frozen=True)
class OftenWeak:
    """Gradients that are a hundredth of the norm, but for some seeds."""

    def __call__(self, plan, data, rng):
        made = GradientCanary("dirac")(plan, data, rng)
        share = 1.0 if rng.random() < 0.4 else 0.01
        return replace(made, context={"gradient": share * made.context["gradient"]})


def test_search_keeps_the_canary_that_shows_most():
    weak = replace(ADVERSARIES["gradient"], craft=OftenWeak())
    sizes = [
        np.linalg.norm(craft_for(weak, FULL, DATA, rng=seed).context["gradient"]) / FULL.clip
        for seed in range(12)
    ]
    assert 0 < sum(size > 0.5 for size in sizes) < 12
    made = craft_for(replace(weak, craft=Searched(weak, candidates=6, trials=30)), FULL, DATA)
    assert np.linalg.norm(made.context["gradient"]) == pytest.approx(FULL.clip)


def test_separation():
    assert separation(np.array([1, 1, 0, 0]), np.array([3.0, 1.0, 1.0, -np.inf])) == 0.875
    assert separation(np.array([1, 1]), np.array([1.0, 2.0])) == 0.5


# Few trainings.


@pytest.mark.parametrize("estimator", ["threshold", "location"])
def test_steps_bound_the_training(estimator):
    plan = training(sampling_rate=0.2, steps=300, noise_multiplier=1.5)
    options = {"trainings": 8, "estimator": estimator, "confidence": 0.999}
    bound = steps_bound(MALICIOUS, plan, DATA, **options)
    truth = da.account(plan.event()).epsilon(1e-5)
    assert 0.5 * truth < bound.epsilon < truth
    assert "composed from below" in bound.assumption
    less = replace(plan, noise_multiplier=1.0)
    assert steps_bound(MALICIOUS, less, DATA, **options).epsilon > truth


def test_one_training_has_steps_of_both_kinds():
    """Almost without noise, what a step shows is its coin; and the coins are the bound's."""
    plan = training(sampling_rate=0.2, steps=300, noise_multiplier=1e-3)
    shown = []

    def kept(plan, made, world, rng):
        shown.append((made.context["coins"], at_once(plan, made, world, rng)))
        return shown[-1][1]

    bound = steps_bound(replace(MALICIOUS, train=kept), plan, DATA, trainings=1)
    ((coins, seen),) = shown
    assert 100 < coins.sum() < 200
    np.testing.assert_allclose(seen, plan.clip * coins, atol=0.01)
    assert bound.epsilon == pytest.approx(bound.ceiling)


def test_steps_of_a_training_that_failed_are_not_made_up():
    adversary = replace(MALICIOUS, train=fails_in_one_world)
    with pytest.raises(AuditStopped, match="trainings failed"):
        steps_bound(adversary, FULL, DATA, trainings=40)


def test_steps_need_a_gradient():
    with pytest.raises(InvalidArgument, match="'API access' inserts no gradient"):
        steps_bound(ADVERSARIES["API access"], POISSON, DATA)


@pytest.mark.parametrize(("name", "value"), [("trials", 0), ("choosing", 1), ("rng", -1)])
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(InvalidArgument, match=f"{name}={value}"):
        play(MALICIOUS, FULL, DATA, **{name: value})


def test_keys_tell_games_apart(tmp_path):
    """Another noise is another run; another distinguisher is not."""
    store = tmp_path / "trials.db"
    runs = {
        play(MALICIOUS, plan, DATA, trials=2, rng=seed, store=store).evidence.run
        for plan, seed in ((FULL, 0), (FULL, 1), (replace(FULL, noise_multiplier=1.0), 0))
    }
    assert len(runs) == 3
    assert nets.Training(**vars(FULL)) == FULL
