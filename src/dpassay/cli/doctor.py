"""``dpassay doctor``: what is installed, and how to get what is not."""

import platform
import re
import sys
from importlib import metadata
from typing import Any

import typer

from dpassay import __version__
from dpassay.cli.options import Json
from dpassay.cli.output import emit, say, table

BROKEN = 2


EXAMPLE = "dpassay doctor"


def doctor(as_json: Json = False) -> None:
    """What is installed: Python, the packages dpassay needs, and the optional ones."""
    found = packages(metadata.requires("dpassay") or [])
    missing = [name for name, version in found["core"].items() if version is None]
    if as_json:
        emit(_system() | {"packages": found, "healthy": not missing})
    else:
        _print(found, missing)
    if missing:
        raise typer.Exit(BROKEN)


def packages(requirements: list[str]) -> dict[str, dict[str, str | None]]:
    """By group ("core" or the extra), each package with its version, none where it is missing."""
    groups: dict[str, dict[str, str | None]] = {"core": {}}
    for requirement in requirements:
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)", requirement)
        if name:
            groups.setdefault(extra[1] if extra else "core", {})[name[0]] = _version(name[0])
    return groups


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _system() -> dict[str, Any]:
    return {
        "dpassay": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
    }


def _print(found: dict[str, dict[str, str | None]], missing: list[str]) -> None:
    for name, value in _system().items():
        say(f"{name:<11} {value}")
    rows = [
        (group, name, version or "-", "" if version else _remedy(group))
        for group, members in found.items()
        for name, version in members.items()
    ]
    table("Packages", ("group", "package", "version", "remedy"), rows)
    say(
        f"Missing: {', '.join(missing)}. dpassay does not work without."
        if missing
        else "Everything that the core needs is here."
    )


def _remedy(group: str) -> str:
    return "pip install dpassay" if group == "core" else f"pip install 'dpassay[{group}]'"
