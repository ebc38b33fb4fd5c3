"""Profiles of Poisson sampling when a record is replaced, in closed form.

A record x of D stands for x' in D'; each record is in the batch with probability q, whatever the
others do. Given the others' coins, with N_u, N_v and N_0 the laws of the output with x, with x' and
with neither,

    P - e^x Q = q [N_u - e^x N_v - k N_0],      k = (1 - q)(e^x - 1)/q >= 0 for x >= 0.

**Lemma (one against many).** If T(P, Q_i) >= f_i are trade-off functions and c_i >= 0, then
P(S) - sum of c_i Q_i(S) <= max over a of a - sum of c_i f_i(1 - a), for every S: put a = P(S), then
Q_i(S) >= f_i(1 - a) by definition, for all i at once.

So with the trade-off functions of the event for replacing (f_2) and for adding or removing (f_1)

    H(x) = q max over a of [a - e^x f_2(1 - a) - k f_1(1 - a)]

bounds the profile of every pair for x >= 0, and by symmetry its mirror image does below 0. Profiles
are jointly convex, so that this holds without the condition on the others' coins. H is convex in
e^x, as a maximum of linear functions: it is a dominating profile and composes.

The noise is that of the event under *add-remove*: a multiplier under replace-one alone does not
bound the distance of N_u from N_0.
"""

import math

import numpy as np

from dpassay._special.margins import (
    ARITHMETIC,
    CLOSED_FORM,
    UNIT,
    products_up,
    round_down,
    round_up,
)
from dpassay.privacy import gaussian
from dpassay.types import FloatArray

_STEEPEST = 1e6  # distances of means in deviations, beyond which nothing is computed


def gaussian_bracket(
    noise_multiplier: float, q: float, x: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds on H at x >= 0 for Gaussian noise: means -1, 0 and 1, deviation ``noise_multiplier``.

    With m = 1/deviation and t the threshold of the best set over the deviation, u = e^{mt} solves
    q a u² - (1-q)(e^x - 1) u - e^x q a = 0, a = e^{-m²/2}: densities balance there. Then the tail
    of the law in the middle cancels, as in :mod:`dpassay.privacy.gaussian`, and

        H(x) = q D(log u - m²/2) + q e^x e^-y D(y),    y = log u + m²/2,

    where D is the profile of the Gaussian pair of distance m. Both terms are positive. H is never
    above q, which is all that is said where squares of m would overflow.
    """
    m, finite = 1 / noise_multiplier, np.isfinite(x)
    if m > _STEEPEST:
        return np.zeros_like(x), np.where(finite, q, 0.0)
    x = np.where(finite, x, 0.0)
    log_u, error = _log_threshold(m, q, x)
    half, error = m * m / 2, error + 8 * UNIT * m * m
    first = gaussian.log_delta_and_error(log_u - half, m, error)
    second = gaussian.log_delta_and_error(log_u + half, m, error)
    log_q = math.log(q)
    lower, upper = np.zeros_like(x), np.zeros_like(x)
    for (value, unsure), shift in ((first, 0.0), (second, x - log_u - half)):
        log_term = value + log_q + shift
        unsure = unsure + 2 * error + 4 * UNIT * (np.abs(value) - log_q + np.abs(shift))
        with np.errstate(under="ignore", over="ignore"):  # what overflows is clipped below
            lower = lower + np.exp(log_term - unsure)
            upper = upper + np.exp(log_term + unsure)
    upper = np.where(finite, np.minimum(products_up(1.0, upper), q), 0.0)
    return np.where(finite, lower * (1 - CLOSED_FORM), 0.0), upper


def _log_threshold(m: float, q: float, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The log of u, and how far it may be off.

    u = r + sqrt(r² + e^x), r = (1-q)(e^x - 1) / (2 q a) >= 0: log u = x/2 + arsinh(r e^{-x/2}).
    Through log r, because a underflows where noise is small.
    """
    grown = _log_expm1(x)
    with np.errstate(over="ignore"):
        log_r = math.log1p(-q) + grown - math.log(2 * q) + m * m / 2
        h = log_r - x / 2
        small = np.arcsinh(np.exp(np.minimum(h, 0.0)))
        large = h + np.log1p(np.sqrt(1 + np.exp(-2 * np.maximum(h, 0.0))))
    log_u = x / 2 + np.where(h > 0, large, small)
    # The derivative of arsinh(e^h) in h is at most 1 and at most e^h.
    size = np.where(np.isfinite(grown), np.abs(grown), 0.0) - math.log(q) + m * m + x + 1
    size = size - math.log1p(-q)
    return log_u, 16 * UNIT * (np.minimum(1.0, np.exp(np.minimum(h, 0.0))) * size + x + log_u)


def laplace_bracket(
    noise_multiplier: float, q: float, x: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds on H at x >= 0 for Laplace noise: q (1 - e^{z - e}), 2z = log(e^x + k e^e).

    e = 1/scale. The best set lies above z/e, at which densities balance, if z <= e; else H = 0. The
    tails beyond it are 1 - e^{z-e}/2, e^{-z-e}/2 and e^-z/2, and e^x times the second plus k times
    the third is e^{z-e}/2 by the choice of z.
    """
    e = 1 / noise_multiplier
    beyond = x >= 2 * e * (1 + CLOSED_FORM)  # larger than any loss
    x = np.where(beyond, 0.0, x)
    with np.errstate(over="ignore"):
        middle = math.log1p(-q) - math.log(q) + _log_expm1(x) + e
    exponent = np.logaddexp(x, middle) / 2 - e
    error = CLOSED_FORM * (1 + x + 2 * e - math.log(q) - math.log1p(-q))
    low, high = (
        np.where(beyond, 0.0, -q * np.expm1(np.minimum(exponent + side * error, 0.0)))
        for side in (1, -1)
    )
    return low * (1 - CLOSED_FORM), np.minimum(high * (1 + CLOSED_FORM), 1.0)


def _log_expm1(x: FloatArray) -> FloatArray:
    """log(e^x - 1); -inf at 0."""
    with np.errstate(divide="ignore", over="ignore"):
        far = x + np.log1p(-np.exp(-np.maximum(x, 1.0)))
        return np.where(x > 30, far, np.log(np.expm1(np.minimum(x, 30.0))))


def pure_bracket(epsilon: float, q: float, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on H at x >= 0 where adding or removing a record is epsilon-DP, replacing 2 epsilon.

    Both trade-off functions are broken lines, so the maximum lies at a break, a = E/(1 + E) or
    a = E²/(1 + E²) with E = e^epsilon: (E - e^x/E - k)/(1 + E) or (E² - e^x - k(1 + E² - E))/(1 +
    E²), or at 0. Divided by E and by E², which may be large.
    """
    e = epsilon
    with np.errstate(over="ignore"):
        k = (1 - q) / q * np.expm1(np.minimum(x, 700.0))
        grown = np.exp(np.minimum(x, 700.0))
    inverse = math.exp(-e)
    sums = (
        ((1.0, grown * inverse**2, k * inverse), 1 + inverse),
        ((1.0, grown * inverse**2, k * (1 - inverse + inverse**2)), 1 + inverse**2),
    )
    low, high = np.zeros_like(x), np.zeros_like(x)
    for (plus, *minus), divisor in sums:
        with np.errstate(over="ignore", invalid="ignore"):
            size = plus + minus[0] + minus[1]
            value = (plus - minus[0] - minus[1]) / divisor
        value = np.where(np.isfinite(value), value, -1.0)
        size = np.where(np.isfinite(size), size, 1.0)
        low = np.maximum(low, np.where(value > 0, value - ARITHMETIC * size, 0.0))
        high = np.maximum(
            high, np.where(value > -ARITHMETIC * size, value + ARITHMETIC * size, 0.0)
        )
    high = np.where(x >= 2 * e * (1 + CLOSED_FORM), 0.0, high)
    return round_down(q * low, CLOSED_FORM), np.minimum(round_up(q * high, CLOSED_FORM), 1.0)
