"""The corrections of Micali 2022, chapters 3 and 5, by numbers; every test that the page names."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, special

ROOT = Path(__file__).parents[2]
LOG = -math.log(1e-6)  # log(1/delta)


def test_the_page_names_tests_that_there_are():
    page = (ROOT / "docs" / "corrections.md").read_text(encoding="utf-8")
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", page)
    assert len(named) >= 25
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), (path, name)


def test_entropy_is_strongly_convex_in_l1_and_the_hull_is_not_small_there():
    """Pinsker: 2 KL >= ||p - q||_1²; softmax is 1-Lipschitz from l_inf to l1."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(8), (2, 500))
    assert (2 * special.rel_entr(p, q).sum(axis=1) >= np.abs(p - q).sum(axis=1) ** 2).all()
    a, b = 3 * rng.normal(size=(2, 500, 8))
    moved = np.abs(special.softmax(a, 1) - special.softmax(b, 1)).sum(axis=1)
    assert (moved <= np.abs(a - b).max(axis=1)).all()
    column = np.array([x >> 1 & 1 for x in range(8)])  # one bit of three as a query
    assert np.abs(column - -column).sum() == 8  # the l1 diameter is not 2
    assert np.abs(column - -column).max() == 2


def test_steps_of_proposition_38():
    """T* = (N e/(sqrt2 alpha log k sqrt(log 1/d)))^(2/3) minimises a sqrt(T) + b/T."""
    n, alpha, log_k = 1000, 0.1, math.log(20)
    a, b = 4 * math.sqrt(2) * log_k * math.sqrt(LOG) / n, 2 / alpha
    best = (n / (math.sqrt(2) * alpha * log_k * math.sqrt(LOG))) ** (2 / 3)
    found = optimize.minimize_scalar(lambda T: a * math.sqrt(T) + b / T, (1, 100)).x
    assert best == pytest.approx(found, rel=1e-6)
    assert best == pytest.approx(73.8809, abs=1e-3)  # the thesis: 155.17
    assert a * math.sqrt(best) + b / best == pytest.approx(0.812118, abs=1e-5)


def test_the_start_is_within_a_public_distance():
    """D0 = psi* - psi(0) <= alpha log d~: psi(0) = -alpha log d~, and psi* <= 0 by duality."""
    rng = np.random.default_rng(0)
    for alpha in (0.01, 1.0):
        data, hull = rng.dirichlet(np.ones(6)), rng.integers(0, 2, (4, 6))
        hull = np.vstack([hull, -hull])

        def value(weights, alpha=alpha, data=data, hull=hull):
            q = special.softmax(weights) @ hull
            return -(q @ data - alpha * special.logsumexp(q / alpha))

        best = -optimize.minimize(value, np.zeros(8), method="L-BFGS-B").fun
        assert -1e-12 <= best + alpha * math.log(6) <= alpha * math.log(6) + 1e-12


def test_steps_and_step_of_section_5_3():
    """T with the 1/8 minimises Q sqrt(2 D0/(alpha T)) + 2 lambda log k; without it, not."""
    n, alpha, log_k, d0, q = 1000, 0.1, math.log(20), 0.1 * math.log(32), 2.0

    def bound(T):
        noise = 4 * math.sqrt(2 * T * LOG) / n
        return q * math.sqrt(2 * d0 / (alpha * T)) + 2 * noise * log_k

    found = optimize.minimize_scalar(bound, (1, 100)).x
    printed = q * math.sqrt(d0) * n / (math.sqrt(alpha * LOG) * log_k)
    assert found == pytest.approx(printed / 8, rel=1e-6)
    assert bound(printed) > 1.5 * bound(found)


def test_alpha_of_lemma_43():
    """c alpha^(-1/4) + alpha log d~ is least at (c/(4 log d~))^(4/5)."""
    c, log_d = 0.3, 5.0
    found = optimize.minimize_scalar(
        lambda a: c * a**-0.25 + a * log_d, bounds=(1e-4, 1), method="bounded"
    )
    assert (c / (4 * log_d)) ** 0.8 == pytest.approx(found.x, rel=1e-3)
    assert found.fun == pytest.approx(5 * (c / 4) ** 0.8 * log_d**0.2)
    assert found.fun == pytest.approx(0.868586, abs=1e-5)


def test_lemma_28_and_the_steps_of_algorithm_3():
    """E exp(t u) = 1/(1 - t² lambda²) for Laplace noise; a_t is about 4/t, not 1/t."""
    x = np.linspace(-60, 60, 2_000_001)
    mean = float(np.trapezoid(np.exp(0.5 * x - np.abs(x)) / 2, x))
    assert mean == pytest.approx(4 / 3, rel=1e-4)
    a = 1.0
    for t in range(1, 1000):
        step = 2 / (t + 2)
        a = (1 - step) * a + step**2
    assert a == pytest.approx(0.003970084, rel=0.01)
    assert 999 * a > 3.9


def test_the_rate_of_theorem_27_in_the_radius():
    """A sqrt(T) + B/T at its best T, A as C1 and B as C1²: the bound grows as C1^(4/3)."""
    one, eight = (
        optimize.minimize_scalar(
            lambda T, c=c: c * math.sqrt(T) + 100 * c**2 / T, bounds=(1, 1e5), method="bounded"
        )
        for c in (1.0, 8.0)
    )
    assert math.log(eight.fun / one.fun) / math.log(8) == pytest.approx(4 / 3, abs=1e-3)
    assert math.log(eight.x / one.x) / math.log(8) == pytest.approx(2 / 3, abs=1e-2)


def test_lemma_29_in_the_norm_that_is_used():
    """The l_inf deviation of means of N sign vectors: below √(2 log(2p)/N), and above √(log p/N).

    The l2 norm of the same deviation is √(p/N), larger by √p over √log p.
    """
    rng, n, p = np.random.default_rng(0), 200, 1000
    means = rng.choice([-1.0, 1.0], (20, n, p)).mean(axis=1)
    largest, length = np.abs(means).max(axis=1).mean(), np.linalg.norm(means, axis=1).mean()
    assert math.sqrt(math.log(p) / n) < largest < math.sqrt(2 * math.log(2 * p) / n)
    assert length == pytest.approx(math.sqrt(p / n), rel=0.02)


def test_members_have_lower_or_higher_entropy():
    """Lower where a model remembers points, higher where it puts them all at its margin."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 40)), rng.integers(0, 2, 120)

    def difference(model):
        p = model.fit(X[:60], y[:60]).predict_proba(X)
        entropies = special.entr(p).sum(axis=1)
        return entropies[:60].mean() - entropies[60:].mean()

    assert difference(RandomForestClassifier(30, random_state=0)) < -0.1
    assert difference(LogisticRegression(C=10.0)) > 0.05


def test_a_larger_alpha_gives_more_entropy():
    q = np.random.default_rng(0).uniform(-1, 1, 16)
    few, many = (special.entr(special.softmax(q / alpha)).sum() for alpha in (0.05, 1.0))
    assert few < many - 1


def test_the_density_of_the_gradient_attack():
    """As printed it integrates to 1/√(2n); the ratio of the distance is that of all entries."""
    n, C, sigma = 4, 1.5, 0.7
    x = np.linspace(-20, 20, 400_001)
    printed = np.exp(-((x - C) ** 2) / (2 * sigma**2)) / (2 * np.sqrt(np.pi * n * sigma**2))
    assert np.trapezoid(printed, x) == pytest.approx(1 / math.sqrt(2 * n), rel=1e-6)
    signs = np.resize([1.0, -1.0], 2 * n)
    w = C / math.sqrt(2 * n) * signs
    g = np.random.default_rng(0).normal(size=2 * n)
    whole = (np.square(g).sum() - np.square(g - w).sum()) / (2 * sigma**2)
    d = g @ w / C
    assert (C * d - C**2 / 2) / sigma**2 == pytest.approx(whole, rel=1e-12)


def test_the_exponents_of_table_5_1():
    """a/√T + b √T with a = √log d and b = log k √log(1/delta)/(eps N): (..)^(1/2) in both."""
    from dpassay.synth.theorems import RATES
    from dpassay_reproduce.printed.rates import PRINTED

    def best(log_delta, signal):
        b = math.sqrt(log_delta) / signal
        return optimize.minimize_scalar(
            lambda u: math.exp(-u / 2) + b * math.exp(u / 2), bounds=(-50, 50), method="bounded"
        ).fun

    power = math.log(best(16.0, 1e3) / best(1.0, 1e3)) / math.log(16)
    assert power == pytest.approx(RATES["MWEM"].delta, abs=1e-4)
    assert PRINTED["MWEM"].delta == 1 / 2 > power
    power = -math.log(best(1.0, 1e5) / best(1.0, 1e3)) / math.log(100)
    assert power == pytest.approx(RATES["MWEM"].signal, abs=1e-4)
    assert RATES["FrankWolfe"].signal == RATES["MWEM"].signal > PRINTED["FrankWolfe"].signal
