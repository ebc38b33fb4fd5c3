"""Lower bounds of brackets: never above what is exact, and close to it."""

import math

import mpmath as mp
import numpy as np
import pytest

from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy import account, events
from dpassay.privacy.brackets import SampledPair, bracket
from dpassay.privacy.events import allocation_event, dp_sgd_event, shuffled_event


def without_replacement(noise, rate, steps):
    return dp_sgd_event(
        noise, rate, steps, neighbouring="replace-one", scheme="without-replacement"
    )


def test_without_replacement():
    """The composed direction "remove" alone reaches 7.0473, the best mixture 7.0813."""
    found = bracket(without_replacement(1.0, 0.1, 100), 1e-5)
    assert 7.03 <= found.lower <= 7.0813
    assert found.upper == pytest.approx(7.8053, rel=1e-4)


@pytest.mark.parametrize(
    ("event", "exact"),
    [
        (shuffled_event(1.0, 1, 4), events.Gaussian(0.5)),
        (shuffled_event(20.0, 1, 9), events.Gaussian(20 / 3)),
        (allocation_event(0.3, 1), events.Gaussian(0.3)),
    ],
)
@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-6])
def test_one_batch_is_all_of_them(event, exact, delta):
    """Where nothing is hidden the truth is a Gaussian's."""
    truth = account(exact).epsilon(delta)
    assert 0.98 * truth <= bracket(event, delta).lower <= truth


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-8])
def test_allocation_is_known_closely(delta):
    found = bracket(allocation_event(1.0, 20, 5), delta)
    assert 0.98 * found.upper <= found.lower <= found.upper


def true_profile(noise, rate, epsilon, add):
    """P(A) - e^x Q(A) for the half-line A that is best, by mpmath."""
    with mp.workdps(40):
        s, q, x = mp.mpf(noise), mp.mpf(rate), mp.mpf(epsilon)
        inner = (mp.e ** (-x if add else x) - 1 + q) / q
        if inner <= 0:
            return mp.mpf(0)
        z = s * s * mp.log(inner) + mp.mpf(1) / 2
        if add:
            mixture = (1 - q) * mp.ncdf(z / s) + q * mp.ncdf((z - 1) / s)
            return mp.ncdf(z / s) - mp.e**x * mixture
        mixture = (1 - q) * mp.ncdf(-z / s) + q * mp.ncdf((1 - z) / s)
        return mixture - mp.e**x * mp.ncdf(-z / s)


def test_one_batch_rounded_down():
    rng = np.random.default_rng(0)
    for _ in range(40):
        noise, rate = 10 ** rng.uniform([-0.3, -3], [2, 0])
        spread, add = min(1.0, rate * math.expm1(min(1 / noise**2, 50)) ** 0.5), rng.random() < 0.5
        epsilon = rng.uniform(0, 2) * spread
        pmf = SampledPair(noise, rate).round_down(add, spread / 300)
        found = pmf.probs @ np.maximum(-np.expm1(epsilon - pmf.losses), 0.0)
        truth = true_profile(noise, rate, epsilon, add)
        assert found <= truth * (1 + 1e-12)
        assert pmf.probs.sum() == pytest.approx(1.0, abs=1e-9)
        assert found >= 0.9 * truth - 1e-2 * spread


@pytest.mark.parametrize(
    "event",
    [
        without_replacement(0.05, 0.5, 3),
        without_replacement(1e4, 1e-3, 7),
        without_replacement(1.0, 1e-3, 5),
        shuffled_event(0.3, 10**6, 3),
        shuffled_event(50.0, 10, 20, neighbouring="replace-one"),
        allocation_event(2.0, 10**12, 2),
    ],
)
@pytest.mark.parametrize("delta", [0.3, 1e-7])
def test_lower_is_never_above_upper(event, delta):
    found = bracket(event, delta)
    assert 0 <= found.lower <= found.upper


def test_shuffling_lies_between_allocation_and_known_batches():
    """One epoch: its lower bound is random allocation's, its upper one has no amplification."""
    found = bracket(shuffled_event(0.7, 100, neighbouring="replace-one"), 6.29e-3)
    assert found.lower == pytest.approx(0.5, abs=0.01)
    assert found.upper == account(events.Gaussian(0.7)).epsilon(6.29e-3)


@pytest.mark.parametrize(
    "event",
    [
        dp_sgd_event(1.0, 0.1, 10),
        allocation_event(1.0, 10, k=2),
        shuffled_event(0.01, 3),
        events.Shuffled(events.Laplace(1.0), 3),
    ],
)
def test_unknown_from_below(event):
    with pytest.raises(UnsupportedEvent, match="no lower bound is known"):
        bracket(event, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_bad_delta(delta):
    with pytest.raises(InvalidArgument, match="delta="):
        bracket(shuffled_event(1.0, 3), delta)
