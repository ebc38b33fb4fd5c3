"""Weighted queries as sums of terms: products over columns of "is the code one of these?".

A cell of a marginal is one term with one code per column, a prefix query one with the codes up to
each threshold, anything else as many as it has cells that are not 0. Impossible combinations
are terms with a large negative weight.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpassay.synth.queries.blocks import Block, Marginal, Prefix
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.columns import Codes
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

FORBIDDEN = 1e12  # what an impossible record loses: more than any sum of weights
_CHUNK = 1 << 20

# Codes that a product-form query allows, one row per code or threshold.
_PRODUCTS: dict[type[Block], Callable[[int], FloatArray]] = {Marginal: np.eye, Prefix: np.tri}


@dataclass(frozen=True, eq=False)
class Terms:
    """constant + sum_i weights_i prod_j allowed_ij(x_j), as a function of the record x.

    Attributes:
        schema: the public domain.
        weights: one per term; the last ``n_rules`` are those of impossible combinations.
        literals: for every column, the terms that read it and, one row each, 1 for every code that
            the term allows and 0 for the others.
        constant: added to every value.
        n_rules: how many terms stand for impossible combinations.

    """

    schema: Schema
    weights: FloatArray
    literals: tuple[tuple[NDArray[np.int64], FloatArray], ...]
    constant: float = 0.0
    n_rules: int = 0

    @classmethod
    def of(
        cls,
        schema: Schema,
        workload: Workload,
        queries: NDArray[np.int64],
        weights: FloatArray | None = None,
    ) -> "Terms":
        """The weighted sum of signed queries: number k + i is the complement of query i of k.

        A query that occurs twice counts twice; weights are 1 unless given.
        """
        k = workload.n_queries(schema)
        given = np.ones(len(queries)) if weights is None else np.asarray(weights, float)
        signed = np.where(queries < k, given, -given)
        plain, inverse = np.unique(queries % k, return_inverse=True)
        summed = np.bincount(inverse, signed, len(plain))
        written = [*_write_terms(schema, workload, plain, summed), *_write_rules(schema)]
        literals = [part for part, _ in written]
        weights_of = np.concatenate([w for _, w in written]) if written else np.zeros(0)
        constant = float(given[queries >= k].sum())
        return cls(
            schema, weights_of, _by_column(schema, literals), constant, len(schema.impossible)
        )

    def values(self, codes: Codes) -> FloatArray:
        """The value of every record (row of codes)."""
        found = np.empty(len(codes))
        step = max(1, _CHUNK // max(1, len(self.weights)))
        for start in range(0, len(codes), step):
            part = codes[start : start + step]
            found[start : start + step] = self.meets(part) @ self.weights
        return found + self.constant

    def meets(self, codes: Codes) -> FloatArray:
        """1 where a record (row) meets every literal of a term (column), else 0."""
        met = np.ones((len(codes), len(self.weights)))
        for (terms, allowed), column in zip(self.literals, codes.T, strict=True):
            met[:, terms] *= allowed[:, column].T
        return met

    def upper(self, noise: FloatArray) -> FloatArray:
        """An upper bound on every record's value, for each row of noise."""
        least = np.minimum.reduceat(noise, starts(self.schema), axis=1).sum(axis=1)
        return self.constant + self.weights.clip(0).sum() - least


# One group of terms: column to one row of allowed codes per term.
_Literals = dict[int, FloatArray]


def _write_terms(
    schema: Schema, workload: Workload, queries: NDArray[np.int64], weights: FloatArray
) -> Iterable[tuple[_Literals, FloatArray]]:
    """The terms of plain queries, block by block."""
    for block, part in zip(workload.blocks, workload.slices(schema), strict=True):
        low, high = np.searchsorted(queries, [part.start, part.stop])
        if low == high:
            continue
        inner, w, places = queries[low:high] - part.start, weights[low:high], block.columns
        rows = _PRODUCTS.get(type(block), np.eye)
        if type(block) not in _PRODUCTS:
            one_each = np.zeros(block.n_queries(schema))
            one_each[inner] = w
            table = block.spread(schema, one_each).reshape(-1)
            inner = np.flatnonzero(table)
            w = table[inner]
        cells = np.unravel_index(inner, schema.shape(places))
        positions = schema.positions(places)
        yield (
            {j: rows(schema.sizes[j])[c] for j, c in zip(positions, cells, strict=True)},
            w,
        )


def _write_rules(schema: Schema) -> Iterable[tuple[_Literals, FloatArray]]:
    """Impossible combinations, as terms with a large negative weight."""
    for rule in schema.impossible:
        conditions = schema.conditions(rule)
        yield (
            {j: mask[None].astype(float) for j, mask in conditions.items()},
            np.array([-FORBIDDEN]),
        )


def _by_column(
    schema: Schema, groups: Sequence[_Literals]
) -> tuple[tuple[NDArray[np.int64], FloatArray], ...]:
    """The literals of all terms, sorted by the column that they read."""
    sizes = [len(next(iter(group.values()))) for group in groups]
    first = np.cumsum([0, *sizes])
    found = []
    for j, size in enumerate(schema.sizes):
        having = [g for g, group in enumerate(groups) if j in group]
        terms = [np.arange(first[g], first[g + 1]) for g in having]
        rows = [groups[g][j] for g in having]
        found.append(
            (np.concatenate(terms), np.concatenate(rows))
            if having
            else (np.zeros(0, np.int64), np.zeros((0, size)))
        )
    return tuple(found)


def starts(schema: Schema) -> NDArray[np.int64]:
    """Where each column begins in the one-hot form of a record."""
    return np.cumsum([0, *schema.sizes[:-1]])


def parts(schema: Schema) -> list[slice]:
    """The part of each column in the one-hot form of a record."""
    return [slice(int(a), int(a) + n) for a, n in zip(starts(schema), schema.sizes, strict=True)]
