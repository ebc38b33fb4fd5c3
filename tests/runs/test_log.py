"""The trial log: the first one stands, bits are kept, logs can be joined."""

import math
import sqlite3
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpassay
from dpassay.errors import InvalidArgument
from dpassay.runs import (
    LogError,
    MemoryLog,
    Outcomes,
    SqliteLog,
    TrialLog,
    merge,
    open_log,
    opened,
    schema,
)


@pytest.fixture(params=["memory", "file"])
def log(request, tmp_path):
    log = open_log(None if request.param == "memory" else tmp_path / "run.db")
    log.begin("k", {"seed": 1, "nested": {"a": [1, 2]}})
    yield log
    log.close()


def bits(x):
    return struct.pack("<d", x)


SCORES = [0.0, -0.0, 1.5, -math.inf, math.inf, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 3.0]


def test_what_goes_in_comes_out(log):
    outcomes = Outcomes.of(
        np.arange(9),
        SCORES,
        worlds=[0, 1, 0, 1, 0, 1, 0, 127, -1],
        seconds=np.linspace(0, 1, 9),
        payloads={2: b"\0raw\xff", 4: b""},
        errors={3: "Traceback\nünïcode"},
    )
    assert log.add("k", outcomes) is outcomes
    back = log.outcomes("k")
    assert [bits(x) for x in back.scores] == [bits(x) for x in SCORES]
    assert back.trials.tolist() == list(range(9))
    assert back.worlds.tolist() == outcomes.worlds.tolist()
    assert back.failed.tolist() == [i == 3 for i in range(9)]
    assert back.seconds.tolist() == outcomes.seconds.tolist()
    assert back.payloads == {2: b"\0raw\xff", 4: b""}
    assert back.errors == {3: "Traceback\nünïcode"}
    assert log.counts("k") == {"done": 8, "failed": 1}


def test_nan_comes_back_as_nan(log):
    log.add("k", Outcomes.of([0, 1], [np.nan, np.nan], payloads={1: b"x"}))
    back = log.outcomes("k")
    assert np.isnan(back.scores).all()
    assert back.failed.tolist() == [True, False]


def test_the_first_one_stands(log):
    log.add("k", Outcomes.of([3, 1], [3.0, np.nan]))
    kept = log.add("k", Outcomes.of([1, 2, 3], [10.0, 20.0, 30.0]))
    assert kept.trials.tolist() == [1, 2, 3]
    assert np.array_equal(kept.scores, [np.nan, 20.0, 3.0], equal_nan=True)
    assert kept.failed.tolist() == [True, False, False]
    assert np.array_equal(log.outcomes("k").scores, [np.nan, 20.0, 3.0], equal_nan=True)
    again = log.add("k", Outcomes.of([2], [-1.0]))
    assert again.scores.tolist() == [20.0]


def test_runs_do_not_mix(log):
    log.begin("other", {})
    log.add("k", Outcomes.of([0], [1.0]))
    log.add("other", Outcomes.of([0], [2.0]))
    assert log.outcomes("k").scores.tolist() == [1.0]
    assert log.outcomes("other").scores.tolist() == [2.0]
    assert len(log.outcomes("unknown")) == 0
    assert log.counts("unknown") == {"done": 0, "failed": 0}


def test_list_of_runs(log):
    log.begin("k", {"seed": 2})  # again: the first configuration stays
    log.begin("z", {})
    log.add("k", Outcomes.of([0, 1], [1.0, np.nan]))
    first, second = log.runs()
    assert (first.key, first.n_done, first.n_failed) == ("k", 1, 1)
    assert first.configuration == {"seed": 1, "nested": {"a": [1, 2]}}
    assert first.version == dpassay.__version__
    assert first.created.endswith("+00:00")
    assert (second.key, second.n_done) == ("z", 0)


@settings(max_examples=12)
@given(
    adds=st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.floats(allow_nan=False)), max_size=20), max_size=6
    )
)
def test_both_logs_agree(tmp_path_factory, adds):
    path = tmp_path_factory.mktemp("logs") / "run.db"
    with opened(None) as memory, opened(path) as file:
        for log in (memory, file):
            log.begin("k", {})
        for rows in adds:
            rows = dict(rows)
            outcomes = Outcomes.of(list(rows), list(rows.values()))
            kept = [log.add("k", outcomes) for log in (memory, file)]
            order = [np.argsort(part.trials) for part in kept]
            assert len(kept[0]) == len(kept[1]) == len(rows)
            first, second = (part[rows_] for part, rows_ in zip(kept, order, strict=True))
            assert first.scores.tobytes() == second.scores.tobytes()
        one, two = memory.outcomes("k"), file.outcomes("k")
        assert one.trials.tolist() == two.trials.tolist() == sorted(set(one.trials.tolist()))
        assert one.scores.tobytes() == two.scores.tobytes()


def test_merge_is_idempotent(log, tmp_path):
    other = SqliteLog(tmp_path / "other.db")
    other.begin("k", {"seed": 1})
    other.begin("new", {"seed": 9})
    log.add("k", Outcomes.of([0, 1], [0.0, 1.0]))
    other.add("k", Outcomes.of([1, 2], [1.0, 2.0], payloads={2: b"p"}, seconds=9.0))
    other.add("new", Outcomes.of([5], [np.nan], errors={5: "boom"}))
    assert merge(log, other) == 2
    assert merge(log, other) == 0
    assert log.outcomes("k").scores.tolist() == [0.0, 1.0, 2.0]
    assert log.outcomes("k").payloads == {2: b"p"}
    assert log.outcomes("new").errors == {5: "boom"}
    assert [run.key for run in log.runs()] == ["k", "new"]
    other.close()


@pytest.mark.parametrize(
    "theirs",
    [
        Outcomes.of([1], [-1.0]),
        Outcomes.of([1], [1.0], worlds=[1]),
        Outcomes.of([1], [1.0], payloads={1: b"p"}),
        Outcomes.of([1], [np.nan], errors={1: "boom"}),
    ],
    ids=["score", "world", "payload", "failure"],
)
def test_merge_names_conflicting_trials(log, theirs):
    other = MemoryLog()
    for part in (log, other):
        part.begin("k", {"seed": 1})
    log.add("k", Outcomes.of([0, 1], [0.0, 1.0]))
    other.add("k", theirs)
    other.add("k", Outcomes.of([7], [7.0]))
    with pytest.raises(LogError, match=r"mine.db and theirs.db .* 1 trial \(1\)"):
        merge(log, other, names=("mine.db", "theirs.db"))
    assert log.outcomes("k").trials.tolist() == [0, 1], "nothing is added then"


def test_two_connections(tmp_path):
    """Written by one, seen by the other, at once; both may write."""
    with opened(tmp_path / "run.db") as one, opened(tmp_path / "run.db") as two:
        one.begin("k", {})
        one.add("k", Outcomes.of([0], [0.5]))
        assert two.outcomes("k").scores.tolist() == [0.5]
        two.add("k", Outcomes.of([0, 1], [9.0, 1.5]))
        assert one.outcomes("k").scores.tolist() == [0.5, 1.5]


def test_many_writers(tmp_path):
    path, errors = tmp_path / "run.db", []

    def write(start):
        try:
            with opened(path) as log:
                log.begin("k", {})
                for trial in range(start, start + 40):
                    log.add("k", Outcomes.of([trial], [float(trial)]))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(20 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with opened(path) as log:
        assert log.outcomes("k").scores.tolist() == list(range(100))
    assert [p.name for p in tmp_path.iterdir()] == ["run.db"]


def test_publishing_leaves_an_open_log_alone(tmp_path, monkeypatch):
    """Two writers make the same log: the slower one does not remove the faster one's journal."""
    path, slow = tmp_path / "run.db", threading.Event()
    looked = schema.companions

    def look_slowly(place):
        if place == path and threading.current_thread() is slower:
            slow.set()
            time.sleep(0.3)
        return looked(place)

    monkeypatch.setattr(schema, "companions", look_slowly)
    slower = threading.Thread(target=lambda: open_log(path).close())
    slower.start()
    assert slow.wait(30)
    with opened(path) as log:
        log.begin("k", {})
        log.add("k", Outcomes.of([0], [0.5]))
        slower.join()
        log.add("k", Outcomes.of([1], [1.5]))
    with opened(path) as log:
        assert log.outcomes("k").scores.tolist() == [0.5, 1.5]


def test_opening_takes_no_lock_away(tmp_path):
    """A second log of the same file does not end the lock that the first one holds on it."""
    path = tmp_path / "run.db"
    with opened(path) as log:
        log.begin("k", {})
        held = _locks(path)
        assert held
        with opened(path, make=False):
            assert _locks(path) >= held
        assert _locks(path) >= held


def _locks(path):
    """Where this process holds POSIX locks on a file, as the kernel tells."""
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    inode = str(path.stat().st_ino)
    return {(w[6], w[7]) for w in lines if w[1] == "POSIX" and w[5].endswith(f":{inode}")}


def test_locked_for_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr("dpassay.runs.schema.BUSY_SECONDS", 0.05)
    with opened(tmp_path / "run.db") as log:
        other = sqlite3.connect(tmp_path / "run.db")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogError, match="Another process kept it locked"):
            log.begin("k", {})
        other.close()
        log.begin("k", {})
        assert len(log.runs()) == 1


def test_file_names_with_odd_characters(tmp_path):
    path = tmp_path / "a run? 100 % #1 ü.db"
    with opened(path) as log:
        log.begin("k", {})
    assert path.exists()


def test_open_log(tmp_path):
    assert isinstance(open_log(None), MemoryLog)
    log = open_log(str(tmp_path / "run.db"))
    assert isinstance(log, SqliteLog)
    assert isinstance(log, TrialLog)
    assert open_log(log) is log
    with opened(log) as same:
        assert same is log
    assert log.runs() == []  # still open: it was passed open
    log.close()
    log.close()
    with pytest.raises(LogError, match=r"store=.*none\.db"):
        open_log(tmp_path / "none.db", make=False)
    assert not (tmp_path / "none.db").exists()


def test_unknown_run(tmp_path):
    with opened(tmp_path / "run.db") as log, pytest.raises(InvalidArgument, match="begin it first"):
        log.add("nobody", Outcomes.of([0], [1.0]))


def test_schema_can_be_read_by_anyone(tmp_path):
    with opened(tmp_path / "run.db") as log:
        log.begin("k", {"seed": 1})
        log.add("k", Outcomes.of([0, 1], [0.25, np.nan], worlds=[1, 0]))
    connection = sqlite3.connect(tmp_path / "run.db")
    query = "SELECT key, trial, state, world, score, error FROM trials JOIN runs ON run = id"
    assert connection.execute(query).fetchall() == [
        ("k", 0, "done", 1, 0.25, None),
        ("k", 1, "failed", 0, None, "the task returned NaN"),
    ]
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_the_latest_description_stands(log):
    log.begin("k", {"seed": 2}, {"claim": "3"})
    log.begin("k", {"seed": 3})
    (run,) = log.runs()
    assert (run.configuration["seed"], run.description) == (1, {"claim": "3"})
    log.begin("k", {}, {"claim": "4", "nested": [1]})
    assert log.runs()[0].description == {"claim": "4", "nested": [1]}
    assert log.runs()[0].configuration == run.configuration
    with pytest.raises(InvalidArgument, match="plain JSON"):
        log.begin("k", {}, {"claim": object()})


def test_merging_brings_descriptions_of_new_runs_only(log):
    other = MemoryLog()
    other.begin("k", {}, {"claim": "theirs"})
    other.begin("new", {"seed": 5}, {"claim": "new"})
    log.begin("k", {}, {"claim": "ours"})
    merge(log, other)
    assert [run.description["claim"] for run in log.runs()] == ["ours", "new"]
