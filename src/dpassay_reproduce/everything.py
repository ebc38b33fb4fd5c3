"""All experiments of the source documents, one after the other, and a table of every claim.

Each goes into a folder of its own name below this one. The page and ``claims.json`` say of every
claim that the documents make whether it holds, fails or is not decided, and what was measured.
Stopped, the same command goes on: what is finished is not run again, unless the code has changed.
"""

import inspect
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import dpassay
from dpassay import _files
from dpassay.report.numbers import as_json
from dpassay.report.page import Section, page
from dpassay.runs import Players, run_key
from dpassay_reproduce.claims import FAILS, HOLDS, UNDECIDED

__all__ = ["Row", "collect", "run"]

TITLE = "Every claim of the source documents"
DONE = "done.json"  # in an experiment's folder: that it ended, with which code, and its seconds
SOURCES = {
    "slides": "CSCI 699",
    "hw3": "HW3",
    "clipping": "CSCI 699",
    "lecture": "Wang 2021",
    "thesis": "Micali 2022, chapters 3 and 4",
    "debugging": "CSCI 699",
    "one-dimension": "Nasr notes",
    "adversaries": "Nasr notes",
    "synth": "Micali 2022, chapter 5",
}
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One claim.

    Attributes:
        experiment: which command shows it.
        figure: under which figure it stands.
        text: the document's sentence.
        criterion: by what it is judged.
        verdict: "holds", "fails" or "not decided".
        measured: the numbers, in words.

    """

    experiment: str
    figure: str
    text: str
    criterion: str
    verdict: str
    measured: str


def collect(folder: Path, names: Iterable[str]) -> list[Row]:
    """The claims of finished experiments, from their ``numbers.json``."""
    rows = []
    for name in names:
        numbers = json.loads((folder / name / "numbers.json").read_text(encoding="utf-8"))
        for figure, found in numbers.items():
            rows += [Row(name, figure, **claim) for claim in found.get("claims", [])]
    return rows


def run(
    folder: Path,
    *,
    image_format: str = "svg",
    quick: bool = False,
    progress: Progress | None = None,
    executor: Players = None,
    experiments: tuple[str, ...] = tuple(SOURCES),
) -> list[Path]:
    """The files written: those of every experiment, ``claims.json`` and ``index.html``.

    Args:
        folder: where to; every experiment has a folder in it.
        image_format: "svg" or "png".
        quick: every experiment in its quick form, under 20 minutes of processor time in all.
        progress: called with what is run next.
        executor: who plays the games of the adversaries, see :func:`dpassay.runs.play`.
        experiments: which, in this order.

    """
    folder.mkdir(parents=True, exist_ok=True)
    given = {"quick": quick, "executor": executor}
    seconds: dict[str, float] = {}
    for name in experiments:
        seconds[name] = _finish(folder / name, name, image_format, given, progress or _say_nothing)
    rows = collect(folder, experiments)
    texts = {
        folder / "claims.json": as_json({"quick": quick, "claims": [vars(r) for r in rows]}) + "\n",
        folder / "index.html": page(TITLE, _introduce(rows, quick, seconds), _sections(rows)),
    }
    return _files.write_all(texts)


def _finish(
    folder: Path, name: str, image_format: str, given: dict[str, Any], progress: Progress
) -> float:
    """Run one experiment if it was not, and say how many seconds of processor time it took."""
    from dpassay_reproduce import experiment

    module = experiment(name)
    takes = inspect.signature(module.run).parameters
    options = {key: value for key, value in given.items() if value and key in takes}
    key = run_key({"name": name, "quick": bool(given["quick"])}, code=_code())
    done = folder / DONE
    if done.exists():
        before = json.loads(done.read_text(encoding="utf-8"))
        if before.get("key") == key:
            return float(before["seconds"])
    progress(name)
    if "progress" in takes:
        options["progress"] = lambda part: progress(f"{name}: {part}")
    start = _spent()
    module.run(folder, image_format=image_format, **options)
    spent = _spent() - start
    _files.write(done, json.dumps({"key": key, "seconds": spent}))
    return spent


def _spent() -> float:
    """Seconds of processor time, of this process and its children that have ended."""
    return sum(os.times()[:4])


def _code() -> list[Path]:
    roots = Path(dpassay.__file__).parent, Path(__file__).parent
    return [file for root in roots for file in sorted(root.rglob("*.py"))]


def _say_nothing(part: str) -> None:
    del part


def _introduce(rows: list[Row], quick: bool, seconds: dict[str, float]) -> str:
    counts = {v: sum(row.verdict == v for row in rows) for v in (HOLDS, FAILS, UNDECIDED)}
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    spent = ", ".join(f"{name} {value:.0f}" for name, value in seconds.items())
    return (
        f"{len(rows)} claims: {said}. A claim says by which criterion it is judged; where chance "
        "enters, an interval decides. "
        + ("This is the quick form: smaller sizes and fewer repetitions. " if quick else "")
        + f"Seconds of processor time: {spent}."
    )


def _sections(rows: list[Row]) -> list[Section]:
    sections = []
    for name, source in SOURCES.items():
        some = [row for row in rows if row.experiment == name]
        if some:
            sections.append(Section(f"{name} ({source})", "", _table(some)))
    return sections


def _table(rows: list[Row]) -> str:
    cells = "".join(
        "<tr>"
        + "".join(
            f"<td>{escape(x)}</td>" for x in (r.figure, r.text, r.criterion, r.verdict, r.measured)
        )
        + "</tr>"
        for r in rows
    )
    head = "".join(f"<th>{x}</th>" for x in ("figure", "claim", "criterion", "verdict", "measured"))
    return f"<table><tr>{head}</tr>{cells}</table>"
