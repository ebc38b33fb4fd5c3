"""Every source that is cited is on the page of sources, and none is cited by a number of ours."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    path
    for folder in ("src", "docs", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md") and "_build" not in path.parts
)
NAME = r"(?:O')?[A-Z][\w-]*[a-zé]"
# A surname, perhaps others or "et al.", and a year: "Dong, Roth and Su 2022", "Smyth (2004)".
CITED = re.compile(
    rf"\b({NAME})(?:(?:, (?:Guha )?{NAME})*(?:,? and (?:De )?{NAME})?| et al\.)?"
    r"\s\(?((?:19|20)\d\d)\b"
)
NO_NAMES = {"On", "False", "True", "The", "SP", "Date", "Python"}


def keys():
    page = (ROOT / "docs" / "references.md").read_text()
    return [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]


def test_the_keys_are_unique_and_sorted():
    listed = [key for key in keys() if key != "key"]
    assert len(listed) == len(set(listed)) > 90
    assert listed[5:] == sorted(listed[5:], key=str.lower)


@pytest.mark.parametrize("folder", ["dpassay", "dpassay_reproduce"])
def test_what_the_code_cites_is_listed(folder):
    known = {" ".join(key.split()[:1] + key.split()[-1:]).removesuffix("b") for key in keys()}
    cited = set()
    for path in FILES:
        if path.is_relative_to(ROOT / "src" / folder):
            text = re.sub(r"\s+(?:# )?", " ", path.read_text())
            cited |= {f"{name} {year}" for name, year in CITED.findall(text)}
    missing = sorted(c for c in cited - known if c.split()[0] not in NO_NAMES)
    assert len(cited) > 3
    assert not missing, f"add to docs/references.md: {missing}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_sources_are_cited_by_name(path):
    numbered = re.search(r"\bdocuments? 0{2}\d", path.read_text(), re.IGNORECASE)
    assert not numbered, numbered
