"""The command line. Nothing heavy is imported before a command needs it."""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily
from dpassay.cli.start import main

if TYPE_CHECKING:
    from dpassay.cli.program import app

lazily("dpassay.cli", {"app": "dpassay.cli.program"})
__all__ = ["app", "main"]
