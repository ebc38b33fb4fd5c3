"""K(θ) = Σ n log E e^{θL} of composed discrete losses on a line in the complex plane.

**No cancellation.** By the two identities of :class:`~dpassay.privacy.fourier.laws.Law`,

    M(θ) - 1 = Σ p_j [(e^{θx_j} - 1 - θx_j) + θ (e^{-x_j} - 1 + x_j)] - infinite + θ drift,

whose terms are of second order in x: what is of order 1 and of order x has been summed exactly, by
hand. On the line θ = c + it, t = (m k + l) h with 0 <= l < m, write θ = θ_k + iτ_l and

    e^{θx} - 1 - θx = (e^{θ_k x} - 1 - θ_k x) + (e^{iτ_l x} - 1 - iτ_l x)
                      + (e^{θ_k x} - 1)(e^{iτ_l x} - 1):

two sums and one matrix product, all of second order again.

**Error of M.** With E = max(1, e^{cx}), |e^y - 1 - y| <= |y|² E/2 and |e^y - 1| <= |y| E; also
|θ_k|, τ_l <= |θ|. Let V = Σ p x² E, r = Σ p (e^-x - 1 + x), and n the number of nodes.

 - Rounding of terms: exp_remainder within 200u of |y|²E/2, products of two first-order factors
   (60u each), so below 400u |θ|²V and 100u |θ| r. The arguments θx were rounded (4u) and x itself
   has a relative error e: (e + 4u)(|θ|²V + |θ| Σ p |x (1 - e^-x)|).
 - Sums of n terms in any order: n u Σ|term|, complex products three times that: 4 n u |θ|²V.
 - Masses: Σ e_j (|θ|² x²E/2 + |θ|(e^-x - 1 + x)), with e_j the bound on the error of p_j.
 - ``infinite`` and ``drift``: 2 (1 + |θ|) drift_error.

**Error of K.** If the computed M is off by at most e_M, and ρ = e_M/|M|, then
|(M_true/M)^n - 1| <= (1 + ρ)^n - 1 whatever ρ is: e_K = n log1p(ρ). With m = a + ib = M - 1,
log M = log1p(2a + a² + b²)/2 + i atan2(b, 1 + a). (NumPy's complex log1p has an absolute error of
1e-16, which is all of it at 1e16 steps.) While |M| >= 1/2, the argument is rounded by
4u(2|m| + |m|²), of which the logarithm sees 1/|M|², and both functions add 16u of |log M|, which is
at most 4|m| and at most π + log1p|m|: below 64u [(|m| + |m|²)/|M|² + |m|/(1 + |m|) (4 + log1p|m|)].
Where |M| < 1/2 the modulus is taken of 1 + m itself: M moves by another 4u, and the logarithm is
within 40u(1 + |log|M||). A modulus below 1e-9 is put there, and M moves by as much.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpassay._special.margins import UNIT
from dpassay.privacy.fourier.laws import Law, exp_remainder
from dpassay.types import FloatArray

ComplexArray = NDArray[np.complex128]
Parts = Sequence[tuple[Law, int]]
_NOUGHT, _LARGE = 1e-9, 1e100  # least modulus of M; largest M that is worked with
_OVERFLOW = 690.0
_GROUPS = 200  # of nodes, where K need only be about right
_LEAST = 1e-80  # masses below are left out and counted as errors; denormal products are slow


def cut_cumulants(parts: Parts, c: FloatArray, tails: FloatArray) -> FloatArray:
    """K at real arguments c > 0, a row for each mass in ``tails`` that is cut off the whole sum.

    Estimates, for choosing: some neighbouring nodes are taken together, and each law loses what
    lies above its first node beyond which it has no more than an equal share of that mass. Infinite
    where M is too large to be of use.
    """
    steps = sum(n for _, n in parts)
    total = np.zeros((tails.size, c.size))
    for law, count in parts:
        x, p, bend, inverse = _thin(law)
        beyond = law.infinite + _sums_above(p)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = p * _quick_remainder(np.outer(c, x)) + np.outer(c, bend)
            drift = _sums_above(inverse) + law.drift + law.infinite - beyond
            m = np.cumsum(terms, axis=1) - beyond + np.outer(c, drift)
            last = np.minimum(np.searchsorted(-beyond, -tails / steps), x.size - 1)
            m = m[:, last].T
            top = np.where(last < x.size - 1, x[last], law.losses.max())
            m[np.multiply.outer(top, c) > _OVERFLOW] = np.inf
            total += float(count) * np.log1p(
                np.where(m < _LARGE, np.maximum(m, -1 + 1e-15), np.inf)
            )
    return total


def _thin(law: Law) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Losses and masses of a few hundred groups of nodes, their Σ p (e^-x - 1 + x) and Σ p e^-x."""
    order = np.argsort(law.losses)
    order = order[law.masses[order] > _LEAST]
    x, p, bend = law.losses[order], law.masses[order], law.curvature[order]
    starts = np.arange(0, x.size, x.size // _GROUPS + 1)
    mass = np.add.reduceat(p, starts)
    sums = (np.add.reduceat(p * values, starts) for values in (x, bend, np.exp(-x)))
    mean, bent, inverse = sums
    return mean / mass, mass, bent, inverse


def _sums_above(p: FloatArray) -> FloatArray:
    """The sum of the entries after each."""
    return np.append(np.cumsum(p[:0:-1])[::-1], 0.0)


def _quick_remainder(y: FloatArray) -> FloatArray:
    """e^y - 1 - y for real y, to a relative 1e-12."""
    series = y * y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5)))
    return np.where(np.abs(y) < 2e-3, series, np.expm1(y) - y)


def cumulant(parts: Parts, c: float, step: float, n: int) -> tuple[ComplexArray, FloatArray]:
    """K(c + i step k) for k < n, and bounds on the error that its exponential inherits.

    The exponential of the computed K is off by a factor 1 + z, |z| <= expm1(error).
    """
    total, error = np.zeros(n, complex), np.zeros(n)
    for law, count in parts:
        if c * float(law.losses.max()) > _OVERFLOW:
            return np.zeros(n, complex), np.full(n, np.inf)
        m, moved = _moment(law, c, step, n)
        log, log_error = _log1p(m, moved)
        total += float(count) * log
        # The count itself may be rounded, and the product is.
        error += float(count) * (log_error + 2 * UNIT * np.abs(log))
    return total, error


def _log1p(m: ComplexArray, moved: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """log(1 + m), and a bound on its error where m is off by at most ``moved``."""
    a, b = m.real, m.imag
    size, modulus = np.abs(m), np.maximum(np.abs(1 + m), _NOUGHT)
    inside = modulus < 0.5
    with np.errstate(divide="ignore"):
        near = 0.5 * np.log1p(np.maximum(2 * a + a * a + b * b, -1.0))
    log_modulus = np.where(inside, np.log(modulus), near)
    moved = moved + np.where(inside, 4 * UNIT + _NOUGHT * (modulus == _NOUGHT), 0.0)
    outside = (size + size**2) / modulus**2 + size / (1 + size) * (4 + np.log1p(size))
    rounding = np.where(inside, 40 * (1 - log_modulus), 64 * outside) * UNIT
    return log_modulus + 1j * np.arctan2(b, 1 + a), np.log1p(moved / modulus) + rounding


def _moment(law: Law, c: float, step: float, n: int) -> tuple[ComplexArray, FloatArray]:
    """M - 1 at c + i step k for k < n, and bounds on its error."""
    kept = law.masses > _LEAST
    x, p = law.losses[kept], law.masses[kept]
    block = 1 << math.ceil(math.log2(max(n, 4)) / 2)
    starts = c + 1j * step * block * np.arange(-(-n // block))
    y = np.outer(starts, x)
    remainder = exp_remainder(y)
    turn, turn_remainder = _turn(np.outer(step * np.arange(block), x))
    # Not by BLAS: on a busy machine its threads wait for each other longer than all this takes.
    growth = np.einsum("kx,lx->kl", p * (remainder + y), turn)
    growth += (p * remainder).sum(axis=1)[:, None] + (p * turn_remainder).sum(axis=1)
    theta = c + 1j * step * np.arange(n)
    bend = float(p @ law.curvature[kept])
    m = growth.ravel()[:n] + theta * (bend + law.drift) - law.infinite
    return m, _moment_error(law, c, np.abs(theta))


def _turn(y: FloatArray) -> tuple[ComplexArray, ComplexArray]:
    """e^{iy} - 1 and e^{iy} - 1 - iy, for real y, without cancelling near 0."""
    sine = np.sin(y)
    real = -2 * np.square(np.sin(y / 2))
    square = np.square(y)
    cubic = np.zeros_like(y)
    for k in (16, 14, 12, 10, 8, 6, 4, 2):
        cubic = (cubic + 1) * square / -(k * (k + 1))
    gap = np.where(np.abs(y) < 1, y * cubic, sine - y)
    return real + 1j * sine, real + 1j * gap


def _moment_error(law: Law, c: float, theta: FloatArray) -> FloatArray:
    x, p = law.losses, law.masses
    square = np.square(x) * np.exp(np.maximum(c * x, 0.0))
    errors = np.where(p > _LEAST, law.errors, law.errors + p)
    v, v_masses = float(p @ square), float(errors @ square)
    r, r_masses = float(p @ law.curvature), float(errors @ law.curvature)
    slope = float(p @ np.abs(x * np.expm1(-x)))
    unit = (4 * x.size + 400) * UNIT
    second = (unit + law.loss_error) * v + v_masses
    first = unit * r + (law.loss_error + 4 * UNIT) * slope + r_masses + 2 * law.drift_error
    # The sums here were rounded too, by far less than a hundredth.
    return 1.01 * (theta**2 * second + theta * first + 2 * law.drift_error)
