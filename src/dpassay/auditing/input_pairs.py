"""What every description of an input makes: pairs of data sets that are neighbours."""

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

    """

    name: str
    data: Any
    data_prime: Any


@runtime_checkable
class Input(Protocol):
    """A description of inputs.

    Attributes:
        trusted: whether it says itself what a neighbour is, so that nobody else can check it.

    """

    @property
    def trusted(self) -> bool: ...

    def pairs(self, neighbouring: Neighbouring) -> list[Pair]:
        """Neighbouring pairs, the most promising first."""
        ...
