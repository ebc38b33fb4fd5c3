"""Hockey-stick profiles of single events: the exact worst case of each, in closed form.

The profile of a pair (P, Q) is H(x) = sup over S of P(S) - e^x Q(S), for every real x; delta(x) of
a mechanism is the largest profile over its neighbouring pairs. An event has a pair for each
direction, (remove, add), that dominates all its neighbouring pairs, and dominating pairs compose
(Zhu, Dong and Wang 2022, theorem 10). For a symmetric pair H(-x) = 1 - e^-x + e^-x H(x), so that
the part for x >= 0 is enough.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay.errors import UnsupportedEvent
from dpassay.privacy import events, gaussian
from dpassay.types import FloatArray

Profile = Callable[[FloatArray], FloatArray]


def profiles(event: events.Event) -> tuple[Profile, Profile]:
    """The dominating profiles (remove, add) of an event that is not composed of others."""
    if isinstance(event, events.Sampled):
        return _sampled(event)
    if type(event) not in _SYMMETRIC:
        raise UnsupportedEvent(f"{event!r} has no privacy-loss distribution.")
    profile = _mirrored(_SYMMETRIC[type(event)](event))
    return profile, profile


def _mirrored(positive: Profile) -> Profile:
    """The whole profile of a symmetric pair from its part at x >= 0."""

    def profile(x: FloatArray) -> FloatArray:
        value = positive(np.abs(x))
        below = np.exp(np.minimum(x, 0.0))
        return np.where(x < 0, -np.expm1(np.minimum(x, 0.0)) + below * value, value)

    return profile


def _gaussian(event: events.Gaussian) -> Profile:
    return lambda x: gaussian.delta_of(x, np.float64(1 / event.noise_multiplier))


def _laplace(event: events.Laplace) -> Profile:
    return lambda x: -np.expm1(np.minimum(x - 1 / event.noise_multiplier, 0.0) / 2)


def _two_point(epsilon: float, delta: float) -> Profile:
    """Randomized response on {-epsilon, epsilon}, revealing everything with probability delta."""

    def profile(x: FloatArray) -> FloatArray:
        inside = -np.expm1(np.minimum(x - epsilon, 0.0)) / (1 + np.exp(-epsilon))
        return delta + (1 - delta) * inside

    return profile


def _bounded_range(event: events.BoundedRange) -> Profile:
    """(√E - √s)² / (E - 1) with E = e^epsilon, s = e^x.

    The extreme mechanisms have two losses, t and t - epsilon, the first with probability
    (E - e^t)/(E - 1) (Dong, Durfee and Rogers 2020); the profile (E - e^t)(1 - s e^-t)/(E - 1) is
    largest at t = (epsilon + x)/2. It is convex in s and symmetric, hence itself a dominating pair.
    """
    e = event.epsilon
    if e == 0:
        return np.zeros_like

    def profile(x: FloatArray) -> FloatArray:
        return np.square(np.expm1(np.minimum(x - e, 0.0) / 2)) / -np.expm1(-e)

    return profile


def _randomized_response(event: events.RandomizedResponse) -> Profile:
    other = event.noise_probability / event.n_categories
    truth = 1 - event.noise_probability + other
    return lambda x: np.maximum(truth - np.exp(np.minimum(x, 700.0)) * other, 0.0)


_SYMMETRIC: dict[type, Callable[[Any], Profile]] = {
    events.Gaussian: _gaussian,
    events.Laplace: _laplace,
    events.Pure: lambda event: _two_point(event.epsilon, 0.0),
    events.Approx: lambda event: _two_point(event.epsilon, event.delta),
    events.BoundedRange: _bounded_range,
    events.RandomizedResponse: _randomized_response,
    events.NonPrivate: lambda event: np.ones_like,
}


def _sampled(event: events.Sampled) -> tuple[Profile, Profile]:
    """The pair ((1-q)Q + qP, Q) for removing, reversed for adding, where (P, Q) is the event's own.

    Poisson sampling, add/remove: this pair dominates. Sampling without replacement under
    replace-one: the larger of the two directions at every x dominates (Zhu, Dong and Wang 2022,
    theorem 11). Poisson under replace-one lacks such a statement for general events.
    """
    if event.scheme == "poisson" and event.neighbouring == "replace-one":
        raise UnsupportedEvent(
            f"{event!r}: Poisson sampling is priced under add-remove only. State the event under "
            "add-remove, or sample without replacement."
        )
    inner, reverse = profiles(event.event)
    if inner is not reverse:
        raise UnsupportedEvent(f"{event!r}: only one level of sampling can be priced.")
    remove, add = (
        _mixture(inner, event.sampling_rate),
        _mixture_reversed(inner, event.sampling_rate),
    )
    if event.scheme == "poisson":
        return remove, add

    def both(x: FloatArray) -> FloatArray:
        return np.maximum(remove(x), add(x))

    return both, both


def _mixture(inner: Profile, q: float) -> Profile:
    """H((1-q)Q + qP, Q): the integrand is q (P - (1 + (e^x - 1)/q) Q)."""

    def profile(x: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            growth = np.expm1(np.minimum(x, 700.0)) / q
            shifted = np.where(growth > -1, np.log1p(np.maximum(growth, -1.0)), 0.0)
        shifted = np.where(x > 700, x - np.log(q), shifted)
        return np.where(growth > -1, q * inner(shifted), -np.expm1(np.minimum(x, 0.0)))

    return profile


def _mixture_reversed(inner: Profile, q: float) -> Profile:
    """H(Q, (1-q)Q + qP): the integrand is c (Q - (e^x q / c) P) with c = 1 - e^x (1-q)."""

    def profile(x: FloatArray) -> FloatArray:
        log_rest = x + np.log1p(-q) if q < 1 else np.full_like(x, -np.inf)
        c = -np.expm1(np.minimum(log_rest, 0.0))
        with np.errstate(divide="ignore"):
            shifted = np.where(c > 0, x + np.log(q) - np.log(np.where(c > 0, c, 1.0)), 0.0)
        return np.where(c > 0, c * inner(shifted), 0.0)

    return profile
