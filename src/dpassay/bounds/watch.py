"""Trials as they come in: checked, ranked among those before, and bet on."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check
from dpassay._special.margins import ARITHMETIC, round_up
from dpassay.bounds.betting import Form
from dpassay.bounds.wealth import Bettor, Book, Rounds
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

Shares = Sequence[float]
_SCORES = "A trial that failed is an output as well: give it the score -inf."
_WORLDS = "1 is a trial with the canary, 0 one without."


class Watch:
    """Bets by a book on one or several streams of outcomes, and notes when each claim is refuted.

    Every stream is one way to see the same trials, bet on with a share of the wealth that is fixed
    in advance: a mixture of supermartingales is one. It costs -log(share) of the log wealth at
    most.
    """

    def __init__(self, book: Book, confidence: float, rest: bool, shares: Shares = (1.0,)) -> None:
        self.book, self.confidence, self.trials = book, confidence, 0
        # log(1 / alpha), rounded up. Rounding of the wealth itself is in the prices of the bets.
        self.enough = round_up(-math.log1p(-confidence), ARITHMETIC, size=1.0)
        self.shares = tuple(shares)
        rests = [self.enough - math.log(share) if rest else math.inf for share in shares]
        self.bettor = Bettor(book, rests)
        self.refuted_at = np.zeros(len(book.pays), dtype=np.int64)
        # The largest surplus of log wealth over what is needed, per trial; 0 while a claim stands.
        self.surplus = np.zeros(len(book.pays))
        self.log_wealth = np.zeros(len(book.pays))

    def take(self, streams: NDArray[np.intp], trials: int) -> FloatArray:
        """Log wealth [m, t] against every claim after each of these rounds, all streams mixed."""
        before, per_round = self.bettor.rounds, self.book.form.trials
        # Shares in units of the largest: two equal halves then lose log 2 and no bit to rounding.
        largest = max(self.shares)
        parts = np.log(np.array(self.shares) / largest)[:, None, None]
        paths = self.bettor.play(streams) + parts
        path = np.logaddexp.reduce(paths, axis=0) + math.log(largest)
        self.trials += trials
        if path.size:
            rounds = before + 1 + np.arange(int(path.shape[1]), dtype=np.int64)
            self._note(path, per_round * rounds)
        return path

    def _note(self, path: FloatArray, trials: NDArray[np.int64]) -> None:
        """Note which claims fell on this path of log wealth, and when."""
        self.log_wealth = path[:, -1].copy()
        reached = path >= self.enough
        new = reached.any(axis=1) & (self.refuted_at == 0)
        self.refuted_at = np.where(new, trials[reached.argmax(axis=1)], self.refuted_at)
        # Per trial, since it has to pay a price per trial (``ladder.move_up``). The best moment
        # counts: Ville's inequality holds at all times together.
        self.surplus = np.maximum(self.surplus, ((path - self.enough) / trials).max(axis=1))


class Ranked:
    """Streams of outcomes from scores: one, or with ``both_ways`` a second of their negatives."""

    def __init__(self, form: Form, both_ways: bool) -> None:
        self._form = form
        self._signs = (1, -1) if both_ways else (1,)
        self._rounds = [Rounds(form) for _ in self._signs]
        self.shares = tuple(1 / len(self._signs) for _ in self._signs)

    def play(self, worlds: ArrayLike, scores: ArrayLike) -> NDArray[np.intp]:
        """The outcomes of the rounds that these trials complete, a row for each stream."""
        drawn, seen = check_trials(worlds, scores)
        if self._form.trials == 2:
            _check_pairs(drawn, self._rounds[0].waiting_world())
        signed = [seen if sign == 1 else [-score for score in seen] for sign in self._signs]
        both = zip(self._rounds, signed, strict=True)
        return np.stack([rounds.play(drawn, values) for rounds, values in both])


def check_trials(worlds: ArrayLike, scores: ArrayLike) -> tuple[list[int], list[float]]:
    """Checked worlds and scores as lists; one trial may come as two numbers."""
    w = np.atleast_1d(_check.array("worlds", worlds, low=0, high=1, remedy=_WORLDS))
    x = np.atleast_1d(_check.array("scores", scores, finite=False, remedy=_SCORES))
    if w.ndim != 1 or w.shape != x.shape:
        raise InvalidArgument(
            f"worlds has shape {w.shape}, scores {x.shape}; give one world and one score per trial."
        )
    if not np.isin(w, (0, 1)).all():
        raise InvalidArgument(f"worlds={w[~np.isin(w, (0, 1))][0]:g} must be 0 or 1. {_WORLDS}")
    return w.astype(int).tolist(), x.tolist()


def _check_pairs(worlds: list[int], waiting: int | None) -> None:
    row = worlds if waiting is None else [waiting, *worlds]
    for i in range(0, len(row) - 1, 2):
        if row[i] == row[i + 1]:
            raise InvalidArgument(
                f"worlds has a pair with twice world {row[i]}. With form='pairs' or 'shared-seed' "
                "trials 2k and 2k+1 are a pair, one with and one without the canary; for worlds "
                "drawn by a coin use form='coin'."
            )
