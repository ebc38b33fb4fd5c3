"""A run in a folder, for any scheduler: described once, and played in parts with logs of their own.

The folder holds ``work.json`` (which run, how it is played, which versions), ``work.task`` (the
task, pickled), the log of the whole run, ``audit.db``, and a log for each part that was begun, such
as ``part-3of64.db``. Only the process that plays a part writes its log, so no database is shared
between machines. Whoever opens the folder as a store (:func:`dpassay.runs.open_log`) first adds
what the parts hold to the log of the whole run.

Parts are read from copies: SQLite must not be asked about a file that another machine has open. A
copy counts if the file did not change meanwhile; every row and the whole have checksums besides.
"""

import contextlib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _files
from dpassay._scratch import temporary_folder
from dpassay.errors import InvalidArgument, LogError
from dpassay.runs.outcomes import Task
from dpassay.runs.parcel import Parcel, folders_of_code, pack_with_code
from dpassay.runs.protocol import TrialLog, merge
from dpassay.runs.sqlite import SqliteLog
from dpassay.runs.there import find_other_version, versions_here
from dpassay.runs.writer import WORKERS, WRITERS

WORK, TASK, WHOLE = "work.json", "work.task", "audit.db"
FORMAT = 1
_MERGED = "merged"  # the fact about a run: what of each part is in the log of the whole
_TRIES = 20


@dataclass(frozen=True)
class Work:
    """A run that is played in parts.

    Attributes:
        key: of the run.
        trials: how many there are, from 0 on.
        configuration: what fixes the outcomes, for the log.
        description: what was asked, for the log.
        replayable: whether a trial played again is the same trial.
        timeout: seconds for one trial.
        max_failed_share: more failures than this share end the playing of a part.
        digest: of the task.
        versions: of the packages that the run was described with.
        folders: where the code lay that the task was made of; what it imports while it plays is
            looked for there.
        format: of the folder.

    """

    key: str
    trials: int
    configuration: Mapping[str, Any]
    description: Mapping[str, Any]
    replayable: bool = True
    timeout: float | None = None
    max_failed_share: float = 0.1
    digest: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    folders: Sequence[str] = ()
    format: int = FORMAT


@dataclass(frozen=True)
class Part:
    """Some trials of a run, with the name of their part."""

    name: str
    trials: NDArray[np.int64]

    @property
    def file(self) -> str:
        """The name of its log."""
        return f"part-{self.name.replace('/', 'of').replace(':', 'to')}.db"


def is_folder(store: Path) -> bool:
    """Whether a run was described here."""
    return (store / WORK).is_file()


def write_work(folder: Path, work: Work, task: Task) -> None:
    """Describe a run in a folder, which is made if it is not there; nothing is played.

    Raises:
        InvalidArgument: it is a file, a folder with something else in it, or with another run.

    """
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(f"store={str(folder)!r} must be a folder here; it is a file.")
    if is_folder(folder):
        before = read_work(folder)
        if before.key != work.key:
            raise InvalidArgument(
                f"store={str(folder)!r} holds another audit, run {before.key[:12]} (this is "
                f"{work.key[:12]}). Name another folder, or remove this one."
            )
    elif folder.is_dir() and any(folder.iterdir()):
        raise InvalidArgument(f"store={str(folder)!r} must be new or empty; it has other files.")
    folder.mkdir(parents=True, exist_ok=True)
    parcel = pack_with_code(task)
    assert isinstance(parcel.content, bytes)
    _files.write(folder / TASK, parcel.content)
    with contextlib.closing(SqliteLog(folder / WHOLE)) as log:
        log.begin(work.key, work.configuration, work.description)
    facts = asdict(work) | {"digest": parcel.digest, "versions": versions_here()}
    facts |= {"folders": folders_of_code()}
    # Last: where it stands, all the rest does.
    _files.write(folder / WORK, json.dumps(facts, indent=1, sort_keys=True) + "\n")


def read_work(folder: Path) -> Work:
    """The run that was described in a folder.

    Raises:
        InvalidArgument: none was, or not in a way that this version can read.

    """
    if not is_folder(folder):
        raise InvalidArgument(
            f"store={str(folder)!r} holds no described audit. Write one down first: "
            "dpassay audit … --store DIR --describe."
        )
    try:
        facts = json.loads((folder / WORK).read_text("utf-8"))
        if facts.pop("format") != FORMAT:
            raise ValueError
        return Work(**facts)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise InvalidArgument(
            f"store={str(folder)!r}: its {WORK} is not what this version writes. Describe the "
            "audit again, in another folder."
        ) from None


def read_task(folder: Path, work: Work) -> Task:
    """The task of a described run, if this process has the versions that it was described with.

    Raises:
        InvalidArgument: a version is another one, or the task is not the one that was described.

    """
    if wrong := find_other_version(tuple(work.versions.items())):
        raise InvalidArgument(
            f"store={str(folder)!r}: this process has {wrong}. Give both the same, or describe "
            "the audit again."
        )
    parcel = Parcel(work.digest, (folder / TASK).read_bytes())
    if not parcel.is_whole():
        raise InvalidArgument(f"store={str(folder)!r}: its {TASK} was changed. Describe it again.")
    sys.path += [place for place in work.folders if place not in sys.path]
    return parcel.unpack()


# ------------------------------------------------------------------------------- which trials


def shard_of(text: str, trials: int) -> Part:
    """The trials of shard "i/n", every n-th from i on: so the beginning of a run is soon complete.

    >>> shard_of("2/3", 8).trials.tolist()
    [1, 4, 7]

    """
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    i, n = (int(number) for number in found.groups()) if found else (0, 0)
    if not 1 <= i <= n:
        raise InvalidArgument(
            f"shard={text!r} must be i/n with i from 1 to n, such as 3/64: shards are counted "
            "from 1."
        )
    return Part(f"{i}/{n}", np.arange(i - 1, trials, n, dtype=np.int64))


def range_of(text: str, trials: int) -> Part:
    """The trials from a on and before b of "a:b".

    >>> range_of("2:5", 8).trials.tolist()
    [2, 3, 4]

    """
    found = re.fullmatch(r"(\d{1,12}):(\d{1,12})", text)
    a, b = (int(number) for number in found.groups()) if found else (0, 0)
    if not a < b <= trials:
        raise InvalidArgument(
            f"range={text!r} must be a:b with 0 <= a < b <= {trials}, such as 0:{trials}: the "
            "trials from a on and before b."
        )
    return Part(f"{a}:{b}", np.arange(a, b, dtype=np.int64))


# ------------------------------------------------------------------------------- joining


def join_parts(folder: Path) -> SqliteLog:
    """The log of the whole run, with all that its parts hold so far.

    Raises:
        LogError: a part is damaged, or two parts have different outcomes of the same trial.

    """
    whole = SqliteLog(folder / WHOLE)
    try:
        add_parts(whole, folder)
    except BaseException:
        whole.close()
        raise
    return whole


def add_parts(whole: TrialLog, folder: Path) -> None:
    """Add to the log of the whole run what its parts have got since they were last added.

    Raises:
        LogError: as :func:`join_parts`.

    """
    key = read_work(folder).key
    merged = dict(whole.read_note(key, _MERGED, {}))
    writers = dict(whole.read_note(key, WRITERS, {}))
    for path in sorted(folder.glob("part-*.db")):
        if _look_of(path) != merged.get(path.name):
            merged[path.name], writers[path.name] = _add_part(whole, path, key)
    if merged != whole.read_note(key, _MERGED, {}):
        whole.note(key, WRITERS, writers)
        whole.note(key, _MERGED, merged)


def _add_part(whole: TrialLog, path: Path, key: str) -> tuple[Any, Any]:
    """Add a part; how its file looked then, and who plays it."""
    with _copy_log(path) as (copy, look), contextlib.closing(SqliteLog(copy, make=False)) as log:
        runs = log.runs()
        if [run.key for run in runs] not in ([], [key]):
            raise LogError(f"store={path}: it is no part of run {key[:12]}. Move it away.")
        merge(whole, log, names=(WHOLE, path.name), notes=False)
        about = runs[0].description if runs else {}
        n, workers = sum(log.counts(key).values()), log.read_note(key, WORKERS, 1)
    return look, {"writer": about.get("writer"), "n": n, "workers": workers}


def _look_of(path: Path) -> list[list[int]]:
    """Size and time of a log and its write-ahead log."""
    found = []
    for suffix in ("", "-wal"):
        with contextlib.suppress(FileNotFoundError):
            facts = path.with_name(path.name + suffix).stat()
            found.append([facts.st_size, facts.st_mtime_ns])
    return found


@contextlib.contextmanager
def _copy_log(path: Path) -> Iterator[tuple[Path, list[list[int]]]]:
    """A copy of a log, taken while nothing was written to it, and how it looked."""
    with temporary_folder() as folder:
        for _ in range(_TRIES):
            look, copy = _look_of(path), folder / path.name
            for suffix in ("", "-wal"):
                to = copy.with_name(copy.name + suffix)
                to.unlink(missing_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(path.with_name(path.name + suffix), to)
            if _look_of(path) == look:
                yield copy, look
                return
        raise LogError(f"store={path}: it is being written too fast to be read. Look again later.")
