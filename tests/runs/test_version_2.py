"""Version 2 of the log: migrated from version 1, private, and aware of damage and loss."""

import contextlib
import os
import shutil
import sqlite3
import stat
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from dpassay.auditing import judge
from dpassay.errors import InvalidArgument
from dpassay.runs import (
    LogDamaged,
    LogError,
    LogLost,
    MemoryLog,
    Outcome,
    Outcomes,
    merge,
    open_log,
    opened,
    play,
)
from dpassay.runs.checksums import add_to_digest, row_checksums, text_checksum

VERSION_1 = Path(__file__).with_name("version_1.sql")
posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX")


def edit(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0


@pytest.fixture
def old(tmp_path):
    """A log that version 0.1.0 wrote: an audit that was refuted, and a run with rare values."""
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1.read_text(encoding="utf-8"))
        # A dump cannot say -0.0.
        connection.execute("UPDATE trials SET score = ? WHERE run = 2 AND trial = 0", (-0.0,))
        connection.commit()
        connection.execute("PRAGMA application_id = 0x64705F61")
        connection.execute("PRAGMA user_version = 1")
        connection.execute("PRAGMA journal_mode = WAL")
    path.chmod(0o644)
    return path


@pytest.fixture
def filled(tmp_path):
    """A log with a run of a hundred trials."""
    path = tmp_path / "run.db"
    with opened(path) as log:
        log.begin("k" * 20, {"seed": 1}, {"claim": "1"})
        log.add("k" * 20, Outcomes.of(np.arange(50), np.arange(50.0), seconds=0.5))
        errors, payloads = {60: "boom"}, {70: b"p"}
        more = Outcomes.of(np.arange(50, 100), np.arange(50.0), errors=errors, payloads=payloads)
        log.add("k" * 20, more)
        log.note("k" * 20, "looks", 1)
    return path


def read(path):
    with opened(path, make=False) as log:
        return log.outcomes("k" * 20)


# ------------------------------------------------------------------------------- migration


def test_version_1_is_migrated(old):
    before = sqlite3.connect(old)
    rows = before.execute("SELECT run, trial, state, world, score, seconds, payload, error "
                          "FROM trials").fetchall()  # fmt: skip
    before.close()
    verdict = judge(old, "cec8")
    assert (verdict.refuted, verdict.trials) == (True, 47)  # as version 0.1.0 said
    with opened(old) as log:
        audit, other = log.runs()
        assert audit.configuration == {"block": 0, "n_learning": 0, "seed": 0}
        assert audit.description["target"] == "laplace.py:f"
        assert (audit.n_done, audit.n_failed, other.n_done, other.n_failed) == (51, 0, 3, 1)
        assert other.configuration == {"seed": 3, "nested": {"a": [1]}}
        assert other.description == {}
        kept = log.outcomes("other")
        assert struct.pack("<d", kept.scores[0]) == struct.pack("<d", -0.0)
        assert kept.payloads == {1: b"\0raw\xff", 7: b""}
        assert kept.errors == {2: "Traceback\nünïcode"}
        log.add("other", Outcomes.of([3], [0.25]))
        assert log.counts("other") == {"done": 4, "failed": 1}
    after = sqlite3.connect(old)
    assert after.execute("PRAGMA user_version").fetchone() == (2,)
    assert (
        rows
        == after.execute(
            "SELECT run, trial, state, world, score, seconds, payload, error FROM trials "
            "WHERE NOT (run = 2 AND trial = 3)"
        ).fetchall()
    )
    names = {name for (name,) in after.execute("SELECT name FROM sqlite_master")}
    assert not {name for name in names if name.startswith("old_")}
    after.close()
    assert stat.S_IMODE(old.stat().st_mode) == 0o600


def test_a_migration_that_dies_leaves_version_1(old, monkeypatch):
    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpassay.runs.schema.row_checksums", dies)
    with pytest.raises(KeyboardInterrupt):
        open_log(old)
    monkeypatch.undo()
    with contextlib.closing(sqlite3.connect(old)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM trials").fetchone() == (55,)
    assert judge(old, "cec8").refuted


def test_several_processes_migrate_one_log(old):
    errors = []

    def read_it():
        try:
            with opened(old) as log:
                assert len(log.outcomes("other")) == 4
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_values_of_another_kind_in_version_1(old):
    edit(old, "UPDATE trials SET score = 'high' WHERE run = 1 AND trial = 5")
    with pytest.raises(LogDamaged, match="values of another kind"):
        open_log(old)
    with contextlib.closing(sqlite3.connect(old)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


# ------------------------------------------------------------------------------- checksums


def test_checksums_see_every_field():
    base = {
        "trials": [3],
        "scores": [0.5],
        "worlds": [1],
        "seconds": [2.0],
        "payloads": {3: b"p"},
        "features": {3: b"f"},
    }
    changes = [
        {"trials": [4], "payloads": {4: b"p"}, "features": {4: b"f"}},
        {"scores": [0.5000000000000001]},
        {"scores": [np.nan]},
        {"worlds": [0]},
        {"worlds": [-1]},
        {"seconds": [2.5]},
        {"payloads": {3: b"q"}},
        {"payloads": {}},
        {"features": {3: b""}},
        {"payloads": {3: b"pf"}, "features": {3: b""}},
        {"payloads": {3: b"f"}, "features": {3: b"p"}},
        {"errors": {3: "boom"}},
    ]
    all_of_them = [base, *({**base, **change} for change in changes)]
    sums = [int(row_checksums("k", Outcomes.of(**columns))[0]) for columns in all_of_them]
    sums += [int(row_checksums(key, Outcomes.of(**base), part)[0])
             for key, part in (("l", None), ("k", "1/2"), ("k", "2/2"))]  # fmt: skip
    assert len(set(sums)) == len(sums)
    signed_zero = [row_checksums("k", Outcomes.of([0], [zero]))[0] for zero in (0.0, -0.0)]
    assert signed_zero[0] != signed_zero[1]
    quiet, other = np.array([0x7FF8000000000000, 0x7FF8000000000001]).view(float)
    assert row_checksums("k", Outcomes.of([0], [quiet])) == row_checksums(
        "k", Outcomes.of([0], [other])
    )


def test_the_digest_does_not_depend_on_order_or_batches():
    outcomes = Outcomes.of(np.arange(100), np.linspace(-3, 3, 100))
    whole = add_to_digest(0, row_checksums("k", outcomes))
    order, digest = np.random.default_rng(0).permutation(100), 0
    for some in np.array_split(order, 7):
        digest = add_to_digest(digest, row_checksums("k", outcomes[some]))
    assert digest == whole
    assert -(2**63) <= whole < 2**63
    assert add_to_digest(whole, row_checksums("k", outcomes[:1])) != whole


def test_rows_by_several_writers_and_by_merge_fit_their_digest(tmp_path):
    paths = [tmp_path / "a.db", tmp_path / "b.db"]
    for path, part, order in zip(paths, ["1/2", "2/2"], [range(60, 10, -1), range(40)],
                                 strict=True):  # fmt: skip
        with opened(path) as one, opened(path) as two:
            for log in (one, two):
                log.begin("k" * 20, {})
            for trial in order:
                for log in (one, two):  # both have played it: the first stands
                    log.add("k" * 20, Outcomes.of([trial], [float(trial)]), part)
    with opened(tmp_path / "all.db") as into:
        for path in paths:
            with opened(path) as other:
                merge(into, other)
        assert into.outcomes("k" * 20).scores.tolist() == list(range(61))
        parts = into.parts("k" * 20)
    assert (parts[0], parts[30], parts[60]) == ("2/2", "1/2", "1/2")
    assert len(read(tmp_path / "all.db")) == 61


DAMAGE = {
    "UPDATE trials SET score = 0 WHERE trial BETWEEN 5 AND 37": r"33 trials were changed .*5, 6, 7",
    "UPDATE trials SET world = 1 WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET seconds = 9 WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET score = 'high' WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET world = 'east' WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET world = 1000 WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET checksum = 'x' WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET checksum = 5 WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET error = 'bang' WHERE trial = 60": "trial 60 was changed",
    "UPDATE trials SET payload = 'p' WHERE trial = 70": "trial 70 was changed",
    "UPDATE trials SET payload = 7 WHERE trial = 70": "trial 70 was changed",
    "UPDATE trials SET features = x'00' WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET part = '1/2' WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET state = 'failed' WHERE trial = 4": "trial 4 was changed",
    "UPDATE trials SET trial = 200 WHERE trial = 4": "trial 200 was changed",
    "DELETE FROM trials WHERE trial IN (5, 9)": r"2 trials are missing \(5, 9\)",
    "DELETE FROM trials WHERE trial = 7": r"1 trial is missing \(7\)",
    "DELETE FROM trials WHERE trial >= 97": r"3 trials are missing \(after trial 96\)",
    "DELETE FROM trials WHERE trial IN (5, 99)": r"2 trials are missing \(5 and after trial 98\)",
    "DELETE FROM trials": r"100 trials are missing \(all of them\)",
    "UPDATE runs SET digest = digest + 1": "not those that were written",
    "UPDATE runs SET n_done = 98, n_failed = 2": "not those that were written",
    "UPDATE runs SET n_done = 97": "2 trials more than were written",
}


@pytest.mark.parametrize("statement", DAMAGE)
def test_damage_is_named(filled, statement):
    edit(filled, statement)
    with pytest.raises(LogDamaged, match=f"run.db: .*kkkkkkkk.*{DAMAGE[statement]}"):
        read(filled)
    with pytest.raises(LogDamaged):  # nor is anything played on top of it
        play(lambda trials: [0.0] * len(trials), 120, key="k" * 20, store=filled, workers=1)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE runs SET description = '{}'", "configuration or description of run kkk"),
        ("UPDATE runs SET configuration = '{\"seed\": 2}'", "configuration or description"),
        ("UPDATE runs SET configuration = 'x'", "configuration or description"),
        ("UPDATE runs SET created = 'yesterday'", "configuration or description"),
        ("UPDATE notes SET value = '0'", "the note 'looks' of run kkk"),
        ("UPDATE notes SET value = 0", "the note 'looks' of run kkk"),
    ],
)
def test_damage_of_what_is_said_about_a_run(filled, statement, what):
    edit(filled, statement)
    with opened(filled) as log, pytest.raises(LogDamaged, match=what):
        log.runs()
        log.notes("k" * 20)


def test_a_row_of_another_run_is_no_replacement(tmp_path):
    path = tmp_path / "run.db"
    with opened(path) as log:
        for key, score in (("a", 1.0), ("b", 2.0)):
            log.begin(key, {})
            log.add(key, Outcomes.of([0, 1], [score, 3.0]))
    edit(path, "DELETE FROM trials WHERE run = 1 AND trial = 0")
    edit(path, "UPDATE trials SET run = 1 WHERE run = 2 AND trial = 0")
    with opened(path) as log, pytest.raises(LogDamaged, match="trial 0 was changed"):
        log.outcomes("a")


# ------------------------------------------------------------------------------- notes, features


@pytest.fixture(params=["memory", "file"])
def log(request, tmp_path):
    log = MemoryLog() if request.param == "memory" else open_log(tmp_path / "run.db")
    log.begin("k", {})
    yield log
    log.close()


def test_notes(log):
    assert log.read_note("k", "looks") is None
    assert log.read_note("k", "looks", 0) == log.read_note("unknown", "looks", 0) == 0
    log.note("k", "looks", 2)
    log.note("k", "state", {"wealth": [0.5, None], "n": 3})
    log.note("k", "blob", b"\0\1")
    assert log.revise("k", "looks", lambda n: n + 1) == 3
    assert log.revise("k", "fresh", lambda n: (n or 0) + 1) == 1
    wanted = {"blob": b"\0\1", "fresh": 1, "looks": 3, "state": {"wealth": [0.5, None], "n": 3}}
    assert log.notes("k") == wanted
    with pytest.raises(InvalidArgument, match="plain JSON"):
        log.note("k", "looks", object())
    with pytest.raises(InvalidArgument, match="begin it first"):
        log.note("unknown", "looks", 1)
    with pytest.raises(ZeroDivisionError):
        log.revise("k", "looks", lambda n: n / 0)
    assert log.read_note("k", "looks") == 3


def test_notes_are_revised_by_one_process_at_a_time(tmp_path):
    path = tmp_path / "run.db"
    with opened(path) as log:
        log.begin("k", {})

    def count():
        with opened(path) as mine:
            for _ in range(25):
                mine.revise("k", "looks", lambda n: (n or 0) + 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with opened(path) as log:
        assert log.read_note("k", "looks") == 100


def test_merging_keeps_the_larger_count(log):
    other = MemoryLog()
    other.begin("k", {})
    log.note("k", "looks", 2)
    log.note("k", "ours", [1])
    for name, value in (("looks", 5), ("ours", [2]), ("theirs", [3])):
        other.note("k", name, value)
    for _ in range(2):
        merge(log, other)
        assert log.notes("k") == {"looks": 5, "ours": [1], "theirs": [3]}
    other.note("k", "looks", 1)
    merge(log, other)
    assert log.read_note("k", "looks") == 5


def test_features_are_kept_beside_scores(log):
    def task(trials):
        return [Outcome(score=float(t), features=bytes([t])) for t in trials]

    played = play(task, 5, key="k", store=log, workers=1)
    assert played.outcomes.features == {t: bytes([t]) for t in range(5)}
    again = play(task, 5, key="k", store=log, workers=1)
    assert again.n_played == 0
    assert again.outcomes.features == played.outcomes.features
    assert again.outcomes.scores.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


# ------------------------------------------------------------------------------- private


@posix
def test_logs_are_private(tmp_path):
    before = os.umask(0)
    try:
        with opened(tmp_path / "run.db") as log:
            log.begin("k", {})
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["run.db", "run.db-wal", "run.db-shm"], 0o600)


@posix
@pytest.mark.parametrize("version", [1, 2])
def test_a_log_that_may_not_be_written_can_be_read(request, tmp_path, version):
    """By a user who may only read: also what is in the write-ahead log alone, also version 1."""
    path = request.getfixturevalue({1: "old", 2: "filled"}[version])
    key = {1: "other", 2: "k" * 20}[version]
    holder = sqlite3.connect(path)  # keeps the write-ahead log from being written back
    if version == 2:
        holder.execute("SELECT count(*) FROM runs").fetchone()
        with opened(path) as log:
            log.add(key, Outcomes.of([100], [1.0]))
        assert path.with_name("run.db-wal").stat().st_size > 0
    shown = Path("/tmp") / f"read-only-{os.getpid()}"
    shutil.copytree(tmp_path, shown)
    holder.close()
    for place in (shown, *shown.iterdir()):
        place.chmod(0o555 if place.is_dir() else 0o444)
    code = (
        "import os\n"
        "from dpassay.runs import opened, LogError, Outcomes\n"
        "if os.getuid() == 0:  # who may write anywhere\n"
        "    os.setgroups([]), os.setgid(65534), os.setuid(65534)\n"
        f"with opened({str(shown / path.name)!r}, make=False) as log:\n"
        f"    print(len(log.outcomes({key!r})))\n"
        "    try:\n"
        f"        log.add({key!r}, Outcomes.of([500], [1.0]))\n"
        "    except LogError as error:\n"
        "        print(error)\n"
    )
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        names = sorted(place.name for place in shown.iterdir())
    finally:
        shown.chmod(0o755)
        shutil.rmtree(shown)
    assert done.returncode == 0, done.stderr
    rows, error = done.stdout.splitlines()
    assert int(rows) == {1: 4, 2: 101}[version]
    assert "cannot be written" in error
    assert not [name for name in names if "dpassay" in name]


def test_pipes_are_no_logs(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes here")
    os.mkfifo(tmp_path / "pipe")
    for make in (True, False):
        with pytest.raises(LogError, match="not a regular file"):
            open_log(tmp_path / "pipe", make=make)


# ------------------------------------------------------------------------------- lost


def scored(then):
    """A task that does something before trial 30."""

    def task(trials):
        if 30 in trials:
            then()
        return [float(t) for t in trials]

    return task


def remove(*paths):
    for path in paths:
        path.unlink(missing_ok=True)


def all_of(path):
    return [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))]


@posix
@pytest.mark.parametrize("how", ["deleted", "deleted alone", "moved", "replaced", "at the end"])
def test_a_log_that_goes_away_is_written_anew(tmp_path, how):
    path, elsewhere = tmp_path / "run.db", tmp_path / "elsewhere.db"
    with opened(elsewhere) as log:
        log.begin("k", {})
        log.add("k", Outcomes.of([2, 70], [2.0, 70.0]))
    actions = {
        "deleted": lambda: remove(*all_of(path)),
        "deleted alone": lambda: remove(path),
        "moved": lambda: path.rename(tmp_path / "moved.db"),
        "replaced": lambda: os.replace(elsewhere, path),
    }
    task = scored(actions.get(how, lambda: None))
    with opened(path) as log:
        played = play(task, 60, key="k", store=log, workers=1, description={"claim": "1"})
        log.note("k", "looks", 1)
        if how == "at the end":
            remove(*all_of(path))
    assert played.ended == "done"
    with opened(path, make=False) as log:
        kept = log.outcomes("k")
        assert kept.scores.tolist()[:60] == list(range(60))
        assert len(kept) == (61 if how == "replaced" else 60)
        assert log.read_note("k", "looks") == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".dpassay")]


@posix
@pytest.mark.parametrize("how", ["folder", "emptied", "foreign"])
def test_a_log_that_cannot_be_written_anew_stops_the_run(tmp_path, how):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "run.db"

    def foreign():
        remove(*all_of(path))
        path.write_text("a letter " * 100)

    actions = {
        "folder": lambda: shutil.rmtree(folder),
        "emptied": lambda: os.truncate(path, 0),
        "foreign": foreign,
    }
    with pytest.raises(LogLost, match=r"run.db: the log was deleted or replaced"):
        play(scored(actions[how]), 60, key="k", store=path, workers=1)
    if how == "foreign":
        assert path.read_text().startswith("a letter")
        with opened(folder / "run.db.kept", make=False) as log:
            kept = log.outcomes("k").trials
        assert kept.tolist() == list(range(len(kept)))
        assert len(kept) > 0


@posix
def test_a_log_that_is_overwritten_in_place_is_noticed_at_the_end(tmp_path):
    path, other = tmp_path / "run.db", tmp_path / "other.db"
    open_log(other).close()
    log = open_log(path)
    log.begin("k", {})
    log.add("k", Outcomes.of([0], [1.0]))
    remove(*all_of(path)[1:])
    path.write_bytes(other.read_bytes())  # the same file, another content
    with pytest.raises(LogLost, match=r"fewer trials|cannot be read"):
        log.close()


def test_a_write_ahead_log_of_a_deleted_log_is_not_taken_for_a_new_one(tmp_path):
    path = tmp_path / "run.db"
    log = open_log(path)
    log.begin("k", {})
    log.add("k", Outcomes.of(np.arange(2000), np.arange(2000.0)))
    left = path.with_name("run.db-wal").read_bytes()
    log.close()
    remove(*all_of(path))
    path.with_name("run.db-wal").write_bytes(left)
    with opened(path) as new:
        assert new.runs() == []


def test_a_trial_that_changes_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    task = scored(lambda: os.chdir(tmp_path / "there"))
    play(task, 60, key="k", store="run.db", workers=1)
    assert list((tmp_path / "there").iterdir()) == []
    with opened(tmp_path / "run.db") as log:
        assert len(log.outcomes("k")) == 60


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 100_000, "1" * 10_000, "[]", "{"])
def test_text_that_is_no_json_is_damage_and_not_a_crash(tmp_path, text):
    """With a right checksum, as a faulty program could have written it."""
    store = tmp_path / "run.db"
    with opened(store) as log:
        log.begin("k", {"seed": 1})
        log.note("k", "name", "value")
    with contextlib.closing(sqlite3.connect(store)) as connection:
        created = connection.execute("SELECT created, version FROM runs").fetchone()
    whole = text_checksum("k", '{"seed": 1}', text, *created)
    edit(store, "UPDATE runs SET description = ?, checksum = ?", text, whole)
    note = text_checksum("k", "name", text)
    edit(store, "UPDATE notes SET value = ?, checksum = ?", text, note)
    with opened(store) as log:
        with pytest.raises(LogDamaged, match="configuration or description of run k"):
            log.runs()
        if text != "[]":
            with pytest.raises(LogDamaged, match="the note 'name' of run k"):
                log.notes("k")
