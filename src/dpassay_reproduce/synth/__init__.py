"""Micali 2022's table 5.1, measured: the largest error of private synthetic data, and its slopes.

Every synthesizer with its own settings, on tiny universes of bits and on Adult (where DPASSAY_DATA
has it). A theorem's slope is drawn beside each curve, at the height of the curve: constants are not
what a rate is about. Where there is a bound with constants, it is drawn by itself.

What is measured is kept in the folder, ``cells.json``: stopped, the same command goes on and ends
with the same numbers; ``full`` adds seeds and points to them.
"""

from collections.abc import Iterator
from pathlib import Path

from dpassay.datasets import VARIABLE
from dpassay.report.figures import Picture, save, save_index
from dpassay.synth.models import Records
from dpassay_reproduce.synth.adult import adult_picture, adult_records, pairs_picture
from dpassay_reproduce.synth.cells import Kept, Progress
from dpassay_reproduce.synth.curves import FULL, QUICK, Size
from dpassay_reproduce.synth.dual import letter_picture, population_picture
from dpassay_reproduce.synth.tiny import (
    blr_picture,
    others_picture,
    problems_picture,
    records_picture,
)

__all__ = ["run"]

TITLE = "Private synthetic data: the query-error table, measured"
TINY = (
    records_picture,
    others_picture,
    problems_picture,
    blr_picture,
    letter_picture,
    population_picture,
)


def _pictures(
    size: Size, kept: Kept, data: Records | None, progress: Progress
) -> Iterator[Picture]:
    for draw in TINY:
        yield draw(size, kept, progress)
    if data is not None:
        for draw in (adult_picture, pairs_picture):
            yield draw(data, size, kept, progress)


def run(
    folder: Path,
    *,
    image_format: str = "svg",
    full: bool = False,
    quick: bool = False,
    progress: Progress | None = None,
    size: Size | None = None,
) -> list[Path]:
    """The files written: the figures, ``numbers.json`` and ``index.html``.

    Args:
        folder: where to; it also keeps what was measured, ``cells.json``.
        image_format: "svg" or "png".
        full: more seeds, larger n, and FEM on Adult at every epsilon.
        quick: fewer points, and nothing of Adult.
        progress: called with what is measured next.
        size: how much is measured; None for the usual, or the full.

    """
    folder.mkdir(parents=True, exist_ok=True)
    if size is None:
        size = FULL if full else QUICK if quick else Size()
    kept, data = Kept(folder / "cells.json"), None if quick else adult_records()
    pictures, files, index = [], [], []
    for picture in _pictures(size, kept, data, progress or (lambda _: None)):
        pictures.append(picture)
        files.append(save(picture, folder, image_format))
        index = save_index(
            pictures,
            folder,
            title=TITLE,
            introduction=_introduction(data, quick),
            image_format=image_format,
        )
    return [*files, *index]


def _introduction(data: Records | None, quick: bool) -> str:
    said = (
        "Largest errors over all queries of synthesizers that each have the same ε and δ = 1/n², "
        "neighbours by one record more or less. Table 5.1 gives rates without constants; what they "
        "predict is slopes. The plotted numbers are in numbers.json."
    )
    if quick:
        said += " In this quick run Adult and the largest sizes are left out."
    elif data is None:
        said += (
            f" The figures of Adult are left out: {VARIABLE} names no folder that holds "
            "adult/adult-discrete.csv and adult-discrete-domain.json."
        )
    return said
