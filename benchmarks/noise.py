"""What a draw of noise costs at each level, as a ratio to NumPy's generator in the same run.

Run with ``python -m benchmarks.noise``. Each number is the best of several repetitions of CPU time,
divided by the entries drawn; the whole call of the mechanism is timed, argument checks included.
"""

import time
from collections.abc import Callable

import numpy as np

from dpassay.mechanisms import gaussian, laplace, noise

SIZES = (1, 1000, 1_000_000)


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
    for level, call in _levels(mechanism, size).items():
        seconds = _seconds_per_draw(call, size)
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


def _levels(mechanism: str, size: int) -> dict[str, Callable[[], object]]:
    """The calls to time; exact noise only up to the size that gets it."""
    release, privacy = {
        "laplace": (laplace, {"epsilon": 1.0}),
        "gaussian": (gaussian, {"mu": 1.0}),
    }[mechanism]
    values = np.zeros(size)
    rngs = {"reproducible": np.random.default_rng(0), "cryptographic": noise.secure_generator()}
    if size <= noise.EXACT_LIMIT:
        rngs["exact"] = None
    return {
        level: lambda rng=rng: release(values, sensitivity=1.0, rng=rng, **privacy)
        for level, rng in rngs.items()
    }


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
    """Print the table."""
    print(f"{'mechanism':<10} {'size':>8} {'level':<14} {'µs per draw':>12} {'times NumPy':>12}")
    for row in run():
        print(
            f"{row['mechanism']:<10} {row['size']:>8} {row['level']:<14} "
            f"{row['seconds'] * 1e6:>12.4f} {row['ratio']:>12.1f}"
        )


if __name__ == "__main__":
    main()
