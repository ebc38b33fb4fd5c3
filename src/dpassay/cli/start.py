"""How the program starts: Ctrl-C is heard before anything is imported that takes time."""

from dpassay.cli.ending import INTERRUPTED, STOPPED, ending, say_plainly


def main() -> int:
    """Run the program; returns its exit code."""
    ending.watch()
    try:
        from dpassay.cli.program import app

        app()
        code = STOPPED  # It ends by SystemExit.
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else STOPPED
    except KeyboardInterrupt:
        ending.interrupted = True
        code = INTERRUPTED
    except Exception as error:
        code = STOPPED
        if not ending.interrupted:  # A library may turn Ctrl-C into an error of its own.
            _tell_fault(error)
    return ending.decide(code)


def _tell_fault(error: Exception) -> None:
    """A fault of ours, in one line without the words of the error: they may quote a record."""
    import traceback

    from dpassay.errors import debugging, describe_shortly

    if debugging():
        traceback.print_exc()
    say_plainly(
        f"a fault of dpassay itself: {describe_shortly(error)}. Please report it; dpassay --debug "
        "shows the whole error, which may quote records."
    )
