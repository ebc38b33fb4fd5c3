"""The workers of a Dask cluster, by native futures: placed once, followed, and found when lost.

The task and its data are a Dask task of their own, on which every portion depends: they travel to
each worker once, and are computed anew if all workers that held them are gone. The width follows
the cluster. A portion that was lost (its scheduler restarted, the connection cut) or whose worker
has been silent for long is handed out again: nobody is blamed for it, and of two outcomes of a
trial the log keeps the first. Dask plays the portion of a dead worker again by itself, on
``allowed_failures`` more workers, before it reports a death.

A trial that cannot be replayed must not be played twice, not even by Dask: each such portion is
entered at the scheduler when it begins, and refused where it was begun before.
"""

import contextlib
import time
import uuid
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from dpassay._scratch import temporary_folder
from dpassay.errors import EngineLost, InvalidArgument, MissingDependency, RunError, TaskError
from dpassay.runs.outcomes import Outcomes
from dpassay.runs.parcel import Parcel
from dpassay.runs.sent import make_call
from dpassay.runs.there import versions_here
from dpassay.runs.workers import PortionLost, WorkerDied, Workers, interrupts_held

CONNECT_SECONDS = 10.0  # for the first connection
RECONNECT_SECONDS = 60.0  # for those after the scheduler was lost
WORKERLESS_SECONDS = 600.0  # that a cluster may be without any worker
LOOK_SECONDS = 1.0  # between looks at how many workers there are
CHECK_SECONDS = 3.0  # between looks at what became of portions that are not back
SILENT_SECONDS = 20.0  # without a heartbeat, after which a worker's portions are handed out again
ASK_SECONDS = 10.0  # for an answer of the scheduler
PORTION_SECONDS = 0.25  # a portion costs Dask some milliseconds,
WIDTH_SERVED = 64  # and one process serves about four times so many portions a second
_GONE = (None, "forgotten", "released")
_LOST = ("cancelled", "lost")


@dataclass
class _Portion:
    """A portion under way: our future, Dask's, and since when."""

    ours: "Future[Outcomes]"
    theirs: Any
    since: float
    replayable: bool


class Cluster(Workers):
    """The workers of a Dask cluster.

    Args:
        where: a client of the caller's, which is used and never closed; "dask" for a cluster of
            processes on this machine; "dask:tcp://host:8786" for the scheduler at an address.
        workers: processes of a cluster on this machine; by default one per core.

    Raises:
        InvalidArgument: another text, or an asynchronous client.
        MissingDependency: Dask is not installed.

    """

    local = False

    def __init__(self, where: Any, workers: int | None = None) -> None:
        super().__init__(workers)
        self._given = None if isinstance(where, str) else where
        self._address = _check_where(where) if isinstance(where, str) else ""
        self._client: Any = None
        self._own = ExitStack()  # what is closed with it: client and cluster, if they are ours
        self._call: Any = None
        self._placed: dict[str, Any] = {}
        self._portions: dict[Future[Outcomes], _Portion] = {}
        self._looked = self._checked = self._peopled = time.monotonic()
        self._threads: int | None = None
        self._beats: dict[str, tuple[float, float]] = {}  # last heartbeat, and when it was news

    @property
    def in_process(self) -> bool:
        return False

    @property
    def name(self) -> str:
        """The cluster, for messages."""
        if self._given is not None:
            return "the Dask cluster of the client that was passed"
        return f"the Dask cluster at {self._address}" if self._address else "the local Dask cluster"

    @property
    def width(self) -> int:
        """How many trials the cluster plays at the same time now."""
        now = time.monotonic()
        if self._threads is None or now - self._looked > LOOK_SECONDS:
            self._looked = now
            threads = self._ask("ncores")
            self._threads = sum(threads.values()) if threads is not None else self._threads or 0
            self._peopled = now if self._threads else self._peopled
        return self._threads or 0

    @property
    def depth(self) -> int:
        return max(2 * self.width, 1)

    @property
    def portion_seconds(self) -> float:
        """Longer portions on wide clusters, so that one process can follow them all."""
        return PORTION_SECONDS * max(1.0, self.width / WIDTH_SERVED)

    # ----------------------------------------------------------------- handing out

    def submit(self, call: Any, *arguments: Any) -> "Future[Any]":
        """Have a portion played; the call itself is known there."""
        parcel, trials, rules = arguments
        client, name = self._ready(), f"dpassay-{uuid.uuid4().hex}"
        living = self._living() if rules.replayable else None
        theirs = client.submit(
            self._call,
            self._place(client, parcel),
            list(trials),
            (rules.batch, rules.timeout, 0, None, rules.replayable),
            name,
            not self._given and not self._address,
            key=name,
            pure=False,
            workers=living,
        )
        ours: Future[Outcomes] = Future()
        self._portions[ours] = _Portion(ours, theirs, time.monotonic(), rules.replayable)
        self._ended.add(theirs)
        return ours

    def _place(self, client: Any, parcel: Parcel) -> Any:
        """The task, on its way to the workers once and for all portions."""
        placed = self._placed.get(parcel.digest)
        if placed is None or placed.client is not client or placed.status in (*_LOST, "error"):
            from dask import config

            # Unlike scattered data, what a task returns is computed anew when it is lost.
            with config.set({"distributed.admin.large-graph-warning-threshold": "1PB"}):
                placed = client.submit(
                    lambda *content: content,
                    parcel.digest,
                    parcel.content,
                    key=f"dpassay-task-{parcel.digest}-{uuid.uuid4().hex}",
                    pure=False,
                )
            self._placed = {parcel.digest: placed}
        return placed

    # ----------------------------------------------------------------- following

    def wait(
        self, futures: "Collection[Future[Any]]", seconds: float, *, all: bool = False
    ) -> "set[Future[Any]]":
        """Those that have ended, after one of them has, all of them have, or time is up."""
        end = time.monotonic() + seconds
        while True:
            self._settle()
            ready = {future for future in futures if future.done()}
            left = end - time.monotonic()
            if left <= 0 or (len(ready) == len(futures) if all else ready) or not self._portions:
                return ready
            with self._ended.thread_condition:
                if not self._ended.has_ready():
                    self._ended.thread_condition.wait(min(left, 0.05))

    def _settle(self) -> None:
        """Hand over what has come back, and look for what will not."""
        by_key = {portion.theirs.key: portion for portion in self._portions.values()}
        while self._ended.has_ready():
            for theirs, result in self._ended.next_batch(block=False):
                portion = by_key.get(theirs.key)
                if portion is not None and portion.theirs is theirs:
                    self._end_portion(portion, _read(theirs.status, result))
        now = time.monotonic()
        if now - self._checked > CHECK_SECONDS:
            self._checked = now
            self._find_lost(now)

    def _end_portion(self, portion: _Portion, ending: "Outcomes | BaseException") -> None:
        self._portions.pop(portion.ours, None)
        if portion.ours.cancelled():
            return
        if isinstance(ending, BaseException):
            portion.ours.set_exception(ending)
        else:
            portion.ours.set_result(ending)

    def _find_lost(self, now: float) -> None:
        """The liveness rule: what neither ends nor has a living worker is handed out again."""
        old = [p for p in self._portions.values() if now - p.since > CHECK_SECONDS]
        lost = [p for p in old if p.theirs.status in _LOST]
        if old and self._client_status() == "running":
            states = self._ask("get_task_status", keys=[p.theirs.key for p in old]) or {}
            known = [p for p in old if p.theirs.key in states]
            lost += [
                p
                for p in known
                if states[p.theirs.key] in _GONE and p.theirs.status in ("pending", *_LOST)
            ]
            lost += [p for p in self._with_the_silent(now) if p.replayable]
        for portion in {id(p): p for p in lost}.values():
            self._end_portion(portion, PortionLost())
            self._forget([portion.theirs])
        if not self._threads and now - self._peopled > WORKERLESS_SECONDS:
            raise EngineLost(f"{self.name} has no workers. {_GO_ON}")

    def _with_the_silent(self, now: float) -> list[_Portion]:
        """The portions of workers that have given no sign of life for long."""
        found = (self._ask("identity") or {}).get("workers", {})
        for worker, facts in found.items():
            if self._beats.get(worker, (None,))[0] != facts["last_seen"]:
                self._beats[worker] = (facts["last_seen"], now)
        self._beats = {worker: beat for worker, beat in self._beats.items() if worker in found}
        silent = self._silent()
        if not silent:
            return []
        playing = self._ask("processing") or {}
        theirs = {key for worker in silent for key in playing.get(worker, ())}
        return [p for p in self._portions.values() if p.theirs.key in theirs]

    def _silent(self) -> set[str]:
        now = time.monotonic()
        return {w for w, (_, news) in self._beats.items() if now - news > SILENT_SECONDS}

    def _living(self) -> list[str] | None:
        """The workers to choose from; None for all, also where all of them are silent."""
        silent = self._silent()
        return sorted(set(self._beats) - silent) or None if silent else None

    # ----------------------------------------------------------------- ending

    def cancel(self, futures: "Collection[Future[Any]]") -> None:
        """Take back what was probably not begun: all but as many as can be playing."""
        under_way = sorted((self._portions[f] for f in futures if f in self._portions), key=_age)
        self._drop(under_way[self._threads or 0 :])

    def stop(self) -> None:
        """Take everything back; processes of our own end, also in the middle of a trial."""
        self._drop(list(self._portions.values()))
        if self._given is None and not self._address:
            self.close()

    def close(self) -> None:
        """Take everything back, and leave; a cluster of our own ends."""
        self._drop(list(self._portions.values()))
        self._placed.clear()
        self._client, self._threads = None, None
        self._own.close()

    def _drop(self, portions: list[_Portion]) -> None:
        for portion in portions:
            self._portions.pop(portion.ours, None)
            portion.ours.cancel()
            portion.ours.set_running_or_notify_cancel()
        self._forget([portion.theirs for portion in portions])

    def _forget(self, theirs: list[Any]) -> None:
        if theirs and self._client_status() == "running":
            with contextlib.suppress(Exception):  # Nothing depends on it.
                self._client.sync(self._client._cancel, theirs, callback_timeout=ASK_SECONDS)

    # ----------------------------------------------------------------- the connection

    def _ask(self, what: str, **about: Any) -> Any:
        """What the scheduler answers; None if it does not."""
        client = self._ready()
        try:
            call = getattr(client.scheduler, what)
            return client.sync(call, callback_timeout=ASK_SECONDS, **about)
        except (OSError, TimeoutError, RuntimeError, AttributeError):
            return None

    def _ready(self) -> Any:
        """A client that is connected; waits for a scheduler that has gone.

        Raises:
            EngineLost: it did not come back.

        """
        if self._client is None:
            self._connect()
        end = time.monotonic() + RECONNECT_SECONDS
        while (status := self._client_status()) != "running":
            if time.monotonic() > end or (status == "closed" and not self._reopen()):
                raise EngineLost(f"{self.name} cannot be reached any more. {_GO_ON}")
            time.sleep(0.1)
        return self._client

    def _client_status(self) -> str:
        return "closed" if self._client is None else self._client.status

    def _reopen(self) -> bool:
        """Try to connect anew where the client has given up; false if nothing is left to try."""
        if not self._address:
            return False
        lost = list(self._portions.values())
        try:
            self._own.close()
            self._connect()
        except RunError:
            raise
        except InvalidArgument:
            return True
        for portion in lost:
            self._end_portion(portion, PortionLost())
        return True

    def _connect(self) -> None:
        from distributed import as_completed

        with interrupts_held():
            client = self._given or self._own.enter_context(
                _make_client(self._address, self._width)
            )
        if client.status in ("closing", "closed"):
            raise InvalidArgument("executor: the Dask client is closed. Pass one that is not.")
        if client.asynchronous:
            raise InvalidArgument("executor: an asynchronous Dask client cannot be used. Pass one "
                                  "made without asynchronous=True.")  # fmt: skip
        _refuse_versions(client)
        self._client, self._call = client, make_call(versions_here())
        self._ended = as_completed(loop=client.loop, with_results=True, raise_errors=False)
        self._placed.clear()
        self._beats.clear()
        self._peopled = time.monotonic()


_GO_ON = "What was played is in the log if there is a store; run the same again to go on."


def _age(portion: _Portion) -> float:
    return portion.since


def _read(status: str, result: Any) -> "Outcomes | BaseException":
    """What a portion of Dask's ended with, in our words."""
    if status == "error":
        return _read_error(result[1])
    if status in _LOST or isinstance(result, BaseException):
        return PortionLost()
    if result is None:
        return WorkerDied(1)  # it had been begun before, and cannot be played again
    if isinstance(result, str):
        return RunError(result)
    return result


def _read_error(error: BaseException) -> BaseException:
    if type(error).__name__ == "KilledWorker":
        return WorkerDied(int(getattr(error, "allowed_failures", 3)) + 1)
    if isinstance(error, TaskError):
        return error
    return RunError(
        f"a Dask worker could not play ({type(error).__name__}). Workers need the same Python and "
        "the same packages as this process, dpassay among them."
    )


def _check_where(where: str) -> str:
    """The address in "dask:tcp://host:8786"; empty for "dask"."""
    kind, colon, address = where.partition(":")
    if kind != "dask" or (colon and "://" not in address):
        raise InvalidArgument(
            f'executor={where!r} must be "dask" for a cluster on this machine, or the address of '
            'a scheduler: "dask:tcp://host:8786".'
        )
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise MissingDependency(
            f"executor={where!r} needs Dask: pip install 'dpassay[dask]'."
        ) from None
    return address


@contextlib.contextmanager
def _make_client(address: str, workers: int) -> Iterator[Any]:
    """A client of our own: of the scheduler at an address, or of a cluster made for it."""
    import logging

    from dask import config
    from distributed import Client, LocalCluster

    # What the client has to say about lost connections is said by our errors.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        if not address:
            folder = stack.enter_context(temporary_folder())
            # The scheduler knows only this setting, and would leave a folder where others are.
            with config.set({"temporary-directory": str(folder)}):
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="127.0.0.1:0",  # any free port, seen here alone
                    memory_limit=0,
                    local_directory=str(folder),
                    silence_logs=logging.CRITICAL,
                )
            stack.callback(_close, cluster)
        try:
            client = Client(address or cluster, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise InvalidArgument(
                f'executor="dask:{address}": no Dask scheduler answers there '
                f"({type(error).__name__}). Start one (dask scheduler), or mend the address."
            ) from None
        stack.callback(_close, client)
        yield client


def _close(closable: Any) -> None:
    with contextlib.suppress(Exception):  # It may be gone already.
        closable.close(timeout=5)


def _refuse_versions(client: Any) -> None:
    """Raise if a worker has another Python or another Dask than this process.

    Raises:
        RunError: names the worker and both versions.

    """
    with contextlib.suppress(OSError, TimeoutError, LookupError, TypeError):
        found = client.get_versions(check=False)
        mine = _facts(found["client"])
        for worker, facts in found["workers"].items():
            for name, theirs in _facts(facts).items():
                if theirs != mine[name]:
                    raise RunError(
                        f"the Dask worker {worker} has {name} {theirs}, this process {mine[name]}. "
                        "Give both the same."
                    )


def _facts(versions: Any) -> dict[str, str]:
    python = ".".join(str(versions["host"]["python"]).split(".")[:2])
    return {"python": python, "distributed": versions["packages"]["distributed"]}
