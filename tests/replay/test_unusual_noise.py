"""Ways to draw that a check cannot follow, or that keep state: an answer, never a crash."""

import numpy as np
import pytest

import dpassay as da
from dpassay.errors import InvalidTarget
from dpassay.replay.playing import Player

VALUES = np.linspace(0.0, 1.0, 20)


def histogram(values, bins):
    return np.histogram(np.clip(np.nan_to_num(values), 0, 1), bins, (0, 1))[0].astype(float)


def test_many_choices_from_a_noisy_histogram():
    def release(values, rng):
        noisy = np.maximum(histogram(values, 5) + rng.laplace(size=5), 0) + 1e-9
        return rng.choice(5, size=30, p=noisy / noisy.sum())

    found = da.check(release, VALUES, "1.0")
    assert found.findings == ()
    assert found.epsilon_seen == pytest.approx(1.0)


@pytest.mark.parametrize("times", [1, 3])
def test_the_price_of_many_choices_is_that_of_each(times):
    def release(values, rng):
        weights = np.exp(histogram(values, 4) / 2)
        return rng.choice(4, size=times, p=weights / weights.sum())

    assert da.check(release, VALUES, str(0.5 * times)).findings == ()
    found = da.check(release, VALUES, str(0.3 * times))
    assert [finding.rule for finding in found.findings] == ["DPA202"]
    assert 0.3 * times < found.epsilon_seen <= 0.5 * times


def train(choose, scale):
    def release(values, rng):
        weight = 0.0
        for _ in range(5):
            taken = choose(values, rng)
            errors = np.clip(np.nan_to_num(values)[taken] - weight, -1, 1)
            weight += 0.1 * (errors.sum() + rng.normal(scale=scale))
        return weight

    return release


FLAGS = {
    "yes or no": lambda x, rng: rng.choice([True, False], size=len(x), p=[0.1, 0.9]),
    "no or yes": lambda x, rng: rng.choice([False, True], len(x), p=[0.9, 0.1]),
    "0 or 1": lambda x, rng: rng.choice(2, size=len(x), p=[0.9, 0.1]) == 1,
}
CLAIM = "dp-sgd:noise_multiplier=1.0,sampling_rate=0.1,steps=5"


@pytest.mark.parametrize("name", FLAGS)
def test_batches_chosen_by_flags_are_poisson_batches(name):
    choose = FLAGS[name]
    found = da.check(train(choose, 1.0), VALUES, CLAIM)
    assert found.findings == ()
    assert found.epsilon_seen == pytest.approx(found.claim.epsilon(found.delta), rel=2e-3)
    broken = da.check(train(choose, 0.5), VALUES, CLAIM)
    assert [finding.rule for finding in broken.findings] == ["DPA202"]


def test_the_amplification_of_other_batches_is_not_priced():
    def choose(x, rng):
        return rng.choice(3, size=len(x), p=[0.8, 0.1, 0.1]) == 0

    found = da.check(train(choose, 1.0), VALUES, CLAIM)
    assert found.findings == ()
    assert found.warnings == ()
    assert any("weighted choice" in part.message for part in found.not_checked)


@pytest.mark.parametrize("values", [[True, False], [0, 1], 2])
def test_following_choices_changes_no_bit(values):
    def release(data, rng):
        return rng.choice(values, size=len(data), p=[0.3, 0.7])

    played = Player(release, 5).record(VALUES, VALUES.size).output
    plain = release(VALUES, np.random.default_rng(5))
    assert played.dtype == plain.dtype
    assert np.array_equal(played, plain)


def test_complex_noise_is_not_followed():
    def release(values, rng):
        waves = np.fft.rfft(histogram(values, 8), norm="ortho")
        noisy = waves + rng.normal(size=5) + 1j * rng.normal(size=5)
        return np.fft.irfft(noisy, 8, norm="ortho")

    found = da.check(release, VALUES, "gdp:1.0")
    assert found.findings == ()
    assert not found.decided


@pytest.mark.parametrize("order", ["left", "right"])
def test_real_noise_on_complex_numbers_is_not_followed(order):
    def release(values, rng):
        waves = np.fft.rfft(histogram(values, 8), norm="ortho")
        noise = rng.normal(size=5)
        return waves + noise if order == "left" else noise - waves

    found = da.check(release, VALUES, "gdp:1.0")
    assert found.findings == ()
    assert not found.decided


class Ledger:
    def __init__(self, runs):
        self.runs = runs

    def spend(self):
        self.runs -= 1
        if self.runs < 0:
            raise RuntimeError("the budget is spent")


@pytest.mark.parametrize("runs", [1, 2])
def test_a_ledger_that_outlives_a_run_is_named(runs):
    ledger = Ledger(runs)

    def release(values, rng):
        ledger.spend()
        return len(values) + rng.laplace()

    with pytest.raises(InvalidTarget, match="keeps state between runs") as raised:
        da.check(release, VALUES, "1.0")
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.parametrize("runs", [4, 7])
def test_a_ledger_that_ends_during_the_search_is_no_finding(runs):
    ledger = Ledger(runs)

    def release(values, rng):
        ledger.spend()
        return len(values) + rng.laplace()

    found = da.check(release, VALUES, "1.0")
    assert found.findings == ()
    assert not found.decided
    assert "keeps state between runs" in str(found)


def test_what_raises_on_the_first_run_is_passed_on():
    def release(values, rng):
        raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        da.check(release, VALUES, "1.0")
