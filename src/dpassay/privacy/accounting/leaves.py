"""The uncomposed parts of an event, which the accounting methods price one by one."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dpassay.errors import UnsupportedEvent
from dpassay.privacy import events
from dpassay.privacy.curves import Curve
from dpassay.types import Neighbouring

Leaves = dict[events.Event, int]
_LEAST = math.ulp(0.0)  # of all noise: whose price is infinite, as that of any smaller one


@dataclass(frozen=True, repr=False)
class PricedSelection(events.Event):
    """A selection together with what its price rests on.

    Attributes:
        selected: the event.
        neighbouring: its relation.
        run: the uncomposed parts of one run.
        price_run: gives the best upper bound that any method has for one run.

    """

    selected: events.Selected
    neighbouring: Neighbouring
    run: Leaves = field(compare=False)
    price_run: Callable[[], Curve] = field(compare=False)

    def __repr__(self) -> str:
        return repr(self.selected)


def price_runs(leaves: Leaves, account: Callable[[events.Event], Curve]) -> Leaves:
    """The leaves, every selection among them with a way to the best price of one of its runs.

    That price is a recursion: a run is an event like any other. ``account`` is handed in, so that
    the methods, which ``account`` calls, need not know it.
    """

    def price_run(leaf: events.Event) -> events.Event:
        if isinstance(leaf, events.Sampled):
            return replace(leaf, event=price_run(leaf.event))
        if not isinstance(leaf, events.Selected):
            return leaf
        run = price_runs(flatten(leaf.event), account)
        return PricedSelection(leaf, leaf.neighbouring, run, partial(account, leaf.event))

    return {price_run(leaf): n for leaf, n in leaves.items()}


def flatten(event: events.Event) -> Leaves:
    """The uncomposed events and how often each occurs; all plain Gaussians become a single one.

    A noisy maximum becomes the Laplace noise whose curve it has.

    Gaussian noise composes exactly: the squares of 1/noise_multiplier add (Dong, Roth and Su 2022,
    corollary 3.3).
    """
    return _merge(_walk(event, 1))


def _merge(parts: Iterable[tuple[events.Event, int]]) -> Leaves:
    """Parts by kind, with their number; Gaussians as the one that they are together."""
    leaves: Leaves = {}
    for leaf, count in parts:
        leaves[leaf] = leaves.get(leaf, 0) + count
    gaussians = {leaf: n for leaf, n in leaves.items() if isinstance(leaf, events.Gaussian)}
    if sum(gaussians.values()) > 1:
        rest = {leaf: n for leaf, n in leaves.items() if leaf not in gaussians}
        noise = _combine_noise([(leaf.noise_multiplier, n) for leaf, n in gaussians.items()])
        leaves = {events.Gaussian(noise, next(iter(gaussians)).neighbouring): 1} | rest
    return leaves


def _combine_noise(parts: list[tuple[float, int]]) -> float:
    """The noise of one Gaussian that is all of them; shares of the least do not overflow."""
    least = min(noise for noise, _ in parts)
    squared = math.fsum(n * (least / noise) ** 2 for noise, n in parts)
    return max(least / math.sqrt(squared), _LEAST)


def _walk(event: events.Event, count: int) -> Iterable[tuple[events.Event, int]]:
    if isinstance(event, events.Repeated):
        yield from _walk(event.event, count * event.count)
    elif isinstance(event, events.Sequence):
        for part in event.events:
            yield from _walk(part, count)
    elif isinstance(event, events.Sampled):
        inner = flatten(event.event)
        if len(inner) > 1 or sum(inner.values()) > 1:
            raise UnsupportedEvent(
                f"{event!r}: a sample can be priced when one event, or Gaussians only, use it. "
                "Sample anew for each part, or state the inside as a Pure or Approx event."
            )
        yield replace(event, event=next(iter(inner))), count
    elif isinstance(event, events.Selected):
        unlimited = [leaf for leaf in flatten(event.event) if isinstance(leaf, events.NonPrivate)]
        yield (unlimited[0] if unlimited else event), count
    elif isinstance(event, events.Shuffled):
        yield from _walk(event.event, count)
    elif isinstance(event, events.Allocated):
        yield from _split_allocation(event, count)
    elif isinstance(event, events.MatrixMechanism):
        noise = math.nextafter(event.noise_multiplier / event.sensitivity, 0.0)
        yield events.Gaussian(max(noise, _LEAST), event.neighbouring), count
    elif isinstance(event, events.NoisyMax) and event.epsilon > 0:
        # Rounded down: its reciprocal must not fall below epsilon.
        noise = max(math.nextafter(1 / event.epsilon, 0.0), _LEAST)
        yield events.Laplace(noise, event.neighbouring), count
    elif isinstance(event, events.NoisyMax):
        yield events.Pure(0.0, event.neighbouring), count
    else:
        yield event, count


def _split_allocation(event: events.Allocated, count: int) -> Iterable[tuple[events.Event, int]]:
    """One step each of ``k`` groups of steps, of sizes that differ by one at the most.

    To split the steps into such groups at random and to choose one of each is to choose k of all,
    uniform. Given the groups, the choices are independent, and what is released without the record
    is the same for all of them: so profiles, which are convex, are at most those of k allocations
    of one step each (Feldman and Shenfeld 2025).
    """
    size, larger = divmod(event.of, event.k)
    for of, n in ((size, event.k - larger), (size + 1, larger)):
        if n:
            one = events.Allocated(event.event, k=1, of=of)
            yield (event.event if of == 1 else one), count * n


def forget_allocation(leaves: Leaves) -> Leaves:
    """The leaves as if a record's steps were known: one participation for each allocation.

    That is an upper bound: to know them is to know more.
    """
    return _merge(
        (leaf.event if isinstance(leaf, events.Allocated) else leaf, n)
        for leaf, n in leaves.items()
    )


def is_loose(event: events.Event) -> bool:
    """Whether the price of the event's leaves is an upper bound on it even where theirs is exact.

    So for shuffled batches, unless there is one alone.
    """
    if isinstance(event, events.Shuffled):
        return event.steps > 1 or is_loose(event.event)
    if isinstance(event, events.Sequence):
        return any(map(is_loose, event.events))
    if isinstance(event, events.Allocated):
        return event.of > 1
    inner = getattr(event, "event", None)
    return isinstance(inner, events.Event) and is_loose(inner)


def look_up(table: dict[type, Callable[..., Any]], leaf: events.Event, method: str) -> Any:
    """What the method's table says of the leaf; refused by name if it says nothing."""
    if type(leaf) not in table:
        raise UnsupportedEvent(
            f"method={method!r} has no price for {leaf!r}. Other methods may; see method='best'."
        )
    return table[type(leaf)](leaf)


def check_amplified(event: events.Sampled) -> None:
    """Refuse a sampling scheme for which no amplification is proved here."""
    if event.scheme == "poisson" and event.neighbouring == "replace-one":
        raise UnsupportedEvent(
            f"{event!r}: no price for Poisson sampling under replace-one. method='pld' has one for "
            "Gaussian, Laplace and Pure events."
        )
