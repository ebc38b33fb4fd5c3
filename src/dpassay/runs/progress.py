"""How a run shows how far it is: a bar on a terminal, a line per tenth elsewhere, or nothing."""

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

from dpassay import _check
from dpassay.errors import InvalidArgument

REFRESH_SECONDS = 0.1


class Progress(Protocol):
    """What a run tells: where it starts, how far it is, that it ended."""

    def begin(self, total: int, done: int) -> None:
        """``done`` of ``total`` trials are in the log already."""
        ...

    def update(self, done: int, failed: int) -> None:
        """So many trials are in the log now."""
        ...

    def end(self) -> None:
        """The run is over, in whatever way."""
        ...


def progress_for(choice: "str | Progress", note: Callable[[], str] | None = None) -> Progress:
    """The progress that a choice stands for; ``note`` gives a text to show beside it.

    Args:
        choice: "auto" (a bar if standard error is a terminal, else lines), "bar", "lines", "quiet",
            or a progress of one's own.
        note: called when something is shown, for example for the bound so far.

    """
    if not isinstance(choice, str):
        if not hasattr(choice, "update"):
            raise InvalidArgument(f"progress={choice!r} must be a Progress or one of {_CHOICES}.")
        return choice
    _check.choice("progress", choice, _CHOICES)
    if choice == "auto":
        choice = "bar" if sys.stderr.isatty() else "lines"
    kinds = {"bar": Bar, "lines": Lines, "quiet": Quiet}
    return kinds[choice](note or str)


_CHOICES = ("auto", "bar", "lines", "quiet")


class Quiet:
    """A display of progress that shows nothing."""

    def __init__(self, note: Callable[[], str] = str) -> None:
        pass

    def begin(self, total: int, done: int) -> None:
        pass

    def update(self, done: int, failed: int) -> None:
        pass

    def end(self) -> None:
        pass


class Lines:
    """One line per tenth of the trials, for logs and pipes."""

    def __init__(self, note: Callable[[], str] = str, stream: TextIO | None = None) -> None:
        self._note, self._stream = note, stream

    def begin(self, total: int, done: int) -> None:
        self._total, self._before, self._start = total, done, time.monotonic()
        self._tenth = self._tenth_of(done)

    def update(self, done: int, failed: int) -> None:
        if self._tenth_of(done) > self._tenth:
            self._tenth = self._tenth_of(done)
            text = self._text(done, failed)
            print(text, file=self._stream or sys.stderr, flush=True)

    def end(self) -> None:
        pass

    def _tenth_of(self, done: int) -> int:
        return 10 * done // self._total if self._total else 10

    def _text(self, done: int, failed: int) -> str:
        rate = (done - self._before) / max(time.monotonic() - self._start, 1e-9)
        left = (self._total - done) / rate
        parts = [
            f"{done} of {self._total} trials ({100 * done / self._total:.0f} %)",
            f"{failed} failed" if failed else "",
            f"{rate:.3g} per s",
            f"{duration(left)} left" if left else "",
            self._note(),
        ]
        return ", ".join(part for part in parts if part)


class Bar:
    """A Rich progress bar on standard error."""

    def __init__(self, note: Callable[[], str] = str, console: Any = None) -> None:
        self._note, self._console, self._shown = note, console, 0.0

    def begin(self, total: int, done: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar: Any = Progress(
            TextColumn("trials"),
            BarColumn(20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            # This very stream: while a trial is played here, sys.stderr catches its prints.
            console=self._console or Console(file=sys.stderr),
        )
        self._start, self._before, self._last = time.monotonic(), done, (done, 0)
        self._task = self._bar.add_task("trials", total=total, completed=done, rate="", note="")
        self._bar.start()

    def update(self, done: int, failed: int) -> None:
        self._last = (done, failed)
        now = time.monotonic()
        if now - self._shown >= REFRESH_SECONDS:
            self._shown = now
            self._show(done, failed)

    def _show(self, done: int, failed: int) -> None:
        rate = (done - self._before) / max(time.monotonic() - self._start, 1e-9)
        failures = f"{failed} failed  " if failed else ""
        note = f"{failures}{self._note()}"
        self._bar.update(self._task, completed=done, rate=f"{rate:.3g}/s", note=note)

    def end(self) -> None:
        self._show(*self._last)
        self._bar.stop()


def duration(seconds: float) -> str:
    """A time in words of two units at most: 8 s, 3 min 20 s, 2 h 5 min.

    >>> duration(200)
    '3 min 20 s'

    """
    whole = round(seconds)
    for size, unit, small_size, small_unit in _UNITS:
        if whole >= size:
            small = whole % size // small_size
            return f"{whole // size} {unit}" + (f" {small} {small_unit}" if small else "")
    return f"{whole} s"


_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
