"""Poisson batches of a fixed shape: their law, and that none is cut."""

import numpy as np
import pytest
from scipy.stats import binom

from dpassay.nets.sampling import OVERFLOW, SELDOM, BatchOverflow, capacity, poisson_batches
from rates import assert_rate

N, RATE, STEPS = 30, 0.3, 20_000


@pytest.fixture(scope="module")
def drawn():
    """Which record is in which batch, as a matrix of truth values."""
    room = capacity(N, RATE)
    batches = poisson_batches(N, RATE, STEPS, room, np.random.default_rng(0))
    inside = np.zeros((STEPS, N), dtype=int)
    np.add.at(inside, (np.nonzero(batches.taken)[0], batches.index[batches.taken]), 1)
    assert inside.max() == 1
    return inside.astype(bool)


@pytest.mark.parametrize("record", [0, 1, N // 2, N - 1])
def test_every_record_has_the_rate(drawn, record):
    found = drawn[:, record].sum()
    assert_rate(found, STEPS, RATE)
    with pytest.raises(AssertionError):
        assert_rate(found, STEPS, 0.9 * RATE)


def test_records_are_independent(drawn):
    for a, b in ((0, 1), (3, 4), (0, N - 1)):
        assert_rate((drawn[:, a] & drawn[:, b]).sum(), STEPS, RATE**2)


def test_batch_sizes_are_binomial(drawn):
    sizes = drawn.sum(axis=1)
    for size in (5, 8, 9, 12):
        assert_rate((sizes <= size).sum(), STEPS, binom.cdf(size, N, RATE))
    with pytest.raises(AssertionError):  # batches of a fixed size, as shuffling has them
        assert_rate((np.full(STEPS, 9) <= 8).sum(), STEPS, binom.cdf(8, N, RATE))


@pytest.mark.parametrize(("n", "rate"), [(60_000, 250 / 60_000), (1000, 0.25), (40, 0.9)])
def test_capacity(n, rate):
    room = capacity(n, rate)
    assert binom.sf(room, n, rate) <= OVERFLOW
    assert room == n or (room % 16 == 0 and binom.sf(room - 16, n, rate) > OVERFLOW)


class Adjacent:
    """A generator whose gaps are all of the least length: every record is in."""

    def standard_exponential(self, size):
        return np.zeros(size)


def test_a_batch_that_just_fits_is_whole():
    batches = poisson_batches(32, 0.5, 2, 32, Adjacent())
    assert batches.taken.all()
    np.testing.assert_array_equal(batches.index, [np.arange(32)] * 2)


def test_a_batch_that_does_not_fit_is_not_cut():
    with pytest.raises(BatchOverflow, match="more than 32 of n_records=33"):
        poisson_batches(33, 0.5, 2, 32, Adjacent())


def test_places_without_record_point_to_the_first():
    batches = poisson_batches(1000, 0.01, 50, 48, np.random.default_rng(0))
    assert batches.index.dtype == np.int32
    assert not batches.index[~batches.taken].any()
    assert (np.diff(batches.taken.astype(int), axis=1) <= 0).all()


def test_batches_that_fit_take_less_room():
    batches = poisson_batches(1000, 0.01, 50, 48, np.random.default_rng(0))
    largest = batches.taken.sum(axis=1).max()
    fitted = batches.fit_into(largest)
    assert fitted.index.shape == (50, largest)
    assert fitted.taken.sum() == batches.taken.sum()
    assert batches.fit_into(largest - 1) is batches
    assert capacity(1000, 0.01, SELDOM) < capacity(1000, 0.01)
