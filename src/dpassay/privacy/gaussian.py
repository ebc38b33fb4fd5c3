"""The Gaussian pair N(0, 1) against N(mu, 1): exact delta, epsilon and mu, sound in the tails.

With a = mu/2 - epsilon/mu and b = a - mu (Balle and Wang 2018),

    delta(epsilon) = Phi(a) - e^epsilon Phi(b).

Both terms are huge beside their difference in the tails. But b² - a² = 2 epsilon, so
e^epsilon phi(b) = phi(a), and with Mills' ratio R(x) = (1 - Phi(x)) / phi(x)

    delta(epsilon) = phi(a) (R(-a) - R(-b)),      -b = -a + mu,

which keeps its relative accuracy down to the smallest float. The difference of R over a short
interval is the integral of -R'(s) = 1 - s R(s) over it.
"""

import numpy as np
from scipy import special

from dpassay.privacy._search import smallest_true
from dpassay.types import FloatArray, Floats

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(9)
_SHORT = 0.4  # intervals up to here are integrated; the nine nodes are exact to rounding on them


def _mills(x: FloatArray) -> FloatArray:
    return np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2))


def _mills_slope(s: FloatArray) -> FloatArray:
    """1 - s R(s) = -R'(s) > 0; by its asymptotic series where the difference cancels."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        u = 1 / np.square(s)
        series = u * (1 - 3 * u * (1 - 5 * u * (1 - 7 * u * (1 - 9 * u))))
        return np.where(s > 40, series, 1 - s * _mills(np.minimum(s, 40)))


def _mills_drop(low: FloatArray, width: FloatArray) -> FloatArray:
    """R(low) - R(low + width), for low not below about -5."""
    drop = _mills(low) - _mills(low + width)
    short = width < _SHORT
    if not short.any():
        return drop
    low, width = low[short], width[short]
    integral = sum(
        weight * _mills_slope(low + width * (node + 1) / 2)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True)
    )
    flat = np.atleast_1d(drop).copy()
    flat[np.atleast_1d(short)] = width / 2 * integral
    return flat.reshape(np.shape(drop))


def log_delta(epsilon: Floats, mu: Floats) -> FloatArray:
    """The exact log delta(epsilon) of mu-GDP; -inf for mu = 0, 0 for mu = inf."""
    epsilon, mu = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(mu, float))
    finite = (mu > 0) & np.isfinite(mu) & np.isfinite(epsilon)
    m, e = np.where(finite, mu, 1.0), np.where(finite, epsilon, 0.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        low = e / m - m / 2  # -a
        log_phi = -np.square(low) / 2 - _LOG_SQRT_2PI
        near = log_phi + np.log(_mills_drop(np.maximum(low, -5.0), m))
        # Far inside, Phi(a) is almost 1 and the second term is below 1e-6: nothing cancels.
        far = np.log(special.ndtr(-low) - np.exp(log_phi) * _mills(np.maximum(low + m, -5.0)))
        value = np.minimum(np.where(low > -5, near, far), 0.0)
    return np.where(finite, value, np.where((mu > 0) & np.isfinite(epsilon), 0.0, -np.inf))


def delta_of(epsilon: Floats, mu: Floats) -> FloatArray:
    """The exact delta(epsilon) of mu-GDP (Dong, Roth and Su 2022, corollary 2.13)."""
    return np.exp(log_delta(epsilon, mu))


def epsilon_of(delta: Floats, mu: Floats) -> FloatArray:
    """The exact epsilon(delta) of mu-GDP, never rounded below it; inf for delta = 0 < mu."""
    delta, mu = np.broadcast_arrays(np.asarray(delta, float), np.asarray(mu, float))
    with np.errstate(divide="ignore"):
        target = np.log(delta)
    solvable = (delta > 0) & (mu > 0) & np.isfinite(mu)
    m, t = np.where(solvable, mu, 1.0), np.where(solvable, target, -1.0)
    # delta(epsilon) <= Phi(a), so the epsilon at which Phi(a) = delta is large enough.
    high = np.maximum(m * m / 2 - m * special.ndtri_exp(t), 0.0) * (1 + 1e-12) + 1e-300
    root = smallest_true(lambda e: log_delta(e, m) <= t, np.zeros_like(high), high)
    return np.where(solvable, root, np.where((mu > 0) & (delta < 1), np.inf, 0.0))


def mu_of(epsilon: Floats, delta: Floats) -> FloatArray:
    """The largest mu whose Gaussian pair is still (epsilon, delta)-DP, never rounded above it."""
    epsilon, delta = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(delta, float))
    solvable = (delta > 0) & (delta < 1)
    e, d = np.where(solvable, epsilon, 1.0), np.where(solvable, delta, 0.5)
    t = np.log(d)
    # Phi(-epsilon/mu + mu/2) >= delta(epsilon) is reached by this mu at the latest; for delta near
    # one the second term matters, so the bracket is widened until it holds.
    x = special.ndtri_exp(t)
    high = x + np.sqrt(x * x + 2 * e) + 1.0
    while np.any(log_delta(e, high) <= t):
        high = np.where(log_delta(e, high) <= t, 2 * high, high)
    above = smallest_true(lambda m: log_delta(e, m) > t, np.zeros_like(high), high)
    inside = np.nextafter(above, 0) * (1 - 4e-16)
    return np.where(solvable, inside, np.where(delta >= 1, np.inf, 0.0))


def tradeoff(fpr: Floats, mu: Floats) -> FloatArray:
    """The least false-negative rate at each false-positive rate: Phi(Phi^-1(1 - fpr) - mu)."""
    with np.errstate(invalid="ignore"):
        value = special.ndtr(-special.ndtri(fpr) - mu)
    return np.where(np.isinf(mu), 0.0, np.where(fpr <= 0, 1.0, np.where(fpr >= 1, 0.0, value)))
