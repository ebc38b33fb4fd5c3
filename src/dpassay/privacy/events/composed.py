"""Events that are made of others: repeated, one after another, the best of several runs."""

from dataclasses import dataclass, field

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.privacy.events.base import MOST_STEPS, Event, check_event, inherit_relation
from dpassay.privacy.selection import LAWS
from dpassay.types import Neighbouring


@dataclass(frozen=True)
class Repeated(Event):
    """``event``, ``count`` times over, each time with fresh noise; adaptively chosen."""

    event: Event
    count: int
    neighbouring: Neighbouring = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        inherit_relation(self, check_event("event", self.event))
        object.__setattr__(self, "count", _check.count("count", self.count, high=MOST_STEPS))


@dataclass(frozen=True)
class Sequence(Event):
    """``events`` one after another on the same data, adaptively chosen."""

    events: tuple[Event, ...]
    neighbouring: Neighbouring = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))
        if not self.events:
            raise InvalidArgument("events is empty; it must hold at least one event.")
        for i, event in enumerate(self.events):
            check_event(f"events[{i}]", event)
        relations = {event.neighbouring for event in self.events}
        if len(relations) > 1:
            raise InvalidArgument(
                f"events mix the neighbouring relations {sorted(relations)}. Restate them under "
                "one relation; a replace-one step is an add and a remove."
            )
        inherit_relation(self, self.events[0])


@dataclass(frozen=True)
class Selected(Event):
    """The best of a random number of runs, each of which costs ``event`` at the most.

    A run includes its score: the result of the highest score is kept, all others and their number
    are forgotten (Papernot and Steinke 2022; :mod:`dpassay.privacy.selection`). ``mean`` is the
    expected number of runs; ``law`` that of the number, "poisson" or "negative-binomial"
    (truncated to at least one run), of the given ``shape``: 1 is geometric, 0 logarithmic.
    """

    event: Event
    mean: float
    law: str = "poisson"
    shape: float = 0.0
    neighbouring: Neighbouring = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        inherit_relation(self, check_event("event", self.event))
        remedy = "It is the expected number of runs."
        _check.number("mean", self.mean, low=1, low_open=True, high=1e6, remedy=remedy)
        _check.choice("law", self.law, LAWS)
        _check.number("shape", self.shape, low=0, high=100, remedy="1 is geometric.")
