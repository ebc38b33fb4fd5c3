"""Directions that canaries have for themselves."""

from typing import Any

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


def rotate(rows: FloatArray, random: np.random.Generator) -> FloatArray:
    """Orthonormal rows with the same span, turned into each other at random."""
    turn, _ = np.linalg.qr(random.normal(size=(len(rows), len(rows))))
    return turn @ rows


def random_directions(n: int, size: int, random: np.random.Generator) -> FloatArray:
    """Unit vectors of random direction; orthogonal to each other if there is room."""
    if n <= size:
        return np.linalg.qr(random.normal(size=(size, n)))[0].T
    rows = random.normal(size=(n, size))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def null_directions(public: Any, n: int, size: int) -> FloatArray:
    """Orthonormal rows along which public records have the least energy: the null space first.

    Raises:
        InvalidArgument: these records have another size, or there are not so many directions.

    """
    rows = _check.array("public", public, ndim=2, remedy="Pass one row of numbers per record.")
    if rows.shape[1] != size:
        raise InvalidArgument(
            f"public has records of {rows.shape[1]} values, the data set of {size}. Pass public "
            "records of the same form."
        )
    _check.count("n", n, high=size, remedy=f"A record has {size} values, one for each canary.")
    _, vectors = np.linalg.eigh(rows.T @ rows)  # eigenvalues rise: the least energy comes first
    return vectors.T[:n]
