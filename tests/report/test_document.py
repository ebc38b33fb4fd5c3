import errno
import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpassay import _files, audit
from dpassay.errors import InvalidArgument
from dpassay.privacy import ApproxDP, PureDP
from dpassay.report import (
    Disclosure,
    Report,
    audit_report,
    join_reports,
    load_report,
    write_report,
)
from dpassay.types import Evidence
from report.markup import Page
from report.verdicts import CASES

LIMIT = 500_000
EVIL = "<script>alert(1)</script> & \"quotes\" 'n' <b>"


@pytest.fixture(scope="module", params=CASES)
def made(request):
    """A verdict, its report and its page; some have a proof."""
    verdict = CASES[request.param]()
    proof = ApproxDP(2.0, 1e-6) if request.param in ("standing", "refuted", "pld") else None
    report = audit_report(verdict, proof=proof)
    return verdict, report, Page(report.html()), request.param


def test_every_verdict_makes_a_sound_page(made):
    *_, page, _ = made
    assert page.faults == []
    assert page.size < LIMIT
    assert not re.search(r"\bnan\b|\bNone\b", page.text)


def test_every_report_can_be_written_and_read(made, tmp_path, monkeypatch):
    _, report, *_ = made
    monkeypatch.setattr(Report, "html", lambda self: "<p>drawn elsewhere</p>")
    files = write_report(report, tmp_path / "r.html")
    assert [file.name for file in files] == ["r.html", "r.json"]
    assert load_report(files[1]).data == report.data
    assert files[1].stat().st_size < LIMIT
    json.loads(files[1].read_text(encoding="utf-8"), parse_constant=pytest.fail)  # strict JSON


@pytest.mark.parametrize("name", ["refuted", "one run", "epsilon inf", "failing trials"])
def test_the_page_is_made_from_the_data_alone(name, tmp_path):
    files = write_report(audit_report(CASES[name]()), tmp_path / "r.html")
    assert load_report(files[1]).html().encode() == files[0].read_bytes()


def test_the_verdict_is_said_rightly(made):
    verdict, report, page, _ = made
    headline, sentence = (report.data["audits"][0]["verdict"][k] for k in ("headline", "sentence"))
    assert headline in page.text
    assert sentence in page.text
    assert headline.startswith("Refuted" if verdict.refuted else "Not refuted")
    assert ("is false, with confidence 95 %" in page.text) == verdict.refuted
    assert not re.search(r"\b(is|are|was) (private|safe|secure)\b|proved (private|safe)", page.text)
    assert ("stopped after" in sentence) == (verdict.ended == "interrupted")


def test_bounds_stay_bounds_in_print(made):
    verdict, _, page, _ = made
    measured = float(re.search(r"Measured, at least: ε ≥ ([^; ]+)", page.text)[1])
    assert measured <= verdict.bound.epsilon * (1 + 1e-8)
    claimed = re.search(r"Claimed: ε = ([^; ]+)", page.text)[1]
    claimed = float(claimed.removesuffix(".").replace("∞", "inf"))
    assert claimed >= float(verdict.claim.epsilon(verdict.bound.delta)) * (1 - 1e-8)


@pytest.mark.parametrize("name", ["refuted", "one run", "failing trials", "pure"])
def test_no_score_is_in_the_file(name):
    """Rates, counts and round edges only: a score may be an output of the mechanism itself."""
    verdict = CASES[name]()
    data = audit_report(verdict).data["audits"][0]
    listed = {x for x in _numbers(data) if x not in (0, 1)}
    assert len(listed) > 100
    assert not listed & {float(f"{x:.6g}") for x in verdict.evidence.scores[:1000]}


def _numbers(data):
    if isinstance(data, dict | list):
        for part in data.values() if isinstance(data, dict) else data:
            yield from _numbers(part)
    elif isinstance(data, float):
        yield data


def test_whatever_users_write_is_text():
    evil = replace(
        CASES["standing"](),
        claim=ApproxDP(1.0, 1e-5, method=EVIL, assumptions=(EVIL,)),
        attack=EVIL,
        ended=EVIL,
        replay=EVIL,
        evidence=Evidence(np.array([0, 1]), np.array([0.0, 1.0]), run=EVIL),
    )
    evil = replace(evil, bound=replace(evil.bound, method=EVIL, assumption=EVIL, selection=EVIL))
    fields = ("target", "data", "unit", "view", "code", "contact", "date")
    report = audit_report(
        evil,
        title=EVIL,
        disclosure=Disclosure(**dict.fromkeys(fields, EVIL)),
        command=EVIL,
        versions={EVIL: EVIL},
    )
    text = join_reports([report], title=EVIL, introduction=EVIL).html()
    page = Page(text)
    assert page.faults == []
    assert "<script" not in text
    assert page.text.count("<script>alert(1)</script>") > 15


def test_long_texts_do_not_make_long_pages():
    report = audit_report(CASES["standing"](), title="t" * 10**6, command="c" * 10**6)
    assert len(report.html()) < LIMIT


def test_a_report_of_version_1_is_read():
    """A file that version 0.1.0 wrote, its curves thinned; what it did not know stays unsaid."""
    report = load_report(Path(__file__).with_name("version_1.json"))
    kinds = [audit["verdict"]["kind"] for audit in report.data["audits"]]
    assert kinds == ["many trials", "one run"]
    assert [audit["verdict"]["trials"] for audit in report.data["audits"]] == [60 + 50, 1 + 50]
    assert all(audit["verdict"]["power"] is None for audit in report.data["audits"])
    assert all(audit["verdict"]["n_deaths"] is None for audit in report.data["audits"])
    page = Page(report.html())
    assert page.faults == []
    assert "In 60 trials the attack did not refute" in page.text


def test_the_page_shows_power_fall_and_next_step():
    """All that an audit itself says of its verdict; nothing here is made by hand."""
    options = {"score": float, "trials": 120}
    found = audit(lambda x, rng: x + rng.laplace(scale=0.2), (1.0, 0.0), claim="1", **options)
    page = Page(audit_report(found).html())
    assert f"It fell at ε = {found.fell_at.epsilon:.4g}" in page.text
    assert f"Next: {found.next_step}" in page.text
    assert f"{found.power.auc:.3f} (about" in page.text
    data = audit_report(found).data["audits"][0]["verdict"]
    assert data["power"]["auc"] == found.power.auc
    assert data["fell_at"]["delta_seen"] == found.fell_at.delta_seen


def test_the_page_says_what_learned_and_who_died():
    options = {"claim": "1", "trials": 120, "sequential": False}
    learned = audit(lambda x, rng: x + rng.laplace(), (1.0, 0.0), **options)
    assert (learned.trials, learned.n_learning, learned.n_counted) == (120, 60, 60)
    text = Page(audit_report(learned).html()).text
    assert "60 trials, which do not count" in text
    assert "In 60 trials the attack" in text
    for seed, said in ((7, "were played again"), (None, "cannot be replayed, count as failed")):
        evidence = replace(learned.evidence, seed=seed)
        page = Page(audit_report(replace(learned, n_deaths=3, evidence=evidence)).html())
        assert f"3; their trials{',' if seed is None else ''} " in page.text
        assert said in page.text


def test_several_audits_on_one_page():
    names = ("refuted", "standing", "one run")
    reports = [audit_report(CASES[name](), title=f"The case {name}") for name in names]
    joined = join_reports(reports, title="All", introduction="Three\n\nof them")
    page = Page(joined.html())
    assert page.faults == []
    assert page.headings[:3] == [1, 2, 3]
    assert all(f"The case {name}" in page.text for name in names)
    assert joined.html() == Report(json.loads(json.dumps(joined.data))).html()
    with pytest.raises(InvalidArgument, match="reports is empty"):
        join_reports([], title="none")


def test_a_crowd_of_audits_stays_small():
    """Figures are left out rather than the limit exceeded, and the page says so."""
    report = audit_report(CASES["standing"]())
    page = join_reports([report] * 8, title="Many").html()
    assert len(page.encode()) < LIMIT
    assert "figures are left out" in page
    assert Page(page).faults == []


@pytest.mark.parametrize("path", ["r.txt", "r", "html"])
def test_the_ending_is_asked_for(path, tmp_path):
    with pytest.raises(InvalidArgument, match=r"must end in \.html"):
        write_report(audit_report(CASES["one trial"]()), tmp_path / path)


def test_a_path_that_cannot_be_written(tmp_path):
    report = audit_report(CASES["one trial"]())
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        write_report(report, tmp_path / "file" / "r.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InvalidArgument, match="cannot be written"):
        write_report(report, tmp_path / "folder.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder.html"]


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), InvalidArgument),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
@pytest.mark.parametrize("at", [1, 2])
def test_half_a_file_is_never_seen(tmp_path, monkeypatch, raised, seen, at):
    """A full disk or Ctrl-C at either file: the old pair stands and nothing else is left."""
    before = write_report(audit_report(CASES["one trial"]()), tmp_path / "r.html")
    kept = [file.read_bytes() for file in before]
    calls = []

    def fail(descriptor):
        calls.append(descriptor)
        if len(calls) == at:
            raise raised

    monkeypatch.setattr(_files.os, "fsync", fail)
    with pytest.raises(seen):
        write_report(audit_report(CASES["constant scores"]()), tmp_path / "r.html")
    assert [file.read_bytes() for file in before] == kept
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a report"),
        ('{"schema": "other"}', "is not a report"),
        ('{"schema": "dpassay-report", "schema_version": 99}', "schema_version 99"),
        ('{"schema": "dpassay-report", "schema_version": 2}', "it has no title"),
        ('{"schema": "dpassay-report", "schema_version": 1}', "audits is not a list"),
        ('{"schema": "dpassay-report", "schema_version": 1, "audits": [1]}', "not a mapping"),
    ],
)
def test_files_that_are_no_reports(tmp_path, text, message):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        load_report(path)
    with pytest.raises(InvalidArgument, match="is not a file"):
        load_report(tmp_path / "none.json")


def test_what_is_no_verdict_is_refused():
    with pytest.raises(InvalidArgument, match="verdict="):
        audit_report("refuted")
    with pytest.raises(InvalidArgument, match="proof="):
        audit_report(CASES["one trial"](), proof=1.0)
    with pytest.raises(InvalidArgument, match="disclosure="):
        audit_report(CASES["one trial"](), disclosure={"unit": "person"})


def test_an_infinite_number_is_read_back():
    report = audit_report(CASES["pure inf"]())
    epsilon = report.data["audits"][0]["epsilon"]
    assert epsilon["claimed"] == "inf"
    assert float(epsilon["claimed"]) == math.inf
    assert epsilon["proved_upper"] is None


def test_a_proof_stands_beside_the_claim():
    verdict = CASES["standing"]()
    page = Page(audit_report(verdict, proof=PureDP(0.75, method="by hand")).html())
    proved = float(re.search(r"Proved, at most: ε ≤ ([^; ]+)", page.text)[1])
    assert 0.7499 < proved <= 0.75  # at delta = 1e-5
    assert "by hand (PureDP(epsilon=0.75))" in page.text
    assert "no proof was given" in Page(audit_report(verdict).html()).text


def test_a_verdict_is_not_yet_a_report(tmp_path):
    with pytest.raises(InvalidArgument, match="must be a Report: pass audit_report"):
        write_report(CASES["one trial"](), tmp_path / "r.html")
    assert not list(tmp_path.iterdir())
