"""Runs beyond one machine and beyond a thousand trials: what playing, writing and reading cost.

``python -m benchmarks.runs`` runs all parts, ``python -m benchmarks.runs million engines`` those
that are named; ``--quick`` a tenth of each.

- ``million``: a log of 10^6 trials with given scores: its size, and CPU seconds and memory of
  ``status``, of the same audit asked again (``resume``) and of ``report``, each in a process of its
  own with its imports. Goals: 60 MB; 1, 3 and 10 s; 500 MB.
- ``engines``: trials that sleep, on loky and on a Dask cluster, both of two processes: wall time of
  Dask over that of loky at 50 ms (goal 1.05) and 10 ms (1.10) a trial, with 16 MB of data (1.20),
  and 10^5 trials that do nothing (60 s on Dask). Starting is paid once and left out.
- ``log``: eight processes that write to one log, 100 trials a commit; goal 5000 trials a second.
- ``capacity``: one audit on a cluster of 1000 threads in this process, trials of 10 s by sleep: how
  busy the threads are, and what the coordinator spends per trial.
"""

import contextlib
import hashlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import audit
from dpassay.auditing import describe_audit
from dpassay.auditing.reading import coins_of
from dpassay.privacy import PureDP
from dpassay.runs import Outcomes, SqliteLog, Workers, hire, open_log, play

TRIALS, TOGETHER = 1_000_000, 20_000
CLAIM, PAIR = PureDP(1.0), ([1, 2], [1])
Row = dict[str, Any]


def noisy(data: list[int], rng: np.random.Generator) -> float:
    return len(data) + rng.laplace()


# ------------------------------------------------------------------------------- a million


def million(quick: bool) -> Iterator[Row]:
    """Size of a long log, and what it costs to look at it."""
    n = TRIALS // 10 if quick else TRIALS
    with tempfile.TemporaryDirectory() as name:
        store = Path(name, "audit")
        write_long(store, n)
        size = sum(path.stat().st_size for path in store.iterdir()) / 1e6
        yield {"case": "log", "trials": n, "MB": size, "goal_MB": 60}
        first = "of the first look, which bets"
        for case, goal in ((f"status {first}", None), ("status", 1), ("resume", 3), ("report", 10)):
            words = {"status": ["status", str(store)], "resume": None}
            words["report"] = ["report", str(store), "-o", f"{name}/report.html"]
            yield {"case": case, "goal_s": goal} | _cost(case.split()[0], words, store, n)


def write_long(store: Path, n: int) -> None:
    """The log of an audit whose n trials were played, without playing them."""
    work = describe_audit(noisy, PAIR, claim=CLAIM, score=float, trials=n, store=store)
    rng, worlds = np.random.default_rng(0), coins_of(0, np.arange(n), 0)
    with contextlib.closing(open_log(store)) as log:
        for trials in np.array_split(np.arange(n), max(n // TOGETHER, 1)):
            scores = 1.0 + worlds[trials] + rng.laplace(size=trials.size)
            prints = {t: _print(score) for t, score in zip(trials.tolist(), scores, strict=True)}
            seconds = rng.random(trials.size)
            log.add(work.key, Outcomes.of(trials, scores, seconds=seconds, features=prints))


def _print(score: np.float64) -> bytes:
    return hashlib.blake2b(score.tobytes(), digest_size=8).digest() + b"\1"


def resume(store: str, trials: str) -> None:
    """Ask the audit of a long log again; nothing is left to be played."""
    audit(noisy, PAIR, claim=CLAIM, score=float, trials=int(trials), store=store)


def _cost(case: str, words: dict[str, list[str] | None], store: Path, n: int) -> Row:
    """Seconds and memory of a command in a process of its own."""
    command = words[case]
    here = ["-m", "benchmarks.runs", "resume", str(store), str(n)]
    line = [sys.executable, *(here if command is None else ["-m", "dpassay", *command])]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    begin = time.perf_counter()
    process = subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL)
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    assert process.returncode in (0, 1), f"{case}: exit {process.returncode}"
    wall = time.perf_counter() - begin
    cpu = used.ru_utime + used.ru_stime
    return {"cpu_s": cpu, "wall_s": wall, "MB": used.ru_maxrss / 1e3, "goal_MB": 500}


# ------------------------------------------------------------------------------- engines


class Sleeping:
    """A task that waits, and has some data with it."""

    def __init__(self, seconds: float, megabytes: int = 0) -> None:
        self.seconds, self.data = seconds, np.zeros(megabytes * 2**17)

    def __call__(self, trials: Sequence[int]) -> list[float]:
        if self.seconds:
            time.sleep(self.seconds * len(trials))
        return [float(trial) for trial in trials]


def engines(quick: bool) -> Iterator[Row]:
    """What Dask takes beside loky; the median of three rounds, in turn."""
    tenth = 10 if quick else 1
    cases = {
        "50 ms trials": (Sleeping(0.05), 600 // tenth, 1.05),
        "10 ms trials": (Sleeping(0.01), 3000 // tenth, 1.10),
        "10 ms trials, 16 MB of data": (Sleeping(0.01, 16), 1000 // tenth, 1.20),
        "trials that do nothing": (Sleeping(0.0), 100_000 // tenth, None),
    }
    with Workers(2) as loky, hire("dask", 2) as dask:
        for who in (loky, dask):
            play(Sleeping(0.01), 50, key="start", executor=who)
        for name, (task, n, goal) in cases.items():
            rounds = [[_wall(task, n, who) for who in (loky, dask)] for _ in range(3)]
            ours, theirs = np.median(rounds, axis=0)
            yield {"case": name, "trials": n, "loky_s": ours, "dask_s": theirs,
                   "ratio": theirs / ours, "goal": goal}  # fmt: skip


def _wall(task: Callable[..., Any], n: int, who: Any) -> float:
    begin = time.perf_counter()
    play(task, n, key="k", executor=who)
    return time.perf_counter() - begin


# ------------------------------------------------------------------------------- the log


def log(quick: bool) -> Iterator[Row]:
    """Trials a second that eight processes write to one log."""
    each = 2_000 if quick else 20_000
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "run.db")
        with contextlib.closing(SqliteLog(path)) as made:
            made.begin("k", {})
        context = multiprocessing.get_context("spawn")
        gate = context.Barrier(9)
        writers = [context.Process(target=_add, args=(path, i, each, gate)) for i in range(8)]
        for writer in writers:
            writer.start()
        gate.wait()
        begin = time.perf_counter()
        for writer in writers:
            writer.join()
        seconds = time.perf_counter() - begin
        with contextlib.closing(SqliteLog(path)) as made:
            assert len(made.outcomes("k")) == 8 * each
    yield {"case": "8 writers", "trials": 8 * each, "per_s": 8 * each / seconds, "goal": 5000}


def _add(path: Path, i: int, each: int, gate: Any) -> None:
    with contextlib.closing(SqliteLog(path)) as mine:
        gate.wait()
        for start in range(0, each, 100):
            trials = np.arange(start, start + 100) * 8 + i
            mine.add("k", Outcomes.of(trials, trials.astype(float)))


# ------------------------------------------------------------------------------- capacity


def capacity(quick: bool) -> Iterator[Row]:
    """A thousand threads as the workers of one audit."""
    from distributed import Client, LocalCluster

    threads, seconds = (100, 2.0) if quick else (1000, 10.0)
    with (
        LocalCluster(
            n_workers=4, threads_per_worker=threads // 4, processes=True, silence_logs=50,
            dashboard_address="127.0.0.1:0", memory_limit=0,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        hire(client) as who,
    ):  # fmt: skip
        play(Sleeping(0.01), 2 * threads, key="start", executor=who)
        for each in (seconds, seconds / 10):
            n = 4 * threads
            begin, cpu = time.perf_counter(), time.process_time()
            play(Sleeping(each), n, key="k", executor=who)
            wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
            yield {"case": f"{threads} threads, {each:g} s trials", "trials": n, "wall_s": wall,
                   "busy": n * each / threads / wall, "coordinator_ms": 1e3 * cpu / n}  # fmt: skip


PARTS = {"million": million, "engines": engines, "log": log, "capacity": capacity}


def main(quick: bool = False) -> None:
    if sys.argv[1:2] == ["resume"]:
        resume(*sys.argv[2:])
        return
    for name in [word for word in sys.argv[1:] if word in PARTS] or PARTS:
        for row in PARTS[name](quick or "--quick" in sys.argv):
            shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            print(f"{name}: {', '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
