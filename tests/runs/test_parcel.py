"""Tasks on their way to workers that cannot import what the task is made of."""

import subprocess
import sys

import pytest

from dpassay.errors import TaskError
from dpassay.runs import parcel

HELPER = "def double(x):\n    return 2 * x\n"
MODULE = """
import threading
import helper_of_parcels

LOCK = threading.Lock()

def task(x):
    return helper_of_parcels.double(x) + 1

def locked(x):
    with LOCK:
        return x
"""
THERE = """
import sys
from pathlib import Path
from dpassay.runs.parcel import Parcel
content = Path(sys.argv[1]).read_bytes()
print(Parcel("digest", content).unpack()(20))
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A function of a file that only this process can import."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "helper_of_parcels.py").write_text(HELPER)
    (tmp_path / "module_of_parcels.py").write_text(MODULE)
    import module_of_parcels

    yield module_of_parcels.task
    for name in ("helper_of_parcels", "module_of_parcels"):
        sys.modules.pop(name)


def play_elsewhere(packed, folder):
    (folder / "task").write_bytes(packed.content)
    words = [sys.executable, "-c", THERE, str(folder / "task")]
    return subprocess.run(words, cwd="/", capture_output=True, text=True)


def test_a_task_with_its_code_is_played_where_its_files_are_not(task, tmp_path):
    assert play_elsewhere(parcel.pack_with_code(task), tmp_path).stdout == "41\n"
    by_name = play_elsewhere(parcel.pack(task, None), tmp_path)
    assert TaskError.__name__ in by_name.stderr
    assert "module 'module_of_parcels'" in by_name.stderr


def test_nothing_is_left_registered(task):
    import cloudpickle

    before = cloudpickle.list_registry_pickle_by_value()
    parcel.pack_with_code(task)
    assert cloudpickle.list_registry_pickle_by_value() == before


def test_code_that_cannot_be_packed_travels_by_name(task):
    locked = task.__globals__["locked"]
    assert parcel.pack_with_code(locked).unpack() is locked
    assert parcel.pack_with_code(task).unpack() is not task


def test_what_is_installed_travels_by_name(task):
    own = {module.__name__ for module in parcel._modules_not_installed()}
    assert {"helper_of_parcels", "module_of_parcels"} <= own
    assert not own & {"numpy", "pytest", "json", "dpassay", "dpassay.runs.parcel"}
