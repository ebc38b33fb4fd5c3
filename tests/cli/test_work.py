"""An audit in parts on the command line: real processes as the array, some of them killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

TRIALS, SHARDS = 200, 4
TARGET = """
import time

def noisy(data, rng):
    time.sleep(0.005)
    return data.sum() + rng.laplace(scale=0.5)

def number(output):
    return float(output)
"""
AUDIT = f"audit parted.py:noisy --score parted.py:number --claim 1 --data d.npz --trials {TRIALS}"


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A folder with a target and its data; one for all tests, since a module has one place."""
    folder = tmp_path_factory.mktemp("parted")
    (folder / "parted.py").write_text(TARGET)
    data = np.array([[1.0], [0.0], [0.0]])
    np.savez(folder / "d.npz", data=data, data_prime=data[1:])
    return folder


@pytest.fixture
def place(target, monkeypatch):
    monkeypatch.chdir(target)
    return target


def start(arguments):
    program = [sys.executable, "-m", "dpassay", *arguments.split()]
    return subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def without_command(data):
    return {name: value for name, value in data.items() if name != "replay"}


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_parts_that_are_killed_end_with_the_verdict_of_one_machine(dpassay, place):
    """Shards as an array job would play them; each is killed once and started again."""
    whole = dpassay(f"{AUDIT} --workers 0 --quiet --json")
    written = dpassay(f"{AUDIT} --store parts --describe --json")
    assert written.code == 0
    assert written.data["trials"] == TRIALS
    draw = random.Random(1)
    commands = [f"work --store parts --shard {i}/{SHARDS} --workers 0" for i in range(1, 5)]
    for process in [start(command) for command in commands]:
        time.sleep(draw.uniform(0.0, 1.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    state = dpassay("status parts --json").data["runs"][0]
    assert state["trials"] == TRIALS
    for command in commands:
        assert dpassay(f"{command} --quiet").code == 0
    told = dpassay("status parts --json").data["runs"][0]
    assert (told["state"], told["n_done"]) == ("finished", TRIALS)
    judged = dpassay(f"{AUDIT} --workers 0 --quiet --json --store parts")
    assert judged.code == whole.code
    assert without_command(json.loads(judged.out)) == without_command(json.loads(whole.out))
    assert dpassay("report parts --out page.html").code == 0


def test_audit_plays_what_the_parts_have_not(dpassay, place):
    dpassay(f"{AUDIT} --store rest --describe")
    assert dpassay("work --store rest --range 20:60 --workers 0 --quiet").code == 0
    whole = dpassay(f"{AUDIT} --workers 0 --quiet --json")
    joined = dpassay(f"{AUDIT} --workers 0 --quiet --json --store rest")
    assert without_command(joined.data) == without_command(whole.data)


def test_merge_of_parts(dpassay, place):
    dpassay(f"{AUDIT} --store halves --describe")
    for shard in ("1/2", "2/2"):
        dpassay(f"work --store halves --shard {shard} --workers 0 --quiet")
    merged = dpassay("merge all.db halves/part-1of2.db halves/part-2of2.db --json")
    assert merged.data["new"] == TRIALS
    assert dpassay("status all.db --json").data["runs"][0]["state"] == "finished"


@pytest.mark.skipif(os.name != "posix", reason="who lives is asked of the system")
def test_status_of_parts_that_are_being_played(dpassay, place):
    """Who plays a part is known from its own log, as it is at every look."""
    dpassay(f"{AUDIT} --trials 20000 --store watched --describe")
    players = [start(f"work --store watched --shard {i}/4 --quiet") for i in (1, 2)]
    try:
        seen = {"workers": 0}
        while seen["workers"] < 2 or not seen["per_second"]:
            assert all(player.poll() is None for player in players)
            seen = dpassay("status watched --json").data["runs"][0]
            time.sleep(0.1)
        assert seen["state"] == "running"
        assert seen["per_second"] < 400
        assert seen["seconds_left"] > 1
    finally:
        for player in players:
            player.kill()
            player.wait()
    seen = dpassay("status watched --json").data["runs"][0]
    assert (seen["state"], seen["workers"]) == ("unfinished", 0)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{AUDIT} --describe", "--describe needs a folder"),
        (f"{AUDIT} --describe --store d.npz", "must be a folder"),
        (f"{AUDIT} --describe --store .", "must be new or empty"),
        (
            "audit parted.py:noisy --claim 1 --input value:0,9 --store other --describe",
            "cannot search a pair",
        ),
        (
            "audit parted.py:noisy --claim 1 --data d.npz --trials 30000 --store other --describe",
            "which parts cannot do",
        ),
        ("work --store nowhere --shard 1/2", "holds no described audit"),
        ("work --store described", "give one of them"),
        ("work --store described --shard 0/4", "counted from 1"),
        ("work --store described --range 0:9999", "a:b"),
        (f"{AUDIT} --executor dask:nowhere", "address of a scheduler"),
        (f"{AUDIT} --executor ray", "address of a scheduler"),
    ],
)
def test_misuse_is_one_line(dpassay, place, command, message):
    if "described" in command:
        assert dpassay(f"{AUDIT} --store described --describe").code == 0
    found = dpassay(command)
    assert found.code == 2, found.out
    assert message in " ".join(found.err.split())


def test_a_part_plays_the_code_that_was_described_wherever_it_is_started(dpassay, place, tmp_path):
    """The installed program, elsewhere, when the target's file is another one."""
    (place / "moved.py").write_text("import beside\n" + TARGET.replace("0.5", "beside.SCALE"))
    (place / "beside.py").write_text("SCALE = 0.5\n")
    audit = AUDIT.replace("parted.py", "moved.py").replace(str(TRIALS), "20") + " --anyway"
    whole = dpassay(f"{audit} --workers 0 --quiet --json")
    assert dpassay(f"{audit} --store elsewhere --describe --json").code == 0
    for name in ("moved.py", "beside.py"):
        (place / name).write_text("raise RuntimeError('another file')\n")
    program = [str(Path(sys.executable).with_name("dpassay")), "work", "--shard", "1/1"]
    words = [*program, "--store", str(place / "elsewhere"), "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_played"] == 20
    state = dpassay("status elsewhere --json").data["runs"][0]
    assert (state["n_done"], state["n_failed"]) == (20, 0)
    assert whole.data["trials"] == 20
