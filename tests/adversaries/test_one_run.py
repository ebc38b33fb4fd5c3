"""Many canaries in one training: what is seen of each, and what that proves."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, norm

import dpassay as da
from adversaries.small import DATA, training
from dpassay import nets
from dpassay.adversaries import dirac_canaries, mislabelled_canaries
from dpassay.errors import InvalidArgument
from dpassay.nets._jax import jax
from extras import needs


@pytest.fixture(autouse=True)
def _jax():
    needs("jax", "lab")


@pytest.mark.parametrize("network", [nets.softmax(6, 3), nets.mlp([6, 5, 3])])
def test_a_dirac_canary_shows_its_own_size_and_no_other_record(network):
    """Without noise, in full batches: the norm where it is in, exactly 0 where it is not."""
    game = dirac_canaries(training(network=network), DATA, 30)
    plan = training(network=game.training.network, noise_multiplier=0.0)
    members = np.ones(70, bool)
    members[40:] = coins = np.arange(30) % 2 == 0
    options = {"members": members, "hooks": game.hooks, "context": game.context}
    seen = nets.train(plan, game.records, rng=0, **options).observations
    assert seen.shape == (8, 30)
    assert not seen[:, ~coins].any()
    size = game.score.ratio.size
    if network == nets.softmax(6, 3):
        np.testing.assert_allclose(seen[:, coins], size, rtol=1e-4)
        assert 0.99 * plan.clip < size < plan.clip
    else:  # what is in the other layers is not looked at
        assert 0.5 * plan.clip < seen[0, coins].max() <= plan.clip


def test_scores_of_dirac_canaries_are_likelihood_ratios():
    """Full batches: log-likelihood ratios are N(±mu²/2, mu²), mu = sqrt(steps) size / noise."""
    plan = training(noise_multiplier=4.0)
    game = dirac_canaries(plan, DATA, 2500)
    mu = 8**0.5 * game.score.ratio.size / plan.clip / 4.0
    assert chance(*game.play(rng=3), mu=mu) > 1e-9
    less = replace(game, training=replace(game.training, noise_multiplier=3.6))
    assert chance(*less.play(rng=3), mu=mu) < 1e-9  # a tenth less noise would be noticed


def chance(scores, members, mu):
    """The smaller of the two-sided probabilities of their mean and of their spread."""
    z = (scores - (members - 0.5) * mu**2) / mu
    total, n = (z**2).sum(), len(z)
    spread = 2 * min(chi2.cdf(total, n), chi2.sf(total, n))
    return min(spread, 2 * norm.sf(abs(z.sum()) / n**0.5))


def test_bounds_hold_and_see_missing_noise(tmp_path):
    plan, store = training(noise_multiplier=1.5), tmp_path / "one.db"
    game = dirac_canaries(plan, DATA, 400)
    options = {"delta": 1e-5, "store": store}
    truth = da.account(plan.event()).epsilon(1e-5)
    bound = game.bound(**options)
    assert 0.5 < bound.epsilon < truth
    assert game.bound(**options) == bound
    claim = da.account(training(noise_multiplier=8.0).event()).epsilon(1e-5)
    assert bound.epsilon > claim  # where so much noise was claimed, it is refuted


def test_mislabelled_canaries_have_wrong_labels_and_their_losses():
    plan = training(noise_multiplier=0.1, steps=60)
    game = mislabelled_canaries(plan, DATA, 50)
    labels = {row.tobytes(): y for row, y in zip(DATA.others.X, DATA.others.y, strict=True)}
    own = [labels[row.tobytes()] for row in game.records.X[40:]]
    assert (game.records.y[40:] != own).all()
    assert game.records.y.max() <= 2
    scores, members = game.play()
    assert scores.shape == members.shape == (50,)
    kept = np.append(np.ones(40, bool), members)
    trained = nets.train(plan, game.records, rng=da._rng.for_trial(0, 0, 1), members=kept)
    losses = jax.jit(plan.network.losses)(
        trained.parameters, game.records.X[40:], game.records.y[40:]
    )
    np.testing.assert_allclose(scores, -losses, rtol=1e-5)


def last_sum(seen):
    return seen.released


def twice_the_last_sum(seen):
    return 2 * seen.released


def ends(trained):
    return trained.observations[-1, :10]


def test_what_is_seen_is_part_of_the_run(tmp_path):
    """Two games that differ in their hooks alone do not share their scores."""
    game = replace(mislabelled_canaries(training(), DATA, 10), score=ends)
    once, twice = (
        replace(game, hooks=nets.Hooks(observe=hook)).play(store=tmp_path / "one.db")[0]
        for hook in (last_sum, twice_the_last_sum)
    )
    np.testing.assert_allclose(twice, 2 * once)


def test_scores_that_are_no_numbers_are_the_lowest():
    game = mislabelled_canaries(training(), DATA, 10)
    wrong = replace(game, score=lambda _: np.append(np.arange(9.0), np.nan))
    assert wrong.play()[0][-1] == -np.inf
    assert wrong.bound(delta=1e-5).epsilon >= 0


def test_values_out_of_range_are_refused():
    with pytest.raises(InvalidArgument, match="n_canaries=61"):
        mislabelled_canaries(training(), DATA, 61)
    with pytest.raises(InvalidArgument, match="takes rows"):
        dirac_canaries(training(network=nets.cnn()), DATA, 10)
