"""The base of all events, and what their fields must be."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

from dpassay import _check
from dpassay.types import Neighbouring

MOST_STEPS = 10**18  # more than anybody takes; floats hold it to rounding, which the prices cover


class Event:
    """Base of all events; use one of its kinds.

    Attributes:
        neighbouring: the neighbouring relation that the event's sensitivity was taken under.

    """

    neighbouring: Neighbouring

    def as_dict(self) -> dict[str, Any]:
        """The event in words and numbers that JSON can hold; :func:`from_dict` reads it back.

        >>> from dpassay.privacy.events import Gaussian
        >>> Gaussian(2.0).as_dict()
        {'kind': 'Gaussian', 'noise_multiplier': 2.0, 'neighbouring': 'add-remove'}

        """
        stated = [part.name for part in fields(cast(Any, self)) if part.init]
        written = {name: _write(getattr(self, name)) for name in stated}
        return {"kind": type(self).__name__, **written}


def _check_rho(rho: float) -> float:
    return _check.number("rho", rho, low=0, remedy="It bounds the Rényi divergence over its order.")


def _check_epsilon(epsilon: float) -> float:
    return _check.epsilon(epsilon, finite=True)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "noise_multiplier": _check.noise_multiplier,
    "epsilon": _check_epsilon,
    "delta": _check.delta,
    "rho": _check_rho,
    "neighbouring": _check.neighbouring,
}
"""What a field of an event must be, by its name, which means the same in every event."""


@dataclass(frozen=True)
class Leaf(Event):
    """An event that is not made of others; the last field is its neighbouring relation."""

    def __post_init__(self) -> None:
        for part in fields(self):
            if part.name in _CHECKS:
                _CHECKS[part.name](getattr(self, part.name))


def _write(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_write(part) for part in cast(tuple[Any, ...], value)]
    return value.as_dict() if isinstance(value, Event) else value


def inherit_relation(event: Event, part: Event) -> None:
    """Set the relation of a composed event: that of its parts, derived and never stated."""
    object.__setattr__(event, "neighbouring", part.neighbouring)


def check_event(name: str, value: Any) -> Event:
    """The value, which must be an event."""
    must_be = "an event of dpassay.privacy.events, such as Gaussian(1.0)."
    return _check.instance(name, value, Event, must_be)
