"""Privacy-loss distributions: losses are put on a grid, rounded upwards, and convolved."""

import math
from dataclasses import replace

from dpassay import _check
from dpassay.errors import UnsupportedEvent
from dpassay.privacy import events
from dpassay.privacy.accounting.leaves import Leaves, flatten
from dpassay.privacy.allocation import LEAST_NOISE, MOST_NOISE, AllocatedLosses
from dpassay.privacy.curves import PLD
from dpassay.privacy.loss_distribution import Composition
from dpassay.privacy.loss_pmf import Losses, ProfileLosses
from dpassay.privacy.profiles import profiles

_INTERVAL = 1e-4
_MAX_CELLS, _SOME_CELLS = 1 << 20, 1 << 17  # of a grid that stands alone, and of one of several
# The mass that each grid counts as infinite: the first for one event, the others for all together.
_TAILS = 1e-40, 1e-18, 1e-14, 1e-11, 1e-8


def price(leaves: Leaves, interval: float | None = None, coarser: int = 1) -> PLD:
    """An upper bound: the losses of all events, convolved; on a grid of its own choice if none.

    That may be made ``coarser`` by a power of two, where time matters more than the last digits.
    """
    found = _losses(leaves)
    if interval is not None:
        interval = _check.number("interval", interval, low=0, high=1, low_open=True)
        return _discretise(found, interval, _TAILS[0])
    grids = _grids(found)
    first, *others = (_discretise(found, coarser * width, tail) for width, tail in grids)
    return replace(first, finer=tuple(others))


def _losses(leaves: Leaves) -> list[tuple[Losses, int]]:
    return [(_losses_of(leaf), n) for leaf, n in leaves.items()]


def _losses_of(leaf: events.Event) -> Losses:
    if not isinstance(leaf, events.Allocated):
        return ProfileLosses(*profiles(leaf))
    noise = leaf.event.noise_multiplier
    if not LEAST_NOISE <= noise <= MOST_NOISE:
        raise UnsupportedEvent(
            f"{leaf!r}: allocation is priced for noise multipliers from {LEAST_NOISE} to "
            f"{MOST_NOISE:g}. method='best' prices others as if a record's steps were known."
        )
    return AllocatedLosses(noise, leaf.of)


def _discretise(found: list[tuple[Losses, int]], interval: float, tail: float) -> PLD:
    sides = (False,) if all(losses.is_symmetric for losses, _ in found) else (False, True)
    directions = [
        [(losses.discretise(add, interval, tail), n) for losses, n in found] for add in sides
    ]
    return PLD(tuple(Composition(parts) for parts in directions))


def grid(event: events.Event) -> float:
    """The interval that ``account(event, "pld")`` chooses; the first, if there are several."""
    return _grids(_losses(flatten(event)))[0][0]


def _grids(found: list[tuple[Losses, int]]) -> list[tuple[float, float]]:
    """Intervals, and the mass of one event that each takes for infinite.

    An interval h should have h²/4, what rounding adds to a variance, at most 1e-4 of it. Where rare
    losses are so large that no grid of that interval holds them, as at tiny sampling rates, there
    are several: the first holds all losses, the next are finer and leave out rare ones, which
    matter at deltas as small as they are rare. Each is an upper bound, and so is the least of them.
    """
    grids: list[tuple[float, float]] = []
    steps = sum(n for _, n in found)
    for tail in (_TAILS[0], *(tail / steps for tail in _TAILS[1:])):
        scales = [(*losses.scale(tail), n) for losses, n in found]
        variance = sum(n * v for _, v, n in scales)
        fine = min(_INTERVAL, 0.02 * math.sqrt(variance / steps)) if variance > 0 else _INTERVAL
        wanted = max(fine, 20 * math.sqrt(variance) / _MAX_CELLS)
        width = max(width for width, _, _ in scales)
        if width / _SOME_CELLS <= 2 * wanted and not grids:
            return [(_short(max(wanted, width / _MAX_CELLS)), tail)]
        interval = _short(max(wanted, width / _SOME_CELLS))
        if not grids or interval < grids[-1][0] / 2:
            grids.append((interval, tail))
        if interval <= 2 * wanted:
            break
    return grids


def _short(interval: float) -> float:
    """The interval rounded up to 24 bits: its multiples, the losses on the grid, are then exact."""
    mantissa, exponent = math.frexp(interval)
    return math.ldexp(math.ceil(mantissa * 2**24), exponent - 24)
