"""Lattice noise: that the events are upper bounds, and that rounding is paid for."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import exact, gaussian, gaussian_multiplier, laplace, lattice, noise
from dpassay.privacy.gaussian import delta_of

PARAMETERS = [(1.0, 1.0), (0.3, 1.0), (1 / 3, 0.7), (0.1, 3.3), (7.7, 1e-9), (1e-5, 12345.678)]
MECHANISMS = {
    "laplace": (laplace, lambda s: {"epsilon": s}),
    "gaussian": (gaussian, lambda s: {"mu": s}),
}


@pytest.fixture
def used(monkeypatch):
    """The lattices that releases were made with; nothing is drawn."""
    seen = []
    monkeypatch.setattr(exact, "add_noise", lambda values, where, _: seen.append(where) or values)
    return seen


# The proofs of the module, by enumeration on lattices that are not fine.


def laplace_delta(threshold, epsilon):
    return max(0.0, 1 - math.exp((threshold - epsilon) / 2))


def hockey_stick(log_p, log_q, epsilon):
    return np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0).sum()


def test_lattice_laplace_costs_at_most_a_quarter_step_squared():
    a, shifts = 0.25, (3, 2)
    grid = np.arange(-150, 151)

    def log_pmf(shift):
        return math.log(math.tanh(a / 2)) - a * np.abs(grid - shift)

    log_p = np.add.outer(log_pmf(0), log_pmf(0))
    log_q = np.add.outer(log_pmf(shifts[0]), log_pmf(shifts[1]))
    epsilon, lost = a * sum(shifts), len(shifts) * a**2 / 4
    above = 0
    for t in np.linspace(-0.2, epsilon, 57):
        assert hockey_stick(log_p, log_q, t) <= laplace_delta(t, epsilon + lost) + 1e-12
    for t in np.linspace(0, 0.75, 31):  # one coordinate: the continuous curve itself is exceeded
        delta = hockey_stick(log_pmf(0), log_pmf(3), t)
        above += delta > laplace_delta(t, 0.75) + 1e-6
        assert delta <= laplace_delta(t, 0.75 + a**2 / 4) + 1e-12
    assert above > 10


def gaussian_log_pmf(scale, shift, most):
    grid = np.arange(-14 * scale, 14 * scale + most + 1)
    normaliser = np.log(np.exp(-(grid**2) / (2 * scale**2)).sum())
    return -((grid - shift) ** 2) / (2 * scale**2) - normaliser


@pytest.mark.parametrize("scale", [3, 5, 10, 40])
def test_discrete_gaussian_is_covered_by_a_slightly_larger_distance(scale):
    """The claim of the module; and the distance itself would not do."""
    for shift in (1, 2, scale, 3 * scale):
        mu = shift / scale
        log_p = gaussian_log_pmf(scale, 0, shift)
        log_q = gaussian_log_pmf(scale, shift, shift)
        epsilons = np.linspace(0, mu * mu / 2 + 5 * mu, 200)
        delta = np.array([hockey_stick(log_p, log_q, epsilon) for epsilon in epsilons])
        excess = delta - delta_of(epsilons, np.asarray(mu))
        assert excess.max() > 1e-7
        assert (delta <= delta_of(epsilons, np.asarray(mu * (1 + 2 / scale))) + 1e-14).all()
        # The leading term of the proof is 1/24 of what it allows, and this is what is seen.
        closer = delta_of(epsilons, np.asarray(mu * (1 + 1.1 / (24 * scale**2))))
        assert (delta <= closer + 1e-14).all()


def test_two_moved_entries_are_covered_together():
    scale, shifts = 4, (3, 2)
    log_p = np.add.outer(gaussian_log_pmf(scale, 0, 0), gaussian_log_pmf(scale, 0, 0))
    log_q = np.add.outer(*(gaussian_log_pmf(scale, shift, 0) for shift in shifts))
    mu = math.hypot(*shifts) / scale * (1 + 2 / scale)
    for epsilon in np.linspace(0, 3, 31):
        assert hockey_stick(log_p, log_q, epsilon) <= delta_of(epsilon, np.asarray(mu)) + 1e-12


# What is charged.


def steps_moved(law, where, sensitivity, size, *, rounded=True):
    """The most steps that one record moves, in the law's norm; from the definition."""
    steps = Fraction(sensitivity) / Fraction(where.step)
    if not rounded:
        return steps
    return steps + size if law == "laplace" else steps + Fraction(math.sqrt(size)) * (1 - 2**-50)


@pytest.mark.parametrize("law", MECHANISMS)
@pytest.mark.parametrize("size", [1, 1000, 10**5])
@pytest.mark.parametrize(("privacy", "sensitivity"), PARAMETERS)
def test_events_are_upper_bounds(used, law, size, privacy, sensitivity):
    mechanism, parameter = MECHANISMS[law]
    event = mechanism(np.zeros(size), sensitivity=sensitivity, **parameter(privacy)).event
    (where,) = used
    most = 1 / Fraction(event.noise_multiplier)
    assert most <= Fraction(privacy)
    moved, t = steps_moved(law, where, sensitivity, size), where.scale
    cost = moved / t * (1 + Fraction(1, 4 * t) if law == "laplace" else 1 + Fraction(2, t))
    assert cost <= most
    # Not much more noise than that: rounding, and the ceiling.
    assert where.scale * Fraction(where.step) <= sensitivity / most * Fraction(1001, 1000)
    assert exact.STEPS <= where.scale < 2.01 * exact.STEPS
    assert math.frexp(where.step)[0] == 0.5


@pytest.mark.parametrize("law", MECHANISMS)
def test_without_the_charge_for_rounding_the_event_would_be_untrue(used, law):
    mechanism, parameter = MECHANISMS[law]
    mechanism(np.zeros(10**6), sensitivity=1.0, **parameter(1.0))
    (where,) = used
    uncharged = math.ceil(Fraction(1) / Fraction(where.step)) + 2
    assert uncharged < steps_moved(law, where, 1.0, 10**6)
    assert where.scale >= steps_moved(law, where, 1.0, 10**6)


def test_rounding_does_move_entries_by_a_step_more():
    where = exact.lattice_for("laplace", 1.0, 1.0, 3)
    half = where.step / 2
    low, high = np.full(3, half * (1 - 1e-9)), np.full(3, half * (1 + 1e-9))
    moved = exact.on_lattice(high, where.step) - exact.on_lattice(low, where.step)
    assert (moved == where.step).all()


@pytest.mark.parametrize("law", MECHANISMS)
def test_integer_queries_pay_nothing(used, law):
    mechanism, parameter = MECHANISMS[law]
    for value in (np.zeros(10**6, np.int64), np.zeros(10**6), np.zeros(10**6, bool), 3, 3.0):
        mechanism(value, sensitivity=1.0, **parameter(1.0))
    integers, floats, truths, one, one_float = used
    assert integers == truths == one
    assert integers.scale == exact.STEPS + (1 if law == "laplace" else 2)
    assert floats.scale >= exact.STEPS + (10**6 if law == "laplace" else 1000)
    assert one_float.scale > one.scale
    # A lattice with steps above 1 rounds integers too.
    mechanism(np.zeros(100, np.int64), sensitivity=2.0**60, **parameter(1.0))
    assert used[-1].step > 1
    assert used[-1].scale >= exact.STEPS + (100 if law == "laplace" else 10)


def test_too_many_entries_for_the_noise_are_refused():
    with pytest.raises(InvalidArgument, match="fewer entries"):
        laplace(np.zeros(10**5), sensitivity=1.0, epsilon=1e-7)
    with pytest.raises(InvalidArgument, match="fewer entries"):
        gaussian(np.zeros(10**5), sensitivity=1.0, mu=1e-9)
    assert laplace(np.zeros(10**5, int), sensitivity=1.0, epsilon=1e-7).noise == "exact"
    with pytest.raises(InvalidArgument, match="no privacy to speak of"):
        gaussian(0.0, sensitivity=1.0, mu=1e14)


@pytest.mark.parametrize("mu", [1 / 3, 0.3, 0.1, 0.7, 49.0])
def test_gaussian_multiplier_is_rounded_up(mu):
    assert 1 / Fraction(gaussian_multiplier(mu=mu)) <= Fraction(mu)


# Adding.


def fixed(monkeypatch, *draws):
    monkeypatch.setattr(lattice, "draw", lambda *_: np.array(draws))


def added(values, step, law="laplace"):
    return exact.add_noise(np.asarray(values), exact.Lattice(law, step, 1), None)


def test_the_output_is_a_function_of_the_lattice_point(monkeypatch):
    """Whatever of the sum is value and whatever is noise, also where floats are coarse."""
    rng, step = np.random.default_rng(4), 2.0**-46
    points = np.concatenate([rng.integers(-(2**50), 2**50, 500), 2 ** np.arange(54) - 1])
    shares = rng.integers(-(2**52), 2**52, len(points))
    fixed(monkeypatch, *(points - shares))
    split = added(shares * step, step)
    fixed(monkeypatch, *points)
    assert np.array_equal(split, added(np.zeros(len(points)), step))
    assert np.array_equal(split, [float(Fraction(int(p)) * Fraction(step)) for p in points])


def test_zero_has_one_sign(monkeypatch):
    fixed(monkeypatch, 0, 0, -1, 1)
    zeros = added([-0.0, -1e-30, 2.0**-46, -(2.0**-46)], 2.0**-46)
    assert zeros.tolist() == [0, 0, 0, 0]
    assert not np.signbit(zeros).any()


def test_draws_that_are_no_floats_are_added_exactly(monkeypatch):
    big = 2**53 + 1
    fixed(monkeypatch, big, -big, 3, 2**80 + 1)
    noisy = added([1.0, -1.0, 0.5, 0.0], 1.0)
    assert noisy.tolist() == [2.0**53 + 2, -(2.0**53) - 2, 3.0, 2.0**80]


def test_large_integers_are_added_exactly(monkeypatch):
    fixed(monkeypatch, 1, 3)
    assert added(np.array([2**53 + 1, 5]), 1.0).tolist() == [2.0**53 + 2, 8.0]
    fixed(monkeypatch, 1)
    assert added(np.array([2**64 - 1], np.uint64), 1.0).tolist() == [2.0**64]
    fixed(monkeypatch, -1)
    assert added(np.array([-(2**63)]), 1.0).tolist() == [-(2.0**63)]


@pytest.mark.parametrize("law", MECHANISMS)
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_scales_and_values_where_floats_end(law, scale):
    mechanism, parameter = MECHANISMS[law]
    value = np.array([0.0, 5e-324, -1e-310, 1.0, -1e308, 1.7e308])
    noisy = mechanism(np.repeat(value, 200), sensitivity=scale, **parameter(1.0)).value
    assert np.isfinite(noisy).all()
    spread = np.abs(noisy[:600]).mean() / scale
    assert 0.6 < spread < 1.4
    if scale < 1:
        assert (noisy[600:].reshape(3, 200) == value[3:, None]).all() == (scale < 1e-20)


def test_sums_that_overflow_are_the_largest_float(monkeypatch):
    fixed(monkeypatch, 2**52, -(2**52), 2**200)
    most = np.finfo(float).max
    assert added([most, -most, 0.0], 2.0**950).tolist() == [most, -most, most]


@pytest.mark.parametrize("law", MECHANISMS)
def test_a_secure_generator_gives_exact_noise_of_its_bits(law):
    mechanism, parameter = MECHANISMS[law]
    release = mechanism(
        np.zeros(3000), sensitivity=1.0, rng=noise.secure_generator(), **parameter(1)
    )
    assert release.noise == "exact"
    scaled = release.value * exact.STEPS
    assert np.array_equal(scaled, np.rint(scaled))
