"""The privacy loss of one event on a grid: masses whose profile is never below the truth."""

import functools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dpassay._special.margins import CLOSED_FORM, UNIT, down, up
from dpassay._special.search import first_true
from dpassay.privacy.profiles import Profile
from dpassay.types import FloatArray

_LARGEST = 600.0  # larger losses count as infinite, since e^600 is near the largest float
TAIL = 1e-40  # mass beyond the largest loss of one event; counts as infinite loss
_MAX_SPREAD = 16  # cells that are taken together where a cumulant need only be bounded
_NODES = 240  # on either side of 0, from which width and variance of a loss are estimated


@dataclass(frozen=True, eq=False)
class LossPmf:
    """P(loss = (first + i) * interval) = probs[i], and ``infinite`` of the mass at infinity."""

    interval: float
    first: int
    probs: FloatArray
    infinite: float

    @cached_property
    def losses(self) -> FloatArray:
        """The finite losses, increasing."""
        return (self.first + np.arange(self.probs.size)) * self.interval

    def cumulant(self, tilt: float) -> float:
        """The logarithm of the sum of e^{tilt * loss} P(loss) over the finite losses."""
        weights, top = self._weights(tilt)
        return float(top + np.log(np.sum(weights)))

    def tilt_by(self, tilt: float) -> "LossPmf":
        """The finite part, reweighted by e^{tilt * loss} and normalised."""
        weights, _ = self._weights(tilt)
        return LossPmf(self.interval, self.first, weights / weights.sum(), 0.0)

    def _weights(self, tilt: float) -> tuple[FloatArray, float]:
        """The masses times e^{tilt * loss}, divided by the largest, and the log of that one.

        Exponents reach thousands, far beyond the largest float: so logarithms are added first, and
        only differences to the largest are exponentiated.
        """
        exponent = self._log_probs + tilt * self.losses
        top = float(exponent.max())
        return np.exp(exponent - top), top

    @cached_property
    def _log_probs(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.probs)

    @cached_property
    def spread(self) -> "LossPmf":
        """The finite part on a coarser grid, each mass shared by the two multiples next to it.

        Their mean is the loss, and e^{tilt * loss} is convex: cumulants are bounded from above, at
        a fraction of the cost.
        """
        blocks = np.sqrt(self.moments()[1]) / (4 * self.interval)
        k = int(np.clip(blocks, 1, _MAX_SPREAD))
        if k == 1:
            return self
        place, rest = np.divmod(self.first + np.arange(self.probs.size), k)
        shares = self.probs * (1 - rest / k), self.probs * (rest / k)
        masses = np.zeros(place[-1] - place[0] + 2)
        for i, share in enumerate(shares):
            masses[: place[-1] - place[0] + 1 + i][i:] += np.bincount(place - place[0], share)
        return LossPmf(self.interval * k, int(place[0]), masses, 0.0)

    def moments(self) -> tuple[float, float]:
        """Mean and variance of the finite part."""
        mass = self.probs.sum()
        if mass == 0:
            return 0.0, 0.0
        mean = float(self.probs @ self.losses / mass)
        return mean, float(self.probs @ np.square(self.losses - mean) / mass)


class Losses(Protocol):
    """The privacy losses of one event, in both directions, as a PLD takes them."""

    @property
    def is_symmetric(self) -> bool:
        """Whether adding a record is as removing one."""
        ...

    def discretise(self, add: bool, interval: float, tail: float) -> LossPmf:
        """Masses on a grid whose profile is not below the truth, but for a tail at infinity."""
        ...

    def scale(self, tail: float) -> tuple[float, float]:
        """The width of the losses but for a tail, and their variance, roughly."""
        ...


@dataclass(frozen=True, eq=False)
class ProfileLosses:
    """The losses of a pair of profiles (remove, add)."""

    remove: Profile
    add: Profile

    @property
    def is_symmetric(self) -> bool:
        return self.remove is self.add

    def discretise(self, add: bool, interval: float, tail: float) -> LossPmf:
        pair = (self.add, self.remove) if add else (self.remove, self.add)
        return discretise(*pair, interval, tail)

    def scale(self, tail: float) -> tuple[float, float]:
        return scale(self.remove, self.add, tail)


def support(profile: Profile, opposite: Profile, tail: float = TAIL) -> tuple[float, float]:
    """Losses beyond which either direction has no more mass than ``tail``."""
    return -_reach(opposite, tail), _reach(profile, tail)


@functools.lru_cache(maxsize=64)  # A grid asks for the same profiles several times.
def _reach(profile: Profile, tail: float) -> float:
    # Mass that is infinite anyway, as in (epsilon, delta).
    floor = float(profile(np.array([np.inf]))[0])
    top = np.array([_LARGEST])
    # A few halvings do: stopping early leaves the upper end, which is far enough.
    beyond = first_true(lambda x: profile(x) - floor <= tail, np.zeros(1), top, most=22, ahead=4)
    return float(beyond[0])


def discretise(profile: Profile, opposite: Profile, interval: float, tail: float = TAIL) -> LossPmf:
    """The smallest pmf on multiples of ``interval`` whose profile is not below the given one.

    Losses beyond which there is no more mass than ``tail`` count as infinite.
    """
    low, high = support(profile, opposite, tail)
    first, last = int(np.floor(low / interval)), int(np.ceil(high / interval))
    first, last = min(first, 0), max(last, 1)  # the split below 0 needs a node at 0
    x = np.arange(first, last + 1) * interval
    probs, infinite = _masses(profile, opposite, x, interval)
    return LossPmf(interval, first, probs, infinite)


def scale(profile: Profile, opposite: Profile, tail: float) -> tuple[float, float]:
    """The width of the losses but for a tail, and their variance, to one part in a hundred.

    By nodes as far apart as they are from 0: rare losses may be a million times the usual ones.
    """
    low, high = support(profile, opposite, tail)
    nodes = (np.geomspace(1e-9, 1.0, _NODES) * max(end, 1e-9) for end in (-low, high))
    below, above = nodes
    x = np.concatenate([-below[::-1], [0.0], above])
    probs, _ = _masses(profile, opposite, x, np.diff(x))
    mean = probs @ x
    return high - low, float(probs @ np.square(x - mean))


def _masses(
    profile: Profile, opposite: Profile, x: FloatArray, widths: Any
) -> tuple[FloatArray, float]:
    """Masses at the nodes x, 0 among them, and at infinity; the profile is sampled and joined.

    A pmf with masses p_j at losses x_j has the profile sum over x_j >= x of p_j (1 - e^{x - x_j}),
    linear in e^x between two nodes, where its value at e^x = 0 is the tail P(loss >= x_i). So from
    the values H of a profile at two nodes a width w apart

        tail_i = H_i + (H_{i-1} - H_i) / (1 - e^-w),

    larger if H_{i-1} is and if H_i is smaller: each is taken at that end of its bracket. Below zero
    a profile is 1 - e^x plus a small rest, e^x times the opposite direction's profile at -x, and
    the linear part adds exactly 1 to the tail. Tails are made monotone by raising the smaller
    losses', so that mass moves to larger losses only; no mass is dropped and none is rescaled.
    """
    zero = int(np.searchsorted(x, 0.0))
    below, above = opposite.bracket(-x[:zero], 0.0), profile.bracket(x[zero:], 0.0)
    s = np.exp(x[:zero])
    low = np.concatenate([down(s * below[0]), above[0]])
    high = np.concatenate([up(s * below[1]), above[1]])
    infinite = float(high[-1])
    fall = (high[:-1] - low[1:]) / -np.expm1(-np.broadcast_to(widths, x.size - 1))
    # Rounding: of the quotient, upwards whatever its sign; of the sum with 1.
    tails = low[1:] + fall + CLOSED_FORM * (low[1:] + np.abs(fall))
    tails[:zero] += 1 + 4 * UNIT
    tails = np.append(np.insert(tails, 0, 1.0), infinite)
    # From the largest loss downwards: raising a smaller loss's tail can only raise the profile.
    tails = np.minimum(np.maximum.accumulate(tails[::-1])[::-1], 1.0)
    tails[0] = 1.0
    return tails[:-1] - tails[1:], infinite
