"""Figures with their numbers: drawn without a screen, saved the same bit for bit every time."""

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from dpassay import _check, _files
from dpassay.report.numbers import as_json
from dpassay.report.page import Section, image, page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE, BLACK = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#cc79a7",
    "#222222",
)
_FONTS = "'DejaVu Sans', Verdana, 'Segoe UI', Arial, sans-serif"  # where the first is missing
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "dpassay",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.dpi": 100,
}


@dataclass(frozen=True)
class Picture:
    """A figure, what it shows, and the numbers that were drawn.

    Attributes:
        name: of the file, without its ending.
        title: one line.
        caption: what to see in it.
        figure: the drawing.
        facts: the single numbers that it marks, by name.
        curves: the plotted arrays, by name.

    A subclass may add sentences that stand below the drawing, and numbers of its own.

    """

    name: str
    title: str
    caption: str
    figure: "Figure"
    facts: dict[str, float] = field(default_factory=dict)
    curves: dict[str, Any] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that stand below the drawing."""
        return ()

    @property
    def numbers(self) -> dict[str, Any]:
        """What ``numbers.json`` says of it."""
        return {"title": self.title, "facts": self.facts, "curves": self.curves}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save inside this: the same fonts, colours and ids on every machine."""
    import matplotlib as mpl
    from cycler import cycler

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        mpl.rcParams["axes.prop_cycle"] = cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE, BLACK])
        yield


def panels(columns: int, width: float = 4.6, height: float = 3.8) -> tuple["Figure", list[Any]]:
    """A new figure with panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def svg_of(picture: Picture) -> str:
    """The picture as SVG with title and description, and no date."""
    buffer = io.StringIO()
    with house_style():
        picture.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "dpassay"})
    svg = buffer.getvalue().replace("'DejaVu Sans'", _FONTS)
    start = svg.index(">", svg.index("<svg ")) + 1
    label = (
        f'\n<title id="title">{escape(picture.title)}</title>'
        f'\n<desc id="desc">{escape(picture.caption)}</desc>'
    )
    opening = svg[: start - 1] + ' role="img" aria-labelledby="title desc">'
    return opening + label + svg[start:]


def save(picture: Picture, folder: Path, image_format: str = "svg") -> Path:
    """The file that the picture was written to."""
    path = folder / f"{picture.name}.{_check.choice('image_format', image_format, FORMATS)}"
    if image_format == "svg":
        return _files.write(path, svg_of(picture))
    buffer = io.BytesIO()
    with house_style():
        metadata = {"Software": "dpassay"}
        picture.figure.savefig(buffer, format=image_format, dpi=150, metadata=metadata)
    return _files.write(path, buffer.getvalue())


class Album(TypedDict):
    """What a page of pictures says about them all."""

    title: str
    introduction: str


def save_all(
    pictures: Iterable[Picture], folder: Path, image_format: str = "svg", **album: Unpack[Album]
) -> list[Path]:
    """The files written: each picture, ``numbers.json``, and ``index.html`` that shows them all."""
    _check.choice("image_format", image_format, FORMATS)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = list(pictures)
    files = [save(picture, folder, image_format) for picture in pictures]
    return files + save_index(pictures, folder, image_format, **album)


def save_index(
    pictures: Sequence[Picture], folder: Path, image_format: str = "svg", **album: Unpack[Album]
) -> list[Path]:
    """``numbers.json`` and ``index.html`` for pictures that were saved to the folder."""
    sections = [
        Section(p.title, p.caption, image(f"{p.name}.{image_format}", p.title), p.notes)
        for p in pictures
    ]
    texts = {
        folder / "numbers.json": as_json({p.name: p.numbers for p in pictures}) + "\n",
        folder / "index.html": page(album["title"], album["introduction"], sections),
    }
    return _files.write_all(texts)
