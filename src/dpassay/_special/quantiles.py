"""Limits from the inverses of distribution functions, each put back into its forward function.

The inverses of SciPy 1.17 are wrong in places, to either side: the 97.5 % point of
Beta(1000, 9101) comes out as .2506 (right: .1050), and that of 999 errors in 369 246 126 trials at
alpha = 1e-6 is 7 % too small. So an inverse is only a first guess here: the tail at the guess is
computed, and where it is not what was asked for, a bisection on the tail replaces the guess (rule 2
of the package).

The forward functions are the library's too. They were compared with mpmath (``docs/numerics.md``):
the *smaller* of the two tails is right to 3e-10 wherever it is at least 1e-250 and the shapes are
at most 2e9. The larger one can be off by 5e-9, so that it is taken as one minus the smaller.
Outside of that range Chernoff's inequality takes the place of the tail. For a beta variable
X = G / (G + H), G and H independent gamma variables of shapes a and b, and m = a / (a + b),

    P(X >= x) = P((1-x) G - x H >= 0) <= min over t of (1 - t (1-x))^-a (1 + t x)^-b
              = (x/m)^a ((1-x)/(1-m))^b        for x >= m,

and in the same way for P(X <= x) with x <= m; for a gamma variable of shape a,
P(G >= x) <= (x/a)^a e^(a-x) for x >= a. All of them err to the safe side.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpassay._special.margins import ARITHMETIC, TAIL, ULP, round_down, round_up
from dpassay._special.search import Condition, Floats, first_true, last_true

Mask = NDArray[np.bool_]

_SMALLEST_TAIL = 1e-250  # below it the library's tails may underflow to 0
_LARGEST_SHAPE = 1e10  # the library's tails were compared with mpmath up to here


def beta_upper_tail(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Floats:
    """P(Beta(a, b) > x) for 0 <= x <= 1, to a relative TAIL; an upper bound out of range."""
    return _beta_above(*_floats(a, b, x))


def beta_lower_tail(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Floats:
    """P(Beta(a, b) <= x) for 0 <= x <= 1, to a relative TAIL; an upper bound out of range."""
    return _beta_below(*_floats(a, b, x))


def _beta_above(a: Floats, b: Floats, x: Floats) -> Floats:
    tail = np.asarray(special.betaincc(a, b, x))
    if (tail > 0.5).any():
        tail = np.where(tail > 0.5, 1 - special.betainc(a, b, x), tail)
    return _in_range(tail, a, b, x, a <= (a + b) * x)


def _beta_below(a: Floats, b: Floats, x: Floats) -> Floats:
    tail = np.asarray(special.betainc(a, b, x))
    if (tail > 0.5).any():
        tail = np.where(tail > 0.5, 1 - special.betaincc(a, b, x), tail)
    return _in_range(tail, a, b, x, a >= (a + b) * x)


def _in_range(tail: Floats, a: Floats, b: Floats, x: Floats, beyond_mean: Mask) -> Floats:
    """The tail where the library may be believed, elsewhere Chernoff's bound on it."""
    shape = a + b
    if tail.size and tail.min() >= _SMALLEST_TAIL and shape.max() <= _LARGEST_SHAPE:
        return tail
    out = ~(tail >= _SMALLEST_TAIL) | (shape > _LARGEST_SHAPE)
    out = out & (x > 0) & (x < 1)  # at the ends a tail of 0 is exact
    bound = np.where(beyond_mean, np.exp(_log_chernoff(a, b, x)), 1.0)
    return np.where(out, bound, tail)


def _log_chernoff(a: Floats, b: Floats, x: Floats) -> Floats:
    """The log of (x/m)^a ((1-x)/(1-m))^b, rounded up: the terms are large and cancel."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = a * np.log(x * ((a + b) / a)), b * np.log((1 - x) * ((a + b) / b))
        slack = 8 * ULP * (a + b + np.abs(first) + np.abs(second))
        return np.minimum(np.nan_to_num(first + second + slack, nan=-np.inf), 0.0)


def beta_upper(a: ArrayLike, b: ArrayLike, level: ArrayLike) -> Floats:
    """The 1 - level quantile of Beta(a, b), rounded up: P(Beta(a, b) > x) is certainly <= level.

    Args:
        a: the first shape, positive.
        b: the second shape, positive.
        level: the probability of the upper tail. The answer is 1 where this is 0 or less, and 0
            where it is 1 or more.

    >>> beta_upper(1000, 9101, 0.025)  # betainccinv: 0.2506
    array(0.1048989)

    """
    return _beta_upper(*_floats(a, b, level))


def _beta_upper(a: Floats, b: Floats, level: Floats) -> Floats:
    x = _invert(special.betainccinv, _beta_above, first_true, a, b, level)
    return _at_the_ends(x, level, at_0=1.0, at_1=0.0)


def beta_lower(a: ArrayLike, b: ArrayLike, level: ArrayLike) -> Floats:
    """The level quantile of Beta(a, b), rounded down: P(Beta(a, b) <= x) is certainly <= level.

    The answer is 0 where the level is 0 or less, and 1 where it is 1 or more.
    """
    return _beta_lower(*_floats(a, b, level))


def _beta_lower(a: Floats, b: Floats, level: Floats) -> Floats:
    x = _invert(special.betaincinv, _beta_below, last_true, a, b, level)
    return _at_the_ends(x, level, at_0=0.0, at_1=1.0)


def _invert(
    inverse: Callable[..., Any],
    tail: Callable[[Floats, Floats, Floats], Floats],
    search: Callable[[Condition, Floats, Floats], Floats],
    a: Floats,
    b: Floats,
    level: Floats,
) -> Floats:
    """Where a tail of Beta(a, b) just reaches the level: by the library, searched where it errs."""
    goal = level * (1 - 2 * TAIL)
    x = np.array(inverse(a, b, goal))
    wrong = _is_wrong(tail(a, b, x), goal, level)
    if wrong.any():
        a, b, goal = (np.broadcast_to(y, x.shape) for y in (a, b, goal))
        shapes, least = (a[wrong], b[wrong]), goal[wrong]
        ends = np.zeros_like(least), np.ones_like(least)
        x[wrong] = search(lambda t: tail(*shapes, t) <= least, *ends)
    return x


def _is_wrong(tail: Floats, goal: Floats, level: Floats) -> Mask:
    """Whether a tail that was asked to be ``goal`` is not; NaN is wrong. See rule 2."""
    wrong = ~(np.abs(tail - goal) <= TAIL * level)
    return wrong & (level > 0) & (level < 1) if wrong.any() else wrong


def _at_the_ends(x: Floats, level: Floats, at_0: float, at_1: float) -> Floats:
    """The limits, with the trivial ones where the level is not inside (0, 1)."""
    if ((level > 0) & (level < 1)).all():
        return x
    return np.where(level >= 1, at_1, np.where(level > 0, x, at_0))


def binomial_upper(count: ArrayLike, trials: ArrayLike, level: ArrayLike) -> Floats:
    """The Clopper-Pearson upper limit on a rate: an upper bound except with probability level.

    The rate x at which P(Bin(trials, x) <= count) = level, rounded up; 1 where count = trials.

    >>> binomial_upper(0, 1000, 0.05)  # about 3 / 1000
    array(0.0029912)

    """
    k, n, alpha = _floats(count, trials, level)
    return np.where(k >= n, 1.0, _beta_upper(k + 1, np.maximum(n - k, 1), alpha))


def binomial_lower(count: ArrayLike, trials: ArrayLike, level: ArrayLike) -> Floats:
    """The Clopper-Pearson lower limit on a rate: a lower bound except with probability level.

    The rate x at which P(Bin(trials, x) >= count) = level, rounded down; 0 where count = 0.

    >>> binomial_lower(1000, 1000, 0.05)
    array(0.997009)

    """
    k, n, alpha = _floats(count, trials, level)
    return np.where(k <= 0, 0.0, _beta_lower(np.maximum(k, 1), n - k + 1, alpha))


def log_odds_lower(count: ArrayLike, others: ArrayLike, level: ArrayLike) -> Floats:
    """A lower limit on the log odds of a coin that showed ``count`` against ``others``.

    Holds except with probability level; -inf where the count is 0, negative where the coin may
    favour the other side. It is the logit of :func:`binomial_lower`; where that is above one
    half it is taken from the upper limit on the other side, which keeps its digits.

    >>> log_odds_lower(80, 20, 0.05)
    array(0.958392)

    """
    k, rest, alpha = _floats(count, others, level)
    other = _beta_upper(rest + 1, np.maximum(k, 1), alpha)
    with np.errstate(divide="ignore"):
        odds = np.asarray(np.log1p(-other) - np.log(other))
        if np.any(other > 0.5):
            own = _beta_lower(np.maximum(k, 1), rest + 1, alpha)
            odds = np.where(other > 0.5, np.log(own) - np.log1p(-own), odds)
    # Two logarithms are subtracted: where the odds are even they cancel.
    return np.where(k > 0, round_down(odds, ARITHMETIC, size=1.0), -np.inf)


def binomial_most(trials: ArrayLike, rate: ArrayLike, level: ArrayLike) -> Floats:
    """The smallest m such that P(Bin(trials, rate) > m) is certainly <= level; a whole number.

    >>> binomial_most(60_000, 250 / 60_000, 1e-9)
    array(350.)

    """
    n, p, alpha = np.broadcast_arrays(*_floats(trials, rate, level))
    goal = alpha * (1 - TAIL)

    def seldom(m: Floats) -> Mask:
        return (m >= n) | (_beta_below(m + 1, np.maximum(n - m, 1), p) <= goal)

    return first_true(seldom, np.zeros_like(n), n, whole=True)


def _gamma_above(a: Floats, x: Floats) -> Floats:
    """P(Gamma(a) > x), to a relative TAIL; an upper bound below 1e-250 and for large shapes."""
    tail = np.asarray(special.gammaincc(a, x))
    tail = np.where(tail > 0.5, 1 - special.gammainc(a, x), tail)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_bound = a * np.log(x / a) + a - x
        bound = np.exp(np.minimum(log_bound + 8 * ULP * (a + x + np.abs(log_bound)), 0.0))
    out = ~(tail >= _SMALLEST_TAIL) | (a > _LARGEST_SHAPE)
    return np.where(out & np.isfinite(x), np.where(x >= a, bound, 1.0), tail)


def gamma_upper(a: ArrayLike, level: ArrayLike) -> Floats:
    """The 1 - level quantile of Gamma(a), rounded up: P(Gamma(a) > x) is certainly <= level.

    With a = d/2, twice this is the quantile of a chi-square variable of d degrees of freedom; with
    a = k + 1 it is the upper limit on the mean of a Poisson variable that was seen to be k.
    """
    return _gamma_upper(*_floats(a, level))


def _gamma_upper(a: Floats, level: Floats) -> Floats:
    goal = level * (1 - 2 * TAIL)
    x = np.array(special.gammainccinv(a, goal))
    wrong = _is_wrong(_gamma_above(a, x), goal, level)
    if wrong.any():
        a, goal = (np.broadcast_to(y, x.shape) for y in (a, goal))
        shape, least = a[wrong], goal[wrong]
        # x = a + sqrt(2 a L) + L has a tail of at most e^-L (Boucheron, Lugosi and Massart 2013).
        nats = -np.log(least)
        high = 1.01 * (shape + np.sqrt(2 * shape * nats) + nats)
        x[wrong] = first_true(lambda t: _gamma_above(shape, t) <= least, 0 * high, high)
    return _at_the_ends(x, level, at_0=np.inf, at_1=0.0)


def normal_upper(p: ArrayLike) -> Floats:
    """The p quantile of the standard normal distribution, rounded up; infinite at 0 and 1."""
    return round_up(_normal_quantile(np.asarray(p, float)), ARITHMETIC, size=1.0)


def normal_lower(p: ArrayLike) -> Floats:
    """The p quantile of the standard normal distribution, rounded down; infinite at 0 and 1."""
    return round_down(_normal_quantile(np.asarray(p, float)), ARITHMETIC, size=1.0)


def _normal_quantile(p: Floats) -> Floats:
    """The p quantile, right to ARITHMETIC relative to the larger of it and 1.

    It is put back on the side of the smaller tail, where a relative error of 1e-12 in x is one of
    1e-12 x² in the tail, below 2e-9 for every positive float.
    """
    tail = np.minimum(p, 1 - p)  # exact: 1 - p is, from 1/2 on
    x = np.array(special.ndtri(tail))
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(special.ndtr(x) - tail) <= ARITHMETIC * (1 + x * x) * tail) & (tail > 0)
    if np.any(wrong):
        least = tail[wrong]
        x[wrong] = first_true(lambda t: special.ndtr(t) >= least, 0 * least - 40, 0 * least)
    return np.where(p > 0.5, -x, x)


def _floats(*values: ArrayLike) -> Any:
    """The values as float arrays."""
    return [np.asarray(x, float) for x in values]
