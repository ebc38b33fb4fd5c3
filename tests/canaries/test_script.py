"""A whole script as the one training of an audit, from the command line to the report."""

import json
import re

import pytest
from typer.testing import CliRunner

import dpassay as da
from dpassay.auditing import judge
from dpassay.canaries.script import audit_script
from dpassay.cli.program import app
from dpassay.errors import AuditStopped, InvalidTarget
from dpassay.runs import opened

SCRIPT = """
import sys
import numpy as np
import dpassay

data = [np.zeros(64) for _ in range(20)]
canaries = dpassay.canaries.for_rows(data, n=60, norm=1.0, public=np.zeros((1, 64)))
data = canaries.insert(data)
noise = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
total = sum(data) + noise * np.random.normal(size=64)
print("trained on", len(data))
print(canaries.judge(lambda x: x @ total, claim="1,1e-5"))
open("model.txt", "w").write("a model")
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return path


def run(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def test_a_script_as_it_is_and_without_noise(script):
    (verdict,) = audit_script(script)
    assert (verdict.refuted, verdict.claim) == (False, da.ApproxDP(1.0, 1e-5))
    (again,) = audit_script(script)
    assert again.evidence.scores.tolist() == verdict.evidence.scores.tolist()
    (other,) = audit_script(script, rng=1)
    assert other.evidence.worlds.tolist() != verdict.evidence.worlds.tolist()
    (bug,) = audit_script(script, ["0.001"])
    assert bug.refuted
    assert not (script.parent / "model.txt").exists()  # what it writes goes to a scratch copy


def test_the_command(script):
    found = run(script, "--one-run", "--json", "--arguments", "0.001", "--seed", 3)
    data = json.loads(found.stdout)
    assert (found.exit_code, data["refuted"], data["kind"], data["seed"]) == (1, True, "one run", 3)
    assert data["one_training"]["unit"] == "record"
    assert data["one_training"]["bounds"][0]["assumption"] == "none"
    assert data["claim"]["epsilon"] == 1.0
    shown = run(script, "--one-run", "--claim", "7,1e-6", "--confidence", "0.9")
    assert shown.exit_code == 0
    assert "claimed 7" in shown.stdout
    assert "confidence 0.9" in shown.stdout
    assert "Unit: one record." in shown.stdout
    assert "trained on" not in shown.stdout  # the script's own words are not the answer


def test_the_report_has_a_section(script):
    found = run(script, "--one-run", "--report", "audit.html", "--arguments", "0.001")
    assert found.exit_code == 1
    page = re.sub("<[^>]+>", " ", (script.parent / "audit.html").read_text(encoding="utf-8"))
    assert re.search(r"The one training\s+Unit that was audited\s+one record", page)
    assert "data path, sampling, clipping, noise, divisor" in page
    assert re.search(r"How often a canary was drawn, on average\s+1\b", page)
    data = json.loads((script.parent / "audit.json").read_text(encoding="utf-8"))
    assert data["audits"][0]["one_training"]["draws"] == 1.0
    # And the page can be made again from its data, also from those of before.
    from dpassay.report import load_report

    assert "The one training" in load_report(script.parent / "audit.json").html()
    del data["audits"][0]["one_training"]
    (script.parent / "old.json").write_text(json.dumps(data))
    assert "The one training" not in load_report(script.parent / "old.json").html()


def test_the_report_names_users_as_the_unit(script):
    script.write_text(SCRIPT.replace("n=60", "n=60, records_per_user=2"))
    assert run(script, "--one-run", "--report", "audit.html").exit_code == 0
    page = (script.parent / "audit.html").read_text(encoding="utf-8")
    assert "one user, who has 2 records: a canary" in page
    assert "Unit: one user of 2 records." in run(script, "--one-run").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train.py:train", "--one-run"], "must be a whole script for --one-run"),
        (["train.py", "--one-run", "--delta", "1e-6"], "delta='1e-06' does not go with"),
        (["train.py", "--one-run", "--secure"], "secure='True' does not go with"),
        (["train.py", "--one-run", "--data", "d.npz"], "data='d.npz' does not go with"),
    ],
)
def test_misuse(script, words, message):
    found = run(*words)
    assert found.exit_code == 2
    assert message in found.stderr


WATCHED = """
import numpy as np
from dpassay.canaries import Watch

watch = Watch(3000, canaries=2000)
for _ in range(4):
    drawn = watch.draw(0.5)
    known = drawn + 2.0 * np.random.normal(size=2000)
    watch.take(known, drawn, 2.0, 0.5, known=known)
print(watch.judge(delta=1e-5))
"""


@pytest.mark.parametrize("text", [SCRIPT, WATCHED])
def test_a_store_keeps_the_training(script, text):
    """The same command, and one with another claim or confidence, does not train again."""
    script.write_text(text)
    first = run(script, "--one-run", "--json", "--store", "run.db")
    assert first.exit_code == 0
    assert ("trained on" in first.stderr) == (text is SCRIPT)
    again = run(script, "--one-run", "--json", "--store", "run.db")
    assert "trained on" not in again.stderr
    assert again.stdout == first.stdout
    other = run(
        script, "--one-run", "--store", "run.db", "--claim", "9,1e-5", "--confidence", "0.9"
    )
    assert "claimed 9" in other.stdout
    assert "confidence 0.9)" in other.stdout
    assert "trained on" not in other.stderr
    for words in (["--seed", 1], ["--arguments", "5.0"]):  # these make it another training
        assert run(script, "--one-run", "--store", "run.db", *words).exit_code in (0, 1)
    with opened(script.parent / "run.db") as log:
        assert [record.n_done for record in log.runs()] == [1, 1, 1]
        kept = judge(log, log.runs()[0].key)
    assert kept.bound.epsilon == json.loads(first.stdout)["epsilon_lower"]


def test_what_was_judged_is_kept_when_a_script_fails_or_is_interrupted(script):
    for end, code in (("raise KeyboardInterrupt", 130), ("raise ValueError", 3)):
        script.write_text(SCRIPT + end)
        first = run(script, "--one-run", "--store", "run.db")
        assert first.exit_code == code
        again = run(script, "--one-run", "--store", "run.db", "--json")
        assert again.exit_code == 0
        assert json.loads(again.stdout)["attack"].startswith("60 canaries in one training")
    script.write_text("raise KeyboardInterrupt")
    assert "with --store" in run(script, "--one-run").stderr
    assert "checkpoints" in run(script, "--one-run", "--store", "run.db").stderr


def test_a_claim_that_does_not_fit_costs_no_training(script):
    script.write_text(SCRIPT.replace('claim="1,1e-5"', "claim=None"))
    missing = run(script, "--one-run", "--store", "run.db")
    assert (missing.exit_code, "claim is missing" in missing.stderr) == (2, True)
    stated = run(script, "--one-run", "--store", "run.db", "--claim", "1,1e-5")
    assert stated.exit_code == 0
    assert "trained on" not in stated.stderr


def test_a_script_has_its_own_confidence_unless_one_is_given(script):
    script.write_text(SCRIPT.replace('claim="1,1e-5"', 'claim="1,1e-5", confidence=0.99'))
    assert "confidence 0.99)" in run(script, "--one-run").stdout
    assert "confidence 0.95)" in run(script, "--one-run", "--confidence", "0.95").stdout


def test_a_script_that_judges_nothing_or_fails(script):
    script.write_text("x = 1\n")
    with pytest.raises(InvalidTarget, match=r"nothing was judged. Add"):
        audit_script(script)
    script.write_text("float('12 Main Street')\n")
    with pytest.raises(AuditStopped, match=r"train.py failed: ValueError") as stopped:
        audit_script(script)
    assert "Main" not in str(stopped.value)
    assert run(script, "--one-run").exit_code == 3
    script.write_text("import sys; sys.exit(4)\n")
    with pytest.raises(AuditStopped, match="left with exit code 4"):
        audit_script(script)


def test_several_verdicts_of_one_script(script):
    judged = '\nprint(canaries.judge(lambda x: x @ total, claim="9,1e-5"))\n'
    script.write_text(SCRIPT + judged)
    found = run(script, "--one-run", "--json", "--arguments", "0.001")
    data = json.loads(found.stdout)
    assert [verdict["refuted"] for verdict in data["verdicts"]] == [True, False]
    assert (data["refuted"], found.exit_code) == (True, 1)
    assert "Each verdict holds by itself" in run(script, "--one-run").stdout
