"""What one training with m canaries can show, before it is run: estimates, not bounds.

The truth is taken to be Gaussian. The weighted count of :mod:`~dpassay.bounds.onerun.weighted` is
about as sharp as a test that knows this: the mu that it implies has a variance of (4 + mu²/2) / m,
so that a bound is at about mu - z sqrt((4 + mu²/2) / m), with z the quantile of the confidence.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpassay import _check
from dpassay._special.quantiles import normal_upper
from dpassay.bounds.counts import epsilon_of_mu
from dpassay.bounds.onerun.certainty import Certainty
from dpassay.bounds.onerun.pvalues import Exact, largest_epsilon
from dpassay.privacy import GDP, gaussian

_MOST = 10**12  # canaries; nobody has more


@dataclass(frozen=True)
class OneRunForecast:
    """What is expected of one training.

    Attributes:
        epsilon: the true one, at delta.
        delta: where it is stated.
        confidence: of the bounds.
        canaries: how many.
        epsilon_form: the bound to expect for DP-SGD with orthogonal canaries.
        guesses: how many guesses are best where nothing is assumed.
        epsilon_none: the bound to expect with these.
        parameters: of the model, where known.

    """

    epsilon: float
    delta: float
    confidence: float
    canaries: int
    epsilon_form: float
    guesses: int
    epsilon_none: float
    parameters: int | None = None

    @property
    def reachable(self) -> bool:
        """Whether there are enough parameters for canaries that are orthogonal to each other."""
        return self.parameters is None or self.canaries <= self.parameters

    @property
    def share(self) -> float:
        """The share of epsilon that the form of DP-SGD is expected to show."""
        return self.epsilon_form / self.epsilon

    @property
    def share_none(self) -> float:
        """The same where nothing is assumed."""
        return self.epsilon_none / self.epsilon


def forecast(
    epsilon: float,
    *,
    share: float | None = None,
    canaries: int | None = None,
    parameters: int | None = None,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> OneRunForecast:
    """What ``canaries`` are expected to show, or how many show this share of epsilon.

    Args:
        epsilon: of the training, at ``delta``; positive.
        share: of epsilon, in (0, 1); 0.8 if no number of canaries is given either.
        canaries: how many, instead of a share.
        parameters: of the model: more canaries cannot be orthogonal.
        delta: in (0, 1).
        confidence: of the bound, above a half.

    >>> forecast(4.0, share=0.8).canaries
    447

    """
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    remedy = "It is where epsilon is stated; a common value is 1e-5."
    delta = _check.number(
        "delta", delta, low=0, high=1, low_open=True, high_open=True, remedy=remedy
    )
    confidence = _check.number("confidence", _check.confidence(confidence), low=0.5, low_open=True)
    if canaries is None:
        canaries = canaries_for(epsilon, 0.8 if share is None else share, delta, confidence)
    canaries = _check.count("canaries", canaries)
    if parameters is not None:
        parameters = _check.count("parameters", parameters)
    mu = float(gaussian.mu_of(epsilon, delta))
    below = mu - float(normal_upper(confidence)) * _deviation(mu, canaries)
    shown = epsilon_of_mu(below, delta) if below > 0 else 0.0
    best = best_guesses(mu, canaries, delta, 1 - confidence)
    return OneRunForecast(epsilon, delta, confidence, canaries, shown, *best, parameters)


def _deviation(mu: float, canaries: float) -> float:
    return math.sqrt((4 + mu**2 / 2) / canaries)


def canaries_for(epsilon: float, share: float, delta: float, confidence: float) -> int:
    """How many canaries show this share of epsilon, about; by the weighted count."""
    remedy = "It is the part of epsilon that the bound should reach, such as 0.8."
    share = _check.number(
        "share", share, low=0, high=1, low_open=True, high_open=True, remedy=remedy
    )
    mu, below = (float(gaussian.mu_of(e, delta)) for e in (epsilon, share * epsilon))
    width = (mu - below) / float(normal_upper(confidence))
    return min(math.ceil((_deviation(mu, 1) / width) ** 2), _MOST)


def best_guesses(mu: float, canaries: int, delta: float, level: float) -> tuple[int, float]:
    """The number of guesses with the largest bound to expect where nothing is assumed, and it."""
    guesses = np.unique(np.geomspace(1, canaries, 60).astype(np.int64))
    rates = Certainty.of_curve(GDP(mu=mu)).rate(guesses / canaries)
    correct = np.floor(guesses * (1 - rates))
    best, index = largest_epsilon(Exact(canaries * delta), guesses, correct, level)
    return int(guesses[index]), best
