"""Events on one line, as the command line prints them."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

RELATIONS = {
    "add-remove": "neighbouring data sets differ by one record added or removed",
    "replace-one": "neighbouring data sets differ by one record replaced",
}
_EPOCHS: dict[str, Callable[[Any], str]] = {
    "Shuffled": lambda event: f"{event.steps} shuffled or fixed batches",
    "Allocated": lambda event: f"{event.of} batches, each record in {event.k} of them at random",
}


def relation_in_words(event: Any) -> str:
    """What neighbouring data sets of an event differ by.

    >>> from dpassay.privacy.events import dp_sgd_event
    >>> relation_in_words(dp_sgd_event(1.1, 0.01, 1000, group_size=4))
    'neighbouring data sets differ by one user of up to 4 records added or removed'

    """
    inner = event.event if hasattr(event, "count") else event
    if hasattr(inner, "law"):
        user = f"one user of up to {len(inner.law) - 1} records"
        return f"neighbouring data sets differ by {user} added or removed"
    return RELATIONS[event.neighbouring]


def in_words(event: Any) -> str:
    """The event on one line, without its neighbouring relation.

    >>> from dpassay.privacy.events import dp_sgd_event
    >>> in_words(dp_sgd_event(1.1, 0.01, 1000))
    '1000 × Gaussian(noise_multiplier=1.1) on poisson batches of rate 0.01'
    >>> from dpassay.privacy.events import shuffled_event
    >>> in_words(shuffled_event(1.1, 100, 10))
    '10 × Gaussian(noise_multiplier=1.1) on 100 shuffled or fixed batches'

    """
    if hasattr(event, "count"):
        return f"{event.count} × {in_words(event.event)}"
    if type(event).__name__ in _EPOCHS:
        return f"{in_words(event.event)} on {_EPOCHS[type(event).__name__](event)}"
    if hasattr(event, "scheme"):
        over = ", over what one record adds," if event.is_restated else ""
        batches = f"{event.scheme} batches of rate {event.sampling_rate:g}"
        return f"{in_words(event.event)}{over} on {batches}"
    if hasattr(event, "law"):
        return f"Gaussian(noise_multiplier={event.noise_multiplier:g}) on batches with up to " + (
            f"{len(event.law) - 1} records of a user"
        )
    parts = (f.name for f in fields(event) if f.name != "neighbouring")
    return f"{type(event).__name__}({', '.join(f'{p}={getattr(event, p):g}' for p in parts)})"
