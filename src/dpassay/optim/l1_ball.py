"""The minimum of a smooth convex function on an l1 ball, without privacy: what to compare with."""

import math
from typing import Protocol

import numpy as np

from dpassay import _check
from dpassay.optim.frank_wolfe import Objective, nonprivate_gap
from dpassay.optim.polytopes import L1Ball
from dpassay.types import FloatArray

_LOOK_EVERY = 10


class Valued(Objective, Protocol):
    """An objective that knows its value too."""

    def value(self, w: FloatArray) -> float: ...


def project_l1(w: FloatArray, radius: float) -> FloatArray:
    """The point of {v: ||v||_1 <= radius} nearest to w in the l2 norm.

    w shrunk towards 0 by the one threshold that meets the radius, from the sorted magnitudes (Duchi
    et al. 2008).

    >>> project_l1(np.array([3.0, -1.0]), 2.0)
    array([ 2., -0.])

    """
    sizes = np.abs(w)
    if sizes.sum() <= radius:
        return w
    falling = np.sort(sizes)[::-1]
    excess = np.cumsum(falling) - radius
    count = np.arange(1, len(falling) + 1)
    last = np.flatnonzero(falling * count > excess)[-1]
    return np.sign(w) * np.maximum(sizes - excess[last] / (last + 1), 0)


def minimise_on_l1_ball(
    objective: Valued,
    dimension: int,
    radius: float,
    *,
    tolerance: float = 1e-9,
    max_steps: int = 20_000,
) -> FloatArray:
    """A point of the l1 ball within ``tolerance`` (relative) of the minimum; not private.

    Accelerated projected gradient (Beck and Teboulle 2009) with backtracking and restarts where
    momentum points uphill. The Frank-Wolfe gap, an upper bound on the excess, ends it.

    Args:
        objective: value and gradient.
        dimension: the length of w.
        radius: the radius of the ball.
        tolerance: of the gap, relative to the objective's value at 0 (or 1, if that is less).
        max_steps: an end, whether the tolerance was reached or not.

    """
    ball = L1Ball(dimension, _check.number("radius", radius, low=0, low_open=True))
    w = z = ball.start()
    small, smoothness, t = tolerance * max(objective.value(w), 1e-300), 1e-3, 1.0
    for k in range(max_steps):
        if k % _LOOK_EVERY == 0 and nonprivate_gap(objective, ball, w) <= small:
            break
        gradient, value = objective.gradient(z), objective.value(z)
        while True:
            after = project_l1(z - gradient / smoothness, radius)
            step = after - z
            model = value + gradient @ step + smoothness / 2 * (step @ step)
            if objective.value(after) <= model + 1e-15 * abs(value):
                break
            smoothness *= 2
        following = (1 + math.sqrt(1 + 4 * t * t)) / 2
        if (z - after) @ (after - w) > 0:
            following = t = 1.0
        z = after + (t - 1) / following * (after - w)
        w, t = after, following
    return w
