"""Which files a Python script consists of: itself and the modules beside it that it imports."""

import ast
from collections.abc import Iterator
from pathlib import Path

from dpassay.errors import InvalidArgument


def local_modules(script: Path) -> tuple[Path, ...]:
    """The files beside a script that it imports, and those that they import, in a fixed order.

    Imports are read, not run; those by name (``importlib``) are not seen.

    Raises:
        InvalidArgument: a file is no Python.

    """
    found: set[Path] = set()
    root, todo = script.parent, [script]
    while todo:
        for name in _imports(todo.pop(), root):
            new = set(_files(root, name)) - found - {script}
            found |= new
            todo += new
    return tuple(sorted(found))


def _imports(file: Path, root: Path) -> Iterator[str]:
    """The dotted names that a file may import, seen from the folder of the script."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise InvalidArgument(f"{str(file)!r} is no Python: {error}.") from None
    package = file.relative_to(root).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _files(root: Path, name: str) -> Iterator[Path]:
    """The files that importing a name would run, as far as they lie in the folder."""
    parts = name.split(".")
    if parts[0] == "dpassay":
        return  # It knows itself by its version.
    for depth in range(1, len(parts) + 1):
        here = root.joinpath(*parts[:depth])
        for file in (here / "__init__.py", here.parent / f"{here.name}.py"):
            if file.is_file():
                yield file
