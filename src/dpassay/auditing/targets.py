"""Targets named by a text: ``file.py:function``, ``module:function``, ``example:name``."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from dpassay._handed import list_names, load_npz
from dpassay.errors import InvalidArgument, debugging, describe_shortly

_FORMS = "Write my_train.py:train, package.module:train or example:honest."
EXAMPLES = {"honest": "dpassay.zoo.learners:honest", "broken": "dpassay.zoo.learners:broken"}


def load_target(text: str) -> Callable[..., Any]:
    """The function that a text names.

    Args:
        text: ``path/to/file.py:function``, ``module:function``, or ``example:`` and one of the
            bundled learners. The file is run as a module of its own name, so that workers find it.

    Raises:
        InvalidArgument: no such file, module or function, or it cannot be called.

    """
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name:
        raise InvalidArgument(f"target={text!r} has no function. {_FORMS}")
    if where == "example":
        if name not in EXAMPLES:
            raise InvalidArgument(f"target={text!r} must be one of {_list_examples()}. {_FORMS}")
        return load_target(EXAMPLES[name])
    module = _from_file(Path(where)) if where.endswith(".py") else _from_name(where)
    function = getattr(module, name, None)
    if not callable(function):
        has = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
        raise InvalidArgument(f"{where} has no function {name!r}; it has {has[:12]}.")
    return function


def _list_examples() -> str:
    return ", ".join(f"example:{name}" for name in EXAMPLES)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidArgument(f"target={str(path)!r} is not a file. {_FORMS}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # workers import it by name; they get this path too
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and Path(getattr(known, "__file__", "") or "").resolve() == path.resolve():
        return known
    if known is not None:
        raise InvalidArgument(
            f"target={str(path)!r} has the name of a module that is already loaded ({name}). "
            "Rename the file."
        )
    return _import_module(name, str(path))


def _from_name(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    return _import_module(name, name)


def _import_module(name: str, shown: str) -> ModuleType:
    importlib.invalidate_caches()  # the file may be younger than the last look into its folder
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f"target={shown!r} cannot be imported: there is no module {error.name!r}. {_FORMS}"
        ) from None
    except (Exception, SystemExit) as error:  # its exit code must not be taken for ours
        # A module that loads its data may quote them in its error: only where it failed is told.
        raise InvalidArgument(
            f"target={shown!r} failed while it was imported: {describe_shortly(error)}. To see "
            "what it said on the terminal, run with --debug, or set DPASSAY_DEBUG=1."
        ) from (error if debugging() else None)


def load_pair(path: Path) -> tuple[Any, Any]:
    """The arrays ``data`` and ``data_prime`` of an NPZ file; with ``X``/``y`` parts as pairs.

    ``data_X`` and ``data_y`` (likewise ``data_prime_X``, ``data_prime_y``) make up pairs (X, y).
    """
    layout = "An NPZ needs the arrays data and data_prime (or data_X, data_y, data_prime_X, ...)."
    arrays = load_npz("data", path, layout)
    return _side(arrays, "data", path, layout), _side(arrays, "data_prime", path, layout)


def load_data(path: Path) -> Any:
    """The array ``data`` of an NPZ file, or the pair (X, y) of ``data_X`` and ``data_y``."""
    layout = "An NPZ needs the array data (or data_X and data_y)."
    return _side(load_npz("data", path, layout), "data", path, layout)


def load_pair_or_data(path: Path) -> tuple[tuple[Any, Any] | None, Any]:
    """The pair of an NPZ file and None; None and the data set, if the file has no data_prime."""
    layout = (
        "An NPZ needs the array data (or data_X and data_y), and data_prime (or data_prime_X, ...) "
        "if the pair is not to be searched."
    )
    arrays = load_npz("data", path, layout)
    data = _side(arrays, "data", path, layout)
    if not any(name.startswith("data_prime") for name in arrays):
        return None, data
    return (data, _side(arrays, "data_prime", path, layout)), None


def _side(arrays: dict[str, Any], name: str, path: Path, layout: str) -> Any:
    if name in arrays:
        value = arrays[name]
        return value.item() if value.ndim == 0 else value
    if f"{name}_X" in arrays and f"{name}_y" in arrays:
        return arrays[f"{name}_X"], arrays[f"{name}_y"]
    raise InvalidArgument(f"data={str(path)!r} has no {name!r} but {list_names(arrays)}. {layout}")
