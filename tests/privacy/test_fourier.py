"""The Fourier accountant: bounds on every error against mpmath, the whole against known curves."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import special

import dpassay as da
from dpassay._special.margins import UNIT
from dpassay.errors import UnsupportedEvent
from dpassay.privacy import events, gaussian
from dpassay.privacy.fourier import Fourier, price_gaussians
from dpassay.privacy.fourier.direction import Direction
from dpassay.privacy.fourier.laws import SampledGaussian, exp_remainder
from dpassay.privacy.fourier.transform import cumulant
from dpassay.privacy.profiles import profiles

# Rate, noise, steps, delta, and epsilon from an independent prototype of the same method; all lie
# between a rigorous lower bound and 1 % above it.
TABLE = [
    (1e-2, 1.0, 10**3, 1e-5, 1.8287),
    (1e-6, 0.5, 10**7, 1e-7, 0.30014),
    (1e-6, 0.5, 10**7, 1e-9, 0.95095),
    (1e-8, 1.0, 10**12, 1e-6, 0.045091),
    (1e-8, 1.0, 10**14, 1e-6, 0.530348),
    (1e-8, 1.0, 10**16, 1e-6, 6.6703),
    (0.5, 5.0, 100, 1e-6, 5.0221),
]
EXTREMES = [(1e-8, 1.0, 1e-20), (0.3, 0.12, 1e-12), (0.97, 40.0, 1e-40), (1e-3, 2.0, 1e-4)]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def _normal(z):
    return mp.erfc(-z / mp.sqrt(2)) / 2


# What the proofs take for granted of NumPy and SciPy.


@pytest.mark.parametrize(
    ("ours", "exact", "low", "high"),
    [
        (np.exp, mp.exp, -700, 700),
        (np.expm1, mp.expm1, -30, 30),
        (np.expm1, mp.expm1, -1e-3, 1e-3),
        (np.log, mp.log, 1e-9, 1e9),
        (np.log1p, mp.log1p, -0.5, 1e3),
        (np.sin, mp.sin, -1e4, 1e4),
        (special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), 0, 100),
    ],
)
def test_functions_are_within_16_roundings(ours, exact, low, high):
    points = np.random.default_rng(0).uniform(low, high, 100)
    values = ours(points)
    for point, value in zip(points.tolist(), values.tolist(), strict=True):
        truth = exact(mp.mpf(point))
        assert abs(value - truth) <= 16 * UNIT * abs(truth), point


def test_the_normal_distribution_function_is_within_its_bound():
    z = np.random.default_rng(1).uniform(-37, 0, 200)
    for point, value in zip(z.tolist(), special.ndtr(z).tolist(), strict=True):
        truth = _normal(mp.mpf(point))
        assert abs(value - truth) <= (32 + 4 * point**2) * UNIT * truth


@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.4999, 0.5001, 3.0, 30.0])
def test_remainder_of_the_exponential_is_within_its_bound(size):
    for angle in np.linspace(0, 2 * np.pi, 9):
        y = size * np.exp(1j * angle)
        truth = mp.exp(mp.mpc(y)) - 1 - mp.mpc(y)
        bound = 100 * UNIT * max(1.0, math.exp(y.real)) * abs(y) ** 2
        assert abs(mp.mpc(complex(exp_remainder(np.array([y]))[0])) - truth) <= bound


# Laws and transform against the exact law of the same nodes.


def _exact(cells: SampledGaussian, first: int, last: int):
    """Likelihood ratios and Q-masses of the nodes between two, and masses outside; closed forms."""
    s, q = mp.mpf(cells.s), mp.mpf(cells.q)
    a = [mp.mpf(float(v)) for v in cells.a[:last]]
    z = [s * v + 1 / (2 * s) for v in a]
    w = [mp.mpf(0), *(mp.exp(v) for v in a)]

    def mass(j, shift):  # of cell j, between the nodes j and j + 1; node 0 is at -infinity
        high = z[j] - shift
        if j == 0:
            return _normal(high)
        low = z[j - 1] - shift
        return _normal(high) - _normal(low) if high < 0 else _normal(-low) - _normal(-high)

    masses = [mp.mpf(0)] * (last + 1)
    for j in range(first, last):
        plain, shifted = mass(j, 0), mass(j, 1 / s)
        right = (shifted - w[j] * plain) / (w[j + 1] - w[j])
        masses[j] += plain - right
        masses[j + 1] += right
    ratios = [1 - q + q * v for v in w]
    below = _normal(z[first - 1]) if first else mp.mpf(0)
    beyond = _normal(-z[-1])
    tail = (1 - q) * beyond + q * _normal(1 / s - z[-1])
    return ratios[first:], masses[first:], below, beyond, tail


def _law_and_truth(kind: str, rate: float, noise: float, tail: float):
    """Our law, the exact masses and losses that it rounds, and the exact mass at infinity."""
    cells = SampledGaussian(noise, rate, spacing=0.08)
    first = cells._first(tail) if kind == "add" else 0
    last = cells._last(1e-6 * tail if kind == "add" else tail)
    ratios, masses, below, beyond, far = _exact(cells, first, last)
    law = getattr(cells, kind)(tail)
    if kind == "remove":
        pairs = [(r * m, mp.log(r)) for r, m in zip(ratios, masses, strict=True)]
        return law, pairs, far
    masses[-1] += beyond
    mirrored = [(m, -mp.log(r)) for r, m in zip(ratios, masses, strict=True)]
    if kind == "add":
        return law, mirrored, below
    masses[-1] -= beyond
    pairs = [(r * m, mp.log(r)) for r, m in zip(ratios, masses, strict=True) if r > 1]
    return law, [*(p for p in reversed(mirrored) if p[1] < 0), *pairs], far


@pytest.mark.parametrize("kind", ["remove", "add", "replace"])
@pytest.mark.parametrize("case", EXTREMES)
def test_masses_and_losses_are_within_their_errors(kind, case):
    law, pairs, infinite = _law_and_truth(kind, *case)
    assert len(pairs) == law.losses.size
    assert law.infinite >= infinite
    for p, error, x, (mass, loss) in zip(law.masses, law.errors, law.losses, pairs, strict=True):
        assert abs(float(p) - mass) <= float(error)
        assert abs(float(x) - loss) <= law.loss_error * abs(loss)


@pytest.mark.parametrize("kind", ["remove", "add", "replace"])
@pytest.mark.parametrize("case", EXTREMES)
def test_cumulants_are_within_their_errors_at_any_number_of_steps(kind, case):
    law, pairs, infinite = _law_and_truth(kind, *case)
    rng = np.random.default_rng(2)
    deviation = math.sqrt(float(law.masses @ np.square(law.losses)))
    for steps in (1, 10**8, 10**16):
        c = 10 ** rng.uniform(-3, 0.5) / (deviation * math.sqrt(steps))
        step = 10 ** rng.uniform(-3, 0) / (deviation * math.sqrt(steps))
        values, errors = cumulant([(law, steps)], c, step, 40)
        k = int(rng.integers(40))
        theta = mp.mpc(c, mp.mpf(step) * k)
        # What the law leaves out at loss zero adds nothing to M - 1.
        moment = sum(mass * mp.expm1(theta * loss) for mass, loss in pairs) - infinite
        factor = mp.exp(steps * mp.log1p(moment) - mp.mpc(complex(values[k])))
        assert abs(factor - 1) <= mp.expm1(mp.mpf(float(errors[k])))
        assert errors[k] < 1e-6 or steps * case[-1] > 1e-3  # far more at infinity than is used


# Whole curves against known ones.


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.3, 0.7), (1e-4, 3.0), (0.9, 20.0)])
def test_one_step_is_never_below_its_closed_form(rate, noise):
    epsilons = np.array([0.0, 1e-4, 0.01, 0.1, 0.3, 1.0, 2.0])
    removing, adding = profiles(events.Sampled(events.Gaussian(noise), rate))
    curve = price_gaussians([(noise, rate, 1)])
    for direction, truth in zip(curve.directions, (removing, adding), strict=True):
        assert np.all(direction.delta(epsilons) >= truth(epsilons))
    both = np.maximum(removing(epsilons), adding(epsilons))
    seen = both > 1e-9
    assert np.all(curve.delta(epsilons)[seen] <= 1.01 * both[seen])


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.3, 0.7), (0.9, 20.0)])
def test_one_step_without_replacement_is_never_below_its_closed_form(rate, noise):
    epsilons = np.array([0.0, 1e-4, 0.01, 0.1, 0.3, 1.0])
    event = events.Sampled(events.Gaussian(noise, "replace-one"), rate, "without-replacement")
    truth = profiles(event)[0](epsilons)
    ours = price_gaussians([(noise, rate, 1)], replace=True).delta(epsilons)
    assert np.all(ours >= truth)
    assert np.all(ours[truth > 1e-9] <= 1.02 * truth[truth > 1e-9])


@pytest.mark.parametrize(("noise", "steps"), [(10.0, 100), (300.0, 10**5), (1e4, 10**8)])
def test_rates_near_one_are_gaussian_dp(noise, steps):
    curve = price_gaussians([(noise, 1 - 1e-15, steps)])
    for delta in (0.1, 1e-6, 1e-15, 1e-30):
        truth = float(gaussian.epsilon_of(delta, math.sqrt(steps) / noise))
        assert truth * (1 - 1e-12) <= curve.epsilon(delta) <= truth * (1 + 2e-4) + 1e-9


@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "epsilon"), TABLE)
def test_table(rate, noise, steps, delta, epsilon):
    ours = price_gaussians([(noise, rate, steps)])
    found = ours.epsilon(delta)
    assert found == pytest.approx(epsilon, rel=2e-3)
    assert ours.delta(found) <= delta
    assert ours.delta_lower(0.99 * found) > delta


@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.02, 0.8, 300), (0.2, 3.0, 1000)])
def test_agrees_with_the_distribution_and_lies_above_the_lower_bound(rate, noise, steps):
    event = da.dp_sgd_event(noise, rate, steps)
    ours, pld = da.account(event, "fourier"), da.account(event, "pld")
    assert isinstance(ours, Fourier)
    epsilons = np.array([0.0, 0.5, 2.0, 4.0])
    upper = pld.delta(epsilons)
    assert np.all(ours.delta(epsilons) <= 1.002 * upper)
    for epsilon, delta in zip(epsilons[1:3], ours.delta(epsilons[1:3]), strict=True):
        assert 0.98 * delta <= ours.delta_lower(epsilon) <= delta


def test_a_law_below_the_truth_would_be_seen():
    cells = SampledGaussian(1.0, 0.01, spacing=0.3)
    truth = profiles(events.Sampled(events.Gaussian(1.0), 0.01))[0](np.array([0.1]))
    rounded_up = Direction(lambda tail: [(cells.remove(tail), 1)])
    collapsed = Direction(lambda tail: [(cells.collapse(tail), 1)])
    assert collapsed.delta(np.array([0.1])) < truth < rounded_up.delta(np.array([0.1]))


def test_different_steps_and_plain_gaussians_compose():
    parts = [(1.0, 0.01, 600), (2.0, 0.1, 400)]
    event = events.Sequence(
        (*(da.dp_sgd_event(s, q, n) for s, q, n in parts), events.Repeated(events.Gaussian(9.0), 4))
    )
    ours, pld = da.account(event, "fourier"), da.account(event, "pld")
    direct = price_gaussians(parts, 4 / 81)
    for delta in (1e-3, 1e-6, 1e-9):
        assert ours.epsilon(delta) == direct.epsilon(delta)
        assert ours.epsilon(delta) == pytest.approx(pld.epsilon(delta), rel=3e-4)
        assert direct.delta_lower(0.995 * ours.epsilon(delta)) > delta


def test_counts_add():
    whole, halves = (
        price_gaussians([(0.9, 0.02, 500)]),
        price_gaussians([(0.9, 0.02, 250)] * 2),
    )
    assert whole.epsilon(1e-6) == pytest.approx(halves.epsilon(1e-6), rel=1e-6)


def test_without_replacement_agrees_with_the_distribution():
    inner = events.Gaussian(2.0, "replace-one")
    event = events.Repeated(events.Sampled(inner, 0.1, "without-replacement"), 200)
    ours, pld = da.account(event, "fourier"), da.account(event, "pld")
    for delta in (1e-3, 1e-7):
        assert ours.epsilon(delta) == pytest.approx(pld.epsilon(delta), rel=3e-4)
    with pytest.raises(UnsupportedEvent, match="add-remove"):
        price_gaussians([(2.0, 0.1, 200)], replace=True).delta_lower(1.0)


# How curves behave.


def test_more_steps_cost_more_and_more_epsilon_needs_less_delta():
    epsilons = [price_gaussians([(0.6, 1e-5, 10**k)]).epsilon(1e-6) for k in range(3, 13)]
    assert epsilons == sorted(epsilons)
    curve = price_gaussians([(0.6, 1e-3, 10**4)])
    deltas = curve.delta(np.linspace(0, 6, 80))
    assert np.all(np.diff(deltas) < 0)


def test_answers_do_not_depend_on_what_was_asked_before():
    curve = price_gaussians([(1.0, 0.01, 1000)])
    x = np.linspace(0, 3, 7)
    together = curve.delta(x)
    alone = [price_gaussians([(1.0, 0.01, 1000)]).delta(e) for e in x]
    assert together == pytest.approx(alone, rel=1e-13)
    assert curve.delta(x[3]) == together[3]
    assert curve.epsilon([1e-5, 1e-3]).tolist() == [curve.epsilon(1e-5), curve.epsilon(1e-3)]


@pytest.mark.parametrize("delta", [0.9, 1e-2, 1e-9, 1e-25, 1e-60, 1e-200])
@pytest.mark.parametrize(("rate", "noise", "steps"), [(1e-3, 0.3, 10**5), (0.05, 2.0, 500)])
def test_epsilon_is_seen_to_suffice(delta, rate, noise, steps):
    curve = price_gaussians([(noise, rate, steps)])
    epsilon = curve.epsilon(delta)
    assert math.isinf(epsilon) or curve.delta(epsilon) <= delta


@pytest.mark.parametrize("noise", [0.02, 1e6])
@pytest.mark.parametrize("rate", [1e-15, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("steps", [100, 10**25])
def test_extreme_events_have_a_price_without_warnings(noise, rate, steps):
    curve = price_gaussians([(noise, rate, steps)])
    deltas = curve.delta(np.array([0.0, 1e-9, 1.0, 700.0, np.inf]))
    assert np.all((deltas >= 0) & (deltas <= 1))
    assert curve.epsilon(1e-5) >= 0
    assert math.isinf(curve.epsilon(0.0))


def test_the_ends_of_the_curve():
    curve = price_gaussians([(1.0, 0.01, 1000)])
    assert curve.delta(np.inf) == 0
    assert curve.epsilon(1.0) == 0
    assert curve.tradeoff(0.0) == pytest.approx(1, abs=1e-9)
    pld = da.account(da.dp_sgd_event(1.0, 0.01, 1000), "pld")
    assert curve.tradeoff([0.01, 0.2]) == pytest.approx(pld.tradeoff([0.01, 0.2]), rel=1e-4)


# Accounting and calibration.


def test_best_is_tight_at_tiny_rates():
    event = da.dp_sgd_event(1.0, 1e-7, 10**11)
    curve = da.account(event, "fourier")
    assert (curve.kind, curve.method) == ("upper bound", "fourier")
    assert curve.epsilon(1e-6) == pytest.approx(0.15486, rel=1e-4)
    assert da.account(event).epsilon(1e-6) == curve.epsilon(1e-6)  # by distributions it was 0.326


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (events.Repeated(events.Laplace(1.0), 200), "Gaussian noise"),
        (da.dp_sgd_event(1.0, 0.1, 99), "100 sampled"),
        (events.Gaussian(1.0), "100 sampled"),
        (da.dp_sgd_event(0.01, 0.1, 200), "0.02 or more"),
    ],
)
def test_other_events_are_refused(event, reason):
    with pytest.raises(UnsupportedEvent, match=reason):
        da.account(event, "fourier")


def test_calibration_by_this_method_meets_the_target():
    noise = da.calibrate(
        lambda s: da.dp_sgd_event(s, 1e-6, 10**9), da.ApproxDP(0.5, 1e-8), method="fourier"
    )
    priced = da.account(da.dp_sgd_event(noise, 1e-6, 10**9), "fourier").epsilon(1e-8)
    assert 0.5 * (1 - 1e-6) <= priced <= 0.5


def test_best_does_not_wait_for_a_loss_distribution_of_very_many_steps():
    event = da.dp_sgd_event(noise_multiplier=1.0, sampling_rate=1e-8, steps=10**14)
    best = da.account(event)
    assert "pld" not in {curve.method for curve in best.curves}
    assert 0.5299 < best.epsilon(1e-6) < 0.5304
    few = da.account(da.dp_sgd_event(noise_multiplier=1.0, sampling_rate=0.01, steps=1000))
    assert {"pld", "fourier"} <= {curve.method for curve in few.curves}
