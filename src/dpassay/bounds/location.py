"""Lower bounds from whole scores that are Gaussian in both worlds: no threshold, nothing counted.

A threshold keeps one bit of each score. If the scores are Gaussian, as the projections of DP-SGD's
noisy sums onto a canary are, the difference of the two means is all there is to know, and it says
so with about half the error of the best threshold.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpassay import _check
from dpassay._special.margins import NUMERICAL, round_down
from dpassay._special.quantiles import normal_lower
from dpassay._special.search import first_true
from dpassay.bounds.counts import epsilon_of_mu
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray, LowerBound

METHOD = "gaussian location"
_FINITE = (
    "Whole scores must be finite; where trials failed (-inf), pass lower_bound(..., method='gdp')."
)
_LARGE = 1e100  # scores and deviations beyond this, or below its inverse, are a mistake
_FAR = 1e150  # a larger mu, or t, is lowered to this: its square is finite


def positive_delta(delta: float) -> float:
    """The delta of a bound that assumes a Gaussian trade-off: inside (0, 1)."""
    remedy = "A Gaussian trade-off has no finite epsilon at 0; a common value is 1e-5."
    _check.number("delta", delta, low=0, high=1, low_open=True, remedy=remedy)
    return _check.delta(delta)


def lower_bound_gaussian_location(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    sigma: float | None = None,
) -> LowerBound:
    """A lower bound on epsilon(delta) from whole scores, *if* they are Gaussian in both worlds.

    With ``sigma`` it is enough that the deviations s_in and s_out are not larger; if noise was
    left out, the bound is smaller than it might be, and holds. *Proof.* Let d be the difference of
    the true means, s the larger deviation, z the quantile of the confidence and v = 1/n_in +
    1/n_out. The difference D of the sample means is Gaussian with mean d and deviation at most
    s sqrt(v), so that for d >= 0, with the confidence,

        D/sigma - z sqrt(v) <= d/sigma + (s/sigma - 1) z sqrt(v) <= d/sigma <= d/s

    (for z >= 0). It remains to show that epsilon(delta) is at least that of (d/s)-GDP. Say that the
    world with s has mean 0, the other mean d and deviation t <= s; the mirror image is the same.
    For c <= d the event x < c has probability Phi(c/s) in the one and Phi((c-d)/t) <= Phi((c-d)/s)
    in the other, and c = d/2 - epsilon s²/d is below d: the hockey-stick divergence is at least
    Phi(c/s) - e^epsilon Phi((c-d)/s), which is that of (d/s)-GDP. For d < 0 the bound exceeds 0,
    and so the truth, with a smaller probability still.

    Without ``sigma`` both deviations must be the same. D over its pooled standard error is then
    noncentral t with n_in + n_out - 2 degrees of freedom and noncentrality mu / sqrt(v), exactly;
    the bound is the mu at which what was seen, or more, has probability 1 - confidence.

    Args:
        scores_in: one finite score per independent trial with the canary; higher says "with".
        scores_out: one per independent trial without it.
        delta: where on the privacy curve the bound is stated; in (0, 1).
        confidence: the probability that the bound holds; in [0.5, 1).
        sigma: the deviation of the scores in either world, or more, known from the mechanism and
            *not* from these scores; None estimates it from them.

    Returns:
        The bound, with what it rests on in ``assumption``. It has no ceiling: scores that lie far
        enough apart show any epsilon, by the assumption alone.

    Raises:
        InvalidArgument: for scores that are not finite, an empty side, fewer than four scores
            where the deviation is unknown, or a value out of range.

    >>> scores_out = special.ndtri(np.linspace(0.001, 0.999, 999))
    >>> print(lower_bound_gaussian_location(scores_out + 1, scores_out, delta=1e-5, sigma=1.0))
    epsilon >= 4.0073 at delta=1e-05 (confidence 0.95, gaussian location, assuming Gaussian scores \
of deviation at most 1 in both worlds; ceiling inf)

    """
    x, y = (
        _check.array(name, values, low=-_LARGE, high=_LARGE, ndim=1, empty=False, remedy=_FINITE)
        for name, values in (("scores_in", scores_in), ("scores_out", scores_out))
    )
    delta = positive_delta(delta)
    remedy = "Below one half it would be no lower bound; for 95 % pass confidence=0.95."
    confidence = _check.number("confidence", confidence, low=0.5, high=1, remedy=remedy)
    confidence = _check.confidence(confidence)
    if sigma is None:
        mu = _mu_of_unknown(x, y, 1 - confidence)
        assumption = "Gaussian scores of one deviation in both worlds"
    else:
        remedy = "It is the deviation of the scores."
        sigma = _check.number("sigma", sigma, low=1 / _LARGE, high=_LARGE, remedy=remedy)
        mu = _mu_of_known(x, y, sigma, 1 - confidence)
        assumption = f"Gaussian scores of deviation at most {sigma:g} in both worlds"
    return LowerBound(
        epsilon=epsilon_of_mu(mu, delta),
        delta=delta,
        confidence=confidence,
        method=METHOD,
        assumption=assumption,
        selection="whole scores: there is no threshold to choose",
        mu_lower=mu,
        details={"mu_lower": mu, "n_in": float(x.size), "n_out": float(y.size)},
    )


def _mu_of_known(x: FloatArray, y: FloatArray, sigma: float, alpha: float) -> float:
    """The lower limit on the difference of means, in units of sigma; 0 where it is negative."""
    error = math.sqrt(1 / x.size + 1 / y.size)
    # Means of a million scores lose some digits, relative to the largest of them.
    size = max(float(np.abs(z).max()) for z in (x, y)) / sigma
    mu = float((x.mean() - y.mean()) / sigma + normal_lower(alpha) * error)
    return min(max(round_down(mu, size=size), 0.0), _FAR)


def _mu_of_unknown(x: FloatArray, y: FloatArray, alpha: float) -> float:
    """The lower limit on the difference of means over the common deviation; 0 where negative."""
    df = x.size + y.size - 2
    if df < 2:
        raise InvalidArgument(
            f"scores_in and scores_out hold {df + 2} scores; to estimate a deviation takes 4. "
            "Pass sigma=, or play more trials."
        )
    # Equal scores are told by their range: their variance may be rounding, and not 0.
    width = max(float(np.ptp(x)), float(np.ptp(y)))
    if not width > 0:
        raise InvalidArgument(
            "scores_in and scores_out do not vary within a world; Gaussian scores do. "
            "Pass lower_bound(..., method='clopper-pearson')."
        )
    squares = sum(z.size * float(((z - z.min()) / width).var()) for z in (x, y))
    error = math.sqrt(1 / x.size + 1 / y.size)
    t = float(x.mean() - y.mean()) / width / (math.sqrt(squares / df) * error)
    return noncentrality_lower(min(t, _FAR), df, alpha) * error


def noncentrality_lower(t: float, df: int, alpha: float) -> float:
    """The exact lower limit on the noncentrality of a t statistic; 0 where it is negative.

    T is (Z + noncentrality) / S with Z normal and S² chi-square over its degrees of freedom, at
    least two. P(T >= t) grows with the noncentrality; the limit is where it is alpha.
    """
    tail = _over_deviations(t, df) if t * t < 2 * df else _over_noise(t, df)
    high = max(t, 0.0) * (1 + _width(df)) + 40.0
    found = first_true(lambda nc: tail(nc) >= alpha, 0.0, high)
    return round_down(float(found), NUMERICAL)


def _width(df: int) -> float:
    """14 deviations of S, or somewhat more."""
    return 14 / math.sqrt(2 * df)


def _over_deviations(t: float, df: int) -> Callable[[FloatArray], FloatArray]:
    """P(T >= t) = E Phi(noncentrality - t S), summed over S.

    The integrand is gone at the ends and smooth, if t S varies by less than Z does: the sum
    converges fast.
    """
    s = np.linspace(max(1 - _width(df), 0.0), 1 + _width(df), 4001)[1:-1]
    log_density = (df - 1) * np.log(s) - df * s**2 / 2
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    return lambda noncentrality: weights @ special.ndtr(noncentrality - t * s)


def _over_noise(t: float, df: int) -> Callable[[FloatArray], FloatArray]:
    """P(T >= t) = E P(S <= (Z + noncentrality) / t), summed over Z, if that varies by less."""
    z = np.linspace(-14, 14, 4001)
    weights = np.exp(-(z**2) / 2)
    weights /= weights.sum()

    def tail(noncentrality: FloatArray) -> FloatArray:
        s = np.maximum(z + noncentrality, 0) / t
        return weights @ special.gammainc(df / 2, df * s**2 / 2)

    return tail
