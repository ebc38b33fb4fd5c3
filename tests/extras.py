"""Optional packages and programs: tests that need an absent one are skipped by name.

``DPASSAY_REQUIRE`` says what must be there, so that its absence fails instead: ``make test`` sets
"packages" (it has installed them all), the gate adds "programs" (it has installed the browser).
"""

import importlib
import os
import shutil

import pytest

REQUIRED = frozenset(os.environ.get("DPASSAY_REQUIRE", "").split())


def needs(module, extra=""):
    """The module; without it the test is skipped, or fails where packages are required."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise  # It is there, but broken.
        _missing("packages", f"needs {package}: pip install 'dpassay[{extra or package}]'")


def needs_program(name, package=""):
    """The path of a program; without it the test is skipped, or fails where they are required."""
    path = shutil.which(name)
    return path or _missing(
        "programs", f"needs the program {name}: apt-get install {package or name}"
    )


def _missing(kind, reason):
    (pytest.fail if kind in REQUIRED else pytest.skip)(reason)
