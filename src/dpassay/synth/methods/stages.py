"""Pairs at the resolution that the budget allows: measured in stages, by Gaussian noise alone.

Every pair of columns at full resolution gets the same small part of the budget, and a pair of two
columns with many values then has less than the noise in each cell: its relation is lost. Instead,
with shares of the budget that are fixed beforehand:

- **A** every column by itself, at full resolution;
- **B** every pair, on a grid of n/(c σ) cells at most (c is ``resolution``): values are merged to
  groups by the noisy columns of A (:mod:`dpassay.synth.methods.resolution`);
- **C** the pairs that stood out in B once more, at most as many as there are columns, the stronger
  the more of the budget, on the finer grid that this allows; if none stood out, all pairs;
- **D** if a target y is named: (a, b, y) for all pairs of the :data:`STRONGEST` columns that are
  most strongly related to y. Pairs with y then get :data:`WITH_TARGET` times the weight in B.

**Proof.** Stage t is a vector of tables of counts, table i divided by its σ_i. A record falls into
one cell of every table, whatever its groups: to add or remove one moves table i by 1, to replace
one by √2 at most, in the l2 norm; call it Δ. So the vector moves by Δ √(sum_i 1/σ_i²), and stage t
chooses σ_i = Δ/(µ_t √w_i) with weights w_i of sum 1: by µ_t, whatever the weights are. Which
tables, groups and weights are functions of what earlier stages released. Adaptive composition of
µ_t-GDP mechanisms with fixed µ_t is √(sum µ_t²)-GDP (Dong, Roth and Su 2022, Corollary 3.3), which
is what the event, one Gaussian for each stage or table, says.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpassay.mechanisms.noise import Source
from dpassay.privacy import Event, Gaussian, gaussian_noise_multiplier
from dpassay.privacy.budget import Budget
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.synth.measurements import SENSITIVITY, Measurement, measure, measurement_event
from dpassay.synth.methods.resolution import (
    Strength,
    choose_grid,
    find_strength,
    merge_values,
)
from dpassay.synth.models import Groups, Records
from dpassay.synth.tables.schema import Schema
from dpassay.types import Neighbouring

Sets = tuple[tuple[str, ...], ...]

RESOLUTION = 1.0
COLUMNS = (0.1, 0.5)
"""The least and the largest share of the columns by themselves (A)."""
SHARES = {False: (0.6, 0.3, 0.0), True: (0.4, 0.3, 0.2)}
"""Shares of the stages B, C and D beside the least share of A, without and with a target."""
STRONGEST = 5
WITH_TARGET = 4.0
_ROOM = 1 + 1e-12  # more noise than the event states, for rounding of the weights


@dataclass(frozen=True)
class StagedPlan:
    """What is measured, with which noise, from public quantities alone.

    Attributes:
        columns: all columns, each by itself.
        pairs: the pairs of the second stage.
        sigmas: the deviations of the noise on counts of the columns, then of the pairs.
        again: the deviation for all of the third stage, if it were one table.
        triples: the same for the fourth; infinite if there is none.
        target: the column to predict, if any.
        n_records: the public number of records.
        resolution: how many times the noise the mean count of a merged cell is, at least.
        neighbouring: what neighbours are.
        event: what all stages do to the data.

    """

    columns: Sets
    pairs: Sets
    sigmas: tuple[float, ...]
    again: float
    triples: float
    target: str | None
    n_records: int
    resolution: float
    neighbouring: Neighbouring
    event: Event


def plan_stages(
    schema: Schema,
    pairs: Sets,
    allowed: Budget,
    n_records: int,
    resolution: float = RESOLUTION,
    target: str | None = None,
) -> StagedPlan:
    """The plan that spends the budget."""
    multiplier = gaussian_noise_multiplier(allowed.epsilon, allowed.delta)
    noise = multiplier * SENSITIVITY[allowed.neighbouring]
    columns = tuple((name,) for name in schema.names)
    a, b, c, d = _shares(schema, n_records / multiplier, _has_triples(schema, target))
    weights = [WITH_TARGET if target in pair else 1.0 for pair in pairs]
    sigmas = [noise / math.sqrt(a / len(columns))] * len(columns)
    sigmas += [noise / math.sqrt(b * weight / sum(weights)) for weight in weights]
    relation = allowed.neighbouring
    later = [Gaussian(multiplier / math.sqrt(share), relation) for share in (c, d) if share]
    event = EventSequence((measurement_event(sigmas, relation), *later))
    triples = noise / math.sqrt(d) if d else math.inf
    again = noise / math.sqrt(c)
    rest = (n_records, resolution, relation, event)
    return StagedPlan(columns, pairs, tuple(sigmas), again, triples, target, *rest)


def _has_triples(schema: Schema, target: str | None) -> bool:
    return target is not None and len(schema.names) > 2


def _shares(schema: Schema, records_per_noise: float, triples: bool) -> tuple[float, ...]:
    """Of the squared budget, for the four stages.

    The columns get what it takes to know each of their values to half of its mean count, between
    :data:`COLUMNS`: nothing can be merged by columns that are not known.
    """
    d, mean_size = len(schema.sizes), sum(schema.sizes) / len(schema.sizes)
    wanted = d * (2 * mean_size / records_per_noise) ** 2
    first = min(max(wanted, COLUMNS[0]), COLUMNS[1])
    scale = (1 - first) / (1 - COLUMNS[0])
    return (first, *(scale * share for share in SHARES[triples]))


def measure_in_stages(data: Records, plan: StagedPlan, chosen: Source) -> list[Measurement]:
    """All measurements, in the order of the stages."""
    stages = _Stages(data, plan, chosen)
    ones = stages.measure(plan.columns, plan.sigmas[: len(plan.columns)])
    stages.know(ones)
    pairs = stages.measure(plan.pairs, plan.sigmas[len(plan.columns) :])
    strengths = {
        pair.columns: find_strength(pair, [stages.ones[name] for name in pair.columns])
        for pair in pairs
    }
    weights = choose_pairs(strengths, len(plan.columns))
    found = ones + pairs + stages.measure_weighted(weights, plan.again)
    if math.isfinite(plan.triples) and plan.target is not None:
        triples = choose_triples(strengths, plan.target)
        found += stages.measure_weighted(dict.fromkeys(triples, 1.0), plan.triples)
    return found


def choose_pairs(
    strengths: dict[tuple[str, ...], Strength], most: int
) -> dict[tuple[str, ...], float]:
    """The strongest pairs with weights by their strength; all pairs alike if none stands out."""
    out = sorted((s.square, pair) for pair, s in strengths.items() if s.stands_out)
    if not out:
        return dict.fromkeys(strengths, 1.0)
    return {pair: math.sqrt(square) for square, pair in out[::-1][:most]}


def choose_triples(strengths: dict[tuple[str, ...], Strength], target: str) -> Sets:
    """The target with all pairs of those columns that are most strongly related to it."""
    squares = {pair: s.square for pair, s in strengths.items() if target in pair}
    order = sorted(squares, key=lambda pair: -squares[pair])
    near = [next(name for name in pair if name != target) for pair in order[:STRONGEST]]
    return tuple((*two, target) for two in itertools.combinations(near, 2))


class _Stages:
    """Measures sets of columns, merged as far as their noise asks for."""

    def __init__(self, data: Records, plan: StagedPlan, chosen: Source) -> None:
        self.data, self.plan, self.chosen = data, plan, chosen
        self.ones: dict[str, Measurement] = {}

    def know(self, ones: Sequence[Measurement]) -> None:
        """From now on, values are merged by these columns."""
        self.ones = {one.columns[0]: one for one in ones}

    def measure_weighted(
        self, weights: dict[tuple[str, ...], float], sigma: float
    ) -> list[Measurement]:
        """One stage: its tables share what one table with this deviation would cost."""
        total = sum(weights.values())
        sigmas = [_ROOM * sigma * math.sqrt(total / weight) for weight in weights.values()]
        return self.measure(tuple(weights), sigmas)

    def measure(self, sets: Sets, sigmas: Sequence[float]) -> list[Measurement]:
        """The marginals with noise of these deviations on their counts."""
        groups = [self._merge(names, s) for names, s in zip(sets, sigmas, strict=True)]
        relation = self.plan.neighbouring
        return measure(self.data, sets, sigmas, self.chosen, relation, groups)

    def _merge(self, names: tuple[str, ...], sigma: float) -> Groups | None:
        if len(names) == 1:
            return None
        schema = self.data.schema
        columns = [schema.columns[name] for name in names]
        grid = self._grid([column.n_values for column in columns], sigma)
        if all(k >= column.n_values for k, column in zip(grid, columns, strict=True)):
            return None
        return tuple(
            merge_values(column, self.ones[name].shares, k)
            for name, column, k in zip(names, columns, grid, strict=True)
        )

    def _grid(self, sizes: Sequence[int], sigma: float) -> tuple[int, ...]:
        most = self.plan.n_records / (self.plan.resolution * sigma)
        if len(sizes) == 2:
            return choose_grid(sizes, most)
        # The target comes last, and is merged only if there is no room for two groups of the rest.
        last = choose_grid(sizes, most)[-1] if sizes[-1] * 4 > most else sizes[-1]
        return (*choose_grid(sizes[:-1], most / last), last)
