"""Testing a whole privacy curve with scores of a fixed number of trials.

A claim is a trade-off function f: whatever the threshold, FNR >= f(FPR). With upper limits on both
rates that hold at all thresholds together (:mod:`dpassay.bounds.bands`), a single threshold with
FNR_upper < f(FPR_upper) refutes the claim, since f does not increase. f is the upper envelope of
the lines 1 - delta(epsilon) - e^epsilon FPR and their mirror images, so that this is the same as a
point (epsilon, delta(epsilon)) of the curve that is exceeded. Anywhere on the curve will do, where
a bound at one delta may see nothing.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._special.margins import ARITHMETIC, round_down
from dpassay._special.search import first_true, last_true
from dpassay.bounds.bands import BANDS, common_level, total_price
from dpassay.bounds.labels import epsilon_label
from dpassay.bounds.scores import Scores, limits_at_cuts, sort_scores
from dpassay.types import FloatArray, LowerBound, PrivacyCurve

_SMALLEST_LEVEL = 1e-30


@dataclass(frozen=True)
class ClaimCheck:
    """Whether a privacy curve was refuted, and where it is exceeded most.

    Attributes:
        claim: the curve that was tested.
        refuted: true if the claim is false, with ``confidence``; false says nothing.
        confidence: the probability that a true claim is not refuted, at least.
        p_value: the smallest error probability at which it would be refuted; an upper bound.
        epsilon: the point of the curve with the largest excess of delta.
        delta_claimed: the claim's delta there.
        delta_lower: a lower bound on the delta there, with ``confidence``.
        selection: how the thresholds were paid for.

    """

    claim: PrivacyCurve
    refuted: bool
    confidence: float
    p_value: float
    epsilon: float
    delta_claimed: float
    delta_lower: float
    selection: str

    @property
    def margin(self) -> float:
        """By how much delta exceeds the claim at ``epsilon``."""
        return self.delta_lower - self.delta_claimed

    def __str__(self) -> str:
        if not self.refuted:
            return f"not refuted: {self.claim!r} (p={self.p_value:.3g})"
        return (
            f"refuted: delta({self.epsilon:.4g}) >= {self.delta_lower:.4g} (confidence "
            f"{self.confidence:.10g}), claimed {self.delta_claimed:.4g} (p={self.p_value:.3g})"
        )


def check_claim(
    claim: PrivacyCurve,
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    *,
    confidence: float = 0.95,
    band: Literal["band", "bonferroni", "dkw"] = "band",
) -> ClaimCheck:
    """Whether scores of trials with and without the canary refute a claim anywhere on its curve.

    Args:
        claim: any privacy curve; it is taken to hold in both directions.
        scores_in: one score per independent trial with the canary; higher says "with".
        scores_out: one score per independent trial without it.
        confidence: a true claim is let through with at least this probability; in (0, 1).
        band: how every threshold is paid for: "band", "bonferroni" or "dkw".

    Raises:
        InvalidArgument: for NaN scores, an empty side, or a level out of range.

    >>> from dpassay.privacy import ApproxDP
    >>> scores_in, scores_out = np.arange(300) + 200, np.arange(300)
    >>> print(check_claim(ApproxDP(epsilon=1.0, delta=1e-5), scores_in, scores_out))
    refuted: delta(1) >= 0.5107 (confidence 0.95), claimed 1e-05 (p=1.78e-18)

    """
    _check.choice("band", band, tuple(BANDS))
    alpha = 1 - _check.confidence(confidence)
    scores = sort_scores(scores_in, scores_out)
    points = _Points(claim)
    level, p_value = _smallest_level(points, scores, band)
    refuted = p_value <= alpha
    spent = common_level(band, *scores.sizes, alpha)
    # At the smallest level the price is the p-value, at most alpha if refuted: either may be used.
    _, fpr, fnr = limits_at_cuts(scores, band, max(level, spent) if refuted else spent)
    best, shown = points.most_exceeded(fpr, fnr)
    return ClaimCheck(
        claim=claim,
        refuted=refuted,
        confidence=confidence,
        p_value=p_value,
        epsilon=float(points.epsilon[best]),
        delta_claimed=float(points.delta[best]),
        delta_lower=shown,
        selection=BANDS[band].words,
    )


# Lines of f that lie a share h of delta, or of 1 - delta, apart miss about h²/8 of it.
_RAMP = np.geomspace(1e-3, 0.5, 90)
_DELTAS = np.concatenate([[0.0], np.geomspace(1e-12, 1e-3, 30)[:-1], _RAMP, 1 - _RAMP])


class _Points:
    """A claim at many points of its curve, evaluated once: any set of them is valid."""

    def __init__(self, claim: PrivacyCurve) -> None:
        # Corners: where the curve starts, and the one of approximate DP; that of pure DP is at 0.
        delta = np.unique(np.append(_DELTAS, claim.delta(np.array([0.0, 1e3]))))
        epsilon = np.asarray(claim.epsilon(delta))
        finite = epsilon < 700
        self.epsilon, self.delta = epsilon[finite], delta[finite]

    def most_exceeded(self, fpr: FloatArray, fnr: FloatArray) -> tuple[int, float]:
        """The index with the largest excess of delta, and a lower bound on the delta there."""
        shown = delta_shown(self.epsilon, fpr, fnr)
        best = int(np.argmax(shown - self.delta))
        return best, float(shown[best])

    def is_refuted_by(self, fpr: FloatArray, fnr: FloatArray) -> bool:
        best, shown = self.most_exceeded(fpr, fnr)
        return bool(shown > self.delta[best])


def _smallest_level(points: _Points, scores: Scores, band: str) -> tuple[float, float]:
    """The smallest level of the band that refutes, to one part in a thousand, and its price.

    Limits fall as the level rises: if one level refutes, so do all above it.
    """

    def refutes(log_level: Any) -> bool:
        return points.is_refuted_by(*limits_at_cuts(scores, band, math.exp(log_level))[1:])

    low, high = math.log(_SMALLEST_LEVEL), math.log(0.5)
    if not refutes(high):
        return 0.5, 1.0
    level = math.exp(first_true(refutes, low, high, absolute=1e-3))
    return level, total_price(band, *scores.sizes, level)


def delta_shown(epsilon: FloatArray, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
    """The largest delta that thresholds with these upper limits prove, at each epsilon.

    Both directions: P(in) - e^epsilon Q(in) and Q(out) - e^epsilon P(out). Rounded down, by the
    margin of a difference whose largest term is 1: so a delta that is shown above a claimed one
    *is* a violation, and the number that is reported is the one that was compared.
    """
    growth = np.exp(epsilon)[:, None]
    one, other = 1 - fnr - growth * fpr, 1 - fpr - growth * fnr
    larger: FloatArray = np.maximum(one, other).max(axis=1)
    return np.maximum(round_down(larger, ARITHMETIC, size=1.0), 0.0)


def lower_bound_in_family(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    *,
    family: Callable[[float], PrivacyCurve],
    low: float,
    high: float,
    delta: float,
    confidence: float = 0.95,
    band: str = "band",
) -> LowerBound:
    """A lower bound on epsilon(delta), if the algorithm's curve is a member of a nested family.

    All members are tested under one band, so that the largest refuted one needs no further payment:
    whatever member is the truth, it and all less private ones stand except with probability
    1 - confidence. The Gaussian family gives the same as ``lower_bound(..., method="gdp")``.

    Args:
        scores_in: one score per independent trial with the canary; higher says "with".
        scores_out: one score per independent trial without it.
        family: maps a parameter to a curve; a larger parameter must be less private everywhere,
            for example ``GDP``. A member must be exact: one that is only an upper bound, as an
            accountant's, would label the answer with too large an epsilon, and is refused; for
            DP-SGD :func:`dpassay.adversaries.lower_bound_in_noise` composes from below instead.
        low: the smallest parameter considered; if it stands, the bound is 0.
        high: the largest parameter considered.
        delta: where on the privacy curve the bound is stated; in [0, 1).
        confidence: the probability that the bound holds; in (0, 1).
        band: how every threshold is paid for: "band", "bonferroni" or "dkw".

    Raises:
        InvalidArgument: for NaN scores, an empty side, a value out of range, or a member that is
            not exact.

    """
    _check.choice("band", band, tuple(BANDS))
    low, high = _check.number("low", low), _check.number("high", high, low=low, low_open=True)
    delta, confidence = _check.delta(delta), _check.confidence(confidence)
    scores = sort_scores(scores_in, scores_out)
    n_in, n_out = scores.sizes
    level = common_level(band, n_in, n_out, 1 - confidence)
    _, fpr, fnr = limits_at_cuts(scores, band, level)
    perfect = (BANDS[band].limits(np.zeros(1), n, level) for n in (n_out, n_in))
    epsilon_label(family(high), delta)  # refuse upper bounds before any work is done

    @functools.cache
    def points(parameter: float) -> _Points:
        return _Points(family(parameter))

    found = _largest_refuted(points, low, high, fpr, fnr)
    most = _largest_refuted(points, low, high, *perfect)
    return LowerBound(
        epsilon=0.0 if found is None else epsilon_label(family(found), delta),
        delta=delta,
        confidence=confidence,
        method="family",
        assumption="the privacy curve is a member of the family",
        ceiling=0.0 if most is None else epsilon_label(family(most), delta),
        selection=f"the best of all thresholds; {BANDS[band].words}",
        details={} if found is None else {"parameter_lower": found},
    )


def _largest_refuted(
    points: Callable[[float], _Points],
    low: float,
    high: float,
    fpr: FloatArray,
    fnr: FloatArray,
) -> float | None:
    """The largest refuted parameter, rounded down; None if even the smallest stands."""
    if not points(low).is_refuted_by(fpr, fnr):
        return None

    def falls(parameter: float) -> bool:
        return points(float(parameter)).is_refuted_by(fpr, fnr)

    return float(last_true(falls, low, high, within=1e-6, even=True))
