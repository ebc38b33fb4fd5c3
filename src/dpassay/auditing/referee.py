"""From trials to a verdict and a bound: one statement, at one error probability.

**One test.** The error probability alpha = 1 - confidence is divided between bets and counts by the
run's :class:`~dpassay.auditing.account.Account`. Each part tests every member of a nested family of
claims, and its bound is the supremum of the epsilons that fall together with all smaller ones.

- A claim of (epsilon, delta)-DP at the delta of the bound, or of Gaussian DP, *is* a member. It is
  refuted if the bound is above its epsilon, and not otherwise. So an error of either is an error
  of the bound: the pair is wrong with probability alpha at most.
- Any other curve is tested by itself, anywhere on it, with ``CURVE`` of each level; the bound at
  the delta of the question has the rest. The curve is refuted if its own test rejects it *or* the
  bound is above its epsilon: a bound above the claim is a refutation. By the union the pair is
  wrong with probability alpha at most.

**Why a claim waits for smaller ones.** The bets against each member are tuned to it, so that the
claim's own test may reject a little before that of a smaller member. To stop there would be a union
over two true claims, at 2 alpha. So the audit ends when the claim and all smaller members fell.
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.attacks.online import OnlineAttack
from dpassay.auditing.account import Account
from dpassay.auditing.counting import Candidates, Rule, choose_among
from dpassay.auditing.remembered import Memory, RememberedTest
from dpassay.bounds.conditional import Guesses, delta_lower, epsilon_lower
from dpassay.bounds.counts import epsilon_of_mu
from dpassay.bounds.families import Family
from dpassay.bounds.sequential import ConfidenceSequence, SequentialTest
from dpassay.privacy import GDP, ApproxDP, PureDP, gaussian
from dpassay.types import Evidence, Fall, FloatArray, LowerBound, PrivacyCurve

DEFAULT_DELTA = 1e-5
CURVE = 0.8  # of each level, to the test of a curve that no family of bounds contains
_MUS = np.geomspace(0.01, 20.0, 200)  # to predict which epsilon shows most; decides power alone
_FARTHEST = 500.0  # a claim of more than this is beyond any number of trials

# Trials after which a loss has been measured, at least.
_MEASURED = 200


@dataclass(frozen=True)
class Rules:
    """The question that is asked of the trials.

    Attributes:
        claim: the curve to be tested.
        delta: where the lower bound is stated.
        confidence: of verdict and bound together.
        both_ways: whether the scores may point either way.
        account: how alpha is divided between bets and counts, and the counts that were ordered.
        online: whether the referee gets features of outputs, and learns from them while it bets,
            instead of scores.
        measure: whether trials go on to count after the claim has fallen, to show how bad it is.
        n_taught: the trials from which the score was learned before; 0 for one that was given.

    """

    claim: PrivacyCurve
    delta: float
    confidence: float
    both_ways: bool
    account: Account
    online: bool = False
    measure: bool = False
    n_taught: int = 0

    @property
    def alpha(self) -> float:
        """The probability with which verdict or bound may be wrong."""
        return 1 - self.confidence

    @functools.cached_property
    def claimed(self) -> float:
        """The claimed epsilon at the delta of the bound."""
        return float(self.claim.epsilon(self.delta))

    @property
    def gaussian(self) -> bool:
        """Whether the bound may speak of Gaussian trade-offs, as the claim does."""
        return isinstance(self.claim, GDP) and self.delta > 0

    @property
    def nested(self) -> bool:
        """Whether the claim is a member of the family that the bound is taken from."""
        if isinstance(self.claim, ApproxDP):
            return self.claim.delta_upper == self.delta
        return self.gaussian or (isinstance(self.claim, PureDP) and self.delta == 0)

    @functools.cached_property
    def points(self) -> tuple[FloatArray, FloatArray]:
        """Points (epsilon, delta) of the claim, its corners among them, to be tested at."""
        if self.nested and not self.gaussian:
            return np.array([self.claimed]), np.array([self.delta])
        ends = [float(self.claim.epsilon(delta)) for delta in (0.0, self.delta, 1e-6)]
        finite = [end for end in ends if end < _FARTHEST] or [10.0]
        grid = np.linspace(0, max(1.2 * max(finite[-1], 0.1), finite[0]), 40)
        epsilon = np.union1d(grid, finite)
        return epsilon, np.asarray(self.claim.delta(epsilon))

    def levels(self, share: float) -> tuple[float, float]:
        """How a share of alpha is divided: the level of the claim's own test, and of the bound."""
        level = self.alpha * share
        return (level, level) if self.nested else (CURVE * level, (1 - CURVE) * level)

    def n_betting(self, trials: int) -> int:
        """How many of so many trials are bet on, the first ones."""
        return self.account.bets_on(trials)


def claimed_delta(claim: PrivacyCurve, delta: float | None) -> float:
    """Where the bound is stated: at the claim's own delta unless told."""
    if delta is not None:
        return _check.delta(delta)
    if isinstance(claim, ApproxDP):
        return claim.delta_upper
    return 0.0 if isinstance(claim, PureDP) else DEFAULT_DELTA


@dataclass(frozen=True)
class Finding:
    """What one part of the test, the bets or a count, has to say."""

    bound: LowerBound
    fell_at: Fall | None = None


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trials as they are bet on: by their scores, or by what a learning attack makes of them.

    Attributes:
        worlds: 1 with the canary, 0 without.
        scores: one for each; of a learning attack a row of ranks for each of its experts.
        streams: what a learning attack bets on; None where scores are ranked by the bettor.

    """

    worlds: NDArray[np.intp]
    scores: FloatArray
    streams: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.worlds)

    def first(self, n: int) -> "_Trials":
        """The first n of these trials."""
        streams = None if self.streams is None else self.streams[:, :n]
        return _Trials(self.worlds[:n], self.scores[..., :n], streams)

    def bet(self, betting: SequentialTest | ConfidenceSequence | RememberedTest) -> None:
        """Let a test bet on these trials, in their order."""
        if self.streams is None or isinstance(betting, RememberedTest):
            betting.update(self.worlds, self.scores)
        else:
            betting.take(self.streams, self.worlds)

    @classmethod
    def join(cls, parts: "list[_Trials]") -> "_Trials":
        """All parts one after the other, copied once however many there are."""
        if len(parts) == 1:
            return parts[0]
        streams = [part.streams for part in parts if part.streams is not None]
        return cls(
            np.concatenate([part.worlds for part in parts]),
            np.concatenate([part.scores for part in parts], axis=-1),
            np.concatenate(streams, axis=1) if len(streams) == len(parts) else None,
        )


def area_under_ranks(worlds: NDArray[np.intp], ranks: FloatArray) -> float:
    """The area under the ROC curve of ranks, those that nothing was learned for left out."""
    known = ~np.isnan(ranks)
    ones, zeros = ranks[known & (worlds == 1)], np.sort(ranks[known & (worlds == 0)])
    if not (ones.size and zeros.size):
        return 0.5
    below = np.searchsorted(zeros, ones) + np.searchsorted(zeros, ones, "right")
    return float(below.mean()) / (2 * zeros.size)


class Referee:
    """Takes trials in number order and says when the claim is refuted.

    Args:
        rules: the question.
        memory: of bets on the same trials for the same question, which need not be made again.

    """

    def __init__(self, rules: Rules, memory: Memory | None = None) -> None:
        self.rules = rules
        self._bound: LowerBound | None = None
        self._attack = OnlineAttack() if rules.online else None
        self._parts: list[_Trials] = []
        self._bettor: SequentialTest | RememberedTest | None = None
        if rules.account.betting:
            make = functools.partial(_bettor, rules)
            self._bettor = make() if memory is None else RememberedTest(memory, make)
        self._smaller: ConfidenceSequence | None = None
        self._path: list[FloatArray] = []
        self.trials = 0
        self.refuted_at: int | None = None

    @property
    def log_wealth(self) -> float:
        """The log wealth after the last trial that was bet on."""
        return float(self._path[-1][-1]) if self._path else 0.0

    @property
    def wealth_needed(self) -> float:
        """The log wealth at which the claim falls; infinite where nothing is bet."""
        level = self.rules.levels(self.rules.account.betting)[0]
        return -math.log(level) if level else math.inf

    def wealth_path(self) -> FloatArray:
        """Log wealth after each trial that was bet on."""
        return np.concatenate([np.empty(0), *self._path])

    def take(self, worlds: Any, observed: Any) -> bool:
        """Count the next trials; true once there are enough: then no more are counted.

        Enough are those up to the one at which the bets refute the claim. Where the loss is to be
        measured they go on to four times as many, at no further price: the bound of the bets holds
        at all times together.

        ``observed`` are their scores; features of their outputs, a row each, if the referee learns.
        """
        if not self._enough() and np.size(worlds):
            seen = self._look(np.atleast_1d(worlds).astype(int), observed)
            kept = self._bet(seen)
            self._parts.append(seen.first(kept))
            self.trials += kept
        return self._enough()

    def _enough(self) -> bool:
        if self.refuted_at is None:
            return False
        return not self.rules.measure or self.trials >= max(4 * self.refuted_at, _MEASURED)

    def _look(self, worlds: NDArray[np.intp], observed: Any) -> _Trials:
        if self._attack is None:
            return _Trials(worlds, np.atleast_1d(observed).astype(float))
        ranked = self._attack.play(worlds, observed)
        return _Trials(worlds, ranked.ranks, ranked.streams)

    def _bet(self, seen: _Trials) -> int:
        """How many of these trials count: up to the one at which the claim falls."""
        end = self.trials + len(seen)
        room = self.rules.n_betting(end) - self.trials
        if self._bettor is None or room <= 0:
            return len(seen)
        start = len(self._bettor.wealth_path)
        some = seen.first(room)
        some.bet(self._bettor)
        path = self._bettor.wealth_path[start:]
        if self.refuted_at is None:
            self.refuted_at = self._find_fall(some)
        kept = len(seen)
        if self.refuted_at is not None:
            last = self.refuted_at
            last = max(4 * last, _MEASURED) if self.rules.measure else last
            kept = min(kept, last - self.trials)
        self._path.append(path[:kept])
        return kept

    def _find_fall(self, seen: _Trials) -> int | None:
        """The number of trials after which the claim has fallen, these trials included."""
        bettor = self._bettor
        if bettor is None or bettor.refuted_at is None:
            return None
        if not self.rules.nested:
            return bettor.refuted_at
        if self._smaller is None:
            self._smaller = _sequence_for(self.rules)
            seen = _Trials.join([*self._parts, seen])
        seen.bet(self._smaller)
        own = np.array(self._smaller.family.epsilons) <= self.rules.claimed
        return self._smaller.all_refuted_at(int(own.sum()))

    def _all(self) -> _Trials:
        if not self._parts:
            return _Trials(np.empty(0, dtype=np.intp), np.empty(0))
        self._parts = [_Trials.join(self._parts)]
        return self._parts[0]

    def evidence(self) -> Evidence:
        """The trials that count, with their scores; of a learning attack the best expert's ranks.

        Each of these ranks was given before the attack learned from its trial.
        """
        seen = self._all()
        if seen.scores.ndim == 1:
            return Evidence(seen.worlds, seen.scores)
        ranks = seen.scores[self._leader()]
        return Evidence(seen.worlds, np.where(np.isnan(ranks), 0.5, ranks))

    @property
    def learned(self) -> str | None:
        """The expert that told the worlds apart best, where the attack learns."""
        if self._attack is None or not self.trials:
            return None
        return self._attack.names[self._leader()]

    def _leader(self) -> int:
        """Which expert has told the worlds apart best."""
        seen = self._all()
        return int(np.argmax([area_under_ranks(seen.worlds, ranks) for ranks in seen.scores]))

    def findings(self) -> list[Finding]:
        """What the bets and every count that was ordered have to say.

        Where a count has spoken, bets that did not refute the claim would add seconds of work and
        hardly ever a larger bound. To leave them out is valid: the bound is then one of fewer.
        """
        evidence = self.evidence()
        fallen = self.refuted_at is not None
        ordered = [] if fallen else self.rules.account.list_counts(self.trials)
        found = [_by_count(self.rules, evidence, *count) for count in ordered]
        return found or [self._by_bets(evidence, fallen)]

    def _by_bets(self, evidence: Evidence, fallen: bool) -> Finding:
        """The bound of the bets, as remembered or found now, and the fall of the claim."""
        known = self._bettor.memory if isinstance(self._bettor, RememberedTest) else None
        if known is None or known.bound is None:
            found = _by_bets(self.rules, self._all(), evidence, fallen)
            self._bound = found.bound
            return found
        return Finding(known.bound)

    def memory(self) -> Memory | None:
        """What to remember of the bets, where they are over and have refuted nothing."""
        n, path = self.rules.account.n_betting, self.wealth_path()
        if self.refuted_at is not None or n is None or path.size != n or self.rules.online:
            return None
        known = self._bettor.memory if isinstance(self._bettor, RememberedTest) else None
        bound = self._bound if known is None or known.bound is None else known.bound
        if bound is not None and bound.epsilon > self.rules.claimed:
            return None
        seen = self._all().first(n)
        return Memory(seen.worlds, seen.scores, path, bound)

    def statement(self) -> tuple[bool, LowerBound, Fall | None]:
        """Whether the claim is refuted, the bound beside it, and where the claim fell."""
        rules, found = self.rules, self.findings()
        best = max((finding.bound for finding in found), key=lambda bound: bound.epsilon)
        falls = [finding.fell_at for finding in found if finding.fell_at is not None]
        bound = replace(
            best,
            confidence=rules.confidence,
            ceiling=max(finding.bound.ceiling for finding in found),
            selection=f"{best.selection}; one level for verdict and bound together",
        )
        return bool(falls), bound, falls[0] if falls else None

    def has_refuted(self) -> bool:
        """Whether the claim is refuted by the trials so far."""
        return self.statement()[0]

    def bound(self) -> LowerBound:
        """The lower bound on epsilon at the delta of the rules that goes with the verdict."""
        return self.statement()[1]


# ------------------------------------------------------------------------------- by bets


def _bettor(rules: Rules) -> SequentialTest:
    level = rules.levels(rules.account.betting)[0]
    claim = _canonical(rules) if rules.nested else rules.claim
    shares = OnlineAttack.SHARES if rules.online else None
    return SequentialTest(claim, confidence=1 - level, both_ways=rules.both_ways, shares=shares)


def _canonical(rules: Rules) -> PrivacyCurve:
    """The member of the family that states the same as the claim."""
    if isinstance(rules.claim, GDP) and rules.gaussian:
        return GDP(rules.claim.mu)
    return ApproxDP(rules.claimed, rules.delta)


def _sequence_for(rules: Rules) -> ConfidenceSequence:
    """A sequence that has seen nothing yet, of the family that the bound is taken from."""
    level = rules.levels(rules.account.betting)[1]
    member = _canonical(rules) if rules.nested else None
    mu = member.mu if isinstance(member, GDP) else None
    family = _family(rules.delta, rules.claimed if member is not None else None, mu)
    shares = OnlineAttack.SHARES if rules.online else None
    both_ways = rules.both_ways
    return ConfidenceSequence(family, confidence=1 - level, both_ways=both_ways, shares=shares)


@functools.lru_cache(maxsize=16)
def _family(delta: float, claimed: float | None, mu: float | None) -> Family:
    """Members at many epsilons, the claim among them if it is one; the same object every time."""
    grid = np.geomspace(0.05, 12.0, 36)
    if claimed is not None:
        grid = grid[np.abs(grid - claimed) > 1e-3 * claimed]
    family = (Family.approx_dp if mu is None else Family.gdp)(delta, grid.tolist())
    if claimed is None or not claimed < _FARTHEST:
        return family
    member = ApproxDP(claimed, delta) if mu is None else GDP(mu)
    return _join(family, claimed, member, claimed if mu is None else mu)


def _join(family: Family, epsilon: float, member: PrivacyCurve, parameter: float) -> Family:
    """The family with one more member, inserted in the order of epsilon."""
    at = int(np.searchsorted(family.epsilons, epsilon))

    def put(row: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
        return (*row[:at], new, *row[at:])

    return replace(
        family,
        curves=put(family.curves, member),
        epsilons=put(family.epsilons, epsilon),
        parameters=put(family.parameters, parameter),
    )


def _by_bets(rules: Rules, seen: _Trials, evidence: Evidence, fallen: bool) -> Finding:
    """The bound of the bets, and the fall of the claim if they refute it."""
    if not rules.account.betting:
        nothing = LowerBound(0.0, rules.delta, rules.confidence, "sequential", ceiling=0.0)
        return Finding(nothing)
    n = rules.n_betting(evidence.trials)
    sequence = _sequence_for(rules)
    seen.first(n).bet(sequence)
    bound = sequence.bound()
    if bound.epsilon > rules.claimed or (fallen and not rules.nested):
        return Finding(bound, _where(rules, evidence.worlds[:n], evidence.scores[:n]))
    return Finding(bound)


def _where(rules: Rules, worlds: Any, scores: FloatArray) -> Fall:
    """Where these trials exceed the claim most, by the shares that were seen: an estimate."""
    epsilon, delta = rules.points
    candidates = Candidates.of(worlds, scores, len(worlds), rules.both_ways)
    i, rule = candidates.best_against(epsilon, delta) if len(candidates) else (0, Rule(0.0, 0.0))
    seen = rule.count(worlds, scores)
    leak = (seen.correct - math.exp(epsilon[i]) * seen.wrong) / max(seen.trials, 1)
    shown = min(max(leak / seen.leak(1.0), 0.0), 1.0)
    return Fall(float(epsilon[i]), shown, float(delta[i]), "estimate")


# ------------------------------------------------------------------------------- by a count


def _by_count(rules: Rules, evidence: Evidence, first: int, end: int, share: float) -> Finding:
    """A rule chosen on the trials before ``first``, counted once on those up to ``end``."""
    worlds = evidence.worlds
    candidates, scores = choose_among(
        worlds, evidence.scores, first, end, rules.both_ways, rules.n_taught
    )
    fresh = worlds[first:end], scores[first:end]
    if not len(candidates):
        empty = Guesses(0, 0, end - first)
        return Finding(_count_bound(rules, 0.0, empty, None, rules.levels(share)[1]))
    count = _count_gaussian if rules.gaussian else _count_point if rules.nested else _count_curve
    return count(rules, candidates, *fresh, *rules.levels(share))


def _count_point(
    rules: Rules, candidates: Candidates, worlds: Any, scores: FloatArray, _: float, level: float
) -> Finding:
    """The bound at the claim's own delta: the claim falls where it is above the claimed epsilon."""
    rule = candidates.best_at(rules.delta, level)
    seen = rule.count(worlds, scores)
    epsilon = max(epsilon_lower(seen, rules.delta, level), 0.0)
    bound = _count_bound(rules, epsilon, seen, rule, level)
    if not epsilon > rules.claimed:
        return Finding(bound)
    shown = max(delta_lower(seen, rules.claimed, level), rules.delta)
    return Finding(bound, Fall(rules.claimed, shown, rules.delta, "lower bound"))


def _count_gaussian(
    rules: Rules, candidates: Candidates, worlds: Any, scores: FloatArray, _: float, level: float
) -> Finding:
    """The Gaussian trade-offs that allow less than the delta that is shown at one epsilon fall."""
    epsilon, allowed = rules.points
    predicted, chosen = candidates.best_deltas(epsilon, level)
    table = gaussian.delta_of(epsilon[:, None], _MUS)
    mus = [float(np.interp(float(predicted[i]), table[i], _MUS)) for i in range(len(predicted))]
    at = int(np.argmax(mus))
    seen = chosen[at].count(worlds, scores)
    shown = delta_lower(seen, float(epsilon[at]), level)
    mu = _mu_lower(float(epsilon[at]), shown)
    bound = _count_bound(rules, epsilon_of_mu(mu, rules.delta), seen, chosen[at], level)
    most = _mu_lower(0.0, delta_lower(seen.perfect(), 0.0, level))
    bound = replace(
        bound, assumption="Gaussian trade-off", ceiling=epsilon_of_mu(most, rules.delta)
    )
    if not bound.epsilon > rules.claimed:
        return Finding(bound)
    return Finding(bound, Fall(float(epsilon[at]), shown, float(allowed[at]), "lower bound"))


@functools.lru_cache(maxsize=1024)
def _mu_lower(epsilon: float, delta: float) -> float:
    return float(gaussian.mu_of(np.float64(epsilon), np.float64(min(delta, 1 - 1e-12))))


def _count_curve(
    rules: Rules,
    candidates: Candidates,
    worlds: Any,
    scores: FloatArray,
    curve_level: float,
    bound_level: float,
) -> Finding:
    """One point of the curve, and beside it the bound at the delta of the question."""
    found = _count_point(rules, candidates, worlds, scores, 0.0, bound_level)
    epsilon, allowed = rules.points
    at, rule = candidates.best_against(epsilon, allowed)
    shown = delta_lower(rule.count(worlds, scores), float(epsilon[at]), curve_level)
    if shown > allowed[at]:
        fall = Fall(float(epsilon[at]), shown, float(allowed[at]), "lower bound")
        return replace(found, fell_at=fall)
    return found


def _count_bound(
    rules: Rules, epsilon: float, seen: Guesses, rule: Rule | None, level: float
) -> LowerBound:
    return LowerBound(
        epsilon=epsilon,
        delta=rules.delta,
        confidence=1 - level,
        method="conditional",
        ceiling=max(epsilon_lower(seen.perfect(), rules.delta, level), 0.0),
        threshold=None if rule is None else rule.threshold,
        selection="guesses by a rule from earlier trials, counted once on later ones",
        details={
            "correct": float(seen.correct),
            "wrong": float(seen.wrong),
            "trials": float(seen.trials),
        },
    )
