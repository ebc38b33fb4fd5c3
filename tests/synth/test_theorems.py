"""Query-error theorems: goldens, slopes, each lemma by brute force, and measured errors below."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from dpassay import synth
from dpassay.errors import InvalidArgument
from dpassay.privacy import account
from dpassay.privacy.budget import budget
from dpassay.privacy.excess_risk import laplace_maximum
from dpassay.synth import (
    Schema,
    Workload,
    blr_error_upper,
    compare,
    population_error_upper,
    query_error_rate,
    query_error_upper,
)
from dpassay.synth.models import Records
from dpassay.synth.theorems import (
    RATES,
)
from dpassay_reproduce.printed.rates import (
    PRINTED,
    balanced_entropy,
    stochastic_population_rate,
)
from rates import assert_rate_at_most

PROVED = ("BLR", "MWEM", "DualQuery", "FEM", "SepFEM", "FrankWolfe")
BASE = {"n_records": 10_000, "epsilon": 0.5, "delta": 1e-6, "n_queries": 500, "sizes": [2] * 8}
BITS = Schema({name: [0, 1] for name in "ab"})
PAIRS = Workload.all_marginals(BITS, 2)


def slope(f, low, high):
    return math.log(f(high) / f(low)) / math.log(high / low)


# Goldens.


@pytest.mark.golden
def test_goldens_of_the_corrected_notes():
    """N = 1000, 8 cells, 12 vertices: T = 362, bound .4286; lemma 43 at c = .3, log d = 5."""
    problem = {"n_records": 1000, "epsilon": 1.0, "delta": 1e-6, "n_queries": 6}
    found = query_error_upper("FrankWolfe", sizes=[2, 2, 2], **problem)
    assert found.error == pytest.approx(0.4286, abs=6e-5)
    alpha, error = balanced_entropy(0.3, 5.0)
    assert (alpha, error) == pytest.approx((0.0347435, 0.868586), rel=2e-6)
    near = [0.3 * a**-0.25 + 5 * a for a in (0.99 * alpha, 1.01 * alpha)]
    assert min(near) > error


@pytest.mark.golden
def test_table_5_1_as_printed():
    """Micali 2022: exponents of d, log|Q|, log(1/delta) and epsilon N."""
    table = {
        "MWEM": (1 / 4, 1 / 2, 1 / 2, 1 / 2),
        "DualQuery": (1 / 6, 1 / 2, 1 / 6, 1 / 3),
        "SepFEM": (3 / 4, 1 / 2, 1 / 2, 1 / 2),
        "DQRS": (1 / 5, 3 / 5, 1 / 5, 2 / 5),
        "FrankWolfe": (1 / 5, 2 / 5, 1 / 5, 2 / 5),
    }
    found = {name: PRINTED[name] for name in table}
    assert {n: (r.cells, r.queries, r.delta, r.signal) for n, r in found.items()} == table


# Rates and slopes.


@pytest.mark.parametrize("method", RATES)
def test_rates_have_the_exponents_of_the_table(method):
    base = {"n_records": 1000, "epsilon": 0.5, "delta": 1e-4, "n_queries": 100, "n_cells": 1024.0}

    def rate(**changed):
        return query_error_rate(method, **(base | changed))

    exponents = RATES[method]
    assert slope(lambda n: rate(n_records=n), 10, 10**6) == pytest.approx(-exponents.signal)
    assert slope(lambda e: rate(epsilon=e), 0.01, 10) == pytest.approx(-exponents.signal)
    assert slope(lambda x: rate(n_cells=2.0**x), 4, 64) == pytest.approx(exponents.cells)
    assert slope(lambda x: rate(n_queries=2**x), 4, 64) == pytest.approx(exponents.queries)
    assert slope(lambda x: rate(delta=10.0**-x), 2, 8) == pytest.approx(exponents.delta)


@pytest.mark.parametrize("method", PROVED)
def test_bounds_have_the_exponents_of_the_rates(method):
    """Where settings are so large that rounding them is nothing: a proof of the exponents.

    BLR's in a universe that is never small beside its tables; log(1/delta) enters through rho.
    """
    exponents, columns = RATES[method], 2000 if method == "BLR" else 8
    base = {"n_records": 10**9, "epsilon": 0.01, "delta": 1e-6, "n_queries": 2**39}
    base |= {"sizes": [2] * columns}

    def error(**changed):
        return query_error_upper(method, **(base | changed)).error

    assert slope(lambda n: error(n_records=n), 10**8, 10**10) == pytest.approx(
        -exponents.signal, abs=0.004
    )
    grown = slope(lambda d: error(sizes=[2] * d), 2 * columns, 8 * columns)
    assert grown == pytest.approx(exponents.cells, abs=0.004)
    # L = log 2m for MWEM's selection is log m, and BLR's m' has L under a root.
    grown = slope(lambda x: error(n_queries=2 ** (x - 1)), 40, 60)
    assert grown == pytest.approx(exponents.queries, abs=0.02)
    spent = [1 / budget(0.01, delta, "add-remove").rho for delta in (1e-4, 1e-10)]
    ratio = error(delta=1e-10) / error(delta=1e-4)
    power = 2 * math.log(ratio) / math.log(spent[1] / spent[0])
    assert power == pytest.approx(0 if method == "BLR" else exponents.signal, abs=0.004)


@pytest.mark.parametrize("method", PROVED)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n_records", (2000, 2300, 10_000, 10**6)),
        ("epsilon", (0.1, 0.12, 0.5, 2.0)),
        ("delta", (1e-12, 1e-9, 1e-6)),
        ("n_queries", (1000, 600, 100)),
        ("sizes", ([3] * 8, [2] * 8, [2] * 7, [2] * 3)),
        ("neighbouring", ("replace-one", "add-remove")),
    ],
)
def test_monotone(method, name, values):
    """More records and budget never hurt; more queries, cells and a wider relation never help."""
    found = [query_error_upper(method, **(BASE | {name: value})).error for value in values]
    assert all(b <= a * (1 + 1e-6) for a, b in itertools.pairwise(found))
    if name == "neighbouring":
        # Draws of the games have twice the range there; one query's answer moves as before.
        games = {"DualQuery": 2 ** (1 / 3), "FEM": math.sqrt(2), "SepFEM": math.sqrt(2)}
        assert found[0] / found[1] == pytest.approx(games.get(method, 1.0), rel=0.01)
    elif (method, name) != ("BLR", "delta"):
        assert found[-1] < found[0]


# The lemmas.


def test_a_round_of_mwem_lowers_the_divergence():
    """By (e² - z²)/4 at least, and for no larger constant: z near -e comes close."""
    rng = np.random.default_rng(0)
    closest = np.inf
    for _ in range(4000):
        cells = int(rng.integers(2, 7))
        p, a = rng.dirichlet(np.full(cells, 0.5), 2)
        q = rng.random(cells) if rng.random() < 0.5 else (rng.random(cells) < 0.5).astype(float)
        e = q @ p - q @ a
        z = -e * 0.98 if rng.random() < 0.3 else rng.normal() * rng.choice([0.01, 0.3, 2.0])
        g = (e + z) / 2
        moved = a * np.exp(g * q)
        moved /= moved.sum()
        dropped = special.rel_entr(p, a).sum() - special.rel_entr(p, moved).sum()
        if np.isfinite(dropped):
            assert dropped >= (e**2 - z**2) / 4 - 1e-12
            if e**2 > z**2 + 1e-4:
                closest = min(closest, dropped / (e**2 - z**2))
    assert 0.25 <= closest < 0.255


def leaders(gains, prices):
    """The best cell of every draw of prices, for cells of three columns with 2, 3 and 2 values."""
    cells = np.array(list(itertools.product(range(2), range(3), range(2))))
    costs = prices[:, cells[:, 0]] + prices[:, 2 + cells[:, 1]] + prices[:, 5 + cells[:, 2]]
    return np.argmax(gains - costs, axis=1)


@pytest.mark.parametrize(
    ("kind", "change", "part"), [("exponential", 7 / 2, 4), ("laplace", 7 / 4, 6)]
)
def test_a_perturbed_leader_rarely_changes(kind, change, part):
    """By one more query, with probability W/(2b) or W/(4b) at most; a part of it is reached."""
    rng, b, draws = np.random.default_rng(1), 10.0, 20_000
    prices = getattr(rng, kind)(scale=b, size=(draws, 7))
    most = 0
    for _ in range(25):
        gains = rng.exponential(b, 12) * rng.integers(0, 2)
        query = (rng.random(12) < 0.5).astype(float)
        changed = int((leaders(gains, prices) != leaders(gains + query, prices)).sum())
        assert_rate_at_most(changed, draws, change / b)
        most = max(most, changed)
    with pytest.raises(AssertionError):
        assert_rate_at_most(most, draws, change / b / part)


@pytest.mark.parametrize("kind", ["exponential", "laplace"])
@pytest.mark.parametrize("adversary", ["stubborn", "contrary"])
def test_the_regret_of_a_perturbed_leader(kind, adversary):
    """Against one cell for ever, or what the leader has least: below R_T; a quarter is reached."""
    rng, T, draws = np.random.default_rng(2), 60, 4000
    sizes = np.array([2, 3, 2])
    if kind == "exponential":
        change, price = sizes.sum() / 2, (1 - 1 / sizes).sum()
    else:
        change, price = sizes.sum() / 4, sum(laplace_maximum(int(c)) for c in sizes)
    b = math.sqrt(T * change / price)
    prices = getattr(rng, kind)(scale=b, size=(draws, 7))
    total, gained = np.zeros(12), 0.0
    for _ in range(T):
        law = np.bincount(leaders(total, prices), minlength=12) / draws
        query = (law <= np.quantile(law, 0.4)).astype(float)
        query = np.eye(12)[3] if adversary == "stubborn" else query
        gained += query @ law
        total += query
    regret, bound = total.max() - gained, 2 * math.sqrt(T * change * price)
    # The mean of 4000 regrets, each within T of 0: 6 deviations are below 0.1 T.
    assert regret < bound + 0.1 * T
    if adversary == "stubborn":
        assert regret > bound / 4


def test_the_largest_of_means():
    """E max over k means of s coins, minus 1/2, is √(log k/(2s)) at most, and not half of it."""
    rng, s, k, repeats = np.random.default_rng(3), 50, 200, 400
    largest = (rng.binomial(s, 0.5, (repeats, k)).max(axis=1) / s - 0.5).mean()
    bound = math.sqrt(math.log(k) / (2 * s))
    assert bound / 2 < largest < bound
    assert population_error_upper(s, k // 2) == pytest.approx(bound)


def test_tables_are_never_more_than_counted():
    """log R in BLR's bound: above the exact number of multisets, by a little."""
    for size, sizes in ((4, [2, 2]), (25, [2] * 3), (7, [5, 3]), (200, [2, 2])):
        cells = math.prod(sizes)
        exact = math.log(math.comb(cells + size - 1, size))
        error = blr_error_upper(size, n_records=100, epsilon=1.0, n_queries=3, sizes=sizes)
        used = (error - math.sqrt(math.log(6) / (2 * size))) * 100 / 2
        assert exact <= used <= exact + 0.5 * math.log(2 * math.pi * (size + cells))
    best = query_error_upper("BLR", **(BASE | {"sizes": [2, 2]}))
    args = {name: BASE[name] for name in ("n_records", "epsilon", "n_queries")}
    assert best.error == blr_error_upper(best.settings["size"], sizes=[2, 2], **args)


# Measured errors.


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(4, 0.4))
    return np.stack(np.unravel_index(rng.choice(4, n, p=p), (2, 2)), axis=1)


@pytest.mark.parametrize("method", PROVED)
@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
def test_measured_errors_are_below(method, neighbouring):
    """With the settings of the bound, which stay inside the budget, on a skewed table."""
    n, seeds = (80, 1) if "FEM" in method else (200, 2)
    problem = {"n_records": n, "epsilon": 2.0, "delta": 0.0 if method == "BLR" else 1e-5}
    found = query_error_upper(
        method,
        n_queries=PAIRS.n_queries(BITS),
        sizes=BITS.sizes,
        neighbouring=neighbouring,
        **problem,
    )
    settings, bound = dict(found.settings), found.error
    if method == "BLR":  # as many records as can be enumerated in a moment
        settings["size"] = 8
        args = {"n_queries": 4, "sizes": BITS.sizes, "n_records": n, "epsilon": 2.0}
        bound = blr_error_upper(8, **args)
    else:
        settings["delta"] = 1e-5
    if method == "MWEM":  # selects a query once, so at most all of them
        settings["rounds"] = 4
    errors, data = [], Records(BITS, table(n))
    for seed in range(seeds):
        made = getattr(synth, method)(
            BITS, PAIRS, epsilon=2.0, neighbouring=neighbouring, rng=seed, **settings
        )
        fitted = made.fit(data.codes)
        errors.append(compare(data, fitted.model_, PAIRS).max_error)
    assert bound < 1
    assert 0 < np.mean(errors) < bound
    assert account(fitted.event_).epsilon(problem["delta"]) <= 2.0 * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_mwem_as_the_theorem_has_it(delta):
    """May select a query again, and returns the mean: by hand, with the bound's rounds."""
    n, rng = 2000, np.random.default_rng(0)
    problem = {"n_records": n, "epsilon": 2.0, "delta": delta, "n_queries": 4}
    found = query_error_upper("MWEM", sizes=[2, 2], **problem)
    T = found.settings["rounds"]
    queries = np.eye(4)  # the cells themselves
    codes = table(n)
    p = np.bincount(np.ravel_multi_index(codes.T, (2, 2)), minlength=4) / n
    noise = 2 * T / 2.0 if delta == 0 else math.sqrt(T / budget(2.0, delta, "add-remove").rho)
    scale = 2 * noise if delta == 0 else noise
    errors = []
    for _ in range(5):
        a, mean = np.full(4, 1 / 4), np.zeros(4)
        for _ in range(T):
            mean += a / T
            off = n * np.abs((p - a) @ queries)
            pick = int(np.argmax(off / scale + rng.gumbel(size=4)))
            drawn = rng.laplace(0, noise) if delta == 0 else rng.normal(0, noise)
            a = a * np.exp(queries[:, pick] * ((p - a) @ queries[:, pick] + drawn / n) / 2)
            a /= a.sum()
        errors.append(np.abs((p - mean) @ queries).max())
    assert found.error / 30 < np.mean(errors) < found.error < 0.5


# The facts that all proofs share, where they are nearly tight: a smaller constant would fail.


def test_the_largest_of_many_means_is_nearly_what_hoeffding_says():
    draws = np.random.default_rng(0).binomial(100, 0.5, (300, 2000)) / 100 - 0.5
    bound = math.sqrt(math.log(2 * 2000) / (2 * 100))
    assert 0.85 * bound < np.abs(draws).max(axis=1).mean() < bound


def test_the_regret_of_weights_is_nearly_what_dual_query_pays():
    """Signed queries of which a record meets each or none by chance: gains of length 2."""
    rng, m, T, runs = np.random.default_rng(0), 50, 1000, 40
    L = math.log(2 * m)
    eta = math.sqrt(2 * L / T)
    total, own = np.zeros((runs, 2 * m)), np.zeros(runs)
    for _ in range(T):
        gains = rng.choice([-1.0, 1.0], (runs, m))
        gains = np.concatenate([gains, -gains], axis=1)
        weights = np.exp(eta * (total - total.max(axis=1, keepdims=True)))
        own += (weights * gains).sum(axis=1) / weights.sum(axis=1)
        total += gains
    regret = (total.max(axis=1) - own).mean() / T
    bound = L / (eta * T) + eta / 2
    assert 0.75 * bound < regret < bound


@pytest.mark.parametrize(("law", "share"), [("exponential", 2), ("laplace", 4)])
def test_one_more_query_changes_a_perturbed_leader_by_half_of_what_is_charged(law, share):
    """One bit: the gain of having seen the query, at the worst gap between the two values."""
    rng, b = np.random.default_rng(0), 10.0
    prices = getattr(rng, law)(scale=b, size=(400_000, 2))
    ahead = prices[:, 0] - prices[:, 1]
    gains = [np.mean((ahead > gap) & (ahead <= gap + 1)) for gap in np.linspace(-3, 3, 25)]
    bound = 2 / (share * b)  # W = 2
    assert 0.4 * bound < max(gains) < bound


# The population, and what is refused.


def test_the_rate_for_batches_is_minimal_in_alpha():
    rate, alpha = stochastic_population_rate(10**5, 1.0, 1e-6, 100, 1024.0)
    log_cells = math.log(1024)
    r = alpha**2 * log_cells / 4
    values = [2 * (2 + 2 / a) * r + a * log_cells for a in (alpha, 0.9 * alpha, 1.1 * alpha)]
    assert values[0] == pytest.approx(rate)
    assert min(values[1:]) > rate
    assert slope(lambda n: stochastic_population_rate(n, 1.0, 1e-6, 100, 1024.0)[0], 1e5, 1e6) < 0


@pytest.mark.parametrize(
    ("method", "changed", "words"),
    [
        ("DQRS", {}, "method='DQRS' has no bound"),
        ("AIM", {}, "method='AIM' must be one of"),
        ("FEM", {"delta": 0.0}, "delta=0 must be positive"),
        ("MWEM", {"epsilon": math.nan}, "epsilon=nan"),
        ("MWEM", {"n_records": 0}, "n_records=0"),
        ("MWEM", {"n_queries": 2.5}, "n_queries=2.5"),
        ("MWEM", {"sizes": []}, "one entry per column"),
        ("MWEM", {"sizes": [2, 1]}, "sizes=1"),
        ("MWEM", {"neighbouring": "swap"}, "neighbouring='swap'"),
    ],
)
def test_misuse(method, changed, words):
    with pytest.raises(InvalidArgument, match=words.replace("(", r"\(")):
        query_error_upper(method, **(BASE | changed))


@pytest.mark.parametrize(
    "changed", [{"delta": 0.0}, {"n_queries": 1}, {"n_cells": math.nan}, {"epsilon": -1.0}]
)
def test_rates_refuse_what_has_no_logarithm(changed):
    base = {"n_records": 100, "epsilon": 1.0, "delta": 1e-6, "n_queries": 10, "n_cells": 8.0}
    with pytest.raises(InvalidArgument, match=f"{next(iter(changed))}="):
        query_error_rate("MWEM", **(base | changed))
