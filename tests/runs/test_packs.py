"""Long runs: old rows of a log are packed, and nobody can tell from what is read."""

import contextlib
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from dpassay.errors import LogDamaged
from dpassay.runs import Outcomes, SqliteLog, merge, packs, play, read_run, sqlite
from dpassay.runs.blobs import Blobs, compact, join_blobs
from dpassay.runs.board import GROWING, Board

PACKED, TRIALS = 64, 500


@pytest.fixture(autouse=True)
def _short_packs(monkeypatch):
    monkeypatch.setattr(packs, "PACKED", PACKED)
    monkeypatch.setattr(sqlite, "PACKED", PACKED)
    monkeypatch.setattr("dpassay.runs.blobs.FEWEST", 1)


def outcomes(trials, *, features=True):
    """Scores with all kinds of bits; some trials failed, one has a payload."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=TRIALS)
    scores[3], scores[4] = -0.0, np.inf
    prints = {t: bytes([t % 256]) * 9 for t in range(TRIALS) if t % 50} if features else {}
    errors = {t: f"error {t}" for t in range(0, TRIALS, 50)}
    whole = Outcomes.of(
        np.arange(TRIALS),
        scores,
        worlds=rng.integers(0, 2, TRIALS),
        seconds=rng.random(TRIALS),
        errors=errors,
        payloads={77: b"a payload"},
        features=prints,
    )
    return whole[np.asarray(trials)]


def assert_same(a, b):
    for column in ("trials", "failed", "worlds", "scores", "seconds"):
        assert getattr(a, column).tobytes() == getattr(b, column).tobytes(), column
    for column in ("payloads", "errors", "features"):
        assert dict(getattr(a, column)) == dict(getattr(b, column)), column


def write(path, orders, part=None, **options):
    with contextlib.closing(SqliteLog(path)) as log:
        log.begin("k", {})
        for trials in orders:
            log.add("k", outcomes(trials, **options), part)
    return path


def rows_and_packs(path):
    with contextlib.closing(sqlite3.connect(path)) as file:
        rows = file.execute("SELECT count(*) FROM trials").fetchone()[0]
        found = file.execute("SELECT n FROM packs").fetchall() if packs.has_packs(file) else []
        return rows, [n for (n,) in found], file.execute("PRAGMA user_version").fetchone()[0]


ORDERS = {
    "in order": np.array_split(np.arange(TRIALS), 9),
    "every fourth first": [np.arange(i, TRIALS, 4) for i in range(4)],
    "one by one from the end": np.arange(TRIALS)[::-1].reshape(-1, 1)[:, :],
}


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("order", ORDERS)
def test_what_was_packed_is_read_bit_for_bit(tmp_path, order, features):
    path = write(tmp_path / "log.db", ORDERS[order], features=features)
    rows, packed, version = rows_and_packs(path)
    assert rows < 3 * PACKED
    assert len(packed) > 3
    assert (rows + sum(packed), version) == (TRIALS, 3)
    with contextlib.closing(SqliteLog(path)) as log:
        assert_same(log.outcomes("k"), outcomes(range(TRIALS), features=features))
        assert log.counts("k") == {"done": TRIALS - 10, "failed": 10}


def test_trials_that_are_packed_are_known(tmp_path):
    path = write(tmp_path / "log.db", ORDERS["every fourth first"])
    other = outcomes(range(TRIALS))
    other = replace(other, scores=other.scores + 1)
    with contextlib.closing(SqliteLog(path)) as log:
        stands = log.add("k", other[10:300])
        assert_same(stands, outcomes(range(10, 300)))
        assert_same(log.outcomes("k"), outcomes(range(TRIALS)))


def test_short_logs_have_no_packs(tmp_path):
    path = write(tmp_path / "log.db", [range(2 * PACKED - 1)])
    assert rows_and_packs(path) == (2 * PACKED - 1, [], 2)


def test_parts_and_merging(tmp_path):
    path = write(tmp_path / "log.db", ORDERS["in order"], part="1/2")
    with (
        contextlib.closing(SqliteLog(path)) as log,
        contextlib.closing(SqliteLog(tmp_path / "whole.db")) as whole,
    ):
        assert merge(whole, log) == TRIALS
        assert merge(whole, log) == 0
        assert_same(whole.outcomes("k"), outcomes(range(TRIALS)))
        assert whole.parts("k") == log.parts("k") == dict.fromkeys(range(TRIALS), "1/2")


@pytest.mark.parametrize(
    ("damage", "words"),
    {
        "UPDATE packs SET content = substr(content, 1, length(content) - 1) || x'00' WHERE id = 2":
        "the trials .* were changed",
        "UPDATE packs SET numbers = x'00' WHERE id = 1": "the trials .* were changed",
        "UPDATE packs SET n = n + 1": "the trials .* were changed",
        "DELETE FROM packs WHERE id = 1": "trials are missing",
        "UPDATE packs SET run = 7": "trials are missing",
    }.items(),
)  # fmt: skip
def test_damage_is_noticed(tmp_path, damage, words):
    path = write(tmp_path / "log.db", ORDERS["in order"])
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute(damage)
    with (
        contextlib.closing(SqliteLog(path)) as log,
        pytest.raises(LogDamaged, match=words),
    ):
        log.outcomes("k")


def test_rows_that_were_changed_are_not_packed(tmp_path):
    path = write(tmp_path / "log.db", [range(100)])
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE trials SET score = 5.0 WHERE trial = 7")
    write(path, [range(100, TRIALS)])
    with (
        contextlib.closing(SqliteLog(path)) as log,
        pytest.raises(LogDamaged, match="trial 7 was changed"),
    ):
        log.outcomes("k")


def test_a_run_goes_on_after_packing(tmp_path):
    def task(trials):
        return [float(trial) for trial in trials]

    store = tmp_path / "log.db"
    play(task, 300, key="k", store=store, workers=1, batch=50)
    assert rows_and_packs(store)[1]
    played = play(task, TRIALS, key="k", store=store, workers=1, batch=50)
    assert played.n_played == TRIALS - 300
    again = read_run(TRIALS, key="k", store=store)
    assert_same(played.outcomes, again.outcomes)


# ------------------------------------------------------------------------------- in memory


def test_blobs_are_a_mapping():
    kept = {t: bytes([t]) * 3 for t in (5, 2, 9)}
    blobs = compact(kept)
    assert isinstance(blobs, Blobs)
    assert dict(blobs) == kept
    assert list(blobs) == [2, 5, 9]
    assert blobs.get(3) is None
    assert dict(blobs.of(np.array([9, 3, 2]))) == {2: b"\2\2\2", 9: b"\x09\x09\x09"}
    assert compact({1: b"a", 2: b"bc"}) == {1: b"a", 2: b"bc"}
    assert dict(join_blobs([blobs, {5: b"abc"}, {}])) == kept | {5: b"abc"}
    assert dict(join_blobs([blobs, {5: b"longer"}])) == kept | {5: b"longer"}
    assert join_blobs([]) == {}


def test_blocks_grow_in_the_same_way_however_outcomes_come_in():
    n = 3 * GROWING + 117
    borders = []
    for portions in (1, 7, 1000):
        seen = []
        board = Board(np.arange(n), lambda block, seen=seen: seen.append(len(block)), 25, 1.0)
        for trials in np.array_split(np.arange(n), portions):
            board.put(Outcomes.of(trials, trials.astype(float)))
            ended = board.advance()
        assert ended == "done"
        assert sum(seen) == n
        borders.append(seen)
    assert borders[0] == borders[1] == borders[2]
    assert set(borders[0]) == {25, 50, 75, n - sum(borders[0][:-1])}
