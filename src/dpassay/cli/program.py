"""The program ``dpassay``: its commands, and how every one of them ends.

Exit codes: 0 not refuted (or done), 1 refuted, 2 misuse, 3 stopped before it could say, 130
interrupted by Ctrl-C. A crash is 3 as well, since 1 would say "refuted".
"""

import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpassay import __version__
from dpassay.cli import (
    account,
    attack,
    audit,
    bound,
    calibrate,
    check,
    demo,
    doctor,
    explain,
    ledger,
    merge,
    plan,
    query,
    report,
    schema,
    status,
    synth,
    work,
    zoo,
)
from dpassay.cli.ending import INTERRUPTED, MISUSE, STOPPED, ending
from dpassay.cli.options import App
from dpassay.cli.output import complain, example
from dpassay.cli.plugins import register_plugins
from dpassay.errors import DEBUG, DpassayError, EngineLost, LogDamaged, LogLost, debugging

# In the order of the help: what is tested, what is proved, the rest. A module of a command holds
# the function of its name and an EXAMPLE for its help; a group of commands holds an ``app``.
MODULES = (
    *(check, audit, work, status, report, merge, plan, bound, attack),
    *(account, calibrate, explain),
    *(synth, schema, query, ledger, zoo, demo, doctor),
)
ORDER = tuple(module.__name__.rpartition(".")[2] for module in MODULES)


class _Program(TyperGroup):
    """Turns what a command raises into one line and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        """What is promised, what is attacked, the rest; then what other packages offer."""
        known = [name for name in ORDER if name in self.commands]
        return [*known, *sorted(set(self.commands) - set(ORDER))]

    def invoke(self, ctx: Any) -> Any:
        try:
            return self._invoke_heard(ctx)
        except (LogDamaged, LogLost, EngineLost) as error:  # nothing can be said of the trials
            complain(str(error))
            raise typer.Exit(STOPPED) from None
        except DpassayError as error:
            if debugging():
                traceback.print_exc()
            complain(str(error))
            raise typer.Exit(MISUSE) from None
        except BrokenPipeError:  # the reader has gone; nothing more can be said to it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(STOPPED) from None
        except OSError as error:  # a folder that is missing or may not be written to
            complain(_in_words(error))
            raise typer.Exit(MISUSE) from None
        except MemoryError:
            complain("the memory is not enough for this. Ask for less at once.")
            raise typer.Exit(STOPPED) from None
        except KeyboardInterrupt:
            raise _leave_interrupted() from None

    def _invoke_heard(self, ctx: Any) -> Any:
        """Run the command; what a library raises because of Ctrl-C counts as Ctrl-C."""
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except Exception:
            if ending.interrupted:
                raise KeyboardInterrupt from None
            raise


def _leave_interrupted() -> typer.Exit:
    ending.tell_interrupted()
    return typer.Exit(INTERRUPTED)


def _in_words(error: OSError) -> str:
    if not error.filename or not error.strerror:
        return error.strerror or type(error).__name__
    return f"{str(error.filename)!r}: {error.strerror}. Check the path, or name another one."


app = App(
    cls=_Program,
    name="dpassay",
    help="Measures how private an algorithm really is: proves an upper bound on epsilon, attacks "
    "for a lower one.",
    epilog="Example: dpassay explain --epsilon 1",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, module in zip(ORDER, MODULES, strict=True):
    if hasattr(module, "app"):
        app.add_typer(module.app)
    else:
        app.command(name, epilog=example(module.EXAMPLE))(getattr(module, name))
register_plugins(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpassay {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and leave."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Show errors with their words and tracebacks, which may quote records, on this "
            "terminal; logs and reports never hold them.",
        ),
    ] = False,
) -> None:
    if debug:
        os.environ[DEBUG] = "1"  # the processes that play find it too
