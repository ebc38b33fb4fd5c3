"""Pages in a real browser: nothing fetched, nothing said, nothing cut, and they can be printed."""

import re

import numpy as np
import pytest

from dpassay.privacy import ApproxDP
from dpassay.report import Disclosure, audit_report, join_reports, write_report
from extras import needs_program
from report.browser import PROGRAM, Page, chromium
from report.verdicts import CASES

SHOWN = ("refuted", "standing", "one run", "pld", "failing trials", "epsilon inf", "several")
WIDTHS = (1280, 768, 400)
SEEN = """
(() => {
  const boxes = [...document.querySelectorAll("figure svg[role=img]")].map((svg) => {
    const box = svg.getBoundingClientRect();
    return [box.left, box.width, box.height];
  });
  const edge = document.documentElement.clientWidth;
  const texts = [...document.querySelectorAll(".bar text")].map((t) => t.getBoundingClientRect());
  const wide = [...document.querySelectorAll("body *")]
    .filter((e) => !e.closest("svg") && e.getBoundingClientRect().right > edge + 1)
    .map((e) => e.tagName);
  return {boxes, edge, wide, cut: texts.filter((box) => box.right > edge).length,
          scroll: document.documentElement.scrollWidth};
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    needs_program(PROGRAM or "chromium")
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of each kind, long names included."""
    folder = tmp_path_factory.mktemp("pages")
    said = Disclosure(
        unit="person", code="https://example.org/" + "a" * 120, target="w" * 90, noise="exact"
    )
    proof = ApproxDP(2.0, 1e-6)
    reports = {
        name: audit_report(CASES[name](), title=f"Audit: {name}", proof=proof, disclosure=said)
        for name in SHOWN[:-1]
    }
    reports["several"] = join_reports([reports[name] for name in SHOWN[:2]], title="Several")
    for name, report in reports.items():
        write_report(report, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in SHOWN}


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_in_a_browser(browser, pages, name):
    page = Page(browser, pages[name], WIDTHS[0])
    try:
        for width in WIDTHS:
            page.resize(width)
            seen = page.evaluate(SEEN)
            assert seen["scroll"] <= width
            assert (seen["wide"], seen["cut"]) == ([], 0)
            boxes = np.array(seen["boxes"])
            assert len(boxes) >= 6
            assert boxes[:, 1:].min() > 100
            assert (boxes[:, 0] + boxes[:, 1]).max() <= seen["edge"] + 1
        assert page.requests() == [pages[name].resolve().as_uri()]
        assert page.complaints() == []
        assert page.evaluate("document.scripts.length") == 0
        sheets = re.findall(rb"/Type\s*/Page\b(?!s)", page.pdf())
        assert 3 <= len(sheets) <= (16 if name == "several" else 8)
    finally:
        page.close()


def test_what_a_page_does_wrong_is_noticed(browser, tmp_path):
    """The same eyes on a page that fetches, complains and is too wide."""
    path = tmp_path / "bad.html"
    path.write_text(
        '<html><body><img src="http://127.0.0.1:9/x.png"><script>console.error("no")</script>'
        '<div style="width: 3000px">wide</div></body></html>'
    )
    page = Page(browser, path, 1280)
    try:
        seen = page.evaluate(SEEN)
        assert seen["scroll"] > 1280
        assert seen["wide"] == ["DIV"]
        assert "http://127.0.0.1:9/x.png" in page.requests()
        assert page.complaints()
    finally:
        page.close()


def test_a_page_of_ours_could_not_fetch_if_it_would(browser, pages, tmp_path):
    """Its own policy forbids it: what someone smuggles in stays dead."""
    text = pages["standing"].read_text(encoding="utf-8")
    smuggled = '<img src="http://127.0.0.1:9/x.png"><script>document.title = "run"</script></body>'
    path = tmp_path / "smuggled.html"
    path.write_text(text.replace("</body>", smuggled), encoding="utf-8")
    page = Page(browser, path, 1280)
    try:
        assert page.evaluate("document.title") == "Audit: standing"
        reasons = [e["params"] for e in browser.events if e["method"] == "Network.loadingFailed"]
        assert all(r.get("blockedReason") == "csp" for r in reasons)
        assert len(page.complaints()) >= 2
    finally:
        page.close()
