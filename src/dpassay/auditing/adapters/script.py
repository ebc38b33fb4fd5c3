"""A whole script as a mechanism: each trial runs it from its first line to its last."""

import atexit
import contextlib
import functools
import os
import random
import runpy
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar

import numpy as np

from dpassay import _check, probe
from dpassay._rng import generator
from dpassay._scratch import temporary_folder
from dpassay.auditing.adapters.sources import local_modules
from dpassay.auditing.working_copy import WorkingCopy, root_of
from dpassay.errors import STANDS_FOR, InvalidArgument, ScriptFailed

T = TypeVar("T")
_ONE_AT_A_TIME = threading.Lock()  # A script owns its process: arguments, generators, folder.
_READY: "set[Script]" = set()  # scripts that this process has rehearsed


@dataclass(frozen=True)
class Script:
    """A script as ``mechanism(world, rng)``; made by :func:`from_script`.

    Attributes:
        path: of the script.
        arguments: what ``sys.argv`` holds after the path.
        modules: the files beside it that it imports. They are loaded anew for every trial, and
            with the script they enter the key of a run.
        in_place: whether it runs where it is, and not in a scratch copy of the working folder.
        worlds: the pair to audit.

    """

    path: Path
    arguments: tuple[str, ...] = ()
    modules: tuple[Path, ...] = ()
    in_place: bool = False
    worlds: ClassVar[tuple[str, str]] = ("with the canary", "without the canary")

    def __call__(self, data: str, rng: np.random.Generator | None) -> Any:
        with_canary = _check.choice("data", data, self.worlds) == self.worlds[0]
        seed = int(generator(rng).integers(2**63))
        with _ONE_AT_A_TIME:
            if self not in _READY:
                self._rehearse(with_canary, seed)
            return self._play_apart(with_canary, seed)

    def rehearse(self) -> None:
        """Load what the script loads, unless this process has run it before."""
        with _ONE_AT_A_TIME:
            if self not in _READY:
                self._rehearse(with_canary=False, seed=0)

    def _rehearse(self, with_canary: bool, seed: int) -> None:
        """Run the script once and forget what came of it, whatever that was.

        What a script loads may draw from a generator, or bring one that had no seed yet; the next
        run finds all of it loaded. To forget is safe because it does not depend on the outcome.
        """
        _READY.add(self)  # once, even if the time of the trial is up before it ends
        with contextlib.suppress(Exception):
            self._play_apart(with_canary, seed)

    def run_once(self, seed: int) -> None:
        """Run the script once in its scratch copy; what its probes do is up to the caller."""
        with _ONE_AT_A_TIME:
            self._run_apart(lambda script: script._run(seed))

    def _play_apart(self, with_canary: bool, seed: int) -> Any:
        return self._run_apart(lambda script: script._play(with_canary, seed))

    def _run_apart(self, run: "Callable[[Script], T]") -> T:
        """Have the script run in its scratch copy, unless it is to run where it is."""
        if self.in_place:
            return run(self)
        folder = _copy_for(root_of(self.path))
        folder.restore()
        copy = from_script(folder.copy_of(self.path), self.arguments)
        before, known = Path.cwd(), self._own_modules()
        try:
            self._forget_modules()
            os.chdir(folder.scratch)
            return run(copy)
        finally:
            sys.modules.update(known)
            os.chdir(before)

    def _play(self, with_canary: bool, seed: int) -> Any:
        """What the script releases when it is run once."""
        with probe.playing(with_canary) as trial:
            self._run(seed)
        return trial.output(self.path.name)

    def _run(self, seed: int) -> None:
        with self.as_program(), _seed_generators(seed):
            try:
                runpy.run_path(str(self.path), run_name="__main__")
            except SystemExit as left:
                if left.code not in (None, 0):
                    raise ScriptFailed(
                        f"{self.path.name} left with exit code {left.code!r}."
                    ) from None

    @contextlib.contextmanager
    def as_program(self) -> Generator[None, None, None]:
        """The process as a program finds it at its start; afterwards as it was before."""
        argv, path, folder, environment = sys.argv, list(sys.path), os.getcwd(), dict(os.environ)
        known = self._own_modules()
        try:  # Time may run out at any line from here on.
            self._forget_modules()
            sys.argv = [str(self.path), *self.arguments]
            sys.path.insert(0, str(self.path.parent))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # whatever the filters of the auditor are
                yield
        finally:
            sys.argv, sys.path[:] = argv, path
            self._forget_modules()
            sys.modules.update(known)
            os.chdir(folder)
            _restore_environment(environment)

    def _own_modules(self) -> dict[str, ModuleType]:
        """The modules beside the script that are loaded."""
        own = {str(module) for module in self.modules}
        return {n: m for n, m in sys.modules.items() if getattr(m, "__file__", None) in own}

    def _forget_modules(self) -> None:
        """Unload the modules beside the script: what they hold must not pass between trials."""
        for name in self._own_modules():
            del sys.modules[name]


@functools.cache
def _copy_of(root: Path, process: int) -> WorkingCopy:
    """The scratch copy of a folder for one process, which has it until it ends."""
    stack = contextlib.ExitStack()
    scratch = stack.enter_context(temporary_folder()).resolve() / "work"
    atexit.register(stack.close)
    STANDS_FOR[str(scratch)] = str(root)
    return WorkingCopy(root, scratch, remedy=", or pass --in-place")


def _copy_for(root: Path) -> WorkingCopy:
    copy = _copy_of(root, os.getpid())  # what was copied before a fork is the parent's
    if copy.scratch.parent.is_dir():
        return copy
    _copy_of.cache_clear()  # a worker's temporary files go with the run that they were made for
    return _copy_of(root, os.getpid())


def from_script(
    path: str | Path, arguments: Sequence[str] = (), *, in_place: bool = False
) -> Script:
    """A script with the three lines of :mod:`dpassay.probe` as a mechanism.

    Every trial runs the script in this process as ``python path arguments`` would, with
    ``__name__ == "__main__"`` and fresh globals; packages that it imports stay loaded, modules
    beside it are loaded anew. ``random``, NumPy's global generator and torch's are seeded from the
    trial's number, numerical libraries have one thread, and afterwards arguments, folder,
    environment, generators and warnings are as they were. Each process runs the script once before
    its first trial, which does not count: so every trial finds the same packages loaded. A
    timeout must leave room for both and for the loading.

    What the script seeds itself is the same in every trial: a training with a fixed seed has no
    noise for whoever knows the seed. Its audit stops and says so, unless ``fixed_seed="leak"`` is
    passed. Generators that it seeds from
    the operating system (``numpy.random.default_rng()``, Opacus' ``secure_mode``) are audited as
    they are; such a trial cannot be replayed.

    The script runs in a scratch copy of the working folder (or of its own folder, if it lies
    elsewhere), which is put back before every run: checkpoints and logs that it writes by relative
    paths are thrown away, and none of the user's is overwritten.

    Args:
        path: the script.
        arguments: what it finds in ``sys.argv[1:]``.
        in_place: run it where it is; then the files that it writes, it writes in every trial.

    Returns:
        ``script(world, rng)``, which returns what the script released; audit it on
        ``script.worlds``.

    Raises:
        InvalidArgument: no such file, or it is no Python.

    >>> import dpassay as da
    >>> script = da.auditing.from_script("train.py")  # doctest: +SKIP
    >>> da.audit(script, script.worlds, claim=claim, score=float)  # doctest: +SKIP

    """
    file = Path(path).resolve()
    if not file.is_file():
        raise InvalidArgument(f"path={str(path)!r} is not a file. Pass the path of a script.")
    if isinstance(arguments, str):
        raise InvalidArgument(
            f"arguments={arguments!r} must be a list of texts, such as shlex.split makes."
        )
    return Script(file, tuple(map(str, arguments)), local_modules(file), in_place)


def _restore_environment(before: dict[str, str]) -> None:
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _seed_generators(seed: int) -> Generator[None, None, None]:
    """The generators that a script finds in its process are seeded; afterwards as before."""
    from threadpoolctl import threadpool_limits

    plain, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    words = np.random.SeedSequence(seed).generate_state(4)
    random.seed(seed)
    np.random.seed(words)  # noqa: NPY002
    try:
        with threadpool_limits(1), _seed_torch(int(words[:2].view(np.uint64)[0] >> 1)):
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(legacy)  # noqa: NPY002


@contextlib.contextmanager
def _seed_torch(seed: int) -> Generator[None, None, None]:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads, kind, grad = (
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # sums must not depend on how many trials are played at once
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(kind)
            torch.set_grad_enabled(grad)
