"""What a privacy guarantee means for the person in the data: limits on any membership attack.

All of them are upper bounds on what an attacker can reach, whatever it computes, and hold for the
curve they are given: an upper bound on epsilon gives an upper bound here.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpassay import _check
from dpassay._check import number
from dpassay._special.search import last_true
from dpassay.privacy import gaussian
from dpassay.privacy.curves import GDP
from dpassay.types import FloatArray, PrivacyCurve


def posterior_bounds(prior: float, epsilon: float) -> tuple[float, float]:
    """The sharp range of P(member | output) under epsilon-DP, given the attacker's prior.

    By Bayes the odds move by a factor of at most e^±epsilon:
    p / (p + (1-p) e^±epsilon). Attained by randomized response.

    >>> low, high = posterior_bounds(0.5, 1.0)
    >>> (round(low, 4), round(high, 4))
    (0.2689, 0.7311)

    """
    prior, epsilon = _prior(prior), _check.epsilon(epsilon)
    odds = special.logit(prior)
    return float(special.expit(odds - epsilon)), float(special.expit(odds + epsilon))


def posterior_bounds_loose(prior: float, epsilon: float) -> tuple[float, float]:
    """The plain range e^-epsilon p <= P(member | output) <= e^epsilon p (cut at 1).

    Compares the posterior with the prior when the records have the two worlds' mixture as their
    law; weaker than :func:`posterior_bounds`, which it always contains.
    """
    prior, epsilon = _prior(prior), _check.epsilon(epsilon)
    return prior * math.exp(-epsilon), min(prior * math.exp(min(epsilon, 700.0)), 1.0)


def _prior(prior: float) -> float:
    remedy = "It is the attacker's belief before the release; 0.5 is an even chance."
    return number("prior", prior, low=0, high=1, low_open=True, high_open=True, remedy=remedy)


@dataclass(frozen=True)
class AttackLimits:
    """The most any membership attack can reach against a curve.

    Attributes:
        accuracy: share of right guesses when members and others are equally likely.
        advantage: true-positive minus false-positive rate.
        fpr: the false-positive rate that ``tpr`` is given at.
        tpr: the largest true-positive rate at that false-positive rate.

    """

    accuracy: float
    advantage: float
    fpr: float
    tpr: float


def attack_limits(curve: PrivacyCurve, fpr: float = 0.01) -> AttackLimits:
    """Upper bounds on accuracy, advantage and true-positive rate of any attack on the curve.

    The advantage of the best test is the total variation delta(0): for (epsilon, delta)-DP
    (e^epsilon - 1 + 2 delta)/(e^epsilon + 1), for mu-GDP 2 Phi(mu/2) - 1. Accuracy at even odds is
    half of one plus that.

    >>> from dpassay.privacy.curves import PureDP
    >>> attack_limits(PureDP(1.0)).accuracy
    0.731059

    """
    rate = number("fpr", fpr, low=0, high=1, remedy="It is a false-positive rate, such as 0.01.")
    advantage = curve.delta(0.0)
    return AttackLimits((1 + advantage) / 2, advantage, rate, 1 - curve.tradeoff(rate))


@dataclass(frozen=True)
class Odds:
    """How often a release leads someone to believe that you took part.

    Attributes:
        if_out: the share of potential releases that do so when you did not take part.
        if_in: the same share when you did.
        what: which release and which attacker the numbers are about.

    """

    if_out: float
    if_in: float
    what: str


def odds_of_curve(curve: PrivacyCurve) -> Odds:
    """The worst case that a curve allows: the best test whose two error rates are equal.

    For (epsilon, delta)-DP the common error is (1 - delta)/(1 + e^epsilon), for mu-GDP Phi(-mu/2).

    >>> from dpassay.privacy.curves import PureDP
    >>> odds_of_curve(PureDP(0.5)).if_out
    0.377541

    """
    if isinstance(curve, GDP):
        error = float(special.ndtr(-curve.mu / 2))
    else:
        # f(x) - x falls from f(0) to below zero.
        def is_below(x: FloatArray) -> NDArray[np.bool_]:
            return np.asarray(curve.tradeoff(x)) > x

        error = float(last_true(is_below, 0.0, 0.5, absolute=1e-17))
    return Odds(error, 1 - error, "worst case over all algorithms with this guarantee")


def odds_of_laplace(epsilon: float) -> Odds:
    """A count with Laplace noise of scale 1/epsilon, believed "in" above the midpoint.

    The chance of a wrong belief is e^{-epsilon/2}/2. The form of Nanayakkara et al. 2023: 39 and
    61 of 100 at epsilon = 0.5.
    """
    error = math.exp(-_check.epsilon(epsilon) / 2) / 2
    return Odds(error, 1 - error, "a count released with Laplace noise")


def odds_of_gaussian(epsilon: float, delta: float) -> Odds:
    """A value with the least Gaussian noise that suffices, believed "in" above the midpoint."""
    epsilon, delta = _check.epsilon(epsilon, finite=True), _check.delta(delta)
    error = float(special.ndtr(-gaussian.mu_of(np.float64(epsilon), np.float64(delta)) / 2))
    return Odds(error, 1 - error, "a value released with Gaussian noise")
