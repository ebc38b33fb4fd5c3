"""Dual Frank-Wolfe without the universe: the distribution of q is followed by records.

A point of conv{+-q_j} is q = sum_j w_j q_j with w in the l1 ball of R^m: the solver of
:mod:`dpassay.optim.frank_wolfe` moves w, of which at most T entries are not 0. The distribution

    p(x) proportional to base(x) exp(sum_j w_j q_j(x)/alpha)

is that of the dual whose entropy is taken relative to ``base``, a product of columns (noisy shares
of each, bought first). No cell is enumerated: some thousand records follow p from step to step by
Gibbs sampling, one column given the others. That they follow p only approximately does not touch
privacy: what they do depends on the chosen queries and on the noisy columns alone.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpassay.synth.models import Records
from dpassay.synth.queries.blocks import Block
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.columns import Codes
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

PARTICLES = 3000
SWEEPS = 3  # over all columns, in every step
MOST_KEPT = 50_000  # records of the released model
_LEAST = 1e-6  # a share of the base, whose logarithm must be finite


class Particles:
    """The dual as a function of w, its gradient estimated by records that follow p.

    Args:
        schema: the public domain.
        workload: the queries, in the order of w.
        truth: their answers on the data.
        base: the shares of each single column.
        alpha: the weight of entropy.
        keep_from: the first step whose records are kept.
        rng: moves the records.
        count: how many records.

    """

    def __init__(
        self,
        schema: Schema,
        workload: Workload,
        truth: FloatArray,
        base: Sequence[FloatArray],
        *,
        alpha: float,
        keep_from: int,
        rng: np.random.Generator,
        count: int = PARTICLES,
    ) -> None:
        self.schema, self.workload, self.truth = schema, workload, truth
        self.logs = [np.log(np.maximum(shares, _LEAST)) for shares in base]
        self.alpha, self.keep_from, self.rng = alpha, keep_from, rng
        self.slices = workload.slices(schema)
        zeros = np.zeros((count, 1))
        self.codes = np.stack([self._draw(log + zeros) for log in self.logs], axis=1)
        self.kept: list[Codes] = []
        self.steps = 0

    def gradient(self, w: FloatArray) -> FloatArray:
        """Answers of p_w, as the records give them, less those of the data."""
        self.follow(w)
        if self.steps >= self.keep_from:
            self.kept.append(self.codes.copy())
        self.steps += 1
        return self.workload.answers(Records(self.schema, self.codes)) - self.truth

    @property
    def model(self) -> Records:
        """The records of the kept steps, thinned evenly if they are many."""
        codes = np.concatenate(self.kept)
        return Records(self.schema, codes[:: math.ceil(len(codes) / MOST_KEPT)])

    def follow(self, w: FloatArray) -> None:
        """Move the records towards p_w by a few sweeps of Gibbs sampling."""
        pulls = [
            (block, block.spread(self.schema, w[part] / self.alpha))
            for block, part in zip(self.workload, self.slices, strict=True)
            if w[part].any()
        ]
        if not pulls:
            return
        for _ in range(SWEEPS):
            for place, name in enumerate(self.schema.names):
                near = [(block, table) for block, table in pulls if name in block.columns]
                self.codes[:, place] = self._draw(self._conditional(place, name, near))

    def _conditional(self, place: int, name: str, near: Sequence[tuple[Block, Any]]) -> FloatArray:
        """For every record, the logits of one column's values given its other columns."""
        logits = np.tile(self.logs[place], (len(self.codes), 1))
        for block, table in near:
            axis = block.columns.index(name)
            others = [c for c in block.columns if c != name]
            at = tuple(self.codes[:, p] for p in self.schema.positions(others))
            rows = np.moveaxis(table, axis, -1)
            logits += rows[at] if others else rows
        return logits

    def _draw(self, logits: FloatArray) -> Codes:
        """One value per row, by its softmax; impossible records are left to the rejection."""
        powers = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
        at = self.rng.random(len(powers)) * powers[:, -1]
        return (powers < at[:, None]).sum(axis=1)
