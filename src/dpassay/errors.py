"""What dpassay raises. Everything derives from :class:`DpassayError`."""


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
