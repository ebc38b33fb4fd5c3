"""Calibrating DP-SGD: ours beside dp_accounting.calibrate_dp_mechanism, in the same run.

    python -m benchmarks.calibration

Goal: at least 5 times less CPU on each case, noise within 1e-4 of the peer's, and never above the
target by our own accountant at full precision.
"""

import time
from collections.abc import Callable
from typing import Any

import dpassay as da

CASES = [(2.0, 0.01, 1000), (8.0, 0.004, 15_000), (8.0, 0.1, 100_000)]
DELTA = 1e-5


def run(quick: bool = False) -> list[dict[str, Any]]:
    """One row per case: the two noise multipliers, their CPU seconds and the ratio."""
    return [_compare(*case) for case in (CASES[:1] if quick else CASES)]


def _compare(epsilon: float, q: float, steps: int) -> dict[str, Any]:
    def event(sigma: float) -> Any:
        return da.dp_sgd_event(sigma, q, steps)

    da.account(event(2.0), "rdp")  # imports are not part of the comparison
    ours, our_seconds = _timed(lambda: da.calibrate(event, da.ApproxDP(epsilon, DELTA)))
    theirs, their_seconds = _timed(lambda: _peer(epsilon, q, steps))
    price = da.account(event(ours)).epsilon(DELTA)
    return {
        "epsilon": epsilon,
        "sampling_rate": q,
        "steps": steps,
        "noise_multiplier": ours,
        "peer_noise_multiplier": theirs,
        "relative_difference": ours / theirs - 1,
        "price_over_target": price / epsilon,
        "cpu_seconds": our_seconds,
        "peer_cpu_seconds": their_seconds,
        "ratio": their_seconds / our_seconds,
    }


def _peer(epsilon: float, q: float, steps: int) -> float:
    import dp_accounting as dpa

    def event(sigma: float) -> Any:
        return dpa.SelfComposedDpEvent(
            dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(sigma)), steps
        )

    return dpa.calibrate_dp_mechanism(dpa.pld.PLDAccountant, event, epsilon, DELTA)


def _timed(task: Callable[[], float]) -> tuple[float, float]:
    start = time.process_time()
    value = task()
    return value, time.process_time() - start


def main(quick: bool = False) -> None:
    """Print the table."""
    print(f"{'case':>22} {'ours':>10} {'peer':>10} {'diff':>9} {'cpu s':>7} {'peer s':>7} ratio")
    for row in run(quick):
        case = f"{row['epsilon']:g}, {row['sampling_rate']:g}, {row['steps']}"
        print(
            f"{case:>22} {row['noise_multiplier']:10.6f} {row['peer_noise_multiplier']:10.6f} "
            f"{row['relative_difference']:9.1e} {row['cpu_seconds']:7.2f} "
            f"{row['peer_cpu_seconds']:7.2f} {row['ratio']:5.1f}"
        )


if __name__ == "__main__":
    main()
