"""Composition and subsampling theorems, as plain functions of epsilon and delta.

Upper bounds, except the central-limit forms at the end, which are estimates and say so.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

from dpassay import _check
from dpassay._special.margins import CLOSED_FORM, LEAST, UNIT, product_up, sum_up, up
from dpassay.errors import InvalidArgument
from dpassay.privacy import binomial
from dpassay.privacy.tradeoff import Tradeoff
from dpassay.types import FloatArray

_CHUNK = 2_000_000


def basic(epsilons: Sequence[float], deltas: Sequence[float] | None = None) -> tuple[float, float]:
    """An upper bound: the epsilons add and so do the deltas (Dwork and Roth 2014, theorem 3.16).

    Sums are rounded up.

    >>> basic([0.5, 0.25], [1e-6, 1e-6])
    (0.75, 2e-06)

    """
    eps, dels = _parts(epsilons, deltas)
    return sum_up(eps.tolist()), min(sum_up(dels.tolist()), 1.0)


def advanced(
    epsilons: Sequence[float],
    deltas: Sequence[float] | None = None,
    *,
    slack: float,
    counts: Sequence[int] | None = None,
) -> tuple[float, float]:
    """An upper bound: advanced composition in its heterogeneous form, never above the basic one.

        epsilon = min(sum e,  sum e tanh(e/2) + sqrt(2 log(1/slack) sum e²)),
        delta = 1 - (1 - slack) prod(1 - delta_i)

    (Kairouz, Oh and Viswanath 2015, theorem 3.5.) e tanh(e/2) is the largest KL divergence that
    epsilon-DP allows; the form printed with (e^e - 1)/(e^e + 1) alone lost a factor e and
    under-reports for e > 1.

    Args:
        epsilons: of each mechanism, adaptively chosen.
        deltas: of each mechanism; none means zero.
        slack: the extra delta that buys the square-root growth, in (0, 1).
        counts: how often each is repeated; none means once.

    >>> round(advanced([0.1], counts=[100], slack=1e-3)[0], 4)
    4.2165

    """
    eps, dels = _parts(epsilons, deltas)
    slack = _check.number(
        "slack", slack, low=0, high=1, low_open=True, high_open=True, remedy="Take delta/2."
    )
    n = (
        np.ones_like(eps)
        if counts is None
        else np.array([_check.count("counts", c) for c in counts])
    )
    if n.shape != eps.shape:
        raise InvalidArgument(f"counts has {n.size} entries for {eps.size} epsilons.")
    # All terms have one sign, and -expm1 grows less than in proportion: no error grows.
    log_kept = math.log1p(-slack) + float(n @ np.log1p(-dels))
    total = up(-math.expm1(log_kept), CLOSED_FORM + 4 * UNIT * eps.size)
    return float(advanced_epsilon(eps, n, slack)), min(total, 1.0)


def advanced_epsilon(epsilons: FloatArray, counts: FloatArray, slack: Any) -> FloatArray:
    """The epsilon of :func:`advanced`, unchecked; mechanisms in the first dimension.

    Rounded up; slack is 1 at the most, and its logarithm is taken from the side that is exact.
    """
    margin = CLOSED_FORM + 4 * UNIT * len(epsilons)  # sums over the mechanisms round once each
    drift = counts @ (epsilons * np.tanh(epsilons / 2))
    largest = np.maximum(epsilons.max(axis=0), LEAST)  # squares of the ratios do not underflow
    with np.errstate(invalid="ignore"):
        squares = counts @ np.square(np.where(largest < np.inf, epsilons / largest, 1.0))
    spread = largest * np.sqrt(-2 * np.log(slack) * squares)
    return up(np.minimum(counts @ epsilons, drift + spread), margin)


def optimal(epsilon: float, count: int) -> Callable[[FloatArray], FloatArray]:
    """The exact delta(x) of ``count`` adaptive epsilon-DP mechanisms, in the worst case.

    Attained by randomized response, whose losses are (2j - count) epsilon with binomial weights
    (Kairouz, Oh and Viswanath 2015, theorem 3.3). Returns the function x -> delta(x), x >= 0.

    >>> delta = optimal(0.1, 100)
    >>> round(float(delta(np.array([3.1156]))[0]), 6)
    0.001

    """
    epsilon = _check.epsilon(epsilon, finite=True)
    count = _check.count("count", count)
    hits, weights, outside = binomial.weights_up(count, epsilon)
    losses = np.nextafter((2 * hits - count) * epsilon, np.inf)
    first, step = losses[0], max(1, _CHUNK // losses.size)
    largest = count * epsilon
    if Fraction(largest) < count * Fraction(epsilon):  # delta is positive up to the real product
        largest = math.nextafter(largest, math.inf)

    def some(x: FloatArray) -> FloatArray:
        gain = -np.expm1(np.minimum(np.subtract.outer(x, losses), 0.0))
        total = up((gain * weights).sum(axis=1), 8 * CLOSED_FORM)  # pairwise sums round little
        # Losses outside the window are larger than x, or count as if they were.
        return np.where(x < max(largest, first), np.maximum(total + outside, LEAST), 0.0)

    def delta(x: FloatArray) -> FloatArray:
        flat = np.atleast_1d(np.asarray(x, float)).ravel()
        parts = [some(flat[i : i + step]) for i in range(0, flat.size, step)]
        return np.minimum(np.concatenate(parts), 1.0).reshape(np.shape(x)) if parts else flat

    return delta


def amplify(epsilon: float, delta: float, sampling_rate: float) -> tuple[float, float]:
    """An upper bound: (log(1 + q(e^epsilon - 1)), q delta) after sampling at rate q.

    Holds for Poisson sampling under add/remove, and for sampling without replacement under
    replace-one (Balle, Barthe and Gaboardi 2018, theorems 8 and 9); not for the other two pairs.

    >>> round(amplify(1.0, 0.0, 0.01)[0], 8)
    0.01703686

    """
    q = _check.sampling_rate(sampling_rate)
    epsilon, delta = _check.epsilon(epsilon, finite=True), _check.delta(delta)
    return float(amplify_unchecked(epsilon, q)), delta if q == 1 else product_up(q, delta)


def amplify_unchecked(epsilon: Any, sampling_rate: float) -> FloatArray:
    """The epsilon of :func:`amplify`, unchecked; inf stays so."""
    log_q = math.log(sampling_rate)
    x: FloatArray = np.asarray(epsilon, float)
    small = np.minimum(x, 30.0)
    direct = up(np.log1p(sampling_rate * np.expm1(small)))
    # log(1 + e^y) with y = log(q (e^epsilon - 1)): an error of y counts in full at most, and as
    # much of the result as e^y does where that is small.
    with np.errstate(divide="ignore", invalid="ignore"):
        large = np.logaddexp(0.0, log_q + x)
        large = up(large) + 8 * UNIT * (x - log_q) * np.minimum(large, 1.0)
    value: FloatArray = np.where(x < 30, direct, np.minimum(large, x))
    return np.where((x > 0) & (value == 0), LEAST, value)


def undo_amplification(epsilon: FloatArray, sampling_rate: float) -> FloatArray:
    """The epsilon that sampling brings down to this one, log(1 + (e^epsilon - 1)/q)."""
    with np.errstate(over="ignore"):
        inside = np.log1p(np.expm1(np.minimum(epsilon, 700.0)) / sampling_rate)
    far = (epsilon > 700) | ~np.isfinite(inside)
    return np.where(far, epsilon - math.log(sampling_rate), inside)


def zcdp_of_pure(epsilon: float) -> float:
    """The smallest rho for which every epsilon-DP mechanism is rho-zCDP: epsilon tanh(epsilon/2).

    At most the usual epsilon²/2 (Bun and Steinke 2016), and attained. Every epsilon-DP mechanism
    is a post-processing of randomized response, whose Rényi divergence over its order a is

        (g((a - 1/2)²) - g(1/4)) / ((a - 1/2)² - 1/4),      g(s) = log cosh(epsilon √s).

    g is concave, since g'(s) = epsilon tanh(epsilon √s) / (2 √s) falls; so this slope of a chord
    from 1/4 is largest as a -> 1, where it is g'(1/4) = epsilon tanh(epsilon/2).
    """
    epsilon = _check.epsilon(epsilon, finite=True)
    return product_up(epsilon, math.tanh(epsilon / 2))


def zcdp_of_bounded_range(epsilon: float) -> float:
    """epsilon²/8, for the exponential mechanism only (Cesar and Rogers 2021, lemma 3.4).

    Its loss L lies in an interval of width epsilon and E e^-L = 1; Hoeffding's lemma bounds the
    cumulant by epsilon²/8.
    """
    epsilon = _check.epsilon(epsilon, finite=True)
    return product_up(epsilon / 8, epsilon)


# Central limit theorems: estimates, not bounds.


def clt_mu(tradeoff: Tradeoff, count: int) -> float:
    """An estimate: ``count`` compositions of f-DP look like mu-GDP (Dong, Roth and Su 2022, 3.5).

    mu = 2 √count k1 / sqrt(k2 - k1²) with k1 = -∫ log|f'| and k2 = ∫ log²|f'|, for symmetric f. The
    truth can be worse than the limit: never use it for a guarantee.
    """
    count = _check.count("count", count)
    rise, run = -np.diff(tradeoff.fnr), np.diff(tradeoff.fpr)
    if np.any(rise <= 0):
        raise InvalidArgument(
            "tradeoff has a flat or empty part, where log|f'| is infinite; the limit needs "
            "f' < 0 everywhere, as for pure epsilon-DP or GDP."
        )
    slope = np.log(rise / run)
    k1, k2 = -float(slope @ run), float(np.square(slope) @ run)
    return 2 * math.sqrt(count) * k1 / math.sqrt(k2 - k1 * k1)


def clt_mu_uniform(noise_multiplier: float, sampling_rate: float, steps: int) -> float:
    """An estimate for Gaussian steps on subsets of fixed size, replace-one.

    mu = √2 q √T sqrt(e^{m²} Phi(3m/2) + 3 Phi(-m/2) - 2), m = 1/noise_multiplier (Dong, Roth and
    Su 2022, corollary 5.4). The √2 is often lost; the bracket is m²/2 for small m.

    >>> round(clt_mu_uniform(1.0, 1e-3, 10**6), 6)
    1.710142

    """
    q, steps = _check.sampling_rate(sampling_rate), _check.count("steps", steps)
    m = 1 / _check.noise_multiplier(noise_multiplier)
    if m < 1e-5:  # the bracket is m²/2, which the sum below would lose
        return math.sqrt(steps) * m * q
    bracket = _exp(m * m) * special.ndtr(1.5 * m) + 3 * special.ndtr(-0.5 * m) - 2
    return math.sqrt(2 * steps * max(bracket, 0.0)) * q


def clt_mu_poisson(noise_multiplier: float, sampling_rate: float, steps: int) -> float:
    """An estimate for Gaussian steps on Poisson batches, add/remove: q sqrt(T (e^{m²} - 1)).

    (Bu, Dong, Long and Su 2020.)

    >>> round(clt_mu_poisson(1.0, 1e-3, 10**6), 6)
    1.310832

    """
    q, steps = _check.sampling_rate(sampling_rate), _check.count("steps", steps)
    m = 1 / _check.noise_multiplier(noise_multiplier)
    if m < 1e-5:
        return q * math.sqrt(steps) * m
    return q * math.sqrt(steps * (math.expm1(m * m) if m * m < 700 else math.inf))


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _parts(
    epsilons: Sequence[float], deltas: Sequence[float] | None
) -> tuple[FloatArray, FloatArray]:
    eps = _check.array("epsilons", epsilons, low=0, ndim=1, empty=False)
    dels = np.zeros_like(eps) if deltas is None else deltas
    dels = _check.array("deltas", dels, low=0, high=1, high_open=True, ndim=1)
    if dels.shape != eps.shape:
        raise InvalidArgument(
            f"deltas has {dels.size} entries for {eps.size} epsilons; give one per mechanism."
        )
    return eps, dels
