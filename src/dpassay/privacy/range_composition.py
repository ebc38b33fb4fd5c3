"""The adaptive composition of exponential mechanisms, by value iteration.

The loss of an exponential mechanism lies in an interval [t - e, t] that the adversary chooses after
each answer (Dong, Durfee and Rogers 2020). The extreme law has two points: t with probability
p_t = (1 - e^{t-e})/(1 - e^-e), else t - e; every other law in the interval with E e^-L = 1 comes
from it by moves that lower the profile. The profile of a sequence is the expected profile of the
rest at x - L, so that

    V_0(x) = (1 - e^x)⁺,
    V_k(x) = max over t in [0, e] of p_t V_{k-1}(x - t) + (1 - p_t) V_{k-1}(x - t + e)

is the exact profile of k adaptive answers. Here it is computed on multiples of h = e/m, from above:
V_{k-1} is convex in e^x, so that between nodes it lies below its chords, which are linear in
y = e^-t. p_t = A - B/y, so that on a cell from y' to y'' the objective is a + b y + c/y: for c >= 0
it is largest at an end; for c < 0 it is concave and exceeds its larger end by at most w²/8 times
its largest second derivative, that is -c w²/(4 y'³), w = y'' - y'.
"""

import math
from functools import lru_cache

import numpy as np

from dpassay._special.margins import UNIT
from dpassay.types import FloatArray

_CELLS = 1 << 25  # of all tables together, about half a second
_FINEST, _COARSEST = 160, 6  # steps of the grid within one epsilon


MOST_ANSWERS = int(math.sqrt(_CELLS / 2) / _COARSEST)
"""How many answers can be composed: those of which the coarsest table has so many cells."""
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-5, 20.0
"""Of one answer. Below, p_t is all rounding; beyond, a cell of the coarsest grid is so wide that
nothing is gained."""


@lru_cache(maxsize=64)
def compose(epsilon: float, count: int) -> tuple[float, FloatArray]:
    """The interval of a grid from -count·epsilon to count·epsilon, and the profile at its nodes.

    Each is an upper bound. The cost is (count · m)², for which m is chosen.
    """
    m = int(np.clip(math.sqrt(_CELLS / 2) / count, _COARSEST, _FINEST))
    h = epsilon / m
    nodes = np.arange(-(count + 1) * m, (count + 1) * m + 1)
    start = -np.expm1(np.minimum(nodes * h, 0.0))
    value = start
    for done in range(count):
        value = _step(value, epsilon, m)
        # Nobody's loss is as far as the margin of the table: there the profile is known.
        value[: (count - done) * m] = start[: (count - done) * m]
    return h, value[m:-m]


def _step(value: FloatArray, epsilon: float, m: int) -> FloatArray:
    """One answer more: the table of V_k from that of V_{k-1}, rounded up."""
    h = epsilon / m
    a, b = 1 / -math.expm1(-epsilon), 1 / math.expm1(epsilon)
    y = np.exp(-h * np.arange(m + 1))
    p = np.maximum(a - b / y, 0.0)
    p[-1] = 0.0
    size = value.size
    padded = np.concatenate([-np.expm1(h * (np.arange(-m, 0) - size // 2)), value, np.zeros(m)])

    def at(shift: int) -> FloatArray:
        """V_{k-1} at x - shift·h, for every x of the table."""
        return padded[m - shift : m - shift + size]

    best, end = np.zeros(size), p[0] * at(0) + (1 - p[0]) * at(-m)
    first, third = at(0), at(-m)
    for i in range(m):
        second, fourth = at(i + 1), at(i + 1 - m)
        following = p[i + 1] * second + (1 - p[i + 1]) * fourth
        width = y[i] - y[i + 1]
        # The chords' values at y = 0, one less the other: c over B.
        bent = np.minimum(third - first + (y[i] / width) * (first - second - third + fourth), 0.0)
        inside = bent * (-b * width**2 / (4 * y[i + 1] ** 3))
        np.maximum(best, np.maximum(end, following) + inside, out=best)
        first, third, end = second, fourth, following
    # Each value is a sum of a few products; p errs by a few units relative to a.
    return np.minimum(best * (1 + 32 * UNIT) + 64 * UNIT * a * at(m), 1.0)


def delta(epsilon: float, count: int, x: FloatArray) -> FloatArray:
    """An upper bound on the profile at x >= 0: between nodes, by chords in e^x."""
    h, value = compose(epsilon, count)
    middle = value.size // 2
    beyond = x >= count * epsilon * (1 + 8 * UNIT)
    x = np.where(beyond, 0.0, x)
    low = np.clip(np.floor(x / h).astype(np.int64), 0, middle - 1)
    left, right = value[middle + low], value[middle + low + 1]
    share = np.expm1(np.minimum(x - low * h, h)) / math.expm1(h)
    # The place within a cell is a difference of numbers of the size of x.
    share = np.clip(share - 8 * UNIT * (1 + x / h), 0.0, 1.0)
    return np.where(beyond, 0.0, np.minimum(left * (1 - share) + right * share, 1.0))
