"""The page of source items is what its table says, names what there is, and leaves nothing out."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from dpassay.cli import app
from dpassay_reproduce import EXPERIMENTS, thesis

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def items():
    spec = importlib.util.spec_from_file_location("items", ROOT / "docs" / "source_items.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_written_by_its_table(items):
    assert items.PAGE.read_text(encoding="utf-8") == items.write_page()


def test_rows_name_what_there_is(items):
    commands = {command.name for command in app.registered_commands}
    for rows in items.DOCUMENTS.values():
        for item, where, test, state in rows:
            assert state in items.STATES, item
            assert (ROOT / test).exists(), (item, test)
            if where.startswith("dpassay "):
                _check_command(where.split()[1:], commands)
            else:
                _find(where)


def _check_command(words, commands):
    if words[0] != "reproduce":
        assert words[0] in commands, words
        return
    assert words[1] in EXPERIMENTS, words
    if "--figure" in words:
        assert words[-1] in thesis.figures(), words


def _find(name):
    """Import as much of a dotted name as is a module, and look up the rest."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def numbers(rows, word):
    """The numbers that stand after a word, or its plural, in the items."""
    found = set()
    for item, *_ in rows:
        for text in re.findall(rf"(?i)\b{word}s?((?: ?,? ?\d+(?:\.\d+)?)+)", item):
            found |= set(re.findall(r"\d+(?:\.\d+)?", text))
    return found


def test_nothing_of_the_thesis_is_left_out(items):
    """Statements are numbered through from 1 to 56; figures and tables by chapter."""
    rows = items.MICALI
    words = ("definition", "theorem", "lemma", "proposition", "corollary")
    seen = set().union(*(numbers(rows, word) for word in words)) | numbers(rows, "corollarie")
    assert {str(k) for k in range(1, 57)} <= seen
    assert {str(k) for k in range(1, 8)} <= numbers(rows, "algorithm")
    figures = {f"4.{k}" for k in range(1, 26)} | {"1", "2", "1.1", "1.2", "1.3"}
    assert figures <= numbers(rows, "figure")
    assert {"1", "3.1", "3.2", "5.1"} <= numbers(rows, "table")


def test_nothing_of_the_others_is_left_out(items):
    questions = " ".join(item for item, *_ in items.HW3)
    asked = [f"1.{k}" for k in range(1, 8)] + [f"2.{k}" for k in range(1, 4)]
    assert all(f"Q{q}" in questions for q in asked)
    lecture = " ".join(item for item, *_ in items.WANG)
    assert all(f"12.{k}" in lecture for k in range(1, 8))
    notes = " ".join(item for item, *_ in items.NASR)
    assert all(f"{k} " in notes for k in range(1, 7))
    slides = " ".join(item for item, *_ in items.SLIDES)
    for name in ("Theorem 3.4", "Theorem 4.2", "Corollary 5.4", "2.5 and 2.12", "Debugging"):
        assert name in slides
