"""What CONTRIBUTING.md says of the code is true: files exist, lists are short, one version."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import dpassay

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PARTS = re.compile(r"^\*\*(.+?)\*\*(.*?)(?=^\*\*|\Z)", re.MULTILINE | re.DOTALL)
ADDING = dict(PARTS.findall(SECTIONS["How to add something"]))
WANTED = (
    "A mechanism.",
    "An accounting method.",
    "A membership attack.",
    "A synthesizer.",
    "An adapter",
    "A section of the report.",
    "A figure of a source.",
)
PUBLIC = [
    path
    for path in sorted((ROOT / "src").rglob("__init__.py"))
    if not path.parent.name.startswith("_") and path.read_text()
]
PUBLIC += [ROOT / "src" / "dpassay" / f"{name}.py" for name in ("datasets", "errors", "types")]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:src|tests|docs)/[\w./]+)`", PAGE))))
def test_every_file_exists(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("what", WANTED)
def test_what_can_be_added_takes_three_files_at_most(what):
    assert 1 <= len(re.findall(r"^\d+\. ", ADDING[what], re.MULTILINE)) <= 3


def test_the_walk_of_an_audit_has_eighteen_files_at_most():
    walk = re.findall(r"^\d+\. `(src/[\w./]+)`", SECTIONS["The walk of an audit"], re.MULTILINE)
    assert 10 < len(walk) == len(set(walk)) <= 18
    assert walk[0].endswith("cli/audit.py")
    assert walk[-1].endswith("report/page.py")


def imports_of(path):
    """The modules that a file imports, anywhere, and "module.name" of every name taken of one."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_the_walk_of_an_audit_never_turns_back():
    walk = re.findall(r"^\d+\. `(src/[\w./]+)`", SECTIONS["The walk of an audit"], re.MULTILINE)
    names = [path.removeprefix("src/").removesuffix(".py").replace("/", ".") for path in walk]
    words = {"dpassay.auditing.claims", "dpassay.types"}  # what things are, for all that follows
    assert words < set(names)
    onward = 0
    for place, (path, name) in enumerate(zip(walk, names, strict=True)):
        imported = set(imports_of(path))
        assert not imported & (set(names[:place]) - words), f"{name} turns back"
        assert name not in words or not imported & (set(names) - words)
        onward += bool(imported & set(names[place + 1 :]))
    assert onward >= 10, "imports are found at all"


def test_the_version_is_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    path = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{dpassay.__version__}"' in path.read_text()
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)


def test_workflows_run_the_make_targets_on_every_supported_version():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert {"make lint", "make test"} <= set(re.findall(r"- run: (.+)", text))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert len(supported) >= 3
    for listed in re.findall(r"python: \[(.*)\]", text):
        assert re.findall(r'"(3\.\d+)"', listed) == supported


@pytest.mark.parametrize("path", PUBLIC, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_public_place_says_what_is_public(path):
    assert re.search(r"^__all__\b", path.read_text(), re.MULTILINE)
