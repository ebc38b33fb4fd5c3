"""Storms: an audit that is killed at random moments must end as if nothing had happened.

Run with ``python -m benchmarks.storms`` (``--quick``: 3 storms instead of 12; ``--one``: one;
``--dask``: on clusters of Dask, two processes each). In each storm an audit is started again and
again on one log, in this process or with one or two workers, alone or together with a second
process on the same log. At random moments, drawn from the storm's number,
something happens to it: kill -9 of the process, of one worker or of all of them, SIGTERM or Ctrl-C.
After the last fault it is left alone. Then the JSON that it prints, but for the number of workers
that died, and every row of its log but for how long a trial took, must be those of an audit that
nobody disturbed. Temporary folders of the
dead must be gone.
"""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

STORMS, QUICK, TRIALS, FAULTS = 12, 3, 400, 8
TARGET = """
import os, time

def slow(data, rng):
    time.sleep(0.01)
    with open("players", "a") as file:
        file.write(f"{os.getpid()}\\n")
    if rng.random() < 0.03:
        raise RuntimeError("some trials fail")
    return data.sum() + rng.laplace(scale=0.7)

def number(output):
    return float(output)
"""
ROWS = "SELECT key, trial, state, world, score, payload, error FROM trials JOIN runs ON run = id"
KINDS = ("kill", "kill a worker", "kill all workers", "terminate", "interrupt")


class Storm:
    """One audit in a folder of its own, and what happens to it."""

    def __init__(self, folder: Path, number: int, dask: bool = False) -> None:
        self.folder, self.number, self.dask = folder, number, dask
        self.draw = random.Random(number)
        self.workers = 2 if dask else number % 3
        self.together = 2 if number % 4 == 3 else 1
        self.faults: Counter[str] = Counter()
        (folder / "target.py").write_text(TARGET)
        data = np.array([[1.0], [0.0], [0.0]])
        np.savez(folder / "d.npz", data=data, data_prime=data[1:])
        (folder / "temporary").mkdir()

    def start(self) -> "list[subprocess.Popen[str]]":
        words = ["audit", "target.py:slow", "--claim", "1", "--data", "d.npz", "--json"]
        words += ["--score", "target.py:number", "--trials", str(TRIALS), "--store", "run.db"]
        words += ["--confidence", "0.999999", "--workers", str(self.workers)]
        words += ["--executor", "dask"] if self.dask else []
        env = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.folder / "temporary")}
        return [
            subprocess.Popen(
                [sys.executable, "-m", "dpassay", *words],
                cwd=self.folder,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # as a terminal has it: a group of its own
            )
            for _ in range(self.together)
        ]

    def rage(self) -> None:
        """Faults, each some time after the audit has gone on."""
        running = self.start()
        while sum(self.faults.values()) < FAULTS:
            self._wait(running)
            if all(process.poll() is not None for process in running):
                for process in running:
                    process.communicate()
                if self.n_rows() == TRIALS:
                    return
                running = self.start()
                continue
            self._strike(running)
        self._finish_all(running)

    def _wait(self, running: "list[subprocess.Popen[str]]") -> None:
        """Until a few more trials were played, or not at all: faults come during the start too."""
        wanted = len(self.players()) + self.draw.choice([0, 1, 20, 40])
        end = time.monotonic() + 30
        while len(self.players()) < wanted and time.monotonic() < end:
            if all(process.poll() is not None for process in running):
                return
            time.sleep(0.005)
        time.sleep(self.draw.uniform(0, 0.3))

    def _strike(self, running: "list[subprocess.Popen[str]]") -> None:
        kind = self.draw.choice(KINDS if self.workers else [k for k in KINDS if "worker" not in k])
        self.faults[kind] += 1
        victim = self.draw.choice(running)
        with contextlib.suppress(ProcessLookupError):
            if "worker" in kind:
                pids = [pid for pid in _children(victim.pid) if pid in set(self.players())]
                for pid in pids if "all" in kind else pids[:1]:
                    os.kill(pid, signal.SIGKILL)
            elif kind == "interrupt":
                os.killpg(victim.pid, signal.SIGINT)
            else:
                victim.send_signal(signal.SIGKILL if kind == "kill" else signal.SIGTERM)

    def _finish_all(self, running: "list[subprocess.Popen[str]]") -> None:
        for process in running:
            process.communicate(timeout=300)

    def end(self) -> dict[str, Any]:
        """What the audit says that is left alone."""
        said = []
        for process in self.start():
            out, err = process.communicate(timeout=300)
            if process.returncode not in (0, 1):
                raise SystemExit(f"storm {self.number}: exit {process.returncode}: {err}")
            said.append(json.loads(out))
        assert all(one == said[0] for one in said)
        return said[0]

    def rows(self) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.folder / "run.db", timeout=60)) as log:
            rows = log.execute(f"{ROWS} ORDER BY trial").fetchall()
        here = str(self.folder)  # which errors name, since a traceback does
        return [(*row[:-1], row[-1] and row[-1].replace(here, "")) for row in rows]

    def n_rows(self) -> int:
        return len(self.rows()) if (self.folder / "run.db").exists() else 0

    def players(self) -> list[int]:
        path = self.folder / "players"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def left(self) -> list[str]:
        """What lies about in the folder for temporary data."""
        time.sleep(1.5)  # workers of a process that was killed look for it twice a second
        return [path.name for path in (self.folder / "temporary").iterdir()]


def _children(pid: int) -> list[int]:
    """The processes that a process has started."""
    shown = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in shown.stdout.split()]


def run(storms: int, dask: bool = False) -> list[dict[str, Any]]:
    """One row per storm: what happened, and whether the end was that of the undisturbed audit."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        calm = Storm(_made(name, "calm"), 0)
        said, rows = calm.end(), calm.rows()
        for number in range(1, storms + 1):
            begin = time.monotonic()
            storm = Storm(_made(name, str(number)), number, dask)
            storm.rage()
            final = storm.end()
            found.append(
                {
                    "storm": number,
                    "workers": storm.workers,
                    "together": storm.together,
                    "faults": sum(storm.faults.values()),
                    "same_json": _without_storm(final) == _without_storm(said),
                    "same_rows": storm.rows() == rows,
                    "left": storm.left(),
                    "seconds": time.monotonic() - begin,
                }
            )
            print(_line(found[-1]), dict(storm.faults), flush=True)
    return found


def _made(parent: str, name: str) -> Path:
    folder = Path(parent, name)
    folder.mkdir()
    return folder


def _without_storm(data: dict[str, Any]) -> dict[str, Any]:
    """What does not tell of the storm: neither the command, with its workers, nor the deaths."""
    return {name: value for name, value in data.items() if name not in {"replay", "n_deaths"}}


def _line(row: dict[str, Any]) -> str:
    good = row["same_json"] and row["same_rows"] and not row["left"]
    shown = (f"{k} {v:.0f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    return f"{', '.join(shown)} {'' if good else 'MISSED'}"


def main(quick: bool = False) -> None:
    storms = QUICK if quick or "--quick" in sys.argv else STORMS
    rows = run(1 if "--one" in sys.argv else storms, "--dask" in sys.argv)
    same = sum(row["same_json"] and row["same_rows"] for row in rows)
    clean = sum(not row["left"] for row in rows)
    print(
        f"{same} of {len(rows)} storms ended bit for bit as the undisturbed audit, "
        f"{sum(row['faults'] for row in rows)} faults; {clean} left nothing behind"
    )


if __name__ == "__main__":
    main()
