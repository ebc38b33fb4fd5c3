"""What an attacker may gain at most: targets for :func:`dpassay.privacy.calibrate`.

All of them are about one record's membership, in the worst case over data sets and records, for an
attacker of unlimited computing power. An upper bound on delta gives an upper bound on each: the
noise that is found is never too little.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._special.margins import CLOSED_FORM, up
from dpassay.errors import InvalidArgument
from dpassay.privacy.curves import GDP, ApproxDP, PureDP
from dpassay.types import FloatArray, Neighbouring, PrivacyCurve

_PROBES, _FINE, _ROUNDS = 24, 9, 4


class Risk:
    """Base of the targets; use one of its kinds."""

    neighbouring: Neighbouring

    @property
    def goal(self) -> float:
        """What :meth:`of` may be at most."""
        raise NotImplementedError

    @property
    def floor(self) -> float:
        """What :meth:`of` is without any attack: no noise brings it below."""
        return 0.0

    def of(self, curve: PrivacyCurve) -> float:
        """An upper bound on the attacker's gain against what has this privacy curve."""
        raise NotImplementedError

    def excess(self, curve: PrivacyCurve) -> float:
        """What an attack adds to the floor; at most :attr:`room` if and only if the goal is met."""
        reached = self.of(curve)
        added = max(reached - self.floor, 0.0)
        # Rounding must not hide that the goal is exceeded.
        return added if reached <= self.goal else max(added, math.nextafter(self.room, math.inf))

    @property
    def room(self) -> float:
        """What an attack may add to the floor."""
        return self.goal - self.floor

    def as_dict(self) -> dict[str, Any]:
        """The target in words and numbers that JSON can hold."""
        return dict(vars(self))

    def in_words(self, reached: str) -> str:
        """What holds of every attack, where :meth:`of` is ``reached``."""
        raise NotImplementedError


def _check_target(target: Risk, *rates: str) -> None:
    """Refuse rates that are not between 0 and 1, and unknown relations."""
    for name in rates:
        _check.number(
            name,
            getattr(target, name),
            low=0,
            high=1,
            low_open=True,
            high_open=True,
            remedy="It is a share, such as 0.1.",
        )
    _check.neighbouring(target.neighbouring)


@dataclass(frozen=True)
class Advantage(Risk):
    """No attack has a true-positive rate that exceeds its false-positive rate by more than this.

    >>> from dpassay.privacy import Gaussian, calibrate
    >>> calibrate(Gaussian, Advantage(0.1))
    3.978948

    """

    advantage: float
    neighbouring: Neighbouring = field(default="add-remove", kw_only=True)

    def __post_init__(self) -> None:
        _check_target(self, "advantage")

    @property
    def goal(self) -> float:
        return self.advantage

    def of(self, curve: PrivacyCurve) -> float:
        return float(curve.delta(0.0))

    def in_words(self, reached: str) -> str:
        return f"no attack's true-positive rate exceeds its false-positive rate by over {reached}"


@dataclass(frozen=True)
class AttackRate(Risk):
    """No attack with this false-positive rate has a true-positive rate above ``tpr``.

    >>> from dpassay.privacy import Gaussian, calibrate
    >>> calibrate(Gaussian, AttackRate(fpr=0.01, tpr=0.1))
    0.957124

    """

    fpr: float
    tpr: float
    neighbouring: Neighbouring = field(default="add-remove", kw_only=True)

    def __post_init__(self) -> None:
        _check_target(self, "fpr", "tpr")
        if not self.tpr > self.fpr:
            raise InvalidArgument(
                f"tpr={self.tpr!r} must be above fpr={self.fpr!r}. An attacker who tosses a coin "
                "has equal rates; no noise brings him below."
            )

    @property
    def goal(self) -> float:
        return self.tpr

    @property
    def floor(self) -> float:
        return self.fpr

    def of(self, curve: PrivacyCurve) -> float:
        return 1 - least_fnr(curve, self.fpr)

    def in_words(self, reached: str) -> str:
        return f"attacks with a false-positive rate of {self.fpr:g} find at most {reached} of all"


@dataclass(frozen=True)
class BayesError(Risk):
    """An attacker who knows the prior chance of membership errs with at least this probability.

    >>> from dpassay.privacy import Gaussian, calibrate
    >>> calibrate(Gaussian, BayesError(prior=0.5, error=0.45))
    3.978948

    """

    prior: float
    error: float
    neighbouring: Neighbouring = field(default="add-remove", kw_only=True)

    def __post_init__(self) -> None:
        _check_target(self, "prior", "error")
        if not self.error < min(self.prior, 1 - self.prior):
            raise InvalidArgument(
                f"error={self.error!r} must be below {min(self.prior, 1 - self.prior):g}: so often "
                f"errs who only knows prior={self.prior!r}, whatever the noise."
            )

    @property
    def goal(self) -> float:
        return 1 - self.error

    @property
    def floor(self) -> float:
        return 1 - min(self.prior, 1 - self.prior)

    def of(self, curve: PrivacyCurve) -> float:
        # The least of prior · fnr + (1 - prior) · fpr is prior (1 - delta(x)) at e^x = the odds
        # against; for odds below 1, where delta(x) = 1 - e^x + e^x delta(-x), with roles exchanged.
        less = min(self.prior, 1 - self.prior)
        odds = math.log((1 - less) / less)
        # delta falls: a smaller argument is on the safe side.
        delta = float(curve.delta(max(odds * (1 - CLOSED_FORM) - CLOSED_FORM, 0.0)))
        return 1 - less * (1 - delta)

    def in_words(self, reached: str) -> str:
        return f"with a prior of {self.prior:g}, no attack is right more often than {reached}"


def least_fnr(curve: PrivacyCurve, fpr: float) -> float:
    """A lower bound on the false-negative rate of every attack with this false-positive rate.

    For every epsilon >= 0 it is at least 1 - delta - e^epsilon fpr and (1 - delta - fpr)/e^epsilon.
    Both have one maximum (the first is concave in e^epsilon, the second in e^-epsilon), which is
    looked for between ever closer neighbours; every epsilon gives a valid bound.
    """
    if isinstance(curve, GDP | PureDP | ApproxDP):
        return curve.tradeoff(fpr)  # in closed form
    # Beyond these epsilons the first line is negative and the second close to 0.
    top = 1 + max(-math.log(fpr), -math.log1p(-fpr))
    epsilons: FloatArray = np.insert(np.geomspace(1e-3, top, _PROBES), 0, 0.0)
    best = 0.0
    for _ in range(_ROUNDS):
        lines = _lines(curve, epsilons, fpr)
        best = max(best, float(lines.max()))
        at, last = int(np.argmax(lines.max(axis=0))), len(epsilons) - 1
        low, high = float(epsilons[max(at - 1, 0)]), float(epsilons[min(at + 1, last)])
        epsilons = np.linspace(low, high, _FINE)
    return max(best * (1 - CLOSED_FORM), 0.0)


def _lines(curve: PrivacyCurve, epsilons: FloatArray, fpr: float) -> FloatArray:
    height, steep = 1 - up(curve.delta(epsilons)), np.exp(epsilons)
    return np.array([height - up(steep * fpr), (height - fpr) / up(steep)])
