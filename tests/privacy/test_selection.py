"""The best of a random number of runs: the theorems beside the exact law of small mechanisms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy import (
    Approx,
    ApproxDP,
    Gaussian,
    Laplace,
    NonPrivate,
    Pure,
    Repeated,
    Sampled,
    Selected,
    Sequence,
    account,
    calibrate,
)
from dpassay.privacy.selection import (
    gamma_of,
    mean_of,
    negative_binomial_price,
    poisson_price,
)

ORDERS = np.array([1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0])
LAWS = [("poisson", 0.0), ("negative-binomial", 0.0), ("negative-binomial", 1.0)]
LAWS.append(("negative-binomial", 3.5))


def generating(x, law, mean, shape):
    """E x^K."""
    if law == "poisson":
        return np.exp(mean * (x - 1))
    gamma = gamma_of(mean, shape)
    if shape == 0:
        return np.log1p(-(1 - gamma) * x) / math.log(gamma)
    return ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)


def best_of(p, law, mean, shape):
    """The law of the best of K draws from p, whose outcomes are in the order of their scores.

    The first entry is that of no run at all.
    """
    below = np.concatenate([[0.0], np.cumsum(p)])
    below[-1] = 1.0
    values = generating(below, law, mean, shape)
    return np.concatenate([values[:1], np.diff(values)])


def divergence(p, q, order):
    with np.errstate(divide="ignore"):
        seen = p > 0
        terms = order * np.log(p[seen]) + (1 - order) * np.log(q[seen])
    return max(float(logsumexp(terms)) / (order - 1), 0.0)


def both_ways(p, q, orders=ORDERS):
    return np.array([max(divergence(p, q, a), divergence(q, p, a)) for a in orders])


def hockey_stick(p, q, epsilon):
    return max(
        np.maximum(p - math.exp(epsilon) * q, 0).sum(),
        np.maximum(q - math.exp(epsilon) * p, 0).sum(),
    )


def theorem(p, q, law, mean, shape):
    run = both_ways(p, q)
    if law == "poisson":
        deltas = np.array([hockey_stick(p, q, math.log(1 + 1 / (a - 1))) for a in ORDERS])
        return poisson_price(ORDERS, run, deltas, mean)
    return negative_binomial_price(ORDERS, run, mean, shape)


def runs(rng, size):
    """Two laws of a run on neighbouring data, close or far."""
    p = rng.dirichlet(np.full(size, 10 ** rng.uniform(-0.5, 1)))
    q = p * np.exp(rng.uniform(-1, 1, size) * 10 ** rng.uniform(-2, 0.5))
    return np.maximum(p, 1e-12) / np.maximum(p, 1e-12).sum(), q / q.sum()


@pytest.mark.parametrize(("law", "shape"), LAWS)
def test_no_small_mechanism_exceeds_the_theorem(law, shape):
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(150):
        p, q = runs(rng, int(rng.integers(2, 6)))
        mean = 1 + 10 ** rng.uniform(-1, 2)
        exact = both_ways(best_of(p, law, mean, shape), best_of(q, law, mean, shape))
        bound = theorem(p, q, law, mean, shape)
        assert (exact <= bound * (1 + 1e-9) + 1e-12).all()
        ratios.append(np.max(exact / np.maximum(bound, 1e-12)))
    assert max(ratios) > 0.5  # the bound means something


@pytest.mark.parametrize(("law", "shape"), LAWS)
def test_the_price_of_one_run_would_be_exceeded(law, shape):
    """The mutant that forgets that there was a choice."""
    p, q = np.array([0.99, 0.01]), np.array([0.995, 0.005])
    exact = both_ways(best_of(p, law, 10.0, shape), best_of(q, law, 10.0, shape))
    assert (exact > 1.5 * both_ways(p, q)).any()


@pytest.mark.parametrize(("law", "shape"), LAWS)
def test_laws_are_what_they_say(law, shape):
    step = 1e-6
    slope = (generating(1.0, law, 7.0, shape) - generating(1 - step, law, 7.0, shape)) / step
    assert slope == pytest.approx(7.0, rel=1e-4)
    assert generating(1.0, law, 7.0, shape) == pytest.approx(1.0)


@given(st.floats(1.001, 1e5), st.sampled_from([0.0, 0.3, 1.0, 5.0]))
def test_gamma_has_the_mean(mean, shape):
    assert mean_of(gamma_of(mean, shape), shape) == pytest.approx(mean, rel=1e-6)


def test_gamma_of_the_geometric_law():
    assert gamma_of(4.0, 1.0) == pytest.approx(0.25)


# The event.


@pytest.mark.parametrize(("law", "shape"), LAWS)
def test_the_event_is_priced_by_the_theorem(law, shape):
    run, mean = Gaussian(4.0), 8.0
    curve = account(Selected(run, mean, law, shape), "rdp")
    orders = curve.orders
    divergences = orders / (2 * 4.0**2)
    if law == "poisson":
        deltas = account(run).delta(np.log1p(1 / (orders - 1)))
        expected = divergences + mean * deltas + math.log(mean) / (orders - 1)
    else:
        gamma = gamma_of(mean, shape)
        b = np.append(orders, 1.0)
        choices = (1 - 1 / b) * b / 32 + math.log(1 / gamma) / b
        expected = divergences + (1 + shape) * choices.min() + math.log(mean) / (orders - 1)
    np.testing.assert_allclose(curve.epsilons, expected, rtol=1e-9)
    assert curve.kind == "upper bound"


def test_laws_of_prices():
    def price(event):
        return account(event).epsilon(1e-5)

    one = price(Gaussian(4.0))
    assert one < price(Selected(Gaussian(4.0), 3.0)) < price(Selected(Gaussian(4.0), 30.0))
    assert price(Selected(Gaussian(5.0), 3.0)) < price(Selected(Gaussian(4.0), 3.0))
    assert price(Selected(Gaussian(4.0), 8.0)) < price(Repeated(Gaussian(4.0), 100))
    assert price(Sequence((Selected(Gaussian(4.0), 3.0), Laplace(9.0)))) > price(
        Selected(Gaussian(4.0), 3.0)
    )


def test_calibration_meets_the_target():
    noise = calibrate(lambda s: Selected(Gaussian(s), 10.0), ApproxDP(1.0, 1e-5), method="rdp")
    assert 0.999 < account(Selected(Gaussian(noise), 10.0)).epsilon(1e-5) <= 1.0


def test_a_sample_of_a_selection_is_amplified():
    event = Selected(Gaussian(4.0), 3.0)
    assert account(Sampled(event, 0.1)).epsilon(1e-6) < account(event).epsilon(1e-6)


def test_the_best_of_runs_without_privacy_has_none():
    assert account(Selected(NonPrivate(), 3.0)).epsilon(1e-5) == math.inf
    assert account(Sequence((Gaussian(1.0), Selected(NonPrivate(), 3.0)))).delta(9.0) == 1.0


def test_runs_without_a_renyi_divergence_are_refused():
    with pytest.raises(UnsupportedEvent, match="Approx"):
        account(Selected(Approx(0.1, 1e-6), 3.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", 3.0), "event='run'"),
        ((Pure(1.0), 1.0), "mean=1"),
        ((Pure(1.0), math.nan), "mean=nan"),
        ((Pure(1.0), 3.0, "binomial"), "law='binomial'"),
        ((Pure(1.0), 3.0, "negative-binomial", -0.5), "shape=-0.5"),
    ],
)
def test_misuse(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        Selected(*arguments)
