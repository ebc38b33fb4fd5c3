"""Wealth won by betting against claims, trial after trial: the engine under the sequential tests.

**Why wealth is evidence.** Every bet is fixed by the trials before its own, so under a true claim
its factor has mean at most 1 given the past (:mod:`dpassay.bounds.betting`), and wealth, the
product of the factors, is a nonnegative supermartingale that starts at 1. So is a mixture of
wealths with shares fixed in advance. By Ville's inequality it ever reaches 1/alpha with probability
at most alpha: one may look after every trial and stop at will. P and Q may change with the past.

**The bets.** 70 % of the wealth starts on portfolios that are log-optimal for a list of
alternatives, 30 % on one that learns from the ranks seen so far, shrunk to the claim itself, where
not to bet is best.

Everything is a function of the trial's number and of the trials before it, never of how they were
handed over: what is learned is learned at fixed round numbers.
"""

import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from dpassay.bounds.alternatives import alternatives
from dpassay.bounds.betting import (
    N_BINS,
    Form,
    Lines,
    bin_masses,
    factors,
    improve,
    log_optimal,
    with_cash,
)
from dpassay.types import FloatArray, PrivacyCurve

LEARNER = 0.3
# The learner starts from this many rounds of the pair that just meets the claim.
PRIOR_ROUNDS = 50
LEARNING_STEPS = 12
# Ranks among this many past trials are fine enough; later ones are ranked among these.
POOL = 2**14


def next_lesson(rounds: int) -> int:
    """The round at which the learner, who learned at ``rounds``, learns again."""
    return rounds + min(1 + rounds // 20, 1000)


class PastRanks:
    """Bins of scores by their rank among the scores of past trials.

    The rank is half the rank among scores with the canary and half that without, so that unequal
    numbers of the two do not matter. Between past scores it is interpolated; tied scores share the
    middle of their ranks; infinite scores are scores like any other.
    """

    def __init__(self) -> None:
        self._past: tuple[list[float], list[float]] = ([], [])

    def add(self, world: int, score: float) -> None:
        """Add the score of a played trial to those that later scores are ranked among."""
        # Beyond the pool a rank would gain no digit, and every trial would cost more than the last.
        if len(self._past[0]) + len(self._past[1]) < POOL:
            insort(self._past[world], score)

    def bin(self, score: float) -> int | None:
        """The bin of a score, or None while a world has not been seen."""
        out, with_canary = self._past
        if not (out and with_canary):
            return None
        return min(int(N_BINS * _balanced_rank(out, with_canary, score)), N_BINS - 1)


def _balanced_rank(a: list[float], b: list[float], x: float) -> float:
    """The rank of x in [0, 1], half of it in each of two sorted lists."""
    i, j = bisect_left(a, x), bisect_left(b, x)
    i_end, j_end = bisect_right(a, x, i), bisect_right(b, x, j)
    one_a, one_b = 0.5 / len(a), 0.5 / len(b)
    if i_end > i or j_end > j:
        return (one_a * (i + i_end) + one_b * (j + j_end)) / 2
    # The nearest past scores on either side, and the shares of the past that are tied with them.
    low = max(a[i - 1] if i else -inf, b[j - 1] if j else -inf)
    high = min(a[i] if i < len(a) else inf, b[j] if j < len(b) else inf)
    at_low = one_a * (i - bisect_left(a, low, 0, i)) + one_b * (j - bisect_left(b, low, 0, j))
    at_high = one_a * (bisect_right(a, high, i) - i) + one_b * (bisect_right(b, high, j) - j)
    # Beyond all past scores there is no neighbour to interpolate with: half of the outermost share.
    if at_low == 0:
        return at_high / 4
    if at_high == 0:
        return 1 - at_low / 4
    gap = high - low
    share = (x - low) / gap if gap < inf else 0.5
    return one_a * i + one_b * j + (share * at_high - (1 - share) * at_low) / 2


def balanced_ranks(a: FloatArray, b: FloatArray, x: FloatArray) -> FloatArray:
    """The rank in [0, 1] of every x, half of it in each of two sorted arrays that are not empty.

    Ties and gaps are as in :class:`PastRanks`.
    """
    i, j = np.searchsorted(a, x), np.searchsorted(b, x)
    i_end, j_end = np.searchsorted(a, x, "right"), np.searchsorted(b, x, "right")
    one_a, one_b = 0.5 / len(a), 0.5 / len(b)
    tied = (one_a * (i + i_end) + one_b * (j + j_end)) / 2
    a_wide, b_wide = (np.concatenate([[-inf], row, [inf]]) for row in (a, b))
    low, high = np.maximum(a_wide[i], b_wide[j]), np.minimum(a_wide[i + 1], b_wide[j + 1])
    at_low = one_a * (i - np.searchsorted(a, low)) + one_b * (j - np.searchsorted(b, low))
    at_high = one_a * (np.searchsorted(a, high, "right") - i)
    at_high = at_high + one_b * (np.searchsorted(b, high, "right") - j)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = high - low
        share = np.where(gap < inf, (x - low) / np.where(gap > 0, gap, 1.0), 0.5)
        between = one_a * i + one_b * j + (share * at_high - (1 - share) * at_low) / 2
    outside = np.where(at_low == 0, at_high / 4, np.where(at_high == 0, 1 - at_low / 4, between))
    return np.where((i_end > i) | (j_end > j), tied, outside)


class Rounds:
    """Trials in, outcomes of rounds out: numbers that index ``Form.log_factors``.

    The outcome after the last stands for a round without a bet.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self._ranks = PastRanks()
        self._waiting: tuple[int, float] | None = None

    def waiting_world(self) -> int | None:
        """The world of the first half of a pair that is not complete yet."""
        return self._waiting[0] if self._waiting else None

    def play(self, worlds: Sequence[int], scores: Sequence[float]) -> NDArray[np.intp]:
        """The outcomes of the rounds that these trials complete."""
        step = self._coin if self._form.trials == 1 else self._pair
        outcomes = [step(world, score) for world, score in zip(worlds, scores, strict=True)]
        return np.array([o for o in outcomes if o is not None], dtype=np.intp)

    def _coin(self, world: int, score: float) -> int:
        # Ranked first, added afterwards: a bet on this trial may depend on earlier trials alone.
        position = self._ranks.bin(score)
        self._ranks.add(world, score)
        return 2 * N_BINS if position is None else world * N_BINS + position

    def _pair(self, world: int, score: float) -> int | None:
        if self._waiting is None:
            self._waiting = world, score
            return None
        pair = {self._waiting[0]: self._waiting[1], world: score}
        self._waiting = None
        # Both are ranked before either joins the past: one bet for the whole pair.
        without, with_canary = self._ranks.bin(pair[0]), self._ranks.bin(pair[1])
        for w in (0, 1):
            self._ranks.add(w, pair[w])
        if without is None or with_canary is None:
            return N_BINS * N_BINS
        return with_canary * N_BINS + without


@dataclass(frozen=True, eq=False)
class Book:
    """All that is fixed before the first trial: assets, bets on alternatives, the learner's prior.

    Attributes:
        form: how trials make up rounds.
        pays: payoffs of the assets [m, w, j] against claim m.
        shares: how wealth is split at first [m, a] among components: one per alternative, and the
            learner, which comes last.
        logs: log factors [m, a, o] of the components by outcome; the last outcome is no bet.
        prior: what the learner expects, the pair that just meets the claim.
        weights: the learner's first portfolio [m, j, k].

    """

    form: Form
    pays: FloatArray
    shares: FloatArray
    logs: FloatArray
    prior: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, claims: Sequence[PrivacyCurve], form: Form) -> "Book":
        """The book on several claims, which will be bet against in the same rounds."""
        return cls.on([Lines.of(claim) for claim in claims], form)

    @classmethod
    def on(cls, lines: Sequence[Lines], form: Form, n_assets: int = 0) -> "Book":
        """The book on claims that are given by their lines, with at least so many assets each."""
        pays = _stack([line.pays for line in lines], n_assets)
        shares, masses = (np.stack(part) for part in zip(*map(alternatives, lines), strict=True))
        bets = log_optimal(pays[:, None], form.expect(masses), form)
        logs = form.log_factors(with_cash(factors(bets, pays[:, None])))
        prior = form.expect(np.stack([bin_masses(*line.roc()) for line in lines]))
        return cls(
            form,
            pays,
            np.insert((1 - LEARNER) * shares, shares.shape[1], LEARNER, axis=1),
            np.pad(logs, ((0, 0), (0, 1), (0, 1))),
            prior,
            log_optimal(pays, prior, form, steps=5),
        )


def _stack(pays: Sequence[FloatArray], n_assets: int) -> FloatArray:
    """Payoffs of several claims in one array; assets that pay nothing fill it up."""
    most = max(n_assets, *(p.shape[1] for p in pays))
    return np.stack([np.pad(p, ((0, 0), (0, most - p.shape[1]))) for p in pays])


class Bettor:
    """Bets by the book against all its claims, on one or several streams of the same rounds.

    ``log_wealth[s, m]`` is the evidence against claim m of one who bets on stream s alone.
    Components are never rebalanced. Against a claim whose log wealth has reached ``enough`` of its
    stream the learner learns no more.
    """

    def __init__(self, book: Book, enough: Sequence[float] = (inf,)) -> None:
        n = len(enough)
        self._book, self._enough = book, np.array(enough)[:, None]
        self._components = np.stack([np.log(book.shares)] * n)
        self._logs, self._weights = np.stack([book.logs] * n), np.stack([book.weights] * n)
        self._counts = np.zeros((n, book.logs.shape[-1]))
        self._learning = np.ones((n, len(book.pays)), bool)
        self.rounds, self._lesson = 0, 0
        self.log_wealth = np.zeros((n, len(book.pays)))

    def play(self, outcomes: NDArray[np.intp]) -> FloatArray:
        """Log wealth [s, m, t] against every claim after each of these rounds [s, t]."""
        paths = [np.empty((*self.log_wealth.shape, 0))]
        while outcomes.shape[1]:
            if self.rounds == self._lesson:
                self._learn()
            part, outcomes = np.split(outcomes, [self._lesson - self.rounds], axis=1)
            paths.append(self._bet(part))
        return np.concatenate(paths, axis=-1)

    def _bet(self, outcomes: NDArray[np.intp]) -> FloatArray:
        drawn = [logs[..., row] for logs, row in zip(self._logs, outcomes, strict=True)]
        won = np.concatenate([self._components[..., None], np.stack(drawn)], axis=-1)
        # Wealth is kept as a logarithm, since it passes every float after some thousand rounds. A
        # sum rounds by one unit of its size. Every asset is priced a share ``ARITHMETIC`` too high,
        # which takes more in each round than that adds, up to logarithms of some thousands: by then
        # any claim has long fallen.
        # Both reductions go through rounds and components in order: any batch gives the same bits.
        path = np.add.accumulate(won, axis=-1)
        self._components = path[..., -1].copy()
        self._counts += [np.bincount(row, minlength=self._counts.shape[1]) for row in outcomes]
        self.rounds += outcomes.shape[1]
        log_wealth = np.logaddexp.reduce(path[..., 1:], axis=2)
        self.log_wealth = log_wealth[..., -1].copy()
        self._learning &= log_wealth.max(axis=-1) < self._enough
        return log_wealth

    def _learn(self) -> None:
        """Move the learner's portfolio towards the best one for the rounds so far."""
        self._lesson = next_lesson(self.rounds)
        streams, claims = np.nonzero(self._learning)
        if not streams.size:
            self._lesson = sys.maxsize  # who learns no more plays all further rounds at once
            return
        form, pays, seen = self._book.form, self._book.pays[claims], self._counts[streams, :-1]
        # The prior is the claim's own pair, at which the best bet is none: few rounds, small bets.
        evidence = PRIOR_ROUNDS * self._book.prior[claims] + form.evidence(seen)
        evidence /= PRIOR_ROUNDS + seen.sum(axis=1)[:, None, None]
        weights = improve(self._weights[streams, claims], pays, evidence, form, LEARNING_STEPS)
        self._weights[streams, claims] = weights
        self._logs[streams, claims, -1, :-1] = form.log_factors(with_cash(factors(weights, pays)))
