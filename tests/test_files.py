"""Outputs appear whole or not at all; temporary things are private, and gone afterwards."""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from dpassay import _files, _scratch
from dpassay.errors import InvalidArgument
from dpassay.learn import Ledger
from dpassay.privacy import Pure

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions and signals of POSIX")


SOURCES = Path(_files.__file__).parent.parent
WRITES = re.compile(
    r"\.write_(text|bytes)\(|os\.(replace|rename|link)\(|\.rename\(\w*path|mkdtemp|mkstemp|"
    r"TemporaryDirectory|NamedTemporary|\bopen\([^)]*[\"'][wax]b?[\"']|savefig\((path|out|file)"
)
MAY_WRITE = {
    "dpassay/_files.py",
    "dpassay/runs/schema.py",  # gives a new log its place, which must be empty
    "dpassay/runs/parcel.py",  # into the private folder of a run
    "dpassay/auditing/adapters/command.py",  # likewise, of a trial
}


def test_all_outputs_go_through_one_module():
    found = set()
    for path in SOURCES.rglob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        if any(WRITES.search(line) for line in lines if ">>>" not in line):
            found.add(str(path.relative_to(SOURCES)))
    assert found == MAY_WRITE


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_written_and_replaced(tmp_path):
    path = tmp_path / "out.csv"
    assert _files.write(path, "ä\n") == path
    assert path.read_bytes() == "ä\n".encode()
    _files.write(str(path), b"\0raw")
    assert path.read_bytes() == b"\0raw"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_permissions_are_the_umask_s_or_those_of_the_old_file(tmp_path):
    path = tmp_path / "out.csv"
    before = os.umask(0o027)
    try:
        _files.write(path, "new")
        assert mode(path) == 0o640
        path.chmod(0o600)
        _files.write(path, "again")
        assert mode(path) == 0o600
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_nothing_beside_the_output_is_touched(tmp_path):
    """What a fixed temporary name would overwrite, through a link too."""
    treasure = tmp_path / "treasure"
    treasure.write_text("gold")
    (tmp_path / "out.csv.part").symlink_to(treasure)
    (tmp_path / f".out.csv.{os.getpid()}").symlink_to(treasure)
    _files.write(tmp_path / "out.csv", "new")
    assert treasure.read_text() == "gold"
    assert (tmp_path / "out.csv.part").is_symlink()
    assert len(list(tmp_path.iterdir())) == 4


def device(path):
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 7))  # as /dev/full


def bind(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


ODD = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": bind,
    "a device": device,
}


@pytest.fixture
def short_path():
    """A socket's path must be short."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("linked", [False, True])
def test_only_regular_files_are_replaced(short_path, kind, linked):
    path = short_path / "out"
    try:
        ODD[kind](path)
    except PermissionError:
        pytest.skip("this user may not make devices")
    before = path.lstat()
    (short_path / "link").symlink_to(path)
    with pytest.raises(InvalidArgument, match=f"cannot be written: it is {kind}"):
        _files.write(short_path / "link" if linked else path, "new")
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert sorted(p.name for p in short_path.iterdir()) == ["link", "out"]


def test_links(tmp_path):
    """To a file: the link stays and the file is replaced. To nothing: refused."""
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    _files.write(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    real.unlink()
    with pytest.raises(InvalidArgument, match="link to a file that does not exist"):
        _files.write(link, "new")
    assert not real.exists()


@pytest.mark.parametrize("moment", ["os.fsync", "os.replace", "pathlib.Path.chmod"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_is_interrupted_leaves_the_old_files(tmp_path, monkeypatch, moment, error):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("old")
    calls = []

    def fails(*_):
        calls.append(sorted(p.name for p in tmp_path.iterdir()))
        raise error

    monkeypatch.setattr(moment, fails)
    with pytest.raises(error):
        _files.write_all({one: "new", two: "new"})
    monkeypatch.undo()
    assert len(calls[0]) > 1  # something was there
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("one", "old")]


def test_the_ledger_is_private(tmp_path):
    Ledger(tmp_path / "spent.db").record(Pure(1.0), what="count")
    assert mode(tmp_path / "spent.db") == 0o600


# ------------------------------------------------------------------------------- temporary folders


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_temporary_folder_is_private_and_goes(temporary):
    before = signal.getsignal(signal.SIGTERM)  # another test's folder may still be there
    with _scratch.temporary_folder() as folder:
        assert mode(folder) == 0o700
        (folder / "data").write_text("secret")
        with _scratch.temporary_folder() as other:
            assert other != folder
        assert folder.exists()
    assert list(temporary.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


HOLDER = """
import signal, sys, tempfile, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has its children ignore it
tempfile.tempdir = sys.argv[1]
from pathlib import Path
from dpassay import _files, _scratch
with _scratch.temporary_folder() as folder, _scratch.vanishing(Path(sys.argv[1], ".dpassay-x")):
    Path(sys.argv[1], ".dpassay-x").write_text("half")
    (folder / "data").write_text("secret")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(temporary):
    command = [sys.executable, "-c", HOLDER, str(temporary)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_a_process_removes_what_is_temporary(holder, temporary, name):
    process, folder = holder
    assert (folder / "data").exists()
    process.send_signal(getattr(signal, name))
    assert process.wait(20) == -getattr(signal, name)  # ended by it, as if nobody had caught it
    assert list(temporary.iterdir()) == []


def test_what_the_killed_left_goes_at_the_next_start(holder, temporary):
    process, folder = holder
    others = [temporary / "dpassay-notes", temporary / f"dpassay-{folder.name[8:16]}x-1-0-0"]
    for other in others:
        other.mkdir()
    with _scratch.temporary_folder():
        assert (folder / "data").exists()  # its process lives
    process.kill()
    process.wait()
    assert (folder / "data").exists()
    with _scratch.temporary_folder() as now:
        assert not folder.exists()
        assert now.exists()
    assert all(other.exists() for other in others)


def test_a_number_that_another_process_has_got_since(holder):
    """A living process with the number of a dead one does not keep its folder."""
    _, folder = holder
    machine, pid, born, token = folder.name.removeprefix("dpassay-").split("-")
    assert not _scratch.is_gone(folder.name)
    assert _scratch.is_gone("-".join([machine, pid, "0badf00d", token]))
    assert not _scratch.is_gone("-".join(["0badf00d", pid, born, token]))  # of another machine
    assert not _scratch.is_gone("out.csv")


def test_stale_outputs_and_links(tmp_path):
    """Half-written files of dead processes go; a link with such a name is left alone."""
    ended = subprocess.run(
        [sys.executable, "-c", "from dpassay import _scratch; print(_scratch.make_owned_name())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    stale, link = (
        tmp_path / f".dpassay-{ended}",
        tmp_path / f".dpassay-{ended[:-1]}{'01'[ended[-1] == '0']}",
    )
    stale.write_text("half")
    link.symlink_to(tmp_path)
    _files.write(tmp_path / "out", "whole")
    assert not stale.exists()
    assert link.is_symlink()
    assert (tmp_path / "out").read_text() == "whole"


def test_a_child_does_not_remove_what_its_parent_uses(temporary):
    with _scratch.temporary_folder() as folder:
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(20)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert folder.exists()
