"""A credible bound on epsilon: the posterior of both error rates (Zanella-Béguelin et al. 2023).

With Jeffreys' prior the false-negative rate is Beta(fn + 1/2, tp + 1/2) and the false-positive rate
Beta(fp + 1/2, tn + 1/2), independent. epsilon is at most x where the two rates lie in the privacy
region of (x, delta): above the trade-off function f of (x, delta)-DP, and below its mirror image.
The two ways to leave the region exclude each other, so that

    P(epsilon > x) = P(fpr < f(fnr)) + P(tnr < f(tpr)).

Each term is a one-dimensional integral over X of the density of X times the distribution function
of Y at f(X), of which both are known. With X = sin²(t) the density becomes sin^(2a-1) cos^(2b-1),
which is smooth for every Jeffreys posterior. At a billion trials the integrand is a spike beside a
step, so that Gauss-Legendre panels are cut where these are: at quantiles of X, at the images under
f of the quantiles of Y (f is its own inverse), and at the corner of f.

It is no confidence bound, least of all where both directions of the inequality are equally strong:
epsilon is then the larger of two independent quantities, which the posterior does not pay for. The
chance that the bound exceeds the truth is near P(U V < alpha) = alpha (1 - log alpha) for uniform U
and V: 20 % at alpha = 5 % (measured: 19 to 21 %, threshold fixed). At epsilon = 0 it always does.
"""

import math

import numpy as np
from scipy import special

from dpassay import _check
from dpassay._special.quantiles import beta_lower
from dpassay._special.search import last_below
from dpassay.types import FloatArray

_STEPS = np.array([8.2, 6.5, 5, 4, 3, 2.25, 1.5, 0.75, 0])
_TAILS = special.ndtr(-_STEPS)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def credible_lower(tp: int, fn: int, fp: int, tn: int, delta: float, alpha: float) -> float:
    """The alpha quantile of the posterior of epsilon: a credible, not a confidence, lower bound."""
    return _quantile(_Posterior(tp, fn, fp, tn, delta), 1 - alpha)


def credible_interval(
    *, tp: int, fn: int, fp: int, tn: int, delta: float, confidence: float = 0.95
) -> tuple[float, float]:
    """The equal-tailed credible interval for epsilon(delta): an estimate, coverage is not ensured.

    Args:
        tp: trials with the canary that were guessed "in"; ``fn``, ``fp``, ``tn`` likewise.
        fn: trials with the canary that were guessed "out".
        fp: trials without the canary that were guessed "in".
        tn: trials without the canary that were guessed "out".
        delta: where on the privacy curve the interval is stated; in [0, 1).
        confidence: the posterior probability of the interval; in (0, 1).

    >>> low, high = credible_interval(tp=487, fn=0, fp=512, tn=1, delta=1e-5, confidence=0.9)
    >>> low, high
    (0.1439, 6.4156)

    """
    for name, value in (("tp", tp), ("fn", fn), ("fp", fp), ("tn", tn)):
        _check.count(name, value, low=0)
    _check.count("tp + fn", tp + fn, remedy="Play trials with the canary.")
    _check.count("fp + tn", fp + tn, remedy="Play trials without the canary.")
    posterior = _Posterior(tp, fn, fp, tn, _check.delta(delta))
    tail = (1 - _check.confidence(confidence)) / 2
    return _quantile(posterior, 1 - tail), _quantile(posterior, tail)


class _Beta:
    """A beta distribution with its quantiles at fixed normal levels, both ends accurate."""

    def __init__(self, a: float, b: float) -> None:
        self.a, self.b = a, b
        upper = 1 - beta_lower(b, a, _TAILS)
        self.quantiles = np.concatenate([beta_lower(a, b, _TAILS), upper[::-1]])

    def log_density(self, x: FloatArray) -> FloatArray:
        """The log density of t, x = sin²(t), relative to its mode: accurate at a billion trials."""
        a, b = self.a - 0.5, self.b - 0.5
        mode = a / (a + b)
        return _scaled_log(a, x - mode, mode) + _scaled_log(b, mode - x, 1 - mode)

    def cdf(self, x: FloatArray) -> FloatArray:
        return special.betainc(self.a, self.b, x)


def _scaled_log(power: float, step: FloatArray, base: float) -> FloatArray:
    """The value of power log(1 + step / base), which is 0 for power = base = 0."""
    return power * np.log1p(step / base) if power else np.zeros_like(step)


class _Posterior:
    """The posterior of epsilon: the probability that it is above x, for every x."""

    def __init__(self, tp: int, fn: int, fp: int, tn: int, delta: float) -> None:
        self.delta = delta
        self.pairs = (
            (_Beta(fn + 0.5, tp + 0.5), _Beta(fp + 0.5, tn + 0.5)),
            (_Beta(tp + 0.5, fn + 0.5), _Beta(tn + 0.5, fp + 0.5)),
        )

    def above(self, epsilon: float) -> float:
        return sum(self._below_tradeoff(x, y, epsilon) for x, y in self.pairs)

    def _below_tradeoff(self, x: _Beta, y: _Beta, epsilon: float) -> float:
        """P(Y < f(X)), to about 1e-8."""
        first, last = x.quantiles[0], x.quantiles[-1]
        corner = (1 - self.delta) * special.expit(-epsilon)
        images = self._tradeoff(y.quantiles, 1 - y.quantiles, epsilon)
        cuts = np.concatenate([x.quantiles, images, [corner, 1 - self.delta]])
        ends = np.arcsin(np.sqrt(np.unique(np.clip(cuts, first, last))))
        half = np.diff(ends)[:, None] / 2
        t = ends[:-1, None] + half * (1 + _NODES)
        sine, cosine = np.square(np.sin(t)), np.square(np.cos(t))
        weight = np.exp(x.log_density(sine)) * half * _WEIGHTS
        inside = y.cdf(self._tradeoff(sine, cosine, epsilon))
        return float(np.sum(weight * inside) / np.sum(weight))

    def _tradeoff(self, x: FloatArray, complement: FloatArray, epsilon: float) -> FloatArray:
        """max(0, 1 - delta - e^epsilon x, e^-epsilon (1 - x - delta)), 1 - x given for accuracy."""
        steep = 1 - self.delta - math.exp(epsilon) * x
        flat = math.exp(-epsilon) * (complement - self.delta)
        return np.maximum(np.maximum(steep, flat), 0.0)


def _quantile(posterior: _Posterior, above: float) -> float:
    """The epsilon that is exceeded with this posterior probability; 0 where none is."""
    if posterior.above(0.0) <= above:
        return 0.0
    high = 1.0
    while posterior.above(high) > above:
        high *= 2
    return last_below(lambda x: above - posterior.above(x), 0.0, high)
