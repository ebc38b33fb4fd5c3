"""FEM and SepFEM: records follow a perturbed leader, queries are selected one a round.

Vietri et al. (2020). In every round the oracle answers with s records, each the best for all
queries selected so far minus fresh random prices of its codes, <noise, onehot(x)>: follow the
perturbed leader. Then the exponential mechanism selects the signed query on which these s records
are lowest, with weights exp(r n (q(D) - q(records))): bounded range r, or 2r where records are
replaced (:mod:`dpassay.synth.methods.games`). All records together are the synthetic table. What
perturbs the leader makes the records of a round differ; no privacy rests on it.

FEM's prices are exponential. SepFEM's are Laplace noise on a separator set of queries, of which any
two records differ on one; for tables these are the codes themselves.
"""

import math
from typing import Any, ClassVar, Unpack

import numpy as np

from dpassay import _check
from dpassay.mechanisms.noise import Source
from dpassay.privacy import BoundedRange, Event, Repeated
from dpassay.privacy.budget import Budget
from dpassay.synth.methods.games import (
    QueryGame,
    QueryGameOptions,
    Rounds,
    SignedQueries,
    draw,
    signal,
)
from dpassay.synth.models import Model, Records
from dpassay.synth.queries.terms import Terms
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

SAMPLES = 100


def selections_event(count: int, rate: float, allowed: Budget) -> Event:
    """What ``count`` selections at a rate of r = ``rate`` per record do to the data."""
    return Repeated(BoundedRange(allowed.record_changes * rate, allowed.neighbouring), count)


class FEM(QueryGame):
    """Records that follow a perturbed leader, led by one selected query a round.

    Args:
        schema: the public domain; of any size.
        workload: the queries that should come out right; None takes all pairs of columns.
        epsilon: the privacy parameter.
        delta: 0 for pure DP; None takes 1/n² of the public n.
        rounds: how many; None takes as many as ``rate`` allows or, where that is None too, a rule
            on public quantities.
        samples: records per round; None takes 100.
        rate: the weight of a record in a selection; None takes the largest that the rounds allow.
        perturbation: scale of the random prices; None takes a rule on the number of rounds.
        oracle: see :class:`~dpassay.synth.DualQuery`.
        neighbouring, n_records, rng: see :class:`~dpassay.synth.Synthesizer`.

    It is used as :class:`~dpassay.synth.DualQuery` is, and refuses a budget that pays for no round.
    """

    _usual_scale: ClassVar[float] = 0.25  # times the root of the rounds

    def __init__(
        self,
        schema: Schema,
        workload: Workload | None = None,
        *,
        perturbation: float | None = None,
        **rest: Unpack[QueryGameOptions],
    ) -> None:
        super().__init__(schema, workload, **rest)
        self.perturbation = perturbation

    def _plan(self, allowed: Budget, n_records: int) -> Rounds:
        if self.perturbation is not None:
            _check.number("perturbation", self.perturbation, low=0)
        return super()._plan(allowed, n_records)

    def _event(
        self, count: int, rate: float, samples: int, n_records: int, allowed: Budget
    ) -> Event:
        del samples, n_records
        return selections_event(count, rate, allowed)

    def _usual(self, allowed: Budget, n_records: int, log_queries: float) -> tuple[int, int]:
        """Rounds that grow as theory says, with constants set on a tiny universe and on Adult.

        T rounds of the leader are good for 1/√T; a selection is off by √T/signal, or T/signal.
        """
        del log_queries
        size = signal(allowed, n_records)
        best = 0.1 * size ** (2 / 3) if allowed.delta == 0 else 0.2 * size
        return int(min(max(best, 5), 1000)), SAMPLES

    def _reach(self, plan: Rounds, n_records: int) -> float:
        return plan.rate * n_records

    def _run(self, data: Records, plan: Rounds, chosen: Source) -> Model:
        rng, samples = chosen.generator, plan.samples
        n = data.n or len(data.codes)
        scale = self.perturbation
        if scale is None:
            scale = self._usual_scale * math.sqrt(plan.count)
        queries = SignedQueries(self.workload, data)
        shape = (samples, sum(self.schema.sizes))
        codes = rng.integers(0, np.array(self.schema.sizes), (samples, len(self.schema.sizes)))
        picks, found, gaps = np.zeros(0, np.int64), [], []
        for _ in range(plan.count):
            logits = plan.rate * n * (queries.truth - queries.answers(codes))
            picks = np.append(picks, draw(logits, 1, rng))
            goal = Terms.of(self.schema, self.workload, picks)
            best = plan.ask(goal, self._prices(scale, shape, rng), rng)
            codes = best.codes
            found.append(codes)
            gaps.append(best.gaps.mean() / len(picks))
        self.gap_ = float(np.mean(gaps))
        return Records(self.schema, np.concatenate(found))

    def _prices(self, scale: float, shape: Any, rng: np.random.Generator) -> FloatArray:
        return rng.exponential(scale, shape)


class SepFEM(FEM):
    """FEM with Laplace noise for prices; arguments are those of :class:`~dpassay.synth.FEM`."""

    _usual_scale = 0.1  # less, since the cheapest of many codes has a price far below 0

    def _prices(self, scale: float, shape: Any, rng: np.random.Generator) -> FloatArray:
        return rng.laplace(0, scale, shape)
