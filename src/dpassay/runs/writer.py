"""Who writes a log: noted in the run's description, so that others can see that, and how fast."""

import datetime
import os
import platform
from collections.abc import Mapping
from typing import Any


def this_writer(n_logged: int) -> dict[str, Any]:
    """The process that begins to play now, with so many trials in the log, as plain JSON."""
    now = datetime.datetime.now(datetime.UTC).isoformat()
    return {"pid": os.getpid(), "host": platform.node(), "since": now, "n_logged": n_logged}


def is_at_work(writer: Mapping[str, Any]) -> bool:
    """Whether another process of this machine that was noted as a writer is alive.

    It may be another one that got the same number since. Where that cannot be asked (another
    machine, Windows) the answer is no.
    """
    here = writer["host"] == platform.node() and os.name == "posix"
    if not here or writer["pid"] == os.getpid():
        return False
    try:
        os.kill(writer["pid"], 0)
    except PermissionError:  # it is somebody else's
        return True
    except OSError:
        return False
    return True
