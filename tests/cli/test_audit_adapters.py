"""dpassay audit of whole scripts and of commands."""

import json
import shlex
import sys
import textwrap

import pytest
from typer.testing import CliRunner

from dpassay.cli import app

SCRIPT = """
    import random, sys
    from dpassay import probe

    records = probe.data([0.0], canary=1.0)
    scale = 0.05 if "--bug" in sys.argv else 1.0
    model = sum(records) + random.expovariate(1 / scale) - random.expovariate(1 / scale)
    probe.release([model] if "--list" in sys.argv else model)
    if "--fail" in sys.argv:
        sys.exit("no more disk")
"""
COMMAND = """
    import random, sys

    data, output, seed, scale = sys.argv[1:]
    draw = random.Random(int(seed)).expovariate
    rows = len(open(data).readlines())
    open(output, "w").write(str(rows + draw(1 / float(scale)) - draw(1 / float(scale))))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "count.py").write_text(textwrap.dedent(COMMAND))
    (tmp_path / "with.csv").write_text("age,name\n1,01\n2,NA\n")
    (tmp_path / "without.csv").write_text("age,name\n1,01\n")
    (tmp_path / "my_first.py").write_text("def first(output):\n    return output[0]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("my_first", None)


def run(line):
    return CliRunner().invoke(app, shlex.split(line), env={"COLUMNS": "100", "NO_COLOR": "1"})


PLAY = "--claim 1 --trials 130 --quiet --json --workers 0"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", 0),
        ("--arguments=--bug", 1),
        ("--arguments '--bug --list' --score my_first.py:first", 1),
        ("--arguments '--bug --list' --score learned", 1),
    ],
)
def test_a_script(folder, options, code):
    done = run(f"audit train.py {PLAY} {options}")
    assert done.exit_code == code, done.output
    assert json.loads(done.stdout)["refuted"] == (code == 1)


def test_a_script_in_a_process_of_its_own(folder):
    here = json.loads(run(f"audit train.py {PLAY}").stdout)
    there = json.loads(run(f"audit train.py {PLAY} --workers 1").stdout)
    for data in (here, there):
        data.pop("replay")
    assert here == there


def test_a_script_that_fails(folder):
    done = run(f"audit train.py {PLAY} --arguments=--fail")
    assert done.exit_code == 3
    assert "no more disk" in done.stderr
    done = run(f"audit train.py {PLAY} --arguments=--list")
    assert done.exit_code == 3
    assert "dpassay: the script released a list, not a number. Say how to score it" in done.stderr
    done = run(f"audit train.py {PLAY} --arguments=--list --dry-run")
    assert done.exit_code == 3
    assert "released a list, not a number" in done.stderr


@pytest.mark.parametrize(("scale", "code"), [("1.0", 0), ("0.05", 1)])
def test_a_command(folder, scale, code):
    command = shlex.quote(f"python count.py {{data}} {{output}}.txt {{seed}} {scale}")
    tables = "--data with.csv --data-prime without.csv --score my_first.py:first"
    done = run(f"audit --command {command} {tables} --claim 1 --trials 40 --quiet --workers 0")
    assert done.exit_code == code, done.output


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("audit --claim 1", "give one of them"),
        ("audit train.py --command 'python {data} {output}' --claim 1", "give one of them"),
        ("audit nothing.py --claim 1", "nothing.py"),
        ("audit train.py", "claim is missing"),
        ("audit train.py --claim 1 --data with.csv", "leave --data out"),
        ('audit train.py --claim 1 --arguments "\'"', "arguments="),
        ("audit train.py:f --claim 1 --data-prime with.csv", "data_prime="),
        ("audit --command 'python {data}' --claim 1 --data with.csv", "data_prime="),
        ("audit --command 'python c.py {data} {output}' --claim 1", "data="),
        (
            "audit --command 'python {data}' --claim 1 --data with.csv --data-prime without.csv",
            "{output}",
        ),
        (
            "audit --command 'python {data} {output}' --claim 1 --data with.csv --data-prime n.csv",
            "n.csv",
        ),
        (
            "audit --command 'python {data} {output}' --claim 1 --data with.csv "
            "--data-prime with.csv",
            "same records",
        ),
    ],
)
def test_misuse(folder, line, named):
    done = run(line)
    assert done.exit_code == 2, done.output
    assert named in done.stderr
