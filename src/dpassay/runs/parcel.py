"""A task on its way to a worker process: packed once here, unpacked once there."""

import hashlib
import sys
import sysconfig
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from dpassay import _check
from dpassay.errors import InvalidArgument, TaskError, describe_shortly
from dpassay.runs.outcomes import Task

INLINE_MAX = 2**16
_UNPACKED_MAX = 2
_OURS = ("dpassay", "_dpassay_pytest")  # and packages beside it, which are named after it
_unpacked: "OrderedDict[str, Task]" = OrderedDict()  # of this process, by digest


@dataclass(frozen=True)
class Parcel:
    """A pickled task: small, or on a machine without our folder, by value; large, as a file.

    A worker keeps the task that it has unpacked, so that data is sent once and what the task
    caches or compiles is kept from one portion of trials to the next.
    """

    digest: str
    content: bytes | Path = field(repr=False)

    def unpack(self) -> Task:
        """The task that was packed; unpacked once per process and kept for the next call."""
        if self.digest not in _unpacked:
            _unpacked[self.digest] = self._load()
            while len(_unpacked) > _UNPACKED_MAX:
                _unpacked.popitem(last=False)
        _unpacked.move_to_end(self.digest)
        return _unpacked[self.digest]

    def is_whole(self) -> bool:
        """Whether the content is still what was packed."""
        content = self.content
        content = content.read_bytes() if isinstance(content, Path) else content
        return hashlib.sha256(content).hexdigest() == self.digest

    def _load(self) -> Task:
        import cloudpickle

        content = self.content
        try:
            content = content.read_bytes() if isinstance(content, Path) else content
            return cloudpickle.loads(content)
        except Exception as error:
            raise TaskError(
                f"the task could not be unpacked in a worker ({describe_shortly(error)}"
                f"{_lacking(error)}). What it uses must be importable there; pass workers=1 to "
                "play in this process."
            ) from None


def pack(task: Any, folder: Path | None) -> Parcel:
    """The task as a parcel; large ones are put into the folder, if workers can read it."""
    import cloudpickle

    try:
        blob = cloudpickle.dumps(task)
    except Exception as error:
        raise InvalidArgument(
            f"task, {_check.shown(task)}, cannot be sent to worker processes "
            f"({describe_shortly(error)}). Pass workers=1 to play it in this process, or make what "
            "it holds picklable."
        ) from None
    digest = hashlib.sha256(blob).hexdigest()
    if folder is None or len(blob) <= INLINE_MAX:
        return Parcel(digest, blob)
    path = folder / digest
    path.write_bytes(blob)
    return Parcel(digest, path)


def pack_with_code(task: Any) -> Parcel:
    """The task as a parcel for machines and days of its own: it holds the code that it plays.

    Functions of files that are not installed, such as my_train.py, travel by value. So they need
    not be importable where the task is played, and a file that is changed later changes nothing
    that was described. Code that cannot be packed so (it holds a lock, say) travels by name.
    """
    import cloudpickle

    own = list(_modules_not_installed())
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        return pack(task, None)
    except InvalidArgument:
        pass
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)
    return pack(task, None)


def folders_of_code() -> list[str]:
    """The folders of the loaded modules that are not installed, for what they import later."""
    return sorted({str(Path(str(m.__file__)).resolve().parent) for m in _modules_not_installed()})


def _modules_not_installed() -> Iterator[ModuleType]:
    """Loaded modules from files outside the environment, the standard library and dpassay."""
    installed = [Path(place).resolve() for place in sysconfig.get_paths().values()]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or name == "__main__" or name.startswith(_OURS):
            continue
        path = Path(file).resolve()
        if not any(path.is_relative_to(place) for place in installed):
            yield module


def _lacking(error: Exception) -> str:
    """The name of the module that could not be imported; it is code, never a record."""
    name = error.name if isinstance(error, ImportError) else None
    return f", module {name!r}" if name else ""
