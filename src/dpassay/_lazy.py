"""Names of a package that are imported when they are first used, and names that have moved."""

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazily", "moved"]


def lazily(
    package: str, places: Mapping[str, str], old: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """A module's ``__getattr__``: imports a name from where ``places`` says, and keeps it.

    A place that ends in the name itself is a module. Names in ``old`` are those of
    before, each with the full name of what it is now; they work and warn.

    >>> lazily("dpassay.bounds", {"one_run": "dpassay.bounds.onerun"})("nothing")
    Traceback (most recent call last):
    AttributeError: module 'dpassay.bounds' has no attribute 'nothing'

    """

    def find(name: str) -> Any:
        if old is not None and name in old:
            return moved(f"{package}.{name}", old[name])
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = importlib.import_module(places[name])
        if not places[name].endswith(f".{name}"):
            value = getattr(value, name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def moved(old: str, new: str) -> Any:
    """What ``old`` was, from its new place, with a warning that names it.

    ``new`` is a module, or a name in one: "dpassay.bounds.one_run".
    """
    warnings.warn(f"{old} is now {new}; the old name will go.", DeprecationWarning, stacklevel=3)
    try:
        return importlib.import_module(new)
    except ModuleNotFoundError:
        module, _, name = new.rpartition(".")
        if not module:
            raise
        return getattr(importlib.import_module(module), name)
