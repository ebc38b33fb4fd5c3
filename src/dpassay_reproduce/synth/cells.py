"""The problems of the experiment on synthetic data, and a file that keeps what was measured.

Ten bits (or fewer, or more) as a product, a mixture of three products, or a chain of noisy copies;
all sets of three columns as marginals or parities; and Adult with 64 sets of three columns.
"""

import itertools
import json
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dpassay
from dpassay import _files, synth
from dpassay.errors import InvalidArgument
from dpassay.runs import run_key
from dpassay.synth import Schema, Workload, compare
from dpassay.synth.models import Records

KINDS = ("product", "mixture", "chain")
QUERIES = ("marginals", "parities")
Progress = Callable[[str], None]
Numbers = list[float] | None  # None where a method refused: the budget buys it nothing


def tiny(kind: str, seed: int, n: int = 10_000, d: int = 10) -> Any:
    """Bits: a product, a mixture of three products, or a chain of noisy copies.

    The law depends on the seed and on d alone, so that n can be varied by itself.
    """
    rng = np.random.default_rng(seed)
    if kind != "chain":
        rates = rng.uniform(0.1, 0.9, (1 if kind == "product" else 3, d))
        return (rng.random((n, d)) < rates[rng.integers(0, len(rates), n)]).astype(int)
    codes = np.zeros((n, d), int)
    codes[:, 0] = rng.random(n) < 0.6
    for j in range(1, d):
        copied = rng.random(n) < 0.8
        codes[:, j] = np.where(copied, codes[:, j - 1], rng.random(n) < 0.5)
    return codes


def bits(d: int) -> Schema:
    """A schema of d columns of two values."""
    return Schema({f"b{j}": [0, 1] for j in range(d)})


def threes(schema: Schema, queries: str, sets: int | None) -> Workload:
    """All sets of three columns, or so many of them, drawn with a fixed seed."""
    every = list(itertools.combinations(schema.names, 3))
    if sets is not None:
        drawn = np.random.default_rng(0).permutation(len(every))[:sets]
        every = [every[i] for i in sorted(drawn)]
    return getattr(Workload, queries)(every)


def triples(schema: Schema, n_records: int) -> Workload:
    """64 of the sets of three columns with at most n cells, as the FEM and GEM repositories do."""
    small = Workload.all_marginals(schema, 3, most_cells=n_records).blocks
    chosen = np.random.RandomState(0).choice(len(small), 64, replace=False)
    return Workload(tuple(small[i] for i in chosen))


@dataclass(frozen=True)
class Cell:
    """One fit on bits: what is measured is its largest error.

    Attributes:
        method: the name of a synthesizer.
        kind: of the data.
        queries: "marginals" or "parities".
        n: records.
        epsilon: with delta = 1/n².
        d: bits.
        sets: of three columns, drawn from all; None for all.
        seed: of the noise; the data are those of seed 0.
        size: of BLR's tables.

    """

    method: str
    kind: str = "mixture"
    queries: str = "marginals"
    n: int = 2000
    epsilon: float = 1.0
    d: int = 10
    sets: int | None = None
    seed: int = 0
    size: int | None = None

    @property
    def key(self) -> str:
        """The name of the cell in the file of results."""
        return " ".join(map(str, astuple(self)))

    @property
    def workload(self) -> Workload:
        """The queries of the cell."""
        return threes(bits(self.d), self.queries, self.sets)

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return self.workload.n_queries(bits(self.d))

    def measure(self) -> Numbers:
        """The largest error of the model's answers."""
        data = Records(bits(self.d), tiny(self.kind, 0, self.n, self.d))
        size = {} if self.size is None else {"size": self.size}
        found = errors(self.method, data, self.workload, self.epsilon, self.seed, **size)
        return None if found is None else found[:1]


def errors(
    method: str, data: Records, workload: Workload, epsilon: float, seed: int, **options: Any
) -> Numbers:
    """The largest error and, of marginals, the mean total variation; None if the fit is refused."""
    made = getattr(synth, method)(data.schema, workload, epsilon=epsilon, rng=seed, **options)
    try:
        fitted = made.fit(data.codes)
    except InvalidArgument:
        return None
    found = compare(data, fitted.model_, workload)
    variation = found.total_variation
    mean = float(np.mean(variation)) if np.isfinite(variation).all() else float("nan")
    return [found.max_error, mean]


class Kept:
    """What was measured, in a file that is whole at any time: stopped, a run goes on from it.

    Other code starts a new file: its numbers could differ.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.code = path, code_key()
        found = _read(path) if path.exists() else {}
        self.cells: dict[str, Numbers] = found["cells"] if found.get("code") == self.code else {}

    def get(self, key: str, measure: Callable[[], Numbers]) -> Numbers:
        """The numbers of a key, measured now if they are not there."""
        if key not in self.cells:
            self.cells[key] = measure()
            text = json.dumps({"code": self.code, "cells": self.cells}, indent=0)
            _files.write(self.path, text)
        return self.cells[key]


def code_key() -> str:
    """A hash of the code that the numbers depend on."""
    root = Path(dpassay.__file__).parent
    parts = ("privacy", "mechanisms", "optim", "synth")
    files = [file for part in parts for file in sorted((root / part).rglob("*.py"))]
    return run_key({}, code=[*files, Path(__file__)])


def _read(path: Path) -> dict[str, Any]:
    """What the file holds; nothing if it is none of ours."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("cells"), dict) else {}
