"""The central limit theorem: many small losses look like one Gaussian. An estimate, not a bound."""

import math
from collections.abc import Callable
from typing import Any

from dpassay.errors import UnsupportedEvent
from dpassay.privacy import composition, events
from dpassay.privacy.accounting.leaves import Leaves, check_amplified, look_up
from dpassay.privacy.curves import GDP, Curve


def _clt_laplace(event: events.Laplace) -> float:
    """mu² of one Laplace event: 4 KL² / Var, from the law of its loss."""
    e = 1 / event.noise_multiplier
    kl = e + math.expm1(-e)
    second = e * e * (1 + math.exp(-e)) / 2
    second += ((2 * e * e - 8 * e + 16) - (2 * e * e + 8 * e + 16) * math.exp(-e)) / 4
    return 4 * kl * kl / (second - kl * kl)


def _clt_sampled(event: events.Sampled) -> float:
    if not isinstance(event.event, events.Gaussian):
        raise UnsupportedEvent(f"method='gdp-clt' has no price for {event!r}.")
    check_amplified(event)
    limit = {
        "poisson": composition.clt_mu_poisson,
        "without-replacement": composition.clt_mu_uniform,
    }
    return limit[event.scheme](event.event.noise_multiplier, event.sampling_rate, 1) ** 2


_CLT: dict[type, Callable[[Any], float]] = {
    events.Gaussian: lambda e: e.noise_multiplier**-2,
    events.Pure: lambda e: (2 * math.sinh(e.epsilon / 2)) ** 2,
    events.Laplace: _clt_laplace,
    events.Sampled: _clt_sampled,
}


def price(leaves: Leaves) -> Curve:
    """An estimate, which can lie below the truth: never a guarantee."""
    squared = sum(n * look_up(_CLT, leaf, "gdp-clt") for leaf, n in leaves.items())
    return GDP(math.sqrt(squared), kind="estimate")
