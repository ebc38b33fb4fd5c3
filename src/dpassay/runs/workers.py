"""Who plays: this process, worker processes of our own, or somebody's executor.

Each of them can be asked to play a portion of trials, and to start anew after a worker has died.
"""

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
)
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import Any

from dpassay import _check
from dpassay._scratch import remove_if_stale
from dpassay.errors import RunError
from dpassay.runs.schedule import PORTION_SECONDS

ORPHAN_SECONDS = 0.5
# One thread per worker: cores are shared out already, and sums do not depend on `workers`.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class PortionLost(Exception):
    """Whoever plays has lost a portion, and no worker is known to have died of it."""


class WorkerDied(Exception):
    """So many workers died one after the other while a portion was theirs."""

    def __init__(self, deaths: int) -> None:
        super().__init__(deaths)
        self.deaths = deaths


class Workers:
    """Worker processes of our own (loky), or this process for ``workers=1``.

    In this process nothing is pickled, but a trial that hangs or ends its process takes the run
    with it; ``separate=True`` makes one worker a process of its own too. As a context manager it
    serves several runs, which spares starting processes:
    ``with Workers(4) as workers: play(..., executor=workers)``.

    Args:
        workers: how many processes; by default one per core that this process may use.
        separate: never play in this process.

    """

    local = True
    portion_seconds = PORTION_SECONDS  # that a portion should take

    def __init__(self, workers: int | None = None, *, separate: bool = False) -> None:
        self._width = count_cores() if workers is None else _check.count("workers", workers)
        self._separate = separate
        self._executor: Executor | None = None

    @property
    def width(self) -> int:
        """How many trials are played at the same time."""
        return self._width

    @property
    def in_process(self) -> bool:
        """Whether trials are played in this process."""
        return self.width == 1 and not self._separate

    @property
    def depth(self) -> int:
        """The most portions to have under way: one waits behind each that is being played."""
        return 1 if self.in_process and self.width == 1 else 2 * self.width

    def submit(self, call: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Have it called; an executor is made when it is first needed."""
        # Workers inherit that Ctrl-C is held back: they must not die of it while they start.
        with interrupts_held():
            if self._executor is None:
                self._executor = self._make()
            return self._executor.submit(call, *arguments)

    def wait(
        self, futures: "Collection[Future[Any]]", seconds: float, *, all: bool = False
    ) -> "set[Future[Any]]":
        """Those that have ended, after one of them has, all of them have, or time is up."""
        return wait_for(futures, seconds, ALL_COMPLETED if all else FIRST_COMPLETED).done

    def cancel(self, futures: "Collection[Future[Any]]") -> None:
        """Take back what was not begun."""
        for future in futures:
            future.cancel()

    def close(self) -> None:
        """End the workers for good."""
        self.stop()

    def stop(self) -> None:
        """End the workers, also in the middle of a trial; the next call gets new ones."""
        executor, self._executor = self._executor, None
        if executor is not None:
            self._end(executor)

    def _make(self) -> Executor:
        if self.in_process:
            return _Here()
        from loky.process_executor import ProcessPoolExecutor

        env = {name: "1" for name in _THREADS if name not in os.environ}
        return ProcessPoolExecutor(
            self.width, initializer=_enter_worker, initargs=(os.getpid(),), env=env
        )

    def _end(self, executor: Any) -> None:
        if not self.in_process:
            executor.shutdown(wait=True, kill_workers=True)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Made(Workers):
    """Executors that a function of the caller makes."""

    local = False

    def __init__(self, make: Callable[[], Executor], width: int) -> None:
        super().__init__(width)
        self._make = make

    @property
    def in_process(self) -> bool:
        return False

    def _end(self, executor: Any) -> None:
        executor.shutdown(wait=False)


class Given(Workers):
    """An executor of the caller: it is used, never shut down, and cannot be replaced."""

    local = False

    def __init__(self, executor: Executor, width: int) -> None:
        super().__init__(width)
        self._executor = executor

    @property
    def in_process(self) -> bool:
        return isinstance(self._executor, ThreadPoolExecutor)

    def stop(self) -> None:
        pass

    def submit(self, call: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        try:
            return super().submit(call, *arguments)
        except BrokenExecutor as error:
            raise RunError(
                f"the executor that was passed is broken ({error}). Pass a function that makes "
                "one, such as executor=lambda: ProcessPoolExecutor(4), and it is replaced when a "
                "worker dies; run the same again to go on."
            ) from error


class _Here(Executor):
    """An executor that calls at once, on this thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def count_cores() -> int:
    """How many cores this process may use."""
    import loky

    return loky.cpu_count()


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _enter_worker(parent: int) -> None:
    """Prepare a worker process before its first trial."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that plays.
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.dup2(2, 1)  # Standard output belongs to it too, down to what C code prints.
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this worker soon after the process that it works for: it would wait for ever."""
    while os.getppid() == parent:
        time.sleep(ORPHAN_SECONDS)
    if tempfile.tempdir is not None:  # the folder of the run; nobody else is left to remove it
        remove_if_stale(Path(tempfile.tempdir))
    os._exit(1)


def deaths_behind(error: BaseException | None) -> int:
    """How many workers died over a portion that ended with this error; 0 if it has another cause.

    A death says nothing about the trials, except when it happens again and again.
    """
    if isinstance(error, WorkerDied):
        return error.deaths
    return int(isinstance(error, BrokenExecutor))
