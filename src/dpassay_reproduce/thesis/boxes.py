"""The generated data of Micali 2022, sections 4.2 to 4.4: every class is uniform on a box.

The document draws one class on [a, b]^p and the other on [c, d]^p, with "a, b, c, d chosen by
hand", and speaks of overlaps of 20, 40 and 60 %. Here the *shared fraction* f of the boxes' side is
what is meant: both are cubes of side 2/(2 - f) in opposite corners of [-1, 1]^p, so that in every
coordinate the two intervals share a part f of their length. f = 0 makes them touch, f = 1 is the
whole cube for both, and a negative f leaves a gap of -f sides between them. The cubes share a part
f^p of their volume, which is next to nothing in many dimensions.

Three classes live in the plane: two squares in the lower corners, which share f of their side along
the first axis (and all of it along the second), and one in the middle of the upper edge, which
shares f of its side with both along the second axis.

Entries are in [-1, 1] by construction, so that the bounds that the private learners need are known
without a look at the data. Classes have equally many records.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


@dataclass(frozen=True)
class Boxes:
    """Uniform boxes in [-1, 1]^p, one per class.

    Attributes:
        shared: the fraction f of the side that boxes share, at most 1; negative for a gap.
        n_features: p; 2 for three classes.
        n_classes: 2 or 3.

    >>> Boxes(shared=0.5, n_features=1).corners().ravel().tolist()
    [-0.33333333333333326, -1.0]

    """

    shared: float
    n_features: int = 2
    n_classes: int = 2

    def __post_init__(self) -> None:
        _check.number("shared", self.shared, high=1, remedy="1 lays all boxes on one another.")
        _check.count("n_features", self.n_features)
        if self.n_classes != 2 and (self.n_classes, self.n_features) != (3, 2):
            raise InvalidArgument(
                f"n_classes={self.n_classes} with n_features={self.n_features}: there are two "
                "classes in any dimension, or three in the plane."
            )

    @property
    def side(self) -> float:
        """The side s of every box: 2 - s is left of the cube, and (1 - f) s is that much."""
        return 2 / (2 - self.shared)

    def corners(self) -> FloatArray:
        """The lowest corner of every class's box, of shape (classes, p).

        Class 0 of two is the upper one: the document's label 1, whose probability is modelled.
        """
        low, high = -1.0, 1 - self.side
        if self.n_classes == 2:
            return np.repeat([[high], [low]], self.n_features, axis=1)
        return np.array([[low, low], [high, low], [-self.side / 2, high]])

    def draw(
        self, n_records: int, rng: np.random.Generator, copies: int = 1
    ) -> tuple[FloatArray, NDArray[np.intp]]:
        """Data sets of ``n_records`` each: X of shape (copies, n, p), and the classes, (n,).

        Classes take turns, so that their numbers differ by one record at most.
        """
        classes = np.arange(_check.count("n_records", n_records)) % self.n_classes
        X = rng.random((_check.count("copies", copies), n_records, self.n_features))
        X *= self.side
        X += self.corners()[classes]
        return X, classes

    def best_accuracy(self) -> float:
        """The accuracy of the best classifier of two classes, 1 - f^p/2 for f > 0."""
        if self.n_classes != 2:
            raise InvalidArgument(f"n_classes={self.n_classes}: it is known for two classes.")
        return 1 - math.pow(max(self.shared, 0.0), self.n_features) / 2
