"""Zero-concentrated DP: one number rho per event, and these add."""

import math
from collections.abc import Callable
from typing import Any

from dpassay._special.margins import product_up, up
from dpassay.privacy import composition, events
from dpassay.privacy.accounting.leaves import Leaves, look_up
from dpassay.privacy.accounting.pure import is_pure, pure_epsilon
from dpassay.privacy.curves import ZCDP, Curve


def price(leaves: Leaves) -> Curve:
    """An upper bound: the sum of the rhos."""
    return ZCDP(up(math.fsum(product_up(n, rho(leaf)) for leaf, n in leaves.items())))


def rho(leaf: events.Event) -> float:
    """The rho of one event."""
    if is_pure(leaf) and type(leaf) not in _RHO:
        return composition.zcdp_of_pure(pure_epsilon(leaf))
    return look_up(_RHO, leaf, "zcdp")


_RHO: dict[type, Callable[[Any], float]] = {
    events.Gaussian: lambda e: product_up(0.5 / e.noise_multiplier, 1 / e.noise_multiplier),
    events.ZeroConcentrated: lambda e: e.rho,
    events.BoundedRange: lambda e: min(
        composition.zcdp_of_bounded_range(e.epsilon), composition.zcdp_of_pure(e.epsilon)
    ),
}
