"""No target chooses the exit code, and Ctrl-C ends in one line, at any moment."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

import dpassay as da
from dpassay.runs import LogDamaged, opened

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
PROGRAM = [sys.executable, "-m", "dpassay"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = np.array([[1.0], [0.0], [0.0]])
    np.savez(tmp_path / "d.npz", data=data, data_prime=data[1:])
    return tmp_path


def audit(*more, target="target.py:f"):
    words = ["audit", target, "--claim", "1", "--data", "d.npz", "--trials", "100"]
    options = ["--confidence", "0.999999", "--workers", "0", "--quiet", *more]
    return [*PROGRAM, *words, "--score", "scored.py:number", *options]


def write(place, text, name="target.py"):
    (place / name).write_text(text)
    (place / "scored.py").write_text("number = float\n")


GOOD = "def f(data, rng):\n    return data.sum() + rng.laplace(scale=1.0)\n"
BAD = "def f(data, rng):\n    return data.sum() + rng.laplace(scale=0.05)\n"
EXITS = {
    "os._exit while imported": (f"import os\nos._exit(0)\n{GOOD}", []),
    "execlp while imported": (f"import os\nos.execlp('true', 'true')\n{GOOD}", []),
    "in a trial in this process": (
        "import os\ndef f(data, rng):\n    os._exit(0)\n",
        [],
    ),
}


@pytest.mark.parametrize("case", EXITS)
def test_a_target_that_ends_the_process_is_no_verdict(place, case):
    text, more = EXITS[case]
    write(place, text)
    done = subprocess.run(audit(*more), capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done
    assert "there is no verdict" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_target_cannot_change_the_verdict_on_the_way_out(place):
    write(place, f"import atexit, os\natexit.register(os._exit, 0)\n{BAD}")
    done = subprocess.run(audit("--json"), capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["refuted"] is True
    assert done.returncode == 1, done.stderr


def test_children_of_a_target_may_exit(place):
    forks = (
        "import os\nchild = os.fork()\nif child == 0:\n    os._exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
    )
    write(place, forks + GOOD)
    done = subprocess.run(audit("--json"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------- Ctrl-C

SLOW = """
import time
time.sleep(0.2)

def f(data, rng):
    time.sleep(0.01)
    return data.sum() + rng.laplace(scale=1.0)
"""


def interrupt(command, moment, group=False):
    """Start a command, wait until it is past the start of Python, and then for a moment."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys\nsys.argv[0] = 'dpassay'\n"
         "from dpassay.cli import main\nprint(flush=True)\nsys.exit(main())", *command[3:]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    process.stdout.readline()
    time.sleep(moment)
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("number", range(10))
def test_ctrl_c_at_any_moment(place, number):
    """While it imports, while it plays here or in workers; the whole group, as a terminal does."""
    write(place, SLOW)
    moments = random.Random(number)
    moment = 0.1 + 0.25 * number + moments.uniform(0, 0.25)
    workers = str(number % 3)
    more = ["--workers", workers, "--store", "run.db", "--trials", "100000"]
    code, out, err = interrupt(audit(*more), moment, group=True)
    assert code == 130, (moment, out, err)
    # Python itself complains of a worker that is interrupted before its first line of ours.
    *others, last = err.splitlines()
    assert last.startswith("dpassay: interrupted"), err
    assert not others or workers != "0", err
    assert "/dpassay/" not in "".join(others), err
    left = {path.name for path in place.iterdir()}
    assert left <= {"d.npz", "target.py", "scored.py", "__pycache__", "run.db"}
    if "run.db" in left:
        with opened("run.db", make=False) as log:
            for run in log.runs():
                log.outcomes(run.key)  # what was written is whole


@pytest.mark.parametrize("words", ["report run.db -o page.html", "status run.db --watch"])
def test_ctrl_c_while_it_reads_and_writes(place, words):
    da.audit(
        lambda data, rng: data + rng.laplace(), (1.0, 0.0), claim=da.PureDP(1.0), score=float,
        trials=30, store="run.db",
    )  # fmt: skip
    code, _, err = interrupt([*PROGRAM, *words.split()], 0.4)
    assert (code, err.count("\n")) == (130, 1) or code == 0  # or it was faster
    assert not [path for path in place.iterdir() if path.name.startswith(".")]


def test_an_ignored_interrupt_stays_ignored(place):
    """As of a job that a shell started in the background."""
    write(place, GOOD)
    process = subprocess.Popen(
        audit("--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["refuted"] is False


# ------------------------------------------------------------------------------- the log meanwhile


DELETES = """
import os, shutil

def f(data, rng):
    if rng.random() < 0.1 and (os.path.exists("run.db") or os.path.exists("logs")):
        os.unlink('run.db')
    return data.sum() + rng.laplace(scale=1.0)
"""


def test_a_log_that_is_deleted_meanwhile_is_there_at_the_end(place):
    write(place, DELETES)
    done = subprocess.run(audit("--json", "--store", "run.db"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with opened("run.db", make=False) as log:
        (run,) = log.runs()
        assert (run.n_done, len(log.outcomes(run.key))) == (100, 100)


def test_a_log_that_cannot_be_kept_is_no_verdict(place):
    write(place, DELETES.replace("os.unlink('run.db')", "shutil.rmtree('logs')"))
    (place / "logs").mkdir()
    command = audit("--json", "--store", "logs/run.db")
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "logs/run.db: the log was deleted or replaced" in done.stderr
    assert done.stderr.count("\n") == 1


def test_scores_that_were_set_to_0_are_named(place, dpassay):
    """A refuted claim must not become one that is not refuted by an edit of the log."""
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 100, "store": "run.db"}
    assert da.audit(broken, (1.0, 0.0), **options).refuted
    with contextlib.closing(sqlite3.connect("run.db")) as connection, connection:
        changed = connection.execute("UPDATE trials SET score = 0 WHERE trial < 33").rowcount
    assert changed > 5
    named = f"{changed} trials were changed after they were written (0, 1, 2"
    for words in ("report run.db -o page.html", "status run.db", "status run.db --json"):
        shown = dpassay(words)
        assert shown.code == 3, words
        assert named in shown.err + shown.words, words
    assert '"state": "damaged"' in dpassay("status run.db --json").out
    assert not (place / "page.html").exists()
    with pytest.raises(LogDamaged):
        da.audit(broken, (1.0, 0.0), **options)


def broken(data, rng):
    return data + rng.laplace(scale=0.05)
