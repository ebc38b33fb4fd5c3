"""Lines of code: which one is being run, and how it is written in messages."""

import contextlib
import functools
import linecache
import os
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_HERE = str(Path(__file__).parent)
_HOME = str(Path(__file__).parents[1])
_INNER = (str(Path(np.__file__).parent), random.__file__, contextlib.__file__, "<frozen",
          "<string>")  # fmt: skip
_LIBRARIES = tuple(
    f"-packages/{name}/"
    for name in ("scipy", "pandas", "numpy", "sklearn", "torch", "opacus", "jax", "jaxlib",
                 "opendp", "diffprivlib/mechanisms")
)  # fmt: skip


Place = tuple[str, int, int]


@dataclass(frozen=True)
class Site:
    """A line of code; ``at`` tells several calls on it apart, and is not compared."""

    file: str
    line: int
    function: str = ""
    at: int = field(default=-1, compare=False)

    @property
    def exact(self) -> "Place":
        """The call on the line."""
        return self.file, self.line, self.at

    @property
    def source(self) -> str:
        """The text of the line, empty where it cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{shorten(self.file)}:{self.line}"


def shorten(file: str) -> str:
    """A path as messages show it: without the folders that differ from machine to machine.

    Relative to the working folder where it lies in it; of a library that is installed, or of
    Python's own, from the name of its package on; else the folder and the name.
    """
    path = Path(file)
    try:
        return path.resolve().relative_to(os.getcwd()).as_posix()
    except ValueError:
        pass
    parts = path.parts
    for i, part in enumerate(parts[:-1]):
        if part in ("site-packages", "dist-packages"):
            return "/".join(parts[i + 1 :])
    own = os.path.dirname(os.__file__)
    if file.startswith(own + os.sep):
        return path.relative_to(own).as_posix()
    return "/".join(parts[-2:]) if path.is_absolute() else path.as_posix()


@functools.cache
def _is_inner(name: str) -> bool:
    """Whether a file belongs to the recorder or to a library that only passes noise on."""
    return name.startswith((_HERE, *_INNER)) or any(part in name for part in _LIBRARIES)


def here() -> Site:
    """The user's line that is being run: the first frame that is not the recorder or a library.

    A line of dpassay itself (a mechanism) is taken only where no line of the user's called it.
    """
    frame, first = sys._getframe(1), None
    while frame is not None:
        name = frame.f_code.co_filename
        if not _is_inner(name):
            site = Site(name, frame.f_lineno, frame.f_code.co_name, frame.f_lasti)
            if not name.startswith(_HOME):
                return site if not _is_caller(name) else first or site
            if "/auditing/" in name:
                return first or site
            first = first or site
        frame = frame.f_back
    return first or Site("<unknown>", 1)


def is_users_call() -> bool:
    """Whether the user's own line called, and not a library that it uses."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    name = "" if frame is None else frame.f_code.co_filename
    while frame is not None and name.endswith(("torch/_tensor.py", "torch/overrides.py")):
        frame = frame.f_back
        name = "" if frame is None else frame.f_code.co_filename
    return not _is_inner(name) and not name.startswith(_HOME)


def _is_caller(name: str) -> bool:
    """Whether the frame belongs to what runs tests or the command line, not to a mechanism."""
    return "/_pytest/" in name or "/pluggy/" in name
