"""A check as one HTML page, or as a section of an audit's report: what broke, and what is open."""

from typing import Any

from dpassay.auditing.checking_text import place
from dpassay.auditing.findings import Check, Finding, Open
from dpassay.report.page import NOTHING_FETCHED, Section, page


def check_page(check: Check, title: str = "") -> str:
    """The page; it names records by number and by how they were made, never by their values."""
    word = "refuted" if check.refuted else "broken" if check.broken else "nothing broken"
    if not check.decided:
        word = "undecided"
    sections = [_finding(finding, "Broken") for finding in check.findings]
    sections += [_finding(finding, "Warning") for finding in check.warnings]
    open_points = [_point("undecided", entry) for entry in check.undecided]
    open_points += [_point("not checked", entry) for entry in check.not_checked]
    if open_points:
        sections.append(Section("What stays open", "", points=tuple(open_points)))
    sections.append(Section("What was done", _say_done(check)))
    made = page(title or "Check of a privacy claim", _introduction(check, word), sections)
    return made.replace("<title>", f"{NOTHING_FETCHED}<title>", 1)


def _introduction(check: Check, word: str) -> str:
    parts = [f"Result: {word}."]
    if check.epsilon_seen is not None:
        claimed = ""
        if check.claim is not None:
            claimed = f"; claimed: {float(check.claim.epsilon(check.delta)):.4g}"
        parts.append(
            f"Epsilon accounted from what was really played: {check.epsilon_seen:.4g} at delta "
            f"{check.delta:g}{claimed}."
        )
    if check.refutation is not None:
        parts.append(f"{check.refutation}; assuming {check.refutation.bound.assumption}.")
    parts.append(
        "A check plays the code on neighbouring data with all noisy values frozen. What still "
        "differs breaks the proof of the claim. It never shows that code is private."
    )
    return "\n\n".join(parts)


def _finding(finding: Finding, word: str) -> Section:
    source = "" if finding.site is None else finding.site.source
    where = f"{place(finding.site)}   {source}".rstrip()
    return Section(
        f"{word}: {finding.title} ({finding.rule})",
        f"{where}\n\n{finding.message}\n\n{finding.help}",
        points=tuple(f"see also {place(site)}" for site in finding.related),
    )


def check_facts(check: Check) -> dict[str, Any]:
    """What the report of an audit shows of a check: texts and numbers, no values of records."""
    claimed = None if check.claim is None else float(check.claim.epsilon(check.delta))
    return {
        "broken": check.broken,
        "decided": check.decided,
        "findings": [_finding_facts(finding, "broken") for finding in check.findings]
        + [_finding_facts(finding, "warning") for finding in check.warnings],
        "open": [_point("undecided", entry) for entry in check.undecided]
        + [_point("not checked", entry) for entry in check.not_checked],
        "epsilon_seen": check.epsilon_seen,
        "epsilon_claimed": claimed,
        "delta": check.delta,
        "executions": check.executions,
        "pairs": check.pairs,
        "note": check.note,
    }


def _finding_facts(finding: Finding, kind: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "rule": finding.rule,
        "title": finding.title,
        "place": place(finding.site),
        "source": "" if finding.site is None else finding.site.source,
        "message": finding.message,
        "help": finding.help,
    }


def _point(word: str, entry: Open) -> str:
    where = "" if entry.site is None else f" ({place(entry.site)})"
    return f"{word}: {entry.message}{where}"


def _say_done(check: Check) -> str:
    text = f"{check.executions} executions on {check.pairs} pairs of neighbouring data sets."
    return f"{text}\n\n{check.note}" if check.note else text
