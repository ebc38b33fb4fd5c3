"""Poisson sampling under replace-one, users of several records, noisy maxima, adaptive selections.

Goldens are of mpmath at 40 digits or more; the composed ones are checked against a convolution
whose losses are rounded down.
"""

import math
from itertools import permutations

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.mechanisms import permute_and_flip
from dpassay.privacy import account, events, from_dict, range_composition, replaced, users
from dpassay.privacy.events import dp_sgd_event, sample_group

mp.mp.dps = 40
REPLACED = events.Sampled(events.Gaussian(1.0), 0.01, neighbouring="replace-one")


def one(values):
    return float(np.asarray(values)[0])


def inside(bracket, truth, width=1e-9):
    low, high = map(one, bracket)
    assert low <= truth <= high
    assert high - low <= width * max(truth, mp.mpf(10) ** -280)


# ----------------------------------------------------------------------------- replace-one


def true_replaced(s, q, x):
    s, q, x = mp.mpf(s), mp.mpf(q), mp.mpf(x)
    a, b = q * mp.e ** (-1 / (2 * s * s)), (1 - q) * mp.expm1(x)
    z = mp.log((b + mp.sqrt(b * b + 4 * a * a * mp.e**x)) / (2 * a)) * s * s
    middle = (1 - q) * mp.ncdf(-z / s)
    return middle + q * mp.ncdf((1 - z) / s) - mp.e**x * (middle + q * mp.ncdf((-1 - z) / s))


@pytest.mark.parametrize(
    ("s", "q", "x", "golden"),
    [
        (1.0, 0.1, 0.2, 0.0176137347265847),
        (1.0, 0.1, 0.5, 0.0033419717910138),
        (0.7, 0.3, 0.05, 0.2360169494),
        (2.0, 0.01, 0.05, 1.39691147e-6),
    ],
)
def test_gaussian_replaced(s, q, x, golden):
    low, high = replaced.gaussian_bracket(s, q, np.array([x]))
    assert one(low) == pytest.approx(golden, rel=1e-9)
    assert one(high) == pytest.approx(golden, rel=1e-9)


def test_gaussian_replaced_at_random():
    rng = np.random.default_rng(0)
    for _ in range(100):
        s, q, x = 10 ** rng.uniform([-1.3, -9, -9], [4, -0.01, 1])
        if (truth := true_replaced(s, q, x)) > mp.mpf(10) ** -290:
            inside(replaced.gaussian_bracket(s, q, np.array([x])), truth)


def test_other_noise_replaced_at_random():
    rng = np.random.default_rng(1)
    for i in range(200):
        s, q = 10 ** rng.uniform([-1.5, -9], [4, -0.001])
        x = rng.uniform(0, 2.2 / s) if i % 2 else 10 ** rng.uniform(-9, 1)
        e, y, rate = 1 / mp.mpf(s), mp.mpf(x), mp.mpf(q)
        k, big = (1 - rate) / rate * mp.expm1(y), mp.e**e
        laplace = max(mp.mpf(0), -rate * mp.expm1(mp.log(mp.e**y + k * big) / 2 - e))
        first = (big - mp.e**y / big - k) / (1 + big)
        second = (big**2 - mp.e**y - k * (1 + big**2 - big)) / (1 + big**2)
        pure = rate * max(mp.mpf(0), first, second)
        for found, truth in (
            (replaced.laplace_bracket(s, q, np.array([x])), laplace),
            (replaced.pure_bracket(1 / s, q, np.array([x])), pure),
        ):
            assert one(found[0]) <= truth <= one(found[1])
            assert one(found[1]) - one(found[0]) <= 1e-9 * q


@pytest.mark.parametrize(("x", "golden"), [(0.05, 0.0441405055), (0.2, 0.0052189579)])
def test_laplace_replaced_is_the_integral_of_its_pair(x, golden):
    """The best set of the pair with means -1, 0, 1 is found by brute force."""
    z = np.linspace(-30, 30, 2_000_001)
    laws = [np.exp(-np.abs(z - mean)) / 2 for mean in (1, 0, -1)]
    gain = 0.1 * laws[0] + 0.9 * laws[1] - math.exp(x) * (0.1 * laws[2] + 0.9 * laws[1])
    brute = np.maximum(gain, 0).sum() * (z[1] - z[0])
    assert brute == pytest.approx(golden, rel=1e-4)
    assert one(replaced.laplace_bracket(1.0, 0.1, np.array([x]))[1]) == pytest.approx(golden, 1e-8)


def test_no_pair_in_the_plane_is_worse():
    """Two clipped gradients at any angle lose to opposite ones."""
    s, q, x = 1.0, 0.3, 0.2
    grid = np.linspace(-7, 7, 561)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    cell = (grid[1] - grid[0]) ** 2 / (2 * np.pi * s * s)

    def law(mean):
        return cell * np.exp(-((a - mean[0]) ** 2 + (b - mean[1]) ** 2) / (2 * s * s))

    bound = one(replaced.gaussian_bracket(s, q, np.array([x]))[1])
    for angle in np.linspace(0.3, np.pi, 7):
        for length in (0.6, 1.0):
            v = length * np.array([np.cos(angle), np.sin(angle)])
            gain = (
                q * law((1, 0)) - math.exp(x) * q * law(v) - (1 - q) * math.expm1(x) * law((0, 0))
            )
            assert np.maximum(gain, 0).sum() <= bound * (1 + 1e-6)


def lower_deltas(loss, s, q, steps, epsilons, width=2e-4, spread=False):
    """Lower bounds on delta: losses of small cells rounded down to a grid, convolved by FFT.

    With ``spread``, close estimates: losses in the middle of cells, spread so that means are kept.
    """
    z = np.arange(-9 * s - 1, 9 * s + 1, 2e-3)
    mass = np.diff((1 - q) * norm.cdf(z, 0, s) + q * norm.cdf(z, 1, s))
    size = 1 << 18
    place = loss((z[:-1] + z[1:]) / 2 if spread else z[:-1]) / width
    cell = np.floor(place).astype(int)
    up = mass * (place - cell) if spread else 0 * mass
    pmf = np.bincount(cell % size, mass - up, size) + np.bincount((cell + 1) % size, up, size)
    total = np.maximum(np.fft.irfft(np.fft.rfft(pmf) ** steps, size), 0)
    losses = ((np.arange(size) + size // 2) % size - size // 2) * width
    return [np.sum(total * np.maximum(-np.expm1(e - losses), 0)) for e in epsilons]


@pytest.mark.parametrize(
    ("s", "q", "steps", "golden"), [(1.0, 0.01, 1000, 2.84346), (2.0, 0.1, 100, 4.36810)]
)
def test_replaced_composed(s, q, steps, golden):
    event = events.Repeated(
        events.Sampled(events.Gaussian(s), q, neighbouring="replace-one"), steps
    )

    def loss(z):
        return np.logaddexp(math.log1p(-q), math.log(q) + (z - 0.5) / s**2) - np.logaddexp(
            math.log1p(-q), math.log(q) + (-z - 0.5) / s**2
        )

    curve = account(event)
    assert curve.neighbouring == "replace-one"
    epsilon = curve.epsilon(1e-5)
    assert epsilon == pytest.approx(golden, abs=1e-4)
    here, below = lower_deltas(loss, s, q, steps, [epsilon, 0.9 * epsilon])
    assert here <= 1e-5 < below
    (close,) = lower_deltas(loss, s, q, steps, [epsilon], spread=True)
    assert 0.99e-5 <= close <= 1.001e-5  # a hundredth of delta is a thousandth of epsilon here


def test_whole_data_replaced():
    for inner, doubled in (
        (events.Gaussian(2.0), events.Gaussian(1.0, "replace-one")),
        (events.Laplace(2.0), events.Laplace(1.0, "replace-one")),
        (events.Pure(0.5), events.Pure(1.0, "replace-one")),
    ):
        found = account(events.Sampled(inner, 1.0, neighbouring="replace-one")).delta(0.7)
        assert found == pytest.approx(account(doubled, "pld").delta(0.7), rel=1e-3)
        nearly = account(events.Sampled(inner, 1 - 1e-9, neighbouring="replace-one")).delta(0.7)
        assert nearly == pytest.approx(found, rel=1e-3)


def test_restated_relation_is_written_and_read():
    assert from_dict(REPLACED.as_dict()) == REPLACED
    assert events.Sampled(events.Gaussian(1.0), 0.01) != REPLACED
    assert "neighbouring" not in events.Sampled(events.Gaussian(1.0), 0.01).as_dict()
    assert "replace-one" in repr(REPLACED)
    repeated = events.Sequence((REPLACED, events.Gaussian(3.0, "replace-one")))
    assert account(repeated).neighbouring == "replace-one"


def test_relations_that_cannot_be_restated():
    with pytest.raises(InvalidArgument, match="must be that of the event, 'replace-one'"):
        events.Sampled(events.Gaussian(1.0, "replace-one"), 0.1, neighbouring="add-remove")
    with pytest.raises(InvalidArgument, match="Only Poisson sampling"):
        events.Sampled(events.Gaussian(1.0), 0.1, "without-replacement", neighbouring="replace-one")
    with pytest.raises(UnsupportedEvent, match="State the inner event so"):
        account(events.Sampled(events.Gaussian(1.0, "replace-one"), 0.1))
    with pytest.raises(UnsupportedEvent, match="Gaussian, Laplace and Pure"):
        account(events.Sampled(events.BoundedRange(1.0), 0.1, neighbouring="replace-one"))
    for method in ("rdp", "zcdp", "fourier", "gdp-clt", "gdp"):
        with pytest.raises(UnsupportedEvent):
            account(events.Repeated(REPLACED, 200), method)


# ----------------------------------------------------------------------------- users


def true_user(s, law, x):
    s, x, law = mp.mpf(s), mp.mpf(x), [mp.mpf(p) for p in law]
    counts = [j for j in range(1, len(law)) if law[j]]
    total = sum(law[j] for j in counts)

    def solve(right):
        def left(y):
            return mp.log(sum(law[j] * mp.e ** (j * y - j * j / (2 * s * s)) for j in counts))

        y = min((mp.log(right) - mp.log(law[j]) + j * j / (2 * s * s)) / j for j in counts)
        return mp.findroot(lambda y: left(y) - mp.log(right), (y - 1, y), solver="anderson")

    t = solve(total + mp.expm1(x)) * s
    remove = sum(law[j] * mp.ncdf(j / s - t) for j in counts)
    remove -= (total + mp.expm1(x)) * mp.ncdf(-t)
    if (rest := total + mp.expm1(-x)) <= 0:
        return remove, mp.mpf(0)
    t = -solve(rest) * s
    add = mp.e**x * rest * mp.ncdf(-t)
    return remove, add - mp.e**x * sum(law[j] * mp.ncdf(-j / s - t) for j in counts)


@pytest.mark.parametrize(
    ("s", "q", "k", "goldens"),
    [
        (2.0, 0.05, 4, (0.0141460044557203, 2.8178505397843e-4, 4.1367972910e-6)),
        (1.0, 0.01, 8, (0.0129443031642849, 0.00148253830756, 2.4102482104775e-4)),
    ],
)
def test_groups(s, q, k, goldens):
    remove, add = users.brackets(s, users.binomial_law(k, q))
    low, high = remove(np.array([0.1, 0.5, 1.0]), 0.0)
    assert low == pytest.approx(goldens, rel=1e-11)
    assert high == pytest.approx(goldens, rel=1e-11)
    if k == 4:
        assert one(add(np.array([0.1]), 0.0)[1]) == pytest.approx(0.00288920975349, rel=1e-10)


def test_users_at_random():
    rng = np.random.default_rng(2)
    for i in range(24):
        k, s, x = int(rng.integers(1, 9)), 10 ** rng.uniform(-0.6, 2.5), 10 ** rng.uniform(-5, 0.6)
        law = rng.dirichlet(np.ones(k + 1))
        law = users.binomial_law(k, 10 ** rng.uniform(-6, -0.1)) if i % 2 else tuple(law)
        remove, add = users.brackets(s, law)
        for found, truth in zip((remove, add), true_user(s, law, x), strict=True):
            if truth == 0 or truth > mp.mpf(10) ** -250:
                inside(found(np.array([x]), 0.0), truth)


def test_a_group_of_one_is_a_record():
    plain, group = dp_sgd_event(1.0, 0.05, 100), events.Repeated(sample_group(1.0, 0.05, 1), 100)
    assert account(group).epsilon(1e-5) == pytest.approx(account(plain, "pld").epsilon(1e-5), 1e-4)
    twice = account(dp_sgd_event(1.0, 0.05, 100, group_size=2)).epsilon(1e-5)
    assert account(plain).epsilon(1e-5) < twice
    assert twice < account(dp_sgd_event(0.5, 0.1, 100)).epsilon(1e-5)


def test_users_of_bad_laws():
    with pytest.raises(InvalidArgument, match="sum to 1"):
        events.SampledUser(1.0, (0.5, 0.1))
    with pytest.raises(InvalidArgument, match=r"law\[1\]"):
        events.SampledUser(1.0, (0.5, math.nan))
    with pytest.raises(InvalidArgument, match="a user is added or removed"):
        events.SampledUser(1.0, (0.5, 0.5), "replace-one")
    with pytest.raises(InvalidArgument, match="group_size=2"):
        dp_sgd_event(1.0, 0.1, 10, group_size=2, neighbouring="replace-one")
    event = events.SampledUser(1.0, (0.5, 0.25, 0.25))
    assert from_dict(event.as_dict()) == event


# ----------------------------------------------------------------------------- noisy maxima


def test_noisy_maxima_have_laplace_curves():
    assert account(events.Repeated(events.NoisyMax(1.0), 100)).epsilon(1e-6) == pytest.approx(
        71.546
    )
    assert account(events.Repeated(events.NoisyMax(0.1), 1000)).epsilon(1e-6) == pytest.approx(
        18.950, abs=1e-3
    )
    assert account(events.NoisyMax(0.0)).epsilon(1e-6) == 0
    assert account(events.NoisyMax(0.3)).delta(0.0) >= -math.expm1(-0.15)
    assert permute_and_flip([0.0, 9.0], sensitivity=1.0, epsilon=1.0, rng=0).event == (
        events.NoisyMax(1.0)
    )


def permute_and_flip_law(scores, scale):
    """The exact law: in a random order, the first whose coin comes up."""
    chances = np.exp((scores - scores.max()) / scale)
    law, orders = np.zeros(scores.size), list(permutations(range(scores.size)))
    for order in orders:
        left = 1.0
        for i in order:
            law[i] += left * chances[i] / len(orders)
            left *= 1 - chances[i]
    return law


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_permute_and_flip_by_enumeration(epsilon):
    rng = np.random.default_rng(3)
    x = np.linspace(0, epsilon, 30)
    allowed = account(events.NoisyMax(epsilon)).delta(x)
    for _ in range(60):
        scores = rng.normal(size=int(rng.integers(2, 5))) * rng.choice([0.3, 1, 4])
        moved = scores + rng.choice([-1.0, 1.0], scores.size)
        p, q = (permute_and_flip_law(s, 2 / epsilon) for s in (scores, moved))
        seen = np.maximum(p - np.exp(x)[:, None] * q, 0).sum(axis=1)
        assert np.all(seen <= allowed * (1 + 1e-12) + 1e-15)


# ----------------------------------------------------------------------------- selections


def lower_value(epsilon, count, m):
    """The value of an adversary who chooses multiples of epsilon/m: a lower bound."""
    h = epsilon / m
    reach = (count + 1) * m
    x = np.arange(-reach, reach + 1) * h
    value = np.maximum(-np.expm1(x), 0)
    p = -np.expm1(h * np.arange(m + 1) - epsilon) / -math.expm1(-epsilon)
    for _ in range(count):
        padded = np.concatenate([-np.expm1(x[0] + h * np.arange(-m, 0)), value, np.zeros(m)])

        def at(shift, padded=padded):
            return padded[m - shift : m - shift + x.size]

        value = np.max([p[i] * at(i) + (1 - p[i]) * at(i - m) for i in range(m + 1)], axis=0)
    return x, value


@pytest.mark.parametrize(("epsilon", "count", "m"), [(0.5, 10, 40), (1.0, 3, 60), (0.1, 20, 20)])
def test_selections_between_two_roundings(epsilon, count, m):
    x, low = lower_value(epsilon, count, m)
    keep = (x >= 0) & (low > 1e-9)
    high = range_composition.delta(epsilon, count, x[keep])
    assert np.all(high >= low[keep] * (1 - 1e-12))
    common = low[keep] > 1e-3  # there the adversary's grid costs him little
    assert np.all(high[common] <= low[keep][common] * 1.01)


@pytest.mark.parametrize(
    ("epsilon", "count", "brackets"),
    [
        (0.1, 100, ((0.92366, 0.9245), (1.70031, 1.7016), (2.25081, 2.2530))),
        (0.5, 10, ((1.73075, 1.7311), (2.85191, 2.8525), (3.57942, 3.5801))),
        (1.0, 10, ((4.35134, 4.3520), (6.40816, 6.4090), (7.71620, 7.7170))),
        (0.1, 10, ((0.19512, 0.19517), (0.46513, 0.46524), (0.63415, 0.6343))),
    ],
)
def test_selections_composed(epsilon, count, brackets):
    curve = account(events.Repeated(events.BoundedRange(epsilon), count), "exponential")
    for delta, (low, high) in zip((1e-2, 1e-4, 1e-6), brackets, strict=True):
        assert low <= curve.epsilon(delta) <= high


def test_one_selection_is_its_own_profile():
    x = np.linspace(0, 1.2, 50)
    exact = account(events.BoundedRange(1.0), "pld").delta(x)
    composed = range_composition.delta(1.0, 1, x)
    assert np.all(composed >= np.expm1(np.minimum(x - 1, 0) / 2) ** 2 / -math.expm1(-1.0) - 1e-15)
    assert composed == pytest.approx(exact, abs=2e-5)


def test_selections_that_are_refused():
    mixed = events.Sequence((events.BoundedRange(1.0), events.BoundedRange(2.0)))
    with pytest.raises(UnsupportedEvent, match="of one epsilon"):
        account(mixed, "exponential")
    many = events.Repeated(events.BoundedRange(1.0), range_composition.MOST_ANSWERS + 1)
    with pytest.raises(UnsupportedEvent, match="composes up to"):
        account(many, "exponential")
    assert account(many).epsilon(1e-6) > 0


# ----------------------------------------------------------------------------- extremes


@pytest.mark.parametrize("noise", [1e-160, 1e-20, 1e-7, 1e-3, 1e8, 1e150])
@pytest.mark.parametrize("rate", [1e-300, 1e-12, 0.5, 1 - 1e-12])
def test_no_noise_and_no_rate_is_too_extreme(noise, rate):
    """Brackets stay brackets; where noise vanishes a sampled record is known: delta is the rate."""
    x = np.array([0.0, 1e-300, 1e-9, 0.1, 1.0, 30.0, 700.0, 1e5])
    remove, add = users.brackets(noise, users.binomial_law(3, rate))
    gaussian = replaced.gaussian_bracket(noise, rate, x)
    for low, high in (gaussian, remove(x, 0.0), add(x, 0.0)):
        assert np.all((low >= 0) & (low <= high) & (high <= 1))
    if noise <= 1e-3:
        assert np.all(gaussian[1][:5] >= rate * (1 - 1e-9))
        assert np.all(remove(x, 0.0)[1][:5] >= -math.expm1(3 * math.log1p(-rate)) * (1 - 1e-9))


def test_selections_of_a_tiny_epsilon_are_left_to_others():
    with pytest.raises(UnsupportedEvent, match="of epsilon 1e-05 to 20"):
        account(events.Repeated(events.BoundedRange(1e-300), 5), "exponential")
    low = lower_value(1e-5, 4, 6)
    assert np.all(range_composition.delta(1e-5, 4, low[0][low[0] >= 0]) >= low[1][low[0] >= 0])


@pytest.mark.parametrize("rate", [1e-300, 1e-3, 0.3, 1 - 1e-9, 1 - 2**-53, 1.0])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_chances_of_a_group_are_rounded_up(rate, size):
    """At 1e-3, powers of the rate underflow where chances are 1e-181; a rate of 1 was refused."""
    law = sample_group(1.0, rate, size).law
    assert all(0 <= p <= 1 for p in law)
    for j in {1, 2, 110, size // 2, size - 1, size} & set(range(1, size + 1)):
        q = mp.mpf(rate)
        truth = mp.binomial(size, j) * q**j * (1 - q) ** (size - j)
        if truth > 1e-307:
            assert truth <= law[j] <= min(truth * (1 + mp.mpf(10) ** -12), 1)


def test_whole_groups_are_gaussian():
    """Records that are in every batch add up."""
    whole = account(dp_sgd_event(3.0, 1.0, 4, group_size=3)).epsilon(1e-5)
    assert whole == pytest.approx(account(events.Gaussian(0.5)).epsilon(1e-5), rel=1e-3)
    assert whole >= account(events.Gaussian(0.5)).epsilon(1e-5)


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (events.SampledUser(1.0, (1.0, 0.0)), 0.0),
        (events.MatrixMechanism(1e-300, 1e100), 1.0),
        (events.Repeated(events.Laplace(1e-300), 1000), 1.0),
        (events.NoisyMax(1e308), 1.0),
        (events.Sampled(events.Gaussian(1e-160), 0.25), 0.25),
        (events.Sampled(events.Gaussian(1e-6, "replace-one"), 0.25, "without-replacement"), 0.25),
        (events.Repeated(events.Sampled(events.Gaussian(1e200), 0.5), 1000), 0.0),
        (events.Repeated(events.Sampled(events.Gaussian(1.0), 1e-200), 1000), 0.0),
        (events.allocation_event(1e30, 5, 10**18, 2), 0.0),
    ],
)
def test_extremes_have_a_price(event, delta):
    """None of them raises, warns or is below the truth, which is known here."""
    assert account(event).delta(1.0) == pytest.approx(delta, abs=1e-9)
    assert account(event).delta(1.0) >= delta
    assert account(event).epsilon(0.5) >= 0


def test_large_selections_do_not_overflow():
    chances = range_composition.delta(20.0, 30, np.array([0.0, 100.0, 599.0, 601.0]))
    assert np.all((chances <= 1) & (chances >= 0))
    assert chances[-1] == 0
