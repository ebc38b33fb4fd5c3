"""Who writes a log: noted in the run's description, so that others can see that, and how fast."""

import datetime
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpassay._scratch import born
from dpassay.runs.protocol import RunRecord

WORKERS = "workers"  # the fact about a run that says how many trials are played at the same time
WRITERS = "writers"  # the fact about a run in parts that says who plays each of them


def this_writer(n_logged: int) -> dict[str, Any]:
    """The process that begins to play now, with so many trials in the log, as plain JSON."""
    now = datetime.datetime.now(datetime.UTC).isoformat()
    pid = os.getpid()
    began = {"host": platform.node(), "pid": pid, "born": born(pid)}
    return began | {"since": now, "n_logged": n_logged}


def is_at_work(writer: Mapping[str, Any]) -> bool:
    """Whether another process of this machine that was noted as a writer is alive.

    Where that cannot be asked (another machine, Windows) the answer is no.
    """
    here = writer["host"] == platform.node() and os.name == "posix"
    if not here or writer["pid"] == os.getpid():
        return False
    alive = born(writer["pid"])
    return alive is not None and alive == writer.get("born", alive)


@dataclass(frozen=True)
class Writer:
    """A process that plays trials of a run.

    Attributes:
        began: what it noted when it began.
        n: trials that its log has.
        workers: trials that it has played at the same time.

    """

    began: Mapping[str, Any] | None
    n: int
    workers: int

    @property
    def per_second(self) -> float:
        """Trials per second since it began; 0 where the clock was set back meanwhile."""
        assert self.began is not None
        now = datetime.datetime.now(datetime.UTC)
        since = (now - datetime.datetime.fromisoformat(self.began["since"])).total_seconds()
        return max(self.n - self.began["n_logged"], 0) / since if since > 0 else 0.0


def list_writers(record: RunRecord, notes: Mapping[str, Any]) -> list[Writer]:
    """Those who play a run now, as far as can be seen from this machine."""
    n, workers = record.n_done + record.n_failed, int(notes.get(WORKERS, 1))
    found = [Writer(record.description.get("writer"), n, workers)]
    for kept in notes.get(WRITERS, {}).values():
        found.append(Writer(kept["writer"], int(kept["n"]), int(kept["workers"])))
    return [writer for writer in found if writer.began and is_at_work(writer.began)]
