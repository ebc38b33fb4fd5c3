"""What was done to the data: a frozen vocabulary, priced by :mod:`dpassay.privacy.accounting`.

An event describes; it does not compute. Its meaning never changes, so that an event stored today
can be priced by a better accountant tomorrow. Noise is in units of the sensitivity under the
event's neighbouring relation: the same number describes add/remove and replace-one, only the
sensitivity that it was divided by differs.

dp-accounting has no event for pure epsilon, (epsilon, delta) or the exponential mechanism, which is
why this vocabulary exists; :mod:`dpassay.privacy.translation` goes from one to the other.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast, get_args

from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._special.margins import up
from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy.selection import LAWS
from dpassay.privacy.strategies import check_bands
from dpassay.privacy.users import binomial_law
from dpassay.types import Neighbouring

Scheme = Literal["poisson", "without-replacement"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
MOST_RECORDS = 1000  # of one user in a batch: each costs a term of every price
MOST_STEPS = 10**18  # more than anybody takes; floats hold it to rounding, which the prices cover


class Event:
    """Base of all events; use one of its kinds.

    Attributes:
        neighbouring: the neighbouring relation that the event's sensitivity was taken under.

    """

    neighbouring: Neighbouring

    def as_dict(self) -> dict[str, Any]:
        """The event in words and numbers that JSON can hold; :func:`from_dict` reads it back.

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
class _Leaf(Event):
    """An event that is not made of others; the last field is its neighbouring relation."""

    def __post_init__(self) -> None:
        for part in fields(self):
            if part.name in _CHECKS:
                _CHECKS[part.name](getattr(self, part.name))


@dataclass(frozen=True)
class Gaussian(_Leaf):
    """Gaussian noise; ``noise_multiplier`` is its deviation over the l2 sensitivity."""

    noise_multiplier: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class Laplace(_Leaf):
    """Laplace noise; ``noise_multiplier`` is its scale over the l1 sensitivity, 1/epsilon."""

    noise_multiplier: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class Pure(_Leaf):
    """Anything that is epsilon-DP: Laplace noisy max, permute-and-flip, a stated guarantee."""

    epsilon: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class Approx(_Leaf):
    """Anything that is (epsilon, delta)-DP."""

    epsilon: float
    delta: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class BoundedRange(_Leaf):
    """The exponential mechanism: for any pair its privacy loss lies in an interval of this width.

    It is ``epsilon``-DP and epsilon²/8-zCDP (Cesar and Rogers 2021). Only the exponential mechanism
    (Gumbel noise) has this property; other noisy-max rules are :class:`NoisyMax`.
    """

    epsilon: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class NoisyMax(_Leaf):
    """The index of the largest score after noise on the line: permute-and-flip, Laplace noisy max.

    It has the privacy curve of Laplace noise at ``epsilon``, which says more than epsilon-DP.
    Proof: let the noise have a hazard rate f <= r (1 - F), r = epsilon/(2 sensitivity), or
    epsilon/sensitivity if all scores move in one direction; exponential, Laplace and Gumbel noise
    of these scales have. For a set S of indices let D be the largest noisy score in S less the
    largest outside it, and G(d) = P(D > d). The density of the largest in S is a sum over its
    members of f times the chance that the others lie below, hence at most r times the chance that
    the largest exceeds; so is that of the largest outside. So |G'| <= r min(G, 1 - G), with
    equality for the Laplace law, and a neighbour moves D by at most epsilon/r. Both equations start
    at the same G(0): no set is told apart better than by Laplace noise.
    """

    epsilon: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class SampledUser(_Leaf):
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
class MatrixMechanism(_Leaf):
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


@dataclass(frozen=True)
class Shuffled(Event):
    """One epoch over shuffled or fixed batches: every record takes part in one of ``steps`` steps.

    It is priced as ``event`` alone, one participation: whoever knows the batches gains that, and
    nothing less is proved for sums of batches. The price of Poisson sampling is *not* valid for it.
    """

    event: Event
    steps: int
    neighbouring: Neighbouring = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _inherit(self, _event("event", self.event))
        object.__setattr__(self, "steps", _check.count("steps", self.steps, high=MOST_STEPS))


@dataclass(frozen=True)
class ZeroConcentrated(_Leaf):
    """Anything that is rho-zCDP."""

    rho: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class RandomizedResponse(_Leaf):
    """A category is reported: with ``noise_probability`` a uniform one, else the true one.

    A record's answer is replaced, never absent, so the relation is replace-one.
    """

    noise_probability: float
    n_categories: int = 2
    neighbouring: Neighbouring = "replace-one"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.number(
            "noise_probability",
            self.noise_probability,
            low=0,
            high=1,
            low_open=True,
            remedy="It is the chance of a uniform answer; without noise use NonPrivate().",
        )
        _check.count("n_categories", self.n_categories, low=2)
        if self.neighbouring != "replace-one":
            raise InvalidArgument(
                f"neighbouring={self.neighbouring!r} must be 'replace-one' for RandomizedResponse. "
                "The answer of a respondent is replaced by another; nobody is added or removed."
            )


@dataclass(frozen=True)
class NonPrivate(_Leaf):
    """Something that has no guarantee: every price is infinite."""

    neighbouring: Neighbouring = "add-remove"


def _inherit(event: Event, part: Event) -> None:
    """Set the relation of a composed event: that of its parts, derived and never stated."""
    object.__setattr__(event, "neighbouring", part.neighbouring)


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
        inner = _event("event", self.event).neighbouring
        _check.sampling_rate(self.sampling_rate)
        _check.choice("scheme", self.scheme, SCHEMES)
        if self.neighbouring is _OF_THE_EVENT:
            _inherit(self, self.event)
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
class Repeated(Event):
    """``event``, ``count`` times over, each time with fresh noise; adaptively chosen."""

    event: Event
    count: int
    neighbouring: Neighbouring = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _inherit(self, _event("event", self.event))
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
            _event(f"events[{i}]", event)
        relations = {event.neighbouring for event in self.events}
        if len(relations) > 1:
            raise InvalidArgument(
                f"events mix the neighbouring relations {sorted(relations)}. Restate them under "
                "one relation; a replace-one step is an add and a remove."
            )
        _inherit(self, self.events[0])


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
        _inherit(self, _event("event", self.event))
        remedy = "It is the expected number of runs."
        _check.number("mean", self.mean, low=1, low_open=True, high=1e6, remedy=remedy)
        _check.choice("law", self.law, LAWS)
        _check.number("shape", self.shape, low=0, high=100, remedy="1 is geometric.")


def _write(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_write(part) for part in cast(tuple[Any, ...], value)]
    return value.as_dict() if isinstance(value, Event) else value


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


def _event(name: str, value: Any) -> Event:
    must_be = "an event of dpassay.privacy.events, such as Gaussian(1.0)."
    return _check.instance(name, value, Event, must_be)


def dp_sgd_event(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    *,
    neighbouring: Neighbouring = "add-remove",
    scheme: Scheme = "poisson",
    group_size: int = 1,
) -> Repeated:
    """The event of DP-SGD: ``steps`` Gaussian releases, each on a random batch.

    Args:
        noise_multiplier: deviation of the noise over the sensitivity of the sum of clipped
            gradients: over the clipping norm under add-remove, over *twice* it under replace-one,
            where one gradient is exchanged for another.
        sampling_rate: probability that a record is in a batch, in (0, 1].
        steps: number of updates, at least 1.
        neighbouring: "add-remove" or "replace-one".
        scheme: how batches are drawn, "poisson" or "without-replacement".
        group_size: the records of one user, who is added or removed as a whole; Poisson sampling.

    >>> dp_sgd_event(noise_multiplier=1.1, sampling_rate=0.01, steps=1000).count
    1000

    """
    steps = _check.count("steps", steps, high=MOST_STEPS, remedy="It is the number of updates.")
    _check.sampling_rate(sampling_rate)
    step: Event = Gaussian(noise_multiplier, neighbouring)
    if group_size != 1:
        if (neighbouring, scheme) != ("add-remove", "poisson"):
            raise InvalidArgument(
                f"group_size={group_size!r} must be 1 unless records are added or removed and "
                "sampled by scheme='poisson'."
            )
        step = sample_group(noise_multiplier, sampling_rate, group_size)
    elif sampling_rate < 1 and (neighbouring, scheme) == ("replace-one", "poisson"):
        # Priced from the noise over what one record adds, which is half of what replacing moves.
        step = Sampled(Gaussian(2 * noise_multiplier), sampling_rate, neighbouring="replace-one")
    elif sampling_rate < 1:
        step = Sampled(step, sampling_rate, scheme)
    return Repeated(step, steps)


def bandmf_event(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    bands: int,
    *,
    strategy: ArrayLike | None = None,
) -> Repeated:
    """The event of a banded matrix mechanism with sampled batches (BandMF).

    The records are split into ``bands`` groups that take turns, and each step samples from its
    group alone, with ``bands`` times the rate: Repeated(Sampled(Gaussian, bands · rate), steps /
    bands) (Choquette-Choo et al. 2023, theorem 4). To price the steps with the rate over all data
    is the usual mistake.

    Args:
        noise_multiplier: deviation of the noise over the clipping norm.
        sampling_rate: the size of a batch over the number of *all* records.
        steps: number of updates.
        bands: of the strategy, which has columns of norm 1.
        strategy: the matrix, if it is to be checked.

    Raises:
        InvalidArgument: ``bands · sampling_rate`` exceeds 1: a group has fewer records than a
            batch. Or the strategy is not such a matrix.

    >>> bandmf_event(1.0, 0.005, 2000, 10).event.sampling_rate
    0.05

    """
    _check.sampling_rate(sampling_rate)
    bands = _check.count("bands", bands, high=MOST_STEPS)
    if strategy is not None:
        check_bands(strategy, bands)
    rate = up(bands * sampling_rate)
    if bands * sampling_rate > 1:
        raise InvalidArgument(
            f"bands={bands} times sampling_rate={sampling_rate:g} is above 1: a batch would be "
            "larger than the group that it is drawn from. Use fewer bands or smaller batches."
        )
    return dp_sgd_event(noise_multiplier, min(rate, 1.0), -(-steps // bands))
