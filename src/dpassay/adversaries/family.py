"""A lower bound on epsilon if the training is DP-SGD of known rate and steps, with unknown noise.

Clopper-Pearson believes nothing and shows little at delta = 1e-5. Who takes it that a training is
Poisson-sampled Gaussian steps may ask instead how little noise there must be: the privacy curves of
all noise multipliers are nested, and the smallest noise whose curve the scores refute bounds the
true noise from above, and so epsilon from below. (For full batches that is the Gaussian family.)
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._special.margins import NUMERICAL
from dpassay._special.search import last_true
from dpassay.bounds.bands import BANDS, common_level
from dpassay.bounds.curve_tests import delta_shown
from dpassay.bounds.scores import limits_at_cuts, sort_scores
from dpassay.bounds.steps import epsilon_of_steps
from dpassay.privacy import account, dp_sgd_event
from dpassay.privacy.accounting import grid
from dpassay.types import FloatArray, LowerBound

_BAND = "band"
_POINTS = np.concatenate([[0.0], np.geomspace(0.1, 12, 23)])  # epsilons at which curves are tested
_SPAN, _MEMBERS = (6.0, 0.25), 128  # of the stated noise, from much to little
_COARSE = 4  # of the accountant's interval: deviations are a thousandth too large


def lower_bound_in_noise(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    confidence: float = 0.95,
) -> LowerBound:
    """A lower bound on epsilon(delta), *if* this is DP-SGD of the rate and steps with any noise.

    All members are tested under one band of both error rates, so that whatever noise is the true
    one, it and all smaller ones stand except with probability 1 - confidence; the least noise that
    is refuted is then more than the true one. Its epsilon is rounded down.

    Args:
        scores_in: one score per independent trial with the canary; higher says "with".
        scores_out: one per independent trial without it.
        noise_multiplier: what is stated; members from 6 times to a quarter of it are tried. It
            says where to look, and nothing is believed of it.
        sampling_rate: the rate of the Poisson samples.
        steps: of a training.
        delta: where on the privacy curve the bound is stated; in (0, 1).
        confidence: the probability that the bound holds; in (0, 1).

    """
    stated = _check.noise_multiplier(noise_multiplier)
    rate, steps = _check.sampling_rate(sampling_rate), _check.count("steps", steps)
    _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True)
    confidence = _check.confidence(confidence)
    scores = sort_scores(scores_in, scores_out)
    n_in, n_out = scores.sizes
    level = common_level(_BAND, n_in, n_out, 1 - confidence)
    _, fpr, fnr = limits_at_cuts(scores, _BAND, level)
    perfect = (BANDS[_BAND].limits(np.zeros(1), n, level) for n in (n_out, n_in))
    noises = np.geomspace(_SPAN[0] * stated, _SPAN[1] * stated, _MEMBERS)
    found = _least_refuted(noises, rate, steps, fpr, fnr)
    most = _least_refuted(noises, rate, steps, *perfect)
    return LowerBound(
        epsilon=_epsilon(found, rate, steps, delta),
        delta=delta,
        confidence=confidence,
        method="family",
        assumption=f"DP-SGD of {steps} steps on Poisson batches of rate {rate:.6g}, of some noise",
        ceiling=_epsilon(most, rate, steps, delta),
        selection=f"the best of all thresholds; {BANDS[_BAND].words}",
        details={} if found is None else {"noise_multiplier_upper": found},
    )


def _least_refuted(
    noises: FloatArray, rate: float, steps: int, fpr: FloatArray, fnr: FloatArray
) -> float | None:
    """The smallest noise whose curve the error rates refute; None if none is. Noises fall."""
    shown = delta_shown(_POINTS, fpr, fnr)

    def refutes(index: FloatArray) -> bool:
        allowed = _curve(float(noises[int(index)]), rate, steps)
        return bool(np.any(shown > allowed + NUMERICAL))

    if not refutes(np.zeros(())):
        return None
    return float(noises[int(last_true(refutes, 0, len(noises) - 1, whole=True))])


@lru_cache(maxsize=1024)
def _curve(noise: float, rate: float, steps: int) -> FloatArray:
    """The curve at the points; an upper bound on delta, on a grid that costs little."""
    event = dp_sgd_event(noise, rate, steps)
    curve = account(event, "pld", interval=min(_COARSE * grid(event), 1.0))
    return np.asarray(curve.delta(_POINTS))


@lru_cache(maxsize=1024)
def _epsilon(noise: float | None, rate: float, steps: int, delta: float) -> float:
    """Rounded down; 0 where no noise was refuted."""
    return 0.0 if noise is None else epsilon_of_steps(1 / noise, rate, steps, delta)
