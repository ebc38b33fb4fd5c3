"""Commands as mechanisms: what they read, what is read of them, how they end."""

import contextlib
import json
import os
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay._rng import for_trial
from dpassay.attacks.features import features
from dpassay.auditing import AuditStopped, CommandFailed, from_command
from dpassay.errors import InvalidArgument
from dpassay.runs import run_key

ECHO = """
    import json, os, sys
    data, output, *rest = sys.argv[1:]
    out = {"lines": open(data).read().splitlines(), "rest": rest, "python": sys.executable}
    out["threads"], out["hash"] = os.environ["OMP_NUM_THREADS"], hash("same")
    json.dump(out, open(output, "w"))
    print("a lot of words")
"""
RNG = for_trial(0, 0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, and one of its own for temporary files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))  # of workers too
    monkeypatch.setattr(tempfile, "tempdir", None)
    write(tmp_path, ECHO, "echo.py")
    yield tmp_path
    assert not list((tmp_path / "temporary").iterdir())


def write(folder, text, name):
    (folder / name).write_text(textwrap.dedent(text))


def run(command, data=((0.5, 1.0),), rng=RNG, **options):
    return from_command(command, **options)(np.array(data), rng)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (pd.DataFrame({"a": ["01", "x,y"], "b": [0.1, np.nan]}), ["a,b", "01,0.1", '"x,y",']),
        (np.array([[1, 2], [3, 4]]), ["x0,x1", "1,2", "3,4"]),
        ((np.array([[0.1 + 0.2], [1e-300]]), ["u", "v"]), ["x0,y", f"{0.1 + 0.2!r},u", "1e-300,v"]),
    ],
)
def test_tables(folder, data, lines):
    assert from_command("python echo.py {data} {output}.json")(data, RNG)["lines"] == lines


def test_words(folder, monkeypatch):
    seen = run("python echo.py {data} {output}.json --seed={seed} 'two words' $HOME ; {{}}")
    seed = seen["rest"][0].removeprefix("--seed=")
    assert 0 <= int(seed) < 2**31
    assert seen["rest"][1:] == ["two words", "$HOME", ";", "{}"]  # no shell has seen them
    assert seen["python"] == sys.executable
    listed = from_command([sys.executable, "echo.py", "{data}", "{output}.json", "a b"])
    monkeypatch.chdir("/")  # the script is still found
    assert listed(np.eye(2), RNG)["rest"] == ["a b"]


def test_a_trial_depends_on_its_number_alone(folder, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    command = from_command("python echo.py {data} {output}.json {seed}")
    seen = [command(np.eye(2), for_trial(0, trial)) for trial in (1, 2, 1)]
    assert seen[0] == seen[2] != seen[1]
    assert seen[0]["threads"] == "1"
    assert command(np.eye(2), None) != command(np.eye(2), None)


SAVE = {
    ".npy": "np.save(path, np.array([1.0, 2.0]))",
    ".npz": "np.savez(path, b=[2.0], a=[1.0])",
    ".json": "open(path, 'w').write('[1.0, 2.0]')",
    ".csv": "open(path, 'w').write('a,b\\n1.0,2.0\\n')",
    ".txt": "open(path, 'w').write('1.0 2.0\\n')",
}


@pytest.mark.parametrize("suffix", SAVE)
def test_results(folder, suffix):
    write(folder, f"import sys\nimport numpy as np\npath = sys.argv[2]\n{SAVE[suffix]}", "save.py")
    seen = run(f"python save.py {{data}} {{output}}{suffix}")
    assert features(seen).tolist() == [2.0, 1.0, 2.0]


def test_other_results(folder):
    write(folder, "import sys\nopen(sys.argv[2], 'w').write('yes')", "save.py")
    assert run("python save.py {data} {output}.txt") == "yes"
    assert run("python save.py {data} {output}.model", read=Path.read_text) == "yes"
    with pytest.raises(InvalidArgument, match=r"output\.model.*read="):
        run("python save.py {data} {output}.model")
    with pytest.raises(CommandFailed, match="nothing"):
        run("python save.py {data} elsewhere {output}")
    write(folder, "import sys\nfor s in 'ab': open(sys.argv[2] + s, 'w')", "two.py")
    with pytest.raises(CommandFailed, match="one file"):
        run("python two.py {data} {output}")


def test_pickles_are_not_opened(folder):
    write(folder, "import sys, pickle\npickle.dump(1, open(sys.argv[2], 'wb'))", "save.py")
    with pytest.raises(ValueError, match="pickle"):
        run("python save.py {data} {output}.npy")


def test_failures(folder):
    write(
        folder, "import sys\nprint('x' * 5000, file=sys.stderr)\nsys.exit('no such column')", "f.py"
    )
    with pytest.raises(CommandFailed, match="left with exit code 1") as raised:
        run("python f.py {data} {output}")
    assert "no such column" not in str(raised.value)  # what a program says may quote its data
    with pytest.raises(AuditStopped, match="left with exit code 1"):
        audit(from_command("python f.py {data} {output}"), trials=20)


def test_what_a_program_says_is_shown_on_the_terminal_when_debugging(folder, monkeypatch, capfd):
    monkeypatch.setenv("DPASSAY_DEBUG", "1")
    write(folder, "import sys\nsys.exit('no such column')", "f.py")
    with pytest.raises(CommandFailed, match="left with exit code 1"):
        run("python f.py {data} {output}")
    assert "no such column" in capfd.readouterr().err


def audit(command, **options):
    pair = np.eye(3), np.eye(3)[:2]
    return da.audit(command, pair, claim=da.PureDP(1.0), score=float, **options)


STAYS = """
    import subprocess, sys, time
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    open(sys.argv[3], "a").write(f"{child.pid}\\n")
    if sys.argv[4:]:
        time.sleep(300)
    open(sys.argv[2], "w").write("1.0")
"""


def gone(pid):
    """Whether a process has ended, or is about to: one that was killed may wait to be reaped."""
    for _ in range(100):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.05)
                continue
        return True
    return False


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_is_left_of_a_trial_that_hangs(folder, workers):
    write(folder, STAYS, "stays.py")
    command = from_command("python stays.py {data} {output} pids hang")
    with pytest.raises(AuditStopped, match="timeout"):
        audit(command, trials=workers, timeout=5.0, workers=workers)
    pids = list(map(int, (folder / "pids").read_text().split()))
    assert pids
    assert all(map(gone, pids))


def test_nothing_is_left_of_a_trial_that_ends(folder):
    write(folder, STAYS, "stays.py")
    assert run("python stays.py {data} {output}.txt pids").tolist() == [1.0]
    assert gone(int((folder / "pids").read_text()))


def test_no_records_are_left_when_workers_are_ended(folder):
    """At a refutation the other worker is in the middle of a trial, and is killed."""
    slow = "import sys, time\ntime.sleep(0.3)\nopen(sys.argv[2], 'w').write(sys.argv[3])\n"
    write(folder, slow.replace("sys.argv[3]", "str(len(open(sys.argv[1]).readlines()))"), "slow.py")
    slow = from_command("python slow.py {data} {output}.json")
    verdict = audit(slow, trials=100, workers=2, fixed_seed="leak")
    assert verdict.refuted  # and the fixture looks at what is left


def test_the_key_follows_the_files(folder):
    write(folder, "import beside", "train.py")
    write(folder, "", "beside.py")
    write(folder, "{}", "settings.json")
    text = "python train.py {data} {output} settings.json"
    keys = [run_key({}, code=[from_command(text)]) for _ in range(2)]
    assert keys[0] == keys[1]
    for name in ("train.py", "beside.py", "settings.json"):
        write(folder, "import beside  # changed" if name == "train.py" else "4", name)
        keys.append(run_key({}, code=[from_command(text)]))
    keys.append(run_key({}, code=[from_command(text + " --fast")]))
    assert len(set(keys)) == 5


def test_it_can_be_sent(folder):
    command = from_command("python echo.py {data} {output}.json", read=json.load)
    assert cloudpickle.loads(cloudpickle.dumps(command)) == command


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python train.py {output}", "{data}"),
        ("python train.py {data}", "{output}"),
        ("python train.py {data} {output} {other}", "other"),
        ("python train.py {data} {output} {", "brace"),
        ("python train.py {data} {output} {}", "places"),
        ("no_such_program {data} {output}", "no_such_program"),
        ("python 'train.py {data} {output}", "quotation"),
        ("", "{data}"),
    ],
)
def test_misuse(command, named):
    with pytest.raises(InvalidArgument) as raised:
        from_command(command)
    assert named in str(raised.value)


def test_what_is_no_table(folder):
    with pytest.raises(InvalidArgument, match="shape"):
        run("python echo.py {data} {output}.json", data=[1.0])
    with pytest.raises(InvalidArgument, match="read"):
        from_command("python echo.py {data} {output}", read="json")
