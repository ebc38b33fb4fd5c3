"""One HTML file: no script, nothing fetched, pictures inline, so that it can be sent by e-mail."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

STYLE = """
:root { --ink: #1c1f23; --quiet: #4a5058; --line: #c9ced6; --tint: #f4f6f8; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial,
       "Liberation Sans", sans-serif; color: var(--ink); background: #fff; max-width: 54rem;
       margin: 0 auto; padding: 2.5rem 1.25rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.75rem 0 .75rem; padding-top: .6rem;
     border-top: 1px solid var(--line); }
h3, h4 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p, li { max-width: 44rem; } p { margin: .5rem 0; }
figure { margin: 1rem 0; } figure svg, figure img { max-width: 100%; height: auto; }
svg { stroke-linejoin: round; }
figcaption { color: var(--quiet); font-size: .875rem; line-height: 1.45; max-width: 44rem; }
pre { background: var(--tint); border: 1px solid var(--line); padding: .75rem 1rem;
      font: .85rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
      white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; line-height: 1.45;
        margin: .75rem 0; }
caption { text-align: left; color: var(--quiet); padding-bottom: .35rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem .4rem 0;
         border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { font-weight: 600; } thead th { color: var(--quiet); font-size: .8rem; }
@media print {
  @page { size: A4; margin: 16mm 15mm 18mm; }
  html { font-size: 13px; } body { max-width: none; padding: 0; font-size: 1rem; }
  h1, h2, h3, h4, caption, thead { break-after: avoid; }
  h2 { margin-top: 1.5rem; }
  figure, tr, pre, .keep { break-inside: avoid; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""
NOTHING_FETCHED = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
    '<link rel="icon" href="data:,">\n'
)


@dataclass(frozen=True)
class Section:
    """A part of a page: plain text (paragraphs parted by blank lines) and at most one picture.

    ``picture`` is markup: an inline ``<svg>`` (see :func:`inline`) or an ``<img>`` (:func:`image`).
    ``points`` are listed at the end.
    """

    title: str
    text: str
    picture: str = ""
    points: tuple[str, ...] = ()


def page(title: str, introduction: str, sections: Iterable[Section]) -> str:
    """The page as HTML; all text is escaped, pictures are taken as they are."""
    body = "\n".join(_section(section) for section in sections)
    return document(title, f"{paragraphs(introduction)}\n{body}")


def document(title: str, body: str, *, style: str = "", head: str = "", above: str = "") -> str:
    """A whole page around markup: the title is escaped, all else is taken as it is.

    ``above`` stands before the title, ``style`` and ``head`` are added to those of every page.
    """
    title = html.escape(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{head}<title>{title}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n"
        f"{above}<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    text = paragraphs(section.text)
    if section.picture:
        text = figure(section.picture, " ".join(section.text.split()))
    if section.points:
        text += "\n" + bullets(section.points)
    return f"<section>\n<h2>{html.escape(section.title)}</h2>\n{text}\n</section>"


def figure(picture: str, caption: str, heading: str = "") -> str:
    """A picture (markup) with its caption (text) and, above it, a heading (markup)."""
    return (
        f"<figure>\n{heading}{picture}\n<figcaption>{html.escape(caption)}</figcaption>\n</figure>"
    )


def paragraphs(text: str) -> str:
    """Paragraphs of text parted by blank lines, escaped."""
    parts = (" ".join(part.split()) for part in text.split("\n\n"))
    return "\n".join(f"<p>{html.escape(part)}</p>" for part in parts if part)


def bullets(items: Iterable[str]) -> str:
    """A list of texts, escaped."""
    return "<ul>\n" + "\n".join(f"<li>{html.escape(item)}</li>" for item in items) + "\n</ul>"


def table(
    rows: Iterable[Sequence[str]], *, head: Sequence[str] = (), caption: str = "", kind: str = ""
) -> str:
    """A table of texts, escaped; the first cell of a row is its header."""
    said = f"<caption>{html.escape(caption)}</caption>\n" if caption else ""
    columns = "".join(
        f'<th scope="col">{html.escape(cell)}</th>' if cell else "<td></td>" for cell in head
    )
    top = f"<thead><tr>{columns}</tr></thead>\n" if head else ""
    body = "\n".join(_table_row(row) for row in rows)
    opening = f'<table class="{kind}">' if kind else "<table>"
    return f"{opening}\n{said}{top}<tbody>\n{body}\n</tbody>\n</table>"


def _table_row(row: Sequence[str]) -> str:
    first, *rest = (html.escape(cell) for cell in row)
    cells = "".join(f"<td>{cell}</td>" for cell in rest)
    return f'<tr><th scope="row">{first}</th>{cells}</tr>'


def image(source: str, description: str) -> str:
    """An ``<img>`` of a file that lies beside the page."""
    return f'<img src="{html.escape(source)}" alt="{html.escape(description)}">'


def inline(svg: str, prefix: str) -> str:
    """An SVG to be put into a page: without its XML prologue, its ids made unique by the prefix."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    return re.sub(r'aria-labelledby="([^"]*)"', lambda m: _prefix(m[1], prefix), svg)


def _prefix(names: str, prefix: str) -> str:
    return f'aria-labelledby="{" ".join(f"{prefix}-{name}" for name in names.split())}"'


_PLACES = re.compile(r'\b(?:d|x|y|width|height|points|transform)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}")


def compact(svg: str) -> str:
    """A matplotlib SVG for a page, in half of its size: no metadata, places with two decimals.

    Its style for every element goes too: inside a page it would hold for the page.
    """
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.S)
    svg = _PLACES.sub(lambda m: _LONG.sub(_two_decimals, m[0]), svg)
    return re.sub(r"\s*\n\s*", "\n", svg)


def _two_decimals(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
