"""A scratch copy of the folder that a script runs in, so that it never overwrites a user's files.

Hidden folders, environments and caches are left out. The copy is put back before every run: only
what a run has changed, or the user has, is copied again.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from dpassay.errors import InvalidTarget

MOST_BYTES = 500_000_000
_MOST_FILES = 20_000
_LEFT_OUT = ("__pycache__", "node_modules", "venv", "env")

_State = tuple[int, int]


def root_of(file: Path) -> Path:
    """The folder to copy: the working folder, or the script's own if that lies elsewhere."""
    here = Path.cwd().resolve()
    return here if file.is_relative_to(here) else file.parent


@dataclass(frozen=True)
class WorkingCopy:
    """A folder and its scratch copy.

    Attributes:
        root: the user's folder.
        scratch: the copy.
        remedy: what to do about a folder that is too large to be copied.

    """

    root: Path
    scratch: Path
    remedy: str
    _known: dict[Path, tuple[_State, _State]] = field(
        default_factory=dict[Path, tuple[_State, _State]]
    )

    def restore(self) -> None:
        """Make the copy what the folder is.

        Raises:
            InvalidTarget: the folder is too large.

        """
        wanted = {self.scratch / path.relative_to(self.root): path for path in self._files()}
        self.scratch.mkdir(exist_ok=True)
        for copy in [*self.scratch.rglob("*")]:
            is_file = copy.is_file() or copy.is_symlink()
            if is_file and not self._is_same(copy, wanted.get(copy)):
                copy.unlink()
        for copy, source in wanted.items():
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)
                self._known[copy] = _state(copy), _state(source)

    def _is_same(self, copy: Path, source: Path | None) -> bool:
        return source is not None and self._known.get(copy) == (_state(copy), _state(source))

    def _files(self) -> list[Path]:
        found: list[Path] = []
        size = 0
        for folder, names, files in os.walk(self.root):
            names[:] = [n for n in names if not n.startswith(".") and n not in _LEFT_OUT]
            new = [Path(folder, name) for name in files if Path(folder, name).is_file()]
            found += new
            size += sum(path.stat().st_size for path in new)
            if size > MOST_BYTES or len(found) > _MOST_FILES:
                raise InvalidTarget(
                    f"the folder {str(self.root)!r} holds more than {MOST_BYTES // 10**6} MB or "
                    f"{_MOST_FILES} files, and a copy of it is what the script runs in. Run it in "
                    f"a folder with the script and its data alone{self.remedy}."
                )
        return sorted(found)

    def copy_of(self, file: Path) -> Path:
        """The place of a file in the copy."""
        return self.scratch / file.relative_to(self.root)

    def original(self, file: str) -> str:
        """The path in the user's folder of a path in the copy."""
        path = Path(file)
        if not path.is_relative_to(self.scratch):
            return file
        return str(self.root / path.relative_to(self.scratch))


def _state(path: Path) -> _State:
    stat = path.lstat()
    return stat.st_mtime_ns, stat.st_size
