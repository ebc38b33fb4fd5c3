"""``dpassay check``: which line breaks the proof of a privacy claim, from a few executions."""

import functools
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay import _files
from dpassay.cli.ending import REFUTED, STOPPED
from dpassay.cli.options import Json
from dpassay.cli.output import Counting, complain, emit, say
from dpassay.errors import DpassayError, InvalidArgument, ScriptFailed

if TYPE_CHECKING:
    from dpassay.auditing.findings import Check, Finding, Open


EXAMPLE = "dpassay check train.py --claim 3,1e-5"


def check(
    target: Annotated[
        str, typer.Argument(help="train.py (a whole script), my.py:release or module:release.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="NPZ with the array data (or data_X, data_y).")
    ] = None,
    claim: Annotated[
        str | None, typer.Option(help="3,1e-5 or 3 or gdp:1.0 or rho:0.1 or dp-sgd:...")
    ] = None,
    neighbouring: Annotated[
        str | None,
        typer.Option(
            "--neighbouring",
            "--neighboring",
            help="What neighbouring data sets differ by: add-remove (default) or replace-one.",
        ),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            help="The declared range of all values, 0,1 for example, or one for every column: "
            '"0,120 0,1".'
        ),
    ] = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Batches are declared to be Poisson samples of this rate.")
    ] = None,
    sensitivity: Annotated[
        float | None, typer.Option(help="The most that one record is declared to move a query.")
    ] = None,
    limit: Annotated[int, typer.Option(help="The most pairs that are tried.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the first execution.")] = 0,
    evidence: Annotated[
        int,
        typer.Option(
            help="The most trials to refute the claim itself by, from replayed likelihood ratios."
        ),
    ] = 0,
    confidence: Annotated[float, typer.Option(help="Of that refutation.")] = 0.95,
    arguments: Annotated[str, typer.Option(help="What a script finds in sys.argv.")] = "",
    sarif: Annotated[
        Path | None, typer.Option(help="Write the findings for a code host.", dir_okay=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the check as one HTML page.", dir_okay=False)
    ] = None,
    pair: Annotated[
        Path | None,
        typer.Option(
            help="Play this pair of data sets alone if the file is there; else write the worst "
            "pair to it. An NPZ, which holds records.",
            dir_okay=False,
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, the result alone.")] = False,
    as_json: Json = False,
) -> None:
    """Record a mechanism on one data set, replay it on neighbours, and name the line that leaks.

    Exit code 0: nothing broken, 1: broken or refuted, 2: misuse, 3: nothing could be decided.
    """
    options: dict[str, Any] = {
        "claim": _claim(claim, neighbouring),
        "neighbouring": neighbouring,
        "bounds": _bounds(bounds),
        "sampling_rate": sampling_rate if sampling_rate is not None else stated_rate(claim),
        "sensitivity": sensitivity,
        "limit": limit,
        "evidence": evidence,
        "confidence": confidence,
        "rng": seed,
    }
    given = _load_given(pair)
    play = _subject(target, data, arguments, given)
    with Counting(quiet or as_json) as counting:
        try:
            found = play(**options, progress=counting)
        except ScriptFailed as failed:
            complain(f"{failed} There is nothing to compare.")
            raise typer.Exit(STOPPED) from None
        except DpassayError:
            raise
        except Exception as error:
            _leave_if_its_own(error)
            raise
    _write(found, sarif, pair if given is None else None, report)
    if as_json:
        emit(_data(found))
    else:
        say(str(found))
        _say_next(found, target, claim, pair, given is not None)
        say(f"Replay: {shlex.join(['dpassay', *sys.argv[1:]])}")
    raise typer.Exit(_exit_code(found))


def _load_given(pair: Path | None) -> tuple[Any, Any] | None:
    """The pair of a file that is there."""
    from dpassay.auditing import load_pair

    return load_pair(pair) if pair is not None and pair.exists() else None


def _subject(
    target: str, data: Path | None, arguments: str, given: tuple[Any, Any] | None
) -> "Callable[..., Check]":
    """What plays the target: a script has its data, a function is given some, or a pair."""
    from dpassay.auditing import check as run_check
    from dpassay.auditing import load_data, load_target
    from dpassay.auditing.checking_script import check_script, is_script, split

    if not is_script(target):
        if arguments:
            raise InvalidArgument(f"arguments={arguments!r} are for scripts; {target} is none.")
        mechanism = load_target(target)
        if given is not None:
            return functools.partial(run_check, mechanism, given[0], neighbours=[given[1]])
        return functools.partial(run_check, mechanism, load_data(_require(data)))
    if data is not None:
        raise InvalidArgument(
            f"target={target!r} is a whole script, which has its data: leave --data out, or name "
            f"a function of it, {target}:release."
        )
    return functools.partial(check_script, target, split(arguments), pair=given)


def _require(data: Path | None) -> Path:
    if data is None:
        raise InvalidArgument("data is missing; give one data set, --data d.npz with array data.")
    return data


def _bounds(text: str | None) -> tuple[Any, Any] | None:
    """One range for all values, or one for each column."""
    if text is None:
        return None
    try:
        pairs = [_two(part) for part in text.split() or [text]]
        low, high = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    except ValueError:
        raise InvalidArgument(
            f"bounds={text!r} must be two numbers, such as 0,1, or two for every column, such as "
            '"0,120 0,1".'
        ) from None
    return (low, high) if len(pairs) > 1 else (low[0], high[0])


def _two(part: str) -> list[str]:
    low, high = part.split(",")
    return [low, high]


def _claim(claim: str | None, neighbouring: str | None) -> Any:
    from dpassay.auditing import parse_claim

    if claim is None:
        return None
    return parse_claim(claim, neighbouring=neighbouring or "add-remove")


def stated_rate(claim: str | None) -> float | None:
    """The sampling rate that a claim of DP-SGD states."""
    word, _, rest = (claim or "").partition(":")
    parts = dict(part.split("=", 1) for part in rest.split(",") if "=" in part)
    rate = float(parts["sampling_rate"]) if word == "dp-sgd" and "sampling_rate" in parts else 1.0
    return rate if rate < 1 else None


def _leave_if_its_own(error: Exception) -> None:
    """End with 3 if the mechanism raised on its own data; its message may hold records."""
    from dpassay.auditing.checking_text import place
    from dpassay.replay import playing
    from dpassay.replay.sites import Site

    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    files = [file for file, _ in frames]
    if playing.__file__ not in files:
        return
    file, line = [frame for frame in frames if "-packages/" not in frame[0]][-1]
    complain(
        f"the mechanism raised {type(error).__name__} on the data itself, at "
        f"{place(Site(file, line))}; there is nothing to compare. Run it once by hand."
    )
    raise typer.Exit(STOPPED) from None


def _write(found: "Check", sarif: Path | None, pair: Path | None, report: Path | None) -> None:
    from dpassay.report.numbers import as_json

    if sarif is not None:
        from dpassay.auditing.sarif import as_sarif

        _files.write(sarif, as_json(as_sarif(found)) + "\n")
    if report is not None:
        from dpassay.report.checked import check_page

        _files.write(report, check_page(found))
    if pair is not None and found.pair is not None:
        _files.write(pair, _as_npz(found.pair.data, found.pair.data_prime))


def _as_npz(data: Any, data_prime: Any) -> bytes:
    import io

    import numpy as np

    from dpassay.replay.datasets import form_of

    arrays = {}
    for name, whole in {"data": data, "data_prime": data_prime}.items():
        side = form_of(whole).arrays
        labelled = {f"{name}_X": side[0], f"{name}_y": side[1]} if isinstance(side, tuple) else {}
        arrays |= {key: np.asarray(part) for key, part in (labelled or {name: side}).items()}
    if any(part.dtype == object for part in arrays.values()):
        raise InvalidArgument(
            "pair: records of mixed kinds cannot be written as NPZ. Leave --pair out; in Python "
            "they are in check.pair."
        )
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _say_next(
    found: "Check", target: str, claim: str | None, pair: Path | None, given: bool
) -> None:
    """What was played, or written, and the command that tests the claim itself."""
    if pair is not None and (given or found.pair is not None):
        say(f"The pair of {pair} was played." if given else f"The pair was written to {pair}.")
    if claim is None or not found.broken or found.pair is None or found.refutation is not None:
        return
    line = ["dpassay", *sys.argv[1:], "--evidence", "50"]
    if pair is not None and not target.endswith(".py"):
        line = ["dpassay", "audit", target, "--claim", claim, "--data", str(pair)]
        line += ["--evidence", "replay"]
    say(f"To refute the claim itself: {shlex.join(line)}")


def _exit_code(found: "Check") -> int:
    if found.broken or found.refuted:
        return REFUTED
    return 0 if found.decided else STOPPED


def _data(found: "Check") -> dict[str, Any]:
    event = None if found.event is None else found.event.as_dict()
    claimed = None if found.claim is None else float(found.claim.epsilon(found.delta))
    return {
        "broken": found.broken,
        "refuted": found.refuted,
        "epsilon_lower": None if found.refutation is None else found.refutation.bound.epsilon,
        "decided": found.decided,
        "findings": [_finding(finding, "broken") for finding in found.findings],
        "warnings": [_finding(finding, "warning") for finding in found.warnings],
        "undecided": [_open(entry, "undecided") for entry in found.undecided],
        "not_checked": [_open(entry, "not checked") for entry in found.not_checked],
        "epsilon_seen": found.epsilon_seen,
        "epsilon_claimed": claimed,
        "delta": found.delta,
        "event": event,
        "executions": found.executions,
        "pairs": found.pairs,
        "note": found.note,
    }


def _finding(finding: "Finding", kind: str) -> dict[str, Any]:
    return _open(finding, kind) | {
        "title": finding.title,
        "source": None if finding.site is None else finding.site.source,
        "pair": finding.pair.how,
        "records": finding.n_records,
        "epsilon_seen": finding.epsilon_seen,
        "epsilon_claimed": finding.epsilon_claimed,
        "execution": finding.execution,
    }


def _open(entry: "Open | Finding", kind: str) -> dict[str, Any]:
    from dpassay.replay.sites import shorten

    site = entry.site
    return {
        "rule": entry.rule,
        "kind": kind,
        "file": None if site is None else shorten(site.file),
        "line": None if site is None else site.line,
        "message": entry.message,
    }
