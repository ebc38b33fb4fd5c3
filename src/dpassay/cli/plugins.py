"""Commands that other packages add to the program.

A package offers a command by an entry point of the group ``dpassay.commands``: a function that
takes the program and adds to it, as ``register`` of every module beside this one does. In its
``pyproject.toml``::

    [project.entry-points."dpassay.commands"]
    reproduce = "dpassay_reproduce.command:register"
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec

import typer

from dpassay.cli.output import complain

__all__ = ["GROUP", "register_plugins"]

GROUP = "dpassay.commands"
# Of our own repository. A source tree on the path that was never installed has no entry points.
_NEXT_DOOR = {"reproduce": "dpassay_reproduce.command"}


def register_plugins(app: typer.Typer) -> None:
    """Add every command that is offered; complain of one that cannot be loaded and go on."""
    for name, load in _find_offers().items():
        try:
            load()(app)
        except ImportError as error:
            complain(f"the command {name!r} could not be loaded: {error}")


def _find_offers() -> dict[str, Callable[[], Callable[[typer.Typer], None]]]:
    """How to load each command, by its name."""
    found = {entry.name: entry.load for entry in entry_points(group=GROUP)}
    for name, module in _NEXT_DOOR.items():
        if name not in found and find_spec(module.split(".")[0]):
            found[name] = lambda module=module: import_module(module).register
    return found
