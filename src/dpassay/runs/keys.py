"""The key of a run: a hash of everything that its outcomes depend on.

Two runs with the same key share their trials, so the key must change with the configuration, with
the code of the target, with the data and with the version of dpassay. It must not change from
process to process or from machine to machine, or nothing could be resumed.

How things enter:

- numbers, texts, containers, arrays and tables by value (arrays: type, shape and bytes);
- functions and classes of the user by source text, with the values of defaults and closures and
  what they use of their module: functions, classes and values likewise, modules by the text of
  their file and of the user's modules that they import. If something used there has no fingerprint
  (a lock, an open file), the text of the file stands in;
- what belongs to an installed package by its name and the version of the package;
- functions without source text, and lambdas (several may share a line), by bytecode: such a key
  holds for one version of Python;
- other objects by what pickle would keep of them; what cannot be pickled is refused.

Modules that a function imports inside itself are not followed: pass them, or their files, as code.
"""

import contextlib
import copyreg
import dataclasses
import hashlib
import inspect
import os
import sys
import sysconfig
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

import dpassay
from dpassay._records import as_array
from dpassay.errors import InvalidArgument, describe_shortly

# What kind of thing it is, and what it consists of.
Parts = tuple[str, list[bytes] | list[bytes | memoryview]]


def run_key(configuration: Mapping[str, Any], *, code: Iterable[Any] = (), data: Any = ()) -> str:
    """The key of a run, 64 hexadecimal digits, from everything that its outcomes depend on.

    Args:
        configuration: settings by name; not the number of trials, so that a run can be extended.
        code: what is played (functions, classes, objects), and paths of files it comes from.
        data: arrays, tables, containers of them, and paths of files (``pathlib.Path``).

    Raises:
        InvalidArgument: something has no fingerprint; the message says what and where.

    >>> run_key({"seed": 1}) == run_key({"seed": 1}), run_key({"seed": 1}) == run_key({"seed": 2})
    (True, False)

    """
    sources = [Path(item) if isinstance(item, str) else item for item in code]
    parts = [
        dpassay.__version__,
        _Walk().hash("configuration", dict(configuration)),
        _Walk(read_files=True).hash("code", sources),
        _Walk(read_files=True).hash("data", data),
    ]
    return fingerprint(parts)


def fingerprint(value: Any) -> str:
    """A hash of a value, 64 hexadecimal digits, the same in every process.

    Raises:
        InvalidArgument: it, or something in it, has no fingerprint.

    """
    return _Walk().hash("value", value)


class _NoFingerprint(InvalidArgument):
    """A value cannot be told from others reliably."""


class _Walk:
    """A walk through a value and all it consists of."""

    def __init__(self, read_files: bool = False) -> None:
        self._read_files = read_files
        # Hashes by id, with the object itself so that its id stays its own.
        self._known: dict[int, tuple[str, Any]] = {}
        self._inside: list[int] = []  # what is being described, outermost first

    def hash(self, where: str, value: Any) -> str:
        """The hash of a value; ``where`` is its place in error messages."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, _ATOMS):
            return _digest(type(value).__name__, [_atom(value)])
        if id(value) in self._inside:  # It holds itself: say how far up.
            return _digest("inside", [b"%d" % (len(self._inside) - self._inside.index(id(value)))])
        if id(value) not in self._known:
            self._known[id(value)] = self._describe(where, value), value
        return self._known[id(value)][0]

    def _describe(self, where: str, value: Any) -> str:
        self._inside.append(id(value))
        try:
            describe = next((name for kind, name in _KINDS if isinstance(value, kind)), "_other")
            return _digest(*getattr(self, describe)(where, value))
        finally:
            self._inside.pop()

    def _each(self, where: str, values: Iterable[Any]) -> list[bytes]:
        return [self.hash(where, value).encode() for value in values]

    # ----------------------------------------------------------------- values

    def _list(self, where: str, value: Any) -> Parts:
        return "list", [self.hash(f"{where}[{i}]", item).encode() for i, item in enumerate(value)]

    def _set(self, where: str, value: Any) -> Parts:
        return "set", sorted(self._each(where, value))

    def _dict(self, where: str, value: Any) -> Parts:
        pairs = ([key, self.hash(f"{where}[{key!r}]", item)] for key, item in value.items())
        return "dict", sorted(self._each(where, pairs))

    def _array(self, where: str, value: Any) -> Parts:
        head = repr((value.dtype.descr, value.shape)).encode()
        if value.dtype.hasobject:
            return "array", [head, *self._each(where, value.ravel().tolist())]
        # Little-endian bytes everywhere, so that machines agree.
        plain = value.astype(value.dtype.newbyteorder("<"), copy=False)
        head = repr((plain.dtype.descr, plain.shape)).encode()
        return "array", [head, np.ascontiguousarray(plain).reshape(-1).view(np.uint8).data]

    def _path(self, where: str, value: Any) -> Parts:
        if not self._read_files:
            return "path", [value.as_posix().encode()]
        try:
            return "file", [_content(Path(value))]
        except OSError as error:
            raise InvalidArgument(
                f"{where}={str(value)!r} cannot be read ({error.strerror}). "
                "Give the path of a file, or the object itself."
            ) from error

    def _other(self, where: str, value: Any) -> Parts:
        if callable(wrapped := getattr(value, "__wrapped__", None)):  # a cache, a compiled function
            return type(value).__qualname__, self._each(where, [wrapped])
        if hasattr(value, "columns") and hasattr(value, "index"):  # a table
            names = list(value.columns)
            parts = [value.index, names, *(value.iloc[:, i] for i in range(len(names)))]
            return "table", self._each(where, parts)
        typed = isinstance(value, types.GenericAlias)  # NDArray[...]: it has all names of an array
        if hasattr(value, "__array__") and not typed:  # a column of a table, a tensor
            return "array", self._each(where, [as_array(value)])
        return self._pickle(where, value)

    def _pickle(self, where: str, value: Any) -> Parts:
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            made = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception as error:
            raise _NoFingerprint(
                f"{where}: a {type(value).__qualname__} has no fingerprint "
                f"({describe_shortly(error)}). Pass what makes it up: numbers, texts, arrays, "
                "functions, or the path of a file."
            ) from None
        if isinstance(made, str):  # a name in a module
            return "name", [_release(getattr(value, "__module__", None) or ""), made.encode()]
        parts = [list(part) if isinstance(part, Iterator) else part for part in made]
        return "object", self._each(where, parts)

    # ----------------------------------------------------------------- code

    def _module(self, where: str, value: Any) -> Parts:
        file = getattr(value, "__file__", None)
        if file is None or _is_installed(file):
            return "module", [_release(value.__name__)]
        own = (v for _, v in sorted(vars(value).items()) if isinstance(v, types.ModuleType))
        return "module", [_content(Path(file)), *self._each(where, own)]

    def _function(self, where: str, value: Any) -> Parts:
        if _is_installed(value.__code__.co_filename):
            name = [_release(value.__module__ or ""), value.__qualname__.encode()]
            return "name", name + self._each(where, _find_wrapped(value))
        here = f"{where}, in {value.__qualname__}()"
        parts = [_code(value.__code__)]
        parts += self._each(here, [value.__defaults__, value.__kwdefaults__])
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        for name, cell in cells:
            parts += [name.encode(), self._cell(f"{here}, {name}", cell)]
        for name in sorted(_names(value.__code__) & value.__globals__.keys()):
            parts += [name.encode(), self._global(f"{here}, {name}", name, value.__globals__)]
        return "function", parts

    def _cell(self, where: str, cell: Any) -> bytes:
        try:
            content = cell.cell_contents
        except ValueError:
            return b"no value yet"
        return self.hash(where, content).encode()

    def _global(self, where: str, name: str, namespace: dict[str, Any]) -> bytes:
        try:
            return self.hash(where, namespace[name]).encode()
        except _NoFingerprint:
            file = namespace.get("__file__")
            if file is None:
                raise
            return _content(Path(file))

    def _class(self, where: str, value: Any) -> Parts:
        file = getattr(sys.modules.get(value.__module__), "__file__", None)
        if value.__module__ == "builtins" or (file is not None and _is_installed(file)):
            return "name", [_release(value.__module__), value.__qualname__.encode()]
        parts = self._each(where, value.__bases__)
        for name, member in sorted(vars(value).items()):
            if name not in _OF_EVERY_CLASS and not _is_generated(value, member):
                parts += [name.encode(), *self._each(where, _pieces(member))]
        return "class", [value.__qualname__.encode(), *parts]


_ATOMS = (type(None), type(...), bool, int, float, complex, str, bytes)
# How each kind of value is described; the first that fits.
_KINDS: tuple[tuple[Any, str], ...] = (
    ((list, tuple), "_list"),
    ((set, frozenset), "_set"),
    ((dict, types.MappingProxyType), "_dict"),
    (np.ndarray, "_array"),
    (PurePath, "_path"),
    (types.ModuleType, "_module"),
    (types.FunctionType, "_function"),
    (type, "_class"),
)
_OF_EVERY_CLASS = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__dataclass_params__"),
    *("__abstractmethods__", "_abc_impl", "__firstlineno__", "__static_attributes__"),
    "__slotnames__",  # written by copyreg when an object is first described
}
_INSTALLED = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in (*map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), *dpassay.__path__)
)


def _digest(kind: str, parts: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.sha256(kind.encode())
    for part in parts:  # with their lengths, so that no two lists of parts look the same
        digest.update(b":%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def _atom(value: Any) -> bytes:
    return value if type(value) is bytes else repr(value).encode("utf-8", "surrogatepass")


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return content.replace(b"\r\n", b"\n") if path.suffix == ".py" else content


def _is_installed(file: str) -> bool:
    path = os.path.realpath(file)
    return path.startswith(_INSTALLED) or "site-packages" in path or "dist-packages" in path


def _release(module: str) -> bytes:
    """A module with the version of its package; the standard library goes without."""
    top = module.partition(".")[0]
    package = None if top in sys.stdlib_module_names else sys.modules.get(top)
    return f"{module} {getattr(package, '__version__', '')}".encode()


def _code(code: types.CodeType) -> bytes:
    text = b""
    if not code.co_filename.startswith("<"):  # Code of different origins shares such a name.
        with contextlib.suppress(OSError, SyntaxError):
            text = textwrap.dedent(inspect.getsource(code)).encode()
    return text + _bytecode(code) if not text or code.co_name == "<lambda>" else text


def _bytecode(code: types.CodeType) -> bytes:
    parts = [code.co_code, repr((code.co_names, code.co_varnames)).encode()]
    for constant in code.co_consts:
        inner = isinstance(constant, types.CodeType)
        parts.append(_bytecode(constant) if inner else fingerprint(constant).encode())
    return _digest("bytecode", parts).encode()


def _names(code: types.CodeType) -> set[str]:
    """The names that a function may look up in its module, with those of functions inside it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _find_wrapped(function: types.FunctionType) -> list[Any]:
    """The functions that a decorator of an installed package holds."""
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    return [content for content in cells if isinstance(content, types.FunctionType)]


def _is_generated(owner: type, member: Any) -> bool:
    """Whether it was written by ``dataclass``: it follows from the fields."""
    if not (isinstance(member, types.FunctionType) and dataclasses.is_dataclass(owner)):
        return False
    functions = (member, *_find_wrapped(member))
    return any(function.__code__.co_filename == "<string>" for function in functions)


def _pieces(member: Any) -> list[Any]:
    """What a member of a class consists of: functions out of descriptors, or the value itself."""
    if isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType):
        return []  # a slot, known by its name
    names = ("fget", "fset", "fdel", "func", "__wrapped__")
    found = [getattr(member, name) for name in names if hasattr(member, name)]
    return found if found and not isinstance(member, types.FunctionType | type) else [member]
