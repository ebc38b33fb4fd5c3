"""The replayed likelihood ratio: closed forms, exact nulls, and where it must not refute."""

import math

import numpy as np
import pytest
from scipy import stats

import dpassay as da
from dpassay.auditing import replayed
from dpassay.auditing.replayed import Bets, epsilon_lower, points_of
from dpassay.errors import AuditStopped
from dpassay.privacy import account
from dpassay.replay import tape as tapes
from dpassay.replay.likelihood import NoLikelihood, log_ratio, sides_of
from dpassay.replay.neighbours import align_given
from dpassay.replay.playing import Player

EMPTY = np.zeros(0)


def ratio(release, data, other, seed=3, replaced=False):
    neighbour = next(iter(align_given(np.asarray(data, float), [np.asarray(other, float)])))
    if replaced:
        neighbour = replayed._as_replaced(neighbour, "replace-one")
    return log_ratio(Player(release, seed), sides_of(np.asarray(data, float), neighbour), seed)


def noise(seed, law, *args):
    return getattr(np.random.default_rng(seed), law)(*args)


# L against closed forms


def test_additive_noise():
    z = noise(3, "normal", 0, 2.0)
    gaussian = lambda x, rng: x.sum() + rng.normal(0, 2.0)  # noqa: E731
    assert ratio(gaussian, [1, 4], [1]) == pytest.approx(4 * z / 4 + 16 / 8, abs=1e-7)
    z = noise(3, "laplace", 0, 2.0)
    laplace = lambda x, rng: x.sum() + rng.laplace(scale=2.0)  # noqa: E731
    assert ratio(laplace, [1, 4], [1]) == pytest.approx((abs(z + 4) - abs(z)) / 2, abs=1e-7)
    vector = lambda x, rng: x.sum() * np.arange(3) + rng.normal(0, 2.0, 3)  # noqa: E731
    z = noise(3, "normal", 0, 2.0, 3)
    shift = 4 * np.arange(3) / 2
    assert ratio(vector, [1, 4], [1]) == pytest.approx(shift @ z / 2 + shift @ shift / 2, abs=1e-6)


def test_geometric_noise_coins_choices_and_selections():
    def geometric(x, rng):
        return int(x.sum()) + rng.geometric(0.4) - rng.geometric(0.4)

    y = 5 + played_noise(geometric)
    assert ratio(geometric, [1, 4], [1]) == pytest.approx(
        (abs(y - 1) - abs(y - 5)) * -math.log(0.6), abs=1e-6
    )

    def choose(x, rng):
        p = np.exp(np.arange(3) * x.sum() / 9)
        return rng.choice(3, p=p / p.sum())

    def gumbel(x, rng):
        return int(np.argmax(np.arange(3) * x.sum() / 9 + rng.gumbel(size=3)))

    for release in (choose, gumbel):
        won = release(np.array([1.0, 4.0]), np.random.default_rng(3))
        chances = [stats_softmax(np.arange(3) * total / 9) for total in (5, 1)]
        expected = math.log(chances[0][won] / chances[1][won])
        assert ratio(release, [1, 4], [1]) == pytest.approx(expected, abs=1e-7)


def played_noise(release):
    return release(np.zeros(1), np.random.default_rng(3))


def stats_softmax(scores):
    weights = np.exp(scores)
    return weights / weights.sum()


def test_answers_by_coins():
    def answers(x, rng):
        return rng.random(len(x)) < np.where(x > 0, 0.8, 0.3)

    for seed in range(4):  # played on the other data set, where the record is 1
        got = bool(answers(np.array([0, 1.0]), np.random.default_rng(seed))[1])
        expected = math.log(0.8 / 0.3) if got else math.log(0.2 / 0.7)
        assert ratio(answers, [0, 0], [0, 1], seed, replaced=True) == pytest.approx(
            expected, abs=1e-6
        )


RATE, SIGMA = 0.3, 1.5


def poisson(x, rng):
    out = []
    for _ in range(3):
        batch = x[rng.random(len(x)) < RATE]
        out.append(batch.sum() + rng.normal(0, SIGMA))
    return out


def mixture(y, rest, value):
    log = ((y - rest) ** 2 - (y - rest - value) ** 2) / (2 * SIGMA**2)
    return math.log((1 - RATE) + RATE * math.exp(log))


@pytest.mark.parametrize("seed", range(4))
def test_poisson_batches_are_a_mixture_over_the_records_own_coin(seed):
    data, rng = np.array([1.0, 1.0, 2.0]), np.random.default_rng(seed)
    expected = 0.0
    for _ in range(3):
        coins = rng.random(3) < RATE
        y = data[coins].sum() + rng.normal(0, SIGMA)
        expected += mixture(y, data[:2][coins[:2]].sum(), 2.0)
    assert ratio(poisson, data, data[:2], seed) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_a_replaced_record_in_poisson_batches(seed):
    data, other = np.array([1.0, 2.0]), np.array([1.0, -1.0])
    rng, expected = np.random.default_rng(seed), 0.0
    for _ in range(3):
        coins = rng.random(2) < RATE
        y = other[coins].sum() + rng.normal(0, SIGMA)
        rest = float(coins[0])
        expected += mixture(y, rest, -1.0) - mixture(y, rest, 2.0)
    assert ratio(poisson, data, other, seed, replaced=True) == pytest.approx(expected, abs=1e-6)


def test_a_ratio_whose_forced_coins_do_nothing_is_caught(monkeypatch):
    """Steps without the record would then count nothing, and honest trainings fall."""
    monkeypatch.setattr(tapes.Tape, "_force", lambda self, value, law: value.copy())
    with pytest.raises(AssertionError):
        for seed in range(4):
            test_poisson_batches_are_a_mixture_over_the_records_own_coin(seed)


# Where it must not refute


def fixed_size(x, rng):
    return x[rng.choice(len(x), 1, replace=False)].sum() + rng.normal()


def allocated(x, rng):
    step = rng.integers(0, 10, size=len(x))
    return [x[step == i].sum() + rng.normal() for i in range(10)]


def accumulated(x, rng):
    total, out = 0.0, []
    for _ in range(4):
        total += x[rng.random(len(x)) < 0.5].sum()
        out.append(total + rng.normal())
    return out


def lost(x, rng):
    return x.sum() + float(rng.normal())


def reused(x, rng):
    z = rng.normal()
    return x.sum() + z, 2 * x.sum() + z


def gated(x, rng):
    return (x.sum() if rng.random() < 0.5 else 0.0) + rng.normal()


def shared_sums(x, rng):
    z = rng.normal()
    return x.sum() + z, x.sum() + (rng.normal() - z)


REFUSED = {
    shared_sums: "that others share",
    fixed_size: "depend on each other",
    allocated: "depend on each other",
    accumulated: "more than the coin",
    lost: "not followed",
    reused: "more than one value",
    gated: "part of the protection",
}


@pytest.mark.parametrize("release", REFUSED, ids=lambda f: f.__name__)
def test_refused(release):
    data = np.ones(6)
    with pytest.raises(NoLikelihood, match=REFUSED[release]):
        for seed in range(6):
            ratio(release, data, data[:5], seed)
    with pytest.raises(AuditStopped, match="cannot be used"):
        da.audit(release, (data, data[:5]), claim="0.01", evidence="replay", trials=6)


def delta_at(epsilon, ratios):
    return float(np.maximum(1 - np.exp(epsilon - ratios), 0).mean())


def test_why_samplers_with_dependent_coins_are_refused():
    """Taking the others' coins as known would call honest mechanisms refuted.

    n=2, one record of them in the batch, sigma=1, replaced: known coins show which record is in,
    so that X has mean .317 at epsilon=.3 where the mechanism's own delta is .248.
    """
    x = stats.norm
    epsilon = 0.3
    grid = np.linspace(-12, 12, 200_001)
    step = grid[1] - grid[0]
    # Records 1 and 0; the second becomes -1 and 0: one of the two is drawn by a fair coin.
    p = 0.5 * x.pdf(grid, 1) + 0.5 * x.pdf(grid, 0)
    q = 0.5 * x.pdf(grid, -1) + 0.5 * x.pdf(grid, 0)
    honest = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * step)
    known = 0.5 * float(
        np.maximum(x.pdf(grid, 1) - math.exp(epsilon) * x.pdf(grid, -1), 0).sum() * step
    )
    assert honest == pytest.approx(0.248, abs=2e-3)
    assert known == pytest.approx(0.317, abs=2e-3)
    assert known > honest


def test_why_random_allocation_is_refused():
    """One of ten steps, sigma=1: the product of mixtures is not the mixture of products."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400_000, 10))
    z[:, 0] += 1  # by symmetry the record is in the first step
    ratios = z - 0.5
    exact = np.logaddexp.reduce(ratios, axis=1) - math.log(10)
    product = np.logaddexp(np.log(0.9), np.log(0.1) + ratios).sum(axis=1)
    assert delta_at(1.0, exact) == pytest.approx(0.0028, abs=4e-4)
    assert delta_at(1.0, product) == pytest.approx(0.0053, abs=5e-4)


# Bets


@pytest.mark.parametrize("claim", [da.GDP(0.5), da.PureDP(1.0), da.ApproxDP(1.0, 1e-3)])
def test_points_lie_on_the_curve_and_have_a_positive_delta(claim):
    epsilons, deltas = points_of(claim)
    assert np.all(deltas > 0)
    np.testing.assert_allclose(deltas, [claim.delta(float(e)) for e in epsilons])


def streams(mu, n_streams, n_trials, seed=0):
    return mu**2 / 2 + mu * np.random.default_rng(seed).normal(size=(n_streams, n_trials))


def refuted(bets, ratios, alpha):
    seen = np.maximum(-np.expm1(np.minimum(bets.epsilons - ratios[..., None], 0)), 0)
    factors = 1 + replayed.STAKES * (seen / bets.deltas - 1)[..., None]
    wealth = np.exp(np.cumsum(np.log(factors), axis=1)).mean(axis=(2, 3))
    return (wealth.max(axis=1) >= 1 / alpha).mean()


@pytest.mark.parametrize("mu", [0.27, 0.93])
def test_at_the_exact_null_few_streams_refute(mu):
    """At most 5 % by Ville; 200 streams may not exceed what has probability 1e-9 at 5 %."""
    rate = refuted(Bets(da.GDP(mu)), streams(mu, 200, 200), 0.05)
    assert stats.binom.sf(rate * 200 - 1, 200, 0.05) > 1e-9


def test_a_curve_that_is_a_tenth_too_small_is_caught():
    """The mean of X / delta is at most 1 at every point; with delta a tenth too small it is not."""
    mu = 0.93
    bets = Bets(da.GDP(mu))
    ratios = streams(mu, 1, 400_000, seed=1)[0]
    for epsilon, delta in zip(bets.epsilons[:4], bets.deltas[:4], strict=True):
        seen = np.maximum(1 - np.exp(epsilon - ratios), 0)
        error = 6.5 * seen.std() / math.sqrt(seen.size)  # one chance in 1e10
        assert seen.mean() <= delta + error
        assert seen.mean() > 0.9 * delta + error


def test_a_batch_of_bets_is_one_bet_after_another():
    bets, one = Bets(da.GDP(0.5)), Bets(da.GDP(0.5))
    ratios = streams(1.0, 1, 20)
    logs = [one.bet(r) for r in ratios[0]]
    alpha = math.exp(-max(logs)) * 1.0001
    assert refuted(bets, ratios, alpha) == 1.0
    assert refuted(bets, ratios, math.exp(-max(logs)) * 0.999) == 0.0


def test_pure_claims_are_not_refuted_by_rounding():
    """The loss of Laplace noise is epsilon exactly; .1 + .2 makes it larger by one unit."""
    release = lambda x, rng: x.sum() + rng.laplace(scale=1.0)  # noqa: E731
    ratios = [ratio(release, [0.1, 0.2, 1.0], [0.1, 0.2], seed) for seed in range(40)]
    assert max(ratios) < 1.0
    assert max(ratios) > 1 - 1e-6


def test_the_bound_is_below_the_truth():
    for mu in (0.5, 1.0):
        ratios = streams(mu, 1, 300, seed=5)[0]
        assert 0 < epsilon_lower(ratios, 1e-2, 1e-6) <= da.GDP(mu).epsilon(1e-2)
    assert epsilon_lower([], 1e-5, 0.05) == epsilon_lower([-1.0], 1e-5, 0.05) == 0.0


# End to end


def descent(sigma):
    def train(x, rng):
        w = 0.0
        for _ in range(4):
            batch = x[rng.random(len(x)) < 0.5]
            w = w + (np.clip(batch - w, -1, 1).sum() + rng.normal(0, sigma)) / 10
        return w

    return train


def test_a_broken_training_is_refuted_in_a_few_trials_and_an_honest_one_not():
    claim, data = account(da.dp_sgd_event(2.0, 0.5, 4)), np.linspace(0, 1, 12)
    broken = da.check(descent(0.5), data, claim, evidence=40, confidence=0.999, limit=6)
    assert broken.refuted
    verdict = broken.refutation
    assert verdict.bound.method == "replayed likelihood"
    assert "noise as stated" in verdict.bound.assumption
    assert verdict.bound.epsilon <= account(da.dp_sgd_event(0.5, 0.5, 4)).epsilon(
        verdict.bound.delta
    )
    assert str(broken).startswith("refuted: ")
    assert "assuming noise as stated" in str(broken)
    honest = da.check(descent(2.0), data, claim, limit=6).evidence(25, confidence=0.999)
    assert not honest.refuted
    assert honest.trials == 25


def test_a_check_goes_on_to_audit_its_worst_pair():
    release = lambda x, rng: np.clip(x, 0, 1).sum() + rng.laplace(scale=0.2)  # noqa: E731
    found = da.check(release, np.linspace(0, 1, 9), "1")
    assert found.evidence(30).refuted
    assert found.audit(400).refuted
    with pytest.raises(da.errors.InvalidArgument, match="a claim"):
        da.check(release, np.linspace(0, 1, 9)).evidence(3)


def test_words():
    data = np.linspace(0, 1, 9)
    found = da.check(fixed_size, data, "0.001", evidence=5)
    assert not found.refuted
    assert any("depend on each other" in entry.message for entry in found.not_checked)
