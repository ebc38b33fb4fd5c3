"""Around a task, where it is played: whatever a trial does, it ends as an outcome.

Raising (also ``SystemExit``) and running out of time are failed outcomes. Prints do not reach the
reader; the last of them are shown with the error. A process that the task forks off ends when it
comes back from the task. What no guard can catch (``os._exit``, a crash of the interpreter) kills
the process: in a worker that is a death and is handled in :mod:`dpassay.runs.play`; with
``workers=1`` it ends the run, and the log keeps what was played.
"""

import contextlib
import faulthandler
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpassay.runs.outcomes import (
    NO_WORLD,
    PAYLOAD_MAX,
    RETURNED_NAN,
    Outcome,
    Outcomes,
    Task,
    TaskError,
    join,
)
from dpassay.runs.parcel import Parcel

ERROR_MAX = 4000  # characters of one error
FRAMES_MAX = 12  # frames of one traceback
PRINTED_MAX = 1000  # bytes of prints shown with an error
HARD_GRACE = 2.0  # seconds from the alarm, which a task can swallow, to the end of its process
WORLD_MAX = 127
TIME_IS_UP = "timeout: the trial took more than {seconds:g} s"


class Rules(NamedTuple):
    """How trials are played.

    Attributes:
        batch: the most trials that the task is given at once.
        timeout: seconds for one trial, or None.
        home: the process that the run belongs to.
        notes: a folder where workers write what they are doing, so that a worker that had to end
            itself can be understood; None where workers must not end themselves.

    """

    batch: int = 1
    timeout: float | None = None
    home: int = 0
    notes: str | None = None


class _TimeUp(BaseException):
    """Raised inside a task by the alarm; ``except Exception`` does not catch it."""


class _Failure(NamedTuple):
    error: str


def play_portion(task: Task | Parcel, trials: Sequence[int], rules: Rules) -> Outcomes:
    """The outcomes of these trials, each as if it had been played alone."""
    task = task.unpack() if isinstance(task, Parcel) else task
    rows, parts = _Rows(), []
    for start in range(0, len(trials), rules.batch):
        _play(task, list(trials[start : start + rules.batch]), rules, rows, parts)
    return join([*parts, rows.outcomes()] if rows.trials else parts)


def _play(
    task: Task, trials: list[int], rules: Rules, rows: "_Rows", parts: list[Outcomes]
) -> None:
    begin = time.perf_counter()
    results = _call(task, trials, rules)
    seconds = (time.perf_counter() - begin) / len(trials)
    if not isinstance(results, _Failure):
        _sort(results, trials, seconds, rows, parts)
    elif len(trials) == 1:
        rows.add(trials[0], Outcome(error=results.error), seconds)
    else:  # Whose failure it was shows when each is played alone.
        for trial in trials:
            _play(task, [trial], rules, rows, parts)


def _call(task: Task, trials: list[int], rules: Rules) -> Any:
    """What the task returns, or the failure it ends in."""
    pid = os.getpid()
    with _printed() as prints:
        try:
            return _within(rules, trials, lambda: task(trials))
        except _TimeUp:
            error = TIME_IS_UP.format(seconds=rules.timeout)
        except KeyboardInterrupt as raised:
            if pid == rules.home:
                raise  # It is the user's, not the task's.
            error = error_text(raised)
        except BaseException as raised:
            error = error_text(raised)
        finally:
            if os.getpid() != pid:
                os._exit(0)  # A child that the task forked must not go on as a second runner.
    return _Failure(error + prints.shown())


# ------------------------------------------------------------------------------- results


class _Rows:
    """Outcomes of single trials, gathered in lists because arrays of one element are slow."""

    def __init__(self) -> None:
        self.trials: list[int] = []
        self.scores: list[float] = []
        self.worlds: list[int] = []
        self.seconds: list[float] = []
        self.payloads: dict[int, bytes] = {}
        self.errors: dict[int, str] = {}

    def add(self, trial: int, outcome: Outcome, seconds: float) -> None:
        self.trials.append(trial)
        self.scores.append(np.nan if outcome.score is None else outcome.score)
        self.worlds.append(NO_WORLD if outcome.world is None else outcome.world)
        self.seconds.append(seconds)
        if outcome.payload is not None:
            self.payloads[trial] = outcome.payload
        if outcome.error is not None:
            self.errors[trial] = outcome.error

    def outcomes(self) -> Outcomes:
        return Outcomes.of(
            self.trials,
            self.scores,
            worlds=self.worlds,
            seconds=self.seconds,
            payloads=self.payloads,
            errors=self.errors,
        )


def _sort(
    results: Any, trials: list[int], seconds: float, rows: _Rows, parts: list[Outcomes]
) -> None:
    """Put the results of one call where they belong: columns to ``parts``, others to ``rows``."""
    if isinstance(results, Outcomes):
        if not np.array_equal(results.trials, trials):
            raise TaskError(f"the task returned outcomes of other trials than {_few(trials)}.")
        parts.append(results)
        return
    _check_number(results, trials)
    if isinstance(results, np.ndarray) and results.ndim == 1 and results.dtype.kind in "fiub":
        parts.append(Outcomes.of(trials, results, seconds=seconds))
        return
    for trial, result in zip(trials, results, strict=True):
        rows.add(trial, _outcome(trial, result), seconds)


def _check_number(results: Any, trials: list[int]) -> None:
    try:
        number = None if isinstance(results, bytes | str | dict) else len(results)
    except TypeError:
        number = None
    if number != len(trials):
        got = type(results).__name__ if number is None else f"{number} results"
        raise TaskError(
            f"the task returned {got} for {len(trials)} trials ({_few(trials)}); it must return "
            "one result per trial, in their order: task([7, 8]) -> [score of 7, score of 8]."
        )


def _outcome(trial: int, result: Any) -> Outcome:
    if isinstance(result, float):
        return Outcome(float(result))
    if isinstance(result, bytes):
        result = Outcome(payload=result)
    if isinstance(result, Outcome):
        return _checked(trial, result)
    if isinstance(result, Real) or (isinstance(result, np.ndarray) and result.ndim == 0):
        return Outcome(float(result))
    raise TaskError(
        f"the result of trial {trial} is {_short(result)}; it must be a float, bytes or an Outcome."
    )


def _checked(trial: int, outcome: Outcome) -> Outcome:
    score, world, payload, error = outcome
    if score is None and payload is None and error is None:
        raise TaskError(f"the outcome of trial {trial} is empty; give a score, payload or error.")
    if payload is not None and not (isinstance(payload, bytes) and len(payload) <= PAYLOAD_MAX):
        size = f"{len(payload)} bytes" if isinstance(payload, bytes) else type(payload).__name__
        raise TaskError(
            f"the payload of trial {trial} is {size}; it must be at most {PAYLOAD_MAX} bytes. "
            "Keep a summary of it instead."
        )
    if world is not None and not 0 <= world <= WORLD_MAX:
        raise TaskError(f"world={world} of trial {trial} must lie in [0, {WORLD_MAX}].")
    if score is not None and np.isnan(score) and error is None:
        error = RETURNED_NAN
    return Outcome(None if score is None else float(score), world, payload, error)


def _few(trials: list[int]) -> str:
    return f"trial {trials[0]}" if len(trials) == 1 else f"trials {trials[0]} ... {trials[-1]}"


def _short(value: Any) -> str:
    text = repr(value)
    return f"a {type(value).__name__}" + (f", {text}" if len(text) <= 80 else "")


# ------------------------------------------------------------------------------- errors, prints


def error_text(error: BaseException) -> str:
    """The traceback inside the task, as a text of bounded length."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    try:
        lines = traceback.format_exception(type(error), error, frames, limit=-FRAMES_MAX)
    except Exception:  # An exception can be hostile too.
        lines = [type(error).__name__]
    text = "".join(lines).rstrip()
    if len(text) <= ERROR_MAX:
        return text
    head = ERROR_MAX // 4
    return f"{text[:head]}\n[...]\n{text[-(ERROR_MAX - head) :]}"


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

    def shown(self) -> str:
        text = self.kept.decode("utf-8", errors="replace").strip()
        return f"\n\nThe trial had printed (end):\n{text}" if text else ""


@contextlib.contextmanager
def _printed() -> Iterator[_Tail]:
    """Catch what Python code prints. Only on the main thread: the streams belong to all threads."""
    tail = _Tail()
    if threading.current_thread() is not threading.main_thread():
        yield tail
        return
    streams = sys.stdout, sys.stderr
    stream = io.TextIOWrapper(tail, "utf-8", errors="backslashreplace", write_through=True)
    sys.stdout = sys.stderr = stream
    try:
        yield tail
    finally:
        sys.stdout, sys.stderr = streams


# ------------------------------------------------------------------------------- time


def _within(rules: Rules, trials: list[int], call: Callable[[], Any]) -> Any:
    """The call's value; :class:`_TimeUp` if it takes more than the timeout.

    On the main thread an alarm interrupts it. A task that swallows the alarm, or hangs where Python
    code does not run, is ended together with its worker (only in workers of our own). On other
    threads, and where there are no alarms (Windows), the call is left to itself and goes on.
    """
    if rules.timeout is None:
        return call()
    on_main = threading.current_thread() is threading.main_thread()
    if not (on_main and hasattr(signal, "setitimer")):
        return _abandoned_after(rules.timeout, call)
    if rules.notes is None or os.getpid() == rules.home:
        return _alarmed_after(rules.timeout, call)
    with _ended_after(rules.timeout + HARD_GRACE, trials, rules.notes):
        return _alarmed_after(rules.timeout, call)


def _alarmed_after(seconds: float, call: Callable[[], Any]) -> Any:
    armed = True

    def ring(*_: Any) -> None:
        if armed:
            raise _TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    begin = time.monotonic()
    left, interval = signal.getitimer(signal.ITIMER_REAL)
    try:
        # It rings again every second: the first ring may be lost in a callback that cannot raise.
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        return call()
    finally:
        armed = False
        left = max(left - (time.monotonic() - begin), 1e-3) if left else 0.0
        signal.setitimer(signal.ITIMER_REAL, left, interval)  # what was set before us
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


def _abandoned_after(seconds: float, call: Callable[[], Any]) -> Any:
    box: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            box.append((True, call()))
        except BaseException as error:
            box.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not box:
        raise _TimeUp
    good, value = box[0]
    if not good:
        raise value
    return value


@contextlib.contextmanager
def _ended_after(seconds: float, trials: list[int], notes: str) -> Iterator[None]:
    """End this process after some time, even if no Python code runs; the note tells why."""
    with Path(notes, str(os.getpid())).open("w") as note:
        note.write(json.dumps(trials) + "\n")
        note.flush()
        faulthandler.dump_traceback_later(seconds, exit=True, file=note)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def hung_trials(rules: Rules) -> dict[int, str]:
    """The trials that made their worker end itself, each with its error; notes are read once.

    Trials that hung in one call with others are left out: which of them it was is not known.
    """
    hung = {}
    for path in Path(rules.notes).iterdir() if rules.notes else ():
        first, _, dump = path.read_text(errors="replace").partition("\n")
        path.unlink()
        trials = json.loads(first or "[]")
        if dump.startswith("Timeout") and len(trials) == 1:
            error = TIME_IS_UP.format(seconds=rules.timeout)
            hung[trials[0]] = f"{error}, and ignored its alarm{_place(dump)}"
    return hung


def _place(dump: str) -> str:
    """Where the task was, from a dump of all threads, innermost frame first."""
    for thread in dump.split("\n\n"):
        inside, ours, _ = thread.partition(f" in {play_portion.__name__}\n")
        if ours:
            lines = [line for line in inside.splitlines() if __file__ not in line]
            return "\n".join([".", *lines])[:ERROR_MAX]
    return ""
