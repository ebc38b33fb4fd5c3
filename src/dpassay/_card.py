"""A small table for notebooks: what a result says, as HTML that needs no style sheet."""

from collections.abc import Iterable
from html import escape

__all__ = ["card"]


def card(title: str, rows: Iterable[tuple[str, str]], colour: str = "#666666") -> str:
    """A title and rows of names and texts; rows without a text are left out.

    >>> "Claimed</th>" in card("Verdict", [("Claimed", "1"), ("Pair", "")])
    True

    """
    left = 'style="text-align:left"'
    cells = "".join(
        f'<tr><th scope="row" {left}>{escape(name)}</th><td {left}>{escape(text)}</td></tr>'
        for name, text in rows
        if text
    )
    head = f'<caption style="text-align:left;font-weight:600">{escape(title)}</caption>'
    return f'<table style="border-left:4px solid {colour}">{head}{cells}</table>'
