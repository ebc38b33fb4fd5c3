"""What every description of an input makes: pairs of data sets that are neighbours."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from dpassay.types import Neighbouring


@dataclass(frozen=True, eq=False)
class Pair:
    """Two data sets that are neighbours.

    Attributes:
        name: how they were made; it tells nothing of a record.
        data: the first.
        data_prime: the second.
        simpler: makes neighbouring pairs that are simpler, the simplest first: fewer records, fewer
            answers that move, smaller numbers. The same ones each time, with names of their own.
        nearby: makes pairs that are like this one, on which a mechanism may leak more.

    """

    name: str
    data: Any
    data_prime: Any
    simpler: "Callable[[], Iterable[Pair]]" = tuple
    nearby: "Callable[[], Iterable[Pair]]" = tuple


@runtime_checkable
class Input(Protocol):
    """A description of data sets, from which neighbouring pairs are made.

    Attributes:
        trusted: whether it says itself what a neighbour is, so that nobody else can check it.

    """

    @property
    def trusted(self) -> bool: ...

    def pairs(self, neighbouring: Neighbouring) -> list[Pair]:
        """Neighbouring pairs, the most promising first."""
        ...
