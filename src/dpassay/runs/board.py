"""The outcomes so far, and how they are consumed: in number order, in blocks, until told to stop.

Trials end in any order. What counts is the unbroken row of finished trials from the first on; it is
consumed in blocks of ``every`` trials whose borders are fixed, so that where a run stops depends on
its outcomes alone: not on who played when, nor on how often it was interrupted and resumed.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpassay.runs.blobs import Blobs, compact, join_blobs
from dpassay.runs.outcomes import NO_WORLD, Outcomes

Ended = Literal["done", "stopped", "interrupted", "too many failures"]
GROWING = 20_000  # trials after which blocks grow, in proportion: a thousandth of what came before
FAILURES_FREE = 10  # before the share of failures is looked at: a few say little about it
_DICT, _TABLES = 2**16, 16  # features by trial, and tables of them, before they are joined


class Board:
    """Outcomes of a run by position in its list of trials.

    Args:
        trials: the trial numbers, increasing.
        stop: is given each block in order; true ends the run.
        every: trials in a block; the last may be shorter, and those after many trials are longer.
        max_failed_share: more failed trials than this share end the run.

    """

    def __init__(
        self,
        trials: NDArray[np.int64],
        stop: Callable[[Outcomes], Any] | None,
        every: int,
        max_failed_share: float,
    ) -> None:
        n = trials.size
        self.trials = trials
        self.n_finished = self.n_failed = self.n_consumed = self.n_failed_consumed = 0
        self._stop, self._every, self._share = stop, every, max_failed_share
        self._finished = np.zeros(n, dtype=bool)
        self._failed = np.zeros(n, dtype=bool)
        self._worlds = np.full(n, NO_WORLD, dtype=np.int8)
        self._scores = np.full(n, np.nan)
        self._seconds = np.zeros(n)
        self._payloads: dict[int, bytes] = {}
        self._errors: dict[int, str] = {}
        self._features: dict[int, bytes] = {}
        self._many_features: list[Blobs] = []
        self._front = 0  # all before it are finished

    def put(self, outcomes: Outcomes) -> None:
        """Note outcomes; those of trials that are not on the list are left out."""
        at = np.searchsorted(self.trials, outcomes.trials)
        ours = at < self.trials.size
        ours[ours] = self.trials[at[ours]] == outcomes.trials[ours]
        if not ours.all():
            outcomes, at = outcomes[ours], at[ours]
        self._failed[at] = outcomes.failed
        self._worlds[at] = outcomes.worlds
        self._scores[at] = outcomes.scores
        self._seconds[at] = outcomes.seconds
        self._payloads.update(outcomes.payloads)
        self._errors.update(outcomes.errors)
        self._put_features(compact(outcomes.features))
        self._finished[at] = True  # Last, because Ctrl-C may come at any time.
        self.n_finished = int(np.count_nonzero(self._finished))
        self.n_failed = int(np.count_nonzero(self._failed))

    def _put_features(self, features: Mapping[int, bytes]) -> None:
        if not isinstance(features, Blobs):
            self._features.update(features)
            if len(self._features) < _DICT:
                return
            features, self._features = compact(self._features), {}
            if not isinstance(features, Blobs):
                self._features.update(features)
                return
        self._many_features.append(features)
        if len(self._many_features) > _TABLES:
            joined = join_blobs(self._many_features)
            if isinstance(joined, Blobs):
                self._many_features = [joined]

    def list_unfinished(self) -> NDArray[np.int64]:
        """The trials that have no outcome yet."""
        return self.trials[~self._finished]

    def gather_consumed(self) -> Outcomes:
        """The outcomes that were consumed, in order."""
        return self._rows(slice(0, self.n_consumed))

    def advance(self) -> Ended | None:
        """Consume the outcomes that are next in order; how the run has ended, or None."""
        self._move_front()
        n = self.trials.size
        borders = self._borders()
        failed = self.n_failed_consumed + np.cumsum(self._failed[self.n_consumed : self._front])
        failed = failed[borders - self.n_consumed - 1]
        allowed = np.where(borders < n, FAILURES_FREE, 0) + self._share * borders
        too_many = np.flatnonzero(failed > allowed)
        borders = borders[: too_many[0] + 1] if too_many.size else borders
        for border in borders.tolist() if self._stop else borders[-1:].tolist():
            if self._consume(border):
                return "stopped"
        if too_many.size:
            return "too many failures"
        return "done" if self.n_consumed == n else None

    def consume_rest(self) -> bool:
        """Consume what is finished before the first gap, less than a block; true if that ends it.

        For runs that nobody goes on playing now: the blocks that follow have other borders.
        """
        return self._front > self.n_consumed and self._consume(self._front)

    def _borders(self) -> NDArray[np.int64]:
        """The ends of the blocks that are finished and not yet consumed."""
        borders = self._next_borders()
        n = self.trials.size
        if self._front == n > self.n_consumed and not (borders.size and borders[-1] == n):
            borders = np.append(borders, n)
        return borders

    def _next_borders(self) -> NDArray[np.int64]:
        """The ends of whole blocks that are finished; where they lie follows from ``every``."""
        at, every = self.n_consumed, self._every
        parts: list[NDArray[np.int64]] = []
        while at + every <= self._front:
            size = every * max(1, at // GROWING)
            # All blocks have this size up to the next multiple of GROWING, and one goes beyond it.
            end = (at // GROWING + 1) * GROWING
            n = min(-(-(end - at) // size), (self._front - at) // size)
            if not n:
                break
            parts.append(at + size * np.arange(1, n + 1))
            at = int(parts[-1][-1])
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _consume(self, border: int) -> bool:
        rows = slice(self.n_consumed, border)
        self.n_consumed = border
        self.n_failed_consumed += int(np.count_nonzero(self._failed[rows]))
        return self._stop is not None and bool(self._stop(self._rows(rows)))

    def _move_front(self) -> None:
        while self._front < self.trials.size and self._finished[self._front]:
            row = self._finished[self._front : self._front + 2**16]
            self._front += row.size if row.all() else int(np.argmin(row))

    def _rows(self, rows: slice) -> Outcomes:
        whole = Outcomes(
            self.trials,
            self._failed,
            self._worlds,
            self._scores,
            self._seconds,
            self._payloads,
            self._errors,
            self._features,
        )[rows]
        if not self._many_features:
            return whole
        many = [features.of(whole.trials) for features in self._many_features]
        return replace(whole, features=join_blobs([*many, whole.features]))
