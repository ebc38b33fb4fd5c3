"""What dpassay raises. Everything derives from :class:`DpassayError`."""

__all__ = [
    "AuditStopped",
    "BatchOverflow",
    "BudgetExceeded",
    "CalibrationError",
    "CommandFailed",
    "DatasetMissing",
    "DpassayError",
    "GameStopped",
    "InvalidArgument",
    "LogDamaged",
    "LogError",
    "LogLost",
    "MissingDependency",
    "RunError",
    "ScriptFailed",
    "ShadowsStopped",
    "TaskError",
    "UnsupportedEvent",
]


class DpassayError(Exception):
    """Base of every error that dpassay raises on purpose."""


class InvalidArgument(DpassayError, ValueError):
    """An argument is outside its range; the message names it, its value and the remedy."""


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


class AuditStopped(DpassayError):
    """Too many trials failed to say anything; the first error is in the message."""


class GameStopped(DpassayError):
    """Too many trainings failed, or the user interrupted; the first error is in the message."""


class ShadowsStopped(DpassayError):
    """Shadow trainings failed or were interrupted; the first error is in the message."""


class CommandFailed(DpassayError):
    """A command left with an exit code that is not 0, or wrote nothing."""


class ScriptFailed(DpassayError):
    """A script left with an exit code that is not 0."""


class BatchOverflow(DpassayError):
    """A Poisson batch has more records than there is room for; dropping some would be a leak."""


class DatasetMissing(DpassayError, FileNotFoundError):
    """A data set is neither in the folder nor to be downloaded; the message says what to do."""
