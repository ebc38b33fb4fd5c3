"""The page of a report, from its data alone: a verdict first, then what it rests on."""

import html
import re
from collections.abc import Callable
from typing import Any

from dpassay.privacy.membership import Odds
from dpassay.report import words
from dpassay.report.bar import epsilon_bar
from dpassay.report.charts import pictures
from dpassay.report.figures import Picture, svg_of
from dpassay.report.hazards import NOTHING
from dpassay.report.numbers import up
from dpassay.report.odds import heading, of_hundred, panel_svg, sentence
from dpassay.report.page import (
    NOTHING_FETCHED,
    bullets,
    compact,
    document,
    figure,
    inline,
    paragraphs,
    table,
)

LARGEST = 500_000  # bytes of a page
Audit = dict[str, Any]
_STYLE = """
.mast { font-size: .8rem; letter-spacing: .08em; text-transform: uppercase; color: var(--quiet);
        margin: 0 0 .25rem; }
.verdict { border: 1px solid var(--line); border-left: .5rem solid var(--tone);
           padding: 1rem 1.25rem; margin: 1.25rem 0; background: var(--wash); }
.verdict .word { color: var(--tone); font-size: 1.6rem; line-height: 1.2; font-weight: 700;
                 margin: 0 0 .25rem; }
.verdict .sentence { font-size: 1.1rem; margin: 0 0 .5rem; }
.verdict .remarks { color: var(--quiet); font-size: .925rem; margin: .25rem 0 0; }
.refuted { --tone: #9b1c1c; --wash: #fdf5f4; } .standing { --tone: #1f3a5f; --wash: #f4f7fb; }
.open { --tone: #7a4b00; --wash: #fdf8ee; }
.bar { margin: 1.5rem 0; } .bar svg { display: block; }
.icons { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: .5rem 0; }
.icons figure { margin: 0; width: 15rem; } .icons figcaption { margin-bottom: .35rem; }
.icons svg { display: block; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
        gap: 1.5rem 2rem; }
.grid figure { margin: 0; } .grid svg { width: 100%; max-width: 27rem; display: block; }
.grid h3, .grid h4 { font-size: .95rem; margin: 0 0 .35rem; }
table.facts { table-layout: fixed; } table.facts tr > :first-child { width: 32%; }
table.short { table-layout: fixed; } table.short th:first-child { width: 40%; }
table.numbers { width: auto; min-width: 16rem; }
table.numbers th, table.numbers td { padding-right: 2rem; font-variant-numeric: tabular-nums; }
table.hazards { table-layout: fixed; } table.hazards th:first-child { width: 32%; }
table.hazards th:nth-child(2) { width: 8rem; }
.pass, .fail, .unchecked { font-weight: 600; }
.fail { color: #9b1c1c; } .pass { color: #1d5c3a; } .unchecked { color: #5c5200; }
footer { margin-top: 3rem; padding-top: .75rem; border-top: 1px solid var(--line);
         color: var(--quiet); font-size: .8rem; }
@media (max-width: 34rem) { body { padding-top: 1.25rem; } h1 { font-size: 1.4rem; }
  th, td { padding-right: .5rem; } table.hazards { font-size: .82rem; }
  table.hazards th:nth-child(2) { width: 5.5rem; } table.facts tr > :first-child { width: 36%; } }
@media print { table.facts { break-inside: avoid; }
  section > p:not(:last-child) { break-after: avoid; }
  .grid { grid-template-columns: 1fr 1fr; gap: 1rem 1.5rem; }
  .audit + .audit { break-before: page; } .icons { flex-wrap: nowrap; }
  .icons figure { width: 16rem; } .icons svg { width: 11rem; } }
"""
SYMBOLS = {"pass": "✓", "fail": "✗", "not checked": "–"}
_CLASSES = {"pass": "pass", "fail": "fail", "not checked": "unchecked"}


def certificate(data: dict[str, Any]) -> str:
    """The page; figures that would make it too large are left out, and it says so."""
    single = len(data["audits"]) == 1
    parts, room = [], LARGEST - 20_000
    for i, audit in enumerate(data["audits"]):
        part = _audit(audit, f"a{i}", 2 if single else 3, drawn=True)
        if len(part.encode()) > room:
            part = _audit(audit, f"a{i}", 2 if single else 3, drawn=False)
        room -= len(part.encode())
        parts.append(part)
    body = [paragraphs(data["introduction"])] + ([] if single else [_overview(data["audits"])])
    return document(
        data["title"],
        "\n".join([*body, *parts, _footer(data)]),
        style=_STYLE,
        head=NOTHING_FETCHED,
        above=f'<p class="mast">Privacy audit report{"" if single else "s"}</p>\n',
    )


def _overview(audits: list[Audit]) -> str:
    rows = [
        (
            audit["title"],
            audit["verdict"]["headline"],
            words.up(float(audit["epsilon"]["claimed"])),
            words.down(float(audit["epsilon"]["measured_lower"])),
        )
        for audit in audits
    ]
    head = ("Audit", "Verdict", "ε claimed", "ε at least")
    return table(rows, head=head, caption="In short", kind="short")


def _footer(data: dict[str, Any]) -> str:
    versions = data["audits"][0]["replay"]["versions"]
    made = f"dpassay {versions.get('dpassay', '')}".strip()
    return (
        f"<footer>Made by {html.escape(made)}. This page fetches nothing and runs no script. Its "
        f"numbers are in the JSON file beside it ({data['schema']}, version "
        f"{data['schema_version']}). It holds no record of the data.</footer>"
    )


def _audit(audit: Audit, name: str, level: int, *, drawn: bool) -> str:
    """One audit; its sections have headings of the given level."""
    title = "" if level == 2 else f"<h2>{html.escape(audit['title'])}</h2>\n"
    charts = {picture.name: picture for picture in pictures(audit)} if drawn else {}
    body = [_verdict(audit), _bar(audit, name)]
    for head, make in _SECTIONS.items():
        made = make(audit, name, charts, level + 1)
        if not made:
            continue
        body.append(f"<section>\n<h{level}>{head}</h{level}>\n{made}\n</section>")
    return f'<article class="audit">\n{title}' + "\n".join(body) + "\n</article>"


def _verdict(audit: Audit) -> str:
    verdict = audit["verdict"]
    tone = "refuted" if verdict["refuted"] else "standing"
    tone = "open" if verdict["ended"] == "interrupted" and tone == "standing" else tone
    remarks = " ".join(verdict["remarks"])
    advice = f"Next: {verdict['next_step']}" if verdict["next_step"] else ""
    next_step = f'\n<p class="remarks">{_glue(advice)}</p>' if advice else ""
    return (
        f'<div class="verdict keep {tone}">\n'
        f'<p class="word">{html.escape(verdict["headline"])}</p>\n'
        f'<p class="sentence">{_glue(verdict["sentence"])}</p>\n'
        f'<p class="remarks">{_glue(remarks)}</p>{next_step}\n</div>'
    )


def _glue(text: str) -> str:
    """Escape a text so that no line breaks inside a formula or a large number."""
    text = re.sub(r"(?<=[εδμ]) ([=≥≤]) ", "\u00a0\\1\u00a0", text)
    return html.escape(re.sub(r"(?<=\d) (?=\d{3}\b|%)", "\u00a0", text))


def _bar(audit: Audit, name: str) -> str:
    caption = (
        f"All at δ = {words.small(float(audit['epsilon']['delta']))}. A larger ε is less privacy. "
        "Proofs hold if the code does what was proved; what is measured holds with the stated "
        "confidence. The ceiling is what a perfect attack would have shown in this audit."
    )
    picture = figure(inline(epsilon_bar(audit["epsilon"]), f"{name}-bar"), caption)
    return picture.replace("<figure>", '<figure class="bar">', 1)


# The sections.


def _odds(audit: Audit, name: str, charts: dict[str, Picture], level: int) -> str:
    promised = (
        "The claim is refuted: do not rely on these odds, which it promises."
        if audit["verdict"]["refuted"]
        else "What the claim promises to one person, if it is true."
    )
    worst, *usual = (Odds(float(c["if_out"]), float(c["if_in"]), c["what"]) for c in audit["odds"])
    others = "\n\n".join(f"For comparison, {odds.what}: {sentence(odds)}" for odds in usual)
    return f"{paragraphs(promised)}\n{_case(worst, f'{name}-odds', level)}\n{paragraphs(others)}"


def _case(odds: Odds, name: str, level: int) -> str:
    sides = (("If you do not take part", odds.if_out), ("If you take part", odds.if_in))
    panels = "\n".join(
        f"<figure><figcaption>{head}: {of_hundred(share)} of 100</figcaption>"
        f"{inline(panel_svg(share, f'{head}: {of_hundred(share)} of 100'), f'{name}-{i}')}</figure>"
        for i, (head, share) in enumerate(sides)
    )
    return (
        f'<div class="keep">\n<h{level}>{html.escape(heading(odds.what))}</h{level}>\n'
        f'{paragraphs(sentence(odds))}\n<div class="icons">\n{panels}\n</div>\n</div>'
    )


def _claim(audit: Audit, name: str, charts: dict[str, Picture], level: int) -> str:
    claim, proof = audit["claim"], audit["proof"]
    columns = [claim, *([proof] if proof else [])]
    head = ("", "Claimed", "Proved")[: 1 + len(columns)]
    rows = [(label, *(say(curve) for curve in columns)) for label, say in _CLAIM_ROWS.items()]
    picture = _chart(charts, "profile", name, level)
    points = [
        (f"{row['epsilon']:g}", words.small(float(up(float(row["delta"]), 3))))
        for row in claim["table"]
    ]
    numbers = table(points, head=("ε", "δ, at most"), caption="The claim", kind="numbers")
    return "\n".join(
        [
            table(rows, head=head, kind="facts"),
            _list_declared(audit["disclosure"]),
            f'<div class="grid">\n{picture}\n<div class="keep">{numbers}</div>\n</div>',
        ]
    )


_CLAIM_ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "Statement": lambda curve: curve["statement"],
    "ε": lambda curve: f"{words.up(float(curve['epsilon']))} at δ = {_small_delta(curve)}",
    "δ": lambda curve: _small(float(curve["delta"])),
    "μ (Gaussian)": lambda curve: "–" if curve["mu"] is None else words.up(float(curve["mu"])),
    "Neighbouring relation": lambda curve: words.RELATIONS[curve["neighbouring"]],
    "Accounting": lambda curve: f"{curve['method']} ({curve['curve']})",
    "Direction of its error": lambda curve: words.KINDS[curve["kind"]],
    "Taken as public": lambda curve: "; ".join(curve["assumptions"]) or "nothing named",
}
_DECLARED_ROWS = {
    "What is released": "target",
    "Data": "data",
    "Number of records": "n_records",
    "Unit of privacy": "unit",
    "Most records of one person": "records_per_person",
    "Who is trusted (setting)": "setting",
    "Code": "code",
    "Contact": "contact",
    "Date": "date",
}


def _small_delta(curve: dict[str, Any]) -> str:
    return words.small(float(curve["delta"]))


def _list_declared(declared: dict[str, Any]) -> str:
    """What was declared, and in one row what was not."""
    rows = [
        (label, str(declared[key]))
        for label, key in _DECLARED_ROWS.items()
        if declared[key] is not None
    ]
    missing = [label for label, key in _DECLARED_ROWS.items() if declared[key] is None]
    rows += [("Not declared", "; ".join(missing).lower())] if missing else []
    return table(rows, caption="Declared by the publisher; not verified", kind="facts")


def _small(delta: float) -> str:
    return "0" if delta == 0 else f"{words.small(delta)} ({words.one_in(delta)})"


def _attack(audit: Audit, name: str, charts: dict[str, Picture], level: int) -> str:
    bound = audit["bound"]
    rows = [
        *audit["attack"]["rows"],
        ("Statistic of the measured ε", bound["method"]),
        ("How its threshold was chosen", bound["selection"]),
        (
            "What must be believed",
            "nothing" if bound["assumes_nothing"] else bound["assumption"],
        ),
    ]
    return table(rows, kind="facts")


def _one_training(audit: Audit, name: str, charts: dict[str, Picture], level: int) -> str:
    """What the canaries of one training were and went through; nothing for other audits."""
    facts = audit.get("one_training")
    if facts is None:
        return ""
    bounds = [
        (
            "nothing" if bound["assumes_nothing"] else bound["assumption"],
            words.down(float(bound["epsilon"])),
            words.down(float(bound["ceiling"])),
        )
        for bound in facts["bounds"]
    ]
    head = ("What must be believed", "ε at least", "ceiling")
    return "\n".join(
        [
            table(words.one_training_rows(facts), kind="facts"),
            table(bounds, head=head, caption="One row for each label", kind="short"),
            bullets(facts["notes"]) if facts["notes"] else "",
        ]
    )


def _figures(audit: Audit, name: str, charts: dict[str, Picture], level: int) -> str:
    shown = [_chart(charts, key, name, level) for key in charts if key != "profile"]
    if not charts:
        return paragraphs("The figures are left out of this page to keep it small; see the JSON.")
    if not shown:
        return paragraphs("Nothing was played, so that there is nothing to draw.")
    return '<div class="grid">\n' + "\n".join(shown) + "\n</div>"


def _chart(charts: dict[str, Picture], key: str, name: str, level: int) -> str:
    if key not in charts:
        return ""
    picture = charts[key]
    svg = inline(compact(svg_of(picture)), f"{name}-{key}")
    return figure(svg, picture.caption, f"<h{level}>{html.escape(picture.title)}</h{level}>\n")


def _hazards(audit: Audit, name: str, charts: dict[str, Picture], level: int) -> str:
    note = (
        "What has undone guarantees elsewhere. Pass: the hazard is absent. Fail: it is present. "
        "Computed: decided from the claim, the proof and the trials. Declared: someone says so."
    )
    rows = "\n".join(_hazard(item) for item in audit["hazards"])
    head = "".join(f'<th scope="col">{cell}</th>' for cell in ("Hazard", "Result", "Why"))
    return (
        f'{paragraphs(note)}\n<table class="hazards">\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        f"{rows}\n</tbody>\n</table>"
    )


def _hazard(item: dict[str, str]) -> str:
    status = item["status"]
    grounds = "" if item["grounds"] == NOTHING else f" ({item['grounds']})"
    return (
        f'<tr><th scope="row">{html.escape(item["name"])}</th>'
        f'<td class="{_CLASSES[status]}">{SYMBOLS[status]} {status}</td>'
        f"<td>{html.escape(item['why'] + grounds)}</td></tr>"
    )


def _show_check(audit: Audit, name: str, charts: dict[str, Picture], level: int) -> str:
    """What a check of the same code found, line by line."""
    check = audit.get("check")
    if check is None:
        return ""
    word = "broken" if check["broken"] else "nothing broken" if check["decided"] else "undecided"
    parts = [paragraphs(_summarise_check(check, word))]
    for finding in check["findings"]:
        head = f"{finding['kind'].capitalize()}: {finding['title']} ({finding['rule']})"
        line = f"{finding['place']}   {finding['source']}".rstrip()
        parts.append(f"<h{level}>{html.escape(head)}</h{level}>\n<pre>{html.escape(line)}</pre>")
        parts.append(paragraphs(f"{finding['message']}\n\n{finding['help']}"))
    return "\n".join([*parts, *([bullets(check["open"])] if check["open"] else [])])


def _summarise_check(check: dict[str, Any], word: str) -> str:
    price = ""
    if check["epsilon_seen"] is not None:
        price = f" Accounted from what was really played: ε = {float(check['epsilon_seen']):.4g}"
        price += f" at δ = {words.small(float(check['delta']))}"
        if check["epsilon_claimed"] is not None:
            price += f", claimed {float(check['epsilon_claimed']):.4g}"
        price += "."
    return (
        f"Result: {word}.{price} The code was played {check['executions']} times, on "
        f"{check['pairs']} pairs of neighbouring data sets with all noisy values frozen; what "
        "still differs breaks the proof of the claim. A check never shows that code is private."
        + (f"\n\n{check['note']}" if check["note"] else "")
    )


def _limits(audit: Audit, name: str, charts: dict[str, Picture], level: int) -> str:
    return bullets(audit["limits"])


def _again(audit: Audit, name: str, charts: dict[str, Picture], level: int) -> str:
    replay = audit["replay"]
    seed = "drawn by the operating system, not kept" if replay["seed"] is None else replay["seed"]
    rows = [
        ("Run key (hash of configuration, code and data)", replay["run"] or "none"),
        ("Seed", str(seed)),
        *((key, text) for key, text in replay["versions"].items()),
    ]
    command = f"<pre>{html.escape(replay['command'])}</pre>\n" if replay["command"] else ""
    return command + table(rows, kind="facts")


_SECTIONS: dict[str, Callable[[Audit, str, dict[str, Picture], int], str]] = {
    "What it means for one person": _odds,
    "What is claimed": _claim,
    "Who attacked": _attack,
    "The one training": _one_training,
    "What was seen": _figures,
    "What a check of the code found": _show_check,
    "Hazards": _hazards,
    "What this does not show": _limits,
    "How to run it again": _again,
}
