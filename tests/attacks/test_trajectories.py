import math

import numpy as np
import pytest
from scipy import stats

from dpassay.adversaries import LikelihoodRatio, LossScore, along
from dpassay.bounds import sequential_test
from dpassay.errors import InvalidArgument
from dpassay.privacy import account, dp_sgd_event


def gaussian_log_density(x, mean, sigma):
    return stats.norm.logpdf(x, mean, sigma).sum(axis=-1)


def watermark(n, clip):
    """Alternating +C/sqrt(2n), -C/sqrt(2n) on 2n coordinates: norm C."""
    return clip / math.sqrt(2 * n) * np.tile([1.0, -1.0], n)


def test_one_direction_says_as_much_as_all():
    rng = np.random.default_rng(0)
    clip, noise = 0.7, 1.3
    w = watermark(50, clip)
    sums = rng.normal(0, noise * clip, (20, 100)) + w * rng.integers(0, 2, (20, 1))
    full = gaussian_log_density(sums, w, noise * clip) - gaussian_log_density(sums, 0, noise * clip)
    score = LikelihoodRatio(noise, clip=clip)
    np.testing.assert_allclose(score.if_present(along(sums, w)), full, atol=1e-11)
    assert float(score(along(sums, w))) == pytest.approx(full.sum(), abs=1e-10)


def test_ratio_of_poisson_batches():
    rng = np.random.default_rng(1)
    q, noise = 0.2, 0.8
    seen = rng.normal(0, noise, (5, 7))
    with_it = (1 - q) * stats.norm.pdf(seen, 0, noise) + q * stats.norm.pdf(seen, 1, noise)
    exact = np.log(with_it / stats.norm.pdf(seen, 0, noise)).sum(axis=1)
    np.testing.assert_allclose(LikelihoodRatio(noise, q)(seen), exact, rtol=1e-12)


def test_ratio_of_shuffled_batches():
    rng = np.random.default_rng(2)
    noise, steps = 0.6, 4
    seen = rng.normal(0, noise, (3, 2 * steps))
    exact = np.zeros(3)
    for epoch in (seen[:, :steps], seen[:, steps:]):
        placed = [gaussian_log_density(epoch, np.eye(steps)[i], noise) for i in range(steps)]
        exact += np.log(np.mean(np.exp(placed), axis=0)) - gaussian_log_density(epoch, 0, noise)
    found = LikelihoodRatio(noise, 1 / steps, scheme="shuffled")(seen)
    np.testing.assert_allclose(found, exact, rtol=1e-11)


@pytest.mark.parametrize(
    "score",
    [
        LikelihoodRatio(0.9, 0.25),
        LikelihoodRatio(0.9, 0.25, clip=2.0, size=1.5),
        LikelihoodRatio(0.9, 0.25, interference=0.5),
        LikelihoodRatio(0.9, 0.25, scheme="shuffled"),
    ],
)
def test_ratios_average_to_one_without_the_canary(score):
    rng = np.random.default_rng(3)
    sigma = math.hypot(score.noise_multiplier * score.clip, score.interference)
    ratios = np.exp(score(rng.normal(0, sigma, (200_000, 4))))
    error = ratios.std() / math.sqrt(ratios.size)
    assert ratios.mean() == pytest.approx(1, abs=6.5 * error)


def test_it_refutes_a_claim_of_more_noise_and_not_its_own():
    rng = np.random.default_rng(4)
    noise, q, steps, n = 1.0, 0.3, 20, 1500
    score = LikelihoodRatio(noise, q)
    seen = rng.normal(0, noise, (2, n, steps))
    inside, outside = score(seen[0] + (rng.random((n, steps)) < q)), score(seen[1])
    own, more = (account(dp_sgd_event(s, q, steps), "pld") for s in (noise, 1.6 * noise))
    worlds = rng.integers(0, 2, n)
    scores = np.where(worlds == 1, inside, outside)
    assert not sequential_test(worlds, scores, claim=own, confidence=1 - 1e-9).refuted
    assert sequential_test(worlds, scores, claim=more, confidence=1 - 1e-9).refuted


def test_losses():
    losses = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, math.inf]])
    assert LossScore()(losses).tolist() == [-2.0, -math.inf]
    assert LossScore("mean")(losses).tolist() == [-2.0, -math.inf]
    assert LossScore("max")(losses).tolist() == [-3.0, -math.inf]
    assert float(LossScore()(0.25)) == -0.25


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: LikelihoodRatio(0.0), "noise_multiplier=0"),
        (lambda: LikelihoodRatio(1.0, 1.5), "sampling_rate=1.5"),
        (lambda: LikelihoodRatio(1.0, clip=math.nan), "clip=nan"),
        (lambda: LikelihoodRatio(1.0, clip=1.0, size=2.0), "size=2"),
        (lambda: LikelihoodRatio(1.0, interference=-1.0), "interference=-1"),
        (lambda: LikelihoodRatio(1.0, 0.3, scheme="shuffled"), "whole number"),
        (lambda: LikelihoodRatio(1.0, 0.5, scheme="shuffled")([0.0]), "epochs of 2"),
        (lambda: LikelihoodRatio(1.0)([math.nan]), "seen"),
        (lambda: LikelihoodRatio(1.0)(0.5), "one entry per step"),
        (lambda: LossScore("median"), "over='median'"),
        (lambda: LossScore()([math.nan]), "losses"),
        (lambda: along(np.ones(3), np.ones(2)), "last dimensions"),
        (lambda: along(np.ones(3), np.zeros(3)), "canary is zero"),
    ],
)
def test_misuse(wrong, message):
    with pytest.raises(InvalidArgument, match=message):
        wrong()
