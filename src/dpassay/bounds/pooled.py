"""Lower bounds from the errors of both worlds counted together, for Gaussian trade-offs.

Limits on the two error rates apart each spend half of the level, and their errors add up. Of a test
that errs about as often in either world one may as well count all errors: a single binomial limit
at the whole level, whose error is a third smaller than that of the two.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpassay import _check, _rng
from dpassay._rng import RngLike
from dpassay._special.margins import ARITHMETIC, round_up
from dpassay._special.quantiles import binomial_upper, normal_upper
from dpassay._special.search import last_true
from dpassay.bounds.counts import epsilon_of_mu
from dpassay.bounds.location import positive_delta
from dpassay.bounds.scores import CHOOSING, Scores, check_scores
from dpassay.types import FloatArray, LowerBound

METHOD = "gdp, pooled errors"


def lower_bound_pooled(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    threshold: str | float = "split",
    rng: RngLike = 0,
) -> LowerBound:
    """A lower bound on epsilon(delta), *if* the trade-off is Gaussian, from all errors together.

    *Proof.* Let w be the share of trials with the canary and p = w FNR + (1-w) FPR the mean error
    of a fixed test. If the mechanism is mu-GDP, p is at least the Bayes risk of the Gaussian pair,
    R(mu) = min over c of w Phi(c - mu) + (1-w) Phi(-c), which falls in mu. The number of errors S
    is a sum of independent Bernoulli variables of mean p; P(S <= k) <= P(Bin(n, p) <= k) for
    k <= np - 1 (Hoeffding 1956, theorem 5), which holds at every k of which the right side is below
    1/4 if p < 1 - 1/n (Greenberg and Mohri 2014); for larger p, at every k but n - 1 and n, whose
    limits exceed one half and show nothing. So the Clopper-Pearson limit u on p holds with the
    confidence, R(mu) <= p <= u, and mu is at least the one at which R is u.

    Args:
        scores_in: one score per independent trial with the canary; higher says "with".
        scores_out: one per independent trial without it. Infinities are scores, NaN is not.
        delta: where on the privacy curve the bound is stated; in (0, 1).
        confidence: the probability that the bound holds; in [0.75, 1).
        threshold: of the guess "in" where score >= threshold; a number fixed before the trials
            (half the canary's size, where that is known), or "split", which takes the one with the
            fewest errors on a random quarter of the scores and counts on the rest.
        rng: the seed of "split".

    Raises:
        InvalidArgument: for NaN scores, an empty side, or a value out of range.

    >>> scores_out = special.ndtri(np.linspace(0.001, 0.999, 999))
    >>> lower_bound_pooled(scores_out + 1, scores_out, delta=1e-5, threshold=0.5).epsilon
    3.8927

    """
    delta = positive_delta(delta)
    remedy = "Errors are pooled by a theorem on tails; for 95 % pass confidence=0.95."
    _check.number("confidence", confidence, low=0.75, high=1, high_open=True, remedy=remedy)
    fixed = not isinstance(threshold, str)
    arrays = check_scores(scores_in, scores_out, at_least=1 if fixed else 2)
    if fixed:
        words = "fixed in advance"
        threshold = _check.number("threshold", threshold, finite=False, remedy="Or pass 'split'.")
    else:
        _check.choice("threshold", threshold, ("split",), remedy="Or pass a number.")
        words = f"chosen on a random {CHOOSING:.0%} of the scores, tested once on the rest"
        threshold, arrays = _choose_threshold(arrays, _rng.generator(rng))
    fp, fn = (int(k) for k in Scores(*map(np.sort, arrays)).counts(threshold))
    n_in, n_out = (x.size for x in arrays)
    mu, most = (mu_of_errors(errors, n_in, n_out, 1 - confidence) for errors in (fp + fn, 0))
    return LowerBound(
        epsilon=epsilon_of_mu(mu, delta),
        delta=delta,
        confidence=confidence,
        method=METHOD,
        assumption="Gaussian trade-off",
        ceiling=epsilon_of_mu(most, delta),
        threshold=threshold,
        selection=f"{words}; the whole level pays for the errors of both worlds",
        mu_lower=mu,
        details={
            "fp": float(fp),
            "fn": float(fn),
            "n_in": float(n_in),
            "n_out": float(n_out),
            "mu_lower": mu,
        },
    )


def _choose_threshold(
    arrays: list[FloatArray], rng: np.random.Generator
) -> tuple[float, list[FloatArray]]:
    """The threshold with the smallest mean error on a part of the scores, and the other part."""
    orders = [rng.permutation(x.size) for x in arrays]
    sizes = [max(1, int(CHOOSING * x.size)) for x in arrays]
    parts = list(zip(arrays, orders, sizes, strict=True))
    choosing = Scores(*(np.sort(x[order[:k]]) for x, order, k in parts))
    cuts = np.concatenate(choosing)
    fp, fn = choosing.counts(cuts)
    errors: Any = fp / choosing.outside.size + fn / choosing.inside.size
    # Of many thresholds that are as good, the middle one is the least accidental.
    best = np.sort(cuts[errors == errors.min()])
    return float(best[best.size // 2]), [x[order[k:]] for x, order, k in parts]


def mu_of_errors(errors: int, n_in: int, n_out: int, alpha: float) -> float:
    """The lower limit on mu when a fixed test made so many errors in both worlds together."""
    n = n_in + n_out
    limit = float(binomial_upper(errors, n, alpha))
    share = n_in / n
    if limit >= min(share, 1 - share):  # the risk of mu = 0: nothing is excluded
        return 0.0
    high = 2 * abs(float(normal_upper(limit))) + 80.0
    # The risk falls in mu: where it is certainly above the limit, mu is too small.
    least = round_up(limit, ARITHMETIC)
    return float(last_true(lambda mu: bayes_risk(mu, share) >= least, 0.0, high))


def bayes_risk(mu: Any, share: float) -> FloatArray:
    """The least mean error of any test of N(mu, 1), of which there is this share, against N(0, 1).

    The best threshold is where the weighted densities meet, c = mu/2 + log((1-w)/w) / mu.
    """
    mu = np.asarray(mu, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = np.where(mu > 0, mu / 2 + math.log((1 - share) / share) / mu, np.nan)
    risk = share * special.ndtr(cut - mu) + (1 - share) * special.ndtr(-cut)
    return np.where(mu > 0, risk, min(share, 1 - share))
