"""``dpassay report``: the page of an audit, from its log or from the data beside a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay.cli.options import Json, option
from dpassay.cli.output import emit, say, working
from dpassay.cli.verdicts import About, Paper, Proof

if TYPE_CHECKING:
    from dpassay.report import Report


EXAMPLE = "dpassay report run.db -o report.html --proof 3,1e-5"


def report(
    source: Annotated[Path, typer.Argument(help="A log, or the JSON beside a report.")],
    out: Annotated[Path, option("The page to write.", "--out", "-o")] = Path("report.html"),
    run: Annotated[
        str | None, option("The first digits of a run of the log; else the newest.")
    ] = None,
    claim: Annotated[str | None, option("Test this claim on the same trials instead.")] = None,
    confidence: Annotated[float | None, option("Judge with this confidence instead.")] = None,
    about: About = None,
    proof: Proof = None,
    as_json: Json = False,
) -> None:
    """Write the report of an audit; nothing is played.

    Another claim on the same trials is a statement of its own, at its own confidence.
    """
    from dpassay.report import write_report

    with working("writing the report"):
        if _is_log(source):
            found = _from_log(source, out, run, claim, confidence, about, proof)
        else:
            given = {"run": run, "claim": claim, "confidence": confidence}
            found = _from_data(source, given | {"about": about, "proof": proof})
        files = [str(path) for path in write_report(found, out)]
    if as_json:
        emit({"source": str(source), "files": files})
        return
    for audit in found.data["audits"]:
        verdict = audit["verdict"]
        say(" ".join([f"{verdict['headline']}.", verdict["sentence"], *verdict["remarks"][:1]]))
        if verdict.get("next_step"):
            say(f"Next: {verdict['next_step']}")
    for path in files:
        say(f"Written: {path}")


def _is_log(source: Path) -> bool:
    """Whether a file is a trial log by its contents, whatever its name."""
    from dpassay.errors import InvalidArgument
    from dpassay.runs.parts import is_folder

    if is_folder(source):
        return True
    if not source.is_file():
        raise InvalidArgument(
            f"source={str(source)!r} is not a file. Give a log, the folder of a described audit, "
            "or the JSON beside a report."
        )
    with source.open("rb") as file:
        return file.read(16).startswith(b"SQLite format 3")


def _from_log(
    source: Path,
    out: Path,
    run: str | None,
    claim: str | None,
    confidence: float | None,
    about: Path | None,
    proof: str | None,
) -> "Report":
    from dpassay.auditing import judge, parse_claim
    from dpassay.auditing.judging import find_run
    from dpassay.runs import opened

    with opened(source, make=False) as log:
        record = find_run(log, run)
        relation = record.description.get("neighbouring", "add-remove")
        paper = Paper(out, about, proof, relation)
        curve = None if claim is None else parse_claim(claim, neighbouring=relation)
        verdict = judge(log, record.key, claim=curve, confidence=confidence)
    return paper.of(verdict, f"Audit of {record.description['target']}")


def _from_data(source: Path, given: dict[str, Any]) -> "Report":
    from dpassay.errors import InvalidArgument
    from dpassay.report import load_report

    extra = [f"--{name}" for name, value in given.items() if value is not None]
    if extra:
        raise InvalidArgument(
            f"{', '.join(extra)} cannot be used with {str(source)!r}, which holds a finished "
            "report: no trials, only what was shown. Give the log instead."
        )
    return load_report(source)
