"""Dual Frank-Wolfe: query release as a concave problem over mixtures of queries (algorithm 7).

Micali 2022, chapter 5, with corrected constants. With p_D the data's distribution over the d cells
of the universe, the dual of "find p with the least largest error, entropy to weigh alpha" is

    maximise psi(q) = <q, p_D> - alpha log sum_x exp(q(x)/alpha)   over q in conv{+-q_1, ..., +-q_m}

and the distribution that belongs to q is p = softmax(q/alpha). Its gradient p_D - p has the product
q_j(p_D) - q_j(p) with a vertex: Frank-Wolfe moves towards the query that p answers worst. So the
solver of :mod:`dpassay.optim.frank_wolfe` does all of it, on a polytope whose vertices are queries;
each step is one noisy selection, which is all that the data are asked, and nothing is measured.

**Sensitivity.** A query has values in [0, 1], so to add or remove a record moves q(p_D), with the
public n as divisor, by 1/n at most, and to replace one by |q(x) - q(x')|/n <= 1/n as well. (The
document gets 1/n by Hölder from an l1 distance that is really 2/n.) Since a query rises while its
negative falls, noise must be for twice that; Gumbel noise under zCDP needs 4.6 times less of it
than the document's at epsilon = 1, delta = 1e-6.

**Steps.** Entropy is 1-strongly convex in the l1 norm (Pinsker), so that psi's gradient is
1/alpha-Lipschitz from l_inf to l1, and in l_inf the polytope has diameter Q = 2. Start at q = 0,
where psi is no farther than alpha log d from its best. With steps g = alpha √(2 log d/T)/Q, the
mean over t of the gaps is at most Q √(2 log d/T) plus the error of selection, for every alpha; the
limit alpha -> 0 is multiplicative weights with logits √(2 log d/T)/Q times the sum of the chosen
queries. With k = 2m vertices the sum of the two is A/√T + B √T, A = Q √(2 log d) and B = 2 log k/
(n √(8 rho)), least at T = A/B; and A/√T + B T for delta = 0, where T steps have epsilon/T each and
B = 2 log k/(n epsilon): least at T = (A/(2B))^(2/3).

**What is released.** All vertices chosen are covered by the composition of the selections, so any
function of them is free: the mean of all p_t, for which the bound holds as the error is convex; the
mean of the later half, which has forgotten the start; or the last p (proposition 38, with steps
2/(t + 2) and a larger alpha).

**Large universes.** Beyond a million cells the distributions are followed by records, with entropy
relative to independent columns whose noisy shares are bought first:
:mod:`dpassay.synth.methods.particles`.

**Certificate.** phi(p) = max_j |q_j(p_D) - q_j(p)| <= g(q) + alpha log d for p = softmax(q/alpha),
where g is the Frank-Wolfe gap. Both sides are computed from the data: for diagnosis alone.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Unpack, get_args

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import Source
from dpassay.optim.frank_wolfe import Selection, calibrate_selection, frank_wolfe, nonprivate_gap
from dpassay.optim.polytopes import L1Ball
from dpassay.optim.stochastic_frank_wolfe import (
    PRIVATE_SCHEMES,
    StochasticPlan,
    stochastic_frank_wolfe,
    stochastic_plan,
)
from dpassay.privacy import Event, calibrate, events
from dpassay.privacy.budget import Budget
from dpassay.synth.base import Common, Synthesizer
from dpassay.synth.measurements import SENSITIVITY, measure, measurement_event, on_simplex
from dpassay.synth.methods.dual import DIAMETER, Dual, QueryHull
from dpassay.synth.methods.mwem import MOST_CELLS
from dpassay.synth.methods.particles import Particles
from dpassay.synth.models import Distribution, Model, Records
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

Release = Literal["tail", "average", "last"]
Batches = Literal["full", "disjoint", "poisson", "without-replacement"]
RELEASES: tuple[Release, ...] = get_args(Release)
BATCHES: tuple[Batches, ...] = get_args(Batches)
UNIVERSES = ("enumerated", "followed")
MOST_ENUMERATED = 1 << 20
COUPLING = 3.0  # nats by which columns are taken to depend on each other, in place of log d
COLUMNS = 0.3  # of the budget, for the columns by themselves
HASTE = 5  # how many times fewer steps than the bound's are taken,
HASTE_FOLLOWED = 15  # or where records follow the universe, from a start that is near,
BOLDNESS = 3.0  # and how many times larger: the bound is for the worst case (benchmarks.synth)
_SHRINKING = 0.1  # the part of q that all steps together forget, which sets alpha if nobody does


@dataclass(frozen=True)
class DualPlan:
    """What a run will do, from public quantities.

    Attributes:
        steps: the number of steps.
        alpha: the weight of entropy.
        step: the size of every step, or None for 2/(t + 2) in step t.
        selection: how a vertex is chosen.
        batches: how records are batched; None for all of them in every step.
        event: what the whole run does to the data.
        sigma: the deviation of the noise on the counts of single columns; None if they are not
            measured.

    """

    steps: int
    alpha: float
    step: float | None
    selection: Selection
    batches: StochasticPlan | None
    event: Event
    sigma: float | None = None


def best_steps(n_cells: float, n_vertices: int, n_records: int, rho: float) -> float:
    """T that balances the two terms of the bound on the mean error; see the module.

    >>> round(best_steps(8, 12, 1000, 0.024355970))
    362

    """
    selection = 2 * math.log(n_vertices) / (n_records * math.sqrt(8 * rho))
    return DIAMETER * math.sqrt(2 * math.log(max(n_cells, 2))) / selection


def best_pure_steps(n_cells: float, n_vertices: int, n_records: int, epsilon: float) -> float:
    """The same T for delta = 0, where the error of selection grows with T rather than its root.

    >>> round(best_pure_steps(8, 12, 1000, 1.0))
    55

    """
    selection = 2 * math.log(n_vertices) / (n_records * epsilon)
    return (DIAMETER * math.sqrt(2 * math.log(max(n_cells, 2))) / (2 * selection)) ** (2 / 3)


def average_error(
    n_cells: float, n_vertices: int, n_records: int, rho: float, steps: float
) -> float:
    """An upper bound on the expected largest error of the mean of all p_t, as alpha goes to 0.

    >>> round(average_error(8, 12, 1000, 0.024355970, 362), 4)
    0.4286

    """
    selection = 2 * math.log(n_vertices) / (n_records * math.sqrt(8 * rho)) * math.sqrt(steps)
    return DIAMETER * math.sqrt(2 * math.log(n_cells) / steps) + selection


def last_iterate(n_cells: float, n_vertices: int, n_records: int, rho: float) -> tuple[int, float]:
    """Proposition 38's T and alpha, with corrected constants and Gumbel noise.

    The last p is off by a √T + 8/(alpha T) + alpha log d at most, in expectation, where a √T bounds
    the error of selection: T = (16/(alpha a))^(2/3), which leaves c alpha^(-1/3) + alpha log d with
    c = 1.5 a^(2/3) 16^(1/3), and alpha = (c/(3 log d))^(3/4).
    """
    a = 2 * math.log(n_vertices) / (n_records * math.sqrt(8 * rho))
    c = 1.5 * a ** (2 / 3) * 16 ** (1 / 3)
    alpha = (c / (3 * math.log(max(n_cells, 2)))) ** 0.75
    return max(round((16 / (alpha * a)) ** (2 / 3)), 1), alpha


def last_pure_iterate(
    n_cells: float, n_vertices: int, n_records: int, epsilon: float
) -> tuple[int, float]:
    """The same for delta = 0: b T + 8/(alpha T) + alpha log d, with b = 2 log k/(n epsilon).

    T = √(8/(alpha b)) leaves 2 √(8b/alpha) + alpha log d, least at alpha = (8b)^(1/3)/log^(2/3) d.
    """
    b = 2 * math.log(n_vertices) / (n_records * epsilon)
    alpha = (8 * b) ** (1 / 3) / math.log(max(n_cells, 2)) ** (2 / 3)
    return max(round(math.sqrt(8 / (alpha * b))), 1), alpha


class FrankWolfe(Synthesizer):
    """A distribution over all cells by dual Frank-Wolfe; pure or approximate DP.

    Args:
        schema: the public domain.
        workload: the queries that should come out right; None takes all pairs of columns.
        epsilon, delta, neighbouring, n_records, rng: see :class:`~dpassay.synth.Synthesizer`.
        steps: the number of steps; "bound" for the number that minimises the bound on the error;
            None for a fifth of that, which does better in practice.
        alpha: the weight of entropy; None for a value below which nothing changes.
        release: "tail", the mean of the later half of the distributions; "average", of all, for
            which the theorem holds; "last", proposition 38's.
        batches: "full", every step reads all records (the empirical form); "disjoint", every record
            is read once (the population form: one selection pays for all steps); "poisson" or
            "without-replacement", every step draws a batch.
        batch_size: the size of a sampled batch.
        universe: "enumerated", at most 2^26 cells, or "followed" by records, which takes delta > 0
            and full batches; None for the former up to 2^20 cells.

    >>> import pandas as pd
    >>> from dpassay.synth import Schema, Workload
    >>> table = pd.DataFrame({"sex": ["F", "M"] * 2000, "smokes": [0, 0, 0, 0, 1] * 800})
    >>> schema = Schema({"sex": ["F", "M"], "smokes": [0, 1]})
    >>> found = FrankWolfe(schema, epsilon=2.0, delta=1e-6, rng=0).fit(table)
    >>> found.answer(Workload.marginals([("smokes",)])).round(1)
    array([0.8, 0.2])

    """

    potential_: FloatArray | None = None
    alpha_: float

    def __init__(
        self,
        schema: Schema,
        workload: Workload | None = None,
        *,
        steps: int | Literal["bound"] | None = None,
        alpha: float | None = None,
        release: Release = "tail",
        batches: Batches = "full",
        batch_size: int | None = None,
        universe: str | None = None,
        **rest: Unpack[Common],
    ) -> None:
        super().__init__(schema, workload, **rest)
        self.steps, self.alpha, self.release = steps, alpha, release
        self.batches, self.batch_size, self.universe = batches, batch_size, universe

    def _plan(self, allowed: Budget, n_records: int) -> DualPlan:
        _check.choice("release", self.release, RELEASES)
        _check.choice("batches", self.batches, BATCHES)
        if self._follows():
            return self._following(allowed, n_records)
        if self.schema.n_cells > MOST_CELLS:
            raise InvalidArgument(
                f"the schema has {self.schema.n_cells:.3g} cells; at most {MOST_CELLS:.3g} "
                "are enumerated. Leave universe=None, which follows more of them by records."
            )
        steps, alpha, step = self._steps(allowed, n_records)
        if self.batches == "full":
            selection = calibrate_selection(
                "gumbel",
                sensitivity=1 / n_records,
                steps=steps,
                epsilon=allowed.epsilon,
                delta=allowed.delta,
                neighbouring=allowed.neighbouring,
            )
            event = events.Repeated(selection.event, steps)
            return DualPlan(steps, alpha, step, selection, None, event)
        plan = self._batches(allowed, n_records, steps)
        assert plan.selection is not None
        return DualPlan(steps, alpha, step, plan.selection, plan, plan.event)

    def _follows(self) -> bool:
        if self.universe is None:
            return self.schema.n_cells > MOST_ENUMERATED
        return _check.choice("universe", self.universe, UNIVERSES) == "followed"

    def _following(self, allowed: Budget, n_records: int) -> DualPlan:
        """Noisy columns, then selections, priced together."""
        if not allowed.delta > 0:
            raise InvalidArgument(
                f"delta=0 must be positive for {self.schema.n_cells:.3g} cells: the shares of "
                "columns, relative to which they are followed, get Gaussian noise."
            )
        if self.batches != "full" or self.release == "last":
            raise InvalidArgument(
                f"batches={self.batches!r} and release={self.release!r} must be 'full' and 'tail' "
                "or 'average' where the universe is followed by records."
            )
        steps, alpha, step = self._steps(allowed, n_records)
        count, relation = len(self.schema.names), allowed.neighbouring

        def plan(noise: float) -> DualPlan:
            sigma = SENSITIVITY[relation] * noise * math.sqrt(count / COLUMNS)
            # epsilon²/8 = share/(2 noise²), the price of Gaussian noise with that share.
            each = 2 * math.sqrt((1 - COLUMNS) / steps) / noise
            selection = Selection("gumbel", 1 / n_records, each, relation)
            parts = (
                measurement_event([sigma] * count, relation),
                events.Repeated(selection.event, steps),
            )
            return DualPlan(
                steps, alpha, step, selection, None, events.Sequence(parts), sigma=sigma
            )

        return plan(calibrate(lambda noise: plan(noise).event, allowed.target))

    def _batches(self, allowed: Budget, n_records: int, steps: int) -> StochasticPlan:
        return stochastic_plan(
            QueryHull(self.schema, self.workload),
            scheme=_check.choice("batches", self.batches, PRIVATE_SCHEMES),
            steps=steps,
            n_records=n_records,
            batch_size=self.batch_size,
            # A replaced record moves a score by 1/n too: half of what two gradients could.
            lipschitz=1 / allowed.record_changes,
            epsilon=allowed.epsilon,
            delta=allowed.delta,
            neighbouring=allowed.neighbouring,
        )

    def _steps(self, allowed: Budget, n_records: int) -> tuple[int, float, float | None]:
        """The number of steps, the weight of entropy and the step size."""
        cells, vertices = float(self.schema.n_cells), 2 * self.workload.n_queries(self.schema)
        if self._follows():
            cells = math.exp(COUPLING)
        pure = allowed.delta == 0
        problem = (cells, vertices, n_records, allowed.epsilon if pure else allowed.rho)
        alpha = self.alpha
        if alpha is not None:
            alpha = _check.number("alpha", alpha, low=0, low_open=True)
        if self.release == "last":
            steps, best = (last_pure_iterate if pure else last_iterate)(*problem)
            return self._count(steps), best if alpha is None else alpha, None
        bold = 1.0 if self.steps == "bound" else BOLDNESS
        steps = self._count((best_pure_steps if pure else best_steps)(*problem))
        rate = bold * math.sqrt(2 * math.log(max(cells, 2)) / steps) / DIAMETER
        alpha = _SHRINKING / (rate * steps) if alpha is None else alpha
        return steps, alpha, min(alpha * rate, 1.0)

    def _count(self, best: float) -> int:
        if self.steps == "bound":
            return max(round(best), 1)
        if self.steps is None:
            return max(round(best / (HASTE_FOLLOWED if self._follows() else HASTE)), 1)
        return _check.count("steps", self.steps, remedy="Or leave it None for the rule.")

    def _run(self, data: Records, plan: DualPlan, chosen: Source) -> Model:
        if plan.sigma is not None:
            return self._follow(data, plan, chosen)
        hull = QueryHull(self.schema, self.workload)
        late = plan.steps // 2 if self.release == "tail" else 0
        dual = Dual(data, plan.alpha, late)
        options: dict[str, Any] = {"step": plan.step, "rng": chosen.generator}
        if plan.batches is None:
            options |= {"steps": plan.steps, "selection": plan.selection}
            found = frank_wolfe(dual, hull, **options)
        else:
            rows = len(data.codes)
            found = stochastic_frank_wolfe(dual, hull, plan.batches, n_rows=rows, **options)
        self.potential_, self.alpha_ = found.w, plan.alpha
        p = dual.distribution(found.w) if self.release == "last" else dual.mean
        return Distribution(self.schema, p)

    def _follow(self, data: Records, plan: DualPlan, chosen: Source) -> Model:
        assert plan.sigma is not None
        columns = [(name,) for name in self.schema.names]
        found = measure(data, columns, [plan.sigma] * len(columns), chosen, self.neighbouring)
        truth = self.workload.answers(data)
        particles = Particles(
            self.schema,
            self.workload,
            truth,
            [on_simplex(m.shares) for m in found],
            alpha=plan.alpha,
            keep_from=plan.steps // 2 if self.release == "tail" else 0,
            rng=chosen.generator,
        )
        options: dict[str, Any] = {"steps": plan.steps, "step": plan.step}
        options |= {"selection": plan.selection, "rng": chosen.generator}
        frank_wolfe(particles, L1Ball(len(truth), 1.0), **options)
        self.potential_ = None  # also of a fit before
        return particles.model

    def nonprivate_certificate(self, table: Any) -> tuple[float, float]:
        """The largest error of the last distribution, and the bound g + alpha log d on it.

        Not private: both are computed from the true table. Never release them.
        """
        self._check_fitted()
        if self.potential_ is None:
            raise InvalidArgument("a universe that is followed by records has no certificate.")
        data = Records(self.schema, self.schema.encode(table), self.n_records_)
        dual, hull = Dual(data, self.alpha_), QueryHull(self.schema, self.workload)
        products = hull.products(dual.gradient(self.potential_))
        gap = nonprivate_gap(dual, hull, self.potential_)
        return float(products.max()), gap + self.alpha_ * math.log(self.schema.n_cells)
