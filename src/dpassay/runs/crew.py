"""Whoever is to play a task: from the argument ``executor`` to workers with a task and rules."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Protocol

from dpassay import _check
from dpassay._scratch import temporary_folder
from dpassay.errors import InvalidArgument
from dpassay.runs.cluster import Cluster
from dpassay.runs.guard import Rules, hung_trials, play_portion
from dpassay.runs.outcomes import Outcomes, Task
from dpassay.runs.parcel import Parcel, pack, pack_with_code
from dpassay.runs.workers import Given, Made, Workers, count_cores


class DaskClient(Protocol):
    """What is asked of a ``dask.distributed.Client`` that is passed as an executor."""

    @property
    def status(self) -> str: ...

    def submit(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...

    def nthreads(self, workers: Any = None) -> Any: ...


Players = Executor | Workers | DaskClient | Callable[[], Executor] | str | None
"""Who may play: see the argument ``executor`` of :func:`dpassay.runs.play`."""


def workers_from(executor: Players, workers: int | None) -> Workers:
    """The workers that the arguments ``executor`` and ``workers`` of a run stand for."""
    if executor is None or isinstance(executor, Workers):
        return Workers(workers) if executor is None else executor
    client = _dask_client_of(executor)
    if isinstance(executor, str) or client is not None:
        return Cluster(client or str(executor), workers)
    width = _check.count(
        "workers", getattr(executor, "_max_workers", 0) or workers or count_cores()
    )
    if isinstance(executor, Executor):
        return Given(executor, width)
    if callable(executor):
        return Made(executor, width)
    raise InvalidArgument(
        f"executor={executor!r} must be a concurrent.futures.Executor, a function that makes one, "
        'a dask.distributed.Client, "dask", "dask:tcp://host:8786", Workers, or None for worker '
        "processes of our own."
    )


@contextlib.contextmanager
def hire(executor: Players, workers: int | None = None) -> Iterator[Workers]:
    """The workers for several runs, started or connected once; those made for it end with it."""
    who = workers_from(executor, workers)
    try:
        yield who
    finally:
        if who is not executor:
            who.close()


def _dask_client_of(executor: Any) -> Any:
    """The Dask client that an executor is or wraps; None for all others."""
    if not type(executor).__module__.startswith("distributed."):
        return None
    # The futures of the wrapper ``client.get_executor()`` are lost with a worker; the client's not.
    return getattr(executor, "_client", executor)


class Crew:
    """Workers with a task and the rules of play."""

    def __init__(self, workers: Workers, task: Task | Parcel, rules: Rules) -> None:
        self.workers, self._task, self._rules = workers, task, rules

    def submit(self, trials: Sequence[int]) -> "Future[Outcomes]":
        """Hand some trials to a worker process; the future holds their outcomes."""
        return self.workers.submit(play_portion, self._task, trials, self._rules)

    def hung_trials(self) -> dict[int, str]:
        """The trials that made their worker end itself since this was last asked, with errors."""
        return hung_trials(self._rules)


@contextlib.contextmanager
def crew_for(
    task: Task,
    executor: Players,
    workers: int | None,
    batch: int,
    timeout: float | None,
    replayable: bool,
) -> Iterator[Crew]:
    """A crew; workers made for it are ended with it."""
    with contextlib.ExitStack() as stack:
        who = stack.enter_context(hire(executor, workers))
        notes = folder = None
        if who.local and not who.in_process:
            folder = stack.enter_context(temporary_folder())
            notes = folder / "notes"
            notes.mkdir()
        rules = Rules(batch, timeout, os.getpid(), notes and str(notes), replayable)
        if who.in_process:
            packed = task
        else:  # Workers of our own find our modules by their names; those of others may not.
            packed = pack(task, folder) if who.local else pack_with_code(task)
        yield Crew(who, packed, rules)
