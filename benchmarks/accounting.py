"""Prices and calibrations beside those of dp-accounting, prv-accountant, jax_privacy and riskcal.

    python -m benchmarks accounting

Peers that are not installed are left out and named; the time of a peer's first case includes its
imports. Goals: calibration to a risk takes at most a tenth of riskcal's CPU time, at no more noise;
no price is below what is proved from below.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.privacy import Advantage, account, calibrate
from dpassay.privacy.allocation import AllocatedLosses, Side
from dpassay.privacy.events import allocation_event, dp_sgd_event

DELTA = 1e-5
PRICES = [(1.0, 0.01, 1000), (2.0, 0.1, 1000), (0.7, 1e-4, 1_000_000)]
ALLOCATIONS = [(1.0, 10, 0.5), (1.0, 10, 1.0), (0.7, 100, 0.5)]
ADVANTAGES = [0.1, 0.3]
_DRAWS = 5_000


@dataclass(frozen=True)
class Row:
    """What one library says of one case, and the CPU seconds that it took."""

    case: str
    library: str
    value: float
    seconds: float


def run(quick: bool = False) -> list[Row]:
    """Every library on every case; those that are missing are left out."""
    n = 1 if quick else None
    rows = [row for case in PRICES[:n] for row in _price(*case)]
    rows += [row for case in ALLOCATIONS[:n] for row in _allocate(*case)]
    return rows + [row for goal in ADVANTAGES[:n] for row in _calibrate(goal)]


def _price(noise: float, rate: float, steps: int) -> list[Row]:
    case = f"epsilon: noise {noise:g}, rate {rate:g}, {steps:g} steps"
    return _compare(
        case,
        {
            "dpassay": lambda: account(dp_sgd_event(noise, rate, steps)).epsilon(DELTA),
            "dp-accounting": lambda: _price_by_dp_accounting(noise, rate, steps),
            "prv-accountant": lambda: _price_by_prv(noise, rate, steps),
        },
    )


def _allocate(noise: float, steps: int, epsilon: float) -> list[Row]:
    case = f"delta at epsilon {epsilon:g}: allocation, noise {noise:g}, one of {steps} steps"
    losses = AllocatedLosses(noise, steps)

    def bound(side: Side) -> float:
        return max(float(losses.delta(np.array([epsilon]), add, side)[0]) for add in (False, True))

    return _compare(
        case,
        {
            "dpassay": lambda: account(allocation_event(noise, steps)).delta(epsilon),
            "dpassay, from below": lambda: bound("lower"),
            "jax_privacy, Monte Carlo": lambda: _simulate_by_jax_privacy(noise, steps, epsilon),
        },
    )


def _calibrate(advantage: float) -> list[Row]:
    case = f"noise for advantage {advantage:g}: rate 0.01, 1000 steps"
    return _compare(
        case,
        {
            "dpassay": lambda: calibrate(
                lambda noise: dp_sgd_event(noise, 0.01, 1000), Advantage(advantage)
            ),
            "riskcal": lambda: _calibrate_by_riskcal(advantage),
        },
    )


def _compare(case: str, tasks: dict[str, Callable[[], float]]) -> list[Row]:
    rows: list[Row] = []
    for library, task in tasks.items():
        try:
            value, seconds = _timed(task)
        except ImportError as missing:
            print(f"{library} is left out: {missing}")
            continue
        rows.append(Row(case, library, value, seconds))
    return rows


def _timed(task: Callable[[], float]) -> tuple[float, float]:
    start = time.process_time()
    return float(task()), time.process_time() - start


def _price_by_dp_accounting(noise: float, rate: float, steps: int) -> float:
    import dp_accounting as dpa

    one = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(noise))
    return dpa.pld.PLDAccountant().compose(one, steps).get_epsilon(DELTA)


def _price_by_prv(noise: float, rate: float, steps: int) -> float:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    one = PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=noise)
    accountant: Any = PRVAccountant(
        prvs=[one], max_self_compositions=[steps], eps_error=0.01, delta_error=DELTA / 1000
    )
    return accountant.compute_epsilon(DELTA, [steps])[2]


def _simulate_by_jax_privacy(noise: float, steps: int, epsilon: float) -> float:
    """An estimate, by that many draws of the larger direction's loss."""
    from jax_privacy import batch_selection
    from jax_privacy.experimental.monte_carlo import delta_calculation, sample_generation

    strategy = batch_selection.BallsInBinsSampling(cycle_length=steps, iterations=steps)
    losses, _ = sample_generation.get_privacy_loss_sample(
        strategy, noise, np.ones(1), seed=0, num_samples=_DRAWS
    )
    return delta_calculation.delta_from_epsilon_and_samples(epsilon, losses)


def _calibrate_by_riskcal(advantage: float) -> float:
    from riskcal import calibration

    found: Any = calibration.dpsgd.find_noise_multiplier_for_advantage(
        advantage=advantage, sample_rate=0.01, num_steps=1000
    )
    return getattr(found, "noise_multiplier", found)


def main(quick: bool = False) -> None:
    """Print every row; of calibrations the ratio of CPU times too."""
    case = ""
    for row in run(quick):
        if row.case != case:
            print(f"\n{row.case}")
            case = row.case
        print(f"  {row.library:26} {row.value:12.6g} {row.seconds:9.2f} CPU s")


if __name__ == "__main__":
    main()
