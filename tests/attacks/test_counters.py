import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from dpassay.attacks import below_threshold_accuracy, sorted_half_accuracy
from dpassay.errors import InvalidArgument
from dpassay_reproduce.printed.counters import printed_sorted_half, printed_threshold
from rates import assert_rate

N = 1000
LOW, HIGH = np.arange(N, dtype=float), np.arange(N, dtype=float) + N


@pytest.mark.golden
@pytest.mark.parametrize(
    ("members", "others", "right", "printed"),
    [(LOW, HIGH, 1.0, 0.5), (HIGH, LOW, 0.0, 0.5)],
    ids=["perfect", "always wrong"],
)
def test_the_printed_counter_cannot_tell_best_from_worst(members, others, right, printed):
    assert sorted_half_accuracy(members, others) == right
    assert printed_sorted_half(members, others) == printed


def test_a_shift_of_half_a_deviation():
    """Right: Phi(1/4) = .5987. Printed: .5570, from the quartiles of the mixture.

    Simulations of a thousand points or so gave .5990 and .5550: within their sampling error.
    """
    n, shift = 200_000, 0.5
    rng = np.random.default_rng(3)
    members, others = rng.normal(0, 1, n), rng.normal(shift, 1, n)
    assert_rate(round(2 * n * sorted_half_accuracy(members, others)), 2 * n, ndtr(shift / 2))
    grid = np.linspace(-6, 7, 200_001)
    mixture = (ndtr(grid) + ndtr(grid - shift)) / 2
    q1, q2 = np.interp([0.25, 0.5], mixture, grid)
    printed = ndtr(q1) + ndtr(q2 - shift) - ndtr(q1 - shift)  # members, then others, over N
    assert printed == pytest.approx(0.55704, abs=1e-5)
    found = printed_sorted_half(members, others)
    assert_rate(round(n * found), n, printed)
    assert abs(printed - ndtr(shift / 2)) > 0.04


def test_the_printed_entropy_counter_gives_a_coin_a_hundred_percent():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 5000))
    right = below_threshold_accuracy(*values, 0.0)
    printed = printed_threshold(*values, 0.0)
    assert printed == 2 * right
    assert_rate(round(10_000 * right), 10_000, 0.5)
    assert printed == pytest.approx(1, abs=0.05)


def test_a_threshold_by_theory():
    rng = np.random.default_rng(1)
    members, others = rng.normal(-1, 1, 5000), rng.normal(0, 1, 5000)
    found = below_threshold_accuracy(members, others, -0.5)
    assert_rate(round(10_000 * found), 10_000, norm.cdf(0.5))
    assert below_threshold_accuracy([1.0], [1.0], 1.0) == 0.5  # at most: both are called members


def test_as_many_of_each():
    with pytest.raises(InvalidArgument, match="2 members and 1"):
        sorted_half_accuracy([1, 2], [3])
    with pytest.raises(InvalidArgument, match="threshold=nan"):
        below_threshold_accuracy([1], [2], np.nan)
