"""Profiles of Gaussian noise on a batch of which one user has several records, to rounding.

With probability w_j the user has j records in the batch, each of which moves the sum by at most 1.
By the lemma of :mod:`dpassay.privacy.replaced`, on the reversed profile, moves in one direction are
the worst: the pair (sum of w_j N(j, s²), N(0, s²)) dominates for removing the user, reversed for
adding. For a group of k records under Poisson sampling w is binomial; any other law will do.

The loss log(sum of w_j e^{j y - j² m²/2}), m = 1/s, grows with y = m t, t the output over s; it is
convex in y with a slope between 1 and k, so that Newton's steps from above reach its root. There
the tail of N(0, s²) cancels, as in :mod:`dpassay.privacy.gaussian`, and what is left is positive:

    remove: H(x) = sum over j >= 1 of w_j D_j(j y - j² m²/2),
    add:    H(x) = sum over j >= 1 of e^x w_j e^-v D_j(v),   v = j² m²/2 - j y,

where D_j is the profile of the Gaussian pair of distance j m, and y the root of

    sum over j >= 1 of w_j e^{j y - j² m²/2} = W + e^x - 1 (remove), = W + e^-x - 1 (add).

W is the sum of w_1, w_2, ...; w_0 is never used. Both profiles grow with each of these weights.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpassay._special.margins import CLOSED_FORM, UNIT, up
from dpassay.privacy import gaussian
from dpassay.types import FloatArray

_AT_ONCE = 1 << 18  # numbers in one array
_MOST_STEPS = 60
_STEEPEST = 1e6  # records over noise, beyond which nothing is computed
_DEEP = -20.0  # thresholds below which Mills' ratio overflows; nothing is claimed there

Bracket = Callable[[FloatArray, Any], tuple[FloatArray, FloatArray]]


def binomial_law(group_size: int, sampling_rate: float) -> tuple[float, ...]:
    """Upper bounds on the chances of j of a group's records in a batch, j = 0, 1, ...

    Rounded up, but for j = 0: profiles grow with the weights of j >= 1. None is above 1; those
    below the least float are 0.
    """
    some = [_binomial_chance(group_size, j, sampling_rate) for j in range(1, group_size + 1)]
    return (max(1 - math.fsum(some), 0.0), *some)


def _binomial_chance(k: int, j: int, q: float) -> float:
    """The chance of j successes among k <= 1000, rounded up.

    Powers alone underflow where the chance does not: mantissas and exponents are kept apart. The
    rounding of 1 - q, one unit at the most, counts k - j times.
    """
    (a, of_a), (b, of_b) = math.frexp(q), math.frexp(1 - q)
    mantissa, exponent = math.frexp(math.comb(k, j) * a**j)
    mantissa *= b ** (k - j) * (1 + 2 * (k - j + 16) * UNIT)
    return min(math.ldexp(mantissa, exponent + j * of_a + (k - j) * of_b), 1.0)


def brackets(noise_multiplier: float, law: Sequence[float]) -> tuple[Bracket, Bracket]:
    """Bounds on the profiles for removing and adding a user, at x >= 0."""
    counts = [j for j in range(1, len(law)) if law[j] > 0]
    weights = np.array([law[j] for j in counts])
    numbers = np.array(counts, float)
    if len(counts) * max(counts, default=0) > _STEEPEST * noise_multiplier:
        return _known_to_be_in(weights), _known_to_be_in(weights)
    parts = partial(_in_chunks, 1 / noise_multiplier, numbers, weights)
    return partial(parts, _remove), partial(parts, _add)


def _known_to_be_in(weights: FloatArray) -> Bracket:
    """No profile is above W, whatever the noise: for noise whose square would underflow."""
    most = min(float(up(math.fsum(weights))), 1.0)
    return lambda x, slack: (np.zeros_like(x), np.where(np.isfinite(x), most, 0.0))


def _in_chunks(
    m: float, j: FloatArray, w: FloatArray, profile: Any, x: FloatArray, slack: Any
) -> tuple[FloatArray, FloatArray]:
    x = np.asarray(x, float)
    flat = x.ravel()
    low, high = np.zeros_like(flat), np.zeros_like(flat)
    slack = np.broadcast_to(np.asarray(slack, float), x.shape).ravel()
    if not j.size:  # the user is never there
        return low.reshape(x.shape), high.reshape(x.shape)
    size = max(_AT_ONCE // j.size, 1)
    for start in range(0, flat.size, size):
        here = slice(start, start + size)
        low[here] = profile(m, j, w, flat[here] + slack[here], -1)
        above = profile(m, j, w, np.maximum(flat[here] - slack[here], 0.0), 1)
        high[here] = np.minimum(above + np.maximum(slack[here] - flat[here], 0.0), 1.0)
    return low.reshape(x.shape), high.reshape(x.shape)


def _remove(m: float, j: FloatArray, w: FloatArray, x: FloatArray, sign: int) -> FloatArray:
    finite = np.isfinite(x)
    x = np.where(finite, x, 0.0)
    total = math.fsum(w)
    far = np.maximum(x, 30.0)
    log_right = np.where(
        x > 30,
        x + np.log1p((total - 1) * np.exp(-far)),
        np.log(total + np.expm1(np.minimum(x, 30.0))),
    )
    y, error = _root(m, j, w, log_right)
    value = _sum(m, j, np.log(w)[:, None] + 0 * x, j[:, None] * y - _half(m, j), j, error, sign)
    return np.where(finite, value, 0.0)


def _add(m: float, j: FloatArray, w: FloatArray, x: FloatArray, sign: int) -> FloatArray:
    # e^-x - w_0 cancels at the largest loss, -log w_0. The profile grows with it: so the upper
    # bound takes its upper end, and where it is all rounding the lower bound is 0.
    total = math.fsum(w)
    gone = np.expm1(-x)
    right = total + gone + sign * CLOSED_FORM * (total - gone)
    some = (right > 0) & np.isfinite(x)
    x = np.where(some, x, 0.0)
    y, error = _root(m, j, w, np.log(np.where(some, right, total)))
    v = _half(m, j) - j[:, None] * y
    value = _sum(m, j, np.log(w)[:, None] + x - v, v, j, error, sign, shifted=True)
    return np.where(some, value, 0.0)


def _half(m: float, j: FloatArray) -> FloatArray:
    return np.square(j * m)[:, None] / 2


def _root(
    m: float, j: FloatArray, w: FloatArray, log_right: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Y with log sum of w_j e^{j y - j² m²/2} = log_right, and how far it may be off.

    Each term alone is less than the sum, so where it reaches the right side is above the root. The
    slope is at least 1: y is off by no more than the difference of both sides.
    """
    start = np.log(w)[:, None] - _half(m, j)
    y = ((log_right - start) / j[:, None]).min(axis=0)
    for _ in range(_MOST_STEPS):
        value, slope, _ = _log_sum(start, j, y)
        step = (value - log_right) / slope
        y = y - step
        if np.all(np.abs(step) <= 1e-14 * (1 + np.abs(y))):
            break
    value, _, rounding = _log_sum(start, j, y)
    return y, np.abs(value - log_right) + rounding + 8 * UNIT * (8 + np.abs(log_right))


def _log_sum(
    start: FloatArray, j: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The log of the sum, its slope, and a bound on its rounding error."""
    terms = start + j[:, None] * y
    top = terms.max(axis=0)
    with np.errstate(under="ignore"):
        shares = np.exp(terms - top)
    total = shares.sum(axis=0)
    shares = shares / total
    sizes = np.abs(start) + j[:, None] * np.abs(y)
    return (
        top + np.log(total),
        (shares * j[:, None]).sum(axis=0),
        8 * UNIT * ((shares * sizes).sum(axis=0) + j.size + 8),
    )


def _sum(
    m: float,
    j: FloatArray,
    log_weight: FloatArray,
    epsilon: FloatArray,
    slope: FloatArray,
    error: FloatArray,
    sign: int,
    *,
    shifted: bool = False,
) -> FloatArray:
    """The sum of weight times D_j(epsilon), rounded up (sign=1) or down (sign=-1).

    ``error`` is that of y; epsilon, and with ``shifted`` the weight, depend on j times y.
    """
    distance = (j * m)[:, None]
    unsure = slope[:, None] * error + 8 * UNIT * (np.abs(epsilon) + np.square(distance))
    log_value, of_value = gaussian.log_delta_and_error(epsilon, distance, unsure)
    log_term = log_weight + log_value
    of_term = of_value + 8 * UNIT * (np.abs(log_weight) + np.abs(log_value) + 8)
    if shifted:
        of_term = of_term + unsure
    with np.errstate(under="ignore", over="ignore"):  # what overflows is clipped below
        value = np.exp(log_term + sign * of_term).sum(axis=0)
    value = value * (1 + sign * (CLOSED_FORM + 2 * UNIT * j.size))
    deep = (epsilon / distance + distance / 2).min(axis=0) < _DEEP
    return np.where(deep, 1.0 if sign > 0 else 0.0, np.clip(value, 0.0, 1.0))
