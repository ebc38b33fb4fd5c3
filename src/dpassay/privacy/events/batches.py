"""Releases from batches: how a record gets into a batch, and how often."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.privacy.events.base import MOST_STEPS, Event, Leaf, check_event, inherit_relation
from dpassay.privacy.events.releases import Gaussian
from dpassay.privacy.users import binomial_law
from dpassay.types import Neighbouring

Scheme = Literal["poisson", "without-replacement"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
MOST_RECORDS = 1000  # of one user in a batch: each costs a term of every price
_OF_THE_EVENT: Neighbouring = cast(Neighbouring, None)  # a relation that was not stated


@dataclass(frozen=True)
class Sampled(Event):
    """``event`` run on a random subset of the records.

    ``scheme="poisson"``: every record is in with probability ``sampling_rate``, independently.
    ``scheme="without-replacement"``: a subset of the fixed share ``sampling_rate``, uniform.

    ``neighbouring`` is that of ``event`` unless stated. ``neighbouring="replace-one"`` with an
    event under add-remove and Poisson sampling says that a record of the data is replaced, while
    the noise is in units of what *one* record adds: for DP-SGD the clipping norm, not twice it.
    """

    event: Event
    sampling_rate: float
    scheme: Scheme = "poisson"
    neighbouring: Neighbouring = _OF_THE_EVENT

    def __post_init__(self) -> None:
        inner = check_event("event", self.event).neighbouring
        _check.sampling_rate(self.sampling_rate)
        _check.choice("scheme", self.scheme, SCHEMES)
        if self.neighbouring is _OF_THE_EVENT:
            inherit_relation(self, self.event)
        _check.neighbouring(self.neighbouring)
        if self.neighbouring != inner and (self.scheme, inner) != ("poisson", "add-remove"):
            raise InvalidArgument(
                f"neighbouring={self.neighbouring!r} must be that of the event, {inner!r}. Only "
                "Poisson sampling of an add-remove event can be restated, as 'replace-one'."
            )
        if self.scheme == "without-replacement" and self.neighbouring != "replace-one":
            raise InvalidArgument(
                f"neighbouring={self.neighbouring!r} must be 'replace-one' when sampling without "
                "replacement. A subset of a fixed size has no neighbour with one record more."
            )

    @property
    def is_restated(self) -> bool:
        """Whether the relation is another than that of the event inside."""
        return self.neighbouring != self.event.neighbouring

    def as_dict(self) -> dict[str, Any]:
        written = super().as_dict()
        if not self.is_restated:  # as it was written when relations were always inherited
            del written["neighbouring"]
        return written

    def __repr__(self) -> str:
        restated = f", neighbouring={self.neighbouring!r}" if self.is_restated else ""
        return (
            f"Sampled(event={self.event!r}, sampling_rate={self.sampling_rate!r}, "
            f"scheme={self.scheme!r}{restated})"
        )


@dataclass(frozen=True)
class SampledUser(Leaf):
    """Gaussian noise on a batch of which one user has j records with probability ``law[j]``.

    ``noise_multiplier`` is over what *one* record adds; neighbours differ in all records of a user.
    The number of records is drawn anew each time. A group of k records under Poisson sampling has a
    binomial law: see :func:`sample_group`.
    """

    noise_multiplier: float
    law: tuple[float, ...]
    neighbouring: Neighbouring = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "law", tuple(float(p) for p in self.law))
        remedy = "law[j] is the chance of j records in a batch."
        for j, p in enumerate(self.law):
            _check.number(f"law[{j}]", p, low=0, high=1, remedy=remedy)
        if not 2 <= len(self.law) <= MOST_RECORDS + 1 or not abs(math.fsum(self.law) - 1) <= 1e-9:
            raise InvalidArgument(
                f"law={self.law!r} must hold 2 to {MOST_RECORDS + 1} numbers that sum to 1. "
                f"{remedy}"
            )
        if self.neighbouring != "add-remove":
            raise InvalidArgument(
                f"neighbouring={self.neighbouring!r} must be 'add-remove' for SampledUser: a user "
                "is added or removed."
            )


def sample_group(noise_multiplier: float, sampling_rate: float, group_size: int) -> SampledUser:
    """The event of one Gaussian release for a group of records, each sampled on its own.

    >>> sample_group(2.0, 0.5, 2).law
    (0.25, 0.5, 0.25)

    """
    _check.sampling_rate(sampling_rate)
    remedy = "It is the number of records of a user."
    size = _check.count("group_size", group_size, high=MOST_RECORDS, remedy=remedy)
    return SampledUser(noise_multiplier, binomial_law(size, sampling_rate))


@dataclass(frozen=True)
class Shuffled(Event):
    """One epoch over shuffled or fixed batches: every record takes part in one of ``steps`` steps.

    It is priced as ``event`` alone, one participation: whoever knows the batches gains that, and
    nothing less is proved for sums of batches. The price of Poisson sampling is *not* valid for it.

    The batches of the other records must not depend on the record: under add-remove it is one more
    in its batch, or one less. A list that is cut anew into batches of one size moves others from
    batch to batch when it gets longer; only under replace-one does this event describe it.
    """

    event: Event
    steps: int
    neighbouring: Neighbouring = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        inherit_relation(self, check_event("event", self.event))
        object.__setattr__(self, "steps", _check.count("steps", self.steps, high=MOST_STEPS))


@dataclass(frozen=True)
class Allocated(Event):
    """One epoch in which every record takes part in ``k`` of its steps, uniform, each on its own.

    Also known as random allocation or balls in bins: ``of`` is the number of steps of an epoch, and
    ``event`` what one of them does, Gaussian noise under add-remove. Batches vary in size, as with
    Poisson sampling; a loader that shuffles and cuts into batches of one size is
    :class:`Shuffled`. See :mod:`dpassay.privacy.allocation`.
    """

    event: Gaussian
    k: int = field(kw_only=True)
    of: int = field(kw_only=True)
    neighbouring: Neighbouring = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        must_be = "Gaussian(noise_multiplier): no other noise is priced."
        inherit_relation(self, _check.instance("event", self.event, Gaussian, must_be))
        remedy = "It is the number of steps of an epoch."
        object.__setattr__(self, "of", _check.count("of", self.of, high=MOST_STEPS, remedy=remedy))
        remedy = "It is the number of steps that a record takes part in."
        object.__setattr__(self, "k", _check.count("k", self.k, high=self.of, remedy=remedy))
        if self.neighbouring != "add-remove":
            raise InvalidArgument(
                f"neighbouring={self.neighbouring!r} must be 'add-remove' for Allocated. For "
                "replace-one price a group of two: dpassay.privacy.replace_one_from_add_remove."
            )


@dataclass(frozen=True)
class MatrixMechanism(Leaf):
    """All releases of a matrix mechanism (DP-FTRL), C x + z: one Gaussian release of C x.

    ``noise_multiplier`` is the deviation of z over the clipping norm; ``sensitivity`` what a record
    moves in C x, in clipping norms: :func:`dpassay.privacy.strategy_sensitivity`.
    """

    noise_multiplier: float
    sensitivity: float
    neighbouring: Neighbouring = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.sensitivity(self.sensitivity)
