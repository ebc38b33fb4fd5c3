"""The Fourier accountant: how tight and how fast, and whether anything is below the truth.

    python -m benchmarks.fourier            (about ten minutes; --quick under two)

The table has an upper bound, a rigorous lower bound, and the PLD's upper bound. Goals: every row
within 1 % of its lower bound, in less than 0.2 s. The sweep compares random events with what is
known of them: closed forms of one step, Gaussian DP at rates near 1, and the bracket of the lower
bound. Goal: nothing on the wrong side.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import optimize

import dpassay as da
from dpassay.privacy import events, gaussian
from dpassay.privacy.fourier import Fourier, price_gaussians
from dpassay.privacy.profiles import profiles

ROWS = [  # sampling rate, noise multiplier, steps, delta
    (1e-2, 1.0, 10**3, 1e-5),
    (1e-6, 0.5, 10**7, 1e-5),
    (1e-6, 0.5, 10**7, 1e-7),
    (1e-6, 0.5, 10**7, 1e-8),
    (1e-6, 0.5, 10**7, 1e-9),
    (1e-8, 0.5, 10**10, 1e-8),
    (1e-8, 1.0, 10**12, 1e-6),
    (1e-8, 1.0, 10**14, 1e-6),
    (1e-8, 1.0, 10**16, 1e-6),
    (1e-4, 0.7, 10**6, 1e-8),
    (0.1, 2.0, 10**3, 1e-6),
    (0.5, 5.0, 100, 1e-6),
    (0.01, 0.6, 500, 1e-5),
]
_PLD_STEPS = 10**14  # beyond, the PLD takes minutes


@dataclass
class Sweep:
    """Comparisons with one kind of truth: how many, and how many are below it."""

    name: str
    cases: int = 0
    wrong: int = 0

    def add(self, ours: float, truth: float) -> None:
        """Compare an upper bound with what it must not be below."""
        self.cases += 1
        self.wrong += not ours >= truth


def price(rate: float, noise: float, steps: int, delta: float, with_pld: bool) -> dict[str, Any]:
    """One row of the table."""
    event = da.dp_sgd_event(noise, rate, steps)
    curve, seconds = _timed(lambda: da.account(event, "fourier"))
    upper, more = _timed(lambda: curve.epsilon(delta))
    row = {
        "case": f"{rate:g}, {noise:g}, {steps:.0e}, {delta:g}",
        "upper": upper,
        "seconds": seconds + more,
        "lower": epsilon_lower(price_gaussians([(noise, rate, steps)]), upper, delta),
    }
    if with_pld and steps <= _PLD_STEPS:
        row["pld"], row["pld_seconds"] = _timed(lambda: da.account(event, "pld").epsilon(delta))
    return row


def epsilon_lower(curve: Fourier, upper: float, delta: float) -> float:
    """The largest epsilon whose delta is seen to be above the given one; 0 if there is none."""

    def excess(x: float) -> float:
        return curve.delta_lower(x) - delta

    low = upper
    while excess(low) <= 0:
        low *= 0.98
        if low < upper / 2:
            return 0.0
    return cast(float, optimize.bisect(excess, low, upper, xtol=1e-5 * upper))


def sweep(cases: int, seed: int = 0) -> list[Sweep]:
    """Random events against what is known of them."""
    rng = np.random.default_rng(seed)
    found = [Sweep("one step, closed form"), Sweep("rate near 1"), Sweep("lower bound")]
    for _ in range(cases):
        _one_step(rng, found[0])
        _near_one(rng, found[1])
        _bracket(rng, found[2])
    return found


def _one_step(rng: np.random.Generator, found: Sweep) -> None:
    rate, noise = float(10 ** rng.uniform(-8, -0.01)), float(10 ** rng.uniform(-1, 2))
    sides = profiles(events.Sampled(events.Gaussian(noise), rate))
    epsilons = 10 ** rng.uniform(-3, 0.3, 4) * min(rate * math.expm1(1 / noise**2) + rate, 5.0)
    curve = price_gaussians([(noise, rate, 1)])
    for direction, profile in zip(curve.directions, sides, strict=True):
        for ours, truth in zip(direction.delta(epsilons), profile(epsilons), strict=True):
            if truth > 1e-30:
                found.add(ours, float(truth) * (1 - 1e-11))  # the closed form is rounded, too


def _near_one(rng: np.random.Generator, found: Sweep) -> None:
    mu, steps = float(10 ** rng.uniform(-3, 0.7)), int(10 ** rng.uniform(2, 12))
    curve = price_gaussians([(math.sqrt(steps) / mu, 1 - 1e-15, steps)])
    for delta in 10 ** rng.uniform(-25, -1, 2):
        truth = float(gaussian.epsilon_of(delta, mu))
        if truth > 1e-6:
            found.add(curve.epsilon(delta), truth * (1 - 1e-11))


def _bracket(rng: np.random.Generator, found: Sweep) -> None:
    """Steps whose whole deviation is about 0.01 to 3, so that there is something to see."""
    rate, noise = float(10 ** rng.uniform(-9, -0.3)), float(10 ** rng.uniform(-0.4, 1.5))
    one = rate * math.sqrt(math.expm1(min(noise**-2, 30.0)))
    steps = int(np.clip((10 ** rng.uniform(-2, 0.5) / one) ** 2, 100, 1e17))
    curve = price_gaussians([(noise, rate, steps)])
    delta = float(10 ** rng.uniform(-10, -2))
    epsilon = curve.epsilon(delta)
    if 1e-6 < epsilon < math.inf:
        lower = curve.delta_lower(0.98 * epsilon)
        if lower > 0:
            found.add(float(curve.delta(0.98 * epsilon)), lower)


def _timed(task: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    value = task()
    return value, time.process_time() - start


def run(quick: bool = False) -> dict[str, Any]:
    """The table and the sweep."""
    rows = [price(*row, with_pld=not quick) for row in (ROWS[::4] if quick else ROWS)]
    return {"rows": rows, "sweep": sweep(10 if quick else 150)}


def main(quick: bool = False) -> None:
    """Print both."""
    found = run(quick)
    print(
        f"{'rate, noise, steps, delta':>28} {'upper':>10} {'lower':>10} {'over':>7} {'cpu s':>6}",
        end="",
    )
    print(f" {'pld':>10} {'cpu s':>6}")
    for row in found["rows"]:
        over = row["upper"] / row["lower"] - 1 if row["lower"] else math.inf
        print(
            f"{row['case']:>28} {row['upper']:10.6g} {row['lower']:10.6g} {over:7.2%} "
            f"{row['seconds']:6.3f} {row.get('pld', math.nan):10.6g} "
            f"{row.get('pld_seconds', math.nan):6.1f}"
        )
    for part in found["sweep"]:
        print(f"{part.name}: {part.cases} compared, {part.wrong} below the truth")


if __name__ == "__main__":
    main("--quick" in sys.argv)
