"""The central limit theorem: many small losses look like one Gaussian. An estimate, not a bound."""

import math
from collections.abc import Callable
from typing import Any

from dpassay.errors import UnsupportedEvent
from dpassay.privacy import composition, events
from dpassay.privacy.accounting.leaves import Leaves, check_amplified, look_up
from dpassay.privacy.curves import GDP, Curve


def _laplace(event: events.Laplace) -> float:
    """The mu of one Laplace event: 2 KL / deviation of its loss, both over epsilon.

    The loss has mean e + e^-e - 1 and second moment e²(1 + e^-e)/2 + I, where I is that of its
    density e^{(l-e)/2}/4 on (-e, e): by a series for small e, where the closed form cancels. The
    variance is 3 for large e, where it cancels too.
    """
    e = 1 / event.noise_multiplier
    if e > 40:
        return 2 * (e - 1) / math.sqrt(3)
    mean = e / 2 * (1 - e / 3) if e < 1e-4 else 1 + math.expm1(-e) / e
    if e < 1:
        terms = (0.25**k / math.factorial(2 * k) * e ** (2 * k + 1) / (2 * k + 3) for k in range(8))
        inside = math.exp(-e / 2) / 2 * sum(terms)
    else:
        inside = ((2 * e * e - 8 * e + 16) - (2 * e * e + 8 * e + 16) * math.exp(-e)) / 4 / e**2
    return 2 * mean / math.sqrt((1 + math.exp(-e)) / 2 + inside - mean * mean)


def _pure(event: events.Pure) -> float:
    return 2 * math.sinh(event.epsilon / 2) if event.epsilon < 1400 else math.inf


def _price_sampled(event: events.Sampled) -> float:
    if not isinstance(event.event, events.Gaussian):
        raise UnsupportedEvent(f"method='gdp-clt' has no price for {event!r}.")
    check_amplified(event)
    limit = {
        "poisson": composition.clt_mu_poisson,
        "without-replacement": composition.clt_mu_uniform,
    }
    return limit[event.scheme](event.event.noise_multiplier, event.sampling_rate, 1)


_MU: dict[type, Callable[[Any], float]] = {
    events.Gaussian: lambda e: 1 / e.noise_multiplier,
    events.Pure: _pure,
    events.Laplace: _laplace,
    events.Sampled: _price_sampled,
}


def price(leaves: Leaves) -> Curve:
    """An estimate, which can lie below the truth: never a guarantee."""
    parts = (math.sqrt(n) * look_up(_MU, leaf, "gdp-clt") for leaf, n in leaves.items())
    return GDP(math.hypot(*parts), kind="estimate")
