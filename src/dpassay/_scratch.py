"""What a process leaves lying about for a while, and how it goes away again.

Temporary folders are private to the user (0700). They are removed when their block ends, and by
SIGTERM or SIGHUP, which would otherwise end the process without cleaning up. A process that was
killed outright cannot clean up; so every temporary name says whose it is, and the next process of
the same user removes what belongs to processes that are gone.
"""

import contextlib
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PREFIX = "dpassay-"
_OWNER = re.compile(r"([0-9a-f]{8})-([0-9]+)-([0-9a-f]{8})-[0-9a-f]{32}")
_ENDINGS = ("SIGTERM", "SIGHUP")  # signals that end a process without unwinding it
_present: dict[Path, int] = {}  # what to remove, with the process that made it
_replaced: dict[int, Any] = {}  # handlers of signals that ours stand in for


def make_owned_name() -> str:
    """An unguessable name that says which process of which machine it belongs to."""
    pid = os.getpid()
    return f"{_machine()}-{pid}-{born(pid) or '0' * 8}-{secrets.token_hex(16)}"


def born(pid: int) -> str | None:
    """A short text that tells a living process from others that had its number; None if it is gone.

    Where the system does not say when a process began, all living ones have the same text.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() or not _is_alive(pid) else "0" * 8
    except OSError:
        return "0" * 8
    began = status.rpartition(")")[2].split()[19]  # field 22 of proc(5), in ticks since the boot
    return _short(f"{_boot()} {began}")


def is_gone(name: str) -> bool:
    """Whether a name from :func:`make_owned_name`, or one that holds it, is of a dead process.

    False for other names, and for processes of other machines, which cannot be asked.
    """
    found = _OWNER.search(name)
    if found is None or found[1] != _machine():
        return False
    return born(int(found[2])) != found[3]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True


@functools.cache
def _machine() -> str:
    """Where process numbers mean the same: the machine or, in a container, the container."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return _short(f"{platform.node()} {space}")


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# ------------------------------------------------------------------------------- folders


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder, private to the user (0700), with all that it holds gone afterwards.

    Folders of this user's processes that have ended are removed first.
    """
    place = Path(tempfile.gettempdir())
    remove_stale(place, _PREFIX)
    folder = place / f"{_PREFIX}{make_owned_name()}"
    with vanishing(folder):
        folder.mkdir(mode=0o700)
        yield folder


def remove_stale(place: Path, prefix: str) -> None:
    """Remove what processes of this user that are gone have left in a folder."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                remove_if_stale(Path(entry.path))


def remove_if_stale(path: Path) -> None:
    """Remove a folder or file of this user whose process is gone.

    Never a link, which could lead anywhere.
    """
    with contextlib.suppress(OSError):
        found = path.lstat()
        plain = stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)
        ours = not hasattr(os, "getuid") or found.st_uid == os.getuid()
        if plain and ours and is_gone(path.name):
            _remove(path)


@contextlib.contextmanager
def vanishing(path: Path) -> Iterator[None]:
    """Whatever is at the path when the block ends, or a signal ends the process, is removed."""
    _present[path] = os.getpid()
    _listen()
    try:
        yield
    finally:
        _remove(path)
        _present.pop(path, None)
        _unlisten()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


# ------------------------------------------------------------------------------- signals


def _listen() -> None:
    """Stand in for the default of signals that end a process; handlers of others are left alone."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in _ENDINGS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            _replaced[number] = signal.signal(number, _end)


def _unlisten() -> None:
    if _present or threading.current_thread() is not threading.main_thread():
        return
    for number in list(_replaced):
        if signal.getsignal(number) is _end:
            signal.signal(number, _replaced[number])
        del _replaced[number]


def _end(number: int, _frame: Any) -> None:
    """Remove what this process made, then end by the signal as if it had not been caught."""
    for path, maker in list(_present.items()):
        if maker == os.getpid():  # a forked child must not remove what its parent still uses
            _remove(path)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
