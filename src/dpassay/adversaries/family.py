"""A lower bound on epsilon if the training is DP-SGD of known rate and steps, with unknown noise.

Clopper-Pearson believes nothing and shows little at delta = 1e-5. Who takes it that a training is
Poisson-sampled Gaussian steps may ask instead how little noise there must be: the privacy curves of
all noise multipliers are nested, and the smallest noise whose curve the scores refute bounds the
true noise from above, and so epsilon from below. (For full batches that is the Gaussian family.)
So it is for batches that each record is allocated to at random, once an epoch.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._special.margins import NUMERICAL
from dpassay._special.search import last_true
from dpassay.attacks.trajectories import Scheme
from dpassay.bounds.bands import BANDS, common_level
from dpassay.bounds.curve_tests import delta_shown
from dpassay.bounds.scores import limits_at_cuts, sort_scores
from dpassay.bounds.steps import epsilon_of_steps
from dpassay.errors import InvalidArgument
from dpassay.privacy import account, allocation_event, bracket, dp_sgd_event
from dpassay.privacy.accounting import grid
from dpassay.privacy.events import Event
from dpassay.types import FloatArray, LowerBound

SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
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
    scheme: Scheme = "poisson",
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
        sampling_rate: the rate of the samples.
        steps: of a training.
        delta: where on the privacy curve the bound is stated; in (0, 1).
        confidence: the probability that the bound holds; in (0, 1).
        scheme: "poisson", or "shuffled": of every 1 / sampling_rate steps the canary is in exactly
            one, drawn uniformly (random allocation, or shuffled batches whose other records say
            nothing), as :class:`~dpassay.adversaries.LikelihoodRatio` scores it.

    """
    stated = _check.noise_multiplier(noise_multiplier)
    rate, steps = _check.sampling_rate(sampling_rate), _check.count("steps", steps)
    batches = _Batches(rate, steps, _check.choice("scheme", scheme, SCHEMES))
    _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True)
    confidence = _check.confidence(confidence)
    scores = sort_scores(scores_in, scores_out)
    n_in, n_out = scores.sizes
    level = common_level(_BAND, n_in, n_out, 1 - confidence)
    _, fpr, fnr = limits_at_cuts(scores, _BAND, level)
    perfect = (BANDS[_BAND].limits(np.zeros(1), n, level) for n in (n_out, n_in))
    noises = np.geomspace(_SPAN[0] * stated, _SPAN[1] * stated, _MEMBERS)
    found = _least_refuted(noises, batches, fpr, fnr)
    most = _least_refuted(noises, batches, *perfect)
    return LowerBound(
        epsilon=_epsilon(found, batches, delta),
        delta=delta,
        confidence=confidence,
        method="family",
        assumption=f"DP-SGD of {steps} steps on {batches.words}, of some noise",
        ceiling=_epsilon(most, batches, delta),
        selection=f"the best of all thresholds; {BANDS[_BAND].words}",
        details={} if found is None else {"noise_multiplier_upper": found},
    )


@dataclass(frozen=True)
class _Batches:
    """How the canary gets into batches; all but the noise of a training's event."""

    rate: float
    steps: int
    scheme: Scheme

    def __post_init__(self) -> None:
        whole = round(1 / self.rate)
        if self.scheme == "shuffled" and (abs(1 / self.rate - whole) > 1e-6 or self.steps % whole):
            raise InvalidArgument(
                f"sampling_rate={self.rate:g} and steps={self.steps}: with scheme='shuffled' the "
                "rate must be 1 over a whole number of steps, an epoch, and epochs must be whole."
            )

    @property
    def words(self) -> str:
        if self.scheme == "poisson":
            return f"Poisson batches of rate {self.rate:.6g}"
        return f"batches of which a record is in one of every {round(1 / self.rate)}"

    def event(self, noise: float) -> Event:
        if self.scheme == "poisson":
            return dp_sgd_event(noise, self.rate, self.steps)
        epoch = round(1 / self.rate)
        return allocation_event(noise, epoch, self.steps // epoch)

    def epsilon_lower(self, noise: float, delta: float) -> float:
        if self.scheme == "poisson":
            return epsilon_of_steps(1 / noise, self.rate, self.steps, delta)
        return bracket(self.event(noise), delta).lower


def _least_refuted(
    noises: FloatArray, batches: _Batches, fpr: FloatArray, fnr: FloatArray
) -> float | None:
    """The smallest noise whose curve the error rates refute; None if none is. Noises fall."""
    shown = delta_shown(_POINTS, fpr, fnr)

    def refutes(index: FloatArray) -> bool:
        allowed = _curve(float(noises[int(index)]), batches)
        return bool(np.any(shown > allowed + NUMERICAL))

    if not refutes(np.zeros(())):
        return None
    return float(noises[int(last_true(refutes, 0, len(noises) - 1, whole=True))])


@lru_cache(maxsize=1024)
def _curve(noise: float, batches: _Batches) -> FloatArray:
    """The curve at the points; an upper bound on delta, on a grid that costs little."""
    event = batches.event(noise)
    curve = account(event, "pld", interval=min(_COARSE * grid(event), 1.0))
    return np.asarray(curve.delta(_POINTS))


@lru_cache(maxsize=1024)
def _epsilon(noise: float | None, batches: _Batches, delta: float) -> float:
    """Rounded down; 0 where no noise was refuted."""
    return 0.0 if noise is None else batches.epsilon_lower(noise, delta)
