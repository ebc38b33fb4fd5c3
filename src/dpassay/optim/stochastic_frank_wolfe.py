"""Frank-Wolfe on batches of the records: Micali 2022's algorithm 4, and private forms of it.

A step sees the gradient of one batch, (1/b) · sum over the batch with b a public number, the
*expected* size of a batch. So a record moves a score of its batch by at most L0 C1/b, which is more
than in a full pass; what is gained is that a step costs less privacy, for one of two reasons:

**Disjoint batches** (Bassily, Guzmán and Nandi 2021). Every record is assigned to one of the T
batches, independently and at random, so that b = N/T. *The whole run costs one selection.* Proof:
the assignment does not depend on the records' values and has the same law for neighbours (under
add-remove the others' assignments do not change, under replace-one the replacement takes the place
of the replaced). Given the assignment, let k be the batch of the record that differs. Selections
before k have the same distribution for both neighbours; given them, selection k is made from scores
that differ by at most the sensitivity; given its outcome too, those after k have the same
distribution again. So the privacy loss of the run is that of one selection, chosen adaptively; a
mixture over assignments and earlier outcomes has no larger divergence of any order (joint
quasi-convexity). Cutting the table into consecutive pieces instead would not do under add-remove:
a record less shifts all that follow into other batches.

**Sampled batches.** Every step draws its batch anew, by Poisson sampling (add-remove) or as a
subset of fixed size (replace-one), and each of the T selections is amplified: an epsilon-DP step on
a share q is log(1 + q (e^epsilon - 1))-DP (Balle, Barthe and Gaboardi 2018; Micali 2022, lemma 21,
has 2 q epsilon, which is enough for epsilon < 1.256). The batches must stay secret.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, get_args

import numpy as np

from dpassay import _check, _rng
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.optim.frank_wolfe import (
    Objective,
    Selection,
    SelectionName,
    Solution,
    StepRule,
    calibrate_selection,
    noise_source,
    score_sensitivity,
    starting_point,
    step_rule,
)
from dpassay.optim.polytopes import Polytope
from dpassay.privacy import ApproxDP, PureDP, calibrate, events
from dpassay.types import FloatArray, Neighbouring

PrivateScheme = Literal["disjoint", "poisson", "without-replacement"]
PRIVATE_SCHEMES: tuple[PrivateScheme, ...] = get_args(PrivateScheme)
SCHEMES = (*PRIVATE_SCHEMES, "independent")
ITERATES = ("last", "average", "random")
_RELATION = {"poisson": "add-remove", "without-replacement": "replace-one"}


class Batched(Protocol):
    """An objective that is a sum over records, of which some can be taken."""

    def batch(self, rows: Any, n_records: float) -> Objective:
        """The sum over those rows, divided by ``n_records``."""
        ...


@dataclass(frozen=True)
class StochasticPlan:
    """What a run will do, decided from public quantities.

    Attributes:
        scheme: how batches are drawn: "disjoint", "poisson", "without-replacement", or
            "independent" (with replacement, as in Micali 2022; not private).
        steps: T.
        n_records: the public number of records.
        batch_size: the expected size of a batch, which sums are divided by.
        selection: how a vertex is chosen; None without privacy.

    """

    scheme: str
    steps: int
    n_records: int
    batch_size: float
    selection: Selection | None

    def __post_init__(self) -> None:
        _check.choice("scheme", self.scheme, SCHEMES)
        _check.count("steps", self.steps)
        high = _check.count("n_records", self.n_records)
        remedy = "It is the expected number of records in a batch."
        _check.number("batch_size", self.batch_size, low=0, high=high, low_open=True, remedy=remedy)
        if self.scheme == "without-replacement" and self.batch_size != round(self.batch_size):
            raise InvalidArgument(
                f"batch_size={self.batch_size:g} must be a whole number with scheme="
                "'without-replacement'; the event states the share that it is of all records."
            )
        if self.scheme == "independent" and self.selection is not None:
            raise InvalidArgument(
                "scheme='independent' has no stated amplification; use 'disjoint', 'poisson' or "
                "'without-replacement' for a private run."
            )

    @property
    def event(self) -> events.Event:
        """What the whole run does to the data."""
        if self.selection is None:
            return events.NonPrivate()
        if self.scheme == "disjoint":
            return self.selection.event
        rate = self.batch_size / self.n_records
        scheme: Any = self.scheme  # "independent" batches have no selection
        return events.Repeated(events.Sampled(self.selection.event, rate, scheme), self.steps)


def stochastic_plan(
    polytope: Polytope,
    *,
    scheme: PrivateScheme = "disjoint",
    steps: int,
    n_records: int,
    lipschitz: float,
    epsilon: float,
    delta: float,
    batch_size: float | None = None,
    neighbouring: Neighbouring = "add-remove",
    selection: SelectionName = "gumbel",
) -> StochasticPlan:
    """How noisy to choose in each step, so that the run is (epsilon, delta)-DP.

    Args:
        polytope: what to optimise over.
        scheme: "disjoint", "poisson" (add-remove) or "without-replacement" (replace-one).
        steps: T.
        n_records: the public number of records.
        lipschitz: L0, the largest entry of one record's gradient, anywhere on the polytope.
        epsilon: the epsilon of the whole run, finite.
        delta: the delta of the whole run; 0 for pure epsilon-DP.
        batch_size: the expected size of a batch; N/T for "disjoint" batches, which None means.
        neighbouring: "add-remove" or "replace-one".
        selection: "gumbel", "permute-and-flip" or "laplace".

    >>> from dpassay.optim.polytopes import L1Ball
    >>> options = {"steps": 10, "n_records": 1000, "lipschitz": 1.0, "epsilon": 1.0, "delta": 0.0}
    >>> plan = stochastic_plan(L1Ball(5, 1.0), **options)
    >>> plan.batch_size, plan.event
    (100.0, BoundedRange(epsilon=1.0, neighbouring='add-remove'))

    """
    _check.choice("scheme", scheme, PRIVATE_SCHEMES, "'independent' batches are not private.")
    steps, n = _check.count("steps", steps), _check.count("n_records", n_records)
    size = _batch_size(scheme, batch_size, n, steps)
    sensitivity = score_sensitivity(lipschitz, polytope.l1_norm, size, neighbouring)
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    if scheme == "disjoint":
        budget = {"steps": 1, "epsilon": epsilon, "delta": delta, "neighbouring": neighbouring}
        chosen = calibrate_selection(selection, sensitivity=sensitivity, **budget)
        return StochasticPlan(scheme, steps, n, size, chosen)
    if neighbouring != _RELATION[scheme]:
        raise InvalidArgument(
            f"neighbouring={neighbouring!r} must be {_RELATION[scheme]!r} with scheme={scheme!r}; "
            "amplification is proved for that pair."
        )
    each = _amplify(selection, scheme, size / n, steps, epsilon, _check.delta(delta))
    return StochasticPlan(
        scheme, steps, n, size, Selection(selection, sensitivity, each, neighbouring)
    )


def _batch_size(scheme: str, size: float | None, n_records: int, steps: int) -> float:
    if scheme == "disjoint":
        if size is not None and size != n_records / steps:
            raise InvalidArgument(
                f"batch_size={size:g} must be n_records/steps={n_records / steps:g} for disjoint "
                "batches; leave it None."
            )
        return n_records / steps
    if size is None:
        raise InvalidArgument(f"batch_size=None must be a number with scheme={scheme!r}.")
    return float(_check.count("batch_size", size, high=n_records))


@lru_cache(maxsize=256)
def _amplify(
    kind: SelectionName, scheme: Any, rate: float, steps: int, epsilon: float, delta: float
) -> float:
    """The epsilon of one selection on its batch, of which T amplified ones meet the target."""
    relation: Any = _RELATION[scheme]
    target = (
        ApproxDP(epsilon, delta, neighbouring=relation)
        if delta > 0
        else PureDP(epsilon, neighbouring=relation)
    )

    def repeat(noise: float) -> events.Event:
        step = Selection(kind, 1.0, 1 / noise, relation).event
        return events.Repeated(events.Sampled(step, rate, scheme), steps)

    return 1 / calibrate(repeat, target, method="optimal" if delta > 0 else "basic")


def stochastic_frank_wolfe(
    objective: Batched,
    polytope: Polytope,
    plan: StochasticPlan,
    *,
    n_rows: int,
    step: StepRule = None,
    iterate: Literal["last", "average", "random"] = "last",
    start: FloatArray | None = None,
    rng: RngLike = None,
) -> Solution:
    """A point of the polytope that (nearly) minimises the objective, from batches of its records.

    Args:
        objective: what its ``batch`` returns has a gradient.
        polytope: what to optimise over.
        plan: how batches and vertices are chosen; its event is what the run costs.
        n_rows: how many records there are; ``plan.n_records`` is the public number.
        step: None for 2/(t + 2), a number in (0, 1] for fixed steps (Micali 2022), or a function.
        iterate: "last", "average" (of w_1 to w_T), or "random": one of w_0 to w_{T-1}, uniformly,
            as in Micali 2022's algorithm 4.
        start: a point of the polytope that does not depend on the data; None for its own.
        rng: None for secure noise and secret batches; a seed or generator for runs that can be
            replayed.

    """
    _check.choice("iterate", iterate, ITERATES)
    _same_share(plan, n_rows)
    source = noise_source(plan.selection, rng)
    sampler = source.generator if source else _rng.generator(rng)
    rule, stop = step_rule(step), int(sampler.integers(plan.steps))
    w = starting_point(polytope, start)
    mean, kept, vertices = np.zeros_like(w), w.copy(), np.empty(plan.steps, np.intp)
    for t, rows in enumerate(_batches(plan, n_rows, sampler)):
        if t == stop:
            kept = w.copy()
        gradient = objective.batch(rows, plan.batch_size).gradient(w)
        scores = -polytope.products(gradient)
        vertices[t] = (
            plan.selection.choose(scores, source.generator)
            if plan.selection and source
            else np.argmax(scores)
        )
        polytope.move(w, int(vertices[t]), rule(t))
        mean += (w - mean) / (t + 1)
    released = {"last": w, "average": mean, "random": kept}[iterate]
    return Solution(released, vertices, plan.event, source.level if source else None)


def _same_share(plan: StochasticPlan, n_rows: int) -> None:
    """Refuse a share that is not the plan's; under replace-one the number of rows is no secret."""
    if plan.scheme == "without-replacement" and n_rows != plan.n_records:
        raise InvalidArgument(
            f"n_rows={n_rows} must be n_records={plan.n_records} with scheme='without-replacement'"
            ": the event states which share of the records a batch is."
        )


def _batches(plan: StochasticPlan, n_rows: int, sampler: np.random.Generator) -> Iterator[Any]:
    """The rows of each batch."""
    if plan.scheme == "disjoint":
        batch_of = sampler.integers(plan.steps, size=n_rows)
        order = np.argsort(batch_of, kind="stable")
        yield from np.split(order, np.searchsorted(batch_of[order], np.arange(1, plan.steps)))
        return
    size = round(plan.batch_size)
    for _ in range(plan.steps):
        if plan.scheme == "poisson":
            yield np.flatnonzero(sampler.random(n_rows) < plan.batch_size / plan.n_records)
        elif plan.scheme == "without-replacement":
            yield sampler.choice(n_rows, size, replace=False)
        else:
            yield sampler.integers(n_rows, size=size)
