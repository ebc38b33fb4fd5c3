"""Any program that reads a table and writes a result as a mechanism."""

import contextlib
import os
import shlex
import shutil
import signal
import string
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import _check, _handed
from dpassay._records import as_array, is_pair
from dpassay._rng import generator
from dpassay._scratch import temporary_folder
from dpassay.auditing.adapters.sources import local_modules
from dpassay.errors import CommandFailed, InvalidArgument, debugging

PLACES = ("data", "output", "seed")
STDERR_MAX = 10_000  # bytes of standard error that are shown on the terminal
# Outcomes must not depend on who plays: not on the number of cores, nor on the order of sets.
_STEADY = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}


@dataclass(frozen=True)
class Command:
    """A command as ``mechanism(table, rng)``; made by :func:`from_command`.

    Attributes:
        words: of the command. Those that name files are paths, so that their content enters the
            key of a run.
        modules: what Python files among them import from their folders.
        read: turns the path of what was written into an output; None goes by its suffix.

    """

    words: tuple[str | Path, ...]
    modules: tuple[Path, ...] = ()
    read: Callable[[Path], Any] | None = None

    def __call__(self, data: Any, rng: np.random.Generator | None) -> Any:
        seed = int(generator(rng).integers(2**31 - 1))
        with temporary_folder() as folder:
            _write_table(data, folder / "data.csv")
            places = {
                "data": str(folder / "data.csv"),
                "output": str(folder / "output"),
                "seed": str(seed),
            }
            _run(self._fill(places), folder)
            return self._read(folder)

    def _fill(self, places: Mapping[str, str]) -> list[str]:
        words = [
            str(word) if isinstance(word, Path) else word.format_map(places) for word in self.words
        ]
        if words[0] in ("python", "python3"):
            words[0] = sys.executable  # that of this environment, whatever the path says
        return words

    def _read(self, folder: Path) -> Any:
        written = sorted(folder.glob("output*"))
        if len(written) != 1:
            what = [path.name for path in written] or "nothing"
            raise CommandFailed(
                f"the command wrote {what} at {{output}}; it must write one file. Several results "
                "go into one .npz or .json."
            )
        return (self.read or read_output)(written[0])


def from_command(
    command: str | Sequence[str], *, read: Callable[[Path], Any] | None = None
) -> Command:
    """A command that reads a table and writes a result, as a mechanism.

    Every trial writes its table to a CSV file in a folder of its own, runs the command without a
    shell, reads what it wrote, and removes the folder. A trial that is stopped ends the command and
    all that it started. Words of the command that name files are run from where they are now, and
    the key of a run follows their content.

    Args:
        command: for example ``"python train.py {data} {output}.npy --seed {seed}"``. ``{data}`` is
            the CSV file, ``{output}`` a path to write to (the suffix is what you or the program
            append to it), ``{seed}`` a whole number below 2^31. Without ``{seed}`` the program
            draws randomness of its own: audited and logged, but not replayable. ``python`` is the
            interpreter of this environment. Braces that are meant as such are doubled.
        read: ``read(path)`` returns the output; None reads .npy, .npz, .json, .csv and .txt.
            Formats that run code when they are read (pickle, joblib) need a function of yours.

    Returns:
        ``mechanism(data, rng)`` for frames, two-dimensional arrays (columns x0, x1, ...) and pairs
        (X, y) (columns x0, x1, ..., y).

    Raises:
        InvalidArgument: a place is missing or unknown, or there is no such program.

    """
    words = _words(command)
    _check_places(command, words)
    if words[0] not in ("python", "python3") and shutil.which(words[0]) is None:
        raise InvalidArgument(f"command={command!r} begins with {words[0]!r}, which is no program.")
    if read is not None and not callable(read):
        raise InvalidArgument(f"read={_check.shown(read)} must be a function of a path.")
    known = tuple(Path(word).resolve() if Path(word).is_file() else word for word in words)
    scripts = [word for word in known if isinstance(word, Path) and word.suffix == ".py"]
    modules = sorted({module for script in scripts for module in local_modules(script)})
    return Command(known, tuple(modules), read)


def _words(command: str | Sequence[str]) -> list[str]:
    try:
        return shlex.split(command) if isinstance(command, str) else list(map(str, command))
    except ValueError as error:
        raise InvalidArgument(f"command={command!r} cannot be split into words: {error}.") from None


def _check_places(command: Any, words: Sequence[str]) -> None:
    try:
        fields = {field for word in words for _, field, _, _ in string.Formatter().parse(word)}
    except ValueError as error:
        raise InvalidArgument(f"command={command!r} has a lone brace: {error}.") from None
    named = fields - {None}
    for place in ("data", "output"):
        if place not in named:
            raise InvalidArgument(
                f"command={command!r} has no {{{place}}}. Write for example "
                "'python train.py {data} {output}.npy --seed {seed}'."
            )
    if named - set(PLACES):
        raise InvalidArgument(
            f"command={command!r} has unknown places {sorted(map(str, named - set(PLACES)))}; "
            "there are {data}, {output} and {seed}. Double braces that are meant as such."
        )


# ------------------------------------------------------------------------------ running


def _run(words: Sequence[str], folder: Path) -> None:
    """Run a command to its end; whatever happens, no process that it started stays alive."""
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            env={**_STEADY, **os.environ},
        )
        with _kill_at_end(process):
            if hasattr(os, "waitid"):  # Its number stays its own until the group is ended too.
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            else:
                process.wait()
    code = process.returncode
    if code != 0:
        if debugging():  # What a program says may quote its data: for the terminal alone.
            said = (folder / "stderr").read_bytes()[-STDERR_MAX:]
            with contextlib.suppress(OSError):
                os.write(2, said)
        raise CommandFailed(
            f"{words[0]} left with exit code {code}. To see what it said on the terminal, run with "
            "--debug, or set DPASSAY_DEBUG=1."
        )


@contextlib.contextmanager
def _kill_at_end(process: "subprocess.Popen[bytes]") -> Generator[None, None, None]:
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # the group outlives its first process
        process.wait()


# ------------------------------------------------------------------------------ tables and results


def _write_table(data: Any, path: Path) -> None:
    import pandas as pd

    frame = data if hasattr(data, "to_csv") else pd.DataFrame(_columns(data))
    frame.to_csv(path, index=False)


def _columns(data: Any) -> dict[str, Any]:
    """The columns of an array or of a pair (X, y), by name."""
    rows, y = data if is_pair(data) else (data, None)
    table = as_array(rows)
    if table.ndim != 2:
        raise InvalidArgument(
            f"data has shape {table.shape}; a command reads a table. Pass a frame, a "
            "two-dimensional array or a pair (X, y)."
        )
    columns: dict[str, Any] = {f"x{i}": table[:, i] for i in range(table.shape[1])}
    return columns if y is None else columns | {"y": np.asarray(y)}


def read_output(path: Path) -> Any:
    """What a file of a known suffix holds: .npy, .npz, .json, .csv (with a header), .txt.

    Raises:
        InvalidArgument: another suffix.

    """
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise InvalidArgument(
            f"the output {path.name!r} has none of the suffixes {', '.join(_READERS)}. Append one "
            "in the command, {output}.npy, or pass read=, a function of the path."
        )
    return reader(path)


def _text(path: Path) -> Any:
    """The numbers in a text if it holds nothing else; otherwise the text."""
    text = _handed.read_text("output", path)
    try:
        return np.array([float(word) for word in text.split()])
    except ValueError:
        return text


_READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": lambda path: _handed.load_npy("output", path),
    ".npz": lambda path: _handed.load_npz("output", path),
    ".json": lambda path: _handed.load_json("output", path),
    ".csv": lambda path: _handed.load_csv("output", path),
    ".txt": _text,
}
