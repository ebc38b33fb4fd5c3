"""Types reach the user: what pyright says to a script; lazy names and typed imports agree."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import dpassay

SCRIPTS = Path(__file__).parent / "typing"
SOURCE = Path(dpassay.__file__).parent
LAZY = sorted(
    path for path in SOURCE.rglob("__init__.py") if "lazily(__name__, " in path.read_text()
)


@pytest.fixture(scope="module")
def complaints():
    """The lines that pyright finds wrong, by script; as for a user, dpassay is a library."""
    files = [str(SCRIPTS / name) for name in ("right.py", "wrong.py")]
    command = [sys.executable, "-m", "pyright", "--outputjson", *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=SOURCE.parents[1])
    found = {"right.py": {}, "wrong.py": {}}
    for item in json.loads(done.stdout)["generalDiagnostics"]:
        if item["severity"] == "error":
            line = item["range"]["start"]["line"] + 1
            found[Path(item["file"]).name][line] = item["message"]
    return found


def test_right_calls_pass(complaints):
    assert complaints["right.py"] == {}


def test_every_wrong_call_is_seen_on_its_line(complaints):
    lines = (SCRIPTS / "wrong.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "# wrong" in line}
    assert len(marked) >= 20
    assert set(complaints["wrong.py"]) == marked


def typed_imports(path):
    """Name to module, of what a package imports for type checkers only."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                found |= {alias.name: line.module for alias in line.names}
    return found


def test_lazy_packages_are_found():
    assert len(LAZY) >= 9


@pytest.mark.parametrize("path", LAZY, ids=lambda p: p.parent.name)
def test_lazy_names_and_typed_imports_agree(path):
    package = ".".join(path.parent.relative_to(SOURCE.parent).parts)
    module = importlib.import_module(package)
    lazy = dict(module._PUBLIC)
    lazy |= getattr(module, "_MODULES", {})
    typed = {  # a module is imported from the package that it stands in
        name: f"{place}.{name}" if lazy.get(name) == f"{place}.{name}" else place
        for name, place in typed_imports(path).items()
    }
    assert typed == lazy
    assert set(lazy) <= set(module.__all__) <= {*lazy, *vars(module)}


def test_a_name_that_has_moved_works_and_warns():
    import dpassay_reproduce

    with pytest.warns(DeprecationWarning, match="dpassay.reproduce is now dpassay_reproduce"):
        assert dpassay.reproduce is dpassay_reproduce


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("dpassay.attacks", "tuned_offline_slope", "tune_offline_slope"),
        ("dpassay.optim.frank_wolfe", "calibrated_selection", "calibrate_selection"),
        ("dpassay.runs", "replayed", "read_run"),
    ],
)
def test_a_function_that_became_a_verb_keeps_its_old_name(module, old, new):
    place = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {module}.{new}"):
        assert getattr(place, old) is getattr(place, new)
