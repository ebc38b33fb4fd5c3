"""A whole script as the mechanism of a check: run from a scratch copy of its folder, each time.

With the lines of :mod:`dpassay.probe` the script says what its data is and what it releases.
Without them the data set of the first torch ``DataLoader`` and what is saved last by ``torch.save``
stand in, which the result says.
"""

import contextlib
import importlib.util
import io
import os
import runpy
import shlex
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb
from typing import Any, Unpack

from dpassay import probe
from dpassay._scratch import temporary_folder
from dpassay.auditing.adapters.script import Script, from_script
from dpassay.auditing.checking import CheckOptions, check
from dpassay.auditing.checking_text import place
from dpassay.auditing.findings import Check, Finding, Open
from dpassay.auditing.working_copy import WorkingCopy, root_of
from dpassay.errors import DpassayError, InvalidArgument, InvalidTarget, ScriptFailed
from dpassay.replay.datasets import data_like
from dpassay.replay.outputs import settle
from dpassay.replay.patches import disturb
from dpassay.replay.sites import Site
from dpassay.replay.tape import Tape, current, play_on, stop

_LINES = (
    "Add three lines:\n"
    "    from dpassay import probe\n"
    "    train_set = probe.data(train_set)      # where the data is ready\n"
    "    probe.release(model)                   # where the model is published"
)


def check_script(
    path: str | Path,
    arguments: Sequence[str] = (),
    *,
    pair: tuple[Any, Any] | None = None,
    **options: Unpack[CheckOptions],
) -> Check:
    """A :func:`~dpassay.check` of a whole script; see there for the options.

    The script is run in this process, from a scratch copy of the working folder (or of its own
    folder, if it lies elsewhere), which is put back before every run: what it writes by relative
    paths is thrown away. What it prints is not shown.

    Args:
        path: of the script.
        arguments: what it finds in ``sys.argv[1:]``.
        pair: two data sets, as arrays, to play instead of the script's own and its neighbours.
        **options: ``claim`` and the other options of :func:`~dpassay.check`.

    Raises:
        InvalidTarget: the script has no probes, and nothing can stand in for them.
        InvalidArgument: no such file, or a folder that is too large to be copied.
        ScriptFailed: the script raises on its own data, or leaves with an exit code.

    """
    file = from_script(path, arguments).path
    with temporary_folder() as scratch:
        folder = WorkingCopy(root_of(file), scratch.resolve() / "work", remedy="")
        folder.restore()
        runner = _Runner(from_script(folder.copy_of(file), arguments), folder)
        with _naming_its_line(folder):
            found = runner.discover()
            if pair is None:
                result = check(runner, found.data, own=found.canary, **options)
            else:
                data, other = (data_like(found.data, part) for part in pair)
                result = check(runner, data, neighbours=[other], **options)
        return replace(_relocate(result, folder, found.note), mechanism=None)


@contextlib.contextmanager
def _naming_its_line(folder: WorkingCopy) -> Generator[None, None, None]:
    """An error of the script becomes one that names its line; a message may hold records."""
    try:
        yield
    except DpassayError:
        raise
    except Exception as error:
        lines = [(part.filename, part.lineno) for part in extract_tb(error.__traceback__)]
        own = [(file, line) for file, line in lines if file.startswith(str(folder.scratch))]
        if not own:
            raise
        where = place(Site(folder.original(own[-1][0]), own[-1][1] or 1))
        raise ScriptFailed(
            f"the script raised {type(error).__name__} on its own data, at {where}. Run it once "
            "by hand."
        ) from error


@dataclass(frozen=True)
class _Found:
    """What a first run showed: the data, a canary if the script has one, and what stood in."""

    data: Any
    canary: Any = None
    note: str = ""


def _begin(tape: Tape | None) -> None:
    """What is drawn from now on is written on the tape."""
    play_on(tape)
    if tape is not None:
        disturb(tape)


class _Runner:
    """The script as ``mechanism(data)``."""

    starts_late = True

    def __init__(self, script: Script, folder: WorkingCopy) -> None:
        self.script = script
        self.folder = folder
        self.standing_in = False

    def __call__(self, data: Any) -> Any:
        tape = current()
        token = play_on(None)  # what is drawn before the data is ready is no noise of its release
        try:
            state = probe.Checking(data, start=lambda: _begin(tape), settle=settle)
            stand = _StandIn(state) if self.standing_in else None
            self._run(state, stand)
            return self._take_release(state, stand)
        finally:
            stop(token)

    def discover(self) -> _Found:
        """Run the script once as it is, to see its data and what it releases."""
        state = probe.Checking(probe.OWN, settle=settle)
        stand = _StandIn(probe.Checking(probe.OWN, settle=settle))
        self._run(state, stand)
        if state.n_data or state.released:
            self._take_release(state, None)
            return _Found(state.own, state.canary)
        note = self._stands_in(stand)
        self.standing_in = True
        return _Found(stand.state.own, None, note)

    def _stands_in(self, stand: "_StandIn") -> str:
        name = self.script.path.name
        if stand.state.n_data == 0:
            why = "never makes a torch DataLoader"
        elif stand.sampled:
            why = "gives its first DataLoader a sampler of its own"
        elif not stand.state.released:
            why = "never saves anything by torch.save"
        else:
            return (
                f"{name} has no probes: the data set of its first DataLoader was varied, and what "
                "it saved last was taken as the release."
            )
        raise InvalidTarget(f"{name} has no probes, and {why}, which would stand in. {_LINES}")

    def _run(self, state: probe.Checking, stand: "_StandIn | None") -> None:
        self.folder.restore()
        quiet = io.StringIO()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.script.as_program())
            os.chdir(self.folder.scratch)
            stack.enter_context(contextlib.redirect_stdout(quiet))
            stack.enter_context(contextlib.redirect_stderr(quiet))
            stack.enter_context(probe.checking(state))
            if stand is not None:
                stack.enter_context(stand.watching())
            try:
                runpy.run_path(str(self.script.path), run_name="__main__")
            except SystemExit as left:
                if left.code not in (None, 0):
                    name = self.script.path.name
                    raise ScriptFailed(f"{name} left with exit code {left.code!r}.") from None

    def _take_release(self, state: probe.Checking, stand: "_StandIn | None") -> Any:
        if stand is not None:
            return stand.state.released[-1] if stand.state.released else None
        name = self.script.path.name
        if state.n_data != 1:
            raise InvalidTarget(
                f"{name} called probe.data {state.n_data} times; it must be called once. {_LINES}"
            )
        if not state.released:
            raise InvalidTarget(f"{name} never called probe.release. {_LINES}")
        return state.released


class _StandIn:
    """The first DataLoader's data set, and what ``torch.save`` was given last."""

    def __init__(self, state: probe.Checking) -> None:
        self.state = state
        self.sampled = False
        self._first: Any = None

    @contextlib.contextmanager
    def watching(self) -> Generator[None, None, None]:
        if importlib.util.find_spec("torch") is None:  # nobody can make a DataLoader then
            yield
            return
        import torch
        from torch.utils.data import DataLoader

        loader: Any = DataLoader
        make, save = loader.__init__, torch.save
        with contextlib.ExitStack() as stack:
            stack.callback(setattr, loader, "__init__", make)
            stack.callback(setattr, torch, "save", save)
            loader.__init__ = self._making(make)
            torch.save = self._saving(save)
            yield

    def _making(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def init(loader: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
            if self.state.n_data == 0:
                given = (kwargs.get("sampler"), kwargs.get("batch_sampler"))
                self.sampled = any(part is not None for part in given)
                self._first = dataset, self.state.hand_over(dataset, None)
            if self._first is not None and dataset is self._first[0]:
                dataset = self._first[1]
            make(loader, dataset, *args, **kwargs)

        return init

    def _saving(self, save: Callable[..., Any]) -> Callable[..., Any]:
        def save_and_note(obj: Any, *args: Any, **kwargs: Any) -> Any:
            self.state.released.append(settle(obj))
            return save(obj, *args, **kwargs)

        return save_and_note


def _relocate(result: Check, folder: WorkingCopy, note: str) -> Check:
    """The check with the lines of the user's own files."""

    def relocate(site: Site | None) -> Site | None:
        return None if site is None else replace(site, file=folder.original(site.file))

    def finding(part: Finding) -> Finding:
        related = tuple(site for one in part.related if (site := relocate(one)) is not None)
        message = part.message.replace(str(folder.scratch), str(folder.root))
        return replace(part, site=relocate(part.site), related=related, message=message)

    def entry(part: Open) -> Open:
        message = part.message.replace(str(folder.scratch), str(folder.root))
        return replace(part, site=relocate(part.site), message=message)

    return replace(
        result,
        findings=tuple(map(finding, result.findings)),
        warnings=tuple(map(finding, result.warnings)),
        undecided=tuple(map(entry, result.undecided)),
        not_checked=tuple(map(entry, result.not_checked)),
        note=note,
    )


def is_script(target: str) -> bool:
    """Whether a target is a whole script, and not a function of one."""
    return target.endswith(".py")


def split(arguments: str) -> list[str]:
    """The words of a text of arguments."""
    try:
        return shlex.split(arguments)
    except ValueError as error:
        raise InvalidArgument(f"arguments={arguments!r} cannot be split: {error}.") from None
