"""What was done to the data: a frozen vocabulary, priced by :mod:`dpassay.privacy.accounting`.

An event describes; it does not compute. Its meaning never changes, so that an event stored today
can be priced by a better accountant tomorrow. Noise is in units of the sensitivity under the
event's neighbouring relation: the same number describes add/remove and replace-one, only the
sensitivity that it was divided by differs.

dp-accounting has no event for pure epsilon, (epsilon, delta) or the exponential mechanism, which is
why this vocabulary exists; :mod:`dpassay.privacy.translation` goes from one to the other.
"""

from collections.abc import Mapping
from typing import Any, cast

from dpassay.errors import UnsupportedEvent
from dpassay.privacy.events.base import MOST_STEPS, Event
from dpassay.privacy.events.batches import (
    MOST_RECORDS,
    SCHEMES,
    Allocated,
    MatrixMechanism,
    Sampled,
    SampledUser,
    Scheme,
    Shuffled,
    sample_group,
)
from dpassay.privacy.events.composed import Repeated, Selected, Sequence
from dpassay.privacy.events.releases import (
    Approx,
    BoundedRange,
    Gaussian,
    Laplace,
    NoisyMax,
    NonPrivate,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
)
from dpassay.privacy.events.training import (
    allocation_event,
    bandmf_event,
    dp_sgd_event,
    shuffled_event,
)

__all__ = [
    "MOST_RECORDS",
    "MOST_STEPS",
    "SCHEMES",
    "Allocated",
    "Approx",
    "BoundedRange",
    "Event",
    "Gaussian",
    "Laplace",
    "MatrixMechanism",
    "NoisyMax",
    "NonPrivate",
    "Pure",
    "RandomizedResponse",
    "Repeated",
    "Sampled",
    "SampledUser",
    "Scheme",
    "Selected",
    "Sequence",
    "Shuffled",
    "ZeroConcentrated",
    "allocation_event",
    "bandmf_event",
    "dp_sgd_event",
    "from_dict",
    "sample_group",
    "shuffled_event",
]

_KINDS: tuple[type[Event], ...] = (
    Gaussian,
    Laplace,
    Pure,
    Approx,
    BoundedRange,
    NoisyMax,
    SampledUser,
    MatrixMechanism,
    Shuffled,
    Allocated,
    ZeroConcentrated,
    RandomizedResponse,
    NonPrivate,
    Sampled,
    Repeated,
    Sequence,
    Selected,
)


def from_dict(written: Mapping[str, Any]) -> Event:
    """The event that :meth:`Event.as_dict` wrote.

    Raises UnsupportedEvent for a kind that this version does not know.

    >>> from_dict(Repeated(Gaussian(2.0), 3).as_dict())
    Repeated(event=Gaussian(noise_multiplier=2.0, neighbouring='add-remove'), count=3)

    """
    kinds = {kind.__name__: kind for kind in _KINDS}
    values = dict(written)
    name = values.pop("kind", None)
    if name not in kinds:
        raise UnsupportedEvent(f"{name!r} is no kind of event; known are {', '.join(kinds)}.")
    return kinds[name](**{key: _read(value) for key, value in values.items()})


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read(part) for part in cast(list[Any], value))
    if isinstance(value, Mapping):
        return from_dict(cast(Mapping[str, Any], value))
    return value
