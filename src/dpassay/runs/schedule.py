"""Which trials to hand out next, how many at once, and what to do with those whose worker died.

Portions are cut so that each takes about ``PORTION_SECONDS``: large enough that handing out costs
little, small enough that little is lost when a worker dies or the run is stopped.

Deaths: when a worker dies, a pool loses everything that was under way, so all of it is suspect.
Each suspect is handed out again, singly. Those that were under way at a second death are played
*alone*, one after the other, so that a death can be laid at one door: a trial that kills its worker
``DEATHS_ALONE`` times in a row while it plays alone is given up as failed. So a killing trial ends
as an outcome, and a trial is never blamed for its neighbours.
"""

from collections import Counter, deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpassay.runs.outcomes import Outcomes

PORTION_SECONDS = 0.1
PORTION_BYTES = 2**24
GROWTH = 4  # from one portion to the next, so that few trials are wasted when a run stops early
DEATHS_TOGETHER = 2
DEATHS_ALONE = 3


class Schedule:
    """The trials that are still to be played.

    Args:
        trials: their numbers, in order.
        width: how many are played at the same time.
        most: the most to hand out at once.

    """

    def __init__(self, trials: NDArray[np.int64], width: int, most: int | None = None) -> None:
        self._trials, self._next = trials, 0
        self._width, self._most = width, most or trials.size
        self._size = 1
        self._suspects: deque[int] = deque()
        self._alone: deque[int] = deque()
        self._deaths: Counter[int] = Counter()
        self._solo: int | None = None

    def next(self, under_way: int) -> list[int]:
        """The next portion; empty if there is none, or none while others are under way."""
        if self._solo is not None and under_way:
            return []
        self._solo = None
        if self._alone:
            if under_way:
                return []
            self._solo = self._alone.popleft()
            return [self._solo]
        if self._suspects:
            return [self._suspects.popleft()]
        return self._fresh()

    def _fresh(self) -> list[int]:
        left = self._trials.size - self._next
        fair = -(-left // (2 * self._width))  # so that all workers end at about the same time
        size = max(1, min(self._size, self._most, fair))
        portion = self._trials[self._next : self._next + size].tolist()
        self._next += len(portion)
        return portion

    def learn_from(self, outcomes: Outcomes) -> None:
        """Learn from a finished portion how large the next may be."""
        played = len(outcomes)
        seconds = float(np.sum(outcomes.seconds)) / played
        by_time = PORTION_SECONDS / max(seconds, 1e-9)
        by_bytes = PORTION_BYTES / max(outcomes.n_bytes / played, 1.0)
        self._size = max(1, int(min(by_time, by_bytes, GROWTH * played)))

    def put_back(self, portion: Iterable[int]) -> None:
        """Take back trials that were not played although no worker died."""
        self._suspects.extendleft(reversed(list(portion)))

    def note_deaths(self, trials: Iterable[int], deaths: int = 1) -> list[int]:
        """Take back trials whose worker died; returns those that died too often, to give up."""
        given_up: list[int] = []
        for trial in trials:
            self._deaths[trial] += deaths
            if self._deaths[trial] >= DEATHS_TOGETHER + DEATHS_ALONE:
                given_up.append(trial)
            elif self._deaths[trial] >= DEATHS_TOGETHER:
                self._alone.append(trial)
            else:
                self._suspects.append(trial)
        return given_up
