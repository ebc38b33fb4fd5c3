"""Whatever is killed, at whatever moment: the same again ends with the same rows."""

import contextlib
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dpassay.runs import LogError, Workers, open_log, play
from runs import player

PLAYER = Path(player.__file__)
TRIALS = 400
BEGUN = (0, 1, 20, 120, 120)  # trials that a process has begun when it is going to be killed
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def start(store, workers, trials=TRIALS, diary=None, **options):
    command = [sys.executable, str(PLAYER), str(store), str(workers), str(trials)]
    command += [str(diary)] if diary else []
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **(pipes | options))


def finish(process, timeout=60):
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def rows(store):
    """Trial, state and the very bits of the score, straight from the file."""
    connection = sqlite3.connect(store)
    found = connection.execute("SELECT trial, state, score FROM trials ORDER BY trial").fetchall()
    connection.close()
    return [(t, state, None if score is None else score.hex()) for t, state, score in found]


@pytest.fixture(scope="module")
def undisturbed():
    """The rows of a run that nobody disturbs."""
    expected = []
    for trial in range(TRIALS):
        try:
            expected.append((trial, "done", player.outcome(trial).hex()))
        except ValueError:
            expected.append((trial, "failed", None))
    return expected


def begun(diary):
    lines = diary.read_text().splitlines() if diary.exists() else []
    return [int(line.split()[0]) for line in lines]


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.01)


@posix
@pytest.mark.parametrize("workers", [1, 2])
def test_kill_the_process_at_random_moments(tmp_path, undisturbed, workers):
    store, moments = tmp_path / "run.db", random.Random(workers)
    known = set()
    for attempt in range(len(BEGUN)):
        diary = tmp_path / f"diary-{attempt}"
        process = start(store, workers, diary=diary)
        # The first may be killed before it has begun, or while it makes the log.
        wait_until(lambda: len(begun(diary)) >= BEGUN[attempt])  # noqa: B023
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        process.communicate()
        if not store.exists():
            continue
        assert not known & set(begun(diary)), "a trial that was in the log was played again"
        before = known
        known = {trial for trial, _, _ in rows(store)}
        assert before <= known, "trials were lost"
        assert len(set(begun(diary)) - known) < 110, "trials were not written when they ended"
        assert set(rows(store)) <= set(undisturbed)
    assert finish(start(store, workers))["ended"] == "done"
    assert rows(store) == undisturbed


@posix
def test_all_workers_end_with_the_process_they_work_for(tmp_path):
    diary = tmp_path / "diary"
    process = start(tmp_path / "run.db", 2, diary=diary)
    wait_until(lambda: len(begun(diary)) > 8)
    workers = {int(line.split()[1]) for line in diary.read_text().splitlines()}
    process.kill()
    process.wait()  # not for its pipes, which the workers hold
    process.stdout.close()
    process.stderr.close()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


@posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_temporary_data_goes_with_the_process(tmp_path, name):
    """Its own signal handler removes it, or else its workers do when they find it gone."""
    diary, temporary = tmp_path / "diary", tmp_path / "temporary"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    process = start(tmp_path / "run.db", 2, diary=diary, env=env)
    wait_until(lambda: len(begun(diary)) > 8)
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    process.send_signal(getattr(signal, name))
    assert process.wait(20) == -getattr(signal, name)
    process.stdout.close()
    process.stderr.close()
    wait_until(lambda: not list(temporary.iterdir()))


@posix
def test_kill_workers(tmp_path, undisturbed):
    store, diary, over = tmp_path / "run.db", tmp_path / "diary", threading.Event()
    killed = []

    def kill_three():
        while len(killed) < 3 and not over.wait(0.3):
            lines = diary.read_text().splitlines() if diary.exists() else []
            victim = int(lines[-1].split()[1]) if lines else None
            if victim is not None and victim not in killed:
                killed.append(victim)
                with contextlib.suppress(ProcessLookupError):  # It went down with another.
                    os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_three)
    killer.start()
    played = play(player.Slow(str(diary)), TRIALS, key=player.KEY, store=store, workers=2)
    over.set()
    killer.join()
    assert played.ended == "done"
    assert 1 <= played.n_deaths <= 3
    assert rows(store) == undisturbed


def test_two_processes_on_one_log(tmp_path, undisturbed):
    store = tmp_path / "run.db"
    first, second = start(store, 1), start(store, 2)
    results = finish(first), finish(second)
    assert [result["ended"] for result in results] == ["done", "done"]
    assert results[0]["scores"] == results[1]["scores"]
    assert rows(store) == undisturbed


@posix
@pytest.mark.parametrize(("workers", "whole_group"), [(1, False), (2, False), (2, True)])
def test_interrupt(tmp_path, undisturbed, workers, whole_group):
    store, diary = tmp_path / "run.db", tmp_path / "diary"
    process = start(store, workers, diary=diary, start_new_session=True)
    wait_until(lambda: len(begun(diary)) > 20)
    if whole_group:  # as the terminal does on Ctrl-C
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    result = finish(process)
    assert result["ended"] == "interrupted"
    kept = rows(store)
    assert 0 < len(kept) < TRIALS
    assert len(result["scores"]) <= len(kept)
    assert finish(start(store, workers))["ended"] == "done"
    assert rows(store) == undisturbed


def limit_files():
    """No file of this process may grow beyond 40 kB: as on a full disk, writes fail."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))


@posix
def test_full_disk(tmp_path, undisturbed):
    store = tmp_path / "run.db"
    process = start(store, 1, preexec_fn=limit_files)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"LogError: store={store}" in err
    assert "Make room and run the same again" in err
    kept = rows(store)
    assert 0 < len(kept) < TRIALS
    assert set(kept) <= set(undisturbed)
    assert finish(start(store, 1))["ended"] == "done"
    assert rows(store) == undisturbed


def test_killed_between_plays_of_shared_workers(tmp_path):
    """Workers that serve several runs are replaced when they die between two of them."""
    with Workers(2) as workers:
        first = play(
            lambda trials: [float(os.getpid())] * len(trials), 20, key="a", executor=workers
        )
        for pid in {int(score) for score in first.outcomes.scores}:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        second = play(lambda trials: [1.0] * len(trials), 20, key="b", executor=workers)
    assert second.ended == "done"
    assert np.all(second.outcomes.scores == 1.0)


# ------------------------------------------------------------------------------- bad files


def test_files_that_are_no_log_are_left_alone(tmp_path):
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("CREATE TABLE songs (title TEXT)")
    foreign.close()
    (tmp_path / "notes.txt").write_text("not a database, " * 50)
    (tmp_path / "empty.db").touch()
    cases = {"foreign.db": "another program", "notes.txt": "not an SQLite", "empty.db": "is empty"}
    for name, fault in cases.items():
        path = tmp_path / name
        before = path.read_bytes()
        with pytest.raises(LogError, match=rf"store=.*{name}: .*{fault}.*another store="):
            play(lambda trials: trials, 3, key="k", store=path, workers=1)
        assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(cases)


def filled(path):
    play(lambda trials: [float(t) for t in trials], 2000, key="k", store=path, workers=1)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize("damage", ["zeroed page", "cut", "overwritten"])
def test_damaged_logs_are_left_alone(tmp_path, damage):
    path = tmp_path / "run.db"
    whole = filled(path)
    page = 4096
    broken = {
        "zeroed page": whole[: 3 * page] + bytes(page) + whole[4 * page :],
        "cut": whole[: len(whole) // 2],
        "overwritten": whole[: 2 * page] + os.urandom(page) + whole[3 * page :],
    }[damage]
    path.write_bytes(broken)
    with pytest.raises(LogError, match=r"store=.*run\.db: .*(damaged|malformed)"):
        play(lambda trials: trials, 3000, key="k", store=path, workers=1)
    assert path.read_bytes() == broken


def test_damage_in_another_run(tmp_path):
    path = tmp_path / "run.db"
    whole = filled(path)
    broken = whole[: 3 * 4096] + bytes(4096) + whole[4 * 4096 :]
    path.write_bytes(broken)
    with pytest.raises(LogError, match="damaged"):
        play(lambda trials: trials, 3, key="another", store=path, workers=1)
    assert path.read_bytes() == broken


def test_log_of_a_newer_schema_is_left_alone(tmp_path):
    path = tmp_path / "run.db"
    whole = filled(path)
    newer = whole[:60] + (4).to_bytes(4, "big") + whole[64:]
    path.write_bytes(newer)
    with pytest.raises(LogError, match=r"schema 4, this dpassay .* reads 1 to 3. Upgrade dpassay"):
        open_log(path)
    assert path.read_bytes() == newer


@pytest.mark.parametrize("name", ["missing/run.db", "file/run.db", "folder"])
def test_places_where_no_log_can_be(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(LogError, match=f"store={tmp_path / name}: "):
        play(lambda trials: trials, 3, key="k", store=tmp_path / name, workers=1)


@posix
def test_read_only_folder(tmp_path):
    if os.getuid() == 0:
        pytest.skip("this user may write anywhere")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(LogError, match="must exist and be writable"):
            play(lambda trials: trials, 3, key="k", store=tmp_path / "run.db", workers=1)
        assert list(tmp_path.iterdir()) == []
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a place where nobody can write")
def test_unwritable_place():
    with pytest.raises(LogError, match=r"store=/proc/run.db: .*writable"):
        play(lambda trials: trials, 3, key="k", store="/proc/run.db", workers=1)
