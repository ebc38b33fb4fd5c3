"""What dpassay raises, and how errors of others are told without their words.

Everything that dpassay raises derives from :class:`DpassayError`. Its messages name an argument, a
column, a row number and the kind of the fault; they never quote a record.
"""

import os
import traceback
import warnings

DEBUG = "DPASSAY_DEBUG"
"""The environment variable that ``dpassay --debug`` sets: errors are then shown with their words,
on the terminal alone."""
_MOST_FRAMES, _MOST_CAUSES = 12, 4
_HOME = os.path.dirname(__file__) + os.sep

__all__ = [
    "AuditStopped",
    "BatchOverflow",
    "BudgetExceeded",
    "CalibrationError",
    "CommandFailed",
    "DatasetMissing",
    "DpassayError",
    "EngineLost",
    "InvalidArgument",
    "InvalidTarget",
    "LogDamaged",
    "LogError",
    "LogLost",
    "MissingDependency",
    "RunError",
    "ScriptFailed",
    "TaskError",
    "UnsupportedEvent",
    "VacuousAudit",
]


class DpassayError(Exception):
    """Base of every error that dpassay raises on purpose."""


class InvalidArgument(DpassayError, ValueError):
    """An argument is outside its range; the message names it, its value and the remedy."""


class InvalidTarget(InvalidArgument):
    """What is audited cannot be: a probe is missing, or its output is not what a score needs."""


class UnsupportedEvent(InvalidArgument):
    """An accounting method has no price for an event; the message names the event."""


class CalibrationError(DpassayError):
    """No parameter in the searched range meets the target."""


class MissingDependency(DpassayError, ImportError):
    """An optional package is needed; the message says how to install it."""


class BudgetExceeded(DpassayError):
    """A ledger refused a fit that would spend more than is left; no data was touched."""


class LogError(DpassayError):
    """A trial log cannot be read or written; the message names it and says what to do."""


class LogDamaged(LogError):
    """What a trial log holds was changed or lost after it was written; the message says where."""


class LogLost(LogError):
    """A trial log was deleted or replaced while a run wrote it, and could not be written anew."""


class TaskError(DpassayError):
    """The task broke its contract (number or kind of results), or could not reach a worker."""


class RunError(DpassayError):
    """A run cannot go on, through no fault of its trials; the log keeps what was played."""


class EngineLost(RunError):
    """Whoever plays cannot be reached any more; the log keeps what was played, and can go on."""


class AuditStopped(DpassayError):
    """A game ended before it could say anything: whatever was played, there is no result.

    Too many trials failed (the first error is in the message), outputs show a fixed seed or no
    noise, or the user interrupted a game that says nothing before it is complete. With a store the
    same call goes on where it was.
    """


class VacuousAudit(UserWarning):
    """Even a perfect attack could not refute the claim in so many trials."""


class UnpaidSearch(UserWarning):
    """A search fits a private estimator many times, and nothing adds the fits up."""


class CommandFailed(DpassayError):
    """A command left with an exit code that is not 0, or wrote nothing."""


class ScriptFailed(DpassayError):
    """A script left with an exit code that is not 0."""


class BatchOverflow(DpassayError):
    """A Poisson batch has more records than there is room for; dropping some would be a leak."""


class DatasetMissing(DpassayError, FileNotFoundError):
    """A data set is neither in the folder nor to be downloaded; the message says what to do."""


_OLD_NAMES = {"GameStopped": AuditStopped, "ShadowsStopped": AuditStopped}


def __getattr__(name: str) -> type[DpassayError]:
    """The classes of before that are one class now, with a warning."""
    if name not in _OLD_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _OLD_NAMES[name].__qualname__
    text = f"dpassay.errors.{name} is now dpassay.errors.{new}; the old name will go."
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return _OLD_NAMES[name]


def debugging() -> bool:
    """Whether errors of the audited code may be shown with their words, on the terminal."""
    return os.environ.get(DEBUG, "") not in ("", "0")


STANDS_FOR: dict[str, str] = {}
"""Scratch folders of this process, and the folders of the user that they are copies of."""


def _place(file: str) -> str:
    """The path of a file as the user knows it."""
    for scratch, original in STANDS_FOR.items():
        if file.startswith(scratch):
            return original + file[len(scratch) :]
    return file


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Where an error came through: the audited code alone, if it came through that."""
    frames = traceback.extract_tb(error.__traceback__, limit=-_MOST_FRAMES)
    theirs = [f for f in frames if not f.filename.startswith((_HOME, "<frozen "))]
    return theirs or frames


def describe(error: BaseException) -> str:
    """The kind of an error and where it was raised, a line per frame, the innermost last.

    The words of the error and the source lines are left out, since they may quote a record:
    ``float("12 Main Street")`` puts its argument into its message. Only dpassay's own errors keep
    their words, where dpassay raised them. Errors that this one came from are told likewise.
    """
    lines: list[str] = []
    seen: BaseException | None = error
    for number in range(_MOST_CAUSES):
        if seen is None:
            break
        lines.append(f"{'after ' if number else ''}{_name(seen)}{_own_words(seen)}")
        frames = _frames(seen)
        lines += [f"  {_place(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return "\n".join(lines)


def is_target_error(text: str) -> bool:
    """Whether a text by :func:`describe` is that of an :class:`InvalidTarget` of dpassay's own."""
    return text.startswith(f"{InvalidTarget.__qualname__}: ")


def describe_shortly(error: BaseException) -> str:
    """The same in one line: the kind of the error, and the file and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    where = "".join(f" at {frame.filename}:{frame.lineno}" for frame in frames)
    return f"{_name(error)}{where}{_own_words(error)}"


def _name(error: BaseException) -> str:
    kind = type(error)
    plain = kind.__module__ in ("builtins", "dpassay.errors")
    return kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def _own_words(error: BaseException) -> str:
    """What an error says, if dpassay says it: its messages quote no record."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    ours = isinstance(error, DpassayError) and all(f.filename.startswith(_HOME) for f in frames)
    return f": {error}" if ours else ""
