"""Trade-off functions as in f-DP (Dong, Roth and Su 2022).

A trade-off function f maps a false-positive rate to the least false-negative rate of any test. It
is convex, non-increasing and at most 1 - x; it carries the same information as delta(epsilon):

    delta(epsilon) = 1 + f*(-e^epsilon) = max over x of 1 - f(x) - e^epsilon x,      f symmetric,
    f(x) = sup over epsilon >= 0 of max(1 - delta - e^epsilon x, e^-epsilon (1 - delta - x), 0).

Functions here are sampled on a grid and are convex piecewise linear between its points: a
:class:`Tradeoff`. Sampling a convex function and joining the dots lies *above* it, which would
understate the privacy loss; where that matters (:func:`supporting_lines`) supporting lines,
which lie below, are used instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._special.margins import CLOSED_FORM
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

_CHUNK = 2_000_000


@dataclass(frozen=True, eq=False)
class Lines:
    """The upper envelope of lines, by increasing slope; each is the largest between two breaks."""

    slope: FloatArray
    intercept: FloatArray

    @classmethod
    def envelope(cls, slope: FloatArray, intercept: FloatArray) -> "Lines":
        """Only those of the lines that are the largest somewhere."""
        order = np.lexsort((intercept, slope))
        slope, intercept = slope[order], intercept[order]
        last = np.append(np.diff(slope) > 0, True)  # of parallel lines the highest
        slope, intercept = slope[last], intercept[last]
        keep = _lower_hull(slope, -intercept)  # points of the dual plane
        return cls(slope[keep], intercept[keep])

    def __call__(self, x: FloatArray) -> FloatArray:
        """The largest of the lines at each x, rounded down: it is a lower bound on error rates."""
        breaks = -np.diff(self.intercept) / np.diff(self.slope)
        k = np.searchsorted(breaks, x)
        base, fall = self.intercept[k], self.slope[k] * x
        # Where a steep line meets 0 it is a difference of two numbers near 1, whose own rounding
        # (1 - delta, e^epsilon) counts in full.
        return base + fall - CLOSED_FORM * (np.abs(base) + np.abs(fall))


def supporting_lines(delta: Callable[[FloatArray], FloatArray], n_lines: int = 3000) -> Lines:
    """Lines that the trade-off function of a privacy curve lies above, two for each epsilon.

    Any set of them is valid; ``n_lines`` only sets how close the envelope comes.
    """
    epsilon = _epsilon_grid(delta, n_lines)
    height, steep = 1 - delta(epsilon), np.exp(epsilon)
    return Lines.envelope(
        np.concatenate([-steep, -1 / steep, [0.0]]),
        np.concatenate([height, height / steep, [0.0]]),
    )


def _epsilon_grid(delta: Callable[[FloatArray], FloatArray], n_lines: int) -> FloatArray:
    """Dense from 0 to where delta has fallen to its floor, and a few steeper lines beyond."""
    probe = np.concatenate([[0], np.geomspace(1e-9, 300.0, 200)])
    values = delta(probe)
    top = max(float(probe[np.argmax(values <= values[-1] + 1e-16)]), 1e-9)
    half = n_lines // 2
    fine = [np.linspace(0, top, half), np.geomspace(top * 1e-6, top, half)]
    return np.unique(np.concatenate([*fine, np.linspace(top, 300.0, 100)]))


def _upper_envelope(intercept: FloatArray, slope: FloatArray, x: FloatArray) -> FloatArray:
    """The maximum over lines at each x; memory stays bounded."""
    step = max(1, _CHUNK // max(intercept.size, 1))
    parts = [
        (intercept + slope * x[i : i + step, None]).max(axis=1) for i in range(0, x.size, step)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """A convex, non-increasing trade-off function, piecewise linear through (fpr, fnr)."""

    fpr: FloatArray
    fnr: FloatArray

    def __post_init__(self) -> None:
        fpr = _check.array("fpr", self.fpr, low=0, high=1, ndim=1, empty=False)
        fnr = _check.array("fnr", self.fnr, low=0, high=1, ndim=1)
        if fpr.shape != fnr.shape or fpr.size < 2:
            raise InvalidArgument(
                f"fnr has {fnr.size} entries for {fpr.size} of fpr; give as many, at least two."
            )
        if np.any(np.diff(fpr) <= 0) or fpr[0] != 0 or fpr[-1] != 1:
            raise InvalidArgument("fpr must increase from 0 to 1. Sort it and add its end points.")
        object.__setattr__(self, "fpr", fpr)
        object.__setattr__(self, "fnr", fnr)

    def __call__(self, fpr: ArrayLike) -> FloatArray:
        """The false-negative rate at each false-positive rate."""
        return np.interp(_check.array("fpr", fpr, low=0, high=1), self.fpr, self.fnr)

    @classmethod
    def sample(cls, function: Callable[[FloatArray], FloatArray], points: int = 4001) -> "Tradeoff":
        """The function on a grid that is fine near 0 and near 1."""
        ramp = np.geomspace(1e-12, 0.5, points // 2)
        fpr = np.unique(np.concatenate([[0], ramp, 1 - ramp, np.linspace(0, 1, points), [1]]))
        return cls(fpr, np.clip(function(fpr), 0, 1))

    def convexify(self) -> "Tradeoff":
        """The double conjugate f**: the largest convex function below this one."""
        keep = _lower_hull(self.fpr, self.fnr)
        return Tradeoff(self.fpr[keep], self.fnr[keep])

    def inverse(self) -> "Tradeoff":
        """The trade-off with the two hypotheses exchanged: f^-1(y) = inf{x : f(x) <= y}."""
        # From right to left; of points with equal fnr the leftmost is the infimum.
        fnr, first = np.unique(self.fnr, return_index=True)
        inverse = self.fpr[first]
        if fnr[0] > 0:
            fnr, inverse = np.concatenate([[0], fnr]), np.concatenate([[1], inverse])
        if fnr[-1] < 1:
            fnr, inverse = np.concatenate([fnr, [1]]), np.concatenate([inverse, [0]])
        return Tradeoff(fnr, inverse)

    def minimum(self, other: "Tradeoff") -> "Tradeoff":
        """The smaller of two, at every rate (crossings included), not convexified."""
        fpr = np.union1d(self.fpr, other.fpr)
        a, b = self(fpr), other(fpr)
        gap = a - b
        i = np.flatnonzero(gap[:-1] * gap[1:] < 0)
        cross = fpr[i] + (fpr[i + 1] - fpr[i]) * gap[i] / (gap[i] - gap[i + 1])
        fpr = np.union1d(fpr, cross)
        return Tradeoff(fpr, np.minimum(self(fpr), other(fpr)))

    def symmetrise(self) -> "Tradeoff":
        """min(f, f^-1)**: what holds for both orders of a neighbouring pair."""
        return self.minimum(self.inverse()).convexify()

    def subsample(self, sampling_rate: float) -> "Tradeoff":
        """C_p(f) = min(f_p, f_p^-1)** with f_p(x) = p f(x) + (1-p)(1-x).

        Subsampling without replacement under replace-one (Dong, Roth and Su 2022, theorem 4.2).
        """
        return self.mix(sampling_rate).symmetrise()

    def mix(self, sampling_rate: float) -> "Tradeoff":
        """f_p(x) = p f(x) + (1-p)(1-x): subsampling, one direction, before convexification."""
        p = _check.sampling_rate(sampling_rate)
        return Tradeoff(self.fpr, p * self.fnr + (1 - p) * (1 - self.fpr))

    def conjugate(self, slope: ArrayLike) -> FloatArray:
        """f*(s) = max over x of s x - f(x)."""
        return _upper_envelope(-self.fnr, self.fpr, np.asarray(slope, float).ravel()).reshape(
            np.shape(slope)
        )

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """delta(epsilon) = 1 + f*(-e^epsilon), the larger of the two directions."""
        x = _check.array("epsilon", epsilon, low=0)
        # The other direction is the conjugate of the inverse, taken at the same slope.
        one, other = self.conjugate(-np.exp(x)), self.inverse().conjugate(-np.exp(x))
        return np.clip(1 + np.maximum(one, other), 0, 1)


def _lower_hull(x: FloatArray, y: FloatArray) -> list[int]:
    """Indices of the lower convex hull of points sorted by x (Andrew's monotone chain)."""
    hull: list[int] = []
    for i in range(x.size):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull
