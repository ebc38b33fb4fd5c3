"""Public packages in environments of their own, asked for draws through pipes.

Each package is installed with ``pip`` into a virtual environment that holds nothing else, and a
process of that environment draws: packages that do not agree with each other, or with us, can be
audited as they are on the registry. A request is one line of JSON on the process's standard input,
``{"data": ..., "size": n}``; the answer is the NumPy file of an array with a row per draw, after a
line with its number of bytes, or a line with the name of an exception. What the package prints goes
to standard error, which is dropped.
"""

import contextlib
import io
import json
import os
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpassay.errors import CommandFailed, MissingDependency

_SERVER = """
import io, json, os, sys
import numpy as np

answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what a library prints is no answer
try:
    exec(CODE, globals())
except Exception as error:
    failed = error  # told with every answer
    def draw(data, size): raise failed
for line in sys.stdin:
    asked, file = json.loads(line), io.BytesIO()
    try:
        np.save(file, np.asarray(draw(asked["data"], asked["size"]), dtype=float))
        answers.write(b"%d\\n" % file.tell() + file.getvalue())
    except Exception as error:
        answers.write(b"%s\\n" % type(error).__name__.encode())
    answers.flush()
"""
_INSTALL_SECONDS = 1800
_ENDED = "the library's process ended. Try its code by itself to see why."


def default_place() -> Path:
    """Where environments are kept: in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dpassay" / "libraries"


def install(requirements: tuple[str, ...], place: Path) -> Path:
    """The interpreter of an environment with these packages, which is made if it is not there.

    Raises:
        MissingDependency: they cannot be installed here.

    """
    folder = place / "-".join(requirements).replace("=", "")
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp = folder / "installed"  # written last, so that what was killed is done again
    if stamp.exists():
        return python
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    venv.create(folder, clear=True, with_pip=True)
    for requirement in requirements:  # one after another: torch must come before what needs it
        command = [str(python), "-m", "pip", "install", "--quiet", requirement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise MissingDependency(f"{requirement} cannot be installed here: {last}")
    stamp.touch()
    return python


@contextlib.contextmanager
def process(python: Path, code: str) -> Iterator["Process"]:
    """A process of an environment that runs ``code``, which defines ``draw(data, size)``."""
    server = _SERVER.replace("CODE", repr(code))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    child = subprocess.Popen(
        [str(python), "-c", server],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        yield Process(child)
    finally:
        child.kill()
        child.communicate()


class Process:
    """Draws of a package in a process of its own."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        if child.stdin is None or child.stdout is None:
            raise ValueError("a child without pipes")
        self._requests, self._answers = child.stdin, child.stdout

    def draw(self, data: Any, size: int) -> Any:
        """An array with a row, or a number, per draw.

        Raises:
            CommandFailed: the library raised an exception, or its process ended.

        """
        self._write(json.dumps({"data": data, "size": size}).encode() + b"\n")
        said = self._answers.readline().decode().strip()
        if not said:
            raise CommandFailed(_ENDED)
        if not said.isdigit():
            raise CommandFailed(f"the library raised {said}.")
        return np.load(io.BytesIO(self._answers.read(int(said))), allow_pickle=False)

    def _write(self, request: bytes) -> None:
        try:
            self._requests.write(request)
            self._requests.flush()
        except (BrokenPipeError, ValueError):  # ended, or closed by us
            raise CommandFailed(_ENDED) from None
