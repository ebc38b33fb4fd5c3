"""Micali 2022, chapter 4: membership attacks on private linear models, figure by figure.

Every figure is a function of a :class:`~dpassay_reproduce.thesis.frame.Setting`, and comes with
what its caption claims, checked: some claims fail.
"""

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.report.figures import FORMATS, Picture, house_style, save, save_index
from dpassay_reproduce.thesis.frame import Setting

__all__ = ["figures", "run"]

TITLE = "Membership attacks on private linear models (Micali 2022, chapter 4)"
INTRODUCTION = """
The figures of chapter 4, drawn anew, each with the claims of its caption or of the text around it,
made precise and checked. A claim that fails is left standing with the numbers that speak against
it. Models are trained by DP-SGD (algorithm 1, one record a step) and DP-FW (algorithm 3), T = εN
steps of each, under replace-one: a member and a fresh record change places. Accuracies are
counted over all 2N points; the document's counters divide by N. The dotted line is what
(ε, δ)-DP allows any attack on average, (e^ε + δ)/(1 + e^ε). The plotted numbers are in
numbers.json.

The choice of δ. The document takes δ = exp(-ε³N). At N = 1000 that is 0.37 at ε = 0.1, where the
promise is empty, and 2e-12 at ε = 0.3, and it underflows at ε = 1. With it the noise of DP-FW,
16 L0 C1 √(2 T log(1/δ))/(Nε), is 16√2 L0 C1 ε, and that of DP-SGD, L √(8 log(1/δ))/ε, is
L √(8εN): both grow with ε, so that "less privacy" means more noise, and curves against ε show this
artefact beside the effect of privacy. Here δ is 1e-6 and the noise the least that is proved to do,
which falls with ε as it must; --literal draws the document's choice. How the picture changes: with
the document's noise more ε only means more steps, and models stay where noise alone puts them (in
figure 4.7, at ε = 10, the loss of DP-FW is that of w = 0 within 1 %); here they begin to learn as ε
grows (it is 5 % lower).
"""
LITERAL = """
This page was drawn with --literal: the document's δ and noise, which grows with ε.
"""
ELSEWHERE = {"1.1": "loss-laplace", "1.2": "loss-gaussian", "1.3": "loss-over-cdf"}
"""Figures of chapter 1, by their names among those of the slides."""
MODULES = ("linear", "logistic", "multinomial", "sharper", "real")

Figure = Callable[[Setting], Picture]
Progress = Callable[[str], None]


def figures() -> dict[str, Figure]:
    """All figures by their names, in the order of the document; the last are on real data."""
    modules = (importlib.import_module(f"{__name__}.{name}") for name in MODULES)
    return {name: figure for module in modules for name, figure in module.FIGURES.items()}


def run(
    folder: Path,
    *,
    image_format: str = "svg",
    figure: str | None = None,
    literal: bool = False,
    quick: bool = False,
    repetitions: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Path]:
    """The files written: figures, ``numbers.json`` and ``index.html`` that shows them.

    They are written figure by figure, so that what was drawn is kept if the run is stopped.

    Args:
        folder: where to; made if it is not there.
        image_format: "svg" or "png".
        figure: the name of one figure, such as "4.21"; all if none is given.
        literal: the document's delta and noise.
        quick: half as many repetitions.
        repetitions: of every training; None for 10, or 5.
        seed: of data and noise.
        progress: called with the name of each figure before it is drawn.

    """
    _check.choice("image_format", image_format, FORMATS)
    repetitions = (5 if quick else 10) if repetitions is None else repetitions
    setting = Setting(literal, repetitions, seed)
    known = figures()
    if figure is not None:
        _refuse_elsewhere(figure)
        known = {figure: known[_check.choice("figure", figure, tuple(known))]}
    folder.mkdir(parents=True, exist_ok=True)
    done: list[Picture] = []
    files: list[Path] = []
    page: list[Path] = []
    about = {"title": TITLE, "introduction": INTRODUCTION + literal * LITERAL}
    for name, draw in known.items():
        if progress is not None:
            progress(f"figure {name}")
        with house_style():
            done.append(replace(draw(setting), name=f"figure-{name}"))
        files.append(save(done[-1], folder, image_format))
        page = save_index(done, folder, image_format=image_format, **about)
    return files + page


def _refuse_elsewhere(figure: str) -> None:
    """Say of a figure of chapter 1 where it is drawn."""
    if figure in ELSEWHERE:
        raise InvalidArgument(
            f"figure={figure!r} must be one of chapter 4. This one is {ELSEWHERE[figure]} of "
            "'dpassay reproduce slides'."
        )
