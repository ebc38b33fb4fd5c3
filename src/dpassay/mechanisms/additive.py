"""Laplace and Gaussian noise added to a number or an array."""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.mechanisms import exact
from dpassay.mechanisms._rounding import at_least, root_at_least
from dpassay.mechanisms.noise import Rng, Source, source
from dpassay.privacy import events
from dpassay.privacy.gaussian import mu_of
from dpassay.types import FloatArray, Neighbouring, Release

SCALES = (1e-300, 1e300)
"""Noise scales that are taken: the steps of the lattice and all draws are floats there."""


def laplace(
    value: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float,
    rng: Rng = None,
    neighbouring: Neighbouring = "add-remove",
) -> Release[float | FloatArray]:
    """The value plus Laplace noise of scale sensitivity/epsilon in every entry: epsilon-DP.

    Args:
        value: a number, or an array of any shape; finite. An integer type declares that the query
            has integer values on every data set, which then need no rounding to a lattice.
        sensitivity: the most that one record changes the value as it was computed, in floats, in
            the l1 norm over all entries.
        epsilon: the privacy parameter, positive and finite.
        rng: None for exact noise, whatever the size (:mod:`dpassay.mechanisms.noise`); a seed or
            generator gives a release that can be replayed and is not private.
        neighbouring: the relation that the sensitivity was taken under.

    Returns:
        A release with a float or an array of the same shape, and the event ``Laplace(1/epsilon)``
        (Dwork et al. 2006: the densities at two neighbours differ by a factor of at most
        exp(sum of |difference|/scale) = exp(epsilon)).

    Raises:
        InvalidArgument: a NaN, an infinity, a parameter that is not positive.

    >>> release = laplace(52.0, sensitivity=1.0, epsilon=0.5, rng=0)
    >>> release.event, release.noise
    (Laplace(noise_multiplier=2.0, neighbouring='add-remove'), 'reproducible')

    """
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    event = events.Laplace(at_least(1 / Fraction(epsilon)), neighbouring)
    return _release("laplace", value, event, sensitivity, rng)


def gaussian(
    value: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    rng: Rng = None,
    neighbouring: Neighbouring = "add-remove",
) -> Release[float | FloatArray]:
    """The value plus Gaussian noise in every entry, as much as one statement of privacy needs.

    Args:
        value: as for :func:`laplace`.
        sensitivity: as for :func:`laplace`, but in the l2 norm over all entries.
        epsilon: together with ``delta``: the least noise that is (epsilon, delta)-DP, by the exact
            curve of Balle and Wang (2018), not by sqrt(2 log(1.25/delta))/epsilon, which is too
            much for small epsilon and too little for large.
        delta: see epsilon.
        rho: zero-concentrated DP; deviation sensitivity/sqrt(2 rho) (Bun and Steinke 2016).
        mu: Gaussian DP; deviation sensitivity/mu (Dong, Roth and Su 2022).
        rng: None for exact noise, whatever the size (:mod:`dpassay.mechanisms.noise`); a seed or
            generator gives a release that can be replayed and is not private.
        neighbouring: the relation that the sensitivity was taken under.

    Returns:
        A release with a float or an array of the same shape, and the event ``Gaussian``.

    Raises:
        InvalidArgument: a NaN, an infinity, a parameter that is not positive, or not exactly one of
            (epsilon, delta), rho and mu.

    >>> release = gaussian([3.0, 4.0], sensitivity=2.0, mu=0.5, rng=0)
    >>> release.event, release.value.shape
    (Gaussian(noise_multiplier=2.0, neighbouring='add-remove'), (2,))

    """
    multiplier = gaussian_multiplier(epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    return _release("gaussian", value, events.Gaussian(multiplier, neighbouring), sensitivity, rng)


def gaussian_multiplier(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
) -> float:
    """The least noise over sensitivity that meets one statement of privacy, never below it.

    >>> round(gaussian_multiplier(epsilon=1.0, delta=1e-6), 6)
    4.224679

    """
    given = tuple(
        name
        for name, value in {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}.items()
        if value is not None
    )
    if given == ("rho",):
        return root_at_least(1 / (2 * Fraction(_positive("rho", rho))))
    if given == ("mu",):
        return at_least(1 / Fraction(_positive("mu", mu)))
    if given == ("epsilon", "delta"):
        return _analytic_multiplier(
            _check.epsilon(epsilon, finite=True, positive=True), _check.delta(delta)
        )
    raise InvalidArgument(
        f"{', '.join(given) or 'nothing'} was given; pass exactly one of (epsilon and delta), rho "
        "or mu, for example epsilon=1.0, delta=1e-6."
    )


# Inverting the curve takes milliseconds, and an audit asks for the same answer at every trial.
@lru_cache(maxsize=256)
def _analytic_multiplier(epsilon: float, delta: float) -> float:
    mu = float(mu_of(np.asarray(epsilon), np.asarray(delta))) if delta > 0 else 0.0
    if not mu > 0:
        raise InvalidArgument(
            f"delta={delta:g} must be positive (and epsilon={epsilon:g} not vanish). No Gaussian "
            "noise is purely epsilon-DP; use laplace for that."
        )
    return at_least(1 / Fraction(mu))


def _positive(name: str, value: float | None) -> float:
    return _check.number(name, value, low=0, low_open=True, remedy="Smaller is more private.")


def _release(
    law: str,
    value: ArrayLike,
    event: events.Laplace | events.Gaussian,
    sensitivity: float,
    rng: Rng,
) -> Release[float | FloatArray]:
    sensitivity, noise = _check.sensitivity(sensitivity), source(rng)
    noisy = add_noise(law, value, event.noise_multiplier, sensitivity, noise)
    return Release(noisy if noisy.ndim else float(noisy), event, sensitivity, noise.level)


def add_noise(
    law: str, value: ArrayLike, multiplier: float, sensitivity: float, noise: Source
) -> FloatArray:
    """The value plus noise of multiplier · sensitivity, as an array; covered by the law's event.

    Args:
        law: "laplace" or "gaussian".
        value: what is to be released, before noise.
        multiplier: of the event, ``Laplace(multiplier)`` or ``Gaussian(multiplier)``.
        sensitivity: the most that one record changes the value, in the l1 or l2 norm.
        noise: exact sources add lattice noise, others floats.

    """
    values = _check.array("value", value, remedy="It is what is to be released, before noise.")
    scale = noise_scale(Fraction(multiplier), sensitivity)
    if not noise.is_exact:
        draw = {"laplace": noise.generator.laplace, "gaussian": noise.generator.normal}[law]
        return values + draw(0.0, scale, values.shape)
    whole = np.asarray(value)
    is_integer = whole.dtype.kind in "biu"
    where = exact.lattice_for(law, multiplier, sensitivity, values.size, is_integer=is_integer)
    return exact.add_noise(whole if is_integer else values, where, noise.generator)


def noise_scale(multiplier: Fraction, sensitivity: float) -> float:
    """A float that is not below multiplier · sensitivity; refused outside :data:`SCALES`."""
    product = multiplier * Fraction(sensitivity)
    if not SCALES[0] <= product <= SCALES[1]:
        raise InvalidArgument(
            f"sensitivity={sensitivity:g} with noise {at_least(multiplier):g} times that gives a "
            f"scale of {at_least(product):g}, which must lie in [{SCALES[0]:g}, {SCALES[1]:g}]. "
            "Release the value in other units, or with another privacy parameter."
        )
    return at_least(product)
