"""Targets that hang, die, exit, fork, print: the audit survives or says why; the log is whole."""

import os
import sqlite3
import sys
import textwrap

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and forks of POSIX")
TARGET = """
    import contextlib, os, shutil, subprocess, sys, tempfile, threading, time

    def hostile(action, share=0.06):
        def target(data, rng):
            if rng.random() < share:
                return action(data, rng)
            return good(data, rng)
        return target

    def good(data, rng):
        return data.sum() + rng.laplace(scale=1.0)

    def then_good(action):
        def both(data, rng):
            action()
            return good(data, rng)
        return both

    def stubborn(data, rng):
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(60)

    def interrupt(data, rng):
        raise KeyboardInterrupt

    def chatter():
        print("training ..." * 10_000)
        print("loss" * 10_000, file=sys.stderr)
        os.write(1, b"to the descriptor")

    def leave_a_child():
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)

    def come_back_twice():
        os.fork()

    def lose_the_folder():
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        shutil.rmtree(folder)

    def close_the_streams():
        sys.stdout.close()
        for descriptor in (0, 1):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    kept = []

    def leak(data, rng):
        kept.append(bytearray(3_000_000))
        with open("players", "a") as file:
            file.write(f"{os.getpid()} {len(kept)}\\n")
        return good(data, rng)

    hangs = hostile(lambda data, rng: time.sleep(60))
    ignores = hostile(stubborn, 0.03)
    nan = hostile(lambda data, rng: float("nan"))
    exits = hostile(lambda data, rng: sys.exit(1))
    dies = hostile(lambda data, rng: os._exit(0), 0.03)
    interrupts = hostile(interrupt)
    prints = then_good(chatter)
    forks = hostile(then_good(leave_a_child))
    returns_twice = hostile(then_good(come_back_twice))
    moves = then_good(lose_the_folder)
    closes = then_good(close_the_streams)
    shapes = lambda data, rng: rng.normal(size=rng.integers(1, 4))
    unpicklable = lambda data, rng: (good(data, rng), threading.Lock(), lambda: data)

    def always_hangs(data, rng):
        time.sleep(60)

    def first(output):
        return output[0]
"""
SCORED = "--score hostile_target.py:float"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "hostile_target.py").write_text(textwrap.dedent(TARGET) + "\nfloat = float\n")
    data = np.array([[1.0], [0.0], [0.0]])
    np.savez(tmp_path / "d.npz", data=data, data_prime=data[1:])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("hostile_target", None)


CASES = {  # the target, its options, whether trials fail
    "hangs": (f"{SCORED} --timeout 0.2", True),
    "ignores": (f"{SCORED} --timeout 0.2", True),
    "nan": (SCORED, True),
    "exits": (SCORED, True),
    "dies": (SCORED, True),
    "interrupts": (SCORED, True),
    "prints": (SCORED, False),
    "forks": (SCORED, False),
    "returns_twice": (SCORED, False),
    "moves": (SCORED, False),
    "closes": (SCORED, False),
    "shapes": ("", False),
    "unpicklable": ("--score hostile_target.py:first", False),
    "leak": (f"{SCORED} --recycle 40", False),
}


@pytest.mark.parametrize("target", CASES)
def test_survives(dpassay, folder, target):
    options, fails = CASES[target]
    audit = f"audit hostile_target.py:{target} --claim 1 --data d.npz --trials 80 --store run.db"
    done = dpassay(f"{audit} --confidence 0.999999 --json {options}")
    assert done.code == 0, done.err
    assert done.err == ""
    assert done.data["ended"] == "budget spent"
    assert (done.data["n_failed"] > 0) == fails
    (run,) = dpassay("status run.db --json").data["runs"]
    assert (run["state"], run["n_done"] + run["n_failed"]) == ("finished", 80)
    assert run["epsilon_lower"] == done.data["epsilon_lower"]
    connection = sqlite3.connect("run.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_workers_are_replaced_before_they_have_leaked_much(dpassay, folder):
    dpassay(
        "audit hostile_target.py:leak --claim 1 --data d.npz --trials 100 --quiet "
        f"--recycle 20 {SCORED}"
    )
    lines = [line.split() for line in (folder / "players").read_text().splitlines()]
    assert len({pid for pid, _ in lines}) >= 4
    assert max(int(kept) for _, kept in lines) <= 2 * 20


@pytest.mark.parametrize("workers", ["", "--workers 0"])  # a timeout always has a worker
def test_stops_and_says_why(dpassay, folder, workers):
    options = f"--timeout 0.05 --store run.db --quiet {SCORED} {workers}"
    done = dpassay(f"audit hostile_target.py:always_hangs --claim 1 --data d.npz {options}")
    assert done.code == 3
    assert "timeout: the trial took more than 0.05 s" in done.err
    (run,) = dpassay("status run.db --json").data["runs"]
    assert (run["state"], run["n_done"]) == ("stopped", 0)


def test_a_target_that_dies_in_the_trial_for_timing_is_no_verdict(dpassay, folder):
    (folder / "dies_at_once.py").write_text("import os\ndef f(data, rng):\n    os._exit(0)\n")
    done = dpassay("audit dies_at_once.py:f --claim 1 --data d.npz --trials 130 --dry-run")
    assert done.code == 3
    assert "trial 0: playing alone, it killed its worker 4 times" in done.err
