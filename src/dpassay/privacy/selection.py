"""The best of a random number of runs: what it costs (Papernot and Steinke 2022).

A run Q returns a result with a score; K runs are made, with fresh noise each, and the result of the
highest score is kept, the others and K itself forgotten. For a *fixed* K the price can be K times
that of a run. For a random K it is not, because then the probability that A, the whole, returns y
or worse is G(F(y)), with F the distribution function of one run's score and G the generating
function of K: A is one run seen through a smooth map.

Laws of K, both with mean m = E K:

- "negative-binomial", truncated to K >= 1, of shape h >= 0 and parameter g in (0, 1): P(K=k) is
  proportional to (1-g)^k (h)(h+1)...(h+k-1)/k!; h = 1 is the geometric law, h = 0 the logarithmic.
  If Q has Rényi divergences r(a), A has (theorem 2), at every order a > 1 and for any b >= 1,

      r(a) + (1+h) (1 - 1/b) r(b) + (1+h) log(1/g)/b + log(m)/(a-1);

- "poisson" of mean m, with nothing to return where K = 0. If at the point x = log(1 + 1/(a-1)) Q
  has delta(x), A has (theorem 6), at order a,

      r(a) + m delta(x) + log(m)/(a-1).
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from dpassay._special.margins import CLOSED_FORM, up
from dpassay._special.search import first_true
from dpassay.types import FloatArray

LAWS = ("poisson", "negative-binomial")


def mean_of(gamma: Any, shape: float) -> Any:
    """E K of the truncated negative binomial law."""
    gamma = np.asarray(gamma, float)
    if shape == 0:
        return (1 - gamma) / (gamma * -np.log(gamma))  # 1/gamma - 1 would cancel near 1
    return shape * (1 - gamma) / (gamma * -np.expm1(shape * np.log(gamma)))


@lru_cache(maxsize=256)
def gamma_of(mean: float, shape: float) -> float:
    """The parameter g of the truncated negative binomial law with this mean, above 1.

    >>> gamma_of(10.0, 1.0)
    0.1

    """
    low, high = np.array([1e-12]), np.array([1 - 1e-12])
    return float(first_true(lambda g: mean_of(g, shape) <= mean, low, high)[0])


def negative_binomial_price(
    orders: FloatArray, divergences: FloatArray, mean: float, shape: float
) -> FloatArray:
    """Upper bounds on the Rényi divergences of the best of K runs; ``divergences`` are a run's."""
    gamma = gamma_of(mean, shape)
    usable = np.isfinite(divergences)
    b = np.append(orders[usable], 1.0)
    r = np.append(divergences[usable], 0.0)  # at b = 1 its factor vanishes
    # The law that is drawn from has this gamma, or the mean that was stated; they agree up to a
    # few units. So both logarithms are taken at their upper ends: then the price covers either.
    log_inverse = CLOSED_FORM - math.log(gamma)
    log_mean = CLOSED_FORM + math.log(max(mean, float(mean_of(gamma, shape))))
    extra = np.min(((b - 1) * r + log_inverse) / b)
    return up(divergences + (1 + shape) * extra + log_mean / (orders - 1))


def poisson_price(
    orders: FloatArray, divergences: FloatArray, deltas: FloatArray, mean: float
) -> FloatArray:
    """The Rényi divergences of the best of K runs, K Poisson; see :func:`negative_binomial_price`.

    ``deltas`` are those of one run at epsilon = log(1 + 1/(order - 1)), one for each order.
    """
    # The mean is above 1, so that all terms are positive and rounding is relative to their sum.
    return up(divergences + mean * deltas + math.log(mean) / (orders - 1))
