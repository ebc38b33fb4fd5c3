"""Whatever is killed, at whatever moment: the same command ends with the same JSON."""

import contextlib
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from dpassay.runs import open_log

TRIALS, KILLS = 200, 4
TARGET = """
    import os, time

    def slow(data, rng):
        time.sleep(0.012)
        with open("players", "a") as file:
            file.write(f"{os.getpid()}\\n")
        return data.sum() + rng.laplace(scale=0.6)

    def score(output):
        return float(output)
"""
COMMAND = [
    *(sys.executable, "-m", "dpassay", "audit", "killed_target.py:slow", "--claim", "1"),
    *("--data", "d.npz", "--score", "killed_target.py:score", "--trials", str(TRIALS)),
    *("--confidence", "0.999999", "--store", "run.db", "--json"),
]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    (folder / "killed_target.py").write_text(textwrap.dedent(TARGET))
    data = np.array([[1.0], [0.0], [0.0]])
    np.savez(folder / "d.npz", data=data, data_prime=data[1:])
    return folder


@pytest.fixture
def folder(home, tmp_path):
    """A folder of its own, with the same target: the key does not depend on the place."""
    for path in (home / "killed_target.py", home / "d.npz"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def start(folder, workers, **options):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*COMMAND, "--workers", str(workers)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=env, **(pipes | options))


def end(process):
    """The JSON of an audit that ends by itself, without what depends on the command."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    data = json.loads(out)
    del data["replay"]
    return data


@pytest.fixture(scope="module")
def undisturbed(home):
    """What an audit says that nobody disturbs."""
    data = end(start(home, 0))
    assert data["trials"] == TRIALS
    return data


def logged(folder):
    """The rows of the log, by trial, straight from the file; none before there is one."""
    if not (folder / "run.db").exists():
        return {}
    connection = sqlite3.connect(folder / "run.db", timeout=30)
    try:
        return dict(connection.execute("SELECT trial, score FROM trials").fetchall())
    finally:
        connection.close()


def players(folder):
    path = folder / "players"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def wait_until(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def test_kill_the_process(folder, undisturbed):
    """Again and again kill -9 within one log, each time after a few more trials."""
    moments, kept = random.Random(1), {}
    for kill in range(KILLS):
        process = start(folder, 0)
        more = len(players(folder)) + moments.randint(0, TRIALS // KILLS - 10)
        wait_until(lambda: len(players(folder)) > more, process)  # noqa: B023
        time.sleep(moments.uniform(0, 0.05))
        process.kill()
        process.communicate()
        now = logged(folder)
        assert kept.items() <= now.items(), "trials were lost"
        assert len(now) < TRIALS, f"it was over before kill {kill}"
        kept = now
    assert kept
    assert end(start(folder, 0)) == undisturbed
    assert len(logged(folder)) == TRIALS
    # What was played when the process died is played again, at most a few trials each time.
    assert len(players(folder)) <= TRIALS + KILLS * 25


@pytest.mark.parametrize("everyone", [False, True])
def test_kill_workers(folder, undisturbed, everyone):
    """Again and again a worker, or all of them, which is the executor."""
    moments, seen = random.Random(2 + everyone), 0
    process = start(folder, 2)
    for _ in range(KILLS):
        more = seen + moments.randint(1, TRIALS // KILLS - 10)
        wait_until(lambda: len(players(folder)) > more, process)  # noqa: B023
        time.sleep(moments.uniform(0, 0.03))
        known = players(folder)
        alive = dict.fromkeys(reversed(known[seen:] or known[-1:]))
        for pid in alive if everyone else [next(iter(alive))]:
            with contextlib.suppress(ProcessLookupError):  # It went down with another.
                os.kill(pid, signal.SIGKILL)
        seen = len(known)
    assert process.poll() is None, "it was over before the last kill"
    ended = end(process)
    assert ended["n_deaths"] > 0
    assert ended | {"n_deaths": 0} == undisturbed
    assert len(logged(folder)) == TRIALS
    assert len(set(players(folder))) > KILLS  # there were new workers each time


def test_two_processes_on_one_log(folder, undisturbed):
    one, two = start(folder, 0), start(folder, 0)
    assert end(one) == end(two) == undisturbed
    assert len(logged(folder)) == TRIALS


def limit_files():
    """No file of this process may grow beyond 60 kB: as on a full disk, writes fail."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))


def test_full_disk(folder, undisturbed):
    process = start(folder, 0, preexec_fn=limit_files)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "Make room and run the same again" in err
    assert err.count("\n") == 1
    assert 0 < len(logged(folder)) < TRIALS
    assert end(start(folder, 0)) == undisturbed


def test_another_place_has_the_same_key(home, folder, undisturbed):
    """So that logs of several machines can be merged."""
    process = start(folder, 0)
    wait_until(lambda: logged(folder), process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "The same command goes on" in err
    early = json.loads(out)
    assert (early["ended"], early["run"]) == ("interrupted", undisturbed["run"])
    assert early["trials"] == len(logged(folder)) < TRIALS
    log = open_log(Path(home) / "run.db")
    assert [run.key for run in log.runs()] == [undisturbed["run"]]
    log.close()
