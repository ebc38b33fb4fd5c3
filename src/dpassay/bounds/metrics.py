"""What attack papers report: AUC, true-positive rate at a fixed false-positive rate, advantage.

Each comes as an interval that is valid in finite samples, choices of thresholds included, unless
its ``assumption`` says otherwise.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpassay import _check
from dpassay._special.margins import ARITHMETIC, TAIL, round_down, round_up
from dpassay._special.quantiles import (
    beta_lower_tail,
    beta_upper_tail,
    binomial_lower,
    binomial_upper,
    normal_lower,
)
from dpassay._special.search import first_true
from dpassay.bounds.bands import BANDS, common_level
from dpassay.bounds.scores import sort_scores
from dpassay.types import NO_ASSUMPTION, FloatArray


@dataclass(frozen=True)
class Interval:
    """An estimate with a lower and an upper bound that hold together, with ``confidence``."""

    value: float
    lower: float
    upper: float
    confidence: float
    method: str
    assumption: str = NO_ASSUMPTION

    def __str__(self) -> str:
        text = f"{self.value:.4g} in [{self.lower:.4g}, {self.upper:.4g}]"
        believed = "" if self.assumption == NO_ASSUMPTION else f", assuming {self.assumption}"
        return f"{text} (confidence {self.confidence:.10g}, {self.method}{believed})"


def auc(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    *,
    confidence: float = 0.95,
    method: Literal["chernoff", "delong"] = "chernoff",
) -> Interval:
    """The area under the ROC curve, P(in > out) + P(in = out) / 2, with an interval.

    Args:
        scores_in: one score per independent trial with the canary; higher says "with".
        scores_out: one score per independent trial without it.
        confidence: the probability that the interval covers the truth; in (0, 1).
        method: "chernoff" is valid for any scores: the area is a two-sample U-statistic with
            kernel in [0, 1], an average of means of m = min(n_in, n_out) independent values each,
            so that Chernoff's bound for m values holds (Hoeffding 1963, section 5). "delong" is
            narrower and asymptotic (DeLong, DeLong and Clarke-Pearson 1988); where its variance is
            zero, as for scores that separate, it says nothing and "chernoff" is given.

    >>> print(auc([1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 2.5]))
    0.75 in [0.1456, 0.9973] (confidence 0.95, chernoff)

    """
    _check.choice("method", method, ("chernoff", "delong"))
    alpha = 1 - _check.confidence(confidence)
    scores = sort_scores(scores_in, scores_out)
    won_in, won_out = _placements(scores.inside, scores.outside), _placements(*scores[::-1])
    area = float(won_in.mean())
    variance = sum(float(np.var(w)) / max(w.size - 1, 1) for w in (won_in, won_out))
    if method == "delong" and variance > 0:
        half = -float(normal_lower(alpha / 2)) * math.sqrt(variance)
        ends = max(area - half, 0.0), min(area + half, 1.0)
        return Interval(area, *ends, confidence, "delong", "asymptotic normality")
    ends = _chernoff(area, min(scores.sizes), alpha)
    return Interval(area, *ends, confidence, "chernoff")


def _placements(x: FloatArray, y: FloatArray) -> FloatArray:
    """The share of y below each x, ties counting half."""
    return (np.searchsorted(y, x) + np.searchsorted(y, x, side="right")) / (2 * y.size)


def _chernoff(mean: float, n: int, alpha: float) -> tuple[float, float]:
    """The p with n kl(mean, p) <= log(2 / alpha): both tails together err with alpha at most."""
    limit = math.log(2 / alpha) / n

    def largest(m: float) -> float:
        def far(p: FloatArray) -> FloatArray:
            # The two terms cancel near m; each of them is at most 1 or so there.
            entropy = np.asarray(special.rel_entr(m, p) + special.rel_entr(1 - m, 1 - p))
            return round_down(entropy, ARITHMETIC, size=1.0) >= limit

        return float(first_true(far, m, 1.0))

    ends = round_down(1 - largest(1 - mean), size=1.0), round_up(largest(mean), size=1.0)
    return max(ends[0], 0.0), min(ends[1], 1.0)


def tpr_at_fpr(
    scores_in: ArrayLike, scores_out: ArrayLike, *, fpr: float, confidence: float = 0.95
) -> Interval:
    """The true-positive rate of the best threshold with at most this false-positive rate.

    The threshold is read off ``scores_out`` and so is uncertain. A quarter of the error probability
    goes to each of: a threshold whose false-positive rate is at most ``fpr`` (by ranks, as in
    :mod:`dpassay.bounds.bands`), one whose rate is above it, and the Clopper-Pearson limits on the
    true-positive rates there, exact because ``scores_in`` did not choose the thresholds.

    Args:
        scores_in: one score per independent trial with the canary; higher says "with".
        scores_out: one score per independent trial without it.
        fpr: the false-positive rate; in (0, 1).
        confidence: the probability that the interval covers the truth; in (0, 1).

    """
    fpr = _check.number("fpr", fpr, low=0, high=1, low_open=True, high_open=True)
    share = (1 - _check.confidence(confidence)) / 4
    scores = sort_scores(scores_in, scores_out)
    n_in, n_out = scores.sizes
    outside = scores.outside[::-1]  # the largest first
    few, many = _ranks_around(fpr, n_out, share)
    lower, upper = 0.0, 1.0
    if few >= 0:
        missed = int(np.searchsorted(scores.inside, float(outside[few]), side="right"))
        lower = float(binomial_lower(n_in - missed, n_in, share))
    if many < n_out:
        found = n_in - int(np.searchsorted(scores.inside, float(outside[many])))
        upper = float(binomial_upper(found, n_in, share))
    # A product such as .29 * 100 may be just below the whole number that is meant.
    at = float(outside[min(math.floor(round_up(fpr * n_out)), n_out - 1)])
    value = 1 - int(np.searchsorted(scores.inside, at, side="right")) / n_in
    return Interval(value, lower, upper, confidence, "clopper-pearson")


def _ranks_around(fpr: float, n: int, alpha: float) -> tuple[int, int]:
    """Two indices i into n scores, largest first, each right except with probability alpha.

    Strictly above the first, the rate is at most fpr (index -1: no score will do); at or above the
    second it is more than fpr (index n: none will do). With V_(i+1) as in
    :mod:`dpassay.bounds.bands`, V_(i+1) lies between the two rates at i and is Beta(i + 1, n - i).
    """
    level = alpha * (1 - TAIL)

    def too_high(i: FloatArray) -> FloatArray:
        return (i >= n) | (beta_upper_tail(i + 1, np.maximum(n - i, 1), fpr) > level)

    def low_enough(i: FloatArray) -> FloatArray:
        return (i >= n) | (beta_lower_tail(i + 1, np.maximum(n - i, 1), fpr) <= level)

    first, second = (first_true(holds, 0, n, whole=True) for holds in (too_high, low_enough))
    return int(first) - 1, int(second)


def advantage(
    scores_in: ArrayLike, scores_out: ArrayLike, *, confidence: float = 0.95, band: str = "band"
) -> Interval:
    """The membership advantage: the largest TPR - FPR of any threshold, with an interval.

    The plain maximum is biased upwards (0.036 on average for useless scores, 1000 of each). Half of
    the error probability pays for bands from above on both error rates, which bound the
    maximum from below at any threshold; half for bands on the rates of being right, which bound it
    from above at every threshold.

    Args:
        scores_in: one score per independent trial with the canary; higher says "with".
        scores_out: one score per independent trial without it.
        confidence: the probability that the interval covers the truth; in (0, 1).
        band: how every threshold is paid for: "band", "bonferroni" or "dkw".

    """
    _check.choice("band", band, tuple(BANDS))
    alpha = 1 - _check.confidence(confidence)
    scores = sort_scores(scores_in, scores_out)
    n_in, n_out = scores.sizes
    level = common_level(band, n_in, n_out, alpha / 2)
    # Of thresholds with the same scores outside above them, the one just above the next is best.
    true_negatives = np.searchsorted(scores.outside, scores.outside, side="right")
    false_negatives = np.searchsorted(scores.inside, scores.outside, side="right")
    plain = true_negatives / n_out - false_negatives / n_in
    least = 1 - _limit(band, n_out - true_negatives, n_out, level)
    least -= _limit(band, false_negatives, n_in, level)
    most = _limit(band, true_negatives, n_out, level) - 1
    most += _limit(band, n_in - false_negatives, n_in, level)
    everything = float(_limit(band, np.zeros(1), n_out, level)[0])  # all are guessed "in"
    ends = max(float(least.max()), 0.0), min(max(float(most.max()), everything), 1.0)
    return Interval(max(float(plain.max()), 0.0), *ends, confidence, band)


def _limit(band: str, counts: FloatArray, n: int, level: float) -> FloatArray:
    return BANDS[band].limits(counts, n, level)
