"""Counts of records by cell plus Gaussian noise.

A record falls into one cell of a marginal: to add or remove one moves one count by 1, and to
replace one moves two. The l2 sensitivity of a whole table of counts is therefore 1, or √2, however
many cells it has.
"""

import math

import numpy as np

from dpassay.mechanisms.additive import add_noise
from dpassay.mechanisms.noise import Source
from dpassay.types import FloatArray, Neighbouring

SENSITIVITY: dict[str, float] = {"add-remove": 1.0, "replace-one": math.sqrt(2)}
"""The l2 sensitivity of one table of counts."""


def noisy_counts(
    counts: FloatArray, sigma: float, chosen: Source, neighbouring: Neighbouring
) -> FloatArray:
    """The counts plus noise of deviation ``sigma``; exact noise on a lattice from a secure source.

    Its event is ``Gaussian(sigma / SENSITIVITY[neighbouring], neighbouring)``.
    """
    if not chosen.is_exact:
        return counts + sigma * chosen.generator.standard_normal(counts.shape)
    distance = SENSITIVITY[neighbouring]
    return add_noise("gaussian", counts.astype(np.int64), sigma / distance, distance, chosen)
