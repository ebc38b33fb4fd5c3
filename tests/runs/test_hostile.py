"""Tasks that hang, die, exit, fork, print: the run survives and says what happened."""

import ctypes
import io
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpassay.runs import MemoryLog, Workers, guard, play
from dpassay.runs.outcomes import Outcome
from dpassay.runs.schedule import DEATHS_ALONE, DEATHS_TOGETHER
from runs.tasks import BAD, hang, spoiled, stubborn

posix = pytest.mark.skipif(os.name != "posix", reason="signals and forks of POSIX")


@pytest.fixture(scope="module")
def two():
    with Workers(2) as workers:
        yield workers


@pytest.fixture(params=["here", "workers"])
def who(request, two):
    return {"workers": 1} if request.param == "here" else {"executor": two}


def failed_alone(played, n=20):
    """Trial 5 failed, all others are what they should be; returns its error."""
    assert played.ended == "done"
    outcomes = played.outcomes
    assert outcomes.trials[outcomes.failed].tolist() == [BAD]
    good = ~outcomes.failed
    assert np.array_equal(outcomes.scores[good], np.arange(n)[good])
    return outcomes.errors[BAD]


def test_raises(who):
    def action():
        raise ValueError("bad luck")

    error = failed_alone(play(spoiled(action), 20, key="k", **who))
    first, *frames = error.splitlines()
    assert first == "ValueError"
    assert frames[-1].endswith(" in action")
    assert "bad luck" not in error  # the words of an error may quote a record
    assert "guard.py" not in error


@pytest.mark.parametrize("batch", [1, 8])
def test_exits(who, batch):
    error = failed_alone(play(spoiled(lambda: sys.exit(3)), 20, key="k", batch=batch, **who))
    assert error.startswith("SystemExit\n")


def test_keyboard_interrupt_in_a_worker_is_the_tasks_own(two):
    def action():
        raise KeyboardInterrupt

    assert "KeyboardInterrupt" in failed_alone(play(spoiled(action), 20, key="k", executor=two))


def test_hostile_exception():
    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError

    def action():
        raise Unprintable

    assert "Unprintable" in failed_alone(play(spoiled(action), 20, key="k", workers=1))


def test_errors_are_bounded():
    def action():
        raise ValueError("x" * 1_000_000)

    error = failed_alone(play(spoiled(action), 20, key="k", workers=1))
    assert len(error) < 1.1 * guard.ERROR_MAX
    assert error.startswith("ValueError\n")
    assert "xxx" not in error

    def deep(n=0):
        deep(n + 1)

    error = failed_alone(play(spoiled(deep), 20, key="k", workers=1))
    assert "RecursionError" in error
    assert len(error) < 1.1 * guard.ERROR_MAX


# ------------------------------------------------------------------------------- prints


def test_prints_stay_out_of_the_way(who, capfd):
    def action():
        print("to out")
        print("to err", file=sys.stderr)
        sys.stdout.buffer.write(b"bytes\n")
        os.write(sys.stdout.fileno(), b"")
        sys.stdout.close()
        raise ValueError

    def task(trials):
        print("noise")
        return spoiled(action)(trials)

    error = failed_alone(play(task, 20, key="k", **who))
    assert error.startswith("ValueError\n")
    assert "noise" not in error
    assert capfd.readouterr().out == ""


def test_prints_and_words_of_a_failure_are_shown_on_the_terminal_when_debugging(capfd, monkeypatch):
    monkeypatch.setenv("DPASSAY_DEBUG", "1")

    def task(trials):
        print("noise")
        raise ValueError("words")

    error = failed_alone(play(spoiled(lambda: task([0])), 20, key="k", workers=1))
    assert "words" not in error
    shown = capfd.readouterr().err
    assert "ValueError: words" in shown
    assert "The trial had printed (end):\nnoise" in shown


def test_output_of_c_code_in_workers_does_not_reach_standard_output(two, capfd):
    def action():
        libc = ctypes.CDLL(None)
        libc.puts(b"from C")
        libc.fflush(None)

    play(spoiled(action), 20, key="k", executor=two)
    captured = capfd.readouterr()
    assert captured.out == ""


def test_prints_are_bounded(capfd, monkeypatch):
    monkeypatch.setenv("DPASSAY_DEBUG", "1")

    def action():
        for i in range(10_000):
            print("line", i)
        raise ValueError

    play(spoiled(action), 20, key="k", workers=1)
    shown = capfd.readouterr().err
    assert shown.rstrip().endswith("line 9999")
    assert len(shown) < 2 * guard.PRINTED_MAX


def test_streams_are_given_back():
    before = sys.stdout, sys.stderr
    play(spoiled(lambda: setattr(sys, "stdout", io.StringIO())), 20, key="k", workers=1)
    assert (sys.stdout, sys.stderr) == before


# ------------------------------------------------------------------------------- forks, deaths


@posix
def test_forks(who):
    def action():
        if os.fork() == 0:
            return  # The child goes on as if it were the task.
        os.wait()

    played = play(spoiled(action), 20, key="k", **who)
    assert np.array_equal(played.outcomes.scores, np.arange(20.0))


@posix
def test_fork_that_raises(who):
    def action():
        if os.fork() == 0:
            raise SystemExit(1)
        os.wait()

    played = play(spoiled(action), 20, key="k", **who)
    assert np.array_equal(played.outcomes.scores, np.arange(20.0))


@posix
def test_trial_that_always_kills_its_worker():
    """It ends as a failed outcome; its neighbours, which die with it, do not."""
    log = MemoryLog()
    killing = spoiled(lambda: os._exit(7))

    def task(trials):
        time.sleep(0.002)
        return killing(trials)

    played = play(task, 40, key="k", store=log, workers=2)
    error = failed_alone(played, 40)
    assert error == "trial 5: playing alone, it killed its worker 4 times"
    assert played.n_deaths == DEATHS_TOGETHER + DEATHS_ALONE
    assert log.counts("k") == {"done": 39, "failed": 1}


@posix
def test_crash_of_the_interpreter(tmp_path):
    """Once: then it was an accident, and the trial is played again."""
    once = tmp_path / "once"

    def action():
        if not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGSEGV)

    played = play(spoiled(action), 20, key="k", workers=2)
    assert np.array_equal(played.outcomes.scores, np.arange(20.0))
    assert (played.n_failed, played.n_deaths) == (0, 1)


# ------------------------------------------------------------------------------- time


@posix
@pytest.mark.parametrize("batch", [1, 8])
def test_hangs(who, batch):
    error = failed_alone(play(spoiled(hang), 20, key="k", timeout=0.2, batch=batch, **who))
    assert error.startswith("timeout: the trial took more than 0.2 s")


@posix
def test_ignores_its_alarm():
    played = play(spoiled(stubborn), 20, key="k", timeout=0.2, workers=2)
    error = failed_alone(played)
    assert error.startswith("timeout: the trial took more than 0.2 s, and ignored its alarm")
    assert "in stubborn" in error
    assert "dpassay" not in error
    assert played.n_deaths == 1


def test_hangs_on_a_thread():
    released = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        played = play(
            spoiled(lambda: released.wait(60)), 20, key="k", timeout=0.2, executor=threads
        )
        released.set()
    assert failed_alone(played).startswith("timeout")


def test_error_and_value_on_a_thread_with_a_timeout():
    def action():
        raise ValueError("on a thread")

    with ThreadPoolExecutor(2) as threads:
        played = play(spoiled(action), 20, key="k", timeout=5, executor=threads)
    assert failed_alone(played).startswith("ValueError\n")


@posix
def test_alarm_of_the_caller_is_kept():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
    try:
        signal.setitimer(signal.ITIMER_REAL, 60)
        play(spoiled(lambda: None), 20, key="k", timeout=5, workers=1)
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left < 60
        os.kill(os.getpid(), signal.SIGALRM)
        assert rung == [True]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_stopping_does_not_wait_for_long_trials():
    """A worker in the middle of a trial is ended when the run is over."""

    def task(trials):
        time.sleep(60 if trials[0] > 5 else 0)
        return [float(trial) for trial in trials]

    log = MemoryLog()
    played = play(task, 100, key="k", store=log, workers=2, stop=lambda seen: seen.trials[-1] == 3)
    assert played.ended == "stopped"
    assert log.outcomes("k").trials.max() <= 5


def test_finished_in_time_for_a_run_that_stops():
    """What is under way when a run stops is waited for a little, and logged."""
    log = MemoryLog()

    def task(trials):
        time.sleep(0.05)
        return [float(trial) for trial in trials]

    played = play(task, 100, key="k", store=log, workers=2, stop=lambda seen: True)
    assert len(played.outcomes) == 1
    assert sum(log.counts("k").values()) == played.n_logged > 1


def test_guard_plays_each_alone_after_a_failure():
    calls = []

    def task(trials):
        calls.append(list(trials))
        if 2 in trials:
            raise ValueError
        return [Outcome(float(trial)) for trial in trials]

    outcomes = guard.play_portion(task, [0, 1, 2, 3, 4, 5], guard.Rules(batch=4, home=os.getpid()))
    assert calls == [[0, 1, 2, 3], [0], [1], [2], [3], [4, 5]]
    assert sorted(outcomes.trials.tolist()) == [0, 1, 2, 3, 4, 5]
    assert list(outcomes.errors) == [2]
