"""One HTML file: no script, nothing fetched, pictures inline, so that it can be sent by e-mail."""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
figure { margin: 1rem 0; } figure svg, figure img { max-width: 100%; height: auto; }
figcaption { color: #444; } pre { background: #f4f4f4; padding: .8rem; overflow-x: auto; }
"""


@dataclass(frozen=True)
class Section:
    """A part of a page: plain text (paragraphs parted by blank lines) and at most one picture.

    ``picture`` is markup: an inline ``<svg>`` (see :func:`inline`) or an ``<img>`` (:func:`image`).
    """

    title: str
    text: str
    picture: str = ""


def page(title: str, introduction: str, sections: Iterable[Section]) -> str:
    """The page as HTML; all text is escaped, pictures are taken as they are."""
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{_paragraphs(introduction)}\n{body}\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    text = _paragraphs(section.text)
    if section.picture:
        caption = html.escape(" ".join(section.text.split()))
        text = f"<figure>\n{section.picture}\n<figcaption>{caption}</figcaption>\n</figure>"
    return f"<section>\n<h2>{html.escape(section.title)}</h2>\n{text}\n</section>"


def _paragraphs(text: str) -> str:
    parts = (" ".join(part.split()) for part in text.split("\n\n"))
    return "\n".join(f"<p>{html.escape(part)}</p>" for part in parts if part)


def image(source: str, description: str) -> str:
    """An ``<img>`` of a file that lies beside the page."""
    return f'<img src="{html.escape(source)}" alt="{html.escape(description)}">'


def inline(svg: str, prefix: str) -> str:
    """An SVG to be put into a page: without its XML prologue, its ids made unique by the prefix."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    return re.sub(r'aria-labelledby="([^"]*)"', lambda m: _prefixed(m[1], prefix), svg)


def _prefixed(names: str, prefix: str) -> str:
    return f'aria-labelledby="{" ".join(f"{prefix}-{name}" for name in names.split())}"'
