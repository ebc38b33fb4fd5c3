"""The Gaussian pair N(0, 1) against N(mu, 1): exact delta, epsilon and mu, sound in the tails.

With a = mu/2 - epsilon/mu and b = a - mu (Balle and Wang 2018),

    delta(epsilon) = Phi(a) - e^epsilon Phi(b).

Both terms are huge beside their difference in the tails. But b² - a² = 2 epsilon, so
e^epsilon phi(b) = phi(a), and with Mills' ratio R(x) = (1 - Phi(x)) / phi(x)

    delta(epsilon) = phi(a) (R(-a) - R(-b)),      -b = -a + mu,

which keeps its relative accuracy down to the smallest float. The difference of R over a short
interval is the integral of -R'(s) = 1 - s R(s) over it.
"""

from collections.abc import Callable

import numpy as np
from scipy import special

from dpassay._special.margins import CLOSED_FORM, UNIT, exp_up
from dpassay._special.search import first_true
from dpassay.types import FloatArray, Floats

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(9)
_LARGEST = 1e307
_SHORT = 0.4  # intervals up to here are integrated; the nine nodes are exact to rounding on them


def _mills(x: FloatArray) -> FloatArray:
    return np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2))


def _mills_slope(s: FloatArray) -> FloatArray:
    """1 - s R(s) = -R'(s) > 0; by its asymptotic series where the difference cancels."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        u = 1 / np.square(s)
        series = u * (1 - 3 * u * (1 - 5 * u * (1 - 7 * u * (1 - 9 * u))))
        return np.where(s > 40, series, 1 - s * _mills(np.minimum(s, 40)))


def _mills_drop(
    low: FloatArray, width: FloatArray, at_low: FloatArray, at_high: FloatArray
) -> FloatArray:
    """R(low) - R(low + width), for low not below about -5, from the two values where it can."""
    drop = at_low - at_high
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
    """The log delta(epsilon) of mu-GDP to rounding; -inf for mu = 0, 0 for mu = inf."""
    return log_delta_and_error(epsilon, mu)[0]


def log_delta_upper(epsilon: Floats, mu: Floats) -> FloatArray:
    """An upper bound on it, larger by no more than rounding."""
    value, error = log_delta_and_error(epsilon, mu)
    return np.minimum(value + error, 0.0)


def log_delta_and_error(
    epsilon: Floats, mu: Floats, slack: Floats = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Log delta(epsilon), and a bound on its error if epsilon is known up to ``slack``.

    -a = epsilon/mu - mu/2 has the absolute error d = slack/mu + 16 u (epsilon/mu + mu/2), where mu
    may be a few units off. The derivative of log delta in -a is -s, with t = -b = epsilon/mu + mu/2

        s = mu R(t) / (R(-a) - R(t)) <= R(t) / (1 - t R(t)) <= t + 1.3,

    the first since R is convex. The square in log phi(a) and the values of R add their own: a short
    drop divides rounding by 1 - x R(x), which is about 1/(2 + x²) (x up to 40), a long one by the
    share of R that drops. Far inside nothing cancels and the derivative is below phi(a).

    epsilon may be negative, down to -mu²/2: then t >= 0 still, and the error of -a is d with
    |epsilon| in place of epsilon. Below that t < 0, where R(t) / (1 - t R(t)) is at most 1.3.
    """
    epsilon, mu, slack = np.broadcast_arrays(
        np.asarray(epsilon, float), np.asarray(mu, float), np.asarray(slack, float)
    )
    finite = (mu > 0) & np.isfinite(mu) & np.isfinite(epsilon)
    m, e = np.where(finite, mu, 1.0), np.where(finite, epsilon, 0.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        ratio, half = e / m, m / 2
        low, t = ratio - half, ratio + half
        log_phi = -np.square(low) / 2 - _LOG_SQRT_2PI
        inside = np.maximum(low, -5.0)
        at_low, at_t = _mills(inside), _mills(t)
        drop = _mills_drop(inside, m, at_low, at_t)
        value: FloatArray = log_phi + np.log(drop)
        shift = np.where(finite, slack, 0.0) / m + 16 * UNIT * (np.abs(ratio) + half)
        steep = np.minimum(np.maximum(t, 0.0) + 1.3, m * at_t / drop)
        lost = np.where(m < _SHORT, 2 + np.square(np.clip(low, 0, 41)), at_low / drop)
        error: FloatArray = shift * steep + UNIT * (8 * lost - 4 * log_phi)
        far = low <= -5
        if far.any():
            # Phi(a) is almost 1 and the second term is below 1e-6: nothing cancels.
            minus = np.exp(log_phi) * at_t
            value = np.where(far, np.log(special.ndtr(-low) - minus), value)
            error = np.where(far, shift * m * minus, error)
        error = error + UNIT * (64 + 4 * np.abs(value))
        # Beyond every float's logarithm; the sum above may have overflowed.
        error = np.where(np.isnan(error) | ~np.isfinite(value), 0.0, error)
    certain = np.where((mu > 0) & np.isfinite(epsilon), 0.0, -np.inf)
    # Where squares overflowed, delta is below every float but not 0.
    value = np.where(np.isnan(value), -_LARGEST, np.clip(value, -_LARGEST, 0.0))
    return np.where(finite, value, certain), np.where(finite, error, 0.0)


def delta_of(epsilon: Floats, mu: Floats) -> FloatArray:
    """The delta(epsilon) of mu-GDP, rounded up (Dong, Roth and Su 2022, corollary 2.13)."""
    return np.minimum(exp_up(log_delta_upper(epsilon, mu)), 1.0)


def epsilon_of(delta: Floats, mu: Floats) -> FloatArray:
    """The epsilon(delta) of mu-GDP, rounded up; inf for delta = 0 < mu."""
    return _epsilon_of(delta, mu, log_delta_upper)


def epsilon_lower(delta: Floats, mu: Floats) -> FloatArray:
    """The epsilon(delta) of mu-GDP, rounded down, for lower bounds."""

    def from_below(epsilon: Floats, mu: Floats) -> FloatArray:
        value, error = log_delta_and_error(epsilon, mu)
        # The target below is lowered by four units of the logarithm, which raises the root: this
        # takes off twice that.
        return value - error - CLOSED_FORM - 8 * UNIT * (1 + np.abs(value))

    root = _epsilon_of(delta, mu, from_below)
    return np.where(np.isfinite(root), np.nextafter(root, 0), root)


def _epsilon_of(
    delta: Floats, mu: Floats, log_of: Callable[[Floats, Floats], FloatArray]
) -> FloatArray:
    """The least epsilon at which a bound on log delta is low enough."""
    delta, mu = np.broadcast_arrays(np.asarray(delta, float), np.asarray(mu, float))
    with np.errstate(divide="ignore"):
        target = np.log(delta)
    solvable = (delta > 0) & (mu > 0) & np.isfinite(mu)
    m, t = np.where(solvable, mu, 1.0), np.where(solvable, target, -1.0)
    t = t - 4 * UNIT * (1 + np.abs(t))  # the logarithm's own rounding
    # delta(epsilon) <= Phi(a), so the epsilon at which Phi(a) = delta is large enough.
    with np.errstate(over="ignore"):
        high = np.maximum(m / 2 - special.ndtri_exp(t), 0.0) * m * (1 + 1e-9) + 1e-300
    high, found = _widen(lambda e: log_of(e, m) <= t, high)
    guess = _newton(lambda e: log_of(e, m), m, t, high)
    root = first_true(lambda e: log_of(e, m) <= t, np.zeros_like(high), high, guess=guess)
    root = np.where(found, root, np.inf)
    return np.where(solvable, root, np.where((mu > 0) & (delta < 1), np.inf, 0.0))


def _newton(
    log_of: Callable[[FloatArray], FloatArray], m: FloatArray, t: FloatArray, start: FloatArray
) -> FloatArray:
    """About where log delta(epsilon) = t: a first guess that is checked by whoever uses it.

    d log delta / d epsilon = -e^epsilon Phi(b) / delta, from the derivative of delta itself.
    """
    e = np.array(start, float)
    with np.errstate(all="ignore"):
        for _ in range(12):
            value = log_of(e)
            slope = -np.exp(e + special.log_ndtr(-e / m - m / 2) - value)
            step = (value - t) / slope
            e = np.maximum(e - step, e / 8)
            if np.all(np.abs(step) <= 1e-14 * e):
                break
    return e


def _widen(
    condition: Callable[[FloatArray], FloatArray], high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Upper ends at which the condition holds, and where there are any below the largest float.

    Rounding may have put the first guess a little too low.
    """
    high = np.where(np.isfinite(high), high, _LARGEST)
    for _ in range(64):
        found = condition(high)
        if found.all():
            break
        high = np.where(found, high, np.minimum(2 * high, _LARGEST))
    return high, condition(high)


def mu_of(epsilon: Floats, delta: Floats) -> FloatArray:
    """The largest mu whose Gaussian pair is still (epsilon, delta)-DP, never rounded above it."""
    epsilon, delta = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(delta, float))
    solvable = (delta > 0) & (delta < 1) & (epsilon < 1e300)  # beyond, see below
    e, d = np.where(solvable, epsilon, 1.0), np.where(solvable, delta, 0.5)
    t = np.log(d)
    t = t - 4 * UNIT * (1 + np.abs(t))
    # Phi(-epsilon/mu + mu/2) >= delta(epsilon) is reached by this mu at the latest; for delta near
    # one the second term matters, so the bracket is widened until it holds.
    x = special.ndtri_exp(t)
    high: FloatArray = x + np.sqrt(x * x + 2 * e) + 1.0
    while np.any(log_delta_upper(e, high) <= t):
        high = np.where(log_delta_upper(e, high) <= t, 2 * high, high)
    above = first_true(lambda m: log_delta_upper(e, m) > t, np.zeros_like(high), high)
    inside = np.nextafter(above, 0) * (1 - 4e-16)
    free = (delta >= 1) | ((delta > 0) & (epsilon == np.inf))
    at_least = np.where((delta > 0) & (epsilon >= 1e300), 1e150, 0.0)
    return np.where(solvable, inside, np.where(free, np.inf, at_least))


def tradeoff(fpr: Floats, mu: Floats) -> FloatArray:
    """The least false-negative rate at each false-positive rate: Phi(Phi^-1(1 - fpr) - mu).

    Rounded down: the argument errs by a few units of its two terms, the logarithm of Phi by that
    times its slope, which is below 1 + |argument|.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        quantile = special.ndtri(fpr)
        argument = -quantile - mu
        steep = 1 + np.maximum(-argument, 0.0)
        error = CLOSED_FORM + 16 * UNIT * (np.abs(quantile) + mu) * steep
        value = special.ndtr(argument) * np.maximum(1 - error, 0.0)
    return np.where(np.isinf(mu), 0.0, np.where(fpr <= 0, 1.0, np.where(fpr >= 1, 0.0, value)))
