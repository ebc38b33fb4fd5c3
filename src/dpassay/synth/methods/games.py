"""What DualQuery, DQRS, FEM and SepFEM share: a game between queries and records.

One player picks queries on which the records so far are wrong, by exponential mechanisms; the other
answers with a record that these queries like best, by an oracle
(:mod:`dpassay.synth.oracles`). Where neither can win, the records answer all queries well.

**Signed queries.** "Wrong" must mean "too low", so every query q comes with its complement 1 - q.
The answer of a signed query s is s(D) = (1/n) sum of s(x) over the records x of D, with the public
n, *also for the complements*: that of 1 - q is (number of records)/n - q(D), not 1 - q(D).

**What one draw costs.** A draw has weights exp(r s(D) + something public). For neighbours the
exponents differ by r (s(D) - s(D')), and the loss of the draw lies in an interval as wide as the
range of that over all s: its bounded range. To add x moves s(D) by s(x)/n, which lies in [0, 1/n]
for *all* s: range r/n. To replace x by y moves it by (s(y) - s(x))/n in [-1/n, 1/n]: range 2r/n.
(With 1 - q(D) for the complements adding would cost as much as replacing.)
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._special.search import last_true
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.choosing import softmax
from dpassay.mechanisms.noise import is_secure
from dpassay.privacy import Event, account, calibrate
from dpassay.privacy.accounting import AccountMethod, flatten
from dpassay.privacy.budget import Budget
from dpassay.synth.base import Common, Synthesizer
from dpassay.synth.models import Records
from dpassay.synth.oracles import LocalSearch, Oracle, oracle_for
from dpassay.synth.queries.blocks import Marginal
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

MakeEvent = Callable[[int, float], Event]  # of the number of rounds and the rate
MOST_ROUNDS = 1 << 20
FEW_KINDS = 4


class SignedQueries:
    """All queries of a workload, then their complements, with their answers on the data."""

    def __init__(self, workload: Workload, data: Records) -> None:
        self.workload, self.schema = workload, data.schema
        truth = workload.answers(data)
        total = len(data.codes) / (data.n or len(data.codes))
        self.truth = np.concatenate([truth, total - truth])
        self._steps = _steps(workload, data.schema)

    def answers(self, codes: NDArray[np.int64]) -> FloatArray:
        """The answers of synthetic records."""
        if self._steps is None:
            found = self.workload.answers(Records(self.schema, codes))
        else:
            places, first = self._steps
            hit = (codes @ places + first).reshape(-1)
            found = np.bincount(hit, minlength=len(self.truth) // 2) / len(codes)
        return np.concatenate([found, 1 - found])


def _steps(workload: Workload, schema: Schema) -> Any:
    """For marginals alone, what turns a record into the numbers of the queries that it meets.

    These are codes @ places + first, one for each marginal: far quicker than table by table.
    """
    if not all(isinstance(block, Marginal) for block in workload):
        return None
    places = np.zeros((len(schema.sizes), len(workload.blocks)), np.int64)
    for b, block in enumerate(workload):
        shape = schema.shape(block.columns)
        strides = np.cumprod([1, *shape[:0:-1]])[::-1]
        places[list(schema.positions(block.columns)), b] = strides
    return places, np.array([part.start for part in workload.slices(schema)])


def draw(logits: FloatArray, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Independent draws of indices with weights exp(logits); exact from a secure generator."""
    if is_secure(rng):
        return softmax(logits, size, rng)
    cumulated = np.cumsum(np.exp(logits - logits.max()))
    picks = np.searchsorted(cumulated, rng.random(size) * cumulated[-1], side="right")
    return np.minimum(picks, len(logits) - 1)


@dataclass(frozen=True)
class Rounds:
    """How many rounds, at which rate, and what that does to the data.

    Attributes:
        count: of the rounds.
        rate: of the draws.
        changes: how many records differ between neighbours: 1, or 2 where one replaces another.
        event: all rounds.
        samples: queries or records per round.
        ask: the oracle.

    """

    count: int
    rate: float
    changes: int
    event: Event
    samples: int = 1
    ask: Oracle = field(default_factory=LocalSearch)


def _methods(event: Event, allowed: Budget) -> tuple[AccountMethod, ...]:
    """How to price an event: by all proofs where it is short; else by rho and by epsilon.

    Many small exponential mechanisms are priced best by their rho, and a distribution of hundreds
    of different ones takes seconds.
    """
    if allowed.delta == 0:
        return ("basic",)
    return ("best",) if len(flatten(event)) <= FEW_KINDS else ("zcdp", "basic")


def affordable(event: Event, allowed: Budget) -> bool:
    """Whether the event stays inside the budget."""
    methods = _methods(event, allowed)
    return min(account(event, m).epsilon(allowed.delta) for m in methods) <= allowed.epsilon


def largest_rate(make_event: MakeEvent, count: int, allowed: Budget) -> float:
    """The largest rate at which so many rounds stay inside the budget."""

    def noise(method: AccountMethod) -> float:
        return calibrate(lambda x: make_event(count, 1 / x), allowed.target, method=method)

    return 1 / min(map(noise, _methods(make_event(count, 1.0), allowed)))


def most_rounds(make_event: MakeEvent, rate: float, allowed: Budget, least: int) -> int:
    """The largest number of rounds at this rate that stays inside the budget, if ``least`` does."""
    low, high = least, 2 * least
    while high < MOST_ROUNDS and affordable(make_event(high, rate), allowed):
        low, high = high, 2 * high

    def fits(count: FloatArray) -> bool:
        return affordable(make_event(int(count), rate), allowed)

    return int(last_true(fits, low, high, whole=True))


def solve_rounds(
    make_event: MakeEvent,
    allowed: Budget,
    rounds: int | None,
    rate: float | None,
    usual: int,
    least: int,
) -> Rounds:
    """Rounds and rate that stay inside the budget: what is not given is solved from it.

    Args:
        make_event: what so many rounds at such a rate do to the data.
        allowed: the budget.
        rounds: how many; None takes as many as the rate allows, or the usual number.
        rate: of the draws; None takes the largest that so many rounds allow.
        usual: the number of rounds where neither is given.
        least: the smallest number of rounds that looks at the data.

    Raises:
        InvalidArgument: the budget does not pay for what is given.

    """
    if rounds is not None:
        rounds = _check.count("rounds", rounds, low=least, high=MOST_ROUNDS)
    if rate is None:
        count = max(usual, least) if rounds is None else rounds
        rate = largest_rate(make_event, count, allowed)
    else:
        rate = _check.number("rate", rate, low=0, low_open=True)
        wanted = least if rounds is None else rounds
        if not affordable(make_event(wanted, rate), allowed):
            raise InvalidArgument(
                f"epsilon={allowed.epsilon:g} with delta={allowed.delta:g} is too small for "
                f"{wanted} rounds at rate={rate:g}. Lower the rate or the samples, or state the "
                "rounds alone: the rate is then solved."
            )
        count = most_rounds(make_event, rate, allowed, least) if rounds is None else rounds
    return Rounds(count, rate, allowed.record_changes, make_event(count, rate))


def signal(allowed: Budget, n_records: int) -> float:
    """How many times its noise a query that is off by 1 stands out in a single release.

    Up to constants: n √rho, or n ε where delta is 0, halved where one record replaces another.
    """
    spent = allowed.epsilon if allowed.delta == 0 else math.sqrt(allowed.rho)
    return n_records * spent / allowed.record_changes


class QueryGameOptions(Common, total=False):
    """What every game between queries and records takes; see :class:`QueryGame`."""

    rounds: int | None
    samples: int | None
    rate: float | None
    oracle: Any


class QueryGame(Synthesizer):
    """Base of the four games; use one of its kinds.

    Attributes:
        gap_: of the oracle, the mean over all records: at most by how much the best record would
            have been better, over the number of queries that it was asked about. It follows from
            queries that were drawn privately, and so costs nothing.

    """

    gap_: float
    _least_rounds: ClassVar[int] = 1

    def __init__(
        self,
        schema: Schema,
        workload: Workload | None = None,
        *,
        rounds: int | None = None,
        samples: int | None = None,
        rate: float | None = None,
        oracle: Any = "auto",
        **rest: Unpack[Common],
    ) -> None:
        super().__init__(schema, workload, **rest)
        self.rounds, self.samples, self.rate, self.oracle = rounds, samples, rate, oracle

    def _plan(self, allowed: Budget, n_records: int) -> Rounds:
        n_signed = 2 * self.workload.n_queries(self.schema)
        usual, usual_samples = self._usual(allowed, n_records, math.log(n_signed))
        samples = usual_samples if self.samples is None else self.samples
        samples = _check.count("samples", samples)
        plan = solve_rounds(
            lambda count, rate: self._event(count, rate, samples, n_records, allowed),
            allowed,
            self.rounds,
            self.rate,
            usual,
            self._least_rounds,
        )
        if self.rate is None and self._reach(plan, n_records) < math.log(n_signed):
            raise InvalidArgument(
                f"epsilon={allowed.epsilon:g} is too small: among {n_signed} signed queries not "
                "even one that is off by 1 would be found. Use more records, fewer queries or "
                "more epsilon."
            )
        return replace(plan, samples=samples, ask=oracle_for(self.oracle, self.schema))

    @abstractmethod
    def _event(
        self, count: int, rate: float, samples: int, n_records: int, allowed: Budget
    ) -> Event:
        """What so many rounds at this rate do to the data."""

    @abstractmethod
    def _usual(self, allowed: Budget, n_records: int, log_queries: float) -> tuple[int, int]:
        """Rounds and samples where nothing is said, from public quantities."""

    @abstractmethod
    def _reach(self, plan: Rounds, n_records: int) -> float:
        """The logarithm of the most that the weight of a query can grow by."""
