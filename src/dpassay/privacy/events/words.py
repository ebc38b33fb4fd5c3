"""Events on one line, as the command line and reports print them."""

from dataclasses import fields
from typing import Any

from dpassay.privacy.events.base import Event
from dpassay.privacy.events.batches import Allocated, Sampled, SampledUser, Shuffled
from dpassay.privacy.events.composed import Repeated, Selected, Sequence

RELATIONS = {
    "add-remove": "neighbouring data sets differ by one record added or removed",
    "replace-one": "neighbouring data sets differ by one record replaced",
}


def relation_in_words(event: Event) -> str:
    """What neighbouring data sets of an event differ by.

    >>> from dpassay.privacy.events import dp_sgd_event
    >>> relation_in_words(dp_sgd_event(1.1, 0.01, 1000, group_size=4))
    'neighbouring data sets differ by one user of up to 4 records added or removed'

    """
    inner = event.event if isinstance(event, Repeated) else event
    if isinstance(inner, SampledUser):
        user = f"one user of up to {len(inner.law) - 1} records"
        return f"neighbouring data sets differ by {user} added or removed"
    return RELATIONS[event.neighbouring]


def in_words(event: Event) -> str:
    """The event on one line, without its neighbouring relation.

    >>> from dpassay.privacy.events import dp_sgd_event
    >>> in_words(dp_sgd_event(1.1, 0.01, 1000))
    '1000 × Gaussian(noise_multiplier=1.1) on poisson batches of rate 0.01'
    >>> from dpassay.privacy.events import shuffled_event
    >>> in_words(shuffled_event(1.1, 100, 10))
    '10 × Gaussian(noise_multiplier=1.1) on 100 shuffled or fixed batches'

    """
    if isinstance(event, Repeated):
        return f"{event.count} × {in_words(event.event)}"
    if isinstance(event, Sequence):
        return ", then ".join(in_words(part) for part in event.events)
    if isinstance(event, Selected):
        return f"the best of about {event.mean:g} runs of {in_words(event.event)}"
    if isinstance(event, Shuffled):
        return f"{in_words(event.event)} on {event.steps} shuffled or fixed batches"
    if isinstance(event, Allocated):
        batches = f"{event.of} batches, each record in {event.k} of them at random"
        return f"{in_words(event.event)} on {batches}"
    if isinstance(event, Sampled):
        over = ", over what one record adds," if event.is_restated else ""
        batches = f"{event.scheme} batches of rate {event.sampling_rate:g}"
        return f"{in_words(event.event)}{over} on {batches}"
    if isinstance(event, SampledUser):
        noise = f"Gaussian(noise_multiplier={event.noise_multiplier:g})"
        return f"{noise} on batches with up to {len(event.law) - 1} records of a user"
    leaf: Any = event
    parts = (part.name for part in fields(leaf) if part.name != "neighbouring")
    return f"{type(event).__name__}({', '.join(f'{p}={getattr(event, p):g}' for p in parts)})"
