"""From Rényi divergences to delta and epsilon; and divergences in closed form.

All are upper bounds that carry their rounding margin (:mod:`dpassay._special.margins`).
"""

from typing import Any, cast

import numpy as np

from dpassay._special.margins import CLOSED_FORM, LEAST, UNIT, exp_up, up
from dpassay.types import FloatArray

_LARGEST = float(np.finfo(float).max)


def _terms(epsilon: Any, order: Any, divergence: Any) -> tuple[Any, Any, Any]:
    """The parts of log delta (Canonne, Kamath and Steinke 2020, proposition 12).

    log delta = (a - 1)(D - epsilon) + a log(1 - 1/a) - log(a - 1). For an order near 1 the second
    is taken from a - 1, which is exact, where 1 - 1/a is not.
    """
    with np.errstate(divide="ignore"):
        near = np.log(order - 1) - np.log(order)
    log_share = cast(Any, np.where(order < 2, near, np.log1p(-1 / order)))
    return (order - 1) * (divergence - epsilon), order * log_share, -np.log(order - 1)


def log_delta_at(epsilon: Any, order: Any, divergence: Any) -> Any:
    """Log delta from the divergence at one order, to rounding."""
    first, second, third = _terms(epsilon, order, divergence)
    return first + second + third


@np.errstate(over="ignore", invalid="ignore")  # at infinite epsilons, and far beyond all floats
def delta_at(epsilon: Any, order: Any, divergence: Any) -> Any:
    """An upper bound on delta(epsilon) from the divergence at one order."""
    terms = _terms(epsilon, order, divergence)
    error = CLOSED_FORM + 16 * UNIT * sum(np.abs(term) for term in terms)
    # A logarithm that overflowed is that of a positive delta all the same, unless epsilon is inf.
    log_delta = np.asarray(sum(terms))
    beyond = log_delta == -np.inf
    log_delta = np.where(beyond & np.isfinite(epsilon), -_LARGEST, log_delta)
    return np.minimum(exp_up(log_delta, np.where(beyond, 0.0, error)), 1.0)


@np.errstate(over="ignore")
def epsilon_at(delta: Any, order: Any, divergence: Any) -> Any:
    """An upper bound on epsilon(delta) from the divergence at one order; inf for delta = 0."""
    with np.errstate(divide="ignore"):
        log_delta = np.log(delta)
    _, second, third = _terms(0.0, order, divergence)
    # Solve for epsilon: D + (a log(1 - 1/a) - log(a - 1) - log delta) / (a - 1).
    with np.errstate(invalid="ignore"):
        size = np.abs(second) + np.abs(third) + np.abs(log_delta)
        value = divergence + (second + third - log_delta) / (order - 1)
        # Twice the margin of delta_at, so that its delta at this epsilon is at most delta.
        first = (order - 1) * (divergence + np.maximum(value, 0.0))
        margin = 2 * CLOSED_FORM + 64 * UNIT * (size + first)
        return np.where(delta > 0, value + margin / (order - 1), np.inf)


def total_variation(kl: Any) -> Any:
    """Pinsker's and Bretagnolle and Huber's bounds on delta(0), whichever is smaller.

    The Kullback-Leibler divergence is at most the Rényi divergence of any order above 1.
    """
    # Roots before the product: half of the smallest float would be 0.
    return up(np.minimum(np.sqrt(kl) * np.sqrt(0.5), np.sqrt(-np.expm1(-kl))))


def of_randomized_response(epsilon: float, n_categories: int, orders: FloatArray) -> FloatArray:
    """The Rényi divergences of randomized response; for two categories those of any epsilon-DP.

    With r = e^epsilon the true answer has probability r o, each other one o = 1/(r + k - 1), and

        sum P^a Q^(1-a) - 1 = o (r^a + r^(1-a) - r - 1) = o (r^a - 1)(1 - r^-(a-1)):

    a product of positive factors. Every epsilon-DP mechanism is a post-processing of two answers.
    """
    if epsilon == 0:
        return np.zeros_like(orders)
    with np.errstate(over="ignore"):
        a, b = orders * epsilon, (orders - 1) * epsilon
    # o r^a = e^b / (1 + (k - 1) e^-epsilon)
    log_rest = np.log1p((n_categories - 1) * np.exp(-epsilon))
    log_excess = b - log_rest + _log1mexp(a) + _log1mexp(b)
    # a and b are rounded by three units each; the other terms by the size of what was summed.
    error = CLOSED_FORM + 16 * UNIT * (b + np.abs(log_excess))
    return _at_most(epsilon, from_log_excess(log_excess + error, orders))


def of_laplace(epsilon: float, orders: FloatArray) -> FloatArray:
    """The Rényi divergences of Laplace noise of scale 1/epsilon, one sensitivity apart.

    sum P^a Q^(1-a) = (a e^{(a-1) epsilon} + (a-1) e^{-a epsilon}) / (2a - 1). With
    f(t) = e^t - 1 - t >= 0 the linear parts cancel exactly, and what exceeds 1 is
    (a f((a-1) epsilon) + (a-1) f(-a epsilon)) / (2a - 1).
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        a, b = orders * epsilon, (orders - 1) * epsilon
        first, second = np.log(orders) + _log_f(b), np.log(orders - 1) + _log_f(-a)
        log_excess = np.logaddexp(first, second) - np.log(2 * orders - 1)
        error = 4 * CLOSED_FORM + 16 * UNIT * (b + np.abs(log_excess) + np.log(2 * orders))
        return _at_most(epsilon, from_log_excess(log_excess + error, orders))


def _at_most(epsilon: float, divergences: FloatArray) -> FloatArray:
    """The divergences, and where they overflowed the largest that they can be."""
    return np.where(np.isfinite(divergences), divergences, up(epsilon))


def from_log_excess(log_excess: Any, orders: FloatArray) -> FloatArray:
    """log(1 + e^log_excess)/(a - 1), rounded up; positive however small the excess."""
    return np.maximum(up(np.logaddexp(0.0, log_excess) / (orders - 1)), LEAST)


def _log1mexp(x: Any) -> Any:
    """log(1 - e^-x) for x > 0."""
    with np.errstate(divide="ignore"):
        near, far = np.log(-np.expm1(-x)), np.log1p(-np.exp(-np.maximum(x, 0.7)))
        return cast(Any, np.where(x < 0.7, near, far))


def _log_f(t: Any) -> Any:
    """log(e^t - 1 - t), accurate for every t but 0, where it is -inf."""
    t = np.asarray(t, float)
    small = np.clip(t, -0.5, 0.5)
    series = np.ones_like(t)
    for k in range(16, 2, -1):
        series = 1 + small / k * series
    with np.errstate(divide="ignore", over="ignore"):
        near = 2 * np.log(np.abs(small)) - np.log(2.0) + np.log(series)
        middle = np.log(np.expm1(np.minimum(t, 30.0)) - np.minimum(t, 30.0))
        far = t + np.log1p(-(1 + np.maximum(t, 30.0)) * np.exp(-np.maximum(t, 30.0)))
    beyond = cast(FloatArray, np.where(t < 30, middle, far))
    return np.where(np.abs(t) < 0.5, near, beyond)
