"""Files that somebody hands to us: one loader per format, each with a bound on what it takes.

A loader reads a regular file of a bounded size once, into memory, and either returns plain values
or raises :class:`InvalidArgument` with the name of the argument and of the file. Its messages say
what is wrong and where (a line, a member, a column), never what a file holds: that may be a record.
Nothing here runs code that a file brings.
"""

import csv
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dpassay._files import special_kind
from dpassay.errors import InvalidArgument

LARGEST_DATA = 2**32  # bytes of a table or of all arrays together, also once they are unpacked
LARGEST_TEXT = 2**24  # bytes of a JSON file
LARGEST_SETTINGS = 2**20  # bytes of a TOML file, which people write by hand
DEEPEST = 64  # lists and mappings inside of each other
MOST_COLUMNS = 10_000  # of a CSV file
MOST_DIGITS = 100  # of a whole number; a seed has 39 at most
_ARRAY_KINDS = "biufcUSMm"  # of NumPy's types: those that hold no Python objects and no fields
# Keys of TOML with more than 32 dots; each level of one costs time in proportion to its depth.
_LONG_KEY = re.compile(r"(?:[A-Za-z0-9_\-\"']+[ \t]*\.[ \t]*){33}")


def read_bytes(name: str, path: str | Path, *, most: int = LARGEST_DATA, remedy: str = "") -> bytes:
    """All bytes of a regular file.

    Args:
        name: of the argument that names the file, for the message.
        path: of the file.
        most: bytes that are read; a longer file is refused.
        remedy: what to do, the end of every message.

    Raises:
        InvalidArgument: it is missing, a folder, a pipe or a device, too long, or unreadable.

    """
    shown = f"{name}={_short(str(path))!r}"
    # Without O_NONBLOCK to open a pipe would wait for a writer, perhaps for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if (what := special_kind(path)) is not None:  # before it is opened: some devices act on it
        raise InvalidArgument(f"{shown} is not a file but {what}. {remedy}".rstrip())
    try:
        with open(os.open(path, flags), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(most + 1) if size <= most else b""
    except FileNotFoundError:
        raise InvalidArgument(f"{shown} is not a file: there is none. {remedy}".rstrip()) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidArgument(f"{shown} cannot be read: {reason}. {remedy}".rstrip()) from None
    except (ValueError, MemoryError):  # a NUL in its name; a file that does not fit into memory
        raise InvalidArgument(f"{shown} cannot be read. {remedy}".rstrip()) from None
    if max(size, len(data)) > most:
        raise InvalidArgument(
            f"{shown} has more than {most:,} bytes, the most that are read. {remedy}".rstrip()
        )
    return data


def read_text(name: str, path: str | Path, *, most: int = LARGEST_TEXT, remedy: str = "") -> str:
    """The text of a regular file in UTF-8."""
    data = read_bytes(name, path, most=most, remedy=remedy)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"{name}={str(path)!r} is not text in UTF-8: byte {error.start} is none of it. "
            f"{remedy}".rstrip()
        ) from None


# ------------------------------------------------------------------------------- JSON and TOML


def load_json(name: str, path: str | Path, remedy: str = "") -> Any:
    """What a JSON file holds; NaN, nesting deeper than ``DEEPEST`` and long numbers are refused."""
    text = read_text(name, path, remedy=remedy)
    return parse_json(f"{name}={str(path)!r}", text, remedy)


def parse_json(what: str, text: str | bytes, remedy: str = "", *, infinite: bool = False) -> Any:
    """What a JSON text holds; ``what`` begins the message, ``infinite`` takes NaN and such."""

    def parse() -> Any:
        return json.loads(text, parse_int=_whole, parse_constant=float if infinite else _refuse)

    return _parse(what, "JSON", parse, remedy)


def load_toml(name: str, path: str | Path, remedy: str = "") -> dict[str, Any]:
    """What a TOML file holds, with the same limits."""
    import tomllib

    text = read_text(name, path, most=LARGEST_SETTINGS, remedy=remedy)
    if _LONG_KEY.search(text):
        raise InvalidArgument(f"{name}={str(path)!r} has a key with too many dots. {remedy}")
    return _parse(f"{name}={str(path)!r}", "TOML", lambda: tomllib.loads(text), remedy)


def _parse(what: str, form: str, parse: Callable[[], Any], remedy: str) -> Any:
    try:
        value = parse()
        deep = _is_deep(value)
    except RecursionError:
        deep, value = True, None
    except ValueError as error:  # also JSONDecodeError and TOMLDecodeError
        raise InvalidArgument(f"{what} is not {form}{_line(error)}. {remedy}".rstrip()) from None
    if deep:
        raise InvalidArgument(f"{what} is nested more than {DEEPEST} deep. {remedy}".rstrip())
    return value


def _line(error: ValueError) -> str:
    """Where a parser stopped; its other words may quote the file."""
    found = getattr(error, "lineno", None) or re.search(r"at line (\d+)", str(error))
    number = found if isinstance(found, int) else found and found[1]
    return f": line {number} is wrong" if number else ""


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError("a whole number has too many digits")
    return int(digits)


def _refuse(constant: str) -> Any:
    raise ValueError("NaN and infinity are not JSON")


def _is_deep(value: Any) -> bool:
    """Whether lists and mappings are nested deeper than ``DEEPEST``; a long number is an error."""
    level, depth = [value], 0
    while level:
        if any(isinstance(part, int) and abs(part) >= 10**MOST_DIGITS for part in level):
            raise ValueError("a whole number has too many digits")
        outer = [part for part in level if isinstance(part, dict | list)]
        depth += bool(outer)
        if depth > DEEPEST:
            return True
        level = [
            part
            for container in outer
            for part in (container.values() if isinstance(container, dict) else container)
        ]
    return False


# ------------------------------------------------------------------------------- arrays


def load_npz(name: str, path: str | Path, remedy: str = "") -> dict[str, Any]:
    """The arrays of an NPZ file, by name; none that holds Python objects.

    A member is unpacked only if its header asks for as many bytes as the archive says it has, and
    all of them together for ``LARGEST_DATA`` at most: a small file cannot ask for much memory.
    """
    shown = f"{name}={str(path)!r}"
    data = read_bytes(name, path, remedy=remedy)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > LARGEST_DATA:
                raise InvalidArgument(
                    f"{shown} unpacks to more than {LARGEST_DATA:,} bytes. {remedy}".rstrip()
                )
            return {_array_name(m): _member(shown, archive, m, remedy) for m in members}
    except InvalidArgument:
        raise
    except Exception as error:  # of a damaged archive, whatever zipfile, zlib and NumPy raise
        raise InvalidArgument(
            f"{shown} is not an NPZ archive, or damaged ({type(error).__name__}). {remedy}".rstrip()
        ) from None


def load_npy(name: str, path: str | Path, remedy: str = "") -> Any:
    """The array of an NPY file, with the same limits."""
    found = _array(bytearray(read_bytes(name, path, remedy=remedy)))
    if found is None:
        raise InvalidArgument(
            f"{name}={str(path)!r} is not an array of numbers, texts or dates. {remedy}".rstrip()
        )
    return found


def _array_name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _member(shown: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo, remedy: str) -> Any:
    with archive.open(member) as file:
        found = _array(bytearray(file.read()))
    if found is None:
        raise InvalidArgument(
            f"{shown}: the member {_short(member.filename)!r} is not an array of numbers, texts or "
            f"dates. {remedy}".rstrip()
        )
    return found


def _array(data: bytearray) -> Any:
    """The array that the bytes of an NPY file are; None if they are none, or one of objects."""
    found = _header(data)
    if found is None:
        return None
    start, shape, fortran, dtype = found
    values = np.frombuffer(data, dtype, offset=start, count=math.prod(shape))
    return values.reshape(shape, order="F" if fortran else "C")


def _header(data: bytearray) -> tuple[int, tuple[int, ...], bool, Any] | None:
    """Where the entries begin, their shape, order and type; None unless they fill the member."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    file = io.BytesIO(data)
    try:
        shape, fortran, dtype = readers[np.lib.format.read_magic(file)](file)
    except Exception:  # a header is a Python literal: its parser raises anything
        return None
    fits = (
        all(n >= 0 for n in shape) and math.prod(shape) * dtype.itemsize == len(data) - file.tell()
    )
    plain = dtype.kind in _ARRAY_KINDS and dtype.names is None and dtype.subdtype is None
    return (file.tell(), shape, fortran, dtype) if fits and plain and len(shape) <= 32 else None


# ------------------------------------------------------------------------------- tables


def load_csv(name: str, path: str | Path, remedy: str = "", **options: Any) -> Any:
    """A CSV file with a header as a frame; ``options`` are those of ``pandas.read_csv``.

    Refused are fields of other numbers than the header has, columns of one name, and NUL bytes.
    """
    import pandas as pd

    shown = f"{name}={str(path)!r}"
    data = read_bytes(name, path, remedy=remedy)
    try:
        if b"\0" in data:
            raise ValueError("NUL bytes")
        lines = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")
        _check_header(shown, [cell.strip() for cell in next(csv.reader(lines))], remedy)
        with np.errstate(all="ignore"):
            return pd.read_csv(io.BytesIO(data), encoding="utf-8-sig", index_col=False, **options)
    except InvalidArgument:
        raise
    except Exception as error:  # of pandas, whose words quote the file
        found = re.search(r"\bline (\d+)", str(error))
        where = f": line {found[1]} is wrong" if found else ""
        raise InvalidArgument(f"{shown} is not a CSV file{where}. {remedy}".rstrip()) from None


def _check_header(shown: str, names: list[str], remedy: str) -> None:
    if len(names) > MOST_COLUMNS:
        raise InvalidArgument(
            f"{shown} has {len(names)} columns; at most {MOST_COLUMNS} are read. {remedy}".rstrip()
        )
    if len(set(names)) < len(names):
        raise InvalidArgument(f"{shown} has two columns of one name. {remedy}".rstrip())


def list_names(names: Iterable[str], most: int = 12) -> str:
    """Names in quotes, sorted, for a message; of many only the first ones."""
    known = sorted(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return f"[{', '.join(repr(_short(name, 40)) for name in known[:most])}]{more}"


def _short(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
