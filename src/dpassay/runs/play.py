"""Playing a task many times: every trial once, whatever dies in between."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.errors import AuditStopped, InvalidArgument
from dpassay.runs.board import Board, Ended
from dpassay.runs.crew import Players, crew_for
from dpassay.runs.log import opened
from dpassay.runs.outcomes import Outcomes, Task
from dpassay.runs.progress import Progress, progress_for
from dpassay.runs.protocol import TrialLog
from dpassay.runs.session import Session
from dpassay.runs.writer import this_writer

_DEATHS = "deaths"  # the fact about a run that counts dead workers


@dataclass(frozen=True)
class Played:
    """How a run ended, with the outcomes that were consumed.

    Attributes:
        key: the run's key.
        ended: "done" (all trials consumed), "stopped" (by ``stop``), "interrupted" (Ctrl-C), or
            "too many failures".
        outcomes: the outcomes consumed, in number order: the first trials of the list, up to where
            the run ended. The same however often the run was killed and resumed.
        n_played: trials played now, the others were in the log.
        n_logged: trials of the list that have an outcome, some of which may not be consumed.
        n_deaths: how often a worker died, in this call and in those before it.
        seconds: wall time.

    """

    key: str
    ended: Ended
    outcomes: Outcomes
    n_played: int
    n_logged: int
    n_deaths: int
    seconds: float

    @property
    def n_failed(self) -> int:
        """Failed trials among those consumed."""
        return self.outcomes.n_failed

    @property
    def first_error(self) -> str | None:
        """The error of the first failed trial, in full."""
        return next(iter(self.outcomes.errors.values()), None)

    def require_whole(self, trials: int, what: str, *, failures: bool = False) -> "Played":
        """Itself if the run is complete; for games that say nothing before they are.

        Args:
            trials: how many were asked for.
            what: the plural of what was played, for messages: "trainings".
            failures: whether trials may have failed, up to the share that :func:`play` allows.

        Raises:
            AuditStopped: too many trials failed, or the user interrupted.

        """
        if self.ended == "too many failures" or (self.n_failed and not failures):
            raise AuditStopped(
                f"{self.n_failed} of {len(self.outcomes)} {what} failed, too many to say anything. "
                f"The first error was:\n{self.first_error}"
            )
        if self.ended == "interrupted":
            raise AuditStopped(
                f"interrupted after {len(self.outcomes)} of {trials} {what}. With store= the same "
                "call goes on."
            )
        return self


def play(
    task: Task,
    trials: int | Sequence[int] | NDArray[np.int64],
    *,
    key: str,
    configuration: Mapping[str, Any] | None = None,
    description: Mapping[str, Any] | None = None,
    store: str | Path | TrialLog | None = None,
    executor: Players = None,
    workers: int | None = None,
    batch: int = 1,
    stop: Callable[[Outcomes], Any] | None = None,
    every: int = 1,
    timeout: float | None = None,
    recycle: int | None = None,
    replayable: bool = True,
    max_failed_share: float = 0.1,
    progress: str | Progress = "quiet",
    note: Callable[[], str] | None = None,
    part: str | None = None,
) -> Played:
    """Play the trials that are not in the log, and consume all of them in number order.

    A trial is played once and its outcome is written when it ends. Only the death of a worker
    makes it be played again. Calling this again with the same key and store goes on where the last
    call was, even if that was killed, and ends with the same outcomes. What a trial prints is kept
    out of the way and shown, its end, with the error of a trial that fails.

    Ctrl-C does not raise once trials are played: no more are begun, what is finished is written,
    and the result says "interrupted". (A second Ctrl-C while that is done raises.)

    Args:
        task: ``task(trials)`` returns a result per trial, see :class:`Task`.
        trials: how many, from 0 on, or increasing trial numbers.
        key: names the run in the log, see :func:`dpassay.runs.run_key`.
        configuration: what to write into the log about the run, as plain JSON; the first stands.
        description: more of that, of which the latest stands. "writer" is added: who plays now.
        store: the log: a path, an open log, or None for memory.
        executor: who plays: any ``concurrent.futures.Executor`` (which cannot be replaced if it
            breaks), a function that makes one, :class:`Workers`, a ``dask.distributed.Client``,
            "dask" (a cluster of processes on this machine) or "dask:tcp://host:8786".
        workers: number of processes of our own; 1 plays in this process. Default: one per core.
            Worker processes compute on one thread each. Where sums depend on the number of threads
            (large matrix products), set OMP_NUM_THREADS=1 to have the same bits in this process.
        batch: the most trials to give the task in one call. If a call with several trials fails,
            each of them is played alone. So a task whose noise cannot be replayed must have batch=1
            or turn failures into outcomes itself: its other draws would be drawn again.
        stop: is given the outcomes that are consumed, each once, in order; true ends the run.
        every: consume so many at a time. The borders are fixed, so where a run stops does not
            depend on who played what when.
        timeout: seconds for one trial, after which it has failed. With ``workers=1`` and with a
            thread pool or Dask a task that ignores its interruption cannot be ended.
        recycle: replace worker processes after about so many trials, for tasks that leak memory.
        replayable: whether a trial played again is the same trial. If not, trials whose worker died
            have failed at once: to draw them anew would be to drop outputs for what they were.
        max_failed_share: end when more than this share of the trials consumed have failed; up to
            ten failures are let pass until the end.
        progress: "auto", "bar", "lines", "quiet" or a :class:`Progress`.
        note: gives a text to show with the progress.
        part: the name of the shard or range that these trials are, for the log.

    Returns:
        How it ended, with the outcomes that were consumed.

    Raises:
        InvalidArgument: an argument is out of range, or the task cannot be sent to workers.
        TaskError: the task returned the wrong number or kind of results.
        LogError: the log cannot be read or written.
        RunError: workers cannot be had, or (:class:`~dpassay.errors.EngineLost`) no longer.

    """
    numbers = _numbers(trials)
    _check_arguments(task, key, batch, every, timeout, recycle, max_failed_share)
    begin = time.monotonic()
    with opened(store) as log:
        board = Board(numbers, stop, every, max_failed_share)
        known = log.outcomes(key)
        board.put(known)
        before, deaths = board.n_finished, 0
        about = {**(description or {}), "writer": this_writer(len(known))}
        log.begin(key, configuration or {}, about)
        shown = progress_for(progress, note)
        shown.begin(numbers.size, before)
        try:
            ended = board.advance()
            if ended is None:
                with crew_for(task, executor, workers, batch, timeout, replayable) as crew:
                    session = Session(key, log, board, crew, shown, recycle, replayable, part)
                    ended = session.play()
                    deaths = session.n_deaths
        except KeyboardInterrupt:
            ended = "interrupted"
        finally:
            shown.end()
        n_deaths = _count_deaths(log, key, deaths)
    return Played(
        key=key,
        ended=ended,
        outcomes=board.gather_consumed(),
        n_played=board.n_finished - before,
        n_logged=board.n_finished,
        n_deaths=n_deaths,
        seconds=time.monotonic() - begin,
    )


def read_run(
    trials: int | Sequence[int] | NDArray[np.int64],
    *,
    key: str,
    store: str | Path | TrialLog,
    stop: Callable[[Outcomes], Any] | None = None,
    every: int = 1,
    max_failed_share: float = 0.1,
) -> Played:
    """What a log holds of a run, consumed as :func:`play` would, without playing anything.

    Where the run has ended, the result is that of :func:`play`. Where trials are missing, it says
    "interrupted", and all outcomes before the first gap are consumed. Arguments are those of
    :func:`play`.
    """
    board = Board(_numbers(trials), stop, every, max_failed_share)
    with opened(store, make=False) as log:
        board.put(log.outcomes(key))
        n_deaths = _count_deaths(log, key, 0)
    ended = board.advance()
    if ended is None:
        ended = "stopped" if board.consume_rest() else "interrupted"
    return Played(key, ended, board.gather_consumed(), 0, board.n_finished, n_deaths, 0.0)


def _count_deaths(log: TrialLog, key: str, new: int) -> int:
    """How often a worker died for this run, the new deaths included; kept in the log."""
    if not new:
        return int(log.read_note(key, _DEATHS, 0))
    return int(log.revise(key, _DEATHS, lambda before: (before or 0) + new))


def _numbers(trials: Any) -> NDArray[np.int64]:
    if isinstance(trials, int | np.integer):
        return np.arange(_check.count("trials", trials, low=0), dtype=np.int64)
    try:
        numbers = np.asarray(trials)
    except ValueError:
        numbers = np.array(0.5)
    good = numbers.ndim == 1 and (numbers.size == 0 or numbers.dtype.kind in "iu")
    if not good or np.any(numbers < 0) or np.any(numbers[1:] <= numbers[:-1]):
        raise InvalidArgument(
            "trials must be a count, or trial numbers from 0 on in increasing order, each once; "
            "for example range(1000)."
        )
    return numbers.astype(np.int64)


def _check_arguments(
    task: Any,
    key: Any,
    batch: Any,
    every: Any,
    timeout: Any,
    recycle: Any,
    max_failed_share: Any,
) -> None:
    if not callable(task):
        raise InvalidArgument(
            f"task={_check.shown(task)} must be callable: task(trials) -> results."
        )
    if not isinstance(key, str) or not key:
        raise InvalidArgument(f"key={key!r} must be a text. Make one with run_key(...).")
    _check.count("batch", batch)
    _check.count("every", every)
    if timeout is not None:
        remedy = "It is the seconds that one trial may take; None is for ever."
        _check.number("timeout", timeout, low=0, low_open=True, remedy=remedy)
    if recycle is not None:
        _check.count("recycle", recycle)
    remedy = "It is a share; 1 never ends a run because trials fail."
    _check.number("max_failed_share", max_failed_share, low=0, high=1, remedy=remedy)
