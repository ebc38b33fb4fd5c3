"""The lowest bits: naive floating-point noise gives the input away, exact noise does not.

A Laplace draw y = -log(u) in [1/2, 1] is a multiple of 2^-53, so 1 - y is computed without rounding
and is a multiple of 2^-53 as well: with input 1, every output in (0, 1/2) is one. With input 0 an
output in (0, 1/4) is a draw itself, with more and finer bits (Mironov 2012). So the event "in
(0, 1/4) and no multiple of 2^-53" has probability 0 under input 1 and about .1 under input 0: no
finite epsilon covers that, whatever the claim.
"""

import numpy as np
import pytest
from scipy.stats import laplace as laplace_law

from dpassay.mechanisms import laplace
from mechanisms.levels import collect
from rates import assert_rate

N = 20_000


def naive(x, n, rng):
    """The textbook's sampler: a random sign times -log of a uniform float, added to the input."""
    return x + rng.choice([-1.0, 1.0], n) * -np.log(rng.random(n))


def fine(outputs):
    """Outputs in (0, 1/4) that lie between the multiples of 2^-53."""
    scaled = outputs * 2.0**53
    return np.sum((outputs > 0) & (outputs < 0.25) & (scaled != np.rint(scaled)))


def probability_of_fine(x):
    """If the exact sum were rounded only at the end: floats in [2^-j-1, 2^-j] are 2^-j-53 apart."""
    law = laplace_law(loc=x)
    cells = [(law.cdf(2.0**-j) - law.cdf(2.0 ** (-j - 1)), 1 - 2.0**-j) for j in range(2, 60)]
    return sum(mass * share for mass, share in cells)


def test_naive_noise_leaks():
    rng = np.random.default_rng(5)
    assert fine(naive(1.0, 200_000, rng)) == 0
    assert fine(naive(0.0, N, rng)) > 0.05 * N
    # A false alarm of "input 0" when the input is 1 is impossible; a miss needs no fine output at
    # all in 20000 draws, of chance (1 - .09)^20000 < 1e-800.
    with pytest.raises(AssertionError):
        assert_rate(fine(naive(1.0, N, rng)), N, probability_of_fine(1.0))


@pytest.mark.parametrize("x", [0.0, 1.0, 3.0])
def test_exact_noise_has_the_same_low_bits_for_every_input(x):
    outputs = collect(lambda size: laplace(np.full(size, x), sensitivity=1.0, epsilon=1.0).value, N)
    assert_rate(fine(outputs), N, probability_of_fine(x))


def test_named_levels_with_floating_point_noise_do_leak():
    """Why they are not called exact: the same distinguisher sees them."""
    for rng in (np.random.default_rng(6), None):
        release = laplace(np.ones(N), sensitivity=1.0, epsilon=1.0, rng=rng)
        assert release.noise != "exact"
        assert fine(release.value) == 0
