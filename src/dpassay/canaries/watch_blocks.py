"""Disjoint signed blocks of parameters: canary gradients that are orthogonal by construction.

The parameters are permuted at random and cut into m blocks of b = d // m each. The gradient of
canary i is +-C / sqrt(b) on its block and 0 elsewhere, with random signs: its norm is C, and two of
them share no parameter, so that the largest eigenvalue of their Gram matrix over C² is 1 (kappa).
Spherical noise has independent components along them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpassay.types import FloatArray

KAPPA = 1.0
"""The largest eigenvalue of the canaries' Gram matrix over C²: disjoint blocks are orthogonal."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Which parameters each canary has, and with which signs.

    Attributes:
        n_parameters: of the model, d.
        places: of shape (m, b): positions in the flat parameters; none occurs twice.
        signs: +1 and -1, of the same shape.

    """

    n_parameters: int
    places: NDArray[np.int64]
    signs: NDArray[np.int8]

    @property
    def width(self) -> int:
        """How many parameters each canary has."""
        return self.places.shape[1]

    def project(self, vector: FloatArray) -> FloatArray:
        """The component of a flat vector along each canary's direction, of norm 1."""
        return (vector[self.places] * self.signs).sum(axis=1) / np.sqrt(self.width)

    def spread(self, weights: FloatArray) -> FloatArray:
        """The sum of the canaries' directions, each times its weight, as a flat vector."""
        vector = np.zeros(self.n_parameters)
        vector[self.places] = self.signs * (np.asarray(weights)[:, None] / np.sqrt(self.width))
        return vector


def make_blocks(n_parameters: int, n_canaries: int, seed: int) -> Blocks:
    """Blocks that depend on the seed and the two numbers alone.

    >>> blocks = make_blocks(10, 3, seed=0)
    >>> blocks.places.shape, len(set(blocks.places.ravel().tolist()))
    ((3, 3), 9)

    """
    random, width = np.random.default_rng(seed), n_parameters // n_canaries
    places = random.permutation(n_parameters)[: n_canaries * width]
    signs = random.choice(np.array([-1, 1], np.int8), places.size)
    return Blocks(n_parameters, places.reshape(n_canaries, width), signs.reshape(-1, width))
