"""A check in words. No value of a record is in them."""

from typing import TYPE_CHECKING

from dpassay.replay.sites import Site

if TYPE_CHECKING:
    from dpassay.auditing.findings import Check, Finding, Open

_WIDTH = 88


def place(site: Site | None) -> str:
    """A line as file:line, as messages show it."""
    return "the output" if site is None else str(site)


def text(check: "Check") -> str:
    """All that a check found, line by line."""
    lines: list[str] = []
    if check.refutation is not None:
        lines += [str(check.refutation), f"  assuming {check.refutation.bound.assumption}."]
    for finding in check.findings:
        lines += _finding_lines(finding, "broken")
    for finding in check.warnings:
        lines += _finding_lines(finding, "warning")
    lines += [_open_line("undecided", entry) for entry in check.undecided]
    lines += [_open_line("not checked", entry) for entry in check.not_checked]
    lines += [check.note] if check.note else []
    lines.append(_last_line(check))
    return "\n".join(lines)


def _finding_lines(finding: "Finding", word: str) -> list[str]:
    head = f"{word}: {finding.title}"
    source = "" if finding.site is None else finding.site.source
    lines = [f"{head:<{_WIDTH - 7}} {finding.rule}", f"  {place(finding.site)}   {source}".rstrip()]
    lines.append(f"  {finding.message}")
    if finding.n_records is not None and word == "broken" and finding.pair.how != "D alone":
        size = f"{finding.n_records} record{'' if finding.n_records == 1 else 's'}"
        lines.append(
            f"  Smallest data that shows it: {size}. This breaks the proof of the claim; it does "
            "not by itself refute the claim."
        )
    return lines


def _open_line(word: str, entry: "Open") -> str:
    where = "" if entry.site is None else f" ({place(entry.site)})"
    text = f"{word}: {entry.message.rstrip('.')}{where}"
    return text if text.endswith("?") else f"{text}."


def _last_line(check: "Check") -> str:
    pairs = f"{check.pairs} pair{'' if check.pairs == 1 else 's'}"
    count = f"{check.executions} executions, {pairs}."
    price = ""
    if check.epsilon_seen is not None and not check.findings:
        price = f" Accounted from what was seen: epsilon {check.epsilon_seen:.4g} at delta "
        price += f"{check.delta:g}{_beside(check)}."
    if check.decided and not check.broken:
        return f"nothing broken on {pairs}.{price} {count}"
    return f"{price} {count}".strip()


def _beside(check: "Check") -> str:
    if check.claim is None:
        return ""
    return f", claimed {float(check.claim.epsilon(check.delta)):.4g}"
