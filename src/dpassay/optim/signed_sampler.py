"""The exponential mechanism over pairs of opposite candidates, in about √n operations a draw.

Candidates are (j, +1) and (j, -1) for j < n, with weights e^(x_j) and e^(-x_j): the vertices of an
l1 ball. The sampler holds upper bounds m_j >= |x_j| and, for groups of about √n neighbours, upper
bounds on the groups' sums of 2 cosh(m_j). A draw takes a group in proportion to its bound, a member
in proportion to 2 cosh(m_j) or none for what the group's bound has in excess, and a sign in
proportion to e^(±x_j) or none for what 2 cosh(m_j) has in excess; at "none" it starts again. An
attempt so ends in (j, sign) with probability e^(sign x_j)/(sum of all bounds), whatever the bounds
are: *the distribution is exactly that of the exponential mechanism*, and bounds that are too large
cost time only. That is why a group's bound need not fall when its members do, why rounding may be
padded upward, and why bounds may serve for a while in which the x_j drift. A group whose bound
turns out too large when it is visited gets its sum.

Weights are kept relative to a reference exponent. They are built anew, from the m_j, before they
overflow and when nothing but underflow is left.
"""

import math
from collections.abc import Callable

import numpy as np

from dpassay.types import FloatArray

_PAD = 2e-12  # relative; above the rounding of a sum of a group
_LARGEST, _SMALLEST = 1e200, 1e-200
_MANY_LOOSE = 4  # groups found too large in one draw: then all are added up again


class SignedSampler:
    """Draws (j, sign) with probability proportional to e^(sign x_j), from bounds on |x_j|."""

    def __init__(self, bounds: FloatArray) -> None:
        self._n = len(bounds)
        self._shift = max(round(math.log2(self._n) / 2), 0)
        self._width = 1 << self._shift
        self._n_groups = -(-self._n // self._width)
        self._weights = np.zeros(self._n_groups * self._width)
        self.reset(bounds)

    def reset(self, bounds: FloatArray) -> None:
        """Take new bounds on every |x_j|."""
        self._bounds = np.array(bounds, dtype=np.float64)
        self._rebuild()

    def update(self, indices: FloatArray, bounds: FloatArray) -> None:
        """Take new bounds on |x_j| for some j, which may repeat (with the same bound).

        A group's bound rises by what its members rise, repeats included; falls are left to later.
        The sums have no negative terms, so that the pad covers their rounding up to 10^4 terms.
        """
        self._bounds[indices] = bounds
        weights = self._weigh(bounds)
        if weights.size and not weights.max() < _LARGEST:
            return self._rebuild()
        rises = np.maximum(weights - self._weights[indices], 0)
        self._weights[indices] = weights
        self._sums += np.bincount(indices >> self._shift, rises, minlength=self._n_groups)
        self._sums *= 1 + _PAD
        return None

    def draw(
        self, generator: np.random.Generator, exponent: Callable[[int], float], attempts: int = 1000
    ) -> tuple[int, int] | None:
        """One candidate (j, sign); ``exponent(j)`` is x_j, within its bound.

        None if no attempt succeeded: then the bounds are too loose. To try again after that, with
        other bounds, leaves the distribution as it is.
        """
        loose = 0
        for _ in range(attempts):
            u, v, z = generator.random(3)
            total = np.cumsum(self._sums)
            if not total[-1] > _SMALLEST:
                self._rebuild()
                continue
            group = min(int(total.searchsorted(u * total[-1], side="right")), self._n_groups - 1)
            first = group << self._shift
            inside = np.cumsum(self._weights[first : first + self._width])
            v *= self._sums[group]
            if v >= inside[-1]:
                self._sums[group] = inside[-1] * (1 + _PAD)
                loose += 1
                if loose == _MANY_LOOSE:
                    self._add_up()
                continue
            j = first + int(inside.searchsorted(v, side="right"))
            sign = self._sign(j, exponent(j), z)
            if sign:
                return j, sign
        return None

    def _sign(self, j: int, x: float, z: float) -> int:
        """+1, -1, or 0 for a rejection, in proportion to e^x, e^-x and the rest of 2 cosh(m_j)."""
        m = self._bounds[j]
        z *= 1 + math.exp(-2 * m)  # all relative to e^m
        plus = math.exp(x - m)
        if z < plus:
            return 1
        return -1 if z < plus + math.exp(-x - m) else 0

    def _weigh(self, bounds: FloatArray) -> FloatArray:
        """2 cosh(bounds) relative to the reference."""
        weights = np.exp(np.minimum(bounds - self._reference, 700.0))  # above _LARGEST
        weights += np.exp(-self._reference - bounds)
        return weights

    def _rebuild(self) -> None:
        self._reference = float(self._bounds.max())
        self._weights[: self._n] = self._weigh(self._bounds)
        self._add_up()

    def _add_up(self) -> None:
        self._sums = self._weights.reshape(self._n_groups, self._width).sum(axis=1) * (1 + _PAD)
