import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dpassay.privacy import gaussian

# log delta, by mpmath with 900 digits.
TAILS = [
    (1e-6, 1e-6, -16.300631083676995),
    (3.6e-5, 1e-6, -669.90377756294322),
    (500.0, 20.0, -116.69369515953171),
    (37.0, 1.0, -674.2677784588983),
    (5000.0, 100.0, -0.70115722343220868),
    (0.5, 0.02, -323.52353642868837),
    (4.0, 0.3, -94.22001717130546),
    (0.0, 100.0, 0.0),
    (500.0, 100.0, 0.0),
]


@pytest.mark.parametrize(("epsilon", "mu", "expected"), TAILS)
def test_log_delta_is_accurate_in_the_tails(epsilon, mu, expected):
    assert gaussian.log_delta(epsilon, mu) == pytest.approx(expected, rel=1e-13, abs=1e-15)


@pytest.mark.golden
def test_published_deltas_and_mus():
    # Dong, Roth and Su 2022, corollary 2.13, evaluated.
    deltas = gaussian.delta_of(np.array([0, 0.5, 1, 2, 4]), 1.0)
    expected = [0.382925, 0.238422, 0.126937, 0.0209236, 4.71224e-5]
    np.testing.assert_allclose(deltas, expected, rtol=3e-6)
    mus = gaussian.mu_of(np.array([0.21, 1, 1, 2, 4]), np.array([1e-5, 1e-5, 1e-6, 1e-5, 1e-5]))
    np.testing.assert_allclose(
        mus, [0.0641414, 0.2680511, 0.2367044, 0.5015517, 0.9249309], rtol=5e-7
    )
    epsilons = gaussian.epsilon_of(1e-5, np.array([0.5, 1, 2]))
    np.testing.assert_allclose(epsilons, [1.9931, 4.3772, 9.9973], atol=5e-5)


@pytest.mark.parametrize("mu", [0.1, 0.399, 0.401, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_delta_is_the_integral_that_defines_it(mu, epsilon):
    start = epsilon / mu + mu / 2

    def excess(x):
        return stats.norm.pdf(x - mu) - np.exp(epsilon) * stats.norm.pdf(x)

    integral = integrate.quad(excess, start, start + 12, epsabs=1e-14)[0]
    assert gaussian.delta_of(epsilon, mu) == pytest.approx(integral, rel=1e-9, abs=1e-13)


@given(st.floats(1e-6, 100), st.floats(-300, -0.01))
def test_epsilon_is_the_smallest_that_satisfies_delta(mu, exponent):
    delta = 10.0**exponent
    epsilon = float(gaussian.epsilon_of(delta, mu))
    assert gaussian.delta_of(epsilon, mu) <= delta * (1 + 1e-12)
    if epsilon > 0:
        assert gaussian.delta_of(epsilon * (1 - 1e-9) - 1e-14 * mu, mu) >= delta * (1 - 1e-9)


@given(st.floats(0, 500), st.floats(-300, -0.01))
def test_mu_is_the_largest_that_satisfies_epsilon_and_delta(epsilon, exponent):
    delta = 10.0**exponent
    mu = float(gaussian.mu_of(epsilon, delta))
    assert gaussian.delta_of(epsilon, mu) <= delta * (1 + 1e-12)
    assert gaussian.delta_of(epsilon, mu * (1 + 1e-9)) >= delta * (1 - 1e-9)


def test_limits():
    assert gaussian.delta_of(1.0, 0.0) == 0
    assert gaussian.delta_of(1.0, np.inf) == 1
    assert gaussian.epsilon_of(0.0, 1.0) == np.inf
    assert gaussian.epsilon_of(1e-5, 0.0) == 0
    assert gaussian.epsilon_of(0.5, 1.0) == 0
    assert gaussian.mu_of(1.0, 0.0) == 0
    np.testing.assert_array_equal(gaussian.tradeoff(np.array([0.0, 1.0]), 1.0), [1, 0])


def test_mu_of_epsilons_at_the_end_of_the_floats():
    """An infinite epsilon allows every mu; it used to be searched for without end."""
    found = gaussian.mu_of(np.array([np.inf, 1e308, np.inf, 1.0]), np.array([1e-5, 1e-5, 0.0, 1.0]))
    assert found[0] == found[3] == np.inf
    assert found[2] == 0
    assert 1e100 < found[1] < np.sqrt(2e308)
