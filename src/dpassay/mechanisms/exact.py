"""Samplers without rounding error: OpenDP's, and integers of the operating system.

OpenDP adds discrete noise on the lattice of all multiples of 2^-1074, on which every float lies,
in exact arithmetic, and rounds the sum to a float only then. Rounding is post-processing, so the
output says no more than the exact sum. What remains is that a lattice is not the line:

**Laplace.** Let a be the lattice step over the scale and m·a = epsilon the shift. With r = e^-a and
F the discrete distribution function, delta(epsilon') = 1 - r^((m-t)/2) at epsilon' = t·a for every
t of the parity of m, which is the continuous Laplace's 1 - e^((epsilon'-epsilon)/2), and between
these points it is linear in e^epsilon'. A chord of the square root over a ratio e^2a lies above
the root divided by cosh(a/2), so the discrete curve at epsilon lies below the continuous curve at
epsilon + 2 log cosh(a/2) <= epsilon + a²/4. Coordinates add up: if T(P, Q) >= f and T(Q, R) >= g
then T(P, R) >= g(1 - f) (Dong, Roth and Su 2022, group privacy), and for shifts of one Laplace
density g(1 - f) is the trade-off function of the summed shift. So at most size · a²/4 is lost,
which with a scale of 1e-150 or more is below 1e-340.

**Gaussian.** A discrete Gaussian is rho-zCDP with the same rho (Canonne, Kamath and Steinke 2020,
theorem 4). The rest of its curve differs from the Gaussian's by the total variation between the
discrete Gaussian and the rounded one, of the order size · a² with a the step over the deviation:
below 1e-340 again, which is no float.

Both vanish in the one last bit by which :func:`add_noise` enlarges the scale.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpassay.types import FloatArray

_LATTICE = 2**1074


@cache
def _opendp() -> SimpleNamespace:
    """OpenDP's modules; its prelude would import scikit-learn as well and take 20 times as long."""
    from opendp import domains, measurements, measures, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    vector = domains.vector_domain(domains.atom_domain(T=float, nan=False))
    return SimpleNamespace(make=measurements, metrics=metrics, measures=measures, vector=vector)


def _priced(make: Callable[[float], Any], scale: float, sensitivity: float, most: Fraction) -> Any:
    """The measurement of the smallest scale from here on that OpenDP prices at ``most``."""
    measurement = make(scale)
    while Fraction(measurement.map(sensitivity)) > most:
        scale = math.nextafter(scale, math.inf)
        measurement = make(scale)
    return measurement


@lru_cache(maxsize=256)
def additive(kind: str, scale: float, sensitivity: float, most: Fraction) -> Any:
    """OpenDP's vector measurement, "laplace" or "gaussian", priced at ``most`` epsilon or rho.

    The scale is enlarged by its last bits until OpenDP's own price, which rounds upward, is met,
    and by one bit more for what the lattice costs (see above).
    """
    lib = _opendp()
    make, metric = {
        "laplace": (lib.make.make_laplace, lib.metrics.l1_distance(T=float)),
        "gaussian": (lib.make.make_gaussian, lib.metrics.l2_distance(T=float)),
    }[kind]
    above = math.nextafter(scale, math.inf)
    return _priced(lambda s: make(lib.vector, metric, s, k=-1074), above, sensitivity, most)


@lru_cache(maxsize=256)
def selection(
    kind: str, scale: float, sensitivity: float, monotone: bool, epsilon: float
) -> Callable[[Sequence[float]], int]:
    """A sampler of the index of the largest score plus noise, exactly; ``epsilon``-DP.

    "gumbel" is the exponential mechanism with weights exp(score/scale): OpenDP's noisy max under
    zCDP, priced at epsilon²/8. "exponential" is permute-and-flip (Ding et al. 2021): OpenDP's noisy
    max under pure DP. "laplace" is :func:`laplace_argmax`.
    """
    if kind == "laplace":
        return lambda scores: laplace_argmax(scores, scale)
    lib = _opendp()
    metric = lib.metrics.linf_distance(T=float, monotonic=monotone)
    measure, most = {
        "gumbel": (lib.measures.zero_concentrated_divergence(), Fraction(epsilon) ** 2 / 8),
        "exponential": (lib.measures.max_divergence(), Fraction(epsilon)),
    }[kind]
    make = lib.make.make_noisy_max
    return _priced(lambda s: make(lib.vector, metric, measure, s), scale, sensitivity, most)


def add_noise(measurement: Any, values: FloatArray) -> FloatArray:
    """The values with the measurement's noise, in the same shape."""
    return np.array(measurement(values.ravel().tolist())).reshape(values.shape)


Below = Callable[[int], int]
"""A uniform integer in [0, n), for n at least 1."""


def bernoulli_exp(numerator: int, denominator: int, below: Below = secrets.randbelow) -> bool:
    """True with probability exp(-numerator/denominator), exactly, for a quotient in [0, 1].

    Coins of probability x/1, x/2, x/3, ... are thrown until one fails: the k-th is reached with
    probability x^(k-1)/(k-1)!, so the first failure is at an odd place with probability
    1 - x + x²/2! - ... = e^-x (Canonne, Kamath and Steinke 2020, algorithm 1).
    """
    k = 1
    while below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def discrete_laplace(scale: int, below: Below = secrets.randbelow) -> int:
    """An integer x with probability proportional to exp(-|x|/scale), exactly.

    The magnitude u + scale·v is geometric: u by rejection, v by coins of probability 1/e; of the
    two zeros one is thrown away (Canonne, Kamath and Steinke 2020, algorithm 2).
    """
    while True:
        u = below(scale)
        if not bernoulli_exp(u, scale, below):
            continue
        v = 0
        while bernoulli_exp(1, 1, below):
            v += 1
        magnitude, negative = u + scale * v, below(2)
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def laplace_argmax(scores: Sequence[float], scale: float, below: Below = secrets.randbelow) -> int:
    """The index of the largest score plus discrete Laplace noise; the first one of a tie.

    Scores and scale are integers on the lattice of floats, so that nothing is rounded. Why this is
    private: given the noise of the others, i wins if and only if its noise reaches a threshold, a
    neighbour moves that threshold by at most c = 2·sensitivity (the sensitivity, if monotone), and
    P(noise >= t + step)/P(noise >= t) >= exp(-step/scale) for the discrete Laplace as for the
    continuous one, so the chance to win falls by a factor of at most exp(c/scale). The rule for
    ties is fixed by the index and moves no threshold by more.
    """
    steps = _on_lattice(scale)
    noisy = [_on_lattice(score) + discrete_laplace(steps, below) for score in scores]
    return max(range(len(noisy)), key=noisy.__getitem__)


def _on_lattice(x: float) -> int:
    numerator, denominator = x.as_integer_ratio()
    return numerator * (_LATTICE // denominator)
