"""The bound that takes the training for DP-SGD: it holds, and it shows more."""

import numpy as np
import pytest
from scipy import special

import dpassay as da
from dpassay.adversaries import LikelihoodRatio, family, lower_bound_in_noise
from dpassay.errors import InvalidArgument
from rates import assert_rate_at_most

RATE, STEPS, NOISE = 0.5, 3, 1.2
OPTIONS = {"noise_multiplier": NOISE, "sampling_rate": RATE, "steps": STEPS, "delta": 1e-5}


def scores(n, rng, noise=NOISE):
    """Exact likelihood ratios of trainings with this noise, with and without."""
    ratio = LikelihoodRatio(noise, RATE)
    seen = noise * rng.normal(size=(2, n, STEPS))
    return ratio(seen[0] + (rng.random((n, STEPS)) < RATE)), ratio(seen[1])


def test_the_bound_holds_and_is_more_than_is_shown_without_belief():
    truth = da.account(da.dp_sgd_event(NOISE, RATE, STEPS)).epsilon(1e-5)
    x, y = scores(2000, np.random.default_rng(0))
    bound = lower_bound_in_noise(x, y, **OPTIONS)
    free = da.lower_bound(x, y, delta=1e-5)
    assert free.epsilon < bound.epsilon < truth < bound.ceiling
    assert bound.epsilon > 0.6 * truth
    assert bound.details["noise_multiplier_upper"] > NOISE
    assert "rate 0.5" in bound.assumption


def test_it_errs_no_more_often_than_stated(monkeypatch):
    """Of 15 bounds at 0.8, at most a fifth exceed the truth; with less noise they do."""
    monkeypatch.setattr(family, "_MEMBERS", 16)  # few curves to compute
    truth = da.account(da.dp_sgd_event(NOISE, RATE, STEPS)).epsilon(1e-5)
    rng = np.random.default_rng(1)
    found = {
        noise: [
            lower_bound_in_noise(*scores(150, rng, noise), confidence=0.8, **OPTIONS).epsilon
            for _ in range(15)
        ]
        for noise in (NOISE, NOISE / 3)
    }
    assert_rate_at_most(sum(e > truth for e in found[NOISE]), 15, 0.2)
    with pytest.raises(AssertionError):
        assert_rate_at_most(sum(e > truth for e in found[NOISE / 3]), 15, 0.2)


def test_exact_rates_refute_more_noise_than_the_truth_and_no_other():
    """Full batches, whose rates are known: a tenth less noise is told from the stated one."""
    cuts, noises = np.linspace(-6, 9, 400), NOISE * np.array([1.05, 1.0, 0.95])

    def found(noise):
        fnr = special.ndtr(cuts - STEPS**0.5 / noise)
        batches = family._Batches(1.0, STEPS, "poisson")
        return family._least_refuted(noises, batches, special.ndtr(-cuts), fnr)

    assert found(NOISE) == noises[0]
    assert found(0.9 * NOISE) == noises[2]


def test_nothing_is_shown_by_chance_alone():
    same = np.arange(100.0)
    assert lower_bound_in_noise(same, same, **OPTIONS).epsilon == 0


@pytest.mark.parametrize(("name", "value"), [("delta", 0.0), ("sampling_rate", 1.5), ("steps", 0)])
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(InvalidArgument, match=name):
        lower_bound_in_noise([1.0], [0.0], **(OPTIONS | {name: value}))


def allocate(n, rng, noise, steps, epochs):
    """Exact likelihood ratios where the canary is in one step of each epoch, any of them."""
    seen = noise * rng.standard_normal((2, n, epochs, steps))
    seen[0] += rng.integers(steps, size=(n, epochs))[..., None] == np.arange(steps)
    return LikelihoodRatio(noise, 1 / steps, scheme="shuffled")(seen.reshape(2, n, -1))


def test_allocated_batches():
    """Ten thousand games: within 1.3 of what is proved; a tenth less noise is more than that."""
    options = {"noise_multiplier": 1.0, "sampling_rate": 0.25, "steps": 8, "delta": 1e-5}
    proved = da.account(da.privacy.allocation_event(1.0, 4, 2)).epsilon(1e-5)
    rng = np.random.default_rng(0)
    bound = lower_bound_in_noise(*allocate(5000, rng, 1.0, 4, 2), scheme="shuffled", **options)
    assert proved / 1.3 <= bound.epsilon <= proved
    assert "one of every 4" in bound.assumption
    less = lower_bound_in_noise(*allocate(5000, rng, 0.7, 4, 2), scheme="shuffled", **options)
    assert less.epsilon > proved


def test_epochs_are_whole():
    with pytest.raises(InvalidArgument, match="epochs must be whole"):
        lower_bound_in_noise([1.0], [0.0], scheme="shuffled", **OPTIONS)
    with pytest.raises(InvalidArgument, match="scheme="):
        lower_bound_in_noise([1.0], [0.0], scheme="cyclic", **OPTIONS)
