"""Faults that another reader's programs showed: each idea, broken and honest, in our own words."""

import random

import numpy as np
import pytest
from scipy import stats

import dpassay as da
from dpassay.replay.playing import Player

TABLE = np.random.default_rng(3).random((40, 3))
STREAM = np.random.default_rng(4).random(32)


def rules(mechanism, data, claim, **options):
    return [f.rule for f in da.check(mechanism, data, claim, bounds=(0, 1), **options).findings]


# Two exponential draws make Laplace noise; every column has a generator of its own.


def columns_of_one_seed(rows, rng):
    seed = int(rng.integers(2**60))
    noise = [random.Random(seed) for _ in range(3)]
    return [float(c.sum()) + r.expovariate(1 / 3) - r.expovariate(1 / 3)
            for c, r in zip(rows.T, noise, strict=True)]  # fmt: skip


def columns_of_many_seeds(rows, rng):
    noise = [random.Random(int(rng.integers(2**60))) for _ in range(3)]
    return [float(c.sum()) + r.expovariate(1 / 3) - r.expovariate(1 / 3)
            for c, r in zip(rows.T, noise, strict=True)]  # fmt: skip


def test_one_seed_for_noise_that_is_made_of_two_draws():
    assert rules(columns_of_one_seed, TABLE, "1", limit=6) == ["DPA402"]
    assert rules(columns_of_many_seeds, TABLE, "1", limit=6) == []


def synthetic(rows):
    def release(values, rng):
        noisy = np.histogram(values, 4, (0, 1))[0] + rng.laplace(size=4)
        weights = np.maximum(noisy, 0.01)
        size = rows or len(values)
        cells = rng.choice(4, size=size, p=weights / weights.sum())
        return (cells + rng.random(size)) / 4

    return release


def test_as_many_synthetic_rows_as_records():
    found = da.check(synthetic(0), STREAM, "1", bounds=(0, 1), limit=6)
    assert [finding.rule for finding in found.findings] == ["DPA301"]
    assert "rng.choice" in found.findings[0].site.source
    assert rules(synthetic(50), STREAM, "1", limit=6) == []


def test_a_length_that_a_lost_draw_may_have_chosen_is_undecided():
    def release(values, rng):
        size = len(values) + int(4 * rng.random())
        return [0.0] * size

    found = da.check(release, STREAM, "1", limit=4)
    assert found.findings == ()
    assert not found.decided


def running_sums(levels):
    """Prefix sums by the binary mechanism; a record is in one node of each level."""

    def release(values, rng):
        nodes: dict[int, tuple[float, float]] = {}
        sums = []
        for t, value in enumerate(np.clip(values, 0, 1).tolist(), start=1):
            level = (t & -t).bit_length() - 1
            exact = value + sum(nodes.pop(lower)[0] for lower in range(level))
            nodes[level] = exact, exact + rng.laplace(scale=levels)
            sums.append(sum(noisy for _, noisy in nodes.values()))
        return sums

    return release


def test_a_tree_of_running_sums_with_a_level_too_few():
    claim = da.PureDP(1.0, neighbouring="replace-one")
    found = da.check(running_sums(5), STREAM, claim, bounds=(0, 1))
    assert [finding.rule for finding in found.findings] == ["DPA202"]
    assert "rng.laplace" in found.findings[0].site.source
    assert rules(running_sums(6), STREAM, claim) == []


def second_moments(spread):
    def release(rows, rng):
        unit = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        upper = (unit.T @ unit)[np.triu_indices(3)]
        return stats.multivariate_normal(upper, spread * np.eye(6)).rvs(random_state=rng)

    return release


def test_a_deviation_that_is_passed_as_a_variance():
    """Deviation 4 keeps mu = 1 / 4; passed as a variance it is 2."""
    found = da.check(second_moments(4.0), TABLE, da.GDP(0.25), bounds=(0, 1), limit=8)
    assert [finding.rule for finding in found.findings] == ["DPA202"]
    assert "rvs" in found.findings[0].site.source
    assert rules(second_moments(16.0), TABLE, da.GDP(0.25), limit=8) == []


def test_recording_noise_in_several_dimensions_changes_no_bit():
    for cov in (np.diag([1.0, 4.0]), np.array([[2.0, 1.0], [1.0, 2.0]])):
        for size in (None, 3, (2, 2)):

            def release(rows, rng, cov=cov, size=size):
                return rng.multivariate_normal([1.0, 2.0], cov, size)

            played = Player(release, 5).record(TABLE, len(TABLE)).output
            assert np.array_equal(played, release(TABLE, np.random.default_rng(5)))


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_mean_of_noise_per_record_is_still_not_held_against_its_parts(scale):
    def release(values, rng):
        return sum(v + rng.laplace(scale=scale) for v in values.tolist()) / 32

    claim = da.PureDP(1.0, neighbouring="replace-one")
    assert rules(release, STREAM, claim, limit=6) == []
