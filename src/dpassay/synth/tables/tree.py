"""Cells of numbers that are divided where many records are, from noisy counts of every level.

A level is one histogram: the cells that are divided have nothing in common, so that a record falls
into one of their parts at most. Which cells are divided is decided by counts of levels before it.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from dpassay.types import FloatArray

PARTS = 8
MANY = 6  # deviations of the noise: a cell with more records is divided
UNEVEN = 3  # deviations by which a part must differ from its even share
FEW = 2  # deviations: neighbours that both have less are joined


class Noise(Protocol):
    """The noise that is added to the counts of one level of the tree."""

    @property
    def sigma(self) -> float: ...
    def add(self, counts: Any) -> FloatArray: ...


class Leaves(NamedTuple):
    """Cells side by side: one more edge than cells, their noisy counts and deviations."""

    edges: FloatArray
    counts: FloatArray
    deviations: FloatArray


def grow(x: FloatArray, leaves: Leaves, noise: Noise, levels: int, *, integer: bool) -> Leaves:
    """The leaves after so many levels; each level costs one histogram with this noise.

    Args:
        x: the numbers.
        leaves: where to begin.
        noise: of one level.
        levels: all of them are paid for, and all are drawn.
        integer: whether ends of cells are whole numbers.

    """
    for _ in range(levels):
        leaves = _divide(x, leaves, noise, integer=integer)
    return narrow(join(leaves))


def _divide(x: FloatArray, leaves: Leaves, noise: Noise, *, integer: bool) -> Leaves:
    """One level: cells with many records in parts, if those are not even."""
    many = leaves.counts > MANY * noise.sigma
    parts = [
        _cut(low, high, integer) if good else np.array([low, high])
        for low, high, good in zip(leaves.edges[:-1], leaves.edges[1:], many, strict=True)
    ]
    edges = np.concatenate([parts[0][:1], *(part[1:] for part in parts)])
    counts = np.histogram(x, edges)[0].astype(float)
    divided = np.repeat([len(part) > 2 for part in parts], [len(part) - 1 for part in parts])
    counts[divided] = noise.add(counts[divided])
    return _keep_uneven(parts, counts, leaves, noise.sigma)


def _cut(low: float, high: float, integer: bool) -> FloatArray:
    edges = np.linspace(low, high, PARTS + 1)
    edges = np.unique(np.round(edges) if integer else edges)
    return np.array([low, high]) if len(edges) < 3 else edges


def _keep_uneven(parts: Any, counts: FloatArray, leaves: Leaves, sigma: float) -> Leaves:
    edges, kept, deviations, at = [leaves.edges[:1]], [], [], 0
    for i, part in enumerate(parts):
        own = counts[at : at + len(part) - 1]
        at += len(own)
        even = own.sum() * np.diff(part) / (part[-1] - part[0])
        if len(own) > 1 and (np.abs(own - even) > UNEVEN * sigma).any():
            edges.append(part[1:])
            kept.append(own)
            deviations.append(np.full(len(own), sigma))
        else:
            edges.append(part[-1:])
            kept.append(leaves.counts[i : i + 1])
            deviations.append(leaves.deviations[i : i + 1])
    return Leaves(*map(np.concatenate, (edges, kept, deviations)))


def join(leaves: Leaves) -> Leaves:
    """Neighbours of which both have next to nothing are one leaf."""
    edges, counts, variances = [leaves.edges[0]], list[float](), list[float]()
    open_ = False  # whether the last leaf may take in the next one
    for end, count, deviation in zip(leaves.edges[1:], *leaves[1:], strict=True):
        little = count < FEW * deviation
        if open_ and little:
            edges[-1], counts[-1] = end, counts[-1] + count
            variances[-1] += deviation**2
            continue
        edges.append(end)
        counts.append(count)
        variances.append(deviation**2)
        open_ = little
    return Leaves(np.array(edges), np.array(counts), np.sqrt(variances))


def narrow(leaves: Leaves) -> Leaves:
    """First and last leaves that have next to nothing are at most 8 times as wide as the next one.

    A few records that lie just outside of where all others are would else be spread over octaves.
    Those farther away go to the new bound.
    """
    edges = leaves.edges.copy()
    if len(leaves.counts) > 1:
        little = leaves.counts < FEW * leaves.deviations
        if little[0]:
            edges[0] = max(edges[0], edges[1] - PARTS * (edges[2] - edges[1]))
        if little[-1]:
            edges[-1] = min(edges[-1], edges[-2] + PARTS * (edges[-2] - edges[-3]))
    return leaves._replace(edges=edges)
