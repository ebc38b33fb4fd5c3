"""What a watch has seen, kept beside a training that may be stopped before its verdict.

Nothing of the training itself is kept: that is what its own checkpoints are for. What is kept is
the evidence of the steps so far, coins and sums, so that these steps can be judged whatever becomes
of the rest: Ctrl-C, an error, or an end without warning (``kill -9``).
"""

import atexit
import json
import os
import sys
import time
import weakref
from pathlib import Path

from dpassay import _files
from dpassay.canaries import session
from dpassay.canaries.session import Asked
from dpassay.canaries.watch import Watch
from dpassay.canaries.watch_verdict import read_history
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.types import Verdict

_LEAST = 1.0  # seconds between two writings
_SHARE = 100  # writing takes at most so small a part of the time
_NAME = "dpassay watch"  # what a file says that it is

_LIVE: "weakref.WeakSet[Watch]" = weakref.WeakSet()


class WatchFile:
    """A file in which a watch is kept, written whole each time.

    It is written after the first step and then at intervals: once a second at most, and so rarely
    that a hundredth of the time goes into it. A file of an earlier training is moved to one of the
    same name with ``.before`` at its end.

    Attributes:
        path: of the file.
        steps: how many steps it knows of.

    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _files.output_place(path).absolute()  # a script may change its folder
        self.steps = 0
        self._due = 0.0

    def note(self, watch: Watch) -> None:
        """Write what was seen, if it is time to."""
        if time.monotonic() >= self._due:
            self.write(watch)

    def write(self, watch: Watch) -> None:
        """Write what was seen, unless the file has all of it."""
        if watch.steps == self.steps:
            return
        begin = time.monotonic()
        if self.steps == 0 and self.path.exists():
            _files.set_aside(self.path, ".before")
        accounted = None if watch.accounted is None else watch.accounted()
        kept = {"kind": _NAME, "state": watch.state_dict()}
        _files.write(self.path, json.dumps(kept | {"accounted": accounted, "notes": watch.notes}))
        self.steps, now = watch.steps, time.monotonic()
        self._due = now + max(_LEAST, _SHARE * (now - begin))


def read_watch(path: str | os.PathLike[str]) -> Watch:
    """The watch that a file keeps, with all its steps so far; it is attached to no optimizer.

    Raises:
        InvalidArgument: no such file, or none that a watch was kept in.

    """
    try:
        kept = json.loads(Path(path).read_text("utf-8"))
        if kept["kind"] != _NAME:
            raise ValueError
        state = kept["state"]
        watch = Watch(state["n_parameters"], state["n_canaries"], where=state["where"])
        watch.load_state_dict(state)
        told = kept["accounted"]
        watch.accounted = None if told is None else lambda: read_history(told)
        watch.notes = list(kept["notes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no watch was kept in it"
        raise InvalidArgument(
            f"path={str(path)!r} cannot be read: {why}. Pass the file of "
            "dpassay.probe.optimizer(optimizer, keep=FILE)."
        ) from None
    return watch


def judge_so_far(watch: Watch, asked: Asked) -> Verdict:
    """The verdict on the steps that were taken before a training was stopped; it says so.

    It is right with the stated confidence if what stopped the training does not depend on the
    coins, as Ctrl-C, an error or a power cut does not. Who judges now and then and stops when the
    verdict pleases has chosen among several.
    """
    seen = watch.seen()
    note = (
        f"The training was stopped after {watch.steps} steps; this is about these steps alone. It "
        "holds if nobody stopped it because of an earlier verdict."
    )
    return seen.with_note(note).judge(asked)


def follow(watch: Watch, file: WatchFile | None) -> Watch:
    """The watch, kept in the file; an error or Ctrl-C is followed by the verdict so far.

    An audit around it tells that verdict itself, and names the file where none is given.
    """
    audit = session.current()
    if audit is None:
        _LIVE.add(watch)
    else:
        audit.watches.append(watch)
        if file is None and audit.beside is not None:
            file = WatchFile(f"{audit.beside}-{len(audit.watches)}.json")
    watch.file = file
    return watch


@atexit.register
def _tell_at_exit() -> None:
    """Write files to their last step; after an error tell what the steps so far have shown."""
    failed = getattr(sys, "last_type", None) is not None
    for watch in list(_LIVE):
        if watch.file is not None:
            watch.file.write(watch)
        if failed and watch.steps > watch.n_judged:
            print(_tell(watch), file=sys.stderr)


def _tell(watch: Watch) -> str:
    """One paragraph on a training that ended before its verdict."""
    kept = "" if watch.file is None else f" Kept in {watch.file.path}."
    begin = f"dpassay: the training ended after {watch.steps} steps, before watch.judge().{kept}"
    try:
        return f"{begin} What these steps show:\n{judge_so_far(watch, Asked(None, None, 0.95))}"
    except DpassayError as error:
        return f"{begin} These steps cannot be judged: {error}"
