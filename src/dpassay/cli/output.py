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
    """Print one line to the error stream, which leaves the output to machines."""
    typer.echo(f"dpassay: {visible(' '.join(text.split()))}", err=True)


def explain_failure(text: str) -> None:
    """Several lines on stderr: a sentence, and where an error was raised."""
    typer.echo(f"dpassay: {visible(text)}", err=True)


def emit(data: Any) -> None:
    """Print data as strict JSON, and nothing else, to the output."""
    from dpassay.report.numbers import as_json

    typer.echo(as_json(data))


_LONGEST_WORD = 16  # what is longer, a path for example, may be broken anywhere


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table.

    On a narrow terminal texts wrap between words. Numbers are never cut or broken.
    """
    from rich.table import Table
    from rich.text import Text

    cells = [[visible(cell) for cell in row] for row in rows]
    drawn = Table(title=visible(title), title_justify="left", title_style="bold")
    columnwise = list(zip(columns, *cells, strict=True))
    least = [max(map(_least_width, column)) for column in columnwise]
    room = console().width - 3 * len(columns) - 1  # lines between columns take three each
    if sum(least) > room:
        drawn.box, drawn.pad_edge, room = None, False, console().width - 2 * len(columns)
    widths = _fit([max(map(len, column)) for column in columnwise], least, room)
    for name, width in zip(columns, widths, strict=True):
        drawn.add_column(name, width=width, overflow="fold")
    for row in cells:
        drawn.add_row(*map(Text, row))
    console().print(drawn)


def _fit(widths: list[int], least: list[int], room: int) -> list[int]:
    """Widths that fit into the room, if these least ones do: the widest columns give way first.

    >>> _fit([20, 10, 5], [8, 4, 5], 24)
    [9, 10, 5]

    """
    widths = list(widths)
    while sum(widths) > room and any(w > low for w, low in zip(widths, least, strict=True)):
        loose = [i for i, low in enumerate(least) if widths[i] > low]
        widths[max(loose, key=lambda i: widths[i])] -= 1
    return widths


def _least_width(cell: str) -> int:
    """The width below which a cell would be broken: that of its longest word, or of a number."""
    words = cell.split() if any(letter.isalpha() for letter in cell) else [cell]
    return min(max(map(len, words), default=1), _LONGEST_WORD)


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
