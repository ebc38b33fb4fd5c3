import math

import numpy as np
import pytest
from scipy import special

from dpassay.bounds import lower_bound_from_steps
from dpassay.bounds.composed import round_down_loss
from dpassay.bounds.steps import epsilon_of_steps
from dpassay.errors import InvalidArgument
from dpassay.privacy import account, dp_sgd_event, gaussian

SGD = {"sampling_rate": 250 / 60_000, "steps": 2400, "delta": 1e-5}


def sampled_epsilon(mu, q, delta=1e-5):
    """epsilon of one sampled Gaussian step: with it, (1-q) N(0,1) + q N(mu,1), against N(0,1)."""

    def delta_of(e):
        # Removal: P = mixture; the ratio 1-q+q exp(mu x - mu²/2) exceeds e^epsilon beyond c.
        c = (math.log((math.exp(e) - 1 + q) / q) + mu**2 / 2) / mu
        mixture = (1 - q) * special.ndtr(-c) + q * special.ndtr(mu - c)
        return mixture - math.exp(e) * special.ndtr(-c)

    low, high = 0.0, 50.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return low


@pytest.mark.parametrize(("mu", "q"), [(0.5, 0.3), (1.0, 0.01), (2.0, 0.1), (4.0, 0.01)])
def test_one_step_from_below(mu, q):
    found = epsilon_of_steps(mu, q, 1, 1e-5)
    assert 0.999 * sampled_epsilon(mu, q) <= found <= sampled_epsilon(mu, q)


@pytest.mark.parametrize(
    ("mu", "q", "delta"),
    [(1.0, 1e-6, 3e-10), (3.0, 1e-6, 1e-7), (6.0, 1e-6, 9e-7), (3, 1e-4, 1e-5)],
)
def test_rare_samples_from_below(mu, q, delta):
    """Here an accountant, which rounds up, is 3500 times too high for (1, 1e-6, 3e-10)."""
    found, truth = epsilon_of_steps(mu, q, 1, delta), sampled_epsilon(mu, q, delta)
    assert 0.93 * truth <= found <= truth


def two_steps(mu, q, epsilon):
    """delta of two sampled steps by brute force: a sum over the plane of (p - e^epsilon q)⁺."""
    x = np.linspace(-9, 9 + mu, 3001)
    cell = (x[1] - x[0]) ** 2 / (2 * math.pi)
    none = np.exp(-(x**2) / 2)
    mixed = (1 - q) * none + q * np.exp(-((x - mu) ** 2) / 2)
    excess = np.outer(mixed, mixed) - math.exp(epsilon) * np.outer(none, none)
    return float(np.maximum(excess, 0).sum()) * cell


@pytest.mark.parametrize(("mu", "q", "delta"), [(1.0, 0.3, 1e-3), (2.5, 0.05, 1e-5)])
def test_two_steps_from_below(mu, q, delta):
    found = epsilon_of_steps(mu, q, 2, delta)
    assert two_steps(mu, q, found) >= delta * (1 - 1e-4)  # the sum's own error
    assert two_steps(mu, q, 1.002 * found) < delta


def test_the_mean_of_what_rounding_took_off_pays_only_for_itself():
    pmf, remainder = round_down_loss(1.2, 0.2, 1e-3, 9.0)
    x = np.linspace(-12, 14, 400_001)
    density = 0.8 * np.exp(-(x**2) / 2) + 0.2 * np.exp(-((x - 1.2) ** 2) / 2)
    loss = np.log1p(0.2 * np.expm1(1.2 * x - 0.72))
    taken = (density / density.sum()) @ (loss - 1e-3 * np.floor(loss / 1e-3))
    assert remainder == pytest.approx(taken, rel=1e-3)
    assert pmf.probs.sum() == pytest.approx(1, abs=1e-12)
    assert pmf.probs @ pmf.losses + remainder <= (density / density.sum()) @ loss


@pytest.mark.parametrize("steps", [1, 7, 400])
def test_full_batches_are_exact(steps):
    found = epsilon_of_steps(0.2, 1.0, steps, 1e-5)
    exact = float(gaussian.epsilon_of(1e-5, 0.2 * math.sqrt(steps)))
    assert found == pytest.approx(exact, rel=1e-10)
    assert found <= exact


def test_many_steps_are_a_little_below_the_accountant():
    for mu in (0.7, 1.6):
        above = account(dp_sgd_event(1 / mu, 0.01, 500), "pld").epsilon(1e-5)
        assert 0.998 * above <= epsilon_of_steps(mu, 0.01, 500, 1e-5) < above


def test_what_the_accountant_cuts_off_is_not_shown():
    # An accountant counts losses beyond 600, and 1e-40 of the mass of a step, as infinite.
    assert epsilon_of_steps(40.0, 0.5, 100, 1e-5) < math.inf
    assert 0 < epsilon_of_steps(3.0, 0.01, 3, 1e-200) < math.inf
    # At most 3 % of the trainings have the canary in a step.
    assert epsilon_of_steps(3.0, 0.01, 3, 0.9) == 0


def test_a_perfect_attack_meets_the_ceiling():
    for rate in (1.0, 0.01):
        options = {"delta": 1e-5, "sampling_rate": rate, "steps": 3, "threshold": 0.5}
        bound = lower_bound_from_steps(np.ones(500), np.zeros(500), **options)
        assert bound.epsilon <= bound.ceiling
        assert bound.epsilon == pytest.approx(bound.ceiling)


def test_epsilon_grows_with_mu():
    values = [epsilon_of_steps(mu, 0.01, 100, 1e-5) for mu in (0, 1e-5, 0.1, 1, 3, 40, math.inf)]
    assert values[:2] == [0, 0]
    assert values[-1] == math.inf
    assert np.all(np.diff(values[1:]) > 0)


@pytest.mark.parametrize(("mu", "q", "steps"), [(20.0, 1e-3, 10_000), (5.0, 0.9, 200)])
def test_losses_far_beyond_the_largest_exponent_are_shown(mu, q, steps):
    """Sums of losses above 709, whose exponential is infinite: without noise all steps show."""
    shown = epsilon_of_steps(mu, q, steps, 1e-5)
    # The mean loss of a step is at least q mu²/2 + q log q + (1-q) log(1-q), at most q mu²/2.
    entropy = q * math.log(q) + (1 - q) * math.log1p(-q)
    assert steps * (q * mu**2 / 2 + entropy) < shown < 3 * steps * q * mu**2 / 2


def test_losses_too_large_for_an_exponential_are_lowered():
    assert 350 < epsilon_of_steps(20.0, 0.01, 3, 1e-200) < math.inf


def observed(noise_multiplier, n, seed):
    """What a coin per step shows: 1 or 0, and noise, in units of the clipping norm."""
    rng = np.random.default_rng(seed)
    coins = rng.random(n) < 0.5
    seen = coins + noise_multiplier * rng.normal(size=n)
    return seen[coins], seen[~coins]


def test_ten_trainings_come_within_a_tenth():
    # 0.782393 is the noise multiplier of epsilon = 2, by calibrate(); ten trainings, 24 000 steps.
    x, y = observed(0.782393, 24_000, seed=0)
    counted = lower_bound_from_steps(x, y, **SGD, threshold=0.5)
    whole = lower_bound_from_steps(x, y, **SGD, estimator="location", sigma=0.782393)
    assert 1.8 <= counted.epsilon <= 2.0
    assert 1.88 <= whole.epsilon <= 2.0
    for bound in (counted, whole):
        assert "Poisson batch of rate 0.00416667, composed from below" in bound.assumption
        assert bound.epsilon < bound.ceiling


def test_the_step_is_what_is_bounded(monkeypatch):
    # mu_lower of a step must not exceed the truth more often than stated; the rest is arithmetic.
    from rates import assert_rate

    monkeypatch.setattr("dpassay.bounds.steps.epsilon_of_steps", lambda mu, *_: mu)
    monkeypatch.setattr("dpassay.bounds.location.epsilon_of_mu", lambda mu, _: mu)
    options = {"estimator": "location", "sigma": 1.0}
    bounds = (lower_bound_from_steps(*observed(1.0, 50, s), **SGD, **options) for s in range(1000))
    assert_rate(sum(bound.epsilon > 1.0 for bound in bounds), 1000, 0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator": "best"}, "estimator='best'"),
        ({"sigma": 1.0}, "estimator='location'"),
        ({"steps": 0}, "steps=0"),
        ({"sampling_rate": 1.2}, "sampling_rate=1.2"),
        ({"delta": 0.0}, "delta=0"),
    ],
)
def test_misuse(change, message):
    with pytest.raises(InvalidArgument, match=message):
        lower_bound_from_steps([1.0, 2.0], [0.0, 0.5], **(SGD | change))
