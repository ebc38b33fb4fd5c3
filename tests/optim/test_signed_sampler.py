"""The distribution of the sampler, enumerated from its state; it neither over- nor underflows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from dpassay.optim.signed_sampler import SignedSampler
from rates import assert_rate


def enumerated(sampler, x):
    """Chance of (j, +1) for all j, then (j, -1), that one attempt ends so, given one ends."""
    width, n = sampler._width, len(x)
    groups = np.arange(n) // width
    group = sampler._sums / sampler._sums.sum()
    member = sampler._weights[:n] / sampler._sums[groups]
    m = sampler._bounds
    attempt = [
        group[groups] * member * np.exp(sign * x - m) / (1 + np.exp(-2 * m)) for sign in (1, -1)
    ]
    chances = np.concatenate(attempt)
    return chances / chances.sum()


def is_valid(sampler):
    """Every group's bound is at least its members' sum, computed with care."""
    sums = sampler._weights.reshape(sampler._n_groups, sampler._width)
    exact = [float(np.sum(np.sort(row.astype(np.longdouble)))) for row in sums]
    return all(bound >= total for bound, total in zip(sampler._sums, exact, strict=True))


def softmax(x):
    return np.exp(log_softmax(np.concatenate([x, -x])))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 70), size=st.sampled_from([0.01, 1.0, 30.0]))
def test_probabilities_are_those_of_the_exponential_mechanism(seed, n, size):
    """After any updates, with bounds that are tight, loose, or loose for some."""
    rng = np.random.default_rng(seed)
    x = size * rng.normal(size=n)
    sampler = SignedSampler(np.abs(x) + rng.random() * rng.integers(0, 2, n))
    for _ in range(5):
        some = rng.integers(0, n, rng.integers(0, 2 * n))  # with repeats
        x[some] = size * rng.normal(size=len(some))
        sampler.update(some, np.abs(x[some]) + rng.random() * (some % 2))
        assert is_valid(sampler)
        np.testing.assert_allclose(enumerated(sampler, x), softmax(x), rtol=1e-9, atol=1e-300)


def test_draws_follow_the_enumeration():
    """Each candidate's count; bounds that are too small (a mutant) are caught."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=9)
    chances, draws = softmax(x), 20_000

    def counts(bounds):
        sampler = SignedSampler(bounds)
        seen = np.zeros(18, int)
        for _ in range(draws):
            j, sign = sampler.draw(rng, x.__getitem__)
            seen[j if sign > 0 else j + 9] += 1
        return seen

    for bounds in (np.abs(x), np.abs(x) + 0.5, np.full(9, 3.0)):
        for k, p in zip(counts(bounds), chances, strict=True):
            assert_rate(k, draws, p)
    with pytest.raises(AssertionError):
        for k, p in zip(counts(0.5 * np.abs(x)), chances, strict=True):
            assert_rate(k, draws, p)


def test_exponents_far_beyond_what_floats_hold():
    """Up by 5000, then down again: weights are built anew, and nothing is drawn wrongly."""
    rng, n = np.random.default_rng(0), 50
    x = np.zeros(n)
    sampler = SignedSampler(np.abs(x))
    for j, height in ((7, 5000.0), (31, 9000.0), (31, 3.0), (7, 2.0)):
        x[j] = height
        sampler.update(np.array([j]), np.array([height]))
        assert is_valid(sampler)
        drawn = {sampler.draw(rng, x.__getitem__) for _ in range(50)}
        if height > 100:
            assert drawn == {(j, 1)}
        elif j == 31:
            assert drawn == {(7, 1)}
    np.testing.assert_allclose(enumerated(sampler, x), softmax(x), rtol=1e-9)
    assert len({sampler.draw(rng, x.__getitem__)[0] for _ in range(500)}) > 20


def test_a_bound_that_fell_is_found_out():
    """The group of a member that fell from 1e80 to 1 is tightened when it is visited."""
    x = np.zeros(64)
    sampler = SignedSampler(np.full(64, 0.0))
    sampler.update(np.array([3]), np.array([180.0]))
    sampler.update(np.array([3]), np.array([0.0]))
    assert sampler._sums.max() > 1e50  # falls are left to later
    rng = np.random.default_rng(0)
    seen = [sampler.draw(rng, x.__getitem__)[0] for _ in range(200)]
    assert sampler._sums.max() < 20
    assert len(set(seen)) > 30


def test_loose_bounds_give_up():
    sampler = SignedSampler(np.full(8, 60.0))
    assert sampler.draw(np.random.default_rng(0), lambda j: 0.0, attempts=20) is None
