"""Randomized answers and sparse vectors have a price: each honest program beside a broken one."""

import math
import random
from itertools import product

import numpy as np
import pytest
from scipy.stats import laplace

import dpassay as da
from dpassay.replay import thresholds

BITS = (np.arange(20) % 3 == 0).astype(int)
VALUES = np.linspace(0, 1, 20)
REPLACED = da.PureDP(1.0, neighbouring="replace-one")
TRUTH = math.e / (1 + math.e)


def one_by_one(truth):
    return lambda bits, rng: [int(b) if rng.random() < truth else 1 - int(b) for b in bits]


def all_at_once(truth):
    return lambda bits, rng: np.where(rng.random(len(bits)) < truth, bits, 1 - bits)


def flipped(truth):
    return lambda bits, rng: bits ^ (rng.random(len(bits)) > truth)


def by_the_standard_library(truth):
    return lambda bits: [int(b) if random.random() < truth else 1 - int(b) for b in bits]


RESPONSES = [one_by_one, all_at_once, flipped, by_the_standard_library]


@pytest.mark.parametrize("make", RESPONSES)
def test_randomized_response(make):
    honest = da.check(make(TRUTH), BITS, REPLACED, limit=12)
    assert honest.findings == ()
    assert honest.decided
    assert honest.epsilon_seen == pytest.approx(1.0)
    broken = da.check(make(0.9), BITS, REPLACED, limit=12)
    assert [finding.rule for finding in broken.findings] == ["DPA202"]
    assert broken.epsilon_seen == pytest.approx(math.log(9))
    assert broken.findings[0].site.line == make(0.9).__code__.co_firstlineno
    assert broken.findings[0].execution <= 20


def test_a_sum_of_randomized_answers_may_cost_less_than_each():
    def total(truth):
        return lambda bits, rng: int(all_at_once(truth)(bits, rng).sum())

    assert da.check(total(TRUTH), BITS, REPLACED, limit=12).decided
    found = da.check(total(0.9), BITS, REPLACED, limit=12)
    assert found.findings == ()
    assert "not published one by one" in found.undecided[0].message


def test_an_answer_that_is_given_beside_the_coin_is_never_protected():
    def release(bits, rng):
        kept = rng.random(len(bits)) < TRUTH
        return np.where(kept, bits, 1 - bits), kept

    found = da.check(release, BITS, REPLACED, limit=12)
    assert [finding.rule for finding in found.findings] == ["DPA202"]
    assert math.isinf(found.epsilon_seen)


def counts(values):
    return [float((values >= limit).sum()) for limit in (0.0, 0.2, 0.4, 0.6, 0.8)]


def first_above(noise, at=100.0):
    def release(values, rng):
        limit = at + rng.laplace(scale=2 * noise)
        for i, count in enumerate(counts(values)):
            if count + rng.laplace(scale=4 * noise) >= limit:
                return i
        return -1

    return release


def written_the_other_way(noise):
    def release(values, rng):
        drawn, answers = rng.laplace(scale=2 * noise), []
        for count in counts(values):
            answers.append(100 + drawn > count + rng.laplace(scale=4 * noise))
            if not answers[-1]:
                break
        return answers

    return release


def all_compared(noise):
    def release(values, rng):
        limit = 100 + rng.laplace(scale=2 * noise)
        return (np.array(counts(values)) + rng.laplace(scale=4 * noise, size=5)) > limit

    return release


@pytest.mark.parametrize("make", [first_above, written_the_other_way, all_compared])
def test_sparse_vectors(make):
    honest = da.check(make(1.0), VALUES, "1", bounds=(0, 1), limit=8)
    assert honest.findings == ()
    assert honest.decided
    assert 0.4 <= honest.epsilon_seen <= 1
    broken = da.check(make(0.3), VALUES, "1", bounds=(0, 1), limit=8)
    assert [finding.rule for finding in broken.findings] == ["DPA202"]
    assert broken.findings[0].execution <= 20


def test_an_answer_above_costs_its_own_noise():
    """Where all move alike the threshold moves with them, and pays alone."""

    def answer(above, move):
        return thresholds.Answer(above, move, 0, 2.0, 1, 4.0)

    assert thresholds.cost_of([answer(False, 1.0)] * 9 + [answer(True, -1.0)]) == 0.5 + 0.5
    assert thresholds.cost_of([answer(False, 1.0)] * 9 + [answer(True, 1.0)]) == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_of_a_sparse_vector_against_integration(seed):
    """The chance of every pattern of answers, as a sum over a fine grid of thresholds."""
    rng = np.random.default_rng(seed)
    queries, moves = rng.normal(size=3), rng.uniform(-1, 1, size=3)
    a, b = rng.uniform(0.5, 3, size=2)
    rho = np.linspace(-60, 60, 200_001)[:, None]
    density = np.exp(-np.abs(rho[:, 0]) / a)

    def log_chance(pattern, at):
        below = laplace.cdf((rho - at) / b)
        return math.log((density * np.prod(np.where(pattern, 1 - below, below), axis=1)).sum())

    for pattern in product([False, True], repeat=3):
        seen = [thresholds.Answer(pattern[i], moves[i], 0, a, i, b) for i in range(3)]
        ratio = abs(log_chance(pattern, queries) - log_chance(pattern, queries + moves))
        assert ratio <= thresholds.cost_of(seen) + 1e-6
