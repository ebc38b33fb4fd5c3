"""Gaussian DP: the squares of mu add, exactly; Gaussian events only."""

import math

from dpassay.privacy import events
from dpassay.privacy.accounting.leaves import Leaves, look_up
from dpassay.privacy.curves import GDP, Curve


def price(leaves: Leaves) -> Curve:
    """The exact curve of Gaussian events."""
    return GDP(math.sqrt(sum(n * look_up(_MU_SQUARED, leaf, "gdp") for leaf, n in leaves.items())))


_MU_SQUARED = {events.Gaussian: lambda e: e.noise_multiplier**-2}
