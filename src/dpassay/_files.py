"""Outputs that appear whole: a reader sees the old file or the new one, never a part of one.

A file is written under a new, unguessable name in the folder where it belongs, flushed to the disk,
and moved into place. If anything fails before that, Ctrl-C included, the old file stays as it was
and nothing is left beside it. Only regular files are replaced. Devices, pipes, sockets and folders
are refused, so that ``-o /dev/full`` cannot replace a device by a file. A link to a regular file is
followed: the link stays, and the file that it points to is replaced. A link to nothing is refused.

A new file gets the permissions that the user's umask grants; a replaced one keeps its own.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from dpassay._scratch import make_owned_name, remove_stale, vanishing
from dpassay.errors import InvalidArgument

try:
    import fcntl
except ImportError:  # Windows, where folders cannot be locked.
    fcntl = None

_PREFIX = ".dpassay-"  # of files that are not complete yet
_SPECIAL = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def special_kind(path: str | os.PathLike[str]) -> str | None:
    """What a path names if that is neither a regular file nor nothing, such as "a pipe"."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    return None if stat.S_ISREG(mode) else _SPECIAL.get(stat.S_IFMT(mode), "no regular file")


def write(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write one file; see :func:`write_all`."""
    return write_all({path: content})[0]


def write_all(
    contents: "Mapping[Path, str | bytes] | Mapping[str | os.PathLike[str], str | bytes]",
) -> list[Path]:
    """The paths of the files written: all are complete before the first one is moved into place.

    Args:
        contents: what to write by path; texts as UTF-8.

    Raises:
        InvalidArgument: something that is no regular file is in the way; nothing was written.
        OSError: a file cannot be written; unless it was a move that failed, nothing was.

    """
    places = {Path(path): output_place(path) for path in contents}
    with contextlib.ExitStack() as stack:
        written = [
            (stack.enter_context(_write_beside(places[Path(path)], content)), places[Path(path)])
            for path, content in contents.items()
        ]
        for new, place in written:
            os.replace(new, place)
        for folder in {place.parent for place in places.values()}:
            _sync_folder(folder)
    return list(places)


def set_aside(path: Path, ending: str) -> None:
    """Move a file to its name with an ending behind it, over what was set aside there before."""
    os.replace(path, f"{path}{ending}")


def output_place(path: str | os.PathLike[str]) -> Path:
    """Where an output of this name is written: the path itself, or what a link there points to.

    Raises:
        InvalidArgument: it is a device, pipe, socket or folder, or a link that leads nowhere.

    """
    place = Path(os.path.realpath(path))
    try:
        place.stat()
    except FileNotFoundError:
        if Path(path).is_symlink():
            raise _refusal(path, "it is a link to a file that does not exist") from None
        return place
    if (kind := special_kind(place)) is not None:
        raise _refusal(path, f"it is {kind}")
    return place


def _refusal(path: str | os.PathLike[str], why: str) -> InvalidArgument:
    return InvalidArgument(
        f"path={os.fspath(path)!r} cannot be written: {why}. Only regular files are replaced; "
        "name another one."
    )


@contextlib.contextmanager
def _write_beside(place: Path, content: str | bytes) -> Iterator[Path]:
    """A complete file beside the place, with the permissions that it should have there."""
    remove_stale(place.parent, _PREFIX)
    new = place.with_name(f"{_PREFIX}{make_owned_name()}")
    data = content.encode() if isinstance(content, str) else content
    with vanishing(new):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.chmod(_mode(place))
        yield new


def _mode(place: Path) -> int:
    """Permissions of the file that is replaced; of a new one, what the umask grants."""
    try:
        return stat.S_IMODE(place.stat().st_mode) & 0o777
    except FileNotFoundError:
        mask = os.umask(0o077)  # It can only be read by setting it: to the safe side, for a moment.
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Have the moves on the disk too, where folders can be flushed."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_private(path: Path) -> None:
    """Make an empty file that only this user may read and write, unless there is one already."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a folder's lock: other such blocks wait, in all threads, and processes where it can."""
    with contextlib.ExitStack() as stack:
        if fcntl is not None:
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            with contextlib.suppress(OSError):  # some network file systems have none
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
