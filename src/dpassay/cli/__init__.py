"""The command line. Nothing heavy is imported before a command needs it."""

from dpassay._lazy import lazily

TYPE_CHECKING = False  # not from typing: see dpassay._lazy
if TYPE_CHECKING:
    from dpassay.cli.program import app

lazily("dpassay.cli", {"app": "dpassay.cli.program"})
__all__ = ["app", "main"]


def main() -> int:
    """Run the program; returns its exit code.

    Ctrl-C from here on ends in one line and 130. While Python itself starts, no code of ours is
    there to hear it.
    """
    try:
        from dpassay.cli.start import main as start

        return start()
    except KeyboardInterrupt:
        import os

        os.write(2, b"dpassay: interrupted before it could say.\n")
        return 130
