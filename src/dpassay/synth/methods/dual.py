"""The dual of query release as a problem for Frank-Wolfe: an objective, and a hull of queries.

The mathematics is in :mod:`dpassay.synth.methods.frank_wolfe`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.synth.models import Distribution, Records
from dpassay.synth.queries.blocks import spread_out
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

DIAMETER = 2.0  # of the hull, in the l_inf norm


@dataclass(frozen=True, eq=False)
class QueryHull:
    """The convex hull of the queries of a workload and their negatives, as tables over all cells.

    Vertices are the queries in order, then their negatives; none is stored. It keeps to
    :class:`~dpassay.optim.polytopes.Polytope`, but for the norms: the geometry here is l_inf, in
    which every vertex has norm 1, and ``l1_norm`` is that 1, the most that one record's cell gives
    to a score.
    """

    schema: Schema
    workload: Workload
    l1_norm: float = 1.0
    l1_diameter: float = DIAMETER

    @property
    def n_vertices(self) -> int:
        """The number of vertices: two per query, one for each sign."""
        return 2 * self.workload.n_queries(self.schema)

    def start(self) -> FloatArray:
        """The origin: half way between a query and its negative."""
        return np.zeros(self.schema.sizes)

    def contains(self, w: FloatArray) -> bool:
        """Whether w can lie inside; exact membership is a linear programme that nobody needs."""
        return bool(np.abs(w).max() <= 1)

    def products(self, gradient: FloatArray) -> FloatArray:
        """<gradient, s> for every vertex: the answers of the gradient, as if it were data."""
        answers = self.workload.answers(Distribution(self.schema, gradient))
        return np.concatenate([answers, -answers])

    def move(self, w: FloatArray, vertex: int, step: float) -> None:
        """Replace w by (1 - step) w + step s, in place."""
        negative, query = divmod(vertex, self.n_vertices // 2)
        starts = [part.start for part in self.workload.slices(self.schema)]
        which = int(np.searchsorted(starts, query, side="right")) - 1
        block = self.workload.blocks[which]
        one = np.zeros(block.n_queries(self.schema))
        one[query - starts[which]] = -step if negative else step
        w *= 1 - step
        w += spread_out(self.schema, block, block.spread(self.schema, one))

    def gap(self, w: FloatArray, products: FloatArray, gradient: FloatArray) -> float:
        """max_s <gradient, w - s>."""
        return float(np.vdot(gradient, w) - products.min())


class Dual:
    """-psi, to be minimised; keeps the means of the distributions that it passes through.

    Args:
        data: the records, with the public number that counts are divided by.
        alpha: the weight of entropy.
        keep_from: the first step whose distribution counts for ``mean``.

    """

    def __init__(self, data: Records, alpha: float, keep_from: int = 0) -> None:
        self.data, self.alpha, self.keep_from = data, alpha, keep_from
        self.possible = data.schema.possible_cells()
        self.total, self.steps = np.zeros(data.schema.sizes), 0
        self._truth: FloatArray | None = None

    @property
    def truth(self) -> FloatArray:
        """p_D; counted once, and never for batches."""
        if self._truth is None:
            self._truth = self.data.marginal(self.data.schema.names)
        return self._truth

    @property
    def mean(self) -> FloatArray:
        """The mean of the distributions from step ``keep_from`` on."""
        return self.total / self.total.sum()

    def distribution(self, w: FloatArray) -> FloatArray:
        """softmax(w/alpha) over the possible cells."""
        p = np.where(self.possible, np.exp((w - w.max()) / self.alpha), 0.0)
        return p / p.sum()

    def value(self, w: FloatArray) -> float:
        """The dual objective -psi(w)."""
        cells = (w / self.alpha)[self.possible]
        top = cells.max()
        return float(
            self.alpha * (top + np.log(np.exp(cells - top).sum())) - np.vdot(w, self.truth)
        )

    def gradient(self, w: FloatArray) -> FloatArray:
        """The difference p - p_D."""
        return self.pass_through(w) - self.truth

    def pass_through(self, w: FloatArray) -> FloatArray:
        """The distribution of w, kept for the mean."""
        p = self.distribution(w)
        if self.steps >= self.keep_from:
            self.total += p
        self.steps += 1
        return p

    def batch(self, rows: Any, n_records: float) -> "_Batch":
        """The same with some of the records, counted over ``n_records``."""
        schema = self.data.schema
        counts = Records(schema, self.data.codes[rows]).counts(schema.names)
        return _Batch(self, counts / n_records)


@dataclass(frozen=True, eq=False)
class _Batch:
    """The dual on some records, of which ``truth`` is the distribution."""

    dual: Dual
    truth: FloatArray

    def gradient(self, w: FloatArray) -> FloatArray:
        return self.dual.pass_through(w) - self.truth
