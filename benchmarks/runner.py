"""What playing costs: milliseconds of overhead per trial of one millisecond.

Run with ``python -m benchmarks.runner`` (``--quick``: a tenth of the trials; ``--default``: only
the second part). The goal is 0.2 ms.
A trial waits for 1 ms without working, so that what is measured does not depend on how busy the
machine's cores are; its own time is what it takes in a bare loop. ``start`` is what it takes to
have worker processes ready and is paid once per run. The bare ``concurrent.futures`` loop, one
trial a task and nothing written, is there to compare.

Below stands what :func:`dpassay.audit` without ``score=`` costs beside its mechanism, per trial and
in CPU time: ten numbers come back from each call, one call a trial, in memory. Up to 20 000 trials
the score is learned while they are bet on (four experts; the goal is 0.3 ms); "one expert" is the
ridge alone on the same outputs, without game and log (0.1 ms). Then single rows by learned scores,
in microseconds (goals: 20 with trees, 6 linear).
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import audit
from dpassay.attacks.distinguisher import LEARNERS
from dpassay.attacks.online import OnlineAttack
from dpassay.attacks.online.experts import EXPERTS
from dpassay.bounds import SequentialTest
from dpassay.privacy import GDP
from dpassay.runs import Workers, open_log, play

GOAL = 0.2


def task(trials: Sequence[int]) -> list[float]:
    time.sleep(1e-3 * len(trials))
    return [float(trial) for trial in trials]


def vectorised(trials: Sequence[int]) -> np.ndarray:
    return np.asarray(trials, dtype=float)


def run(quick: bool = False) -> list[dict[str, Any]]:
    """One row per way to play: overhead per trial in milliseconds, of wall and of CPU time."""
    n = 500 if quick else 5000
    alone = _timed(lambda: [task([trial]) for trial in range(n)])[0] / n
    rows = [{"case": "bare loop", "trials": n, "trial_ms": 1e3 * alone}]
    with tempfile.TemporaryDirectory() as folder:
        for name, options in _cases(Path(folder)):
            rows.append({"case": name, "trials": n} | _overhead(n, alone, options))
    rows.append({"case": "bare loky, a task per trial", "trials": n} | _bare_loky(n, alone))
    rows += [_vectorised(10 * n * 20, store) for store in (None, "file")]
    return rows


def _cases(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "serial, in memory", {"workers": 1}
    yield "serial, in a file", {"workers": 1, "store": folder / "serial.db"}
    yield "serial, in a file, timeout", {"workers": 1, "store": folder / "t.db", "timeout": 5}
    yield (
        "serial, in a file, stop",
        {
            "workers": 1,
            "store": folder / "stop.db",
            "stop": lambda seen: seen.scores[-1] < 0,
        },
    )
    yield "loky 2, in memory", {"workers": 2}
    yield "loky 2, in a file", {"workers": 2, "store": folder / "loky.db"}
    yield "loky 2, in a file, timeout", {"workers": 2, "store": folder / "lt.db", "timeout": 5}


def _overhead(n: int, alone: float, options: dict[str, Any]) -> dict[str, float]:
    """Per trial and worker: the time that a worker does not spend on the trial itself."""
    width = options.pop("workers")
    with Workers(width) as workers:
        start, _ = _timed(lambda: play(task, 2 * width, key="start", executor=workers))
        wall, cpu = _timed(lambda: play(task, n, key="k", executor=workers, **options))
    return {
        "overhead_ms": 1e3 * (wall * width / n - alone),
        "cpu_ms": 1e3 * cpu / n,
        "start_s": start,
    }


def _bare_loky(n: int, alone: float) -> dict[str, float]:
    with Workers(2) as workers:
        start, _ = _timed(lambda: [workers.submit(task, [0]).result() for _ in range(4)])
        submit = lambda: [workers.submit(task, [trial]) for trial in range(n)]  # noqa: E731
        wall, cpu = _timed(lambda: [future.result() for future in submit()])
    return {"overhead_ms": 1e3 * (wall * 2 / n - alone), "cpu_ms": 1e3 * cpu / n, "start_s": start}


def _vectorised(n: int, store: str | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        log = None if store is None else Path(folder, "run.db")
        call = lambda: play(vectorised, n, key="k", workers=1, batch=n, store=log)  # noqa: E731
        wall, cpu = _timed(call)
    where = "in memory" if store is None else "in a file"
    return {"case": f"vectorised, {where}", "trials": n, "seconds": wall, "cpu_ms": 1e3 * cpu / n}


def gaussian(data: list[int], rng: np.random.Generator) -> np.ndarray:
    """A mechanism whose claim is not refuted, so that all trials are played."""
    return 0.3 * len(data) + rng.normal(size=10)


def default_path(quick: bool = False) -> list[dict[str, Any]]:
    """CPU time per trial of an audit as a user calls it, beside its mechanism."""
    n = 500 if quick else 2000
    claim, pair = GDP(1.0), ([1], [])
    audit(gaussian, pair, claim=claim, trials=50)  # what is imported and found once
    rng = np.random.default_rng(0)
    _, alone = _timed(lambda: [gaussian([1], rng) for _ in range(n)])
    log = open_log(None)
    _, cpu = _timed(lambda: audit(gaussian, pair, claim=claim, trials=n, store=log))
    # What is in the log is judged again, without playing: learning, bets and the bound.
    _, judged = _timed(lambda: audit(gaussian, pair, claim=claim, trials=n, store=log))
    return [
        {"case": "audit, game and log", "trials": n, "cpu_ms": 1e3 * (cpu - judged - alone) / n},
        {"case": "four experts, bets included", "trials": n, "cpu_ms": 1e3 * _experts(n) / n},
        {"case": "one expert, bets included", "trials": n, "cpu_ms": 1e3 * _experts(n, 1) / n},
        {"case": "whole audit with its bound", "trials": n, "cpu_ms": 1e3 * (cpu - alone) / n},
        *single_rows(n),
    ]


def _experts(n: int, n_experts: int = 4) -> float:
    """CPU seconds of the first experts and of the bets on their ranks, 25 trials at a time."""
    rng = np.random.default_rng(0)
    worlds = rng.integers(0, 2, n)
    outputs = rng.normal(size=(n, 10)) + 0.3 * worlds[:, None]
    some_of_them = list(EXPERTS.items())[:n_experts]
    attack = OnlineAttack({name: (1 / n_experts, fit) for name, (_, fit) in some_of_them})
    test = SequentialTest(GDP(1.0), shares=attack.shares)

    def play_all() -> None:
        for start in range(0, n, 25):
            some = slice(start, start + 25)
            test.take(attack.play(worlds[some], outputs[some]).streams, worlds[some])

    return _timed(play_all)[1]


def single_rows(n: int) -> list[dict[str, Any]]:
    """CPU microseconds of one score, for the learners of audits with more trials."""
    rng = np.random.default_rng(0)
    worlds = rng.integers(0, 2, 600)
    rows = rng.normal(size=(600, 10)) + worlds[:, None]
    found = []
    for name in ("logistic", "boosting"):
        learned = LEARNERS[name](rows, worlds, 0)
        _, cpu = _timed(lambda: [learned(rows[:1]) for _ in range(n)])  # noqa: B023
        found.append({"case": f"single row, {name}", "trials": n, "cpu_us": 1e6 * cpu / n})
    return found


def _timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    quick = "--quick" in sys.argv
    rows = [] if "--default" in sys.argv else run(quick)
    for row in [*rows, *default_path(quick)]:
        missed = row.get("overhead_ms", 0) > GOAL and not row["case"].startswith("bare")
        shown = (f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print(", ".join(shown), "MISSED" if missed else "", flush=True)


if __name__ == "__main__":
    main()
