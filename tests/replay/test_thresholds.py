"""A uniform number that is compared with several values is a random threshold, and no coin."""

import numpy as np
import pytest

import dpassay as da

DATA = np.linspace(0, 1, 20)


def checked(mechanism, relation="add-remove"):
    claim = da.PureDP(1.0, neighbouring=relation)
    return da.check(mechanism, DATA, claim, bounds=(0, 1), limit=10)


def stump(scale):
    def release(x, rng):
        at = rng.random()
        return float((x > at).sum()) + rng.laplace(scale=scale)

    return release


def stump_one_by_one(scale):
    def release(x, rng):
        at = rng.random()
        return sum(1 for value in x if value > at) + rng.laplace(scale=scale)

    return release


@pytest.mark.parametrize("make", [stump, stump_one_by_one])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_random_thresholds_are_public(make, relation):
    honest = checked(make(1.0), relation)
    assert honest.findings == ()
    assert honest.decided
    assert [finding.rule for finding in checked(make(0.5), relation).findings] == ["DPA202"]


def test_an_inverse_distribution_function_is_no_finding():
    def release(x, rng):
        scores = np.histogram(x, 3, (0, 1))[0] / 2
        chances = np.exp(scores - scores.max())
        at = rng.random()
        for i, limit in enumerate(np.cumsum(chances / chances.sum())):
            if at < limit:
                return i
        return 2

    found = checked(release)
    assert found.findings == ()
    assert not found.decided


def test_both_sides_of_one_coin_are_a_coin():
    def release(x, rng):
        drawn = rng.random(len(x))
        return x[drawn < 0.25].sum() + rng.laplace(), float((drawn >= 0.25).mean() >= 0)

    found = da.check(release, DATA, da.PureDP(0.4), sampling_rate=0.25, bounds=(0, 1), limit=4)
    assert found.findings == ()
    assert found.event.event.sampling_rate == 0.25


def test_a_sign_that_was_drawn_elsewhere_makes_noise_two_sided():
    found = checked(lambda x, rng: x.sum() + rng.choice([-1, 1]) * rng.exponential())
    assert found.findings == ()
    one_sided = checked(lambda x, rng: x.sum() + rng.exponential())
    assert [finding.rule for finding in one_sided.findings] == ["DPA202"]
