"""A Dask cluster of real programs that dies, comes back, or is cut off: nothing is lost or doubled.

The scheduler and its worker are programs of their own, started here and killed with ``kill -9``.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from dpassay.errors import EngineLost
from dpassay.runs import SqliteLog, play
from extras import needs
from runs.tasks import noisy, slow

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are killed by signals")
TRIALS, CUT_AT = 120, 30


def free_port():
    with contextlib.closing(socket.socket()) as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


class Programs:
    """A scheduler and a worker, as programs."""

    def __init__(self, folder):
        self.port, self._folder, self._running = free_port(), folder, []

    def start(self):
        address = f"tcp://127.0.0.1:{self.port}"
        own = ["--host", "127.0.0.1", "--no-dashboard"]
        lines = (["scheduler", "--port", str(self.port), *own], ["worker", address, *own])
        lines[1].extend(["--nworkers", "1", "--nthreads", "2", "--no-nanny"])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        for line in lines:
            program = [sys.executable, "-m", "dask", *line]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self._running.append(
                subprocess.Popen(program, cwd=self._folder, env=environment, **quiet)
            )
            if "scheduler" in line:
                self._await_scheduler()

    def _await_scheduler(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.1)
        raise AssertionError("no scheduler")

    def kill(self):
        for process in self._running:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self._running.clear()


class Proxy:
    """A way to a port that can be cut."""

    def __init__(self, port):
        self.port, self._to = free_port(), port
        self._pipes, self._lock = [], threading.Lock()
        self._door = None
        self.open()

    def open(self):
        self._door = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._serve, args=(self._door,), daemon=True).start()

    def cut(self):
        with self._lock:
            for place in (self._door, *self._pipes):
                with contextlib.suppress(OSError):
                    place.shutdown(socket.SHUT_RDWR)
                place.close()
            self._pipes.clear()

    def _serve(self, door):
        with contextlib.suppress(OSError):
            while True:
                client, _ = door.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                with self._lock:
                    self._pipes += [client, server]
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(2**16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def programs(tmp_path):
    needs("distributed", "dask")
    there = Programs(tmp_path)
    there.start()
    yield there
    there.kill()


def at_half(store, action):
    """Does something, once, when some trials are in the log."""

    def wait():
        while not store.exists() or n_rows(store) < CUT_AT:
            time.sleep(0.05)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def n_rows(store):
    with contextlib.closing(SqliteLog(store)) as log:
        return sum(log.counts("k").values())


def check_history(store):
    """Every trial has one outcome, that of a run without faults."""
    with contextlib.closing(SqliteLog(store)) as log:
        found = log.outcomes("k")
    alone = play(noisy, TRIALS, key="k", workers=1).outcomes
    assert found.trials.tolist() == list(range(TRIALS))
    assert found.scores.tobytes() == alone.scores.tobytes()
    assert np.array_equal(found.failed, alone.failed)
    first = {t: error.splitlines()[0] for t, error in found.errors.items()}
    assert first == {t: error.splitlines()[0] for t, error in alone.errors.items()}


def test_scheduler_that_dies_and_comes_back(programs, tmp_path):
    store = tmp_path / "run.db"

    def restart():
        programs.kill()
        time.sleep(2)
        programs.start()

    thread = at_half(store, restart)
    address = f"dask:tcp://127.0.0.1:{programs.port}"
    played = play(slow, TRIALS, key="k", store=store, executor=address)
    thread.join(60)
    assert played.ended == "done"
    assert played.n_deaths == 0
    check_history(store)


def test_scheduler_that_stays_away_ends_the_run_and_loses_nothing(programs, tmp_path, monkeypatch):
    monkeypatch.setattr("dpassay.runs.cluster.RECONNECT_SECONDS", 3.0)
    store = tmp_path / "run.db"
    thread = at_half(store, programs.kill)
    with pytest.raises(EngineLost, match="run the same again to go on"):
        play(slow, TRIALS, key="k", store=store, executor=f"dask:tcp://127.0.0.1:{programs.port}")
    thread.join(60)
    assert CUT_AT <= n_rows(store) < TRIALS
    play(noisy, TRIALS, key="k", store=store, workers=1)
    check_history(store)


def test_connection_that_is_cut_and_comes_back(programs, tmp_path):
    """A partition: the workers go on, the audit does not see them for a while."""
    store, proxy = tmp_path / "run.db", Proxy(programs.port)

    def partition():
        proxy.cut()
        time.sleep(4)
        proxy.open()

    thread = at_half(store, partition)
    address = f"dask:tcp://127.0.0.1:{proxy.port}"
    played = play(slow, TRIALS, key="k", store=store, executor=address)
    thread.join(60)
    proxy.cut()
    assert played.ended == "done"
    check_history(store)
