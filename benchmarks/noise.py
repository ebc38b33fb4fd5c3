"""What a draw of noise costs at each level, beside NumPy and OpenDP in the same run.

Run with ``python -m benchmarks.noise``. Each number is the best of several repetitions of CPU time,
divided by the entries drawn; the whole call of the mechanism is timed, argument checks included.
OpenDP's measurement alone is timed, on 20 000 entries where more are asked for: it takes as long
for each of them. A second table has the time of a selection.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from dpassay.mechanisms import gaussian, laplace, report_noisy_max

SIZES = (1, 1000, 1_000_000)
CANDIDATES = (10, 1000, 100_000)
MOST_OPENDP = 20_000


def run() -> list[dict]:
    """One row per mechanism, level and size: seconds per draw, and how many times NumPy's."""
    return [
        row
        for mechanism in ("laplace", "gaussian")
        for size in SIZES
        for row in _rows(mechanism, size)
    ]


def _rows(mechanism: str, size: int) -> list[dict]:
    peer = _seconds_per_draw(_numpy(mechanism, size), size)
    rows = [{"mechanism": mechanism, "level": "numpy", "size": size, "seconds": peer, "ratio": 1.0}]
    for level, (call, entries) in _levels(mechanism, size).items():
        seconds = _seconds_per_draw(call, entries)
        rows.append(
            {
                "mechanism": mechanism,
                "level": level,
                "size": size,
                "seconds": seconds,
                "ratio": seconds / peer,
            }
        )
    return rows


def _numpy(mechanism: str, size: int) -> Callable[[], object]:
    rng, values = np.random.default_rng(0), np.zeros(size)
    draw = {"laplace": rng.laplace, "gaussian": rng.normal}[mechanism]
    return lambda: values + draw(0.0, 1.0, size)


def _levels(mechanism: str, size: int) -> dict[str, tuple[Callable[[], object], int]]:
    """The calls to time, and how many entries each draws."""
    release, privacy = {
        "laplace": (laplace, {"epsilon": 1.0}),
        "gaussian": (gaussian, {"mu": 1.0}),
    }[mechanism]
    call = partial(release, np.zeros(size), sensitivity=1.0, **privacy)
    levels: dict[str, tuple[Callable[[], object], int]] = {
        "reproducible": (partial(call, rng=np.random.default_rng(0)), size),
        "exact": (call, size),
    }
    peer = _opendp(mechanism, min(size, MOST_OPENDP))
    return levels if peer is None else levels | {"OpenDP": (peer, min(size, MOST_OPENDP))}


def _opendp(mechanism: str, size: int) -> Callable[[], object] | None:
    try:
        from opendp import domains, measurements, metrics
        from opendp.mod import enable_features
    except ImportError:
        return None
    enable_features("contrib")
    vector = domains.vector_domain(domains.atom_domain(T=float, nan=False))
    make, metric = {
        "laplace": (measurements.make_laplace, metrics.l1_distance(T=float)),
        "gaussian": (measurements.make_gaussian, metrics.l2_distance(T=float)),
    }[mechanism]
    return partial(make(vector, metric, 1.0), [0.0] * size)


def selections() -> list[dict]:
    """One row per rule and number of candidates: seconds per choice."""
    return [
        {
            "noise": kind,
            "level": level,
            "candidates": n,
            "seconds": _seconds_per_draw(
                partial(
                    report_noisy_max,
                    np.random.default_rng(1).normal(size=n),
                    sensitivity=1.0,
                    epsilon=1.0,
                    noise=kind,
                    rng=rng,
                ),
                1,
            ),
        }
        for kind in ("gumbel", "exponential", "laplace")
        for n in CANDIDATES
        for level, rng in (("reproducible", np.random.default_rng(0)), ("exact", None))
    ]


def _seconds_per_draw(call: Callable[[], object], size: int, repetitions: int = 5) -> float:
    call()
    # About .1 s of work per repetition, so that the clock's grain does not matter.
    start = time.process_time()
    calls = 0
    while time.process_time() - start < 0.1:
        call()
        calls += 1
    best = np.inf
    for _ in range(repetitions):
        start = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, time.process_time() - start)
    return best / (calls * size)


def main() -> None:
    """Print the tables."""
    print(
        f"{'mechanism':<10} {'size':>8} {'level':<14} {'µs per draw':>12} {'draws per s':>12} "
        f"{'times NumPy':>12}"
    )
    for row in run():
        print(
            f"{row['mechanism']:<10} {row['size']:>8} {row['level']:<14} "
            f"{row['seconds'] * 1e6:>12.4f} {1 / row['seconds']:>12.3g} {row['ratio']:>12.1f}"
        )
    print(f"\n{'selection':<12} {'candidates':>10} {'level':<14} {'µs per choice':>14}")
    for row in selections():
        print(
            f"{row['noise']:<12} {row['candidates']:>10} {row['level']:<14} "
            f"{row['seconds'] * 1e6:>14.1f}"
        )


if __name__ == "__main__":
    main()
