"""status, merge and report: what a log holds, joined, and on a page."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import dpassay as da
from dpassay.auditing import judge
from dpassay.cli import status as module
from dpassay.runs import open_log

PAIR = (1.0, 0.0)


def laplace(data, rng):
    return data + rng.laplace(scale=0.2)


def honest(data, rng):
    return data + rng.laplace(scale=1.0)


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A log of two audits; the second one, refuted, is the newer."""
    path = tmp_path_factory.mktemp("logs") / "run.db"
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 60, "store": path}
    da.audit(honest, PAIR, **options, description={"target": "honest.py:f"})
    da.audit(laplace, PAIR, **options, replay="dpassay audit laplace.py:f")
    return path


@pytest.fixture
def store(audited, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copy(audited, tmp_path)


def keys(store):
    log = open_log(store)
    found = [run.key for run in log.runs()]
    log.close()
    return found


# ------------------------------------------------------------------------------- status


def test_status(dpassay, store):
    shown = dpassay("status run.db")
    assert shown.code == 0
    for part in ("honest.py:f", "60 of 60", "finished", "not refuted", "REFUTED", "claimed 1"):
        assert part in shown.words
    first, second = dpassay("status run.db --json").data["runs"]
    assert [first["run"], second["run"]] == keys(store)
    assert (first["target"], first["claim"], first["state"]) == ("honest.py:f", "1.0", "finished")
    assert (first["refuted"], second["refuted"]) == (False, True)
    verdict = judge(store)
    assert second["epsilon_lower"] == verdict.bound.epsilon
    assert second["tested"] == verdict.n_counted < second["n_done"] <= second["trials"] == 60
    (one,) = dpassay(f"status run.db --json --run {keys(store)[0][:9]}").data["runs"]
    assert one == first


def test_status_of_what_is_not_finished(dpassay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = []

    def stops(data, rng):
        calls.append(data)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return data + rng.laplace()

    da.audit(stops, PAIR, claim=da.PureDP(1.0), score=float, trials=60, store="run.db")
    (run,) = dpassay("status run.db --json").data["runs"]
    assert (run["state"], run["per_second"], run["trials"]) == ("unfinished", None, 60)
    assert 0 < run["n_done"] == run["tested"] < 20
    assert "unfinished" in dpassay("status run.db --watch").words  # nobody writes: one look


def test_status_of_failures_and_of_other_runs(dpassay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def fails(data, rng):
        raise RuntimeError("the disk is on fire")

    with pytest.raises(da.auditing.AuditStopped):
        da.audit(fails, PAIR, claim=da.PureDP(1.0), score=float, trials=60, store="run.db")
    log = open_log("run.db")
    log.begin("plain", {})
    log.close()
    first, second = dpassay("status run.db --json").data["runs"]
    assert first["state"] == "stopped"
    assert first["n_failed"] > 10
    assert " in fails\nIts words are left out" in first["note"]
    assert "RuntimeError" in first["note"]
    assert "fire" not in first["note"]
    assert (second["state"], second["refuted"]) == ("unknown", None)
    assert "failed, stopped RuntimeError at " in dpassay("status run.db").words


def test_status_of_an_empty_log(dpassay, tmp_path):
    open_log(tmp_path / "run.db").close()
    assert "no runs yet" in dpassay(f"status {tmp_path / 'run.db'}").out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("status other.db", "other.db: there is no such file. Pass the path of a trial log."),
        ("status run.db --watch --json", "--watch"),
        ("status run.db --every 0", "every=0"),
        ("status run.db --run x", "run='x'"),
        ("status notes.txt", "not an SQLite"),
        ("merge all.db other.db", "other.db"),
        ("merge run.db run.db", "into='run.db'"),
        ("merge all.db run.db notes.txt", "notes.txt"),
        ("report other.db", "other.db"),
        ("report notes.txt", "not JSON"),
        ("report run.db -o page.txt", ".html"),
        ("report run.db --run x", "run='x'"),
        ("report run.db --claim x", "x"),
        ("report run.db --confidence 1", "confidence"),
        ("report run.db --proof nonsense:1", "nonsense"),
        ("report run.db --about other.toml", "other.toml"),
    ],
)
def test_misuse(dpassay, store, words, named):
    (Path(store).parent / "notes.txt").write_text("not a database, " * 50)
    before = sorted(path.name for path in Path(store).parent.iterdir())
    done = dpassay(words)
    assert done.code == 2
    assert named in done.err
    assert "Traceback" not in done.err
    assert sorted(path.name for path in Path(store).parent.iterdir()) == before


WRITER = """
import sys, time
import dpassay as da
from dpassay.runs import open_log

def slow(data, rng):
    time.sleep(0.02)
    return data + rng.laplace(scale=1.0)

da.audit(slow, (1.0, 0.0), claim=da.PureDP(1.0), score=float, trials=100_000, store=sys.argv[1])
"""


def test_status_while_another_process_writes(dpassay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "writer.py").write_text(WRITER)
    process = subprocess.Popen([sys.executable, "writer.py", "run.db"])
    try:
        while not os.path.exists("run.db") or not keys("run.db"):
            assert process.poll() is None
            time.sleep(0.05)
        looks = []
        while len(looks) < 2 or looks[-1]["n_done"] == looks[0]["n_done"]:
            looks += dpassay("status run.db --json").data["runs"]
            time.sleep(0.3)
        last = looks[-1]
        assert last["state"] == "running"
        assert last["n_done"] > looks[0]["n_done"]
        assert 0 < last["per_second"] <= 50
        assert last["seconds_left"] > 100
        assert last["workers"] == 1
        assert "running, " in dpassay("status run.db").words
        process.send_signal(signal.SIGINT)
        process.wait(20)
        assert dpassay("status run.db --json").data["runs"][0]["state"] == "unfinished"
    finally:
        process.kill()
        process.wait()


def test_watch_follows_to_the_end(dpassay, store, monkeypatch):
    """Three looks: running, running, finished; a line whenever something is new."""
    real, looks = module._Look.__call__, []

    def look(self):
        looks.append(1)
        states = real(self)[:1]
        if len(looks) < 3:
            running = {"state": "running", "per_second": 5.0, "seconds_left": 9.0, "workers": 3}
            return [replace(state, **running) for state in states]
        return states

    monkeypatch.setattr(module._Look, "__call__", look)
    shown = dpassay("status run.db --watch --every 0.01")
    assert shown.code == 0
    assert len(looks) == 3
    assert shown.out.count("honest.py:f") == 2
    assert "running, 3 workers, 5/s, at most 9 s left" in shown.out.splitlines()[0]
    assert "finished" in shown.out.splitlines()[1]


# ------------------------------------------------------------------------------- merge


def test_merge(dpassay, store):
    """Halves of the same run, played in two places, make the whole."""
    key = keys(store)[1]
    whole = open_log(store)
    record, outcomes = whole.runs()[1], whole.outcomes(key)
    for name, part in (("a.db", outcomes[: 2 * len(outcomes) // 3]), ("b.db", outcomes[5:])):
        log = open_log(name)
        log.begin(key, record.configuration, record.description)
        log.add(key, part)
        log.close()
    whole.close()
    done = dpassay("merge all.db a.db b.db --json").data
    assert done["new"] == len(outcomes) == done["logs"]["a.db"] + done["logs"]["b.db"]
    assert judge("all.db").bound == judge(store).bound
    again = dpassay("merge all.db a.db b.db")
    assert again.code == 0
    assert again.out.count("nothing new") == 2


def test_foreign_files_are_left_alone_by_merge(dpassay, store):
    foreign = sqlite3.connect("foreign.db")
    foreign.execute("CREATE TABLE songs (title TEXT)")
    foreign.close()
    before = Path("foreign.db").read_bytes()
    for words in ("merge all.db run.db foreign.db", "merge foreign.db run.db"):
        done = dpassay(words)
        assert done.code == 2
        assert "another program" in done.err
    assert Path("foreign.db").read_bytes() == before
    assert not os.path.exists("all.db")


# ------------------------------------------------------------------------------- report


def test_report_from_a_log_and_from_its_data(dpassay, store):
    verdict, following, *written = dpassay("report run.db -o one.html").out.splitlines()
    assert following.startswith("Next: Look for the fault")
    assert written == ["Written: one.html", "Written: one.json"]
    data = json.loads(Path("one.json").read_text(encoding="utf-8"))
    assert data["audits"][0]["verdict"]["sentence"] in verdict
    assert data["schema"] == "dpassay-report"
    page = Path("one.html").read_text(encoding="utf-8")
    assert "dpassay audit laplace.py:f" in page
    files = dpassay("report one.json -o two.html --json").data["files"]
    assert files == ["two.html", "two.json"]
    assert Path("two.html").read_text(encoding="utf-8") == page
    refused = dpassay("report one.json -o two.html --claim 3")
    assert refused.code == 2
    assert "--claim" in refused.err


def test_report_on_another_claim_with_a_proof_and_a_disclosure(dpassay, store):
    Path("about.toml").write_text('unit = "person"\n')
    options = "--claim 0.1 --confidence 0.9 --proof 2.5 --about about.toml"
    done = dpassay(f"report run.db --run {keys(store)[0][:8]} -o page.html {options}")
    assert done.code == 0, done.err
    page = Path("page.html").read_text(encoding="utf-8")
    assert "honest.py:f" in page
    assert "person" in page
    assert "2.5" in page
