"""Noise for released values: which lattice, how much noise on it, and why the event is true.

Let s be the noise multiplier of the event and D the sensitivity. The value x, of d entries, is
rounded to the lattice of all multiples of g, a power of two about 2^-46 times the noise s·D. Then
g·Z is added in every entry, with integers Z of scale t drawn by :mod:`~dpassay.mechanisms.lattice`.
The sum is rounded to a float only then. What comes out is a function of the lattice point rint(x/g)
+ Z alone, so it says no more than that point does. (For |Z| < 2^53 both addends are floats and an
IEEE sum is the correctly rounded exact sum. Larger draws, of chance e^-64, are added as fractions.)

**What one record moves, in steps.** An entry that changes moves by at most one step more after
rounding. So the l1 and l2 norms move by at most K = D/g + d and K = D/g + sqrt(d) steps; by D/g if
the value is made of integers and g <= 1, which are on the lattice already. This is the price of
rounding: the noise grows by the factor K g/D, refused above 1 + 10^-3.

**Laplace: t >= s·K + 1/4 makes the event Laplace(s) an upper bound.** Let a = 1/t and let one entry
move by m steps, m·a = epsilon. With r = e^-a and F the discrete distribution function,
delta(epsilon') = 1 - r^((m-i)/2) at epsilon' = i·a for every i of the parity of m, which is the
continuous Laplace's 1 - e^((epsilon'-epsilon)/2), and between these points it is linear in
e^epsilon'. A chord of the square root over a ratio e^2a lies above the root divided by cosh(a/2),
so the discrete curve at epsilon lies below the continuous curve at epsilon + 2 log cosh(a/2) <=
epsilon + a²/4. Entries add up: if T(P, Q) >= f and T(Q, R) >= g then T(P, R) >= g(1 - f) (Dong,
Roth and Su 2022, group privacy), and for shifts of one Laplace density g(1 - f) is the trade-off
function of the summed shift. No more than K entries move, each by a step at least, so all is
covered by a Laplace pair at epsilon = K/t + K/(4t²) = K (t + 1/4)/t², and t²/(t + 1/4) >= t - 1/4
>= s·K gives epsilon <= 1/s.

**Gaussian: t >= s·K + 2 makes the event Gaussian(s) an upper bound.** Let one entry move by k >= 1
steps, m = k/t <= t; phi is the normal density and phi_t that of deviation t. Claim: the pair of
discrete Gaussians is no easier to tell apart than normal distributions m(1 + 2/t) apart. Then d
entries are no easier than normals at distance (1 + 2/t)·K/t (composition of trade-off functions:
Dong, Roth and Su 2022), and (1 + 2/t) K/t <= (1 + 2/t)(t - 2)/(s·t) < 1/s.
Proof of the claim, for epsilon >= 0 (which suffices: the reverse pair is the mirror image). The
normaliser N = sum of phi_t over the integers is at least 1 and at most 1 + 3 e^(-2 pi² t²)
(Poisson's formula). The loss exceeds epsilon left of x = k/2 - epsilon t/m; let b = x/t.
For a function h with h' of bounded variation, sum h - integral h is -1/2 times the integral of
B2({y}) dh'(y), with Bernoulli's |B2| <= 1/6: it is at most V/12, V the total variation of h'. For
normals delta grows with m at the rate phi(epsilon/m - m/2), which is phi(b) at m.

(i) x <= 0. N·delta = sum of h over the integers, h(y) = phi_t(y) (1 - e^(-(x-y) m/t)) left of x,
and 0 elsewhere. In h'' = phi_t'' w + 2 phi_t' w' + phi_t w'' we have w <= (x-y) m/t, |w'| <= m/t
and w'' integrates to m/t at most; phi_t falls faster than e^(-(x-y)²/(2t²)) from phi_t(x), and
|phi_t''| <= phi_t'' + 2 phi_t/t². So the three terms integrate to at most 3, 2 and 1 times J =
phi_t(x) m/t, the jump of h' at x adds J, and delta exceeds the normal one by at most 7J/12 = (7/12)
phi(b) m/t². Moving m up by m/t² makes up for it: the rate stays above phi(b) e^(-1/2) there, as m
<= t.
(ii) 0 < x <= k/2. N (1 - delta) = sum of min(phi_t(y), e^epsilon phi_t(y - k)); its pieces are the
tail of one density from b and of the other from m - b >= b, of equal height at x. The variation of
the derivative is at most phi(b)/t² times (b + 2.51) + (m - b + 2.51) for the tails and m for the
kink. So delta exceeds the normal one by at most phi(b) (0.17 m + 0.42)/t² and, by N, a share 3
e^(-2 pi² t²) of 2.51 phi(b). Moving m up by a factor 1 + c, c = e(0.17 + 0.42/m)/t², and c less
than 1.2/t + 1/t² because m >= 1/t, makes up for both: the rate stays above phi(b)/e there, as m²c
is below 1. And c, as 1/t² in (i), is below 2/t.

Both events hold for the exact laws, that is, for uniform bits; those of AES are as good as uniform
for whoever cannot break it.
"""

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import lattice
from dpassay.mechanisms._rounding import root_at_least
from dpassay.types import FloatArray

STEPS = 2**46
"""The noise is this many steps of its lattice wide, or up to twice as many."""
MOST_OVERHEAD = Fraction(1, 1000)
"""By how much rounding to the lattice may enlarge the noise."""
_FLOAT_INTEGERS = 2**53  # up to here every integer is a float


@dataclass(frozen=True)
class Lattice:
    """The law of the noise, the step g of the lattice, and the scale t of the noise in steps."""

    law: str
    step: float
    scale: int


# An audit asks for the same at every trial.
@lru_cache(maxsize=256)
def lattice_for(
    law: str, multiplier: float, sensitivity: float, size: int, *, is_integer: bool = False
) -> Lattice:
    """A lattice and noise on it that are covered by the event; see the proofs of this module.

    Args:
        law: "laplace" or "gaussian"; the sensitivity is in the l1 or the l2 norm.
        multiplier: the noise multiplier that the event states.
        sensitivity: the most that one record moves the value before it is rounded.
        size: the number of entries.
        is_integer: every value that any data set has is made of integers.

    Raises:
        InvalidArgument: rounding so many entries would take too much noise.

    """
    s, moved = Fraction(multiplier), Fraction(sensitivity)
    step = step_for(s * moved)
    steps = moved / Fraction(step)
    if not (is_integer and step <= 1):
        rounding = Fraction(size) if law == "laplace" else Fraction(root_at_least(Fraction(size)))
        refuse_overhead(rounding / steps, size, multiplier)
        steps += rounding
    if law == "laplace":
        return Lattice(law, step, math.ceil(s * steps + Fraction(1, 4)))
    if s * STEPS < 1:
        raise InvalidArgument(
            f"noise multiplier {multiplier:g} must be at least {1 / STEPS:.1g}: with less noise "
            "there is no privacy to speak of. Use a smaller epsilon, rho or mu."
        )
    return Lattice(law, step, math.ceil(s * steps) + 2)


def step_for(noise: Fraction) -> float:
    """The power of two g with noise/g in [STEPS, 2 STEPS)."""
    exponent = noise.numerator.bit_length() - noise.denominator.bit_length()
    exponent -= noise < Fraction(2) ** exponent
    return math.ldexp(1.0, exponent - STEPS.bit_length() + 1)


def refuse_overhead(overhead: Fraction, size: int, multiplier: float) -> None:
    """Refuse to round so many entries to the lattice of such noise, if that takes much more."""
    if overhead > MOST_OVERHEAD:
        raise InvalidArgument(
            f"value of {size} entries with noise {multiplier:g} times its sensitivity cannot be "
            "rounded to a lattice without much more noise. Release fewer entries at a time, with "
            "more epsilon, or declare a query of integers by an integer dtype."
        )


def add_noise(values: NDArray[Any], where: Lattice, generator: np.random.Generator) -> FloatArray:
    """The values, of floats or integers, with noise, as floats of the same shape."""
    flat = values.ravel()
    z = lattice.draw(where.law, where.scale, flat.size, generator)
    base = on_lattice(flat.astype(np.float64), where.step)
    with np.errstate(over="ignore"):
        # The sum is never a negative zero: z is an integer, and 0 becomes +0.
        noisy = base + where.step * z.astype(np.float64)
    for i in np.flatnonzero(_is_wide(z, flat)):
        exact = Fraction(int(flat[i]) if flat.dtype.kind in "iu" else float(base[i]))
        noisy[i] = _nearest(exact + Fraction(where.step) * int(z[i]))
    most = sys.float_info.max
    return np.clip(noisy, -most, most, out=noisy).reshape(values.shape)


def on_lattice(values: FloatArray, step: float) -> FloatArray:
    """The nearest multiples of a power of two, as floats, without rounding error."""
    # A float of 2^53 steps or more is a multiple of the step already, and may overflow below.
    near = np.abs(values) < _FLOAT_INTEGERS * step
    rounded = np.divide(values, step, out=np.zeros_like(values), where=near)
    return np.where(near, np.rint(rounded, out=rounded) * step, values)


def _is_wide(z: lattice.Integers, values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where an addend may be no float, so that the sum of floats would be rounded twice."""
    wide = (z >= _FLOAT_INTEGERS) | (z <= -_FLOAT_INTEGERS)
    if values.dtype.kind in "iu":
        wide |= (values > _FLOAT_INTEGERS) | (values < -_FLOAT_INTEGERS)
    return wide.astype(bool)


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
