"""Learned classifiers as plain arrays: the score of one output in microseconds.

scikit-learn checks its input at every call and starts threads, half a millisecond for a single row.
An audit that plays one output at a time asks for one score at a time. Both classes give the numbers
of the model that they were made from, up to rounding.

**Trees.** The leaves of a tree are numbered from left to right. A node that sends a row to the
right rules out the leaves of its left subtree; of those that no node has ruled out, the first is
the row's leaf (Lucchese et al. 2015). So all nodes of all trees are compared at once, and no path
is followed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.types import FloatArray

_MOST_LEAVES = 62  # that fit into the bits of one whole number


@dataclass(frozen=True, eq=False)
class Trees:
    """A sum of trees; every field has one entry per node that asks something, but for the last.

    Attributes:
        features: which entry of a row is looked at.
        thresholds: up to which it goes to the left.
        nan_left: whether a missing entry does.
        kept: the leaves, as bits, that are left of all if the row goes to the right.
        starts: where the nodes of each tree begin.
        values: of the leaves, a line for each tree.
        base: what is added to the sum.

    """

    features: NDArray[np.intp]
    thresholds: FloatArray
    nan_left: NDArray[np.bool_]
    kept: NDArray[np.int64]
    starts: NDArray[np.intp]
    values: FloatArray
    base: float

    def score(self, row: FloatArray) -> float:
        """The score of one row."""
        seen = row[self.features]
        left = (seen <= self.thresholds) | (np.isnan(seen) & self.nan_left)
        alive = np.bitwise_and.reduceat(np.where(left, -1, self.kept), self.starts)
        first = np.log2(alive & -alive).astype(np.intp)  # the lowest bit: a power of 2, exactly
        return float(self.values[np.arange(len(first)), first].sum()) + self.base


def compile_trees(model: Any) -> Trees | None:
    """The trees of a gradient boosting classifier; None if they cannot be read."""
    trees: list[Any] = [pair[0].nodes for pair in getattr(model, "_predictors", [])]
    base = getattr(model, "_baseline_prediction", None)
    if not trees or base is None or any(nodes["is_categorical"].any() for nodes in trees):
        return None
    if max(int(nodes["is_leaf"].sum()) for nodes in trees) > _MOST_LEAVES:
        return None
    parts = [_Tree(nodes) for nodes in trees if not nodes["is_leaf"][0]]
    stumps = sum(float(nodes["value"][0]) for nodes in trees if nodes["is_leaf"][0])
    if not parts:
        return None
    asked = [part.nodes[part.asking] for part in parts]
    width = max(len(part.values) for part in parts)
    sizes = [len(part.asking) for part in parts]
    return Trees(
        np.concatenate([nodes["feature_idx"] for nodes in asked]).astype(np.intp),
        np.concatenate([nodes["num_threshold"] for nodes in asked]).astype(float),
        np.concatenate([nodes["missing_go_to_left"] for nodes in asked]).astype(bool),
        np.concatenate([part.kept for part in parts]),
        np.cumsum([0, *sizes[:-1]]),
        np.stack([np.pad(part.values, (0, width - len(part.values))) for part in parts]),
        float(np.ravel(base)[0]) + stumps,
    )


class _Tree:
    """One tree, its leaves numbered from left to right."""

    def __init__(self, nodes: Any) -> None:
        self.nodes = nodes
        self.values: list[float] = []
        self.asking: list[int] = []
        self._kept: list[int] = []
        self._walk(0)
        # Bits beyond the last leaf stay set in -1; they never come first.
        self.kept = np.array(self._kept, dtype=np.int64)

    def _walk(self, at: int) -> int:
        """The leaves below a node, as bits."""
        node = self.nodes[at]
        if node["is_leaf"]:
            self.values.append(float(node["value"]))
            return 1 << (len(self.values) - 1)
        place = len(self.asking)
        self.asking.append(at)
        self._kept.append(0)
        left = self._walk(int(node["left"]))
        self._kept[place] = ~left
        return left | self._walk(int(node["right"]))


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear score of the entries, their squares, and flags for missing ones.

    Attributes:
        fill: what a missing entry is taken for.
        centres: of the entries.
        scales: of the entries.
        farthest: beyond which scaled entries say no more.
        flagged: the entries that have a flag, set where they are missing.
        linear: coefficients of the scaled entries and, behind them, of the flags.
        squared: those of their squares.
        offset: what is added.

    """

    fill: FloatArray
    centres: FloatArray
    scales: FloatArray
    farthest: float
    flagged: NDArray[np.intp]
    linear: FloatArray
    squared: FloatArray
    offset: float

    def score(self, row: FloatArray) -> float:
        """The score of one row."""
        missing = np.isnan(row)
        x = np.where(missing, self.fill, row)
        if self.flagged.size:
            x = np.concatenate([x, missing[self.flagged]])
        x = np.minimum(np.maximum((x - self.centres) / self.scales, -self.farthest), self.farthest)
        return float(x @ self.linear + (x * x) @ self.squared) + self.offset
