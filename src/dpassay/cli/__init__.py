"""The command line. Nothing heavy is imported before a command needs it."""

from dpassay.cli.app import app, main

__all__ = ["app", "main"]
