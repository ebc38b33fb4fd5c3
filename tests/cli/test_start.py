"""How the program starts and ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from dpassay import __version__
from dpassay.cli import app
from dpassay.privacy import ApproxDP, Ledger

HEAVY = ("numpy", "scipy", "pandas", "matplotlib", "sklearn", "dp_accounting", "opendp", "jax")


def _commands(group=None, path="dpassay"):
    group = group or get_command(app)
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield f"{path} {name}", command
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(_commands())
ELSEWHERE = {
    "synth",
    "reproduce",
    "demo",
    "check",
    "audit",
    "status",
    "merge",
    "report",
    "attack",
}  # need files, or time
EXAMPLES = sorted({command.epilog.removeprefix("Example: ") for command in COMMANDS.values()})


def _python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    "code",
    [
        "import dpassay.cli",
        "from dpassay.cli import app\ntry: app(['--help'])\nexcept SystemExit: pass",
    ],
)
def test_starting_imports_nothing_heavy(code):
    look = (
        f"import json, sys\n{code}\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    assert json.loads(_python(look).stdout.splitlines()[-1]) == []


def test_the_installed_program():
    program = Path(sys.executable).with_name("dpassay")
    done = subprocess.run(
        [program, "explain", "--epsilon", "0.5", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["odds"]["laplace"]["out_of_100"] == [39, 61]
    assert done.stderr == ""


def test_version(dpassay):
    assert dpassay("--version").out == f"dpassay {__version__}\n"


@pytest.mark.parametrize("path", COMMANDS)
def test_help_shows_an_example_of_this_very_command(dpassay, path):
    result = dpassay(f"{path.removeprefix('dpassay ')} --help")
    assert result.code == 0
    assert f"Example: {path}" in result.words


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not ELSEWHERE & set(e.split())])
def test_examples_work_and_print_only_json(dpassay, example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "new" not in example.split():  # which makes it
        Ledger("project.db", budget=ApproxDP(3.0, 1e-6))
    for name in ("patients.csv", "table.csv"):
        Path(name).write_text("age,sex\n70,F\n20,M\n")
    if "work" in example.split():
        described = "audit example:honest --trials 128 --store runs/laplace --describe"
        assert dpassay(described).code == 0
    result = dpassay(f"{example.removeprefix('dpassay ')} --json")
    assert result.data
    assert result.err == ""


def test_every_command_is_listed_in_help(dpassay):
    shown = dpassay("--help").words
    for path in COMMANDS:
        assert path.split()[1] in shown


def test_ctrl_c_is_130(dpassay, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpassay.report.odds.explain", interrupted)
    result = dpassay("explain --epsilon 1")
    assert result.code == 130
    assert "Traceback" not in result.err


def test_a_crash_is_3_and_never_1(monkeypatch):
    code = (
        "import sys\nfrom dpassay.cli import main\nimport dpassay.report.odds as odds\n"
        "def broken(*_): raise RuntimeError('a bug of ours')\n"
        "odds.explain = broken\n"
        "sys.argv = ['dpassay', 'explain', '--epsilon', '1']\n"
        "sys.exit(main())"
    )
    for debug in ("", "1"):
        monkeypatch.setenv("DPASSAY_DEBUG", debug)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 3
        assert "a fault of dpassay itself: RuntimeError at " in done.stderr
        # Its words may quote a record: they are for whoever asks for them.
        assert ("a bug of ours" in done.stderr) == (debug == "1")


def test_a_reader_that_leaves_is_no_verdict():
    code = (
        "import os, sys\nfrom dpassay.cli import main\n"
        "sys.argv = ['dpassay', 'doctor', '--json']\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "sys.stdout = open(1, 'w', buffering=1)\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_missing_is_misuse(dpassay, tmp_path):
    result = dpassay(f"explain --epsilon 1 --svg {tmp_path}/nowhere/odds.svg")
    assert result.code == 2
    assert "nowhere" in result.err
    assert result.err.count("\n") == 1
