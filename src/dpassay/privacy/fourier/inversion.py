"""From K on a line back to delta(x): a trapezoid sum whose errors all go upwards.

For c > 0, ∫ e^{θx} delta(x) dx = E e^{θL} / (θ(θ+1)) on θ = c + it, so that

    delta(x) = 1/2π ∫ f(t) dt,    f(t) = exp(K(θ) - θx) / (θ(θ+1)).

**Aliases.** By Poisson's summation formula the trapezoid sum of step h, h/2π Σ f(kh) over all
integers k, is Σ_j e^{cjΛ} delta(x + jΛ) with Λ = 2π/h. All terms are nonnegative and that of j = 0
is delta(x): for any c and h the sum is an upper bound. A bad choice costs tightness, not validity.

**Smoothing.** The composition with one more Gaussian release of mean shift m cannot have a smaller
delta (forget its output), and adds m²θ(θ+1)/2 to K. So |f(t)| <= exp(K(c) + m²(c(c+1) - t²)/2 - cx)
/ t², and what the sum leaves out from t_n on is at most
1/π exp(K(c) + m²(c(c+1) - t_{n-1}²)/2 - cx) / t_{n-1}. Gaussian releases among the events have
exactly this K and serve as smoothing too.

**Rounding.** K comes with a bound on its error (see :mod:`dpassay.privacy.fourier.transform`); the
exponent is rounded by 16u times its terms, exponentials and quotient by 64u, the sum, in blocks of
√n, by 4√n u. Each counts times the modulus of its term, and is added.

**Infinite losses.** What the laws leave at infinity, 1 - Π (1 - infinite)^count, is added: delta is
that plus the finite part's, whose K is of total mass below 1.

**From below.** The same sum, minus its errors, minus bounds on the aliases, is a lower bound on
delta of the smoothed losses at y; and (1 - e^{-u-v})⁺ <= (1 - e^-u)⁺ + (1 - e^-v)⁺ gives
delta(y - a) >= smoothed delta(y) - delta_m(a), with delta_m that of the smoothing Gaussian alone.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpassay._special.margins import ARITHMETIC, NUMERICAL, UNIT, up
from dpassay.privacy import gaussian as normal
from dpassay.privacy.fourier.transform import Parts, cumulant
from dpassay.types import FloatArray

_OVERFLOW = 700.0
_LEAST = 1e-300  # what underflow may hide


@dataclass(frozen=True)
class Grid:
    """What is free to choose: the line Re θ = c, the sum on it, and the smoothing m²."""

    c: float
    step: float
    n: int
    smoothing: float


class Line:
    """The integrand on one line: bounds on delta near the ``x`` that it was made for.

    ``gaussian`` is the sum of mu² of the Gaussian releases that come on top of ``parts``. Terms at
    the end of the sum that are below e^negligible altogether are left out, and their moduli added.
    """

    def __init__(
        self, parts: Parts, gaussian: float, grid: Grid, x: float, negligible: float
    ) -> None:
        self.grid, self._x, self._parts, self._gaussian = grid, x, parts, gaussian
        theta = grid.c + 1j * grid.step * np.arange(grid.n)
        square = theta * (theta + 1)
        smooth = (gaussian + grid.smoothing) / 2
        k, error = cumulant(parts, grid.c, grid.step, grid.n)
        exponent = k + smooth * square - theta * x
        # Large terms cancel in the exponent: its rounding is of their size, not of its own.
        error += 16 * UNIT * (np.abs(k) + np.abs(theta * x) + smooth * np.abs(square))
        weight = np.full(grid.n, grid.step / math.pi)
        weight[0] /= 2  # f(-t) is the conjugate of f(t): twice the real part, but once at 0
        log_modulus = exponent.real + np.log(weight / np.abs(square))
        # The upper end of every modulus, so that the tail that is left out is charged in full.
        sizes = np.exp(np.minimum(log_modulus + np.minimum(error, _OVERFLOW), _OVERFLOW))
        rest = np.cumsum(sizes[::-1])[::-1]
        kept = max(int(np.searchsorted(-rest, -math.exp(negligible))), 1)
        end = (grid.n - 1) * grid.step
        # Beyond the last node the Gaussian factor e^{-smooth t²} bounds the integral.
        self.cut = _exp(exponent[0].real + error[0] - smooth * end * end) / (math.pi * end)
        self.cut += up(float(rest[kept]), NUMERICAL) if kept < grid.n else 0.0
        self._theta = theta[:kept]
        if exponent.real.max() > _OVERFLOW:  # far from any x of use: the bound is infinite
            exponent, self.cut = exponent * 0, math.inf
        self._terms = np.exp(exponent[:kept]) * weight[:kept] / square[:kept]
        self._block = math.isqrt(kept) + 1
        self.rounding = self._bound_rounding(log_modulus[:kept], error[:kept])
        self.infinite = up(sum(n * law.infinite for law, n in parts), ARITHMETIC)

    def _bound_rounding(self, log_modulus: FloatArray, error: FloatArray) -> float:
        """What rounding may have done to the sum at x; K may be off by anything at tiny terms."""
        factor = np.expm1(np.minimum(error, 1.0)) + (4 * self._block + 64) * UNIT
        small = np.exp(np.minimum(log_modulus, _OVERFLOW)) * factor
        large = np.exp(np.minimum(log_modulus + error, _OVERFLOW))
        return up(float(np.where(error < 1, small, large).sum()), NUMERICAL)

    def delta(self, x: FloatArray) -> FloatArray:
        """An upper bound on delta at each x."""
        value, slack = self._sum(x)
        return up(value + slack, ARITHMETIC) + self.infinite + _LEAST

    def _sum(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The trapezoid sum at each x, and a bound on its rounding and on what it leaves out."""
        away = (x - self._x)[:, None]
        waves = np.exp(-away * self._theta) * self._terms
        # In blocks of about sqrt(n): a sum of n terms then errs by 2 sqrt(n) roundings, not by n.
        starts = np.arange(0, self._theta.size, self._block)
        value = np.add.reduceat(waves.real, starts, axis=1).sum(axis=1)
        turned = np.abs(waves * self._theta).sum(axis=1) * np.abs(away[:, 0]) * (16 * UNIT)
        # Errors were bounded at the x of the line; every term grows by e^{-c away} at another x.
        growth = np.exp(np.minimum(-self.grid.c * away[:, 0], _OVERFLOW))
        return value, up((self.rounding + self.cut) * growth, NUMERICAL) + turned

    def delta_lower(self, x: FloatArray) -> FloatArray:
        """A lower bound on delta at each x of the finite part, or 0."""
        value, slack = self._sum(x)
        if self.grid.smoothing == 0:
            return np.maximum(value - slack - self._aliases(x), 0.0)
        # The smoothing noise is not in the mechanism: it may have moved the loss by ``shift`` but
        # for a share of delta, so the value is taken that much farther out, less the share.
        shares = 1e-4 * np.maximum(value, 1e-300)
        shift = normal.epsilon_of(shares, np.float64(math.sqrt(self.grid.smoothing)))
        value, slack = self._sum(x + shift)
        return np.maximum(value - slack - self._aliases(x + shift) - up(shares, NUMERICAL), 0.0)

    def _aliases(self, x: FloatArray) -> FloatArray:
        """An upper bound on all terms of Σ_j e^{cjΛ} delta(x + jΛ) but that of j = 0.

        Those below are at most e^{-cΛ}, e^{-2cΛ}, ... For those above, delta(y) <= exp(K(d) - dy)
        with any d > c makes a geometric series as well.
        """
        span, c = 2 * math.pi / self.grid.step, self.grid.c
        total = self._gaussian + self.grid.smoothing
        largest = max(float(law.losses.max()) for law, _ in self._parts)
        best = np.full(x.shape, math.inf)
        for d in c * np.geomspace(1.1, 30.0, 24):
            if d * largest > _OVERFLOW / 2:  # the cumulant would overflow; larger d would too
                break
            k, error = cumulant(self._parts, d, self.grid.step, 1)
            log_k = k[0].real + error[0] + total / 2 * d * (d + 1)
            ratio = math.exp(-(d - c) * span)
            bound = np.exp(np.minimum(log_k - d * x, _OVERFLOW)) * ratio / (1 - ratio)
            best = np.minimum(best, bound)
        left = math.exp(-c * span)
        return up(best + left / (1 - left), NUMERICAL)


def chernoff(parts: Parts, gaussian: float, c: float, x: float) -> float:
    """An upper bound on delta(x): E e^{c(L - x)} max_y (1 - e^-y) e^{-cy}, and what is infinite.

    The maximum is c^c / (1+c)^(1+c), at e^y = 1 + 1/c.
    """
    k, error = cumulant(parts, c, 1.0, 1)
    log_bound = k[0].real + gaussian / 2 * c * (c + 1) - c * x
    log_bound += c * math.log(c) - (1 + c) * math.log1p(c)
    rounding = 64 * UNIT * (abs(k[0]) + (gaussian + 1) * (c + 1) ** 2 + c * abs(x))
    infinite = sum(n * law.infinite for law, n in parts)
    return _exp(log_bound + error[0] + rounding) + up(infinite, ARITHMETIC) + _LEAST


def _exp(x: float) -> float:
    return math.exp(min(x, _OVERFLOW))
