"""Which trials to hand out next, how many at once, and what to do with those whose worker died.

Portions are cut so that each takes about as long as the workers wish (``portion_seconds``): large
enough that handing out costs little, small enough that little is lost when a worker dies or the
run is stopped.

Deaths: when a worker dies, a pool loses everything that was under way, so all of it is suspect.
Each suspect is handed out again, singly. Those that were under way at a second death are played
*alone*, one after the other, so that a death can be laid at one door: a trial that kills its worker
``DEATHS_ALONE`` times while it plays alone is given up as failed. So a killing trial ends as an
outcome, and a trial is never blamed for its neighbours: deaths in company count for nothing but
for being played alone. The rule is the same whoever plays.
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
DEATHS_ALONE = 4


class Schedule:
    """The trials that are still to be played.

    Args:
        trials: their numbers, in order.
        width: how many are played at the same time; it may be changed at any time.
        most: the most to hand out at once.

    """

    def __init__(self, trials: NDArray[np.int64], width: int, most: int | None = None) -> None:
        self.width, self.portion_seconds = width, PORTION_SECONDS
        self._trials, self._next = trials, 0
        self._most = most or trials.size
        self._size = 1
        self._returned: deque[list[int]] = deque()
        self._suspects: deque[int] = deque()
        self._alone: deque[int] = deque()
        self._deaths_together: Counter[int] = Counter()
        self._deaths_alone: Counter[int] = Counter()
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
        return self._returned.popleft() if self._returned else self._fresh()

    def _fresh(self) -> list[int]:
        left = self._trials.size - self._next
        fair = -(-left // (2 * max(self.width, 1)))  # so that all end at about the same time
        size = max(1, min(self._size, self._most, fair))
        portion = self._trials[self._next : self._next + size].tolist()
        self._next += len(portion)
        return portion

    def learn_from(self, outcomes: Outcomes) -> None:
        """Learn from a finished portion how large the next may be."""
        played = len(outcomes)
        seconds = float(np.sum(outcomes.seconds)) / played
        by_time = self.portion_seconds / max(seconds, 1e-9)
        by_bytes = PORTION_BYTES / max(outcomes.n_bytes / played, 1.0)
        self._size = max(1, int(min(by_time, by_bytes, GROWTH * played)))

    def put_back(self, portion: Iterable[int]) -> None:
        """Take back a portion that was not played although no worker died."""
        portion = list(portion)
        if self._solo is not None and portion == [self._solo]:
            self._alone.appendleft(self._solo)
        else:
            self._returned.append(portion)

    def note_deaths(self, trials: Iterable[int], deaths: int = 1) -> list[int]:
        """Take back trials whose worker died; returns those that died too often, to give up.

        ``deaths`` is how many workers died one after the other over these very trials.
        """
        trials = list(trials)
        if self._solo is not None and trials == [self._solo]:
            return self._note_deaths_alone(self._solo, deaths)
        for trial in trials:
            self._deaths_together[trial] += deaths if len(trials) == 1 else 1
            again = self._deaths_together[trial] >= DEATHS_TOGETHER
            (self._alone if again else self._suspects).append(trial)
        return []

    def _note_deaths_alone(self, trial: int, deaths: int) -> list[int]:
        self._deaths_alone[trial] += deaths
        if self._deaths_alone[trial] >= DEATHS_ALONE:
            return [trial]
        self._alone.appendleft(trial)
        return []
