"""(epsilon, delta)-DP in closed form, from the pair with the losses ±epsilon and infinity.

Its trade-off function is max(0, 1 - delta - e^epsilon x, e^-epsilon (1 - delta - x)), with a corner
at x = (1 - delta) / (1 + e^epsilon). The line of slope -e^x through that corner gives delta at a
smaller epsilon x:

    delta(x) = delta + (1 - delta) (e^epsilon - e^x) / (e^epsilon + 1).

All functions round to the safe side: deltas and epsilons up, error rates down.
"""

from typing import Any

import numpy as np
from scipy import special

from dpassay._special.margins import CLOSED_FORM, LEAST, UNIT, down, up
from dpassay._special.search import first_true
from dpassay.types import FloatArray


def delta_at(x: FloatArray, epsilon: float, delta: float) -> FloatArray:
    """The delta of (epsilon, delta)-DP at each x >= 0, rounded up; delta itself from epsilon on."""
    if np.isinf(epsilon):
        return np.ones_like(x)  # It says nothing; delta(inf) is the limit of what it says.
    return np.where(x >= epsilon, delta, np.maximum(bracket(x, epsilon, delta)[1], LEAST))


def bracket(x: FloatArray, epsilon: float, delta: float, slack: Any = 0.0) -> Any:
    """A lower and an upper bound on it, where x is known up to ``slack``."""
    low, high = (
        # A difference of two floats is exact but for one rounding, however small it is.
        delta + (1 - delta) * -np.expm1(np.minimum(x - epsilon + error, 0.0)) * share
        for error, share in (
            (slack, down(special.expit(epsilon))),
            (-np.asarray(slack), up(special.expit(epsilon))),
        )
    )
    return down(low), np.minimum(up(high), 1.0)


def epsilon_at(d: FloatArray, epsilon: float, delta: float) -> FloatArray:
    """The least x at which :func:`delta_at` is at most d; inf where d is below delta.

    From e^x = e^epsilon - (1 + e^epsilon)(d - delta)/(1 - delta); checked by putting it back in,
    and searched for where that fails.
    """
    if np.isinf(epsilon):
        return np.where(d < 1, np.inf, 0.0)
    fallen = np.minimum((1 + np.exp(-epsilon)) * np.maximum(d - delta, 0.0) / (1 - delta), 1.0)
    with np.errstate(divide="ignore"):
        x = np.maximum(epsilon + np.log1p(-fallen), 0.0)
    # The margin of delta, turned into one of x by the slope there, and rounding of the sum above.
    x = x + 4 * CLOSED_FORM * np.expm1(np.minimum(epsilon - x, 700.0)) + 8 * UNIT * epsilon
    x = np.clip(x, 0.0, epsilon)
    x = np.where(delta_at(np.zeros_like(d), epsilon, delta) <= d, 0.0, x)
    wrong = (delta_at(x, epsilon, delta) > d) & (d >= delta)
    if wrong.any():
        ends = np.zeros(int(wrong.sum())), np.full(int(wrong.sum()), float(epsilon))
        x[wrong] = first_true(lambda y: delta_at(y, epsilon, delta) <= d[wrong], *ends)
    return np.where(d < delta, np.inf, x)


def tradeoff_at(fpr: FloatArray, epsilon: float, delta: float) -> FloatArray:
    """The least false-negative rate at each false-positive rate, rounded down."""
    if np.isinf(epsilon):
        return np.zeros_like(fpr)
    with np.errstate(over="ignore", invalid="ignore"):
        # exp errs by a few units, which the product with a rate near e^-epsilon makes absolute.
        # Where it overflows the line has no height left at any rate but 0.
        steep = np.where(fpr > 0, 1 - delta - up(np.exp(epsilon)) * fpr, 1 - delta)
    flat = down(np.exp(-epsilon)) * (1 - delta - fpr)
    # 1 - delta is rounded too; without a delta the rate at 0 is 1, exactly.
    return np.maximum(np.maximum(steep, flat) - UNIT * ((fpr > 0) | (delta > 0)), 0.0)
