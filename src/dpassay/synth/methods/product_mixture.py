"""The recommended synthesizer: noisy marginals of the workload, fitted by a mixture of products.

**Pairs.** A workload of pairs, which is the default, is measured at the resolution that the budget
allows, in stages: see :mod:`dpassay.synth.methods.stages`. :mod:`dpassay.synth.methods.descent`
fits the mixture.

**Larger sets, or** ``resolution=None``. Measured are every column by itself, the pairs inside the
workload's sets of columns, and those sets themselves, all by Gaussian noise whose curve composes
exactly. The small tables are there because their noise is not summed over the values of a third
column: a pair costs what a triple costs, and says more of what triples have in common.

**Large workloads.** Where the sets of three columns and more are too many or too large, all pairs
are measured first; then, of the sets that the mixture of that step gets most wrong beyond the
noise they would be measured with, some are selected by the exponential mechanism (as McKenna et al.
2022, AIM, do), measured, and the mixture is fitted on. The score of a set is the l1 distance of its
counts to the model's, less the expected noise √(2/π) σ per cell, which is public; to add or remove
a record moves it by 1 at most, to replace one by 2. The k best of scores plus Gumbel noise are k
selections without replacement (Durfee and Rogers 2019), ε²/8-zCDP each.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.choosing import softmax
from dpassay.mechanisms.noise import Source
from dpassay.privacy import BoundedRange, Event, calibrate, gaussian_noise_multiplier
from dpassay.privacy.budget import Budget
from dpassay.privacy.events import Repeated
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.synth.base import Common, Synthesizer
from dpassay.synth.measurements import SENSITIVITY, Measurement, measure, measurement_event
from dpassay.synth.methods.descent import fit_mixture
from dpassay.synth.methods.stages import (
    RESOLUTION,
    StagedPlan,
    measure_in_stages,
    plan_stages,
)
from dpassay.synth.models import Mixture, Model, Records
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray, Neighbouring

Sets = tuple[tuple[str, ...], ...]

COMPONENTS = (100, 300)
"""The least and the most products that are mixed unless a number is given."""
PER_CATEGORY = 3  # products for each value of the column with most values that have no order
STEPS = 600
PENALTY = 1.1
SHARES = {2: {1: 0.1, 2: 0.9}, 3: {1: 0.1, 2: 0.2, 3: 0.7}}
"""By the largest sets that are measured (3 is three columns and more): what of the budget is for
columns by themselves, for pairs, and for larger sets."""
HOLDS = {2: 1.0, 3: 2.0}
"""By the largest sets of the workload: how strongly the second round of the fit holds components.
For pairs it was set on generated tables and on images, for larger sets on Adult."""
MOST_SETS = 128
MOST_CELLS = 1_500_000
"""All sets of three columns and more are measured up to these sizes; beyond, some are chosen."""
LARGEST = 100_000  # cells of a set that may be selected
SELECTED = {1: 0.1, 2: 0.7, 3: 0.2}
"""The same where sets are selected: they are few, and the pairs of all sets are measured."""
SELECTION = 0.1  # of the budget of the selected sets, for selecting them


@dataclass(frozen=True)
class MixturePlan:
    """What is measured, with which noise; and what is selected, if anything.

    Attributes:
        columns: the sets of columns that are measured at once.
        sigmas: the deviation of the noise on a count of each.
        candidates: sets to select from; none if all were measured.
        picks: how many are selected.
        selection: epsilon of one selection.
        late: the deviation of the noise on a count of a set that was selected.
        event: what all measurements and selections do to the data.

    """

    columns: Sets
    sigmas: tuple[float, ...]
    candidates: Sets
    picks: int
    selection: float
    late: float
    event: Event


def plan_mixture(
    schema: Schema, workload: Workload, allowed: Budget, picks: int | None = None
) -> MixturePlan:
    """The plan that spends the budget, from public quantities alone."""
    if not allowed.delta > 0:
        raise InvalidArgument("delta=0 must be positive: the noise of marginals is Gaussian.")
    levels = _levels(schema, workload)
    large = levels.get(3, ())
    cells = [math.prod(schema.shape(names)) for names in large]
    if len(large) <= MOST_SETS and sum(cells) <= MOST_CELLS and picks is None:
        return _at_once(levels, allowed)
    levels.pop(3, None)
    candidates = tuple(c for c, n in zip(large, cells, strict=True) if n <= LARGEST)
    if picks is None:
        picks = len(schema.names)
    picks = min(picks, len(candidates))
    return _selecting(levels, candidates, picks, allowed) if picks else _at_once(levels, allowed)


def _levels(schema: Schema, workload: Workload) -> dict[int, Sets]:
    """Columns by themselves, pairs inside the workload's sets, and its sets of three and more."""
    sets = [tuple(sorted(names, key=schema.names.index)) for names in workload.column_sets()]
    pairs = dict.fromkeys(pair for names in sets for pair in itertools.combinations(names, 2))
    large = dict.fromkeys(names for names in sets if len(names) > 2)
    levels: dict[int, Sets] = {1: tuple((name,) for name in schema.names)}
    return levels | {k: tuple(found) for k, found in ((2, pairs), (3, large)) if found}


def _weights(levels: dict[int, Sets], shares: dict[int, float]) -> tuple[Sets, list[float]]:
    """All sets, and the part of the budget of each (of its square: 1/σ²)."""
    sets = tuple(names for found in levels.values() for names in found)
    return sets, [shares[k] / len(found) for k, found in levels.items() for _ in found]


def _at_once(levels: dict[int, Sets], allowed: Budget) -> MixturePlan:
    """All tables measured at once.

    Gaussian noise on all of them is one Gaussian mechanism on the tables divided by their σ, whose
    price is exact.
    """
    sets, weights = _weights(levels, SHARES[max(2, *levels)])
    least = gaussian_noise_multiplier(allowed.epsilon, allowed.delta)
    least *= SENSITIVITY[allowed.neighbouring] * math.sqrt(sum(weights))
    sigmas = tuple(least / math.sqrt(weight) for weight in weights)
    return MixturePlan(
        sets, sigmas, (), 0, 0.0, 0.0, measurement_event(sigmas, allowed.neighbouring)
    )


def _selecting(
    levels: dict[int, Sets], candidates: Sets, picks: int, allowed: Budget
) -> MixturePlan:
    """Small tables first, then selected ones; each part gets its share of the budget."""
    sets, weights = _weights(levels, SELECTED)
    relation, distance = allowed.neighbouring, SENSITIVITY[allowed.neighbouring]

    def plan(noise: float) -> MixturePlan:
        sigmas = tuple(distance * noise / math.sqrt(weight) for weight in weights)
        late = distance * noise / math.sqrt(SELECTED[3] * (1 - SELECTION) / picks)
        # ε²/8 = share/(2 noise²), the price of Gaussian noise with that share.
        each = 2 * math.sqrt(SELECTED[3] * SELECTION / picks) / noise
        event = EventSequence(
            (
                measurement_event(sigmas, relation),
                Repeated(BoundedRange(each, relation), picks),
                measurement_event([late] * picks, relation),
            )
        )
        return MixturePlan(sets, sigmas, candidates, picks, each, late, event)

    return plan(calibrate(lambda noise: plan(noise).event, allowed.target))


class ProductMixture(Synthesizer):
    """A mixture of product distributions, fitted to noisy marginals of the workload: recommended.

    It needs no enumeration of the universe, and time that grows with the cells of the workload's
    marginals, some seconds for half a million of them.

    Args:
        schema: the public domain of the table.
        workload: the queries that should come out right, by the columns they read; None takes all
            pairs of columns.
        components: how many products are mixed; None takes 100, or 3 for each value of the column
            with most values that have no order, up to 300.
        steps: the number of gradient steps.
        penalty: how strongly the model is drawn to independent columns, in units of the noise.
        picks: how many sets of three columns and more are selected; None measures all of them, if
            they are not too many, and otherwise selects as many as there are columns.
        resolution: pairs are measured on cells that hold so many times their noise on average, with
            values merged as far as that takes. Larger numbers keep relations of columns with many
            values, smaller ones the shape of every column. None measures all pairs at once and at
            full resolution.
        target: a column that is to be predicted from the others. Its relations then get more of the
            budget, also those with two columns at a time; others get less.
        epsilon, delta, neighbouring, n_records, rng: see :class:`~dpassay.synth.Synthesizer`.

    >>> import pandas as pd
    >>> from dpassay.synth import Schema, Workload
    >>> table = pd.DataFrame({"sex": ["F", "M"] * 2000, "smokes": [0, 0, 0, 1] * 1000})
    >>> schema = Schema({"sex": ["F", "M"], "smokes": [0, 1]})
    >>> found = ProductMixture(schema, epsilon=2.0, delta=1e-6, rng=0).fit(table)
    >>> found.answer(Workload.marginals([("sex", "smokes")])).round(1)
    array([0.5, 0. , 0.2, 0.2])

    """

    def __init__(
        self,
        schema: Schema,
        workload: Workload | None = None,
        *,
        components: int | None = None,
        steps: int = STEPS,
        penalty: float = PENALTY,
        picks: int | None = None,
        resolution: float | None = RESOLUTION,
        target: str | None = None,
        **rest: Unpack[Common],
    ) -> None:
        super().__init__(schema, workload, **rest)
        self.components, self.steps = components, steps
        self.penalty, self.picks = penalty, picks
        self.resolution, self.target = resolution, target

    @property
    def adds_gaussian_noise_only(self) -> bool:
        """Whether no set can be selected; which sets are depends on their numbers of cells."""
        return self.picks == 0 or all(len(names) < 3 for names in self.workload.column_sets())

    def _plan(self, allowed: Budget, n_records: int) -> MixturePlan | StagedPlan:
        self._check_options()
        levels = _levels(self.schema, self.workload)
        in_stages = self.resolution is not None and tuple(levels) == (1, 2)
        if self.target is not None and not in_stages:
            raise InvalidArgument(
                f"target={self.target!r} goes with pairs of columns that are measured in stages: "
                "leave the workload out, or name pairs; and leave `resolution` a number."
            )
        if in_stages and self.resolution is not None and allowed.delta > 0:
            rest = (allowed, n_records, self.resolution, self.target)
            plan = plan_stages(self.schema, levels[2], *rest)
        else:
            plan = plan_mixture(self.schema, self.workload, allowed, self.picks)
        if min(plan.sigmas) >= n_records:
            raise InvalidArgument(
                f"epsilon={allowed.epsilon:g} is too small for n={n_records} records: the noise on "
                f"every count, of deviation {min(plan.sigmas):.3g}, would drown them all. Raise "
                "it, or ask for fewer columns."
            )
        return plan

    def _check_options(self) -> None:
        if self.components is not None:
            _check.count("components", self.components)
        _check.count("steps", self.steps)
        _check.number("penalty", self.penalty, low=0)
        if self.picks is not None:
            _check.count("picks", self.picks, low=0)
        if self.resolution is not None:
            _check.number("resolution", self.resolution, low=0, low_open=True)
        if self.target is not None:
            _check.choice("target", self.target, self.schema.names)

    def _run(self, data: Records, plan: MixturePlan | StagedPlan, chosen: Source) -> Model:
        found = [*self._measure(data, plan, chosen), *self._paid_before]
        if isinstance(plan, StagedPlan):
            return self._fit_model(found, HOLDS[2], chosen.generator)
        large = any(len(names) > 2 for names in plan.columns + plan.candidates)
        hold = HOLDS[3 if large else 2]
        model = self._fit_model(found, hold, chosen.generator)
        if not plan.picks:
            return model
        picked = select_sets(data, model, plan, self.neighbouring, chosen)
        found += measure(data, picked, [plan.late] * plan.picks, chosen, self.neighbouring)
        return self._fit_model(found, hold, chosen.generator, model)

    def _measure(
        self, data: Records, plan: MixturePlan | StagedPlan, chosen: Source
    ) -> list[Measurement]:
        if isinstance(plan, StagedPlan):
            return measure_in_stages(data, plan, chosen)
        return measure(data, plan.columns, plan.sigmas, chosen, self.neighbouring)

    def _fit_model(
        self,
        found: Sequence[Measurement],
        hold: float,
        rng: np.random.Generator,
        start: Mixture | None = None,
    ) -> Mixture:
        return fit_mixture(
            self.schema,
            found,
            components=self.components or _count_components(self.schema),
            steps=self.steps,
            penalty=self.penalty,
            hold=hold,
            rng=rng,
            start=start,
        )


def _count_components(schema: Schema) -> int:
    """As many as the categories need: every one of them may go with values of its own."""
    columns = schema.columns.values()
    largest = max((column.size for column in columns if not column.is_ordered), default=0)
    return min(max(COMPONENTS[0], PER_CATEGORY * largest), COMPONENTS[1])


def select_sets(
    data: Records, model: Model, plan: MixturePlan, neighbouring: Neighbouring, chosen: Source
) -> Sets:
    """The sets that the model gets most wrong beyond noise, by the exponential mechanism."""
    n = data.n or len(data.codes)
    moved = {"add-remove": 1.0, "replace-one": 2.0}[neighbouring]
    scores = np.empty(len(plan.candidates))
    for i, names in enumerate(plan.candidates):
        off = np.abs(data.counts(names) - n * model.marginal(names))
        scores[i] = off.sum() - math.sqrt(2 / math.pi) * plan.late * off.size
    logits = plan.selection / (2 * moved) * scores
    if chosen.is_exact:
        return tuple(plan.candidates[i] for i in _peel(logits, plan.picks, chosen.generator))
    noisy = logits + chosen.generator.gumbel(size=len(scores))
    return tuple(plan.candidates[i] for i in np.argsort(-noisy)[: plan.picks])


def _peel(logits: FloatArray, picks: int, generator: np.random.Generator) -> list[int]:
    """Different indices, drawn one after the other by exact exponential mechanisms."""
    left = list(range(len(logits)))
    return [left.pop(int(softmax(logits[left], 1, generator)[0])) for _ in range(picks)]
