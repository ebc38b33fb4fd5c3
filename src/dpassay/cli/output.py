"""What commands print: tables for people on stdout, JSON for machines, complaints on stderr."""

import math
import re
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> "Console":
    """A console that never breaks words into colours: numbers in prose stay as they are."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


# What a terminal acts upon: control characters but for the end of a line and the tab, and marks
# that turn the direction of writing around. They come from files and names of files.
_ACTED_UPON = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def visible(text: str) -> str:
    """The text with hexadecimal escapes in place of what a terminal would act upon."""
    return _ACTED_UPON.sub(lambda found: repr(found[0])[1:-1], text)


def say(text: str = "", style: str | None = None) -> None:
    """A line of plain text; brackets are no markup."""
    to = console()
    to.print(visible(text), style=style, markup=False, soft_wrap=not to.is_terminal)


def complain(text: str) -> None:
    """One line on stderr."""
    typer.echo(f"dpassay: {visible(' '.join(text.split()))}", err=True)


def explain_failure(text: str) -> None:
    """Several lines on stderr: a sentence, and where an error was raised."""
    typer.echo(f"dpassay: {visible(text)}", err=True)


def emit(data: Any) -> None:
    """Strict JSON on stdout."""
    from dpassay.report.numbers import as_json

    typer.echo(as_json(data))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; the last column takes the room that is left."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=visible(title), title_justify="left", title_style="bold")
    for name in columns[:-1]:
        drawn.add_column(name, no_wrap=True)
    drawn.add_column(columns[-1], ratio=1)
    for row in rows:
        drawn.add_row(*(Text(visible(cell)) for cell in row))
    console().print(drawn)


def working(what: str) -> AbstractContextManager[Any]:
    """A spinner on stderr while something takes time; nothing unless that is a terminal."""
    return console(stderr=True).status(f"{what} …")


class Counting:
    """How many executions were begun, on stderr: on a terminal one line that is renewed.

    Elsewhere a line every ten seconds, so that a log shows that something happens.
    """

    def __init__(self, quiet: bool) -> None:
        self._stream = sys.stderr  # that of now: a script's own output is taken away meanwhile
        self._terminal = not quiet and self._stream.isatty()
        self._every = math.inf if quiet else 0.2 if self._terminal else 10.0
        self._last = time.monotonic()

    def __call__(self, number: int) -> None:
        """Say that so many were begun, if it is time to."""
        if time.monotonic() - self._last < self._every:
            return
        self._last = time.monotonic()
        begin, end = ("\r", "") if self._terminal else ("", "\n")
        print(f"{begin}dpassay: execution {number} ...", end=end, file=self._stream, flush=True)

    def __enter__(self) -> "Counting":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._terminal:
            print(f"\r{' ' * 40}\r", end="", file=self._stream, flush=True)


def example(command: str) -> str:
    """The last line of a command's help."""
    return f"Example: {command}"
