"""Every limit against mpmath: what fell on the wrong side (nothing), and the largest looseness.

Run with ``python -m benchmarks.sweep_inverses`` (``--quick``: one number of trials in fifty). The
limits of :mod:`dpassay._special.quantiles` are computed for every number of trials up to 40 000,
with counts at both edges, in the middle, at random and where SciPy's inverses were found to be
wrong, and for random counts of up to a billion trials. Confidences lie between .5 and 1 - 1e-12.
mpmath computes the tail at each limit with 30 digits. A limit is on the wrong side if that tail is
above the level; its looseness is the share of the level by which the tail is below it. (Where the
next float would be too close to the level, a limit cannot be tighter: its looseness is 0.)
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np
from scipy import special
from tests.beta_reference import tails

from dpassay._special.quantiles import binomial_lower, binomial_upper, log_odds_lower
from dpassay.types import FloatArray

FAULTY = 999  # errors: SciPy 1.17 switches between two expansions at shapes of 1000
TIGHT = 1e-7


def _upper_tail(k: int, n: int, x: float) -> Any:
    return tails(k + 1, n - k, x)[1]


def _lower_tail(k: int, n: int, x: float) -> Any:
    return tails(k, n - k + 1, x)[0]


@dataclass
class Sweep:
    """What was found for one kind of limit."""

    name: str
    limit: Callable[..., FloatArray]
    library: Callable[..., FloatArray]
    tail: Callable[[int, int, float], Any]
    towards: float  # where limits become tighter
    distance: Callable[[float, float], float]
    cases: int = 0
    wrong: list[tuple[int, int, float]] = field(default_factory=list)
    loosest: float = 0.0
    library_wrong: int = 0
    library_worst: float = 0.0

    def run(self, k: FloatArray, n: FloatArray, level: FloatArray) -> None:
        """Compare a batch; the library's own inverse is compared at a margin of TIGHT."""
        found, plain = self.limit(k, n, level), self.library(k, n, level)
        for row in zip(k.tolist(), n.tolist(), level.tolist(), found, plain, strict=True):
            self._compare(int(row[0]), int(row[1]), row[2], float(row[3]), float(row[4]))

    def _compare(self, k: int, n: int, level: float, x: float, plain: float) -> None:
        tail = self.tail(k, n, x)
        self.cases += 1
        if tail > level:
            self.wrong.append((k, n, level))
        looseness = float(1 - tail / level)
        if looseness > TIGHT:
            closer = self.tail(k, n, float(np.nextafter(x, self.towards)))
            looseness = 0.0 if closer > level * (1 - TIGHT) else looseness
        self.loosest = max(self.loosest, looseness)
        # Ours is right to TIGHT, so that the library's need not be put into mpmath as well.
        off = self.distance(plain, x)
        self.library_wrong += off > 1e-6
        self.library_worst = max(self.library_worst, off)

    def __str__(self) -> str:
        return (
            f"{self.name:<12} {self.cases:>7} limits   wrong side {len(self.wrong)}   loosest "
            f"{self.loosest:.1e} of the level   SciPy off by more than 1e-6: {self.library_wrong} "
            f"(worst {self.library_worst:.2g})"
        )


def _scipy_upper(k: FloatArray, n: FloatArray, level: FloatArray) -> FloatArray:
    return special.betainccinv(k + 1, n - k, level)


def _scipy_lower(k: FloatArray, n: FloatArray, level: FloatArray) -> FloatArray:
    return special.betaincinv(k, n - k + 1, level)


def _odds(k: FloatArray, n: FloatArray, level: FloatArray) -> FloatArray:
    return log_odds_lower(n - k, k, level)


def _scipy_odds(k: FloatArray, n: FloatArray, level: FloatArray) -> FloatArray:
    return -special.logit(_scipy_upper(k, n, level))


def _odds_tail(k: int, n: int, odds: float) -> Any:
    return _upper_tail(k, n, 1 / (1 + mpmath.exp(odds)))


def _ratio(x: float, y: float) -> float:
    return abs(x - y) / min(y, 1 - y) if 0 < y < 1 else 0.0


def _difference(x: float, y: float) -> float:
    return abs(x - y)


def sweeps() -> list[Sweep]:
    """The three kinds of limits."""
    return [
        Sweep("upper limit", binomial_upper, _scipy_upper, _upper_tail, 0.0, _ratio),
        Sweep("lower limit", binomial_lower, _scipy_lower, _lower_tail, 1.0, _ratio),
        Sweep("log odds", _odds, _scipy_odds, _odds_tail, np.inf, _difference),
    ]


def counts_of_all(most: int, step: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Every number of trials with two counts each: all kinds of counts take turns."""
    n = np.repeat(np.arange(1, most + 1, step, dtype=float), 2)
    turn = np.arange(n.size) // 2 * 2 % 8 + np.arange(n.size) % 2
    choices = [0 * n, n - 1, n // 2, FAULTY + 0 * n, 1 + 0 * n, n - 2, n - FAULTY - 1]
    k = np.choose(turn, [*choices, np.floor(n * rng.random(n.size))])
    return np.clip(k, 0, n - 1), n


def counts_at_random(cases: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Numbers of trials up to a billion, even in the logarithm; counts near both edges and not."""
    n = np.floor(10 ** rng.uniform(0, 9, cases)) + 1
    near = np.floor(n ** rng.random(cases)) - 1
    k = np.choose(rng.integers(0, 3, cases), [near, n - 1 - near, np.floor(n * rng.random(cases))])
    return np.clip(k, 0, n - 1), n


def levels(cases: int, rng: np.random.Generator) -> FloatArray:
    """One minus confidences of .5 to 1 - 1e-12, even in the logarithm."""
    return 10 ** rng.uniform(-12, np.log10(0.5), cases)


def run(quick: bool = False) -> list[str]:
    """One line for each kind of limit and each range."""
    rng, lines = np.random.default_rng(0), []
    for name, (k, n) in {
        "all n to 40 000": counts_of_all(40_000, 50 if quick else 1, rng),
        "random n to 1e9": counts_at_random(200 if quick else 10_000, rng),
    }.items():
        level = levels(n.size, rng)
        lines.append(name)
        for part, sweep in enumerate(sweeps()):
            mine = np.arange(n.size) % 3 == part if name.startswith("random") else n % 3 == part
            mirrored = n - k if sweep.name == "lower limit" else k
            sweep.run(mirrored[mine], n[mine], level[mine])
            lines.append(f"  {sweep}")
            lines += [f"    wrong: {case}" for case in sweep.wrong[:5]]
    return lines


def main(quick: bool = False) -> None:
    """Print the table."""
    start = time.process_time()
    for line in run(quick):
        print(line, flush=True)
    print(f"{time.process_time() - start:.0f} s of CPU time")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
