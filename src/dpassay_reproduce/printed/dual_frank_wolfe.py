"""Algorithm 7 of Micali 2022 as printed: Laplace noise, its T and step, one iterate at random.

The corrected form is :class:`dpassay.synth.FrankWolfe`. As printed it is private by slack: its
selections have twice the epsilon that its proof counts, and theorem 20 is loose by more than that.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpassay import _check
from dpassay.optim.frank_wolfe import Selection, frank_wolfe
from dpassay.privacy import Event
from dpassay.privacy.events import Repeated
from dpassay.synth import Workload
from dpassay.synth.methods.dual import DIAMETER, Dual, QueryHull
from dpassay.synth.models import Distribution, Records
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

__all__ = ["Algorithm7", "DualRun", "plan_algorithm_7", "run_algorithm_7"]


@dataclass(frozen=True)
class Algorithm7:
    """Line 3 of the algorithm.

    Attributes:
        steps: T.
        step: gamma.
        scale: lambda, of the Laplace noise on every score; 0 for none.
        alpha: the weight of entropy.

    """

    steps: int
    step: float
    scale: float
    alpha: float

    def select(self, n_records: int) -> Selection:
        """The selection of a step; a score moves by 1/n if a record is replaced."""
        return Selection("laplace", 1 / n_records, 2 / (n_records * self.scale), "replace-one")

    def event(self, n_records: int) -> Event:
        """What T selections do to the data."""
        return Repeated(self.select(n_records).event, self.steps)


@dataclass(frozen=True, eq=False)
class DualRun:
    """What came out.

    Attributes:
        drawn: the distribution of q_U, which the algorithm releases.
        average: the mean of all distributions, which costs no more.

    """

    drawn: Distribution
    average: Distribution


def plan_algorithm_7(
    schema: Schema,
    workload: Workload,
    *,
    n_records: int,
    epsilon: float,
    delta: float,
    alpha: float,
    steps: int | None = None,
    distance: float | None = None,
) -> Algorithm7:
    """The printed T, gamma and lambda.

    Args:
        schema: the universe of d cells.
        workload: k/2 queries; their negatives are vertices too.
        n_records: N.
        epsilon: of the whole run.
        delta: likewise.
        alpha: the weight of entropy.
        steps: T; None for the printed one, Q √D0 epsilon N/(√alpha √log(1/delta) log k), which is
            8 times what minimises the document's own bound.
        distance: D0, psi's distance from its best at the start, "impossible to compute"; None for
            alpha log d, which is no less where the start is 0.

    """
    n = _check.count("n_records", n_records)
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    log = -math.log(_check.number("delta", delta, low=0, high=1, low_open=True, high_open=True))
    alpha = _check.number("alpha", alpha, low=0, low_open=True)
    far = alpha * math.log(schema.n_cells) if distance is None else distance
    if steps is None:
        vertices = 2 * workload.n_queries(schema)
        root = math.sqrt(alpha * log) * math.log(vertices)
        steps = max(round(DIAMETER * math.sqrt(far) * epsilon * n / root), 1)
    T = _check.count("steps", steps)
    step = min(math.sqrt(2 * alpha * far / T) / DIAMETER, 1.0)
    return Algorithm7(T, step, 4 * math.sqrt(2 * T * log) / (epsilon * n), alpha)


class _Remembering(Dual):
    """A dual that remembers the distribution of one step."""

    def __init__(self, data: Records, alpha: float, at: int) -> None:
        super().__init__(data, alpha)
        self.at, self.drawn = at, np.zeros(data.schema.sizes)

    def pass_through(self, w: FloatArray) -> FloatArray:
        now, p = self.steps, super().pass_through(w)
        if now == self.at:
            self.drawn = p
        return p


def run_algorithm_7(
    data: Records,
    workload: Workload,
    made: Algorithm7,
    rng: np.random.Generator,
    selection: Selection | None = None,
) -> DualRun:
    """Run it on records; ``selection`` in place of the printed one, None if the scale is 0.

    The start is q = 0, half way between a query and its negative.
    """
    n = len(data.codes)
    if selection is None and made.scale > 0:
        selection = made.select(n)
    dual = _Remembering(data, made.alpha, int(rng.integers(made.steps)))
    hull = QueryHull(data.schema, workload)
    options = {"steps": made.steps, "step": made.step, "selection": selection}
    frank_wolfe(dual, hull, rng=rng, **options)
    schema = data.schema
    return DualRun(Distribution(schema, dual.drawn), Distribution(schema, dual.mean))
