import json
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


def test_misuse():
    for words in (["--claim", "x", "--true", "4"], ["--claim", "5,1e-5", "--true", "4"]):
        done = run(*words)
        assert done.exit_code == 2
        assert "dpassay:" in done.stderr


def test_help_has_an_example():
    assert "dpassay plan --claim" in run("--help").output
