"""Playing: the same outcomes whoever plays, in whatever portions, and where a run ends."""

import multiprocessing
import os
import threading
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)

import numpy as np
import pytest

from dpassay._rng import for_trial
from dpassay.errors import InvalidArgument
from dpassay.runs import (
    MemoryLog,
    Outcome,
    Outcomes,
    RunError,
    TaskError,
    Workers,
    opened,
    play,
)
from runs.tasks import Elsewhere, noisy


@pytest.fixture(scope="module")
def two():
    """Two worker processes for all tests of this file."""
    with Workers(2) as workers:
        yield workers


@pytest.fixture(scope="module")
def expected():
    scores = np.array([for_trial(7, trial).normal() for trial in range(300)])
    scores[9::40] = np.nan
    return scores


def same(played, scores):
    assert np.array_equal(played.outcomes.trials, np.arange(scores.size))
    assert played.outcomes.scores.tobytes() == scores.tobytes()
    assert np.array_equal(played.outcomes.failed, np.isnan(scores))


# ------------------------------------------------------------------------------- who plays


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_serial_in_any_portion(batch, expected):
    same(play(noisy, 300, key="k", workers=1, batch=batch), expected)


@pytest.mark.parametrize("batch", [1, 7])
def test_worker_processes(two, batch, expected):
    same(play(noisy, 300, key="k", executor=two, batch=batch), expected)


def test_threads(expected):
    with ThreadPoolExecutor(3) as threads:
        lock = threading.Lock()  # cannot be pickled, and need not be

        def task(trials):
            with lock:
                return noisy(trials)

        same(play(task, 300, key="k", executor=threads), expected)


class Backwards(Executor):
    """An executor that lets portions gather for a while and plays the latest first."""

    def __init__(self):
        self._waiting = []

    def submit(self, fn, /, *args):
        future = Future()
        self._waiting.append((future, fn, args))
        threading.Timer(0.01, self._play).start()
        return future

    def _play(self):
        while self._waiting:
            future, call, arguments = self._waiting.pop()
            if future.set_running_or_notify_cancel():
                future.set_result(call(*arguments))


def test_order_of_ending_does_not_matter(expected):
    seen = []

    def stop(outcomes):
        seen.extend(outcomes.trials.tolist())
        return len(seen) == 200

    played = play(noisy, 300, key="k", executor=Backwards(), workers=2, stop=stop)
    same(played, expected[:200])
    assert seen == list(range(200))


def test_given_executor_that_breaks(tmp_path):
    class Breaking(ThreadPoolExecutor):
        def submit(self, fn, /, *args):
            if args[1] and args[1][-1] > 50:
                raise BrokenExecutor("gone")
            return super().submit(fn, *args)

    def task(trials):
        return [float(t) for t in trials]

    log = MemoryLog()
    with Breaking(1) as threads, pytest.raises(RunError, match="Pass a function that makes one"):
        play(task, 300, key="k", store=log, executor=threads)
    assert 0 < log.counts("k")["done"] < 300
    assert play(task, 300, key="k", store=log, workers=1).ended == "done"


def test_function_that_makes_executors(tmp_path, expected):
    made, dead = [], tmp_path / "dead"

    def make():
        made.append(ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")))
        return made[-1]

    def task(trials):
        if 30 in trials and not dead.exists():
            dead.touch()
            os._exit(1)
        return noisy(trials)

    played = play(task, 300, key="k", executor=make, workers=2)
    same(played, expected)
    assert played.n_deaths == 1
    assert len(made) == 2


def test_executors_that_never_work():
    class Dead(Executor):
        def submit(self, fn, /, *args):
            raise BrokenExecutor("still-born")

    with pytest.raises(RunError, match=r"before they play anything \(still-born\). Try workers=1"):
        play(noisy, 3, key="k", executor=Dead)


def test_workers_are_replaced():
    def task(trials):
        return [float(os.getpid())] * len(trials)

    played = play(task, 60, key="k", workers=2, recycle=10)  # at most 20 by the same
    assert np.unique(played.outcomes.scores).size >= 3
    assert played.n_deaths == 0


def test_large_tasks_reach_workers(two):
    data = np.arange(100_000.0)
    played = play(lambda trials: [data[t] for t in trials], 50, key="k", executor=two)
    assert np.array_equal(played.outcomes.scores, np.arange(50.0))


def test_task_that_cannot_be_sent(two):
    lock = threading.Lock()
    with pytest.raises(InvalidArgument, match=r"task.*cannot be sent.*workers=1"):
        play(lambda trials: lock, 5, key="k", executor=two)


def test_task_that_cannot_be_unpacked(two):
    with pytest.raises(TaskError, match=r"could not be unpacked in a worker.*ImportError"):
        play(Elsewhere(), 5, key="k", executor=two)


# ------------------------------------------------------------------------------- where it ends


def test_resume_plays_only_what_is_missing(expected):
    log, played = MemoryLog(), []

    def task(trials):
        played.extend(trials)
        return noisy(trials)

    play(task, range(50, 100), key="k", store=log, workers=1)
    again = play(task, 300, key="k", store=log, workers=1)
    same(again, expected)
    assert sorted(played) == list(range(300))
    assert (again.n_played, again.n_logged) == (250, 300)
    assert play(task, 300, key="k", store=log, workers=1).n_played == 0
    assert play(task, 300, key="another", store=log, workers=1).n_played == 300


def test_what_is_consumed_is_what_the_log_holds(tmp_path):
    """Another process may have been first, with noise that cannot be replayed."""
    with opened(tmp_path / "run.db") as other:
        other.begin("k", {})

        def task(trials):
            other.add("k", Outcomes.of([3], [99.0]))
            return [float(trial) for trial in trials]

        played = play(task, 5, key="k", store=tmp_path / "run.db", workers=1)
    assert played.outcomes.scores.tolist() == [0.0, 1.0, 2.0, 99.0, 4.0]


class Sum:
    """Stops when the sum of the scores falls below a level; notes what it is given."""

    def __init__(self, level=-12.0):
        self.level, self.total, self.blocks = level, 0.0, []

    def __call__(self, outcomes):
        self.blocks.append(outcomes.trials.tolist())
        self.total += float(np.nansum(outcomes.scores))
        return self.total < self.level


@pytest.mark.parametrize("every", [1, 8])
def test_stops_at_the_same_trial_whoever_plays(two, expected, every):
    last = {}
    for who in ({"workers": 1}, {"executor": two}, {"workers": 1, "batch": 100}):
        stop = Sum()
        played = play(noisy, 300, key="k", stop=stop, every=every, **who)
        assert played.ended == "stopped"
        assert [
            trial for block in stop.blocks for trial in block
        ] == played.outcomes.trials.tolist()
        assert all(len(block) == every for block in stop.blocks)
        last[str(who)] = len(played.outcomes)
        same(played, expected[: len(played.outcomes)])
    assert len(set(last.values())) == 1
    sums = np.nancumsum(expected)[every - 1 :: every]
    assert last.popitem()[1] == every * (1 + int(np.argmax(sums < -12.0)))


def test_stopped_run_stops_again_without_playing():
    log = MemoryLog()
    first = play(noisy, 300, key="k", store=log, stop=Sum(), workers=1)
    again = play(noisy, 300, key="k", store=log, stop=Sum(), workers=1)
    assert again.ended == "stopped"
    assert again.n_played == 0
    assert len(again.outcomes) == len(first.outcomes) <= first.n_logged


def test_last_block_may_be_short():
    stop = Sum(-np.inf)
    assert (
        play(noisy, 10, key="k", stop=stop, every=4, workers=1, max_failed_share=1).ended == "done"
    )
    assert stop.blocks == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_error_in_stop_keeps_what_was_played():
    log = MemoryLog()

    def stop(outcomes):
        raise RuntimeError("in the referee")

    with pytest.raises(RuntimeError, match="in the referee"):
        play(noisy, 300, key="k", store=log, stop=stop, workers=1)
    assert sum(log.counts("k").values()) >= 1


def always(trials):
    raise OSError(f"no luck with {trials[0]}")


@pytest.mark.parametrize("batch", [1, 50])
def test_too_many_failures(batch):
    played = play(always, 1000, key="k", workers=1, batch=batch)
    assert played.ended == "too many failures"
    assert len(played.outcomes) == 12  # the first n with n > 10 + n / 10
    assert played.n_failed == 12
    assert played.first_error.startswith("OSError\n")
    assert "no luck" not in played.first_error


def test_few_trials_that_all_fail():
    played = play(always, 5, key="k", workers=1)
    assert (played.ended, len(played.outcomes)) == ("too many failures", 5)


def test_failures_can_be_allowed():
    played = play(always, 100, key="k", workers=1, max_failed_share=1.0)
    assert (played.ended, played.n_failed) == ("done", 100)


def test_interrupted_by_the_task_itself_in_this_process():
    def task(trials):
        if 30 in trials:
            raise KeyboardInterrupt
        return [0.0] * len(trials)

    log = MemoryLog()
    played = play(task, 100, key="k", store=log, workers=1)
    assert played.ended == "interrupted"
    assert 0 < len(played.outcomes) <= 30


def test_interrupted_while_consuming():
    def stop(outcomes):
        raise KeyboardInterrupt

    assert play(noisy, 100, key="k", stop=stop, workers=1).ended == "interrupted"


def test_no_trials():
    assert play(noisy, 0, key="k").ended == "done"


# ------------------------------------------------------------------------------- results


def test_payloads_and_worlds(two):
    def task(trials):
        return [Outcome(float(t), world=t % 2, payload=bytes([t])) for t in trials]

    outcomes = play(task, 20, key="k", executor=two).outcomes
    assert outcomes.worlds.tolist() == [t % 2 for t in range(20)]
    assert outcomes.payloads == {t: bytes([t]) for t in range(20)}


def test_payload_without_score():
    outcomes = play(lambda trials: [b"x"] * len(trials), 3, key="k", workers=1).outcomes
    assert outcomes.payloads == {0: b"x", 1: b"x", 2: b"x"}
    assert not outcomes.failed.any()


def test_arrays_and_columns():
    scores = np.array([0.5, np.nan, -np.inf])
    outcomes = play(lambda trials: scores[trials], 3, key="k", workers=1, batch=3).outcomes
    assert outcomes.scores.tobytes() == scores.tobytes()
    assert outcomes.failed.tolist() == [False, True, False]
    assert outcomes.errors == {1: "the task returned NaN"}

    def columns(trials):
        return Outcomes.of(trials, scores[trials], worlds=[1] * len(trials))

    outcomes = play(columns, 3, key="k", workers=1, batch=2).outcomes
    assert outcomes.worlds.tolist() == [1, 1, 1]
    assert outcomes.scores.tobytes() == scores.tobytes()


def test_nan_is_a_failure_even_with_a_payload():
    def task(trials):
        return [Outcome(np.nan, world=1, payload=b"raw") for _ in trials]

    outcomes = play(task, 2, key="k", workers=1).outcomes
    assert outcomes.failed.all()
    assert outcomes.worlds.tolist() == [1, 1]


def test_failures_that_the_task_reports():
    def task(trials):
        return [Outcome(error="it diverged", world=0) for _ in trials]

    outcomes = play(task, 2, key="k", workers=1).outcomes
    assert outcomes.errors == {0: "it diverged", 1: "it diverged"}
    assert outcomes.worlds.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (1.0, "returned float for 1 trials"),
        ([1.0, 2.0], "returned 2 results for 1 trials"),
        ([], "returned 0 results"),
        (b"x", "returned bytes for 1 trials"),
        ([None], "result of trial 0 is a NoneType"),
        (["a"], "result of trial 0 is a str"),
        ([Outcome()], "outcome of trial 0 is empty"),
        ([Outcome(1.0, world=300)], "world=300 of trial 0"),
        ([Outcome(payload=bytes(2**24 + 1))], "at most 16777216 bytes"),
        (Outcomes.of([4], [1.0]), "outcomes of other trials"),
    ],
)
def test_broken_contracts(result, message):
    log = MemoryLog()
    with pytest.raises(TaskError, match=message):
        play(lambda trials: result, 3, key="k", store=log, workers=1)
    assert log.counts("k") == {"done": 0, "failed": 0}


def test_broken_contract_in_a_worker_keeps_the_rest(two):
    log = MemoryLog()

    def task(trials):
        return [0.0] * (1 if trials[0] < 100 else 2)

    with pytest.raises(TaskError, match="returned 2 results for 1 trials"):
        play(task, 300, key="k", store=log, executor=two)
    assert log.counts("k")["done"] >= 1


# ------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": 3}, "task=3 must be callable"),
        ({"trials": -1}, "trials=-1"),
        ({"trials": [3, 2]}, "increasing"),
        ({"trials": [1, 1]}, "increasing"),
        ({"trials": [-1, 2]}, "increasing"),
        ({"trials": [0.5, 2]}, "increasing"),
        ({"trials": [[1], [2, 3]]}, "increasing"),
        ({"trials": 2.5}, "increasing"),
        ({"key": ""}, "key='' must be a text"),
        ({"key": None}, "key=None"),
        ({"batch": 0}, "batch=0"),
        ({"every": 0}, "every=0"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": np.nan}, "timeout=nan"),
        ({"recycle": 0}, "recycle=0"),
        ({"workers": 0}, "workers=0"),
        ({"executor": 5}, "executor=5"),
        ({"max_failed_share": np.nan}, "max_failed_share=nan"),
        ({"max_failed_share": 1.1}, "max_failed_share=1.1"),
        ({"progress": "loud"}, "progress='loud'"),
        ({"progress": 3}, "progress=3"),
        ({"store": 3}, "store=3"),
        ({"configuration": {"f": open}}, "must be plain JSON"),
    ],
)
def test_misuse(change, message):
    arguments = {"task": noisy, "trials": 3, "key": "k"} | change
    with pytest.raises(InvalidArgument, match=message):
        play(arguments.pop("task"), arguments.pop("trials"), **arguments)
