"""A portion played on somebody's worker, which may have other packages than this process."""

import functools
import os
import sys
from collections.abc import Sequence

from dpassay import __version__
from dpassay.runs.guard import Rules, play_portion
from dpassay.runs.outcomes import Outcomes
from dpassay.runs.parcel import Parcel

# Results depend on these; those that this process has loaded must be the same there.
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "torch", "opacus", "jax")
_MODULES = {"scikit-learn": "sklearn"}


def versions_here() -> dict[str, str]:
    """The versions that a worker must have: of dpassay, and of what is loaded here."""
    loaded = [name for name in _PACKAGES if _MODULES.get(name, name) in sys.modules]
    return {"dpassay": __version__} | {name: _version(name) for name in loaded}


@functools.lru_cache(maxsize=8)
def find_other_version(versions: tuple[tuple[str, str], ...]) -> str:
    """The first package whose version is another one here, with both; empty if there is none."""
    for name, theirs in versions:
        mine = __version__ if name == "dpassay" else _version(name)
        if mine != theirs:
            return f"{name} {mine}, the process that audits {theirs}"
    return ""


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def play_as_worker(
    content: tuple[str, bytes], trials: Sequence[int], rules: tuple, name: str, ours: bool
) -> Outcomes | None:
    """The outcomes of a portion; None if it was begun before and cannot be played again."""
    if ours:
        _be_quiet(os.getpid())
    asked = Rules(*rules)
    if not asked.replayable and not _begin(name):
        return None
    return play_portion(Parcel(*content), trials, asked)


def _begin(name: str) -> bool:
    """Enter at the scheduler that a portion is begun; false if it was entered before."""
    from distributed import Event

    event = Event(name)
    if event.is_set():
        return False
    event.set()
    return True


@functools.lru_cache(maxsize=1)
def _be_quiet(_: int) -> None:
    """Keep what trials print from the streams that this worker shares with the audit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    sys.stdout = sys.stderr = os.fdopen(null, "w")  # for as long as this worker lives
