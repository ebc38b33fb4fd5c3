"""Who may import whom (a folder imports only what stands to its left), and what start-up costs."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dpassay

ROOT = Path(dpassay.__file__).parent
NEXT_DOOR = ROOT.with_name("dpassay_reproduce")
LEAVES = {
    "_conditions",
    "errors",
    "_check",
    "_files",
    "_handed",
    "_lazy",
    "_records",
    "_rng",
    "_scratch",
    "_special",
    "_threads",
    "types",
}
# Each part may import the leaves, what is listed, and itself.
LEFT_OF = {
    "privacy": set(),
    "mechanisms": {"privacy"},
    "optim": {"privacy", "mechanisms"},
    "learn": {"privacy", "mechanisms", "optim"},
    "synth": {"privacy", "mechanisms", "optim"},
    "nets": {"privacy", "mechanisms", "optim"},
    "runs": set(),
    "bounds": {"privacy"},
    "replay": {"privacy"},
    "attacks": {"privacy", "mechanisms", "runs", "bounds"},
    "probe": {"canaries"},  # for type checkers; imported when ``probe.optimizer`` is called
    "auditing": {"privacy", "mechanisms", "runs", "bounds", "replay", "attacks", "probe"},
    "adversaries": {
        "privacy",
        "mechanisms",
        "optim",
        "nets",
        "runs",
        "bounds",
        "attacks",
        "probe",
        "auditing",
    },
    "canaries": {
        "privacy",
        "mechanisms",
        "optim",
        "nets",
        "runs",
        "bounds",
        "attacks",
        "probe",
        "auditing",
    },
    "zoo": {"privacy", "mechanisms", "runs", "bounds", "attacks", "adversaries", "auditing"},
    "report": {"privacy", "bounds", "auditing"},
}
ALLOWED = {part: LEAVES | left for part, left in LEFT_OF.items()} | {
    "errors": set(),
    "_check": {"errors"},
    "_conditions": {"errors", "types"},
    "_handed": {"errors", "_files"},
    "_rng": {"errors"},
    "_files": {"errors", "_scratch"},
    "_lazy": set(),
    "_records": set(),
    "_scratch": set(),
    "_special": set(),
    "_threads": set(),
    "_card": set(),
    "types": {"_card", "_check", "_special", "errors"},
    "datasets": {"errors", "types", "_rng"},
    "cli": LEAVES | set(LEFT_OF),
    "__main__": {"cli"},
}
HEAVY = (
    "scipy",
    "sklearn",
    "pandas",
    "matplotlib",
    "dp_accounting",
    "opendp",
    "jax",
    "torch",
    "dask",
)


def modules():
    return sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def imported_parts(path):
    """The parts of dpassay that a file imports anywhere, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpassay"):
            rest = node.module.split(".")[1:]
            yield from [rest[0]] if rest else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "dpassay" and len(parts) > 1:
                    yield parts[1]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_to_the_left(path):
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert part in ALLOWED, f"{part} has no place in the architecture; add it to ALLOWED"
    strangers = set(imported_parts(path)) - ALLOWED[part] - {part, "__version__"}
    assert not strangers, f"{part} must not import {sorted(strangers)}"


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path, known):
    """The modules of ``known`` that a file imports anywhere, also inside functions.

    Not what is imported for type checkers alone, nor what a package imports lazily by name.
    """
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & known
            yield from inner
            if len(inner) < len(node.names) and node.module in known:
                yield node.module
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & known


def loops(graph):
    """The sets of two and more nodes that reach each other (Tarjan 1972), and loops of one."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph[node]:
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1 or node in graph[node]:
                found.append(sorted(part))

    for node in graph:
        if node not in order:
            visit(node)
    return found


def test_loops_are_found():
    assert loops({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["b", "c"], ["d"]]
    assert loops({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("package", [ROOT, NEXT_DOOR], ids=lambda p: p.name)
def test_no_module_imports_itself_through_others(package):
    paths = {module_name(path): path for path in sorted(package.rglob("*.py"))}
    graph = {name: set(imported_modules(path, set(paths))) for name, path in paths.items()}
    assert sum(map(len, graph.values())) > 30, "imports are found at all"
    assert loops(graph) == []


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_knows_the_experiments_next_door(path):
    """They import dpassay; it finds them by an entry point, and has no word for what they need."""
    text = path.read_text()
    if path != ROOT / "cli" / "plugins.py":
        assert "dpassay_reproduce" not in text
    assert not re.search("thesis", text, re.IGNORECASE)
    for node in ast.walk(ast.parse(text)):
        assert not (isinstance(node, ast.arg) and node.arg == "literal")
        assert not (isinstance(node, ast.Constant) and node.value == "literal")


def test_the_command_next_door_is_an_entry_point():
    """And the way to it without an installation leads to the same place."""
    from dpassay.cli import plugins

    declared = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]
    offered = declared["entry-points"][plugins.GROUP]
    assert offered == {name: f"{place}:register" for name, place in plugins._NEXT_DOOR.items()}
    for place in offered.values():
        module, name = place.split(":")
        assert (NEXT_DOOR.parent / f"{module.replace('.', '/')}.py").exists()
        assert name == "register"


def test_a_command_that_cannot_be_loaded_is_named_and_the_others_work(monkeypatch, capsys):
    from dpassay.cli import plugins

    def load():
        raise ImportError("no such part")

    added = []
    offered = {"broken": load, "whole": lambda: added.append}
    monkeypatch.setattr(plugins, "_find_offers", lambda: offered)
    plugins.register_plugins("the program")
    assert added == ["the program"]
    assert "'broken' could not be loaded: no such part" in capsys.readouterr().err


def loaded_after(statement):
    code = f"import sys; {statement}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_nothing_heavy():
    assert not loaded_after("import dpassay") & set(HEAVY)


def test_curves_do_not_load_the_accountants():
    loaded = loaded_after("import dpassay as da; da.GDP(mu=1.0).epsilon(1e-5)")
    assert not loaded & {"dp_accounting", "sklearn", "pandas", "matplotlib", "opendp"}


@pytest.mark.parametrize("name", dpassay.__all__)
def test_public_names_exist(name):
    assert getattr(dpassay, name) is not None


def test_unknown_name():
    with pytest.raises(AttributeError, match="nonsense"):
        dpassay.nonsense  # noqa: B018
