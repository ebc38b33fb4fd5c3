"""MWEM: multiplicative weights on every cell of the universe, led by the worst query of each round.

Hardt, Ligett and McSherry (2012). Each round selects the query on which the model is worst, by the
exponential mechanism on |q(A) - q(D)| n, which one record moves by at most 1; measures it with
noise on n q(D); and multiplies every cell x by exp(q(x) (measured - n q(A))/(2n)). Three things
that the paper and everybody since found better: measured queries are not selected again, all
measurements so far are replayed in every round, and the last iterate is released rather than the
mean of all. All three are post-processing.

With delta = 0 the noise is Laplace and rounds add up as epsilons, half for selection and half for
measuring. With delta > 0 the noise is Gaussian, and selection and measuring cost the same rho each:
an exponential mechanism of 2/σ costs (2/σ)²/8, noise of deviation σ 1/(2σ²).

Time and memory grow with the universe: 2^20 cells take 8 MB, and a round sums over them as often as
a tree of marginals needs, not once per marginal.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.additive import add_noise
from dpassay.mechanisms.choosing import softmax
from dpassay.mechanisms.noise import Source
from dpassay.privacy import BoundedRange, Event, Gaussian, Laplace, Repeated, calibrate
from dpassay.privacy.budget import Budget
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.synth.base import Common, Synthesizer
from dpassay.synth.models import Distribution, Model, Records
from dpassay.synth.queries.blocks import Marginal, spread_out
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

MOST_CELLS = 1 << 26
REPLAYS = 20


@dataclass(frozen=True)
class MWEMPlan:
    """How many rounds, and what each of them spends.

    Attributes:
        count: the number of rounds.
        selection: epsilon of the exponential mechanism, per round.
        scale: the scale of the noise on a count: Laplace's b, or the normal law's sigma.
        gaussian: whether the noise is Gaussian rather than Laplace.
        event: what all rounds do to the data.

    """

    count: int
    selection: float
    scale: float
    gaussian: bool
    event: Event


def plan_rounds(count: int, allowed: Budget) -> MWEMPlan:
    """The rounds that spend the budget, half of it on selection."""
    relation = allowed.neighbouring

    def rounds(selection: float, scale: float) -> MWEMPlan:
        noise = (Gaussian if allowed.delta > 0 else Laplace)(scale, relation)
        event = Repeated(EventSequence((BoundedRange(selection, relation), noise)), count)
        return MWEMPlan(count, selection, scale, allowed.delta > 0, event)

    if allowed.delta == 0:
        return rounds(allowed.epsilon / (2 * count), 2 * count / allowed.epsilon)
    scale = calibrate(lambda sigma: rounds(2 / sigma, sigma).event, allowed.target)
    return rounds(2 / scale, scale)


def default_rounds(n_cells: int, n_queries: int, n_records: int, allowed: Budget) -> int:
    """A number of rounds from public quantities.

    It balances √(log|X|/T), by which T rounds of multiplicative weights may be off, against the
    error of a selection among k: T log k/(εn), or log k √(T/rho)/n for Gaussian rounds. The
    constants before the two were set on the six tiny problems that ``benchmarks.synth`` names.
    """
    cells, queries = math.log(n_cells), math.log(2 * n_queries)
    if allowed.delta == 0:
        best = 0.4 * (math.sqrt(cells) * n_records * allowed.epsilon / (10 * queries)) ** (2 / 3)
    else:
        best = 0.1 * n_records * math.sqrt(allowed.rho * cells) / queries
    return int(min(max(best, 5), 200, n_queries))


class MWEM(Synthesizer):
    """A distribution over all cells by multiplicative weights; pure or approximate DP.

    Args:
        schema: the public domain; of at most 2^26 cells.
        workload: the queries that should come out right; None takes all pairs of columns.
        epsilon: the privacy parameter.
        delta: 0 for pure DP with Laplace noise; positive for Gaussian noise under zCDP, which is
            better; None takes 1/n² of the public n.
        rounds: how many; None takes a rule on public quantities.
        release: "last" iterate, or the "average" of what all rounds leave. The paper's theorem is
            on an average, but of rounds that may select a query again: it does not cover this.
        replays: how often all measurements are replayed in each round; 0 is the paper's update.
        neighbouring, n_records, rng: see :class:`~dpassay.synth.Synthesizer`.

    >>> import pandas as pd
    >>> from dpassay.synth import Schema, Workload
    >>> table = pd.DataFrame({"sex": ["F", "M"] * 500, "smokes": [0, 0, 0, 1] * 250})
    >>> schema = Schema({"sex": ["F", "M"], "smokes": [0, 1]})
    >>> fitted = MWEM(schema, epsilon=2.0, delta=0.0, rng=0).fit(table)
    >>> fitted.answer(Workload.marginals([("sex", "smokes")])).round(1)
    array([0.5, 0. , 0.3, 0.2])

    """

    def __init__(
        self,
        schema: Schema,
        workload: Workload | None = None,
        *,
        rounds: int | None = None,
        release: Literal["last", "average"] = "last",
        replays: int = REPLAYS,
        **rest: Unpack[Common],
    ) -> None:
        super().__init__(schema, workload, **rest)
        self.rounds = rounds
        self.release = release
        self.replays = replays

    def _plan(self, allowed: Budget, n_records: int) -> MWEMPlan:
        _check.choice("release", self.release, ("last", "average"))
        _check.count("replays", self.replays, low=0)
        cells, queries = self.schema.n_cells, self.workload.n_queries(self.schema)
        if cells > MOST_CELLS:
            raise InvalidArgument(
                f"the schema has {cells:.3g} cells; MWEM takes at most {MOST_CELLS:.3g}. Use fewer "
                "or coarser columns, or a method that needs no universe."
            )
        if self.rounds is None:
            return plan_rounds(default_rounds(cells, queries, n_records, allowed), allowed)
        return plan_rounds(_check.count("rounds", self.rounds, high=queries), allowed)

    def _run(self, data: Records, plan: MWEMPlan, chosen: Source) -> Model:
        n = data.n or len(data.codes)
        truth = self.workload.answers(data)
        weights = Weights(self.schema, self.workload)
        measured: dict[int, float] = {}
        average = np.zeros(self.schema.sizes)
        for _ in range(plan.count):
            off = n * np.abs(truth - weights.answers())
            pick = _pick_query(plan.selection / 2 * off, list(measured), chosen)
            measured[pick] = float(np.clip(_measure_share(truth[pick], n, plan, chosen), 0, 1))
            weights.update(pick, measured[pick])
            for _ in range(self.replays):
                moves = [weights.update(query, answer) for query, answer in measured.items()]
                # Measured answers are known to within the noise: a fit much closer than that is
                # as good as an exact one.
                if max(moves) < plan.scale / (4 * n):
                    break
            if self.release == "average":
                average += weights.probabilities() / plan.count
        found = average if self.release == "average" else weights.probabilities()
        return Distribution(self.schema, found / found.sum())


def _pick_query(logits: FloatArray, done: list[int], chosen: Source) -> int:
    """A query by the exponential mechanism, among those not measured so far, which is public."""
    if chosen.is_exact:
        left = np.delete(np.arange(len(logits)), done)
        return int(left[softmax(logits[left], 1, chosen.generator)[0]])
    logits[done] = -np.inf
    return int(np.argmax(logits + chosen.generator.gumbel(size=len(logits))))


def _measure_share(share: float, n: int, plan: MWEMPlan, chosen: Source) -> float:
    """The share of a query plus noise on its count."""
    law = "gaussian" if plan.gaussian else "laplace"
    if chosen.is_exact:
        # n times a share is the count only up to rounding, of n 2^-52 at most for either
        # neighbour: that much is added to the sensitivity of 1.
        return float(add_noise(law, n * share, plan.scale, 1 + n * 2.0**-50, chosen)) / n
    rng = chosen.generator
    noise = rng.normal(0, plan.scale) if plan.gaussian else rng.laplace(0, plan.scale)
    return share + noise / n


class Weights:
    """A distribution over all cells that can be moved along one query at a time."""

    def __init__(self, schema: Schema, workload: Workload) -> None:
        self.schema, self.workload = schema, workload
        self.cells = np.where(schema.possible_cells(), 1.0, 0.0)
        self.total = self.cells.sum()
        self._starts = [part.start for part in workload.slices(schema)]
        self._directions: dict[int, tuple[tuple[Any, ...], FloatArray | None]] = {}

    def probabilities(self) -> FloatArray:
        """The distribution, of the shape of the universe; a new array."""
        return self.cells / self.cells.sum()

    def answers(self) -> FloatArray:
        """All answers of the workload."""
        self.cells /= self.cells.sum()
        self.total = 1.0
        return self.workload.answers(Distribution(self.schema, self.cells))

    def update(self, query: int, answer: float) -> float:
        """Multiply by exp(q(x) (answer - q(A))/2), and return |answer - q(A)| before."""
        where, values = self._direction(query)
        part = self.cells[where]
        before = part.sum()
        weighted = before if values is None else (part * values).sum()
        off = answer - weighted / self.total
        if values is None:
            factor = math.exp(off / 2)
            part *= factor
            after = before * factor
        else:
            part *= np.exp(values * (off / 2))
            after = part.sum()
        self.total += after - before
        return abs(off)

    def _direction(self, query: int) -> tuple[tuple[Any, ...], FloatArray | None]:
        """The part of the universe on which a query is not 0, and its values there; None is 1.

        A cell of a marginal is 1 on a slice of the universe, which is all that has to be touched.
        """
        if query not in self._directions:
            which = int(np.searchsorted(self._starts, query, side="right")) - 1
            block, inner = self.workload.blocks[which], query - self._starts[which]
            whole = [slice(None)] * len(self.schema.sizes)
            if isinstance(block, Marginal):
                cell = np.unravel_index(inner, self.schema.shape(block.columns))
                for place, code in zip(self.schema.positions(block.columns), cell, strict=True):
                    whole[place] = slice(int(code), int(code) + 1)
                values = None
            else:
                one = np.zeros(block.n_queries(self.schema))
                one[inner] = 1.0
                values = spread_out(self.schema, block, block.spread(self.schema, one))
            self._directions[query] = (tuple(whole), values)
        return self._directions[query]
