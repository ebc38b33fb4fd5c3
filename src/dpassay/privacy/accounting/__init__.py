"""``account``: the price of an event, by one of several methods.

Each method is a module with a price for what :func:`flatten` leaves of an event: a table from
event types to what the method needs of them, and a rule of composition, which is a sum (zCDP, RDP,
GDP), a convolution (PLD, Fourier) or a theorem (basic, advanced, optimal). What a table lacks is
refused by name.
All methods but the central limit theorem give upper bounds, so their minimum, "best", is one as
well. A new method takes one module here and one row in the table at the end.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

from dpassay import _check
from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy import events
from dpassay.privacy.accounting import clt, exponential, fourier, gdp, pld, rdp, theorems, zcdp
from dpassay.privacy.accounting.leaves import (
    Leaves,
    flatten,
    forget_allocation,
    is_loose,
    price_runs,
)
from dpassay.privacy.accounting.pld import grid
from dpassay.privacy.combined import Best
from dpassay.privacy.curves import Curve, PureDP
from dpassay.privacy.translation import from_dp_accounting

_MANY = 5_000_000  # steps from which on a PLD is slower and looser than the Fourier accountant

__all__ = [
    "ESTIMATES",
    "METHODS",
    "PROOFS",
    "PROVING",
    "AccountMethod",
    "account",
    "flatten",
    "grid",
]


AccountMethod = Literal[
    "best",
    "gdp",
    "pld",
    "fourier",
    "exponential",
    "rdp",
    "zcdp",
    "optimal",
    "advanced",
    "basic",
    "gdp-clt",
]


def account(
    event: Any,
    method: AccountMethod = "best",
    *,
    assumptions: Iterable[str] = (),
    n_records: int | None = None,
    interval: float | None = None,
) -> Curve:
    """The privacy curve of an event: an upper bound, except for "gdp-clt", which is an estimate.

    Args:
        event: an event of :mod:`dpassay.privacy.events`, or one of dp-accounting.
        method: "best" (the minimum of all that apply, but for "exponential"), "pld", "fourier" (100
            sampled Gaussian steps or more), "exponential" (exponential mechanisms of one epsilon,
            the least of all there, and only by name), "rdp", "zcdp", "gdp"
            (Gaussian events only, exact), "optimal" (equal pure events only, exact), "advanced",
            "basic", or "gdp-clt" (an estimate that can lie below the truth).
        assumptions: what is taken as public (the label set, say); kept with the curve.
        n_records: the number of records, if it is public; kept with the curve too.
        interval: grid of the PLD; none chooses it so that discretising costs less than 1e-4 of the
            loss's variance.

    Raises:
        UnsupportedEvent: the method has no price for a part of the event, which is named.

    >>> event = events.dp_sgd_event(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
    >>> account(event, "pld").epsilon(1e-5)
    1.828

    """
    event = _translate(event)
    _check.choice("method", method, METHODS)
    assumptions = tuple(assumptions)
    leaves = price_runs(flatten(event), account)
    if method == "best":
        found = _best(leaves, event, assumptions, interval)
    else:
        found = _restate(_price(method, leaves, interval), event, method, assumptions)
    return found if n_records is None else dataclasses.replace(found, n_records=n_records)


def _translate(event: Any) -> events.Event:
    if isinstance(event, events.Event):
        return event
    if type(event).__module__.startswith("dp_accounting"):
        return from_dp_accounting(event)
    raise InvalidArgument(
        f"event={event!r} must be an event, for example dp_sgd_event(noise_multiplier=1.1, "
        "sampling_rate=0.01, steps=1000)."
    )


def _price(method: AccountMethod, leaves: Leaves, interval: float | None) -> Curve:
    if any(isinstance(leaf, events.NonPrivate) for leaf in leaves):
        return PureDP(math.inf)
    if method == "pld":
        return pld.price(leaves, interval)
    if any(isinstance(leaf, events.Allocated) for leaf in leaves):
        leaves = forget_allocation(leaves)
    return _PRICES[method](leaves)


def _restate(curve: Curve, event: events.Event, method: str, assumptions: tuple[str, ...]) -> Curve:
    """The curve with its provenance filled in."""
    stated = dataclasses.replace(
        curve, neighbouring=event.neighbouring, method=method, assumptions=assumptions
    )
    if curve.kind == "exact" and is_loose(event):
        return dataclasses.replace(stated, kind="upper bound")
    return stated


def _best(
    leaves: Leaves, event: events.Event, assumptions: tuple[str, ...], interval: float | None
) -> Curve:
    curves: list[Curve] = []
    refusals: list[str] = []
    for method in _choose_proofs(leaves, interval):
        try:
            curve = _price(method, leaves, interval)
        except UnsupportedEvent as refusal:
            refusals.append(str(refusal))
            continue
        curves.append(_restate(curve, event, method, assumptions))
        if curves[-1].kind == "exact":
            return curves[-1]  # nothing can be below it
    if not curves:
        raise UnsupportedEvent("no method can price this event: " + " ".join(refusals))
    best = Best(tuple(curves), kind="upper bound", neighbouring=event.neighbouring)
    return _restate(best, event, "best", assumptions)


def _choose_proofs(leaves: Leaves, interval: float | None) -> tuple[AccountMethod, ...]:
    """The proofs of which "best" is the minimum.

    The cost of a PLD grows with the number of steps and so does its error: beyond some millions of
    sampled Gaussian steps the Fourier accountant is closer and a hundred times faster, and the PLD
    is not asked unless its grid was given.
    """
    if interval is None and sum(leaves.values()) > _MANY:
        try:
            fourier.price(leaves)
        except UnsupportedEvent:
            return PROOFS
        return tuple(method for method in PROOFS if method != "pld")
    return PROOFS


# The methods, from what is exact to what is loose; "best" asks the proofs in this order.
_PROVING: dict[AccountMethod, Callable[[Leaves], Curve]] = {
    "gdp": gdp.price,
    "pld": pld.price,
    "fourier": fourier.price,
    "exponential": exponential.price,
    "rdp": rdp.price,
    "zcdp": zcdp.price,
    "optimal": theorems.optimal,
    "advanced": theorems.advanced,
    "basic": theorems.basic,
}
_ESTIMATES: dict[AccountMethod, Callable[[Leaves], Curve]] = {"gdp-clt": clt.price}
_PRICES = _PROVING | _ESTIMATES
# By name only: learners and synthesizers plan for what "best" says, and this says less.
_BY_NAME: tuple[AccountMethod, ...] = ("exponential",)
PROVING, ESTIMATES = tuple(_PROVING), tuple(_ESTIMATES)
PROOFS: tuple[AccountMethod, ...] = tuple(method for method in PROVING if method not in _BY_NAME)
METHODS: tuple[AccountMethod, ...] = ("best", *_PRICES)
