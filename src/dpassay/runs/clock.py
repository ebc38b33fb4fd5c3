"""Time for a call: an alarm for those that can be interrupted, the end of the worker for others.

On the main thread an alarm raises :class:`TimeUp` inside the call. A call that swallows it, or
hangs where no Python code runs, is ended together with its process by a :class:`Watchdog`; only
worker processes of our own have one. On other threads, and where there are no alarms (Windows), the
call is left to itself and goes on in the background.
"""

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HARD_GRACE = 2.0  # seconds from the alarm, which a call can swallow, to the end of its process
_HEAD = 32  # bytes of a note before the dump


class TimeUp(BaseException):
    """A call took too long. ``except Exception`` does not catch it."""


def on_main_thread() -> bool:
    """Whether this is the thread that gets signals and owns the standard streams."""
    return threading.current_thread() is threading.main_thread()


def has_alarms() -> bool:
    """Whether a call on this thread can be interrupted."""
    return on_main_thread() and hasattr(signal, "setitimer")


def within(seconds: float | None, call: Callable[[], Any]) -> Any:
    """What the call returns; raises :class:`TimeUp` if it takes longer."""
    if seconds is None:
        return call()
    return (_alarm_after if has_alarms() else _abandon_after)(seconds, call)


def _alarm_after(seconds: float, call: Callable[[], Any]) -> Any:
    armed = True

    def ring(*_: Any) -> None:
        if armed:
            raise TimeUp

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


def _abandon_after(seconds: float, call: Callable[[], Any]) -> Any:
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
        raise TimeUp
    good, value = box[0]
    if not good:
        raise value
    return value


class Watchdog:
    """Ends this process when a call hangs, whatever the call does; its note tells why.

    The note begins with the trial that is being played and goes on, if it comes to that, with
    where each thread was. Winding up the timer costs a thread, so it is done once in a while: a
    call is ended between ``timeout`` and twice that (and the grace) after its beginning.

    Args:
        timeout: seconds for a call.
        notes: the folder of the notes.

    """

    def __init__(self, timeout: float, notes: str) -> None:
        self._timeout = timeout
        self._note = os.open(Path(notes, str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(self._note, bytes(_HEAD))
        self._wound = -float("inf")

    def watch(self, trials: list[int]) -> None:
        """Start the clock for these trials, which are played from now on."""
        head = b"%d" % trials[0] if len(trials) == 1 else b""
        os.pwrite(self._note, head.ljust(_HEAD), 0)
        now = time.monotonic()
        if now - self._wound > self._timeout:
            self._wound = now
            faulthandler.dump_traceback_later(
                2 * self._timeout + HARD_GRACE, exit=True, file=self._note
            )

    def rest(self) -> None:
        """Stop the clock: no trial is being played any more."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self._note)


def hung_trials(notes: str) -> dict[int, str]:
    """The trials that hung, so that their worker ended itself, with its threads; read once.

    Trials that hung in one call with others are left out: which of them it was is not known.
    """
    hung = {}
    for path in Path(notes).iterdir():
        note = path.read_bytes()
        path.unlink()
        trial, dump = note[:_HEAD].strip(b" \0"), note[_HEAD:].decode(errors="replace")
        if trial and dump.startswith("Timeout"):
            hung[int(trial)] = dump
    return hung
