"""DualQuery and DQRS: queries drawn by multiplicative weights, answered by one record a round.

**DualQuery** (Gaboardi et al. 2014). In every round draw s signed queries with weights
exp(η sum_r (q(D) - q(x_r))), r over the records x_r so far; the oracle's record for them is the
next one. All records together are the synthetic table. The draws of the first round know nothing of
the data. After t records the exponent is ηt q(D) plus what is public, and a draw has bounded range
ηt/n, or 2ηt/n where records are replaced (:mod:`dpassay.synth.methods.games`): s such events for
t = 1 to T - 1, so that under zCDP T rounds cost c² s η² T(T - 1)(2T - 1)/(48 n²), with c = 1 or 2.

**DQRS** (Vietri et al. 2020: "dual query with rejection sampling") carries the queries from round
to round and redraws only some. After the t-th record each query q is kept with probability

    a(q) = exp(-γ_t + η (A(q) - 1)),    A(q) = q(D) - q(x_t), at most 1,

which is proportional to its new weight over the old, so that kept queries have the law of the new
weights; rejected ones are drawn from these. Two kinds of events then. The idea is the paper's; what
follows, the price of a coin, the cap on redraws and γ_t, is proved or chosen here:

*Coins.* One query's answer moves by at most 1/n between neighbours, under either relation, so that
log a moves by at most η/n. A coin is a draw from two outcomes; its bounded range is the change of
logit a, and d logit a / d log a = 1/(1 - a) <= 1/(1 - exp(-γ_t)), because a <= exp(-γ_t) everywhere
(A is cut at 1, which moves it no further). By the mean value theorem the range is at most
(η/n)/(1 - exp(-γ_t)). There are s coins a round.

*Redraws.* Bounded range c ηt/n each, as above. How many there are depends on the data, so that no
more than m_t = ceil(s (1 - exp(-γ_t - 2η))) are made, the most that can be expected, as
a >= exp(-γ_t - 2η); m_t of them are charged whatever the coins say. Rejected queries beyond m_t
stay. Which ones are redrawn follows from the coins, which are charged: adaptive composition, with
events that do nothing where there are fewer.

*γ_t.* In units of sη²/(8n²) a round costs about 1/γ² + (γ + 2η)(ct)², which γ_t = (2/(ct)²)^(1/3)
makes least. For η of 1 and more redraws are as many as in DualQuery; the gain is at small η.

Kept queries are independent of each other given the records *before* the last: the last one was
chosen for them. That touches the analysis of accuracy alone.
"""

import math
from typing import Any

import numpy as np

from dpassay.mechanisms.choosing import coins
from dpassay.mechanisms.noise import Source, is_secure
from dpassay.privacy import BoundedRange, Event, Repeated
from dpassay.privacy.budget import Budget
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.synth.methods.games import QueryGame, Rounds, SignedQueries, draw, signal
from dpassay.synth.models import Model, Records
from dpassay.synth.queries.terms import Terms
from dpassay.types import FloatArray


def draws_event(count: int, rate: float, samples: int, n_records: int, allowed: Budget) -> Event:
    """What ``count`` rounds of DualQuery do to the data."""
    unit = allowed.record_changes * rate / n_records
    rounds = (BoundedRange(unit * t, allowed.neighbouring) for t in range(1, count))
    return EventSequence(tuple(Repeated(event, samples) for event in rounds))


def slack(t: int, changes: int) -> float:
    """γ_t, which keeps the coins of DQRS after the t-th record away from certainty."""
    return (2 / (changes * t) ** 2) ** (1 / 3)


def most_redraws(samples: int, rate: float, gamma: float) -> int:
    """How many queries may be redrawn in a round of DQRS: the most that can be expected."""
    return min(samples, math.ceil(-samples * math.expm1(-gamma - 2 * rate)))


def carried_event(count: int, rate: float, samples: int, n_records: int, allowed: Budget) -> Event:
    """What ``count`` rounds of DQRS do to the data."""
    relation, events = allowed.neighbouring, []
    for t in range(1, count):
        gamma = slack(t, allowed.record_changes)
        coin = BoundedRange(rate / n_records / -math.expm1(-gamma), relation)
        redraw = BoundedRange(allowed.record_changes * rate * t / n_records, relation)
        events.append(Repeated(coin, samples))
        events.append(Repeated(redraw, most_redraws(samples, rate, gamma)))
    return EventSequence(tuple(events))


def balance_rounds(allowed: Budget, n_records: int, log_queries: float) -> int:
    """A number of rounds for DualQuery from public quantities.

    With L the logarithm of the number of signed queries, T rounds are good for an accuracy of
    √(L/T), if η is about as large and s about T/L. η = 2.5 √(L/T) and s = T/L spend the budget at
    the T below; the constant was set on one tiny universe and on Adult.
    """
    size = signal(allowed, n_records)
    if allowed.delta == 0:
        best = (0.8 * math.sqrt(log_queries) * size) ** 0.4
    else:
        best = 1.6 * size ** (2 / 3)
    return int(min(max(best, 5), 1000))


def keep_probability(advantage: FloatArray, rate: float, gamma: float) -> FloatArray:
    """a(q) of the module, from q(D) - q(x)."""
    return np.exp(log_keep_probability(advantage, rate, gamma))


def log_keep_probability(advantage: FloatArray, rate: float, gamma: float) -> FloatArray:
    """The logarithm of a(q), the probability that a drawn query q is kept."""
    return -gamma + rate * (np.minimum(advantage, 1.0) - 1)


class DualQuery(QueryGame):
    """A few hundred records, each the answer to queries that were wrong so far.

    Args:
        schema: the public domain; of any size.
        workload: the queries that should come out right; None takes all pairs of columns.
        epsilon: the privacy parameter.
        delta: 0 for pure DP; None takes 1/n² of the public n.
        rounds: how many, one record each; None takes as many as ``rate`` allows or, where that is
            None too, a rule on public quantities.
        samples: queries drawn per round; None takes a rule on public quantities.
        rate: the learning rate η; None takes the largest that the rounds allow.
        oracle: "auto" (enumeration of small universes, else local search), "search", "exact",
            "cp-sat" (exact too; needs the extra of that name), "enumeration", or one made by hand:
            ``dpassay.synth.oracles.IntegerProgram(seconds=5)``. Privacy does not depend on it.
        neighbouring, n_records, rng: see :class:`~dpassay.synth.Synthesizer`.

    Raises:
        InvalidArgument: in ``fit``, where the budget does not pay for a round; nothing is released.

    >>> import pandas as pd
    >>> from dpassay.synth import Schema, Workload
    >>> table = pd.DataFrame({"sex": ["F", "M"] * 500, "smokes": [0, 0, 0, 0, 1] * 200})
    >>> schema = Schema({"sex": ["F", "M"], "smokes": [0, 1]})
    >>> fitted = DualQuery(schema, epsilon=2.0, rng=0).fit(table)
    >>> fitted.answer(Workload.marginals([("smokes",)])).round(1)
    array([0.8, 0.2])

    """

    _least_rounds = 2

    def _event(
        self, count: int, rate: float, samples: int, n_records: int, allowed: Budget
    ) -> Event:
        return draws_event(count, rate, samples, n_records, allowed)

    def _usual(self, allowed: Budget, n_records: int, log_queries: float) -> tuple[int, int]:
        rounds = balance_rounds(allowed, n_records, log_queries)
        return rounds, int(min(max(rounds / log_queries, 5), 100))

    def _reach(self, plan: Rounds, n_records: int) -> float:
        del n_records
        return plan.rate * plan.count

    def _run(self, data: Records, plan: Rounds, chosen: Source) -> Model:
        rng = chosen.generator
        queries = SignedQueries(self.workload, data)
        behind = np.zeros(len(queries.truth))
        no_noise = np.zeros((1, sum(self.schema.sizes)))
        picks = draw(behind, plan.samples, rng)
        codes, gaps = [], []
        for t in range(1, plan.count + 1):
            found = plan.ask(Terms.of(self.schema, self.workload, picks), no_noise, rng)
            codes.append(found.codes)
            gaps.append(found.gaps[0] / plan.samples)
            if t < plan.count:
                advantage = queries.truth - queries.answers(found.codes)
                behind += advantage
                picks = self._next(picks, advantage, behind, t, plan, rng)
        self.gap_ = float(np.mean(gaps))
        return Records(self.schema, np.concatenate(codes))

    def _next(
        self, picks: Any, advantage: FloatArray, behind: FloatArray, t: int, plan: Rounds, rng: Any
    ) -> Any:
        """The queries of the next round, after t records."""
        del advantage, t
        return draw(plan.rate * behind, len(picks), rng)


class DQRS(DualQuery):
    """DualQuery that keeps most of its queries from round to round, and so pays for fewer draws.

    Arguments are those of :class:`~dpassay.synth.DualQuery`; ``samples`` is the number of queries
    that are carried from round to round.
    """

    def _event(
        self, count: int, rate: float, samples: int, n_records: int, allowed: Budget
    ) -> Event:
        return carried_event(count, rate, samples, n_records, allowed)

    def _usual(self, allowed: Budget, n_records: int, log_queries: float) -> tuple[int, int]:
        rounds, samples = super()._usual(allowed, n_records, log_queries)
        return 2 * rounds, samples

    def _next(
        self, picks: Any, advantage: FloatArray, behind: FloatArray, t: int, plan: Rounds, rng: Any
    ) -> Any:
        rate, gamma = plan.rate, slack(t, plan.changes)
        if is_secure(rng):
            kept = coins(log_keep_probability(advantage[picks], rate, gamma), rng)
        else:
            kept = rng.random(len(picks)) < keep_probability(advantage[picks], rate, gamma)
        rejected = np.flatnonzero(~kept)[: most_redraws(len(picks), rate, gamma)]
        picks = picks.copy()
        picks[rejected] = draw(rate * behind, len(rejected), rng)
        return picks
