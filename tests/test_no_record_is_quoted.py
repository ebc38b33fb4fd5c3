"""A marker is planted in every kind of data; no message, log, report or other output holds it.

The markers are put together here, so that no source line in a traceback holds them either.
"""

import os
import subprocess
import sys
import textwrap
import traceback

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dpassay as da
from cli.hostile import run
from dpassay import learn, synth
from dpassay.attacks import Outputs, attack, observe
from dpassay.errors import DpassayError, describe, describe_shortly
from dpassay.report import audit_report
from dpassay.runs import fingerprint, play

TEXT = "-".join(["12", "Main", "Street"])
NUMBER = 777_000 + 123.25
MARKS = (TEXT, "777123")
GOOD = np.array([[1.0, 2.0], [3.0, 4.0]])
COINS = np.array([0, 1])


def _marked(text):
    return [mark for mark in MARKS if mark in text]


# ------------------------------------------------------------------------------- messages

ROWS = {
    "text": [[TEXT, 1.0], [1.0, 2.0]],
    "one dimension": np.array([NUMBER, 1.0]),
    "a number": NUMBER,
    "NaN beside it": [[np.nan, NUMBER], [1.0, 2.0]],
    "ragged": [[NUMBER, 2.0], [3.0]],
    "objects": [[{TEXT: 1}, 2.0], [3.0, 4.0]],
    "frame": pd.DataFrame({"a": [TEXT, "x"], "b": [1.0, 2.0]}),
    "sparse": sparse.csr_matrix([[NUMBER, np.nan], [1.0, 2.0]]),
    "complex": np.array([[NUMBER + 1j, 1], [1, 2]]),
    "three": np.full((2, 2, 2), NUMBER),
}
LABELS = {
    "text": [TEXT, "x"],
    "number": [0, int(NUMBER)],
    "fraction": [0.5, NUMBER],
    "NaN": [np.nan, NUMBER],
    "table": [[NUMBER, 1.0], [2.0, 3.0]],
    "three of them": [NUMBER, 1.0, 2.0],
}
LEARNERS = {
    "ridge": lambda: learn.PrivateRidge(epsilon=1.0, data_norm=1.0, target_bound=1.0),
    "logistic": lambda: learn.PrivateLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1]),
}
SCHEMA = synth.Schema(
    {
        "sex": ["F", "M"],
        "age": range(0, 120),
        "pay": synth.Numeric.between(0, 10, bins=4),
        "seen": synth.Date.between("2020-01-01", "2021-01-01", bins=4),
    }
)
ROW = {"sex": "F", "age": 3, "pay": 1.5, "seen": "2020-03-01"}


def _table(**changed):
    return pd.DataFrame([ROW, ROW | changed])


CALLS = {
    **{
        f"{name}.fit X {what}": lambda make=make, X=X: make().fit(X, COINS)
        for name, make in LEARNERS.items()
        for what, X in ROWS.items()
    },
    **{
        f"{name}.fit y {what}": lambda make=make, y=y: make().fit(GOOD, y)
        for name, make in LEARNERS.items()
        for what, y in LABELS.items()
        if (name, what) not in {("ridge", "number"), ("ridge", "fraction")}
    },
    "predict": lambda: LEARNERS["ridge"]().fit(GOOD, COINS).predict([NUMBER, 1.0]),
    "encode text": lambda: SCHEMA.encode(_table(sex=TEXT)),
    "encode whole": lambda: SCHEMA.encode(_table(age=int(NUMBER))),
    "encode number": lambda: SCHEMA.encode(_table(pay=NUMBER)),
    "encode date": lambda: SCHEMA.encode(_table(seen=TEXT)),
    "encode array": lambda: SCHEMA.encode(np.array([[TEXT, 1]])),
    "a frame for a schema": lambda: synth.MWEM(_table(sex=TEXT)),
    "a frame for columns": lambda: synth.Schema(_table(sex=TEXT)),
    "measured": lambda: synth.measure_domain(
        pd.DataFrame({"a": [TEXT, 3, {TEXT: 1}]}), epsilon=1.0, delta=1e-6
    ),
    "probabilities": lambda: Outputs(probabilities=[[NUMBER, 0.5]], labels=[0]),
    "probabilities of text": lambda: Outputs(probabilities=[[TEXT, 0.5]], labels=[0]),
    "labels": lambda: Outputs(probabilities=[[0.5, 0.5]], labels=[int(NUMBER)]),
    "labels of text": lambda: Outputs(probabilities=[[0.5, 0.5]], labels=[TEXT]),
    "losses": lambda: Outputs(losses=[[NUMBER], [np.nan]]),
    "negative losses": lambda: Outputs(losses=[-NUMBER]).of_label,
    "one loss": lambda: Outputs(losses=NUMBER),
    "no pair": lambda: attack(lambda X, y: y, [NUMBER], [NUMBER], method="loss"),
    "unknown class": lambda: observe(_Classifier(), GOOD, np.array([TEXT, "x"])),
    "response": lambda: da.mechanisms.randomized_response(
        [TEXT], epsilon=1.0, categories=["a", "b"]
    ),
    "a table for a number": lambda: da.mechanisms.laplace(1.0, sensitivity=[NUMBER], epsilon=1.0),
    "a table for a mechanism": lambda: da.audit([[NUMBER]], (GOOD, GOOD[1:]), claim=da.PureDP(1.0)),
    "a table for a claim": lambda: da.audit(
        lambda data, rng: 0.0, (GOOD, GOOD[1:]), claim=np.array([NUMBER])
    ),
    "no neighbours": lambda: da.audit(
        lambda data, rng: 0.0, (np.full((3, 2), NUMBER), GOOD), claim=da.PureDP(1.0)
    ),
    "a report of data": lambda: audit_report([NUMBER]),
    "no fingerprint": lambda: fingerprint({"data": [TEXT], "x": _Unpicklable()}),
    "a task that cannot travel": lambda: play(_Unpicklable(), 4, key="k", workers=2),
    "a result": lambda: play(lambda trials: [TEXT for _ in trials], 3, key="k", workers=1),
    "scores": lambda: da.lower_bound([TEXT], [0.0], delta=0.0),
    "scores with NaN": lambda: da.lower_bound([NUMBER, np.nan], [0.0], delta=0.0),
    "members": lambda: da.one_run([NUMBER], [int(NUMBER)], delta=0.0),
    "canaries": lambda: da.audit_one_run(
        lambda data, rng: 0.0, GOOD, NUMBER, claim=da.PureDP(1.0), score=lambda model, c: 0.0
    ),
}


class _Classifier:
    classes_ = np.array(["x", "y"])

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


class _Unpicklable:
    data = TEXT

    def __call__(self, trials):
        return [0.0 for _ in trials]

    def __reduce_ex__(self, protocol):
        raise TypeError(f"cannot pickle {TEXT}")

    def __repr__(self):
        return f"_Unpicklable({TEXT})"


@pytest.mark.parametrize("call", CALLS)
def test_messages_do_not_quote_records(call):
    with pytest.raises((DpassayError, ValueError, TypeError)) as caught:
        CALLS[call]()
    printed = "".join(traceback.format_exception(caught.value))  # with causes, as they are printed
    assert _marked(printed) == []


# ------------------------------------------------------------------------------- other people's


def test_other_errors_are_told_without_their_words():
    def fails():
        try:
            float(TEXT)
        except ValueError:
            raise KeyError(NUMBER) from None

    with pytest.raises(KeyError) as caught:
        fails()
    for told in (describe(caught.value), describe_shortly(caught.value)):
        assert _marked(told) == []
        assert "KeyError" in told
        assert os.path.basename(__file__) in told


def test_only_our_own_errors_keep_their_words():
    with pytest.raises(DpassayError) as caught:
        da.PureDP(-1.0)
    assert "epsilon=-1" in describe(caught.value)

    class Theirs(DpassayError):
        pass

    with pytest.raises(Theirs) as caught:
        raise Theirs(TEXT)
    assert _marked(describe(caught.value)) == []


TARGET = """
    import sys
    import numpy as np

    def often(data, rng):
        print("prints", data)
        if rng.random() < 0.05:
            raise ValueError(f"no model for {data.tolist()}")
        return float(len(data) + rng.laplace())

    def always(data, rng):
        print("prints", data)
        try:
            {}[data.tolist()[0]]
        except Exception:
            raise RuntimeError(f"bad row {data.tolist()}")

    def score(output):
        raise KeyError(str(output))

    def returns(data, rng):
        return data
"""
PROGRAM = """
    import sys
    text = open(sys.argv[1]).read()
    print(text)
    sys.exit(text)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "loud_target.py").write_text(textwrap.dedent(TARGET))
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    (tmp_path / "loads.py").write_text(f"data = {['ab', 'cd']}\nint({TEXT!r})\n")
    rows = np.array([[NUMBER, 1.0], [2.0, 3.0], [4.0, NUMBER]])
    np.savez(tmp_path / "d.npz", data=rows, data_prime=rows[1:])
    for name, table in (("a.csv", rows), ("b.csv", rows[1:])):
        pd.DataFrame(table, columns=["x", "y"]).to_csv(tmp_path / name, index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    given = set(os.listdir())
    yield given
    sys.modules.pop("loud_target", None)


def _files(given):
    """Everything that was written beside what was given, as one text."""
    for root, _, names in os.walk("."):
        for name in names:
            new = root != "." or name not in given
            if new and "__pycache__" not in root:
                with open(os.path.join(root, name), "rb") as file:
                    yield name, file.read().decode("latin-1")


RUNS = {
    "fails often": "loud_target.py:often --data d.npz --score loud_target.py:float",
    "fails always": "loud_target.py:always --data d.npz",
    "its score fails": "loud_target.py:returns --data d.npz --score loud_target.py:score",
    "a program": "--command=python&program.py&{data}&{output}.txt --data a.csv --data-prime b.csv",
    "its import fails": "loads.py:train --data d.npz",
}


@pytest.mark.parametrize("name", RUNS)
def test_what_a_target_says_goes_nowhere(folder, name):
    with open("loud_target.py", "a") as file:
        file.write("\nfloat = float\n")
    words = [word.replace("&", " ") for word in RUNS[name].split()]
    line = ["audit", *words, "--claim", "1", "--trials", "130", "--workers", "0"]
    code, out, err = run([*line, "--store", "run.db", "--report", "page.html"])
    assert code in (0, 2, 3), err
    shown = [out, err]
    if os.path.exists("run.db"):
        shown += [part for flags in ([], ["--json"]) for part in run(["status", "run.db", *flags])]
        shown += run(["report", "run.db", "-o", "again.html"])
    assert _marked("".join(map(str, shown))) == []
    written = dict(_files(folder))
    assert {name: _marked(text) for name, text in written.items() if _marked(text)} == {}
    assert "run.db" in written or name == "its import fails"
    assert list(os.scandir("temporary")) == []


def test_debug_shows_the_words_on_the_terminal_alone(folder):
    line = "audit loud_target.py:always --data d.npz --claim 1 --trials 130 --workers 0 --quiet"
    command = [sys.executable, "-m", "dpassay", "--debug", *line.split(), "--store", "run.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "bad row" in done.stderr
    assert _marked(done.stderr) == ["777123"]
    assert _marked(done.stdout) == []
    assert not any(_marked(text) for _, text in _files(folder))


# ------------------------------------------------------------------------------- the terminal

CONTROL = "\x1b]0;title\x07\x1b[2J\x9b31m‮"


def test_what_a_file_says_cannot_command_the_terminal(tmp_path):
    from dpassay.runs import open_log

    log = open_log(tmp_path / "run.db")
    log.begin("k" + CONTROL, {}, {"target": f"evil{CONTROL}", "claim": CONTROL})
    log.close()
    for words in (["status", str(tmp_path / "run.db")], ["status", f"{CONTROL}.db"]):
        _, out, err = run(words)
        assert not any(character in out + err for character in set(CONTROL) - set("]0;title[2J31m"))
    assert "evil\\x1b]0;title" in run(["status", str(tmp_path / "run.db")])[1]


# ------------------------------------------------------------------------------- spreadsheets


def test_a_synthetic_table_holds_no_formula():
    from dpassay.cli.tables import csv_text

    values = ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx", "＝1", "-5", "+3.2e1", "-", "a=b", ""]
    frame = pd.DataFrame({"=name": values, "n": np.arange(len(values)) - 5.0})
    text = csv_text(frame)
    import io

    back = pd.read_csv(io.StringIO(text, newline=""), dtype=str, keep_default_na=False)
    assert list(back.columns) == ["'=name", "n"]
    kept = ["-5", "+3.2e1", "-", "a=b", ""]
    assert back["'=name"].tolist() == [v if v in kept else f"'{v}" for v in values]
    assert back["n"].astype(float).tolist() == frame["n"].tolist()
    assert list(frame.columns) == ["=name", "n"]  # the frame itself is left as it was
