"""Gaussian DP: the squares of mu add, exactly; Gaussian events only."""

import math
from collections.abc import Callable
from typing import Any

from dpassay.privacy import events
from dpassay.privacy.accounting.leaves import Leaves, look_up
from dpassay.privacy.curves import GDP, Curve


def price(leaves: Leaves) -> Curve:
    """The exact curve of Gaussian events; :func:`flatten` has left one of them.

    mu is a few units off; the margin of the curve's delta allows for that.
    """
    parts = (math.sqrt(n) * look_up(_MU, leaf, "gdp") for leaf, n in leaves.items())
    return GDP(math.hypot(*parts))


_MU: dict[type, Callable[[Any], float]] = {events.Gaussian: lambda e: 1 / e.noise_multiplier}
