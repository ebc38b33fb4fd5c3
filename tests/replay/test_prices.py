"""What a pair costs, against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpassay.privacy import events
from dpassay.replay.entries import Edit
from dpassay.replay.playing import Player
from dpassay.replay.prices import event_of, price

SAME = Edit("given", -1, -1, -1)
numbers = st.floats(-50, 50)


def bill_of(release, data, data_prime, seed=0):
    player = Player(release, seed)
    tape = player.replay(player.record(data, None), data_prime, SAME).tape
    return price(tape), tape


def cost(release, data, data_prime):
    bill, _ = bill_of(release, np.asarray(data, float), np.asarray(data_prime, float))
    return [part.mu or part.epsilon for part in bill.parts]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5), st.floats(0.1, 10))
def test_additive_noise(pairs, scale):
    a, b = np.array(pairs).T
    gaussian = lambda q, rng: q + rng.normal(0, scale, len(q))  # noqa: E731
    laplace = lambda q, rng: [v + rng.laplace(scale=scale) for v in q]  # noqa: E731
    assert math.hypot(*cost(gaussian, a, b)) == pytest.approx(np.linalg.norm(a - b) / scale)
    assert sum(cost(laplace, a, b)) == pytest.approx(np.abs(a - b).sum() / scale)
    for release in (gaussian, laplace):
        assert cost(release, a, b) == pytest.approx(cost(release, b, a))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(numbers, numbers, st.floats(0.2, 10))
def test_one_comparison_is_exact(a, b, scale):
    law = stats.laplace(scale=scale)
    logs = [law.logsf(-a) - law.logsf(-b), law.logcdf(-a) - law.logcdf(-b)]
    release = lambda q, rng: bool(q[0] + rng.laplace(scale=scale) > 0)  # noqa: E731
    expected = max(map(abs, logs))
    assert sum(cost(release, [a], [b])) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_coins_and_choices(p, q):
    expected = max(abs(math.log(p / q)), abs(math.log((1 - p) / (1 - q))))
    coin = lambda d, rng: rng.random() < d[0]  # noqa: E731
    binomial = lambda d, rng: rng.binomial(1, d[0])  # noqa: E731
    choice = lambda d, rng: rng.choice(2, p=[d[0], 1 - d[0]])  # noqa: E731
    for release in (coin, binomial, choice):
        assert sum(cost(release, [p], [q])) == pytest.approx(expected, abs=1e-12)


def test_selection_ignores_a_common_shift():
    release = lambda q, rng: int(np.argmax(q + rng.gumbel(scale=2.0, size=3)))  # noqa: E731
    assert cost(release, [0, 0, 0], [5, 5, 5]) == [0.0]
    assert cost(release, [0, 0, 0], [1, 0, -1]) == [1.0]


def test_one_sided_noise_has_no_price():
    release = lambda q, rng: q[0] + rng.exponential()  # noqa: E731
    bill, tape = bill_of(release, np.zeros(1), np.ones(1))
    assert isinstance(event_of(bill, tape, "add-remove"), events.NonPrivate)


def test_noise_used_twice_is_paid_once_where_values_move_alike():
    def alike(q, rng):
        z = q[0] + rng.laplace()
        return z, z + 1, z > 3

    assert sum(cost(alike, [0], [1])) == pytest.approx(1.0)

    def differently(q, rng):
        noise = rng.laplace()
        return q[0] + noise, 2 * q[0] + noise

    bill, _ = bill_of(differently, np.zeros(1), np.ones(1))
    assert bill.reused

    def broadcast(q, rng):
        return q + rng.laplace()

    assert bill_of(broadcast, np.zeros(2), np.array([1.0, 0.0]))[0].reused
    assert not bill_of(broadcast, np.zeros(2), np.ones(2))[0].reused
    assert sum(cost(broadcast, [0, 0], [1, 1])) == pytest.approx(1.0)


def test_gaussian_steps_compose_to_one():
    release = lambda q, rng: [q[0] + rng.normal(0, 2.0) for _ in range(9)]  # noqa: E731
    bill, tape = bill_of(release, np.zeros(1), np.ones(1))
    event = event_of(bill, tape, "add-remove")
    assert isinstance(event, events.Gaussian)
    assert event.noise_multiplier == pytest.approx(2 / 3)
