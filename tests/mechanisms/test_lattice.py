"""Integer noise: its laws, its bounds in integers, and the cases that floats leave open."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from dpassay.mechanisms import lattice, noise

LAWS = ("laplace", "gaussian")


def law_of(law, scale):
    """Integers far into both tails, and their probabilities."""
    grid = np.arange(-40 * scale - 40, 40 * scale + 41)
    weights = np.exp(-np.abs(grid) / scale if law == "laplace" else -(grid**2) / (2 * scale**2))
    return grid, weights / weights.sum()


def p_value(draws, law, scale):
    """Pearson's test of the draws; cells that are too rare are taken together."""
    grid, p = law_of(law, scale)
    counts = np.bincount(draws - grid[0], minlength=len(grid))
    often = p * len(draws) >= 20
    seen = np.append(counts[often], counts[~often].sum())
    expected = len(draws) * np.append(p[often], p[~often].sum())
    return chi2.sf(np.sum((seen - expected) ** 2 / expected), len(seen) - 1)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1, 2, 3, 10])
def test_law(law, scale):
    draws = lattice.draw(law, scale, 200_000, np.random.default_rng(scale))
    assert p_value(draws, law, scale) > 1e-9


@pytest.mark.parametrize("law", LAWS)
def test_another_law_is_noticed(law):
    draws = lattice.draw(law, 10, 200_000, np.random.default_rng(1))
    assert p_value(draws, law, 11) < 1e-9
    twice = np.append(draws, np.zeros(np.sum(draws == 0), np.int64))  # both zeros kept
    assert p_value(twice, law, 10) < 1e-9


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1, 3])
def test_law_where_floats_seldom_decide(monkeypatch, law, scale):
    """With a margin of 1/16 an eighth of all choices is settled by integers."""
    settled = []
    monkeypatch.setattr(lattice, "MARGIN", 2.0**-4)
    is_below = lattice.Uniform.is_below
    monkeypatch.setattr(
        lattice.Uniform, "is_below", lambda self, p: settled.append(1) or is_below(self, p)
    )
    draws = lattice.draw(law, scale, 20_000, np.random.default_rng(scale))
    assert len(settled) > 1000
    assert p_value(draws, law, scale) > 1e-9


def test_integers_decide_as_floats_do(monkeypatch):
    """The margin changes who decides, not what: digits drawn later are the only difference."""
    digits = np.random.default_rng(0).integers(0, 2**32, 2000, dtype=np.uint32)
    u = np.random.default_rng(1).integers(0, 10**12, 2000)
    p = np.exp(-u / 10**12)

    def decide():
        bounds = lambda i: lattice._chance("laplace", 10**12, u[i], 0)  # noqa: E731
        return lattice.is_below(digits, p, bounds, np.random.default_rng(2))

    by_floats = decide()
    monkeypatch.setattr(lattice, "MARGIN", 2.0)
    assert np.array_equal(decide(), by_floats)


@pytest.mark.parametrize("law", LAWS)
def test_tables_agree_with_their_thresholds(law):
    """The looked-up v against counting in 50 digits, beside the ends of cells and at random."""
    table = lattice._table(law)
    beside = [table.ends - 1, table.ends + 1]
    r = np.concatenate([np.random.default_rng(3).integers(0, 2**31, 500), *beside])
    r = r[(r > 0) & ~np.isin(r, table.ends)]
    with mpmath.workdps(50):
        tails = [_tail(law, j) * 2**31 for j in range(1, 30)]
        expected = [sum(int(x) < tail for tail in tails) for x in r]
    assert table.look_up(r, np.random.default_rng(0)).tolist() == expected


def _tail(law, j):
    """P(v >= j)."""
    return mpmath.exp(-j) if law == "laplace" else _half_normal_tail(j)


@cache
def _half_normal_tail(j):
    with mpmath.workdps(150):  # whatever the caller's precision
        terms = [mpmath.exp(-mpmath.mpf(v * v) / 2) for v in range(40)]
        return sum(terms[j:]) / sum(terms)


def test_thresholds_are_settled_on_both_sides():
    """At r = c_j the next digits decide between j - 1 and j, in the right proportion."""
    table = lattice._table("laplace")
    end = math.floor(math.exp(-2) * 2**31)
    assert end in table.ends
    settled = table.look_up(np.full(4000, end), np.random.default_rng(5))
    share = math.exp(-2) * 2**31 - end
    assert set(settled.tolist()) == {1, 2}
    assert np.mean(settled == 2) == pytest.approx(share, abs=6 * 0.5 / math.sqrt(4000))


class Scripted:
    """A generator whose integers are given."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def integers(self, low, high, size=None, **_):
        return np.asarray(self.answers.pop(0) if self.answers else np.zeros(size or 1, np.uint64))


def test_draws_beyond_64_bits_are_no_overflow(monkeypatch):
    monkeypatch.setattr(
        lattice._Table, "look_up", lambda self, r, generator: np.full(len(r), 2**22)
    )
    words = np.array([1 << 32, 0], np.uint64)  # a sign, and digits that keep
    generator = Scripted(np.array([0, 0]), words)
    kept = lattice._keep_some("laplace", 2**47, 2, generator)
    assert kept.tolist() == [-(2**69), 2**69]
    assert kept.dtype == object


def test_deep_tail_of_v():
    """r = 0 and many zeros behind it: v is found by as many digits as it takes."""
    uniform = lattice.Uniform(0, 31, Scripted(*[np.zeros(1, np.uint64)] * 3, np.ones(1, np.uint64)))
    # 31 + 3·64 zeros, then 63 zeros and a one: U is in 2^-287 [1, 2], -log U in [198.2, 198.9].
    assert lattice._table("laplace").settle(uniform) == 198


@given(
    numerator=st.integers(0, 2**80),
    denominator=st.integers(1, 2**80),
    bits=st.integers(1, 300),
)
def test_exp_bounds(numerator, denominator, bits):
    low, high = lattice.exp_bounds(numerator, denominator, bits)
    assert high - low <= 3
    with mpmath.workdps(150):
        x = mpmath.mpf(numerator) / denominator
        assert low <= mpmath.exp(-x) * mpmath.mpf(2) ** bits <= high


@pytest.mark.parametrize("bits", [8, 40, 95, 250])
@pytest.mark.parametrize("j", [1, 2, 7, 30])
def test_half_normal_bounds(j, bits):
    low, high = lattice.half_normal_bounds(j, bits)
    assert high - low <= 3
    with mpmath.workdps(120):
        assert low <= _half_normal_tail(j) * mpmath.mpf(2) ** bits <= high


def slow_draws(law, scale, n_candidates, rng):
    """The same words, one candidate at a time, in 50 decimal digits."""
    us = rng.integers(0, scale, n_candidates)
    words = rng.integers(0, 2**64 - 1, n_candidates, dtype=np.uint64, endpoint=True)
    for u, word in zip(us.tolist(), words.tolist(), strict=True):
        level = mpmath.mpf(word >> 33) / 2**31
        v = 0
        while level < _tail(law, v + 1):
            v += 1
        x = mpmath.mpf(u) / scale
        kept = mpmath.exp(-x if law == "laplace" else -x * (2 * v + x) / 2)
        if mpmath.mpf(word % 2**32) / 2**32 < kept:
            yield (-1 if word >> 32 & 1 else 1) * (u + scale * v)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("law", "golden"),
    [
        (
            "laplace",
            [-58475252593072, 25399363664696, 260557114996795, 185866194130181, -108956374554205],
        ),
        (
            "gaussian",
            [-58475252593072, 25399363664696, -108956374554205, -32874078537518, 40283216580258],
        ),
    ],
)
def test_golden_vector(law, golden):
    """From the words of PCG64 under seed 14, computed independently in many digits."""
    scale = 2**46 + 12345
    draws = lattice.draw(law, scale, 50, np.random.default_rng(14)).tolist()
    assert draws[:5] == golden
    with mpmath.workdps(50):
        assert draws == list(slow_draws(law, scale, 96, np.random.default_rng(14)))[:50]


@pytest.mark.parametrize("law", LAWS)
def test_wide_scales(law):
    """At 2^47 steps: the lowest bits are uniform, the size is right, and 10 % less is noticed."""
    n, scale = 100_000, 2**47 - 1
    z = lattice.draw(law, scale, n, noise.secure_generator())
    for bit in (0, 20, 40):
        ones = np.sum(np.abs(z) >> bit & 1)
        assert abs(ones - n / 2) < 6.2 * math.sqrt(n) / 2  # false alarm 6e-10
    spread = np.mean(np.abs(z)) / scale / (1 if law == "laplace" else math.sqrt(2 / math.pi))
    deviation = (1 if law == "laplace" else math.sqrt(math.pi / 2 - 1)) / math.sqrt(n)
    assert abs(spread - 1) < 6.2 * deviation
    assert abs(0.9 * spread - 1) > 6.2 * deviation


def test_size_and_order():
    whole = lattice.draw("gaussian", 1000, 40_000, np.random.default_rng(2))
    assert whole.shape == (40_000,)
    assert whole.dtype == np.int64
    assert lattice.draw("laplace", 1000, 0, np.random.default_rng(2)).shape == (0,)
    autocorrelation = np.mean(whole[1:] * whole[:-1]) / np.mean(whole**2)
    assert abs(autocorrelation) < 6.2 / math.sqrt(len(whole))
    assert np.abs(whole).max() < 10_000
