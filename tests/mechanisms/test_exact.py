"""Exact samplers: their laws by enumeration, and that OpenDP's price meets what is stated."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.mechanisms import (
    exact,
    gaussian,
    gaussian_multiplier,
    laplace,
    report_noisy_max,
)
from dpassay.privacy import events
from mechanisms.levels import law_by_quadrature
from rates import assert_rate


def scripted(answers, asked):
    replies = iter(answers)

    def below(n):
        asked.append(n)
        return n - 1 if next(replies) == "fail" else 0

    return below


def test_bernoulli_exp_is_the_alternating_series():
    # The k-th coin succeeds with probability 3/(7k); what counts is the parity of the failure.
    reach, total = Fraction(1), Fraction(0)
    for k in range(1, 25):
        asked = []
        outcome = exact.bernoulli_exp(3, 7, scripted(["success"] * (k - 1) + ["fail"], asked))
        assert asked == [7 * i for i in range(1, k + 1)]
        assert outcome == (k % 2 == 1)
        total += reach * (1 - Fraction(3, 7 * k)) * outcome
        reach *= Fraction(3, 7 * k)
    assert float(total) == pytest.approx(math.exp(-3 / 7), rel=1e-15)


def test_discrete_laplace_law():
    rng = np.random.default_rng(11)
    n, scale = 20_000, 3
    draws = np.array(
        [exact.discrete_laplace(scale, lambda m: int(rng.integers(m))) for _ in range(n)]
    )
    for x in (-4, -1, 0, 1, 2, 6):
        p = math.tanh(1 / (2 * scale)) * math.exp(-abs(x) / scale)
        assert_rate(np.sum(draws == x), n, p)
    with pytest.raises(AssertionError):  # a sampler that keeps both zeros
        assert_rate(np.sum(draws == 0), n, 1 - math.exp(-1 / scale))


def test_argmax_rounds_nothing_and_breaks_ties_by_place(monkeypatch):
    monkeypatch.setattr(exact, "discrete_laplace", lambda *_: 0)
    assert exact.laplace_argmax([1.0, 3.0, 3.0], 1.0) == 1
    assert exact.laplace_argmax([1.0, 1.0 + 2**-52, 1.0], 1e150) == 1
    assert exact.laplace_argmax([-5e-324, 0.0, -1e308], 1e-150) == 1
    monkeypatch.setattr(exact, "discrete_laplace", lambda *_: exact._on_lattice(5e-324))
    assert exact.laplace_argmax([1e308, math.nextafter(1e308, 0)], 1.0) == 0


def discrete_max_law(scores, scale):
    """The law of the first largest score plus discrete Laplace noise, on the integers."""
    grid = np.arange(-200, 201)
    pmf = math.tanh(1 / (2 * scale)) * np.exp(-np.abs(grid) / scale)
    at_most = np.cumsum(pmf)

    def cdf(x):
        return at_most[np.clip(x + 200, 0, 400)]

    def wins(i):
        beaten = [cdf(grid + scores[i] - s - (j < i)) for j, s in enumerate(scores) if j != i]
        return np.sum(pmf * np.prod(beaten, axis=0))

    return np.array([wins(i) for i in range(len(scores))])


@pytest.mark.parametrize("scores", [(0, 0, 0), (5, 4, 0), (0, 3, 3), (9, 0, 1)])
def test_discrete_noisy_max_is_private_to_the_last_step(scores):
    """The proof in laplace_argmax, by enumeration on a lattice as coarse as the sensitivity."""
    scale = 4.0
    law = discrete_max_law(scores, scale)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    for move in product((-1, 0, 1), repeat=3):
        loss = np.abs(np.log(discrete_max_law(np.add(scores, move), scale) / law)).max()
        one_way = min(move) >= 0 or max(move) <= 0
        assert loss <= (1 if one_way else 2) / scale + 1e-12


def test_exact_laplace_argmax_law():
    n, scores, scale = 4000, [0.0, -1.0, -2.5], 2.0
    law = law_by_quadrature("laplace", scores, scale)
    counts = np.bincount([exact.laplace_argmax(scores, scale) for _ in range(n)], minlength=3)
    for count, p in zip(counts, law, strict=True):
        assert_rate(count, n, p)
    with pytest.raises(AssertionError):
        assert_rate(counts[0], n, law_by_quadrature("laplace", scores, scale / 2)[0])


def continuous_delta(threshold, epsilon):
    return max(0.0, 1 - math.exp((threshold - epsilon) / 2))


def test_lattice_laplace_costs_at_most_a_quarter_step_squared():
    """The lemma of the module, by enumeration, with a step that is not negligible."""
    a, shifts = 0.25, (3, 2)
    grid = np.arange(-150, 151)

    def log_pmf(shift):
        return math.log(math.tanh(a / 2)) - a * np.abs(grid - shift)

    log_p = np.add.outer(log_pmf(0), log_pmf(0))
    log_q = np.add.outer(log_pmf(shifts[0]), log_pmf(shifts[1]))
    epsilon, lost = a * sum(shifts), len(shifts) * a**2 / 4
    above = 0
    for t in np.linspace(-0.2, epsilon, 57):
        delta = np.maximum(np.exp(log_p) - np.exp(t + log_q), 0).sum()
        assert delta <= continuous_delta(t, epsilon + lost) + 1e-12
    for t in np.linspace(0, 0.75, 31):  # one coordinate: the continuous curve itself is exceeded
        delta = np.maximum(np.exp(log_pmf(0)) - np.exp(t + log_pmf(3)), 0).sum()
        above += delta > continuous_delta(t, 0.75) + 1e-6
        assert delta <= continuous_delta(t, 0.75 + a**2 / 4) + 1e-12
    assert above > 10


@pytest.fixture
def measured(monkeypatch):
    """The OpenDP measurements that releases were made with."""
    seen = []
    monkeypatch.setattr(exact, "add_noise", lambda m, values: seen.append(m) or values)
    return seen


def assert_scale_is_larger(measurement, event, sensitivity):
    """By a last bit at least: that pays for the lattice."""
    arguments = measurement.__opendp_dict__["__kwargs__"]
    assert arguments["k"] == -1074  # the lattice on which every float lies
    scale = arguments["scale"]
    needed = Fraction(event.noise_multiplier) * Fraction(sensitivity)
    assert Fraction(math.nextafter(scale, 0)) >= needed


PARAMETERS = [(1.0, 1.0), (0.3, 1.0), (1 / 3, 0.7), (0.1, 3.3), (7.7, 1e-9), (1e-7, 12345.678)]


@pytest.mark.parametrize(("epsilon", "sensitivity"), PARAMETERS)
def test_laplace_event_is_never_below_opendps_price(measured, epsilon, sensitivity):
    event = laplace(np.zeros(3), sensitivity=sensitivity, epsilon=epsilon).event
    price = Fraction(measured[0].map(sensitivity))
    assert price <= 1 / Fraction(event.noise_multiplier) <= Fraction(epsilon)
    assert price >= Fraction(epsilon) * (1 - Fraction(1, 10**14))
    assert_scale_is_larger(measured[0], event, sensitivity)


@pytest.mark.parametrize(("rho", "sensitivity"), PARAMETERS)
def test_gaussian_event_is_never_below_opendps_price(measured, rho, sensitivity):
    event = gaussian(np.zeros(3), sensitivity=sensitivity, rho=rho).event
    price = Fraction(measured[0].map(sensitivity))
    assert price <= 1 / (2 * Fraction(event.noise_multiplier) ** 2) <= Fraction(rho)
    assert price >= Fraction(rho) * (1 - Fraction(1, 10**14))
    assert_scale_is_larger(measured[0], event, sensitivity)


@pytest.mark.parametrize(
    ("mechanism", "privacy", "most"),
    [(laplace, {"epsilon": 0.5}, Fraction(1, 2)), (gaussian, {"mu": 0.5}, Fraction(1, 8))],
)
def test_the_price_that_is_asked_for(monkeypatch, measured, mechanism, privacy, most):
    asked = []
    monkeypatch.setattr(exact, "additive", lambda *arguments: asked.append(arguments))
    mechanism(0.0, sensitivity=3.0, **privacy)
    assert asked == [(mechanism.__name__, 6.0, 3.0, most)]


def test_scale_grows_until_the_price_is_met():
    class Measurement:
        def __init__(self, scale):
            self.scale = scale

        def map(self, sensitivity):
            return sensitivity if self.scale > 1 + 3 * 2**-52 else 2 * sensitivity

    assert exact._priced(Measurement, 1.0, 5.0, Fraction(5)).scale == 1 + 4 * 2**-52
    assert exact._priced(Measurement, 1.0, 5.0, Fraction(10)).scale == 1.0


@pytest.mark.parametrize("mu", [1 / 3, 0.3, 0.1, 0.7, 49.0])
def test_gaussian_multiplier_is_rounded_up(mu):
    assert 1 / Fraction(gaussian_multiplier(mu=mu)) <= Fraction(mu)


def test_without_enlarging_the_scale_the_event_would_be_untrue():
    lib = exact._opendp()
    metric = lib.metrics.l1_distance(T=float)
    prices = [
        lib.make.make_laplace(lib.vector, metric, s / e).map(s) > e
        for e, s in product((0.1, 0.3, 1 / 3, 0.7), (1.0, 0.7, 3.3))
    ]
    assert any(prices)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(("epsilon", "sensitivity"), PARAMETERS)
def test_selection_is_priced_at_its_event(epsilon, sensitivity, monotone):
    factor = 1 if monotone else 2
    arguments = (float(factor * sensitivity / epsilon), sensitivity, monotone, epsilon)
    gumbel = Fraction(exact.selection("gumbel", *arguments).map(sensitivity))
    exponential = Fraction(exact.selection("exponential", *arguments).map(sensitivity))
    nearly = 1 - Fraction(1, 10**14)
    assert nearly * Fraction(epsilon) ** 2 / 8 <= gumbel <= Fraction(epsilon) ** 2 / 8
    assert nearly * Fraction(epsilon) <= exponential <= Fraction(epsilon)


@given(
    epsilon=st.floats(1e-6, 50),
    sensitivity=st.floats(1e-6, 1e6),
    noise=st.sampled_from(["laplace", "exponential", "gumbel"]),
    monotone=st.booleans(),
)
def test_selection_scale_is_never_too_small(epsilon, sensitivity, noise, monotone):
    seen = []

    def record(kind, scale, *rest):
        seen.append((kind, scale))
        return lambda scores: 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "selection", record)
        release = report_noisy_max(
            [0.0, 1.0], sensitivity=sensitivity, epsilon=epsilon, noise=noise, monotone=monotone
        )
    (kind, scale), factor = seen[0], 1 if monotone else 2
    assert kind == noise
    assert Fraction(scale) >= factor * Fraction(sensitivity) / Fraction(epsilon)
    assert scale <= factor * sensitivity / epsilon * (1 + 1e-15)
    assert release.event == (
        events.BoundedRange(epsilon) if noise == "gumbel" else events.Pure(epsilon)
    )
