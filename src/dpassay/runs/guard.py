"""Around a task, where it is played: whatever a trial does, it ends as an outcome.

Raising (also ``SystemExit``) and running out of time are failed outcomes. Prints reach nobody,
since they may hold records; with ``DPASSAY_DEBUG`` the last of those of a trial that failed are
shown on the terminal, with its error. A process that the task forks off ends when it
comes back from the task. What no guard can catch (``os._exit``, a crash of the interpreter) kills
the process: in a worker that is a death, see :mod:`dpassay.runs.schedule`; with ``workers=1`` it
ends the run, and the log keeps what was played.
"""

import contextlib
import io
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dpassay.errors import debugging, describe
from dpassay.runs import clock
from dpassay.runs.outcomes import Outcome, Outcomes, Task
from dpassay.runs.parcel import Parcel
from dpassay.runs.results import Results

ERROR_MAX = 4000  # characters of one error
PRINTED_MAX = 10_000  # bytes of prints that are shown with an error, on the terminal


class Rules(NamedTuple):
    """How trials are played.

    Attributes:
        batch: the most trials that the task is given at once.
        timeout: seconds for one trial, or None.
        home: the process that the run belongs to.
        notes: a folder where a worker notes what it is doing, so that it can be understood if it
            had to end itself; None where workers must not do that.
        replayable: whether a trial played again is the same trial.

    """

    batch: int = 1
    timeout: float | None = None
    home: int = 0
    notes: str | None = None
    replayable: bool = True


class _Failure(NamedTuple):
    error: str


def play_portion(task: Task | Parcel, trials: Sequence[int], rules: Rules) -> Outcomes:
    """The outcomes of these trials, each as if it had been played alone.

    Raises:
        TaskError: the task broke its contract, or could not be unpacked here.

    """
    task = task.unpack() if isinstance(task, Parcel) else task
    if rules.notes is not None and os.getpid() != rules.home:
        # What a trial that is killed leaves in temporary files goes when the run ends.
        tempfile.tempdir = os.path.dirname(rules.notes)
    with _watchdog(rules) as dog:
        portion = _Portion(task, rules, dog)
        for start in range(0, len(trials), rules.batch):
            portion.play(list(trials[start : start + rules.batch]))
    return portion.results.outcomes()


@contextlib.contextmanager
def _watchdog(rules: Rules) -> Iterator[clock.Watchdog | None]:
    """A watchdog, if there is a timeout and this process is one that may be ended."""
    may_end = rules.notes is not None and os.getpid() != rules.home and clock.has_alarms()
    if rules.timeout is None or rules.notes is None or not may_end:
        yield None
        return
    dog = clock.Watchdog(rules.timeout, rules.notes)
    try:
        yield dog
    finally:
        dog.rest()


class _Portion:
    """The playing of a portion of trials, and what has come of it."""

    def __init__(self, task: Task, rules: Rules, dog: clock.Watchdog | None) -> None:
        self._task, self._rules, self._dog = task, rules, dog
        self.results = Results()

    def play(self, trials: list[int]) -> None:
        """Play these in one call; if that fails, each in a call of its own."""
        begin = time.perf_counter()
        results = self._call(trials)
        seconds = (time.perf_counter() - begin) / len(trials)
        if not isinstance(results, _Failure):
            self.results.add(trials, results, seconds)
        elif len(trials) == 1:
            self.results.add_one(trials[0], Outcome(error=results.error), seconds)
        else:
            for trial in trials:
                self.play([trial])

    def _call(self, trials: list[int]) -> Any:
        """What the task returns, or the failure that it ends in."""
        pid = os.getpid()
        if self._dog is not None:
            self._dog.watch(trials)
        with _capture_output() as prints:
            try:
                return clock.within(self._rules.timeout, lambda: self._task(trials))
            except clock.TimeUp:
                error = _time_is_up(self._rules)
            except KeyboardInterrupt as raised:
                if pid == self._rules.home:
                    raise  # It is the user's, not the task's.
                error = error_text(raised)
            except BaseException as raised:
                error = error_text(raised)
            finally:
                if os.getpid() != pid:
                    os._exit(0)  # A child that the task forked must not go on as a second runner.
        if debugging():
            _show_on_terminal(prints.show())
        return _Failure(error)


def hung_trials(rules: Rules) -> dict[int, str]:
    """The trials that made their worker end itself since this was last asked, with their errors."""
    dumps = clock.hung_trials(rules.notes) if rules.notes else {}
    alarm = f"{_time_is_up(rules)}, and ignored its alarm"
    return {trial: alarm + _place(dump) for trial, dump in dumps.items()}


def _time_is_up(rules: Rules) -> str:
    return f"timeout: the trial took more than {rules.timeout} s"


def _place(dump: str) -> str:
    """Where the task was, from a dump of all threads, innermost frame first."""
    for thread in dump.split("\n\n"):
        inside, ours, _ = thread.partition(f" in {play_portion.__name__}\n")
        if ours:
            lines = [line for line in inside.splitlines() if os.path.dirname(__file__) not in line]
            return "\n".join([".", *lines])[:ERROR_MAX]
    return ""


# ------------------------------------------------------------------------------- errors, prints


def error_text(error: BaseException) -> str:
    """The kind of an error and where the task raised it, as a text of bounded length.

    Without its words, which may quote a record (see :func:`dpassay.errors.describe`): the text goes
    into the log and into reports. With ``DPASSAY_DEBUG`` the whole error is shown on the terminal.
    """
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in (__file__, clock.__file__):
        frames = frames.tb_next
    if debugging():
        _show_on_terminal("".join(_whole(error)))
    try:
        text = describe(error.with_traceback(frames))
    except Exception:  # An exception can be hostile too.
        text = type(error).__name__
    if len(text) <= ERROR_MAX:
        return text
    head = ERROR_MAX // 4
    return f"{text[:head]}\n[...]\n{text[-(ERROR_MAX - head) :]}"


def _whole(error: BaseException) -> list[str]:
    try:
        return traceback.format_exception(error)
    except Exception:
        return [type(error).__name__]


def _show_on_terminal(text: str) -> None:
    """Write past Python's streams to the terminal alone: no log or report sees the text."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text.rstrip()}\n".encode("utf-8", errors="backslashreplace"))


class _Tail(io.BufferedIOBase):
    """A stream that keeps its last bytes."""

    name = "<prints of a trial>"

    def __init__(self) -> None:
        self.kept = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.kept = (self.kept + bytes(data))[-PRINTED_MAX:]
        return len(data)

    def fileno(self) -> int:
        return 2  # Code that insists on a file gets standard error, never standard output.

    def show(self) -> str:
        text = self.kept.decode("utf-8", errors="replace").strip()
        return f"The trial had printed (end):\n{text}" if text else ""


@contextlib.contextmanager
def _capture_output() -> Iterator[_Tail]:
    """Catch what Python code prints. Only on the main thread: the streams belong to all threads."""
    tail = _Tail()
    if not clock.on_main_thread():
        yield tail
        return
    streams = sys.stdout, sys.stderr
    stream = io.TextIOWrapper(tail, "utf-8", errors="backslashreplace", write_through=True)
    sys.stdout = sys.stderr = stream
    try:
        yield tail
    finally:
        sys.stdout, sys.stderr = streams
