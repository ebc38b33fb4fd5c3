"""The engine of every game: plays its trials, whoever plays and wherever they are kept.

Audits, adversaries and one-run games differ in what a trial is (:mod:`dpassay.auditing.game`) and
in what is asked of the trials (:mod:`dpassay.auditing.question`); the engine is what they share.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpassay.auditing.game import Game
from dpassay.runs import Outcomes, Played, Players, TrialLog, play


@dataclass(frozen=True)
class Engine:
    """Who plays, where trials are kept, and when too many of them have failed.

    Attributes:
        log: the open log of the trials.
        executor: who plays; see :func:`dpassay.runs.play`.
        workers: processes of our own, if there is no executor; 1 plays in this one.
        timeout: seconds for one trial.
        recycle: replace worker processes after about so many trials.
        max_failed_share: more failures than this share end a run.
        progress: "auto", "bar", "lines", "quiet" or a progress object.

    """

    log: TrialLog
    executor: Players = None
    workers: int = 1
    timeout: float | None = None
    recycle: int | None = None
    max_failed_share: float = 0.1
    progress: Any = "quiet"

    def play(
        self,
        game: Game,
        trials: int | range,
        *,
        description: Mapping[str, Any],
        stop: Callable[[Outcomes], Any] | None = None,
        every: int = 1,
        note: Callable[[], str] | None = None,
    ) -> Played:
        """Play the trials of a game that the log does not hold, and consume all in number order.

        Args:
            game: what is played.
            trials: how many, or their numbers.
            description: what the log says of the run beside its configuration: what was asked.
            stop: is given the outcomes in number order; true ends the run.
            every: so many outcomes at a time; where a run stops does not depend on who played.
            note: gives a text to show with the progress.

        """
        return play(
            game,
            trials,
            key=game.key,
            configuration=game.configuration(),
            description=description,
            store=self.log,
            executor=self.executor,
            workers=self.workers,
            stop=stop,
            every=every,
            timeout=self.timeout,
            recycle=self.recycle,
            replayable=game.seed is not None,
            max_failed_share=self.max_failed_share,
            progress=self.progress,
            note=note,
        )
