"""Binomial weights near e^epsilon/(1 + e^epsilon), by Loader's saddle-point form, rounded up.

With h hits of n, p the probability of one, log P(h) is (Loader 2000)

    s(n) - s(h) - s(n-h) - d(h, np) - d(n-h, nq) + log(n / (2 pi h (n-h)))/2,

where s is the error of Stirling's formula and d(x, m) = x log(x/m) + m - x >= 0 the deviance. All
terms are small where the weight is not, whereas the log-factorials of the usual form grow with n:
at n = 1e6 their difference is wrong by 1e-9 of the weight.
"""

from typing import cast

import numpy as np
from scipy import special

from dpassay._special.margins import CLOSED_FORM, UNIT, exp_up
from dpassay.types import FloatArray

_WINDOW = 20.0  # times √n on either side; the mass beyond is at most 2 e^-800 (Hoeffding)
_OUTSIDE = float(np.finfo(float).tiny)


def weights_up(count: int, epsilon: float) -> tuple[FloatArray, FloatArray, float]:
    """Numbers of hits, upper bounds on their weights, and one on the mass of all others."""
    p, q = special.expit(epsilon), special.expit(-epsilon)
    reach = _WINDOW * np.sqrt(count) + 1
    low, high = (
        int(max(0, np.floor(count * p - reach))),
        int(min(count, np.ceil(count * p + reach))),
    )
    hits = np.arange(low, high + 1, dtype=float)
    outside = _OUTSIDE if (low > 0 or high < count) else 0.0
    return hits, exp_up(*_log_weights(float(count), hits, float(p), float(q), epsilon)), outside


def _log_weights(
    n: float, hits: FloatArray, p: float, q: float, epsilon: float
) -> tuple[FloatArray, FloatArray]:
    """Log weights, and bounds on their errors."""
    misses = n - hits
    inner = (hits > 0) & (misses > 0)
    h, m = np.where(inner, hits, 1.0), np.where(inner, misses, max(n - 1, 1.0))
    of_hits, of_misses = _deviance(h, n * p), _deviance(m, n * q)
    stirling = _stirling(np.array([n]))[0] - _stirling(h) - _stirling(m)
    value = stirling - of_hits - of_misses + 0.5 * (np.log(n / h) - np.log(2 * np.pi * m))
    # The means are a few units off, which moves d by |x - mean| times that; d itself, by its
    # logarithm, is a difference of terms fifty times as large; the others are below |log n| + 2.
    error = 4 * CLOSED_FORM + UNIT * (8 * (np.abs(h - n * p) + np.abs(m - n * q)))
    error = error + UNIT * (256 * (of_hits + of_misses) + 16 * np.log(n + 1))
    # Where nq has underflown the deviance is infinite; the weight is then below every float.
    tiny = ~np.isfinite(value)
    value, error = np.where(tiny, -1e6, value), np.where(tiny, 0.0, error)
    # Nothing but hits, or none: n log p, n log q.
    all_hits, no_hits = -n * np.logaddexp(0, -epsilon), -n * np.logaddexp(0, epsilon)
    edge = cast(FloatArray, np.where(hits > 0, all_hits, no_hits))
    edge_error = CLOSED_FORM + 16 * UNIT * np.abs(edge)
    return np.where(inner, value, edge), np.where(inner, error, edge_error)


def _deviance(x: FloatArray, mean: float) -> FloatArray:
    """The deviance x log(x/mean) + mean - x, without cancelling where x is near the mean.

    With v = (x - mean)/(x + mean), log(x/mean) = 2 artanh(v), and the sum is
    (x - mean) v + 2 x (v³/3 + v⁵/5 + ...).
    """
    if mean == 0:
        return np.full_like(x, np.inf)
    gap = x - mean
    v = gap / (x + mean)
    near = np.abs(v) < 0.1
    square = np.square(np.where(near, v, 0.0))
    series = np.zeros_like(x)
    for k in range(21, 1, -2):
        series = square * (1 / k + series)
    by_series = gap * v + 2 * x * v * series
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(near, by_series, x * np.log(x / mean) - gap)


def _stirling(n: FloatArray) -> FloatArray:
    """The error of Stirling's formula for log n!, n >= 1: by its series from 16 on."""
    u = 1 / np.square(np.maximum(n, 16.0))
    tail = 1 / 1260 - u * (1 / 1680 - u * (1 / 1188 - u * (691 / 360360 - u / 156)))
    series = (1 / 12 - u * (1 / 360 - u * tail)) / np.maximum(n, 16.0)
    few = np.minimum(n, 16.0)
    exact = special.gammaln(few + 1) - (few + 0.5) * np.log(few) + few - 0.5 * np.log(2 * np.pi)
    return np.where(n < 16, exact, series)
