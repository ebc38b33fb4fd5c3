"""Matrix mechanisms and shuffled epochs: sensitivities by enumeration, events by their prices."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.linalg import toeplitz

from dpassay.errors import InvalidArgument
from dpassay.privacy import account, bandmf_event, events, from_dict, strategy_sensitivity


def square_root(n, bands=None):
    """The lower triangular square root of the prefix sum: 1, 1/2, 3/8, ..."""
    first = np.cumprod(np.insert((2 * np.arange(1, n) - 1) / (2 * np.arange(1, n)), 0, 1.0))
    if bands is not None:
        first[bands:] = 0
    return np.tril(toeplitz(first))


def enumerate_sets(c, b, k):
    """The largest norm of C x over all sets of steps and all signs of the record's gradients."""
    x, n = np.abs(c.T @ c), c.shape[1]
    best = 0.0
    for size in range(1, k + 1):
        for steps in combinations(range(n), size):
            if all(j - i >= b for i, j in pairwise(steps)):
                best = max(best, x[np.ix_(steps, steps)].sum())
    return math.sqrt(best)


@pytest.mark.parametrize(
    ("bands", "b", "k", "golden"),
    [
        (None, 6, 4, 3.7910665347842345),
        (None, 8, 3, 3.020356369838522),
        (None, 24, 1, 1.4403405868318977),
        (6, 6, 4, 2.5484202559195865),
        (6, 8, 3, 2.206996681145202),
        (6, 24, 1, 1.2742101279597933),
    ],
)
def test_goldens(bands, b, k, golden):
    c = square_root(24, bands)
    found = strategy_sensitivity(c, separation=b, participations=k)
    assert golden <= found <= golden * (1 + 1e-7)
    assert found >= enumerate_sets(c, b, k)


def test_any_strategy_is_bounded():
    rng = np.random.default_rng(0)
    for _ in range(10):
        c, b, k = rng.normal(size=(9, 9)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
        found = strategy_sensitivity(c, separation=b, participations=k)
        least = enumerate_sets(c, b, k)
        assert least <= found <= 1.25 * least


def test_fixed_orders():
    c = square_root(12)
    found = strategy_sensitivity(c, separation=4, participations=3, participation="fixed-order")
    x = c.T @ c
    best = max(x[np.ix_(range(s, 12, 4), range(s, 12, 4))].sum() for s in range(4))
    assert found == pytest.approx(math.sqrt(best), rel=1e-7)
    assert found >= math.sqrt(best)
    assert found <= strategy_sensitivity(c, separation=4, participations=3) * (1 + 1e-9)


def test_a_matrix_mechanism_is_one_gaussian():
    event = events.MatrixMechanism(3.0, 1.5)
    assert account(event).epsilon(1e-5) == pytest.approx(
        account(events.Gaussian(2.0)).epsilon(1e-5), rel=1e-12
    )
    assert account(event).epsilon(1e-5) >= account(events.Gaussian(2.0)).epsilon(1e-5)
    assert from_dict(event.as_dict()) == event
    with pytest.raises(InvalidArgument, match="sensitivity"):
        events.MatrixMechanism(1.0, math.nan)


def test_bandmf():
    """Rates are per group: with the rate over all data the price would be far too low."""
    amplified = account(bandmf_event(1.0, 0.005, 2000, 10)).epsilon(1e-6)
    assert amplified == pytest.approx(5.485859, rel=1e-5)
    assert account(events.Repeated(events.Gaussian(1.0), 10)).epsilon(1e-6) == pytest.approx(
        19.42366, rel=1e-6
    )
    assert amplified > account(events.dp_sgd_event(1.0, 0.005, 200)).epsilon(1e-6)
    with pytest.raises(InvalidArgument, match="larger than the group"):
        bandmf_event(1.0, 0.2, 100, 6)


def test_strategies_that_do_not_amplify():
    banded = square_root(12, 3)
    with pytest.raises(InvalidArgument, match="column of norm"):
        bandmf_event(1.0, 0.01, 12, 3, strategy=banded)
    unit = banded / np.linalg.norm(banded, axis=0)
    assert bandmf_event(1.0, 0.01, 12, 3, strategy=unit).count == 4
    with pytest.raises(InvalidArgument, match="at most bands=2 diagonals"):
        bandmf_event(1.0, 0.01, 12, 2, strategy=unit)


def test_shuffled_epochs_cost_one_participation_each():
    epoch = events.Shuffled(events.Gaussian(2.0, "replace-one"), steps=100)
    ten = account(events.Repeated(epoch, 10))
    assert ten.neighbouring == "replace-one"
    same = account(events.Repeated(events.Gaussian(2.0, "replace-one"), 10))
    assert ten.epsilon(1e-6) == same.epsilon(1e-6)
    poisson = account(events.dp_sgd_event(2.0, 0.01, 1000, neighbouring="replace-one"))
    assert ten.epsilon(1e-6) > poisson.epsilon(1e-6)
    assert from_dict(epoch.as_dict()) == epoch
    with pytest.raises(InvalidArgument, match="steps"):
        events.Shuffled(events.Gaussian(2.0), steps=0)
