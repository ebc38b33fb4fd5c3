"""Hockey-stick profiles of single events: the exact worst case of each, in closed form.

The profile of a pair (P, Q) is H(x) = sup over S of P(S) - e^x Q(S), for every real x; delta(x) of
a mechanism is the largest profile over its neighbouring pairs. An event has a pair for each
direction, (remove, add), that dominates all its neighbouring pairs, and dominating pairs compose
(Zhu, Dong and Wang 2022, theorem 10). For a symmetric pair H(-x) = 1 - e^-x + e^-x H(x), so that
the part for x >= 0 is enough.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from dpassay._special.margins import CLOSED_FORM, LEAST, down, exp_down, exp_up, products_up, up
from dpassay.errors import UnsupportedEvent
from dpassay.privacy import events, gaussian, replaced, two_point, users
from dpassay.types import FloatArray

# From x >= 0, and how well it is known, to a lower and an upper bound on H(x).
Bracket = Callable[[FloatArray, Any], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Profile:
    """A profile between two bounds that differ by rounding alone; called, it gives the upper one.

    ``bracket`` serves x >= 0. Below 0 the profile is 1 - e^x + e^x times the profile of the
    opposite direction at -x, whose bracket is ``opposite``; none means that it is the same.
    """

    bracket: Bracket
    opposite: Bracket | None = None

    def __call__(self, x: FloatArray) -> FloatArray:
        """An upper bound on the profile at any real x."""
        x = np.asarray(x, float)
        positive = self.bracket(np.maximum(x, 0.0), 0.0)[1]
        if not np.any(x < 0):
            return positive
        below = np.minimum(x, 0.0)
        mirrored = (self.opposite or self.bracket)(-below, 0.0)[1]
        return np.where(x < 0, up(-np.expm1(below) + np.exp(below) * mirrored), positive)


def profiles(event: events.Event) -> tuple[Profile, Profile]:
    """The dominating profiles (remove, add) of an event that is not composed of others."""
    if isinstance(event, events.Sampled):
        return _sampled(event)
    if isinstance(event, events.SampledUser):
        remove, add = users.brackets(event.noise_multiplier, event.law)
        return Profile(remove, add), Profile(add, remove)
    if type(event) not in _SYMMETRIC:
        raise UnsupportedEvent(f"{event!r} has no privacy-loss distribution.")
    profile = Profile(_SYMMETRIC[type(event)](event))
    return profile, profile


def _gaussian(event: events.Gaussian) -> Bracket:
    mu = np.float64(1 / event.noise_multiplier)

    def bracket(x: FloatArray, slack: Any) -> tuple[FloatArray, FloatArray]:
        value, error = gaussian.log_delta_and_error(x, mu, slack)
        return exp_down(value, error), np.minimum(exp_up(value, error), 1.0)

    return bracket


def _laplace(event: events.Laplace) -> Bracket:
    epsilon = 1 / event.noise_multiplier

    def bracket(x: FloatArray, slack: Any) -> tuple[FloatArray, FloatArray]:
        return (
            down(-np.expm1(np.minimum(x - down(epsilon) + slack, 0.0) / 2)),
            up(-np.expm1(np.minimum(x - up(epsilon) - slack, 0.0) / 2)),
        )

    return bracket


def _approx(epsilon: float, delta: float) -> Bracket:
    """Randomized response on {-epsilon, epsilon}, revealing everything with probability delta."""
    return lambda x, slack: two_point.bracket(x, epsilon, delta, slack)


def _bounded_range(event: events.BoundedRange) -> Bracket:
    """(√E - √s)² / (E - 1) with E = e^epsilon, s = e^x.

    The extreme mechanisms have two losses, t and t - epsilon, the first with probability
    (E - e^t)/(E - 1) (Dong, Durfee and Rogers 2020); the profile (E - e^t)(1 - s e^-t)/(E - 1) is
    largest at t = (epsilon + x)/2. It is convex in s and symmetric, hence itself a dominating pair.
    """
    e = event.epsilon
    if e == 0:
        return lambda x, slack: (np.zeros_like(x), np.zeros_like(x))

    def bracket(x: FloatArray, slack: Any) -> tuple[FloatArray, FloatArray]:
        low, high = (
            np.square(np.expm1(np.minimum(x - e + error, 0.0) / 2)) / -np.expm1(-e)
            for error in (slack, -np.asarray(slack))
        )
        most = cast(FloatArray, np.where(x >= e, up(high), np.maximum(up(high), LEAST)))
        return down(low), most

    return bracket


def _randomized_response(event: events.RandomizedResponse) -> Bracket:
    """H(x) = truth - e^x other = truth (1 - e^{x - epsilon}), epsilon = log(truth / other)."""
    p, k = event.noise_probability, event.n_categories
    truth, epsilon = 1 - p + p / k, math.log1p(k * (1 - p) / p)

    def bracket(x: FloatArray, slack: Any) -> tuple[FloatArray, FloatArray]:
        return (
            down(-truth * np.expm1(np.minimum(x - down(epsilon) + slack, 0.0))),
            np.minimum(up(-truth * np.expm1(np.minimum(x - up(epsilon) - slack, 0.0))), 1.0),
        )

    return bracket


_SYMMETRIC: dict[type, Callable[[Any], Bracket]] = {
    events.Gaussian: _gaussian,
    events.Laplace: _laplace,
    events.Pure: lambda event: _approx(event.epsilon, 0.0),
    events.Approx: lambda event: _approx(event.epsilon, event.delta),
    events.BoundedRange: _bounded_range,
    events.RandomizedResponse: _randomized_response,
    events.NonPrivate: lambda event: lambda x, slack: (np.ones_like(x), np.ones_like(x)),
}


def _sampled(event: events.Sampled) -> tuple[Profile, Profile]:
    """The pair ((1-q)Q + qP, Q) for removing, reversed for adding, where (P, Q) is the event's own.

    Poisson sampling, add/remove: this pair dominates. Sampling without replacement under
    replace-one: the larger of the two directions at every x dominates (Zhu, Dong and Wang 2022,
    theorem 11). For Poisson sampling under replace-one see :mod:`dpassay.privacy.replaced`.
    """
    if event.scheme == "poisson" and event.neighbouring == "replace-one":
        return _replaced(event)
    if type(event.event) not in _SYMMETRIC:
        raise UnsupportedEvent(f"{event!r}: only one level of sampling can be priced.")
    inner = _SYMMETRIC[type(event.event)](event.event)
    remove, add = (
        _mixture(inner, event.sampling_rate),
        _mixture_reversed(inner, event.sampling_rate),
    )
    if event.scheme == "poisson":
        return Profile(remove, add), Profile(add, remove)

    def both(x: FloatArray, slack: Any) -> tuple[FloatArray, FloatArray]:
        (a, b), (c, d) = remove(x, slack), add(x, slack)
        return np.maximum(a, c), np.maximum(b, d)

    profile = Profile(both)
    return profile, profile


def _replaced(event: events.Sampled) -> tuple[Profile, Profile]:
    inner, q = event.event, event.sampling_rate
    if inner.neighbouring != "add-remove":
        raise UnsupportedEvent(
            f"{event!r}: under replace-one, Poisson sampling is priced from the noise under "
            "add-remove. State the inner event so and pass neighbouring='replace-one' to Sampled, "
            "or sample without replacement."
        )
    if type(inner) not in _REPLACED:
        raise UnsupportedEvent(
            f"{event!r}: under replace-one, Poisson sampling can be priced for Gaussian, Laplace "
            "and Pure events."
        )
    whole, sampled = _REPLACED[type(inner)](inner)
    if q == 1:
        profile = Profile(whole)
        return profile, profile

    def bracket(x: FloatArray, slack: Any) -> tuple[FloatArray, FloatArray]:
        high = sampled(q, np.maximum(x - slack, 0.0))[1] + np.maximum(slack - x, 0.0)
        return sampled(q, x + slack)[0], np.minimum(high, 1.0)

    profile = Profile(bracket)
    return profile, profile


# For events under add-remove: the bracket when a record of the whole data is replaced, and from
# the sampling rate and x to that on a Poisson sample.
_REPLACED: dict[type, Callable[[Any], tuple[Bracket, Callable[..., Any]]]] = {
    events.Gaussian: lambda e: (
        _gaussian(events.Gaussian(e.noise_multiplier / 2)),
        partial(replaced.gaussian_bracket, e.noise_multiplier),
    ),
    events.Laplace: lambda e: (
        _laplace(events.Laplace(e.noise_multiplier / 2)),
        partial(replaced.laplace_bracket, e.noise_multiplier),
    ),
    events.Pure: lambda e: (
        _approx(2 * e.epsilon, 0.0),
        partial(replaced.pure_bracket, e.epsilon),
    ),
}


def _mixture(inner: Bracket, q: float) -> Bracket:
    """H((1-q)Q + qP, Q) at x >= 0: the integrand is q (P - (1 + (e^x - 1)/q) Q)."""
    if q == 1:
        return inner
    log_q = math.log(q)

    def bracket(x: FloatArray, slack: Any) -> tuple[FloatArray, FloatArray]:
        # log(1 + (e^x - 1)/q), which moves by at most 1/q times as much as x.
        with np.errstate(over="ignore"):
            shifted = np.log1p(np.expm1(np.minimum(x, 700.0)) / q)
        far = ~np.isfinite(shifted) | (x > 700)
        shifted = np.where(far, x - log_q, shifted)
        error = CLOSED_FORM * np.where(x < math.inf, shifted - far * log_q, 0.0) + slack / q
        low, high = inner(shifted, error)
        return down(q * low), products_up(q, high)

    return bracket


def _mixture_reversed(inner: Bracket, q: float) -> Bracket:
    """H(Q, (1-q)Q + qP) at x >= 0: the integrand is c (Q - (e^x q / c) P), c = 1 - e^x (1-q).

    c cancels at the largest loss, x = -log(1-q). c inner(x + log q - log c) grows with c, by
    the mass of losses above: so the upper bound takes c at its upper end, and where c is all
    rounding the lower bound is 0.
    """
    if q == 1:
        return inner
    log_q, log_rest = math.log(q), math.log1p(-q)

    def bracket(x: FloatArray, slack: Any) -> tuple[FloatArray, FloatArray]:
        exponent = x + log_rest
        unsure = CLOSED_FORM * (x - log_rest) + slack
        beyond = (exponent > unsure) | (x == math.inf)  # larger than any loss, for certain
        c = -np.expm1(np.minimum(exponent, 0.0))
        error = np.where(beyond, 0.0, unsure * (1 - c) + CLOSED_FORM * c)
        rounding = c <= 2 * error
        c = np.where(rounding, c + error, c)
        log_c = np.log(np.where(c > 0, c, 1.0))
        x = np.where(beyond, 0.0, x)
        shifted = np.maximum(x + log_q - log_c, 0.0)  # c <= q, as x >= 0
        of_c = np.where(rounding, 0.0, error / np.where(c > 0, c, 1.0))
        low, high = inner(shifted, of_c + CLOSED_FORM * (x - log_q - log_c) + slack)
        grown = np.where(rounding, c, c + error)
        return np.where(rounding, 0.0, down((c - error) * low)), products_up(grown, high)

    return bracket
