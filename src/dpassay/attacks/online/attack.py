"""An attack that learns while the claim is bet against: no trial is set aside for learning.

**Why every trial counts.** Let F_t hold trials 1..t with their outputs. How trial t+1 is scored,
the past scores it is ranked among and the bet on its rank are functions of F_t; its world is a fair
coin that is independent of F_t, and given the world its output is a fresh draw. So the event "its
rank is in bin k or above" is fixed before the trial, the bet's factor has mean at most 1 given F_t
under the claim (:mod:`dpassay.bounds.betting`), and wealth is a supermartingale whatever was
learned, by whatever learner, refitted at whatever times. Trials must be taken in the order of their
numbers, and a refit may only use those before it, even if later ones have already been played.

**Streams.** Every expert is bet on from the first trial and, with other money, from a later one on.
Each of these streams has a share of the wealth that is fixed in advance. Their sum is a
supermartingale too, and loses at most -log(share) nats to the best of them.

Refits come at trial 10 and then whenever the number of trials has grown by a quarter (by half after
1000): with d entries of an output the fits cost O(n min(n, d)²) at n trials, a few times that in
all.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpassay._threads import limit_threads
from dpassay.attacks.online.experts import EXPERTS, Expert, Fit
from dpassay.attacks.online.rows import Scaling
from dpassay.bounds.betting import N_BINS
from dpassay.bounds.wealth import balanced_ranks
from dpassay.types import FloatArray

# Of what is learned from the same trials; a change makes it another attack, and another run.
VERSION = 2
FIRST_FIT = 10
_NO_BET = 2 * N_BINS
# A weak early score loses money that a good late one must win back. So part of every expert's
# wealth waits: trial from which it is bet, and its share.
STARTS = ((0, 0.6), (150, 0.4))
# Numbers of past outputs that are kept; with longer outputs experts forget the oldest trials.
_KEPT_ENTRIES, _FEWEST_KEPT = 20_000_000, 500


def next_fit(trials: int) -> int:
    """The number of trials at which experts, fitted at ``trials``, are fitted again."""
    return math.ceil(trials * (1.25 if trials < 1000 else 1.5))


@dataclass(frozen=True, eq=False)
class _Fitted:
    """An expert's score, and its past scores by world, sorted."""

    fit: Fit
    without: FloatArray
    with_canary: FloatArray

    def ranks(self, scaled: FloatArray) -> FloatArray:
        return balanced_ranks(self.without, self.with_canary, self.fit.score(scaled))


class OnlineAttack:
    """Trials in, ranks by every expert out; how a trial is ranked is fixed by those before it.

    Attributes:
        names: of the experts.
        shares: of the wealth, one for each stream; they sum to 1. ``SHARES`` are those of all
            experts.
        trials: how many were taken.

    >>> attack = OnlineAttack()
    >>> rng = np.random.default_rng(0)
    >>> worlds = rng.integers(0, 2, 200)
    >>> seen = attack.play(worlds, rng.normal(3.0 * worlds)[:, None])
    >>> ridge = seen.ranks[0, 10:]
    >>> bool(ridge[worlds[10:] == 1].mean() > 0.7 > 0.3 > ridge[worlds[10:] == 0].mean())
    True

    """

    SHARES = tuple(part * share for _, part in STARTS for share, _ in EXPERTS.values())

    def __init__(self, experts: dict[str, tuple[float, Expert]] | None = None) -> None:
        chosen = EXPERTS if experts is None else experts
        self.names = tuple(chosen)
        self.shares = tuple(part * share for _, part in STARTS for share, _ in chosen.values())
        self._experts = [expert for _, expert in chosen.values()]
        self._past = _Past()
        self._next = FIRST_FIT
        self._scaling: Scaling | None = None
        self._sort_past: list[_Fitted] = []
        self.trials = 0

    def play(self, worlds: NDArray[np.intp], table: FloatArray) -> "Ranked":
        """How every expert ranks these trials.

        Args:
            worlds: 1 with the canary, 0 without.
            table: a row of features for each; NaN where there is none, as for a failed trial.

        """
        first, drawn = self.trials, worlds
        found = [np.empty((len(self._experts), 0))]
        while len(worlds):
            if self.trials == self._next:
                self._refit()
            part = self._next - self.trials
            found.append(self._ranks(table[:part]))
            self._past.add(worlds[:part], table[:part])
            self.trials += len(worlds[:part])
            worlds, table = worlds[part:], table[part:]
        ranks = np.concatenate(found, axis=1)
        return Ranked(ranks, _streams(drawn, ranks, first))

    def _refit(self) -> None:
        self._next = next_fit(self.trials)
        table, worlds = self._past.latest()
        self._scaling, self._sort_past = None, []
        if worlds.all() or not worlds.any():
            return
        scaling = Scaling.of(table)
        if not scaling.n_columns:
            return
        scaled = scaling.apply(table)
        with limit_threads():
            fits = [expert(scaled, worlds) for expert in self._experts]
        self._sort_past = [_sort_past(fit, worlds) for fit in fits]
        self._scaling = scaling

    def _ranks(self, table: FloatArray) -> FloatArray:
        if self._scaling is None:
            return np.full((len(self._experts), len(table)), np.nan)
        scaled = self._scaling.apply(table)
        return np.stack([fitted.ranks(scaled) for fitted in self._sort_past])


@dataclass(frozen=True, eq=False)
class Ranked:
    """Trials as the experts see them.

    Attributes:
        ranks: [expert, trial] in [0, 1], higher says "with"; NaN where nothing was learned yet.
        streams: [stream, trial] outcomes for :meth:`dpassay.bounds.SequentialTest.take`.

    """

    ranks: FloatArray
    streams: NDArray[np.intp]


def _streams(worlds: NDArray[np.intp], ranks: FloatArray, first: int) -> NDArray[np.intp]:
    """World and bin in one number, or no bet, for every expert and start."""
    bins = np.minimum(np.nan_to_num(N_BINS * ranks).astype(np.intp), N_BINS - 1)
    outcomes = np.where(np.isnan(ranks), _NO_BET, worlds * N_BINS + bins)
    numbers = first + np.arange(len(worlds))
    return np.concatenate([np.where(numbers < start, _NO_BET, outcomes) for start, _ in STARTS])


def _sort_past(fit: Fit, worlds: NDArray[np.intp]) -> _Fitted:
    past, drawn = fit.past, worlds[-len(fit.past) :]
    return _Fitted(fit, np.sort(past[drawn == 0]), np.sort(past[drawn == 1]))


class _Past:
    """The latest trials, in a table that grows by doubling.

    What is remembered at trial n must not depend on how trials were handed over, or a resumed audit
    could end differently: all rows that :meth:`latest` may want are kept.
    """

    def __init__(self) -> None:
        self._table = np.empty((0, 0))
        self._worlds: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._n = 0

    def latest(self) -> tuple[FloatArray, NDArray[np.intp]]:
        """Features and worlds of the trials that are remembered: a function of their number."""
        start = max(self._n - self._most(), 0)
        return self._table[start : self._n], self._worlds[start : self._n]

    def _most(self) -> int:
        return max(_KEPT_ENTRIES // max(self._table.shape[1], 1), _FEWEST_KEPT)

    def add(self, worlds: NDArray[np.intp], table: FloatArray) -> None:
        """Take trials; the oldest are given up where outputs are long."""
        self._make_room(len(table), table.shape[1])
        end = self._n + len(table)
        self._table[self._n : end] = np.nan
        self._table[self._n : end, : table.shape[1]] = table
        self._worlds[self._n : end] = worlds
        self._n = end

    def _make_room(self, more: int, width: int) -> None:
        rows, columns = self._table.shape
        if self._n + more <= rows and width <= columns:
            return
        columns = max(columns, width)
        kept = min(self._n, self._most())
        wider = np.full((kept + more + max(kept, 64), columns), np.nan)
        wider[:kept, : self._table.shape[1]] = self._table[self._n - kept : self._n]
        longer = np.empty(len(wider), dtype=np.intp)
        longer[:kept] = self._worlds[self._n - kept : self._n]
        self._table, self._worlds, self._n = wider, longer, kept
