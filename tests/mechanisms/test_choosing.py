"""Exact selection: the laws where floats seldom decide, and what rounding of scores costs."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import choosing, lattice, noise, report_noisy_max
from mechanisms.levels import law_by_quadrature, permute_and_flip_law, softmax_law
from rates import assert_rate

SCORES = np.array([0.0, -1.0, -2.5, -0.5])
LAWS = {
    "gumbel": softmax_law,
    "exponential": permute_and_flip_law,
    "laplace": lambda scores, scale: law_by_quadrature("laplace", scores, scale),
}
N = 4000


@pytest.mark.parametrize("margin", [lattice.MARGIN, 2.0**-4])
@pytest.mark.parametrize("kind", LAWS)
def test_law(monkeypatch, kind, margin):
    monkeypatch.setattr(lattice, "MARGIN", margin)
    rng = np.random.default_rng(6)
    picks = [choosing.choose(kind, SCORES, 2.0, Fraction(1), rng) for _ in range(N)]
    for i, p in enumerate(LAWS[kind](SCORES, 2.0)):
        assert_rate(picks.count(i), N, p)
    with pytest.raises(AssertionError):  # half the noise
        assert_rate(picks.count(0), N, LAWS[kind](SCORES, 1.0)[0])


def test_many_draws_at_once():
    scores = np.linspace(-3, 0, 2000)
    picks = choosing.softmax(scores, 50_000, noise.secure_generator(), scale=0.5)
    law = softmax_law(scores, 0.5)
    for first, last in ((0, 1000), (1000, 1900), (1900, 1990), (1990, 2000)):
        inside = np.sum((picks >= first) & (picks < last))
        assert_rate(inside, len(picks), law[first:last].sum())


def test_weights_far_below_the_best_are_kept_in_proportion(monkeypatch):
    """An index whose integer weight is 1 is kept with its true weight, not with 1."""
    behind = 44.5  # e^-44.5 = 4.7e-20, where the integer unit is 2^-59 = 1.7e-18
    bounds = choosing._times(choosing._exp(Fraction(behind))(200), 2**59, 1)
    assert float(Fraction(bounds[0], 2**200)) == pytest.approx(math.exp(-behind) * 2**59, rel=1e-12)
    seen = []
    is_below = lattice.is_below
    monkeypatch.setattr(
        lattice, "is_below", lambda d, p, *rest: seen.append(p) or is_below(d, p, *rest)
    )
    choosing.softmax(np.array([0.0, -behind]), 3, np.random.default_rng(0))
    assert (seen[0] <= 1).all()
    assert (seen[0] > 1 - 1e-11).all()


def test_coins():
    logs = np.repeat([0.0, -0.1, -2.0, -800.0], 5000)
    up = choosing.coins(logs, noise.secure_generator()).reshape(4, 5000).sum(axis=1)
    assert up[0] == 5000
    assert_rate(up[1], 5000, math.exp(-0.1))
    assert_rate(up[2], 5000, math.exp(-2))
    assert up[3] == 0


def discrete_max_law(scores, scale):
    """The law of the first largest score plus discrete Laplace noise, on the integers."""
    grid = np.arange(-200, 201)
    pmf = math.tanh(1 / (2 * scale)) * np.exp(-np.abs(grid) / scale)
    at_most = np.cumsum(pmf)

    def cdf(x):
        return at_most[np.clip(x + 200, 0, 400)]

    def wins(i):
        beaten = [cdf(grid + scores[i] - s - (j < i)) for j, s in enumerate(scores) if j != i]
        return np.sum(pmf * np.prod(beaten, axis=0))

    return np.array([wins(i) for i in range(len(scores))])


@pytest.mark.parametrize("scores", [(0, 0, 0), (5, 4, 0), (0, 3, 3), (9, 0, 1)])
def test_discrete_noisy_max_is_private_to_the_last_step(scores):
    """The proof in laplace_argmax, by enumeration on a lattice as coarse as the sensitivity."""
    scale = 4.0
    law = discrete_max_law(scores, scale)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    for move in product((-1, 0, 1), repeat=3):
        loss = np.abs(np.log(discrete_max_law(np.add(scores, move), scale) / law)).max()
        one_way = min(move) >= 0 or max(move) <= 0
        assert loss <= (1 if one_way else 2) / scale + 1e-12


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1.0), (1 / 3, 0.7), (1e-6, 123.4)])
@pytest.mark.parametrize("monotone", [False, True])
def test_laplace_scale_pays_for_rounding(monkeypatch, epsilon, sensitivity, monotone):
    seen = []
    monkeypatch.setattr(
        lattice, "draw", lambda law, t, n, _: seen.append((law, t)) or np.zeros(n, np.int64)
    )
    steps = []
    relative = choosing._relative_steps
    monkeypatch.setattr(
        choosing, "_relative_steps", lambda u, step: steps.append(step) or relative(u, step)
    )
    report_noisy_max([0.0, 1.0], sensitivity=sensitivity, epsilon=epsilon, monotone=monotone)
    moved = (1 if monotone else 2) * (Fraction(sensitivity) / Fraction(steps[0]) + 1)
    assert seen[0][0] == "laplace"
    assert moved / seen[0][1] <= Fraction(epsilon)
    assert moved / seen[0][1] >= Fraction(epsilon) * (1 - Fraction(1, 10**6))


def test_ties_go_to_the_first_and_nothing_overflows(monkeypatch):
    monkeypatch.setattr(lattice, "draw", lambda law, t, n, _: np.zeros(n, np.int64))
    rest = (Fraction(2), None)
    assert choosing.laplace_argmax(np.array([1.0, 3.0, 3.0]), 1.0, *rest) == 1
    assert choosing.laplace_argmax(np.array([1.0, 1.0 + 2**-45, 1.0]), 1.0, *rest) == 1
    assert choosing.laplace_argmax(np.array([-1e308, 1e308, 5e-324]), 1.0, *rest) == 1
    steps = choosing._relative_steps(np.array([-1e308, 1e308, 1e308 - 1e292]), 1.0)
    assert steps.tolist() == [-(2**61), 0, -(2**61)]
    near = choosing._relative_steps(np.array([2.0**62, 2.0**62 + 1024, 0.0]), 1.0)
    assert near.tolist() == [-1024, 0, -(2**61)]


def test_tiny_epsilon_is_refused():
    with pytest.raises(InvalidArgument, match="rounded to a lattice"):
        report_noisy_max([0.0, 1.0], sensitivity=1.0, epsilon=1e-12)


@pytest.mark.parametrize("kind", LAWS)
def test_many_candidates(kind):
    scores = np.zeros(100_000)
    scores[77] = 100.0
    release = report_noisy_max(scores, sensitivity=1.0, epsilon=2.0, noise=kind)
    assert release.noise == "exact"
    assert release.value == 77  # chance of another one below 1e5 · 51 e^-100
