"""The curve of composed sampled Gaussians by inversion of their characteristic function."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpassay.errors import UnsupportedEvent
from dpassay.privacy.curves import Curve
from dpassay.privacy.fourier.direction import Direction
from dpassay.privacy.fourier.laws import SampledGaussian
from dpassay.privacy.fourier.transform import Parts
from dpassay.privacy.tradeoff import Lines, supporting_lines
from dpassay.types import FloatArray, Kind

_NEGLIGIBLE = 1e-12  # a delta that cannot be seen in a trade-off function
_FARTHEST = 1e100  # the largest epsilon that a line is asked at
Steps = Sequence[tuple[float, float, int]]


@dataclass(frozen=True, repr=False, eq=False)
class Fourier(Curve):
    """Sampled Gaussian releases, composed: an upper bound within about 1e-4 of epsilon.

    One direction for each way in which neighbours can differ; ``below`` bounds the same directions
    from below, for :meth:`delta_lower`. Made by :func:`price_gaussians`.
    """

    directions: tuple[Direction, ...]
    below: tuple[Direction, ...] = ()
    steps: int = 1
    kind: Kind = field(default="upper bound", kw_only=True)

    def __repr__(self) -> str:
        return f"Fourier({self.steps} composed)"

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        result = np.zeros_like(epsilon)  # Gaussian noise has no infinite losses
        finite = np.flatnonzero(np.isfinite(epsilon))
        # delta falls: what holds at a smaller epsilon holds here, and products do not overflow.
        x = np.minimum(epsilon[finite], _FARTHEST)
        for direction in self.directions if finite.size else ():
            result[finite] = direction.raise_to_bound(result[finite], x)
        return result

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        values = {d: self._epsilon_at(d) for d in np.unique(delta).tolist()}
        return np.array([values[d] for d in delta.tolist()])

    def _epsilon_at(self, delta: float) -> float:
        """The largest of the directions' epsilons; the first is most often that of both."""
        if delta <= 0 or delta >= 1:
            return math.inf if delta <= 0 else 0.0
        first, *others = self.directions
        result = first.epsilon(delta)
        for direction in others if math.isfinite(result) else ():
            if not direction.raise_to_bound(np.array([delta]), np.array([result]))[0] <= delta:
                result = max(result, direction.epsilon(delta))
        return result

    @functools.cached_property
    def _lines(self) -> Lines:
        # Beyond this epsilon delta counts as if it fell no further: few rungs are needed then.
        far = self._epsilon(np.array([_NEGLIGIBLE]))
        return supporting_lines(lambda x: self._delta(np.minimum(x, far)))

    def delta_lower(self, epsilon: float) -> float:
        """A lower bound on the true delta, from each cell of outputs collapsed into one."""
        if not self.below:
            raise UnsupportedEvent(f"{self!r} has no lower bound; only add-remove steps have one.")
        return max(direction.delta_lower(epsilon) for direction in self.below)


def price_gaussians(steps: Steps, gaussian: float = 0.0, *, replace: bool = False) -> Fourier:
    """The curve of Gaussian releases on samples: an upper bound.

    Args:
        steps: noise multiplier, sampling rate in (0, 1) and number of releases, of each kind.
        gaussian: the sum of 1/noise_multiplier² over releases that use all records.
        replace: samples of a fixed size under replace-one; else Poisson sampling under add-remove.

    """
    cells = [(SampledGaussian(noise, rate), count) for noise, rate, count in steps]
    total = sum(count for _, count in cells)

    def every(law: str, **options: bool) -> Callable[[float], Parts]:
        return lambda tail: [(getattr(c, law)(tail / total, **options), n) for c, n in cells]

    if replace:
        return Fourier((Direction(every("replace"), gaussian),), steps=total)
    upper = (
        Direction(every("remove"), gaussian),
        Direction(every("add"), gaussian),
    )
    lower = (
        Direction(every("collapse"), gaussian, lower=True),
        Direction(every("collapse", add=True), gaussian, lower=True),
    )
    return Fourier(upper, lower, steps=total)
