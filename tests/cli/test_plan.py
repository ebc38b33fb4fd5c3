import json
import math
import xml.etree.ElementTree as ET

from typer.testing import CliRunner

from dpassay.cli import app


def run(*words):
    return CliRunner().invoke(app, ["plan", *words])


def test_table_and_json(tmp_path):
    path = tmp_path / "plan.svg"
    shown = run("--claim", "1,1e-5", "--true", "4", "--svg", str(path))
    assert shown.exit_code == 0
    assert "clopper-pearson" in shown.output
    assert ET.fromstring(path.read_text()).tag.endswith("svg")
    data = json.loads(run("--claim", "gdp:0.5", "--true", "4", "--json").stdout)
    assert {row["method"] for row in data["plans"]} >= {"gdp", "clopper-pearson"}


def test_a_ladder_on_a_narrow_terminal(monkeypatch):
    """The less a claim is exceeded, the more it takes; no number is cut."""
    monkeypatch.setattr("dpassay.cli.plan._TIMES", (2, 4))
    data = json.loads(run("--claim", "gdp:1", "--json").stdout)
    counts = [[p["to_refute"] for p in rung["plans"]] for rung in data["ladder"]]
    numbers = [
        [math.inf if n is None else n for n in column] for column in zip(*counts, strict=True)
    ]
    assert all(column == sorted(column, reverse=True) for column in numbers)
    monkeypatch.setenv("COLUMNS", "60")
    shown = run("--claim", "gdp:1").stdout
    lines = shown.splitlines()[: shown.splitlines().index(shown.splitlines()[-1])]
    assert max(map(len, lines)) <= 60
    assert f"{numbers[0][0]:,.0f}".replace(",", " ") in shown


def test_misuse():
    nothing = ["--claim", "0"]
    for words in (["--claim", "x", "--true", "4"], ["--claim", "5,1e-5", "--true", "4"], nothing):
        done = run(*words)
        assert done.exit_code == 2
        assert "dpassay:" in done.stderr


def test_one_run():
    """A share gives a number of canaries, which gives the share back."""
    data = json.loads(run("--one-run", "--epsilon", "4", "--json").stdout)
    assert (data["canaries"], data["reachable"]) == (447, True)
    words = ["--one-run", "--epsilon", "4", "--canaries", "447"]
    again = json.loads(run(*words, "--parameters", "400", "--json").stdout)
    assert abs(again["share"] - 0.8) < 1e-3
    assert again["share_none"] < again["share"]
    shown = run(*words, "--parameters", "400").stdout
    assert "not reachable: needs m > d" in " ".join(shown.split())
    assert "not reachable" not in run(*words, "--parameters", "447").stdout


def test_one_run_misuse():
    for words, text in (
        (["--one-run"], "--epsilon is missing"),
        (["--one-run", "--epsilon", "4", "--claim", "1"], "--claim: not with --one-run"),
        (["--one-run", "--epsilon", "4", "--share", "0.5", "--canaries", "9"], "twice"),
        (["--one-run", "--epsilon", "4", "--share", "1"], "share=1"),
        (["--claim", "1,1e-5", "--share", "0.5"], "--share: only with --one-run"),
        ([], "--claim is missing"),
    ):
        done = run(*words)
        assert done.exit_code == 2
        assert text in done.stderr


def test_help_has_an_example():
    assert "dpassay plan --claim" in run("--help").output
