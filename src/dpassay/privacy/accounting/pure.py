"""What each event is as pure epsilon-DP, where it is: upper bounds, rounded up."""

import math
from collections.abc import Callable
from typing import Any

from dpassay._special.margins import up
from dpassay.privacy import composition, events
from dpassay.privacy.accounting.leaves import check_amplified, look_up


def pure_epsilon(leaf: events.Event, method: str = "optimal") -> float:
    """The epsilon of an event that is epsilon-DP."""
    return look_up(_PURE, leaf, method)


def is_pure(leaf: events.Event) -> bool:
    """Whether the event is epsilon-DP for a finite epsilon."""
    inner = leaf.event if isinstance(leaf, events.Sampled) else leaf
    return type(inner) in _PURE


def _price_sampled(event: events.Sampled) -> float:
    check_amplified(event)
    return composition.amplify(pure_epsilon(event.event), 0.0, event.sampling_rate)[0]


_PURE: dict[type, Callable[[Any], float]] = {
    events.Pure: lambda e: e.epsilon,
    events.BoundedRange: lambda e: e.epsilon,
    events.Laplace: lambda e: up(1 / e.noise_multiplier),
    events.RandomizedResponse: lambda e: up(
        math.log1p(e.n_categories * (1 - e.noise_probability) / e.noise_probability)
    ),
    events.Sampled: _price_sampled,
}
