"""Optional packages and programs: their tests are skipped without them, but never at the gate."""

import importlib
import os
import shutil

import pytest

REQUIRED = os.environ.get("DPASSAY_REQUIRE_EXTRAS", "") not in ("", "0")


def needs(module, extra=""):
    """The module; without it the test is skipped, or fails where DPASSAY_REQUIRE_EXTRAS is set."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise  # It is there, but broken.
        _missing(f"needs {package}: pip install 'dpassay[{extra or package}]'")


def needs_program(name, package=""):
    """The path of a program; without it the test is skipped, or fails at the gate."""
    path = shutil.which(name)
    return path or _missing(f"needs the program {name}: apt-get install {package or name}")


def _missing(reason):
    (pytest.fail if REQUIRED else pytest.skip)(reason)
