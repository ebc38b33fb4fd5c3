"""Names of a package that are imported when they are first used."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's ``__getattr__``: imports a name from where ``places`` says, and keeps it.

    >>> lazily("dpassay.bounds", {"one_run": "dpassay.bounds.onerun"})("nothing")
    Traceback (most recent call last):
    AttributeError: module 'dpassay.bounds' has no attribute 'nothing'

    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
