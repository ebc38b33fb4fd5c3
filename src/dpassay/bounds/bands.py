"""Upper limits on a rate that hold at every threshold at once, so that any threshold may be used.

Let n scores be drawn from one world. For a threshold t an "error" is a score beyond it (at least t
in the world without the canary, below t in the world with it); k errors were seen and the error
rate R(t) is to be limited from above, for all t together, thresholds that depend on these scores
included.

**Ranks.** Order the scores from the far end, Y_(1), Y_(2), ... If k errors are seen at t, then
Y_(k+1) is not beyond t, so that R(t) <= G(Y_(k+1)) where G(y) is the probability strictly beyond
y. Let V_i = G(Y_i) + U_i P(Y = Y_i), U_i uniform: V_i is uniform and keeps the order of the scores,
so that G(Y_(k+1)) <= V_(k+1), the (k+1)-th smallest of n uniforms, Beta(k+1, n-k). Its 1 - a
quantile u_k is the Clopper-Pearson limit. Hence if V_(k+1) <= u_k for all k of a set of ranks fixed
in advance, then R(t) <= u_k for every t with at most k errors, k the next rank of that set: a
band. Ties only make it conservative.

**Price.** The chance that some V_(k+1) exceeds its u_k is at most the number of ranks times a
("bonferroni", few ranks), or is computed exactly ("band"). The exact price of equal levels a is
far smaller, since neighbouring ranks nearly agree: some 47 a instead of 1000 a at n = 1000. This is
the band of Berk and Jones (1979) with equal local levels (Gontscharuk, Landwehr and Finner 2016).
"dkw" is the band of constant width (Massart 1990): best at rates near one half, useless for the
small rates where a large epsilon is decided.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import fft, special

from dpassay._special.margins import NUMERICAL
from dpassay._special.quantiles import binomial_upper
from dpassay.types import FloatArray


@dataclass(frozen=True)
class Band:
    """Upper limits on error rates that hold at all thresholds together.

    ``limits(counts, n, level)`` are upper limits on the rates, which hold at all thresholds
    together except with probability ``price(n, level)`` at most. ``ranks(n)`` are the counts of
    errors that are worth trying.
    """

    ranks: Callable[[int], FloatArray]
    limits: Callable[[FloatArray, int, float], FloatArray]
    price: Callable[[int, float], float]
    words: str


def _dkw_limits(counts: FloatArray, n: int, level: float) -> FloatArray:
    """One-sided, level at most 1/2, with Massart's constant."""
    return np.minimum(counts / n + math.sqrt(-math.log(level) / (2 * n)), 1.0)


def _rank_limits(ranks: Callable[[int], FloatArray]) -> Callable[..., FloatArray]:
    def limits(counts: FloatArray, n: int, level: float) -> FloatArray:
        table = np.append(binomial_upper(ranks(n), n, level), 1.0)
        return table[np.searchsorted(ranks(n), counts)]

    return limits


@lru_cache(maxsize=64)
def ranks(n: int, ratio: float, parts: int) -> FloatArray:
    """Ranks 0, 1, 2, ... that grow by a ratio, at most n / parts at a time, from both ends."""
    rank = 0
    half: list[int] = []
    while rank < (n + 1) // 2:
        half.append(rank)
        rank += max(1, min(int(rank * (ratio - 1)), n // parts))
    low = np.array(half, dtype=float)
    return np.union1d(low, n - 1 - low)


def _few_ranks(n: int) -> FloatArray:
    return ranks(n, 1.2, 1)


def _many_ranks(n: int) -> FloatArray:
    return ranks(n, 1.03, 1000)


def _union_price(n: int, level: float) -> float:
    return min(1.0, _few_ranks(n).size * level)


def _exact_price(n: int, level: float) -> float:
    grid = _many_ranks(n)
    union = min(1.0, grid.size * level)
    crossing = crossing_probability(grid + 1, binomial_upper(grid, n, level), n)
    return min(union, max(crossing, 0.0) + NUMERICAL)


def crossing_probability(orders: FloatArray, bounds: FloatArray, n: int) -> float:
    """P(V_(j) > b for some pair (j, b)), V_(j) the j-th smallest of n uniforms; exact, rounded up.

    V_(j) <= b says that at least j points lie below b. The points are a Poisson process with n
    points in all (Moscovich and Nadler 2017): walk through the bounds, add independent Poisson
    numbers of points (a convolution), and drop the paths that have too few. Paths of probability
    e^-40 or so are dropped too, which only raises the result.
    """
    need = np.asarray(orders, dtype=np.int64)
    most = _likely_most(n, bounds).clip(need, n)
    start, weights, at = 0, np.ones(1), 0.0
    for least, top, bound in zip(need, most, bounds, strict=True):
        first, kernel = _poisson(n * (bound - at))
        grown = _convolve(weights, kernel)
        skip = least - (start + first)
        grown = np.concatenate([np.zeros(max(-skip, 0)), grown[max(skip, 0) :]])
        start, weights, at = least, grown[: top - least + 1], bound
    rest = n - start - np.arange(float(weights.size))
    ends = weights @ np.exp(_log_poisson(rest, n * (1 - at)))
    return float(1 - ends / np.exp(_log_poisson(float(n), n)))


def _likely_most(mean_of: int, share: FloatArray) -> FloatArray:
    """More points than lie below a share of the line, except with probability e^-40 (Bernstein)."""
    mean = mean_of * share
    return np.ceil(mean + 9 * np.sqrt(mean * (1 - share)) + 60).astype(np.int64)


def _log_poisson(k: Any, mean: float) -> FloatArray:
    """The logarithm of P(Poisson(mean) = k); by Stirling's series from 20 on: k log k cancels."""
    few, many = np.minimum(k, 20), np.maximum(k, 20)
    if mean == 0:
        return np.where(np.equal(k, 0), 0.0, -np.inf)
    h = (many - mean) / mean
    series = (1 / 12 - (1 / 360 - 1 / (1260 * many**2)) / many**2) / many
    far = -mean * ((1 + h) * np.log1p(h) - h) - 0.5 * np.log(2 * np.pi * many) - series
    near: FloatArray = special.xlogy(few, mean) - mean - special.gammaln(few + 1)
    return np.where(k < 20, near, far)


def _poisson(mean: float) -> tuple[int, FloatArray]:
    """Poisson probabilities without tails of e^-40 or less, and the number that the first is of."""
    reach = 9 * math.sqrt(mean) + 60
    first = max(0, math.floor(mean - reach))
    return first, np.exp(_log_poisson(np.arange(first, math.ceil(mean + reach) + 1.0), mean))


def _convolve(a: FloatArray, b: FloatArray) -> FloatArray:
    if a.size * b.size < 500_000:
        return np.convolve(a, b)
    size = a.size + b.size - 1
    padded = fft.next_fast_len(size, real=True)
    product = np.fft.irfft(np.fft.rfft(a, padded) * np.fft.rfft(b, padded), padded)
    return np.maximum(product[:size], 0.0)


BANDS = {
    "dkw": Band(
        _many_ranks,
        _dkw_limits,
        lambda n, level: level,
        "the DKW-Massart band pays for every threshold at once",
    ),
    "bonferroni": Band(
        _few_ranks,
        _rank_limits(_few_ranks),
        _union_price,
        "a union over ranks pays for every threshold at once",
    ),
    "band": Band(
        _many_ranks,
        _rank_limits(_many_ranks),
        _exact_price,
        "an exact band of equal local levels pays for every threshold at once",
    ),
}


def total_price(kind: str, n_in: int, n_out: int, level: float) -> float:
    """The probability that the bands of the two worlds fail, at most."""
    prices = {n: BANDS[kind].price(n, level) for n in {n_in, n_out}}
    return min(1.0, prices[n_in] + prices[n_out])


@lru_cache(maxsize=256)
def common_level(kind: str, n_in: int, n_out: int, alpha: float) -> float:
    """The level at which the bands of both worlds together fail with probability alpha at most.

    It is a little conservative: 0.98 alpha or more is spent.
    """
    low, high = alpha / (n_in + n_out), alpha / 2
    spent_low, spent_high = (total_price(kind, n_in, n_out, x) for x in (low, high))
    if spent_high <= alpha:
        return high
    while spent_low < 0.98 * alpha:
        # The price is nearly a power of the level, so that logarithms are interpolated.
        share = math.log(0.99 * alpha / spent_low) / math.log(spent_high / spent_low)
        level = low * (high / low) ** min(max(share, 0.02), 0.98)
        spent = total_price(kind, n_in, n_out, level)
        if spent <= alpha:
            low, spent_low = level, spent
        else:
            high, spent_high = level, spent
    return low
