"""Names of a package that are imported when they are first used, and names that have changed.

This is the first module that the program loads. It imports next to nothing itself, so that Ctrl-C
in the first moments finds :func:`dpassay.cli.main` already listening.
"""

import importlib
import sys

TYPE_CHECKING = (
    False  # typing's own constant would cost a third of the start; checkers know this name
)
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["lazily", "moved", "renamed_arguments"]


def lazily(
    package: str, places: "Mapping[str, str]", old: "Mapping[str, str] | None" = None
) -> None:
    """Let a package import a name from where ``places`` says when it is first used, and keep it.

    The package gets its ``__getattr__`` here, not in its own file: a type checker that saw one
    there would take every name for known, as Any. It gets a ``__dir__`` of its ``__all__`` too.

    A place that ends in the name itself is a module. Names in ``old`` are those of
    before, each with the full name of what it is now; they work and warn.

    >>> from dpassay import bounds
    >>> bounds.nothing
    Traceback (most recent call last):
    AttributeError: module 'dpassay.bounds' has no attribute 'nothing'

    """
    module = sys.modules[package]

    def find(name: str) -> "Any":
        if old is not None and name in old:
            return moved(f"{package}.{name}", old[name])
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = importlib.import_module(places[name])
        if not places[name].endswith(f".{name}"):
            value = getattr(value, name)
        setattr(module, name, value)
        return value

    def names() -> list[str]:
        return sorted(getattr(module, "__all__", places))

    vars(module).update(__getattr__=find, __dir__=names)


def moved(old: str, new: str) -> "Any":
    """What ``old`` was, from its new place, with a warning that names it.

    ``new`` is a module, or a name in one: "dpassay.bounds.one_run".
    """
    import warnings

    warnings.warn(f"{old} is now {new}; the old name will go.", DeprecationWarning, stacklevel=3)
    try:
        return importlib.import_module(new)
    except ModuleNotFoundError:
        module, _, name = new.rpartition(".")
        if not module:
            raise
        return getattr(importlib.import_module(module), name)


def renamed_arguments(**new_names: str) -> "Callable[[F], F]":
    """A decorator: the function takes the old names of some arguments too, and warns of them.

    >>> @renamed_arguments(frame="table")
    ... def first(table):
    ...     return table[0]
    >>> first([3]), first(table=[3])
    (3, 3)

    """
    import functools
    import warnings

    def decorate(function: "F") -> "F":
        @functools.wraps(function)
        def call(*args: "Any", **given: "Any") -> "Any":
            for old in new_names.keys() & given.keys():
                new = new_names[old]
                if new in given:
                    raise TypeError(f"{function.__name__}() got both {new!r} and {old!r}")
                text = f"{old}= of {function.__name__} is now {new}=; the old name will go."
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                given[new] = given.pop(old)
            return function(*args, **given)

        return call  # type: ignore[return-value]

    return decorate
