"""An attack that learns while it bets: what was learned, when, and that it may not look ahead."""

import itertools
from functools import partial

import numpy as np
import pytest

from dpassay.attacks.online import OnlineAttack
from dpassay.attacks.online.attack import FIRST_FIT, _Past, next_fit
from dpassay.attacks.online.experts import (
    EXPERTS,
    fit_kernel,
    fit_quadratic,
    fit_ridge,
    fit_table,
)
from dpassay.attacks.online.rows import Scaling
from dpassay.bounds import SequentialTest
from dpassay.privacy import GDP, PureDP
from rates import assert_rate_at_most

RNG = np.random.default_rng


def trials(n, d=3, shift=1.0, seed=0):
    rng = RNG(seed)
    worlds = rng.integers(0, 2, n)
    return worlds, rng.normal(size=(n, d)) + shift * worlds[:, None]


# What is learned.


SHAPES = pytest.mark.parametrize(("n", "d"), [(30, 4), (12, 20)], ids=["tall", "wide"])


@SHAPES
def test_past_scores_of_ridge_are_those_of_fits_that_left_the_trial_out(n, d, monkeypatch):
    """Against n solutions of the normal equations; the parameter and the centre use all trials."""
    monkeypatch.setattr("dpassay.attacks.online.experts._RIDGES", np.array([0.7]))
    worlds, z = trials(n, d)
    centred, target = z - z.mean(axis=0), 2 * worlds - 1
    ridge = 0.7 * np.square(centred).sum() / min(n, d)
    fit = fit_ridge(z, worlds)

    def solve(rows):
        X = centred[rows]
        return np.linalg.solve(X.T @ X + ridge * np.eye(d), X.T @ target[rows])

    alone = [centred[i] @ solve(np.arange(n) != i) for i in range(n)]
    np.testing.assert_allclose(fit.past, alone, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fit.score(z), centred @ solve(slice(None)), rtol=0, atol=1e-12)


@SHAPES
@pytest.mark.parametrize("expert", [fit_kernel, fit_table], ids=lambda f: f.__name__)
def test_past_scores_are_those_of_fits_that_left_the_trial_out(expert, n, d):
    """By n refits; the kernel's width uses all trials."""
    worlds, z = trials(n, d)
    z = np.clip(np.round(z), -6, 6)
    fit = expert(z, worlds)
    for i in range(n):
        others = np.arange(n) != i
        score = expert(z[others], worlds[others]).score
        if expert is fit_kernel:
            score = partial(score.func, *score.args[:2], fit.score.args[2])
        assert score(z[i : i + 1])[0] == pytest.approx(fit.past[i], abs=1e-9)


def test_every_expert_finds_what_it_is_there_for():
    rng, worlds = RNG(1), RNG(2).integers(0, 2, 300)
    shifted = rng.normal(size=(300, 5)) + worlds[:, None]
    scaled = rng.normal(size=(300, 2)) * (1 + 2 * worlds[:, None])
    atoms = np.where(rng.random(300) < 0.5, worlds * 0.25, rng.normal(size=300))[:, None]
    ring = rng.normal(size=(300, 2))
    ring *= (np.where(worlds, 3, 1) / np.linalg.norm(ring, axis=1))[:, None]
    cases = {fit_ridge: shifted, fit_quadratic: scaled, fit_table: atoms, fit_kernel: ring}
    for expert, outputs in cases.items():
        past = expert(Scaling.of(outputs).apply(outputs), worlds).past
        auc = np.mean(past[worlds == 1][:, None] > past[worlds == 0])
        assert auc > 0.7, expert.__name__
    blind = fit_ridge(Scaling.of(ring).apply(ring), worlds).past
    assert abs(np.mean(blind[worlds == 1][:, None] > blind[worlds == 0]) - 0.5) < 0.1


def test_rows_are_scaled_whatever_they_hold():
    table = np.array([[1.0, np.nan, 7.0, 1e308], [1.0, 2.0, 7.0, -1e308], [1.0, 3.0, np.inf, 0.0]])
    scaling = Scaling.of(table)
    assert scaling.columns.tolist() == [1, 2, 3]  # the first never changes
    assert scaling.gaps.tolist() == [1]
    scaled = scaling.apply(table)
    assert np.isfinite(scaled).all()
    assert scaled[:, -1].tolist() == [1.0, 0.0, 0.0]
    assert scaling.apply(table[:, :2]).shape == scaled.shape  # a shorter output


def test_a_column_of_mostly_one_value_is_scaled_by_the_others():
    """Values that are one up to rounding stay one: a width of 1e-12 would blow them up."""
    column = np.where(RNG(0).random(100) < 0.7, 1e-12 * RNG(1).normal(size=100), 5.0)[:, None]
    scaled = Scaling.of(column).apply(column)
    assert len(np.unique(np.round(scaled, 7))) == 2


# When.


def test_fits_come_at_growing_times():
    times = [FIRST_FIT]
    while times[-1] < 4000:
        times.append(next_fit(times[-1]))
    assert times[:4] == [10, 13, 17, 22]
    assert all(1.2 < b / a <= 1.51 for a, b in itertools.pairwise(times))


@pytest.mark.parametrize("sizes", [[1] * 120, [7] * 18, [50, 70], [120]], ids=len)
def test_ranks_do_not_depend_on_how_trials_are_handed_over(sizes):
    worlds, table = trials(120)
    whole = OnlineAttack().play(worlds, table)
    attack, parts, start = OnlineAttack(), [], 0
    for size in sizes:
        parts.append(attack.play(worlds[start : start + size], table[start : start + size]))
        start += size
    np.testing.assert_array_equal(np.concatenate([p.ranks for p in parts], 1), whole.ranks)
    np.testing.assert_array_equal(np.concatenate([p.streams for p in parts], 1), whole.streams)


@pytest.mark.parametrize("sizes", [[1] * 40, [40], [13, 27]], ids=len)
def test_what_is_remembered_is_a_function_of_the_number_of_trials(sizes, monkeypatch):
    monkeypatch.setattr("dpassay.attacks.online.attack._KEPT_ENTRIES", 30)
    monkeypatch.setattr("dpassay.attacks.online.attack._FEWEST_KEPT", 5)
    past, start = _Past(), 0
    table = np.arange(80.0).reshape(40, 2)
    for size in sizes:
        past.add(np.ones(size, dtype=int), table[start : start + size])
        start += size
    np.testing.assert_array_equal(past.latest()[0], table[-15:])


def test_a_trial_is_ranked_before_it_is_learned_from():
    """Changing later trials changes no earlier rank, and changing one trial not its own fit."""
    worlds, table = trials(80)
    whole = OnlineAttack().play(worlds, table).ranks
    changed = table.copy()
    changed[50:] += 5.0
    np.testing.assert_array_equal(OnlineAttack().play(worlds, changed).ranks[:, :50], whole[:, :50])
    swapped = worlds.copy()
    swapped[40] = 1 - swapped[40]
    np.testing.assert_array_equal(OnlineAttack().play(swapped, table).ranks[:, :41], whole[:, :41])


# That it refutes what is broken, and nothing else.


def refuted_at(draw, claim, seed, most, attack=None):
    rng, attack = RNG(seed), attack or OnlineAttack()
    test = SequentialTest(claim, shares=attack.shares)
    for _ in range(most // 50):
        worlds = rng.integers(0, 2, 50)
        if test.take(attack.play(worlds, draw(rng, worlds)).streams, worlds):
            return test.refuted_at
    return most + 1


def broken_mean(rng, worlds):
    """The mean of [0, 1] or of [0], with noise for a count that was never hidden."""
    count, mean = np.where(worlds, 2, 1), np.where(worlds, 0.5, 0.0)
    return (mean + rng.laplace(size=worlds.size) * 10 / count)[:, None]


def noised_scale(rng, worlds):
    """The same, with noise scaled by a noisy count: where that is negative, there is none."""
    count = np.where(worlds, 2, 1) + rng.laplace(size=worlds.size) * 20
    scale = np.maximum(20 / count, 1e-12)
    return (np.where(worlds, 0.5, 0.0) + rng.laplace(size=worlds.size) * scale)[:, None]


@pytest.mark.parametrize(("draw", "most"), [(broken_mean, 300), (noised_scale, 60)])
def test_broken_means_fall_within_a_few_hundred_trials_in_all(draw, most):
    found = [refuted_at(draw, PureDP(0.1), seed, 1000) for seed in range(5)]
    assert np.median(found) <= most


def honest(rng, worlds):
    """Laplace noise that just meets epsilon = 1, beside two entries that say nothing."""
    noise = rng.normal(size=(worlds.size, 2))
    return np.column_stack([worlds + rng.laplace(size=worlds.size), noise])


def failing(rng, worlds, odds=np.e):
    """A row of NaN, a failed trial, with chances that have these odds."""
    fails = rng.random(worlds.size) < 0.27 * np.where(worlds == 1, 1, 1 / odds)
    return np.where(fails[:, None], np.nan, rng.normal(size=(worlds.size, 2)))


def mixed(rng, worlds, odds=np.e):
    """Outputs of two lengths and kinds: a number alone, or an answer beside a number."""
    n = worlds.size
    answer = np.where(rng.random(n) < 1 / (1 + odds), 1 - worlds, worlds)
    table = np.column_stack([rng.normal(size=n), answer, rng.integers(0, 3, n)]).astype(float)
    short = rng.random(n) < 0.3
    table[short, 0] = (np.log(odds) * worlds + rng.laplace(size=n))[short]
    table[short, 1:] = np.nan
    return table


@pytest.mark.parametrize("draw", [honest, failing, mixed])
def test_what_just_meets_its_claim_is_rarely_refuted(draw):
    found = [refuted_at(draw, PureDP(1.0), seed, 100) <= 100 for seed in range(25)]
    assert_rate_at_most(sum(found), 25, 0.05)


@pytest.mark.parametrize("draw", [failing, mixed])
def test_more_than_the_claim_allows_is_refuted(draw):
    """The test above can fail: the same mechanisms at odds that their claim does not allow."""
    assert refuted_at(partial(draw, odds=np.exp(4.0)), PureDP(0.5), 0, 400) <= 400


def test_an_attack_that_looks_ahead_would_refute_it():
    """The test above can fail: experts that have seen the trial before they rank it."""

    class Peeking(OnlineAttack):
        def play(self, worlds, table):
            told = np.column_stack([table, worlds + 0.1 * RNG(0).normal(size=worlds.size)])
            return super().play(worlds, told)

    assert refuted_at(honest, PureDP(1.0), 0, 150, Peeking()) <= 150


def test_failures_that_depend_on_the_world_are_seen():
    def crashing(rng, worlds):
        output = rng.normal(size=(worlds.size, 2))
        output[(worlds == 1) & (rng.random(worlds.size) < 0.8)] = np.nan
        return output

    assert refuted_at(crashing, GDP(1.0), 0, 400) <= 400


def test_nothing_is_bet_where_nothing_can_be_learned():
    worlds = RNG(0).integers(0, 2, 40)
    for table in (np.ones((40, 3)), np.full((40, 2), np.nan)):
        assert np.isnan(OnlineAttack().play(worlds, table).ranks).all()
    one_world = OnlineAttack().play(np.ones(40, dtype=int), RNG(0).normal(size=(40, 2)))
    assert np.isnan(one_world.ranks).all()


def test_shares_sum_to_one():
    assert sum(OnlineAttack().shares) == pytest.approx(1.0)
    assert set(OnlineAttack().names) == set(EXPERTS)
