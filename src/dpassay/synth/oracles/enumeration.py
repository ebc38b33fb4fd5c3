"""An exact oracle for small universes: it looks at every cell."""

import math
from dataclasses import dataclass

import numpy as np

from dpassay.synth.models import universe
from dpassay.synth.oracles.base import Found, state_found
from dpassay.synth.queries.terms import Terms, parts
from dpassay.types import FloatArray

MOST_CELLS = 1 << 16


@dataclass(frozen=True)
class Enumeration:
    """Exact: looks at every cell of the universe, of which there may be at most 2^16."""

    def __call__(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found:
        """The best records; ties are broken at random."""
        cells = universe(goal.schema, MOST_CELLS)
        values = goal.values(cells)
        best = np.empty(len(noise), np.int64)
        for row, sigma in enumerate(noise):
            found = values.reshape(goal.schema.sizes)
            for j, part in enumerate(parts(goal.schema)):
                shape = [-1 if i == j else 1 for i in range(found.ndim)]
                found = found - sigma[part].reshape(shape)
            ties = np.flatnonzero(found.reshape(-1) >= found.max() - 1e-12)
            best[row] = ties[rng.integers(len(ties))]
        return state_found(goal, noise, cells[best], np.full(len(noise), -math.inf))
