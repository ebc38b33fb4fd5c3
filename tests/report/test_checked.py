"""A check on a page of its own, and as a section of the report of an audit."""

import json

import numpy as np
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.report import audit_report, load_report, write_report
from dpassay.report.checked import check_page
from report.markup import Page
from report.verdicts import CASES

SECTION = "What a check of the code found"
SECRET = 0.4197253


def release(x, rng):
    return np.clip(x, 0, 1).sum() + rng.laplace(scale=0.5)  # half of the noise


@pytest.fixture(scope="module")
def found():
    return da.check(release, np.linspace(0, 1, 8) * SECRET, "1", limit=6)


@pytest.fixture(scope="module")
def verdict():
    return CASES["refuted"]()


def test_a_check_is_a_section_of_the_report(found, verdict, tmp_path):
    report = audit_report(verdict, check=found)
    Page(report.html())
    assert SECTION in report.html()
    assert "DPA202" in report.html()
    assert "rng.laplace(scale=0.5)" in report.html()
    files = write_report(report, tmp_path / "page.html")
    assert load_report(files[1]).html() == report.html()
    assert str(SECRET) not in files[1].read_text()


def test_without_a_check_there_is_no_such_section(verdict):
    assert SECTION not in audit_report(verdict).html()


def test_a_section_that_is_not_whole_is_refused(found, verdict, tmp_path):
    path = write_report(audit_report(verdict, check=found), tmp_path / "page.html")[1]
    data = json.loads(path.read_text())
    del data["audits"][0]["check"]["findings"][0]["rule"]
    path.write_text(json.dumps(data))
    with pytest.raises(InvalidArgument, match="rule"):
        load_report(path)


def test_a_check_must_be_one(verdict):
    with pytest.raises(InvalidArgument, match="check"):
        audit_report(verdict, check="broken")


def test_the_page_of_a_check(found):
    page = check_page(found)
    Page(page)
    assert "Broken: the noise protects less than the claim says (DPA202)" in page
    assert str(SECRET) not in page
