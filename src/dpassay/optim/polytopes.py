"""Polytopes, as Frank-Wolfe sees them: by their vertices, none of which need be stored.

The vertices must not depend on the data. Norms are l1, the norm in which the losses of linear
models have constants that do not grow with the dimension.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dpassay import _check
from dpassay.types import FloatArray


class Polytope(Protocol):
    """What the solver asks of a polytope.

    ``l1_norm`` is the largest l1 norm of a vertex, ``l1_diameter`` an upper bound on the l1
    distance of two points.
    """

    @property
    def n_vertices(self) -> int: ...
    @property
    def l1_norm(self) -> float: ...
    @property
    def l1_diameter(self) -> float: ...

    def start(self) -> FloatArray:
        """A point to start from, the same for all data; a new array."""
        ...

    def contains(self, w: FloatArray) -> bool:
        """Whether w lies inside, but for rounding."""
        ...

    def products(self, gradient: FloatArray) -> FloatArray:
        """<gradient, s> for every vertex s, in their order."""
        ...

    def move(self, w: FloatArray, vertex: int, step: float) -> None:
        """Replace w by (1 - step) w + step s, in place."""
        ...

    def gap(self, w: FloatArray, products: FloatArray, gradient: FloatArray) -> float:
        """max_s <gradient, w - s>."""
        ...


class _Gap:
    """The Frank-Wolfe gap, which is the same for all."""

    def gap(self, w: FloatArray, products: FloatArray, gradient: FloatArray) -> float:
        """max_s <gradient, w - s>; an upper bound on how far a convex function is from its best."""
        return float(np.vdot(gradient, w) - products.min())


_SLACK = 1e-12  # for sums that should be 1 and are not


class _OnAxes(_Gap):
    """A polytope whose vertices lie on the axes, all of one norm."""

    @property
    def l1_norm(self) -> float:
        """The l1 norm of every vertex."""
        raise NotImplementedError

    @property
    def l1_diameter(self) -> float:
        """The l1 distance between two vertices, on different axes or opposite to each other."""
        return 2 * self.l1_norm


_SIZE = "It is the l1 norm that w may have."


@dataclass(frozen=True)
class L1Ball(_OnAxes):
    """{w: ||w||_1 <= radius}: vertices +radius e_j in order, then -radius e_j."""

    dimension: int
    radius: float

    def __post_init__(self) -> None:
        _check.count("dimension", self.dimension)
        _check.number("radius", self.radius, low=0, low_open=True, remedy=_SIZE)

    @property
    def n_vertices(self) -> int:
        """The number of vertices: two per coordinate."""
        return 2 * self.dimension

    @property
    def l1_norm(self) -> float:
        """The l1 norm of every vertex: the radius."""
        return self.radius

    def start(self) -> FloatArray:
        """The origin, where a run starts."""
        return np.zeros(self.dimension)

    def contains(self, w: FloatArray) -> bool:
        """Whether w lies inside, but for rounding."""
        return bool(np.abs(w).sum() <= self.radius * (1 + _SLACK))

    def products(self, gradient: FloatArray) -> FloatArray:
        """<gradient, s> for every vertex."""
        products = np.empty(2 * self.dimension)
        np.multiply(gradient, self.radius, out=products[: self.dimension])
        np.multiply(gradient, -self.radius, out=products[self.dimension :])
        return products

    def move(self, w: FloatArray, vertex: int, step: float) -> None:
        """Replace w by (1 - step) w + step s, in place."""
        w *= 1 - step
        negative, at = divmod(vertex, self.dimension)
        w[at] += -step * self.radius if negative else step * self.radius


@dataclass(frozen=True)
class Simplex(_OnAxes):
    """{w >= 0: sum w = total}: vertices total · e_j."""

    dimension: int
    total: float = 1.0

    def __post_init__(self) -> None:
        _check.count("dimension", self.dimension)
        _check.number("total", self.total, low=0, low_open=True, remedy=_SIZE)

    @property
    def n_vertices(self) -> int:
        """The number of vertices: one per coordinate."""
        return self.dimension

    @property
    def l1_norm(self) -> float:
        """The l1 norm of every point."""
        return self.total

    def start(self) -> FloatArray:
        """The centre, where a run starts."""
        return np.full(self.dimension, self.total / self.dimension)

    def contains(self, w: FloatArray) -> bool:
        """Whether w lies inside, but for rounding."""
        return bool((w >= 0).all() and abs(w.sum() - self.total) <= _SLACK * self.total)

    def products(self, gradient: FloatArray) -> FloatArray:
        """<gradient, s> for every vertex."""
        return self.total * np.asarray(gradient)

    def move(self, w: FloatArray, vertex: int, step: float) -> None:
        """Replace w by (1 - step) w + step s, in place."""
        w *= 1 - step
        w[vertex] += step * self.total


@dataclass(frozen=True, eq=False)
class Hull(_Gap):
    """The convex hull of the rows of ``vertices``, which must not depend on the data."""

    vertices: FloatArray
    l1_norm: float = field(init=False)
    l1_diameter: float = field(init=False)

    def __post_init__(self) -> None:
        remedy = "One vertex per row."
        rows = _check.array("vertices", self.vertices, ndim=2, empty=False, remedy=remedy)
        # Two points are no farther apart than the two vertices' distances to any third point.
        spread = np.abs(rows - rows.mean(axis=0)).sum(axis=1).max()
        object.__setattr__(self, "vertices", rows)
        object.__setattr__(self, "l1_norm", float(np.abs(rows).sum(axis=1).max()))
        object.__setattr__(self, "l1_diameter", 2 * float(spread))

    @property
    def n_vertices(self) -> int:
        """The number of vertices: one per row."""
        return len(self.vertices)

    def start(self) -> FloatArray:
        """The mean of the vertices."""
        return self.vertices.mean(axis=0)

    def contains(self, w: FloatArray) -> bool:
        """Whether w lies inside, but for rounding: is it a mean of vertices with weights >= 0?"""
        from scipy.optimize import nnls

        weights = np.ones((1, self.n_vertices))
        _, distance = nnls(np.vstack([self.vertices.T, weights]), np.append(w, 1.0))
        return distance <= 1e-9 * (1 + self.l1_norm)

    def products(self, gradient: FloatArray) -> FloatArray:
        """<gradient, s> for every vertex."""
        return self.vertices @ gradient

    def move(self, w: FloatArray, vertex: int, step: float) -> None:
        """Replace w by (1 - step) w + step s, in place."""
        w *= 1 - step
        w += step * self.vertices[vertex]
