"""Noisy values that are never released cost nothing; those that leave unseen still count."""

import ctypes

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing.replayed import audit_by_replay
from dpassay.errors import AuditStopped

DATA = np.linspace(0, 1, 12)


def checked(mechanism, claim="1"):
    return da.check(mechanism, DATA, claim, bounds=(0, 1), limit=6)


def counts(x):
    return np.array([float(len(x)), float(np.clip(x, 0, 1).sum()), float((x > 0.5).sum())])


def one_coordinate(x, rng):
    return (counts(x) + rng.laplace(size=3))[1]


def some_coordinates(x, rng):
    noisy = counts(x) + rng.laplace(scale=2.0, size=3)
    return {"sum": noisy[1], "large": noisy[2]}


def a_value_that_nobody_uses(x, rng):
    _first = len(x) + rng.laplace()
    return len(x) + rng.laplace()


def a_row(x, rng):
    noisy = np.tile(counts(x)[1:2], (4, 1)) + rng.laplace(size=(4, 1))
    return noisy[2]


def noise_of_two_values(x, rng):
    noise = rng.laplace(size=3)
    _scratch = counts(2 * x) + noise
    return (counts(x) + noise)[0]


def without_a_partner(x, rng):
    """The last value is taken out of the array, and left out by ``zip``."""
    noisy = counts(x) + rng.laplace(scale=2.0, size=3)
    return dict(zip(["n", "sum"], noisy.tolist(), strict=False))


def sorted_beside(x, rng):
    noisy = np.stack([counts(x), counts(x)]) + rng.laplace(scale=3.0, size=(2, 3))
    np.sort(noisy, axis=1)
    return {"first": noisy[0]}


HONEST = [
    without_a_partner,
    sorted_beside,
    one_coordinate,
    some_coordinates,
    a_value_that_nobody_uses,
    a_row,
    noise_of_two_values,
]


@pytest.mark.parametrize("mechanism", HONEST)
def test_what_is_not_released_is_not_priced(mechanism):
    found = checked(mechanism)
    assert found.findings == ()
    assert found.decided
    assert found.epsilon_seen == pytest.approx(1.0)


@pytest.mark.parametrize("mechanism", HONEST)
def test_what_is_released_is_priced(mechanism):
    found = checked(mechanism, "0.9")
    assert [finding.rule for finding in found.findings] == ["DPA202"]
    assert found.epsilon_seen == pytest.approx(1.0)


def by_memory(x, rng):
    """Three values leave by their address, where no use can be seen."""
    noisy = counts(x) + rng.laplace(size=3)
    return list((ctypes.c_double * 3).from_address(noisy.ctypes.data))


def clipped_by_memory(x, rng):
    return [max(value, 0.0) for value in by_memory(x, rng)]


@pytest.mark.parametrize("mechanism", [by_memory, clipped_by_memory])
def test_values_that_leave_unseen_are_priced(mechanism):
    found = checked(mechanism, "1.5")
    assert [finding.rule for finding in found.findings] == ["DPA202"]
    assert found.epsilon_seen == pytest.approx(3.0)


def test_evidence_does_not_count_what_is_not_released():
    with pytest.raises(AuditStopped, match="never released"):
        audit_by_replay(one_coordinate, (DATA, DATA[1:]), claim="1", trials=5)
