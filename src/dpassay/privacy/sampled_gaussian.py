"""The Rényi divergences of Gaussian noise on a random sample of the records.

With noise of deviation s (in units of the sensitivity), sampling rate q, z standard normal,
W = e^{z/s - 1/(2s²)} and y = q(W - 1), the moment of order a is A = E(1 + y)^a and the divergence
log(A)/(a-1): that of the mixture against the plain Gaussian, which is the larger direction at every
order (Mironov, Talwar and Zhang 2019, theorem 5). A is 1 plus something tiny at small q, which a
sum around 1 would lose. Both forms here sum positive terms of A - 1 alone, as logarithms:

- a whole: A - 1 = sum over k >= 2 of C(a,k) q^k (1-q)^(a-k) (e^{k(k-1)/(2s²)} - 1), because the
  binomial weights sum to 1;
- any a > 1: A - 1 = E g(y) with g(y) = (1+y)^a - 1 - a y >= 0 (Bernoulli), because E y = 0. The
  trapezoid rule on [-14, a/s + 14] with step h = min(1/16, s/5): the integrand is analytic for
  |Im z| < pi s, the first zero of 1 + y, and there |1 + y| <= 1 - q + q |W|, so that the rule errs
  by at most 2 (A + 1 + a) e^{b²/2 - 2 pi b/h} with b = min(2 pi/h, 0.9 pi s), which is added.

Where the rule would take too many nodes (s below 0.2) log A, convex in a, is bounded by the chord
between the whole orders on either side.

Without replacement, under replace-one, the dominating profile is the larger of both directions of
the mixture at every point (:mod:`dpassay.privacy.profiles`). A - 1 is linear in the part of a
profile above (1 - e^x)⁺ and the larger of two is at most their sum: A - 1 is at most doubled.
"""

import functools
import math
from typing import Any, cast

import numpy as np

from dpassay._special.margins import ARITHMETIC, CLOSED_FORM, LEAST, UNIT, up
from dpassay.privacy.renyi import from_log_excess
from dpassay.types import FloatArray

LARGEST_ORDER = 1024.0  # one term per order makes large ones dear, and sampling rarely needs them
_RANGE = 14.0  # deviations; what lies outside is below 1e-40 of the integral
_MAX_NODES = 2200
# Below, exponents overflow. What is known of all batches is known of samples too: a divergence of
# mixtures is at most the largest of their parts'.
_LEAST_NOISE = 1e-4
_QUADRATURE = ARITHMETIC  # of g by its series or its difference, and of what is cut off


def divergences(
    noise_multiplier: float, sampling_rate: float, orders: FloatArray, *, doubled: bool = False
) -> FloatArray:
    """Upper bounds on the Rényi divergences at orders above 1; inf beyond ``LARGEST_ORDER``.

    ``doubled`` is for sampling without replacement under replace-one, see above.
    """
    m = 1 / noise_multiplier
    if sampling_rate == 1 or noise_multiplier < _LEAST_NOISE:
        with np.errstate(over="ignore"):
            return np.maximum(up(orders * (0.5 * m * m)), LEAST)
    result = np.full_like(orders, np.inf)
    for is_whole, log_excess in ((True, _whole_orders), (False, _any_orders)):
        use = (orders <= LARGEST_ORDER) & ((orders == np.rint(orders)) == is_whole)
        if use.any():
            excess = log_excess(noise_multiplier, sampling_rate, orders[use])
            result[use] = from_log_excess(excess + (math.log(2.0) if doubled else 0.0), orders[use])
    # Divergences grow with the order: what rounding left below a smaller order's is raised.
    sort = np.argsort(orders)
    result[sort] = np.maximum.accumulate(result[sort])
    return result


@functools.lru_cache(maxsize=256)
def _log_binomials(order: int) -> FloatArray:
    """The logs of C(order, k) for k = 2, ..., order, each from the exact whole number."""
    coefficients = [1]
    for k in range(order):
        coefficients.append(coefficients[-1] * (order - k) // (k + 1))
    return np.array([math.log(c) for c in coefficients[2:]])


def _whole_orders(s: float, q: float, orders: FloatArray) -> FloatArray:
    """log(A - 1) at whole orders, rounded up."""
    most = int(orders.max())
    k = np.arange(2.0, most + 1)
    gain, log_q, log_rest = _log_expm1(k, s), math.log(q), math.log1p(-q)
    return np.array([_whole_order(int(order), k, gain, log_q, log_rest) for order in orders])


def _whole_order(order: int, k: FloatArray, gain: FloatArray, log_q: float, log_rest: float) -> Any:
    k, gain = k[: order - 1], gain[: order - 1]
    choose, drawn, left = _log_binomials(order), k * log_q, (order - k) * log_rest
    terms = choose + drawn + left + gain
    top = terms.max()
    if not np.isfinite(top):
        return top
    # Each logarithm errs by a few units of its size; the terms that matter are the largest.
    size = np.where(np.isfinite(gain), choose - drawn - left + np.abs(gain), 0.0)
    with np.errstate(under="ignore"):
        total = np.sum(np.exp(terms - top + 16 * UNIT * size))
    return top + math.log(total) + CLOSED_FORM + 16 * UNIT * abs(top)


def _log_expm1(k: FloatArray, s: float) -> FloatArray:
    """log(e^t - 1), t = k(k-1)/(2s²); -inf where it underflows."""
    with np.errstate(divide="ignore", over="ignore"):
        t = k * (k - 1) / 2 / s / s
        return np.where(t > 1, t + np.log1p(-np.exp(-np.maximum(t, 1))), np.log(np.expm1(t)))


def _any_orders(s: float, q: float, orders: FloatArray) -> FloatArray:
    """log(A - 1) at orders that are not whole, rounded up."""
    step = min(1 / 16, s / 5)
    nodes = (2 * _RANGE + orders / s) / step
    few = nodes <= _MAX_NODES
    result = np.empty_like(orders)
    if few.any():
        result[few] = _trapezoid(s, q, orders[few], step)
    if not few.all():
        result[~few] = _chord(s, q, orders[~few])
    return result


def _chord(s: float, q: float, orders: FloatArray) -> FloatArray:
    """From log A <= (1-f) log A_n + f log A_{n+1}, a = n + f; log A_1 = 0."""
    below = np.floor(orders)
    share = orders - below
    logs = [
        np.where(n > 1, np.logaddexp(0.0, _whole_orders(s, q, np.maximum(n, 2))), 0.0)
        for n in (below, below + 1)
    ]
    log_moment = up((1 - share) * logs[0] + share * logs[1])
    with np.errstate(over="ignore", divide="ignore"):
        excess = np.log(np.expm1(np.minimum(log_moment, 700.0)))
    return cast(FloatArray, np.where(log_moment > 700, log_moment, excess)) + CLOSED_FORM


def _trapezoid(s: float, q: float, orders: FloatArray, step: float) -> FloatArray:
    z = np.arange(-_RANGE, float(orders.max()) / s + _RANGE + step, step)
    a = orders[:, None]
    log_w = z / s - 0.5 / s / s
    with np.errstate(over="ignore"):
        y = q * np.expm1(log_w)
    grown = np.logaddexp(math.log1p(-q), math.log(q) + log_w)  # log(1 + y)
    logs = _log_excess_of_power(a, y, grown) - z * z / 2
    top = logs.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        total = np.exp(logs - top).sum(axis=1)
    log_value = top[:, 0] + np.log(total) + math.log(step) - 0.5 * math.log(2 * math.pi)
    # Exponents err by a few units of their size: of z², of log W and of a log(1 + y).
    largest = np.abs(top[:, 0]) + 200 + orders * (np.abs(math.log(q)) + 0.5 / s / s)
    log_value += _QUADRATURE + 16 * UNIT * largest
    width = min(2 * math.pi / step, 0.9 * math.pi * s)
    log_rule = width**2 / 2 - 2 * math.pi * width / step + np.log(4 * (2 + orders))
    return np.logaddexp(log_value, log_rule + np.logaddexp(0.0, log_value))


def _log_excess_of_power(a: FloatArray, y: FloatArray, grown: FloatArray) -> FloatArray:
    """The log of g(y) = (1+y)^a - 1 - a y; ``grown`` is log(1+y).

    By its series a(a-1)/2 y² (1 + (a-2)/3 y (1 + (a-3)/4 y (...))) where the difference cancels.
    """
    small = (np.abs(y) < 0.05) & (a * np.abs(y) < 0.5)
    near = np.where(np.abs(y) < 0.05, y, 0.0)
    series = np.ones(np.broadcast_shapes(a.shape, y.shape))
    for k in range(15, 2, -1):
        series = 1 + (a - k + 1) / k * near * series
    power = a * grown
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        by_series = np.log(a * (a - 1) / 2 * series) + 2 * np.log(np.abs(near))
        difference = np.log(np.expm1(np.minimum(power, 30.0)) - a * np.minimum(y, 1e30))
        large = power + np.log1p(-np.exp(np.log1p(a * np.maximum(y, 0.0)) - power))
    return np.where(small, by_series, np.where(power < 30, difference, large))
