"""From trials to a verdict: a claim is bet against as the trials come in, in number order.

**What is spent.** The error probability alpha = 1 - confidence goes to the betting test of
:mod:`dpassay.bounds.sequential`. Betting costs microseconds a trial, so an audit of more than
``BETTING_LIMIT`` trials bets on the first ones with alpha/2 and tests all others once, at the end,
with a band of alpha/2 (:mod:`dpassay.bounds.claims`).

**Which way a score points.** A score given by the user may be larger for either data set. The
wealth is then the mean of two, one that bets on the scores and one on their negatives: a mean of
supermartingales is one. It costs at most log 2 of the log wealth. A learned score points one way.
"""

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.bounds import check_claim, lower_bound
from dpassay.bounds.sequential import ConfidenceSequence, Family, SequentialTest
from dpassay.privacy import GDP, ApproxDP, PureDP
from dpassay.types import Evidence, FloatArray, LowerBound, PrivacyCurve

BETTING_LIMIT = 20_000
DEFAULT_DELTA = 1e-5
EXACT_BAND = 200_000


@dataclass(frozen=True)
class Rules:
    """The question that is asked of the trials.

    Attributes:
        claim: the curve to be tested.
        delta: where the lower bound is stated.
        confidence: of the verdict, and of the bound.
        budget: how many trials there will be at most.
        both_ways: whether the scores may point either way.
        sequential: whether to bet as trials come in, and stop when the claim is refuted.

    """

    claim: PrivacyCurve
    delta: float
    confidence: float
    budget: int
    both_ways: bool
    sequential: bool = True

    @property
    def alpha(self) -> float:
        """The probability with which a true claim may be refuted."""
        return 1 - self.confidence

    @property
    def n_betting(self) -> int:
        """The trials that are bet on, the first ones; the others are tested at the end."""
        return min(self.budget, BETTING_LIMIT) if self.sequential else 0

    @property
    def shares(self) -> tuple[float, float]:
        """Of alpha, to betting and to the test at the end."""
        if self.n_betting == self.budget:
            return 1.0, 0.0
        return (0.5, 0.5) if self.n_betting else (0.0, 1.0)


def claimed_delta(claim: PrivacyCurve, delta: float | None) -> float:
    """Where the bound is stated: at the claim's own delta unless told."""
    if delta is not None:
        return _check.delta(delta)
    if isinstance(claim, ApproxDP):
        return claim.delta_upper
    return 0.0 if isinstance(claim, PureDP) else DEFAULT_DELTA


class Referee:
    """Takes trials in number order and says when the claim is refuted."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._worlds: list[Any] = []
        self._scores: list[FloatArray] = []
        self._bettors = [
            SequentialTest(rules.claim, confidence=1 - rules.alpha * rules.shares[0])
            for _ in range(2 if rules.both_ways else 1)
            if rules.n_betting
        ]
        self._path: list[FloatArray] = []
        self.trials = 0
        self.refuted_at: int | None = None

    @property
    def log_wealth(self) -> float:
        """After the last trial that was bet on."""
        return float(self._path[-1][-1]) if self._path else 0.0

    @property
    def wealth_needed(self) -> float:
        """The log wealth at which the claim falls; infinite where nothing is bet."""
        share = self.rules.shares[0]
        return -math.log(self.rules.alpha * share) if share else math.inf

    def wealth_path(self) -> FloatArray:
        """Log wealth after each trial that was bet on."""
        return np.concatenate([np.empty(0), *self._path])

    def take(self, worlds: Any, scores: Any) -> bool:
        """Count the next trials; true once the claim is refuted, after which none is counted."""
        worlds, scores = np.atleast_1d(worlds).astype(int), np.atleast_1d(scores).astype(float)
        if self.refuted_at is None and len(worlds):
            kept = self._bet(worlds, scores)
            self._worlds.append(worlds[:kept])
            self._scores.append(scores[:kept])
            self.trials += kept
        return self.refuted_at is not None

    def _bet(self, worlds: Any, scores: FloatArray) -> int:
        """How many of these trials count: up to the one at which the claim falls."""
        room = max(self.rules.n_betting - self.trials, 0)
        if room == 0:
            return len(worlds)
        path = self._log_wealth_after(worlds[:room], scores[:room])
        reached = np.flatnonzero(path >= self.wealth_needed)
        if not reached.size:
            self._path.append(path)
            return len(worlds)
        kept = int(reached[0]) + 1
        self._path.append(path[:kept])
        self.refuted_at = self.trials + kept
        return kept

    def _log_wealth_after(self, worlds: Any, scores: FloatArray) -> FloatArray:
        """Log wealth after each of these trials, the mean of both ways."""
        paths = []
        for sign, bettor in zip((1, -1), self._bettors, strict=False):
            start = len(bettor.wealth_path)
            bettor.update(worlds, sign * scores)
            paths.append(bettor.wealth_path[start:])
        return np.logaddexp.reduce(paths, axis=0) - math.log(len(paths))

    def evidence(self) -> Evidence:
        """The trials that count."""
        empty = np.empty(0)
        return Evidence(
            np.concatenate([empty, *self._worlds]).astype(int),
            np.concatenate([empty, *self._scores]),
        )

    def final_test(self) -> float:
        """The p-value of the trials that were not bet on; 1 where there are none of one world."""
        p_values = []
        share = self.rules.alpha * self.rules.shares[1]
        for inside, outside in self._unbet():
            found = check_claim(
                self.rules.claim,
                inside,
                outside,
                confidence=1 - max(share, 1e-15),
                band=self._band(),
            )
            p_values.append(found.p_value)
        return min([1.0, *(p * len(p_values) for p in p_values)])

    def _unbet(self) -> list[tuple[FloatArray, FloatArray]]:
        """Scores with and without, of the trials after those that were bet on, each way round."""
        evidence = self.evidence()
        worlds, scores = (x[self.rules.n_betting :] for x in (evidence.worlds, evidence.scores))
        if not 0 < worlds.sum() < len(worlds):
            return []
        signs = (1, -1) if self.rules.both_ways else (1,)
        return [(s * scores[worlds == 1], s * scores[worlds == 0]) for s in signs]

    def refuted(self, *, over: bool = True) -> bool:
        """The verdict after the last trial.

        While the audit is not ``over`` only the bets may refute: the test at the end is paid for
        once, not at every look.
        """
        if self.refuted_at is not None:
            return True
        share = self.rules.alpha * self.rules.shares[1]
        return over and share > 0 and self.final_test() <= share

    def bound(self, *, over: bool = True) -> LowerBound:
        """A lower bound on epsilon at the delta of the rules, with their confidence.

        It is the larger of both ways round, each at half of the error probability. While the audit
        is not ``over`` it is one that holds at every look.
        """
        many = over and self.trials > self.rules.n_betting
        sides = self._unbet() if many else []
        ways = 2 if self.rules.both_ways else 1
        confidence = 1 - self.rules.alpha / ways
        if sides:
            method = "gdp" if self._gaussian() else "clopper-pearson"
            found = [
                lower_bound(
                    *s,
                    delta=self.rules.delta,
                    confidence=confidence,
                    method=method,
                    threshold="band" if self._band() == "band" else "split",
                )
                for s in sides
            ]
        else:
            found = [self._sequential_bound(sign, confidence) for sign in (1, -1)[:ways]]
        best = max(found, key=lambda bound: bound.epsilon)
        words = "; the larger of both directions of the score, half of the level each"
        return replace(
            best,
            confidence=self.rules.confidence,
            selection=best.selection + (words if ways == 2 else ""),
        )

    def _band(self) -> str:
        """Exact, or by a union over a few ranks where the exact price would take seconds."""
        return "band" if self.trials <= EXACT_BAND else "bonferroni"

    def _gaussian(self) -> bool:
        """Whether the bound may speak of Gaussian trade-offs, as the claim does."""
        return isinstance(self.rules.claim, GDP) and self.rules.delta > 0

    def _sequential_bound(self, sign: int, confidence: float) -> LowerBound:
        """Over a family of curves at many epsilons, the claim's epsilon among them."""
        claimed = float(self.rules.claim.epsilon(self.rules.delta))
        sequence = deepcopy(_sequence(self._gaussian(), self.rules.delta, claimed, confidence))
        evidence, most = self.evidence(), BETTING_LIMIT
        sequence.update(evidence.worlds[:most], sign * evidence.scores[:most])
        return sequence.bound()


@lru_cache(maxsize=8)
def _sequence(
    gaussian: bool, delta: float, claimed: float, confidence: float
) -> ConfidenceSequence:
    """A sequence that has seen nothing yet, to be copied: to prepare its bets takes a second."""
    grid = np.geomspace(0.05, 12.0, 36)
    if 0 < claimed < 100:
        grid = np.union1d(grid[np.abs(grid / claimed - 1) > 1e-3], [claimed])
    family = Family.gdp if gaussian else Family.approx_dp
    return ConfidenceSequence(family(delta, grid.tolist()), confidence=confidence)
