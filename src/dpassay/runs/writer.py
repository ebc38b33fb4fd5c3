"""Who writes a log: noted in the run's description, so that others can see that, and how fast."""

import datetime
import os
import platform
from collections.abc import Mapping
from typing import Any

from dpassay._scratch import born


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
