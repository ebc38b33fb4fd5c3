"""A log read again as it was played, up to the first gap; one worker in a process of its own."""

import os

import numpy as np
import pytest

from dpassay.runs import LogError, MemoryLog, Outcomes, Workers, play, read_run
from runs.tasks import noisy


def same(one, other):
    assert one.ended == other.ended
    assert one.outcomes.trials.tolist() == other.outcomes.trials.tolist()
    assert one.outcomes.scores.tobytes() == other.outcomes.scores.tobytes()
    assert one.outcomes.errors == other.outcomes.errors


@pytest.mark.parametrize("border", [30, 1000])
def test_the_end_is_that_of_the_run(border):
    log, seen = MemoryLog(), []

    def stop(outcomes):
        seen.append(outcomes.trials.tolist())
        return outcomes.trials[-1] >= border

    options = {"key": "k", "store": log, "stop": stop, "every": 7}
    first = play(noisy, 60, workers=1, **options)
    played, seen[:] = list(seen), []
    same(read_run(60, **options), first)
    assert seen == played


def test_up_to_the_first_gap():
    log, seen = MemoryLog(), []
    log.begin("k", {})
    log.add("k", Outcomes.of([0, 1, 2, 3, 4, 6], np.arange(6.0)))
    found = read_run(10, key="k", store=log, stop=lambda o: seen.append(len(o)), every=2)
    assert (found.ended, len(found.outcomes), found.n_logged) == ("interrupted", 5, 6)
    assert seen == [2, 2, 1]
    stopped = read_run(10, key="k", store=log, stop=lambda o: o.trials[-1] == 4, every=2)
    assert stopped.ended == "stopped"
    assert read_run(10, key="unknown", store=log).ended == "interrupted"


def test_too_many_failures():
    log = MemoryLog()

    def fails(trials):
        raise ValueError("no")

    first = play(fails, 100, key="k", store=log, workers=1)
    assert first.ended == "too many failures"
    same(read_run(100, key="k", store=log), first)


def test_a_file_that_does_not_exist_is_not_made(tmp_path):
    with pytest.raises(LogError):
        read_run(10, key="k", store=tmp_path / "run.db")
    assert list(tmp_path.iterdir()) == []


def test_the_writer_is_in_the_log():
    log = MemoryLog()
    play(noisy, 20, key="k", store=log, workers=1, description={"what": "squares"})
    play(noisy, 30, key="k", store=log, workers=1, description={"what": "cubes"})
    (run,) = log.runs()
    assert run.description["what"] == "cubes"
    writer = run.description["writer"]
    assert (writer["pid"], writer["n_logged"]) == (os.getpid(), 20)


def test_one_worker_in_a_process_of_its_own():
    def pids(trials):
        return [float(os.getpid())] * len(trials)

    with Workers(1, separate=True) as one:
        found = set(play(pids, 20, key="k", executor=one).outcomes.scores)
    assert len(found) == 1
    assert found != {float(os.getpid())}
    assert set(play(pids, 20, key="k", workers=1).outcomes.scores) == {float(os.getpid())}
