"""One suite for whoever plays: the same rows, the same stop, the same failures, whatever engine.

The engines with processes of their own are tried with real ones. Those of a Dask cluster that have
to die again and again are in the wide lane: a worker of Dask takes seconds to start.
"""

import contextlib
import json
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from dpassay.auditing import audit, describe_audit, play_part
from dpassay.cli.verdicts import as_data
from dpassay.errors import InvalidArgument, MissingDependency, RunError
from dpassay.privacy import PureDP
from dpassay.runs import MemoryLog, Workers, hire, merge, open_log, play
from dpassay.runs.parts import Work, read_task, read_work, shard_of, write_work
from dpassay.runs.schedule import DEATHS_ALONE
from extras import needs
from runs.tasks import noisy, some_fail

posix = pytest.mark.skipif(os.name != "posix", reason="processes are killed by signals")
TRIALS = 120
ENGINES = ("here", "loky", "threads", "processes", "dask", "shards")
MORTAL = ("loky", "processes", "dask", "shards")


@pytest.fixture(scope="module")
def client():
    """A client of a cluster of two processes; in a test's own process nothing is left of it."""
    distributed = needs("distributed", "dask")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


class Shards:
    """The form for any scheduler: three parts, each in a process and a log of its own, joined."""

    def __init__(self, folder):
        self.folder = folder

    def play(self, task, trials, *, key, store=None, replayable=True, **options):
        write_work(self.folder, Work(key, trials, {}, {}, replayable), task)
        work = read_work(self.folder)
        if store is not None:
            with contextlib.closing(open_log(self.folder)) as log:
                merge(log, store)
        deaths = 0
        for i in (1, 2, 3):
            part = shard_of(f"{i}/3", trials)
            with Workers(1, separate=True) as who:
                told = {"key": key, "part": part.name, "replayable": replayable}
                where = {"store": self.folder / part.file, "executor": who}
                played = play(read_task(self.folder, work), part.trials, **told, **where)
                deaths += played.n_deaths
        joined = play(task, trials, key=key, store=self.folder, workers=1, **options)
        assert joined.n_played == 0
        return replace(joined, n_deaths=deaths)


def play_by(engine, task, trials, **options):
    """Let any engine play."""
    if isinstance(engine, Shards):
        return engine.play(task, trials, **options)
    return play(task, trials, executor=engine, workers=2, **options)


@pytest.fixture
def engine(request, tmp_path):
    """Whoever plays, by name."""
    name = request.param
    with contextlib.ExitStack() as stack:
        if name == "dask":
            yield stack.enter_context(hire(request.getfixturevalue("client")))
        elif name == "processes":
            yield lambda: ProcessPoolExecutor(2)
        elif name == "shards":
            yield Shards(tmp_path / "parts")
        elif name == "threads":
            yield stack.enter_context(ThreadPoolExecutor(3))
        else:
            yield stack.enter_context(Workers(1 if name == "here" else 2))


@pytest.fixture(scope="module")
def rows():
    return facts(play(noisy, TRIALS, key="k", workers=1))


def facts(played):
    found = played.outcomes
    kinds = {trial: error.splitlines()[0] for trial, error in found.errors.items()}
    scores = [None if np.isnan(score) else score for score in found.scores.tolist()]
    return found.trials.tolist(), scores, kinds


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_same_rows_and_failures(engine, rows):
    played = play_by(engine, noisy, TRIALS, key="k")
    assert played.ended == "done"
    assert played.n_deaths == 0
    assert facts(played) == rows
    assert sorted(rows[2]) == [9, 49, 89]


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_stops_at_the_same_trial(engine, rows):
    seen = []

    def stop(block):
        seen.extend(block.trials.tolist())
        return len(seen) >= 50

    played = play_by(engine, noisy, TRIALS, key="k", stop=stop, every=10)
    assert played.ended == "stopped"
    assert seen == list(range(50))
    assert facts(played)[1] == rows[1][:50]


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_goes_on_with_the_log_of_another(engine, rows):
    log = MemoryLog()
    play(noisy, 70, key="k", workers=1, store=log)
    played = play_by(engine, noisy, TRIALS, key="k", store=log)
    assert isinstance(engine, Shards) or played.n_played == TRIALS - 70
    assert facts(played) == rows


@posix
@pytest.mark.parametrize("engine", MORTAL, indirect=True)
def test_trial_that_kills_its_worker_is_given_up_and_no_other(engine):
    def task(trials):
        if 7 in trials:
            os._exit(1)
        return [float(trial) for trial in trials]

    played = play_by(engine, task, 20, key="k")
    assert played.ended == "done"
    assert list(played.outcomes.errors) == [7]
    assert f"killed its worker {DEATHS_ALONE} times" in played.outcomes.errors[7]
    assert played.n_deaths >= DEATHS_ALONE


@posix
@pytest.mark.parametrize("engine", MORTAL, indirect=True)
def test_one_death_condemns_nobody(engine, rows, tmp_path):
    dead = tmp_path / "dead"

    def task(trials):
        if 30 in trials and not dead.exists():
            dead.touch()
            os._exit(1)
        return noisy(trials)

    played = play_by(engine, task, TRIALS, key="k")
    assert facts(played) == rows
    assert dead.exists()


@posix
@pytest.mark.parametrize("engine", MORTAL, indirect=True)
def test_secure_trials_are_never_drawn_twice(engine, tmp_path):
    begun = tmp_path / "begun"
    begun.mkdir()

    def task(trials):
        for trial in trials:
            (begun / f"{trial}-{time.monotonic_ns()}").touch()
            if trial == 5:
                os._exit(1)
        return [float(trial) for trial in trials]

    played = play_by(engine, task, 12, key="k", replayable=False)
    assert "cannot be replayed" in played.outcomes.errors[5]
    numbers = [int(path.name.split("-")[0]) for path in begun.iterdir()]
    assert len(numbers) == len(set(numbers)), "a trial was drawn twice"


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_same_verdict(engine):
    pair, asked = ([1, 2], [1]), {"claim": PureDP(1.0), "score": float, "trials": TRIALS}
    alone = audit(some_fail, pair, **asked)
    if isinstance(engine, Shards):
        describe_audit(some_fail, pair, store=engine.folder, **asked)
        for i in (2, 1, 2):  # a shard that is played twice changes nothing
            play_part(engine.folder, shard=f"{i}/2")
        found = audit(some_fail, pair, store=engine.folder, **asked)
    else:
        found = audit(some_fail, pair, executor=engine, **asked)
    assert alone.evidence.n_failed > 0
    assert verdict_json(found) == verdict_json(alone)


def verdict_json(verdict):
    return json.dumps(as_data(verdict, "1") | {"replay": None}, sort_keys=True)


# ------------------------------------------------------------------------------- Dask alone


def test_text_that_is_no_engine():
    for text in ("ray", "dask:somewhere", "DASK"):
        with pytest.raises(InvalidArgument, match="address of a scheduler"):
            play(noisy, 3, key="k", executor=text)


def test_address_where_nobody_answers(monkeypatch):
    needs("distributed", "dask")
    monkeypatch.setattr("dpassay.runs.cluster.CONNECT_SECONDS", 0.5)
    with pytest.raises(InvalidArgument, match="no Dask scheduler answers there"):
        play(noisy, 3, key="k", executor="dask:tcp://127.0.0.1:9")


def test_without_dask(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependency, match=r"pip install 'dpassay\[dask\]'"):
        play(noisy, 3, key="k", executor="dask")


def test_worker_with_another_version_is_named(client, monkeypatch):
    from dpassay.runs import there

    monkeypatch.setattr(there, "__version__", "99.0")
    with pytest.raises(RunError, match=r"the Dask worker on .* this process 99.0"):
        play(noisy, 3, key="k", executor=client)


def test_client_that_is_closed(client):
    distributed = needs("distributed", "dask")
    closed = distributed.Client(client.scheduler.address, set_as_default=False)
    closed.close()
    with pytest.raises(InvalidArgument, match="the Dask client is closed"):
        play(noisy, 3, key="k", executor=closed)


def test_task_travels_once_and_nothing_is_left_behind(client):
    data = np.arange(2**18)  # 2 MB, more than travels inside a message of its own

    def task(trials):
        return [float(data[trial]) for trial in trials]

    with hire(client) as cluster:
        played = play(task, 300, key="k", executor=cluster)
        assert played.outcomes.scores.tolist() == list(range(300))
        play(task, 300, key="again", executor=cluster)
        assert held(client, "dpassay-task") == 1
    wait_until(lambda: not held(client, "dpassay"))


def test_local_cluster_leaves_nothing_in_the_folder_for_temporary_data(tmp_path, monkeypatch):
    needs("distributed", "dask")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert play(noisy, 3, key="k", executor="dask", workers=1).ended == "done"
    assert list(tmp_path.iterdir()) == []


def held(client, beginning):
    def count(dask_scheduler):
        return sum(str(key).startswith(beginning) for key in dask_scheduler.tasks)

    return client.run_on_scheduler(count)


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


@posix
def test_width_follows_and_stopped_workers_are_done_without(rows):
    """One of two workers is stopped (SIGSTOP), and later a third joins: the run goes on."""
    distributed = needs("distributed", "dask")
    from dpassay.runs import cluster as module

    slow = lambda trials: time.sleep(0.2) or noisy(trials)  # noqa: E731
    widths, silent = [], module.SILENT_SECONDS
    module.SILENT_SECONDS = 5.0
    try:
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
            ) as there,
            distributed.Client(there, set_as_default=False) as client,
            hire(client) as who,
        ):
            victim = there.workers[0].pid

            def disturb():
                os.kill(victim, signal.SIGSTOP)
                time.sleep(5)
                there.scale(3)

            thread = threading.Timer(2, disturb)
            thread.start()

            def stop(_):
                widths.append(who.width)

            played = play(slow, TRIALS, key="k", executor=who, stop=stop)
            thread.join()
            os.kill(victim, signal.SIGCONT)
    finally:
        module.SILENT_SECONDS = silent
    assert facts(played) == rows
    assert max(widths) == 3
