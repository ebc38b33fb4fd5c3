"""Random allocation: brackets against mpmath for two steps, and against simulations for more."""

import math
from itertools import combinations

import mpmath as mp
import numpy as np
import pytest

from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy import account, calibrate, events, from_dict
from dpassay.privacy.accounting import pld
from dpassay.privacy.allocation import LEAST_NOISE, MOST_NOISE, AllocatedLosses, law_of_ratio
from dpassay.privacy.curves import ApproxDP
from dpassay.privacy.events import allocation_event, dp_sgd_event, shuffled_event


def bracket(noise, steps, epsilon, add):
    losses = AllocatedLosses(noise, steps)
    at = np.array([float(epsilon)])
    return tuple(float(losses.delta(at, add, side)[0]) for side in ("lower", "upper"))


def true_delta_of_two(noise, epsilon, add):
    """Integral over one ratio of what an option on the other is worth (Black and Scholes)."""
    with mp.workdps(40):
        m, x = 1 / mp.mpf(noise), mp.mpf(epsilon)
        goal = 2 * mp.e ** (-x if add else x)

        def worth(z):
            strike = goal - mp.e ** (m * z - m * m / 2)
            return mp.npdf(z) * (_put(strike, m) if add else _call(strike, m))

        # Beyond this place the other ratio does not matter; before it, whole decades of it do.
        kink = mp.log(goal) / m + m / 2
        places = sorted(
            {mp.mpf(-14), *(min(max(v, -14), 14 + m) for v in (kink, kink - 3, 14 + m))}
        )
        return mp.quad(worth, places) / 2 * (mp.e**x if add else 1)


def _call(strike, m):
    if strike <= 0:
        return 1 - strike
    d = (-mp.log(strike) + m * m / 2) / m
    return mp.ncdf(d) - strike * mp.ncdf(d - m)


def _put(strike, m):
    if strike <= 0:
        return mp.mpf(0)
    d = (-mp.log(strike) + m * m / 2) / m
    return strike * mp.ncdf(m - d) - mp.ncdf(-d)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(
    ("noise", "epsilon"),
    [(0.06, 90.0), (0.3, 0.1), (0.3, 20.0), (1.0, 0.0), (1.0, 4.0), (30.0, 0.01), (1e6, 1e-7)],
)
def test_two_steps(noise, epsilon, add):
    low, high = bracket(noise, 2, epsilon, add)
    truth = true_delta_of_two(noise, epsilon, add)
    assert low <= truth <= high
    if truth > 1e-30:
        assert high <= 1.02 * low


@pytest.mark.parametrize(
    ("noise", "steps", "epsilon", "golden"),
    [
        (1.0, 10, 0.5, (2.68446e-2, 2.68504e-2, 1.90641e-2)),
        (1.0, 10, 1.0, (2.78245e-3, 2.78287e-3, 4.86186e-4)),
        (0.7, 100, 0.5, (6.2923e-3, 6.3213e-3, 7.6826e-4)),
        (0.5, 1000, 1.0, (1.2600e-3, 1.2769e-3, None)),
    ],
)
def test_goldens(noise, steps, epsilon, golden):
    """Brackets of a plain FFT over cells of the ratio itself; ours must overlap, and be close."""
    low, high = bracket(noise, steps, epsilon, False)
    assert low <= golden[1]
    assert golden[0] <= high
    assert high <= 1.03 * low
    if golden[2]:
        assert bracket(noise, steps, epsilon, True)[1] == pytest.approx(golden[2], rel=0.01)


@pytest.mark.parametrize(
    ("noise", "epsilon", "golden", "simulated", "error"),
    [
        (1.0, 2.0, 6.84943e-2, 6.853e-2, 1.9e-4),
        (1.0, 1.0, 2.15278e-1, 2.1533e-1, 3.1e-4),
        (2.0, 1.0, 9.77242e-3, 9.835e-3, 1.2e-4),
    ],
)
def test_ten_epochs(noise, epsilon, golden, simulated, error):
    """Upper bounds of a plain FFT, and games of others: not below them by more than four errors."""
    found = account(allocation_event(noise, 10, 10)).delta(epsilon)
    assert found == pytest.approx(golden, rel=3e-3)
    assert found >= simulated - 4 * error


def simulate(noise, k, steps, epochs, rng, draws):
    """Losses of ``draws`` games with the record and without: the likelihood ratio, exact."""
    m = 1 / noise
    sets = np.array(list(combinations(range(steps), k)))
    losses = []
    for present in (True, False):
        total = np.zeros(draws)
        for _ in range(epochs):
            z = rng.standard_normal((draws, steps))
            if present:
                chosen = sets[rng.integers(len(sets), size=draws)]
                np.put_along_axis(z, chosen, np.take_along_axis(z, chosen, 1) + m, 1)
            exponent = m * z[:, sets].sum(axis=2) - k * m * m / 2
            top = exponent.max(axis=1, keepdims=True)
            total += top[:, 0] + np.log(np.exp(exponent - top).mean(axis=1))
        losses.append(total)
    return losses[0], -losses[1]


@pytest.mark.parametrize(
    ("noise", "k", "steps", "epochs", "epsilon"),
    [(0.5, 1, 50, 1, 0.5), (3.0, 1, 50, 1, 0.05), (1.0, 1, 7, 5, 1.0), (1.0, 2, 5, 1, 0.5)],
)
def test_no_price_is_below_a_simulation(noise, k, steps, epochs, epsilon):
    rng, draws = np.random.default_rng(0), 40_000
    event = allocation_event(noise, steps, epochs, k)
    upper = account(event, "pld").delta(epsilon)
    means = []
    for loss in simulate(noise, k, steps, epochs, rng, draws):
        gain = np.maximum(-np.expm1(epsilon - loss), 0.0)
        assert upper >= gain.mean() - 4 * gain.std() / math.sqrt(draws)
        means.append(gain.mean() + 4 * gain.std() / math.sqrt(draws))
    if k == 1:
        assert upper <= 1.02 * max(means)  # tight, too


def test_k_of_all_steps_is_known_participation():
    everything = account(allocation_event(1.0, 5, 2, 5))
    known = account(events.Repeated(events.Gaussian(1.0), 10))
    assert everything.epsilon(1e-5) == known.epsilon(1e-5)


def test_uneven_groups_cost_between_even_ones():
    even = [account(allocation_event(1.0, of, 1, 3), "pld").epsilon(1e-5) for of in (9, 10, 11, 12)]
    assert even == sorted(even, reverse=True)


EXTREMES = [
    *((noise, steps) for noise in (1.0, 50.0, MOST_NOISE) for steps in (1, 3, 1000, 10**18)),
    (0.3, 2**26 + 1),
    (LEAST_NOISE, 2),
]


@pytest.mark.parametrize(("noise", "steps"), EXTREMES)
def test_brackets_everywhere(noise, steps):
    one = law_of_ratio(noise, 1, "lower").deviation
    for epsilon in (0.0, 0.01 * one, one, 5 * one):
        for add in (False, True):
            low, high = bracket(noise, steps, epsilon, add)
            assert 0 <= low <= high <= 1


@pytest.mark.parametrize("steps", [1, 10, 10**6, 10**18])
def test_never_above_known_participation(steps):
    """Nor, at noise where ratios hardly vary, far from a Gaussian of their deviation."""
    best = account(allocation_event(20.0, steps, 3))
    assert best.epsilon(1e-6) <= account(shuffled_event(20.0, steps, 3)).epsilon(1e-6)
    if steps == 10**6:
        deviation = math.sqrt(3 * math.expm1(1 / 400) / steps)
        assert best.delta(0.0) == pytest.approx(deviation / math.sqrt(2 * math.pi), rel=0.01)


def test_more_epochs_and_more_of_them_cost_more():
    curves = [account(allocation_event(1.0, 20, epochs)) for epochs in (1, 2, 8)]
    assert [c.epsilon(1e-5) for c in curves] == sorted(c.epsilon(1e-5) for c in curves)


def test_a_sequence_with_other_events():
    both = events.Sequence((allocation_event(1.0, 10, 2), dp_sgd_event(1.0, 0.1, 10)))
    parts = [account(part).epsilon(1e-5) for part in both.events]
    assert max(parts) < account(both).epsilon(1e-5) < sum(parts)


def test_calibrated():
    noise = calibrate(lambda s: allocation_event(s, 8, 2), ApproxDP(2.0, 1e-5))
    assert 2.0 * (1 - 1e-3) <= account(allocation_event(noise, 8, 2)).epsilon(1e-5) <= 2.0


def test_kind_and_words():
    """One participation is exact for a Gaussian, an upper bound for shuffled batches."""
    assert account(shuffled_event(1.0, 10)).kind == "upper bound"
    assert account(shuffled_event(1.0, 1)).kind == "exact"
    assert account(allocation_event(1.0, 10)).kind == "upper bound"
    event = allocation_event(1.0, 10, 2)
    assert from_dict(event.as_dict()) == event


def test_refused():
    with pytest.raises(InvalidArgument, match="k=11"):
        events.Allocated(events.Gaussian(1.0), k=11, of=10)
    with pytest.raises(InvalidArgument, match="replace_one_from_add_remove"):
        events.Allocated(events.Gaussian(1.0, "replace-one"), k=1, of=10)
    with pytest.raises(InvalidArgument, match="event="):
        events.Allocated(events.Laplace(1.0), k=1, of=10)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedEvent, match="best"):
        account(allocation_event(0.01, 10), "pld")
    assert account(allocation_event(0.01, 10)).epsilon(0.1) > 1000
    assert pld.grid(allocation_event(1.0, 10)) > 0
