"""The arrays behind the figures, thinned: from curves and scores to what is drawn, and no more."""

import math
from typing import Any, Literal

import numpy as np

from dpassay._special.quantiles import binomial_upper
from dpassay.bounds import one_run
from dpassay.bounds.bands import BANDS, common_level
from dpassay.bounds.counts import epsilon_of_rates
from dpassay.bounds.scores import Scores, limits_at_cuts
from dpassay.types import Evidence, FloatArray, PrivacyCurve, Verdict

POINTS = 200  # of a drawn curve
BINS = 40
FLOOR = 1e-10  # the smallest delta that is drawn
_EXACT_BAND = 20_000  # with more trials the exact price of a band takes seconds
_ROUGH_LEVEL = 1e-6  # below which a union is about as good
_LARGEST = 1e290  # of a score that is drawn


def short(values: Any) -> list[float]:
    """The values with six digits, which is enough to draw."""
    return [float(f"{x:.6g}") for x in np.asarray(values, dtype=float).ravel()]


def _thin(size: int, points: int = POINTS) -> Any:
    """Indices spread over 0 ... size - 1, denser at both ends, the ends included."""
    if size <= 2 * points:
        return np.arange(size)
    ends = np.geomspace(1, size / 2, points // 2)
    spread = np.concatenate([np.linspace(0, size - 1, points), ends - 1, size - ends])
    return np.unique(spread.astype(int))


# Curves.


def privacy_profile(curve: PrivacyCurve) -> dict[str, list[float]]:
    """Delta against epsilon, from 0 to where delta has fallen below what is drawn."""
    probe = np.concatenate([[0.0], np.geomspace(1e-3, 500.0, 80)])
    values = np.asarray(curve.delta(probe))
    small = np.flatnonzero(values <= max(FLOOR, float(values[-1])))
    end = float(probe[small[0]]) if small.size else 10.0
    epsilon = np.linspace(0.0, max(1.05 * end, 0.1), POINTS)
    return {"epsilon": short(epsilon), "delta": short(curve.delta(epsilon))}


def profile_table(curve: PrivacyCurve, epsilon: float) -> list[dict[str, float]]:
    """Delta at a few epsilons around the stated one; upper bounds where the curve is one."""
    scale = epsilon if 0 < epsilon < math.inf else 1.0
    at = np.array(
        [float(f"{scale * share:.3g}") for share in (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2)]
    )
    deltas = np.asarray(curve.delta(at))
    return [{"epsilon": float(x), "delta": float(d)} for x, d in zip(at, deltas, strict=True)]


def _rates() -> FloatArray:
    ramp = np.geomspace(1e-4, 0.5, POINTS // 4)
    return np.unique(np.concatenate([[0.0], ramp, 1 - ramp, np.linspace(0, 1, POINTS // 2), [1.0]]))


def allowed_region(curve: PrivacyCurve) -> dict[str, list[float]]:
    """The true-positive rates that the claim allows at each false-positive rate.

    At most 1 - f(x); and at least f(1 - x), since the opposite guess is an attack too.
    """
    fpr = _rates()
    most = 1 - np.asarray(curve.tradeoff(fpr))
    least = np.asarray(curve.tradeoff(1 - fpr))
    return {"fpr": short(fpr), "tpr_most": short(most), "tpr_least": short(least)}


# Scores.


def _sides(evidence: Evidence) -> Scores:
    return Scores(*(np.sort(side) for side in evidence.sides()))


def roc(evidence: Evidence) -> dict[str, list[float]] | None:
    """Both rates of the guess "with" at thresholds spread over the scores; None without both."""
    scores = _sides(evidence)
    n_in, n_out = scores.sizes
    if not (n_in and n_out):
        return None
    values = np.unique(np.concatenate(scores))[::-1]
    positives, missed = scores.counts(values[_thin(values.size)])
    fpr = np.concatenate([[0.0], positives / n_out])
    return {"fpr": short(fpr), "tpr": short(np.concatenate([[0.0], 1 - missed / n_in]))}


def roc_band(evidence: Evidence, confidence: float) -> dict[str, Any] | None:
    """Limits of the true ROC curve that hold at every threshold together.

    Each edge has half of the error probability. The lower one comes from upper limits on both error
    rates (FPR <= a and FNR <= b put the curve at or above 1 - b from a on), the upper one from the
    same limits for the opposite guess.
    """
    n_in, n_out = (side.size for side in evidence.sides())
    if not (n_in and n_out):
        return None
    half = (1 - confidence) / 2
    kind = "band" if evidence.trials <= _EXACT_BAND and half > _ROUGH_LEVEL else "bonferroni"
    level = common_level(kind, n_in, n_out, half)
    grid, scores = _rates(), _sides(evidence)
    _, fpr, fnr = limits_at_cuts(scores, kind, level)
    opposite = Scores(*(-side[::-1] for side in scores))
    _, tnr, tpr = limits_at_cuts(opposite, kind, level)
    return {
        "fpr": short(grid),
        "tpr_lower": short(_highest_before(grid, fpr, 1 - fnr)),
        "tpr_upper": short(1 - _highest_before(1 - grid, tnr, 1 - tpr, side="left")),
        "confidence": confidence,
        "kind": kind,
        "words": BANDS[kind].words,
    }


def _highest_before(
    grid: FloatArray, at: FloatArray, height: FloatArray, side: Literal["left", "right"] = "right"
) -> FloatArray:
    """The largest height of the points up to each place (itself: "right"), at least 0."""
    order = np.argsort(at, kind="stable")
    best = np.concatenate([[0.0], np.maximum.accumulate(height[order])])
    return np.maximum(best[np.searchsorted(at[order], grid, side=side)], 0.0)


def histogram(evidence: Evidence) -> dict[str, Any] | None:
    """How many scores of each world lie in each bin; infinite ones are counted apart.

    The bins cover all but the outermost thousandth at either end, which the end bins take in.
    """
    finite = np.isfinite(evidence.scores)
    if not evidence.trials:
        return None
    edges = _edges(np.clip(evidence.scores[finite], -_LARGEST, _LARGEST))
    sides = dict(zip(("in", "out"), evidence.sides(), strict=True))
    found: dict[str, Any] = {"edges": short(edges)}
    for name, side in sides.items():
        inner = np.clip(side[np.isfinite(side)], edges[0], edges[-1])
        found[f"n_{name}"] = np.histogram(inner, edges)[0].tolist()
        found[f"n_{name}_lowest"] = int(np.sum(side == -np.inf))
        found[f"n_{name}_highest"] = int(np.sum(side == np.inf))
    return found


def _edges(scores: FloatArray) -> FloatArray:
    """Edges at round numbers, so that they are not themselves scores."""
    low, high = (float(x) for x in np.quantile(scores, (0.001, 0.999))) if scores.size else (0, 0)
    span = high - low
    if not span > 1e-12 * max(abs(low), abs(high)):
        span = max(abs(low), abs(high), 1.0)
        low, high = low - span / 2, high + span / 2
    step = 10.0 ** math.floor(math.log10(span / BINS))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= span / BINS)
    first, last = math.floor(low / step), math.floor(high / step) + 1
    return step * np.arange(first, last + 1)


def thresholds(evidence: Evidence, delta: float, confidence: float) -> dict[str, Any] | None:
    """The Clopper-Pearson bound at each threshold, had that one been fixed before the trials.

    Either way round: of the guess and of its opposite the larger. The largest of these is *not* a
    bound: it was chosen by the same scores.
    """
    scores = _sides(evidence)
    n_in, n_out = scores.sizes
    found = histogram(evidence)
    if found is None or not (n_in and n_out):
        return None
    cuts = np.linspace(found["edges"][0], found["edges"][-1], POINTS)
    fp, fn = scores.counts(cuts)
    level = (1 - confidence) / 2
    counts = ((fp, fn), (n_out - fp, n_in - fn))
    values = [
        epsilon_of_rates(binomial_upper(a, n_out, level), binomial_upper(b, n_in, level), delta)
        for a, b in counts
    ]
    return {"threshold": short(cuts), "epsilon": short(np.maximum(*values))}


def guesses(evidence: Evidence, delta: float, confidence: float) -> dict[str, Any]:
    """The one-run bound at each number of guesses, had that one been fixed before the training.

    By the published p-value (Steinke, Nasr and Jagielski 2023), half of the guesses of each kind.
    As with thresholds, the largest of these is not a bound.
    """
    numbers = np.unique(np.geomspace(1, evidence.trials, POINTS // 3).astype(int))
    setting = {"delta": delta, "confidence": confidence, "method": "steinke"}
    found = (
        one_run(evidence.scores, evidence.worlds == 1, guesses=int(n), **setting) for n in numbers
    )
    return {"guesses": numbers.tolist(), "epsilon": short([bound.epsilon for bound in found])}


def wealth(verdict: Verdict) -> dict[str, Any] | None:
    """The logarithm of the bettor's wealth over the trials, and what it takes to refute."""
    path, needed = verdict.log_wealth, verdict.wealth_needed
    if path is None or not len(path) or needed is None:
        return None
    kept = np.union1d(_thin(len(path)), [int(np.argmax(path))])
    return {
        "trial": [0, *(kept + 1).tolist()],
        "log_wealth": [0.0, *short(np.asarray(path)[kept])],
        "needed": needed,
        "n_bet": len(path),
    }
