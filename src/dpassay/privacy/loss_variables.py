"""The privacy-loss random variable L = log P(t)/Q(t), t drawn from P.

(epsilon, delta)-DP holds if P(L >= epsilon) <= delta, but not only then: the exact delta is
E(1 - e^{epsilon - L})⁺, which is smaller. Each loss here offers both, ``delta`` and
``delta_tail_bound``, because the two are often taken for each other. (For mu = 1 and epsilon = 1
they are 0.127 and 0.309.)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from dpassay.privacy.curves import PLD
from dpassay.types import FloatArray


@dataclass(frozen=True)
class GaussianLoss:
    """The loss of N(mu, 1) against N(0, 1): normal with mean mu²/2 and variance mu². Exact.

    >>> loss = GaussianLoss(1.0)
    >>> float(loss.delta(1.0)), float(loss.delta_tail_bound(1.0))
    (0.126937, 0.308538)

    """

    mu: float

    def __post_init__(self) -> None:
        remedy = "It is the shift over the deviation of the noise."
        _check.number("mu", self.mu, low=0, low_open=True, remedy=remedy)

    def _standard(self, loss: ArrayLike) -> FloatArray:
        return (_check.array("loss", loss) - self.mu**2 / 2) / self.mu

    def density(self, loss: ArrayLike) -> FloatArray:
        """The density of the privacy loss, which is normal."""
        return np.exp(-np.square(self._standard(loss)) / 2) / (math.sqrt(2 * math.pi) * self.mu)

    def cdf(self, loss: ArrayLike) -> FloatArray:
        """P(L <= loss)."""
        return special.ndtr(self._standard(loss))

    def mean(self) -> float:
        """The Kullback-Leibler divergence, mu²/2."""
        return self.mu**2 / 2

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """The exact delta at each epsilon."""
        return gaussian.delta_of(_check.array("epsilon", epsilon, low=0), np.float64(self.mu))

    def delta_tail_bound(self, epsilon: ArrayLike) -> FloatArray:
        """P(L >= epsilon), an upper bound on delta."""
        return special.ndtr(-self._standard(_check.array("epsilon", epsilon, low=0)))


@dataclass(frozen=True)
class LaplaceLoss:
    """The loss of two Laplace distributions one sensitivity apart, of scale 1/epsilon. Exact.

    It is epsilon with probability 1/2, -epsilon with probability e^-epsilon/2, and has density
    e^{(l - epsilon)/2}/4 in between.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _check.epsilon(self.epsilon, finite=True, positive=True)

    def density(self, loss: ArrayLike) -> FloatArray:
        """The density between the two atoms at ±epsilon."""
        x = _check.array("loss", loss)
        return np.where(np.abs(x) < self.epsilon, np.exp((x - self.epsilon) / 2) / 4, 0.0)

    def cdf(self, loss: ArrayLike) -> FloatArray:
        """P(L <= loss): e^{(l - epsilon)/2}/2 between the atoms."""
        x = _check.array("loss", loss)
        inside = np.exp((np.minimum(x, self.epsilon) - self.epsilon) / 2) / 2
        return np.where(x < -self.epsilon, 0.0, np.where(x >= self.epsilon, 1.0, inside))

    def mean(self) -> float:
        """KL = epsilon + e^-epsilon - 1, about epsilon²/2."""
        return self.epsilon + math.expm1(-self.epsilon)

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """The exact delta at each epsilon: 1 - e^{(x - epsilon)/2}."""
        x = _check.array("epsilon", epsilon, low=0)
        return -np.expm1(np.minimum(x - self.epsilon, 0.0) / 2)

    def delta_tail_bound(self, epsilon: ArrayLike) -> FloatArray:
        """P(L >= epsilon), an upper bound on delta."""
        x = _check.array("epsilon", epsilon, low=0)
        return np.where(
            x > self.epsilon, 0.0, 1 - np.exp((np.minimum(x, self.epsilon) - self.epsilon) / 2) / 2
        )


def _check_pld(curve: Any) -> PLD:
    if not isinstance(curve, PLD):
        raise InvalidArgument(f"curve={curve!r} must be a PLD, from account(event, 'pld').")
    return curve


class DiscreteLoss:
    """The loss of a PLD, in one direction: a pmf on its grid, rounded upwards.

    The density is that of mass per interval; mean, tails and delta err upwards.
    """

    def __init__(self, curve: PLD, direction: int = 0) -> None:
        curve = _check_pld(curve)
        high = len(curve.directions) - 1
        remedy = "0 is removing a record, 1 adding one where that differs."
        which = _check.count("direction", direction, low=0, high=high, remedy=remedy)
        self._composition = curve.directions[which]
        self._pmf = self._composition.pmf()
        self._below = np.insert(np.cumsum(self._pmf.probs), 0, 0.0)

    def _cell(self, loss: ArrayLike) -> FloatArray:
        x = _check.array("loss", loss)
        return np.floor(x / self._pmf.interval + 1e-9).astype(np.int64) - self._pmf.first

    def density(self, loss: ArrayLike) -> FloatArray:
        """Mass per interval at each loss."""
        cell = self._cell(loss)
        inside = (cell >= 0) & (cell < self._pmf.probs.size)
        mass = self._pmf.probs[np.clip(cell, 0, self._pmf.probs.size - 1)]
        return np.where(inside, mass / self._pmf.interval, 0.0)

    def cdf(self, loss: ArrayLike) -> FloatArray:
        """P(L <= loss); infinite losses never count."""
        return self._below[np.clip(self._cell(loss) + 1, 0, self._pmf.probs.size)]

    def mean(self) -> float:
        """KL; infinite where mass lies at infinity beyond what was cut off by discretising."""
        return self._pmf.moments()[0] if self._pmf.infinite < 1e-30 else math.inf

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """An upper bound on delta in this direction at each epsilon."""
        x = _check.array("epsilon", epsilon, low=0)
        return self._composition.delta(np.atleast_1d(x).ravel()).reshape(x.shape)

    def delta_tail_bound(self, epsilon: ArrayLike) -> FloatArray:
        """P(L >= epsilon), an upper bound on delta."""
        x = _check.array("epsilon", epsilon, low=0)
        cell = np.ceil(x / self._pmf.interval - 1e-9).astype(np.int64) - self._pmf.first
        tail = self._below[-1] - self._below[np.clip(cell, 0, self._pmf.probs.size)]
        return np.minimum(tail + self._pmf.infinite, 1.0)
