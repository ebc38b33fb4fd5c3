"""How close the audits of DP-SGD come: many trainings, few trainings, and how soon a bug is found.

Run with ``python -m benchmarks.tightness`` (a few minutes; ``--quick``: one). delta = 1e-5,
confidence 0.95; the first two tables draw scores from the law that an adversary of gradients sees
exactly, so they show the statistics and not the attack. Each row has its goal beside it.

- many trainings: full batches, epsilon = 4, one score for each training;
- few trainings: ten of 2400 steps at q = 250/60000, a coin for each step, per-step observations;
- detection: trainings that refute the batch-size bug at 1 - 1e-6, by ``dpassay.audit``.
"""

import sys

import numpy as np

from dpassay.bounds import (
    check_claim,
    lower_bound,
    lower_bound_from_steps,
    lower_bound_gaussian_location,
    lower_bound_pooled,
)
from dpassay.bounds.sequential import SequentialTest
from dpassay.privacy import GDP, ApproxDP, calibrate, dp_sgd_event, gaussian
from dpassay.reproduce.debugging import detection

DELTA = 1e-5
MANY = {1000: 3.0, 5000: 3.5, 20_000: 3.7}
STEPS, RATE, TRAININGS = 2400, 250 / 60_000, 10
BOUNDS = {
    "gdp, band": lambda x, y: lower_bound(x, y, delta=DELTA, method="gdp"),
    "gdp, pooled, split": lambda x, y: lower_bound_pooled(x, y, delta=DELTA),
    "location, sigma known": lambda x, y: lower_bound_gaussian_location(
        x, y, delta=DELTA, sigma=1.0
    ),
    "location, sigma unknown": lambda x, y: lower_bound_gaussian_location(x, y, delta=DELTA),
    "clopper-pearson, band": lambda x, y: lower_bound(x, y, delta=DELTA),
}


def many(repeats: int) -> None:
    """Bounds on epsilon = 4 from whole trainings."""
    mu = float(gaussian.mu_of(4.0, DELTA))
    print(f"many trainings, true epsilon 4 ({repeats} repeats; goals 3.0, 3.5, 3.7 with a paid-for")
    print("threshold, 3.5 at 1000 with sigma known)")
    for n, goal in MANY.items():
        rng = np.random.default_rng(n)
        pairs = [(rng.normal(mu, 1, n), rng.normal(0, 1, n)) for _ in range(repeats)]
        for name, bound in BOUNDS.items():
            found = [bound(*pair) for pair in pairs]
            values = [b.epsilon for b in found]
            print(
                f"  {n:6d} per world  {name:24s} mean {np.mean(values):.3f}  lowest "
                f"{min(values):.3f}  above 4: {sum(v > 4 for v in values)}  goal {goal}  ceiling "
                f"{found[0].ceiling:.2f}  assumes: {found[0].assumption}"
            )
    _against_three(mu)


def _against_three(mu: float) -> None:
    """The whole-curve tests of the claim epsilon = 3."""
    claim = GDP(float(gaussian.mu_of(3.0, DELTA)))
    after = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        worlds = rng.integers(0, 2, 4000)
        test = SequentialTest(claim)
        test.update(worlds, mu * worlds + rng.normal(size=4000))
        after.append(test.refuted_at or np.inf)
    rng = np.random.default_rng(0)
    whole = check_claim(claim, rng.normal(mu, 1, 1000), rng.normal(0, 1, 1000))
    print(
        f"  claim epsilon = 3: the sequential test refutes after {np.median(after):.0f} trainings"
    )
    print(f"  (median of 10); the whole curve at 1000 per world: {whole}")


def few(repeats: int) -> None:
    """Shares of epsilon from single steps."""
    n = STEPS * TRAININGS
    print(
        f"few trainings: {TRAININGS} of {STEPS} steps (goals: 0.90 by threshold, 0.95 by location)"
    )
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        sigma = calibrate(lambda s: dp_sgd_event(s, RATE, STEPS), target=ApproxDP(epsilon, DELTA))
        shares: dict[str, list[float]] = {}
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            coins = rng.random(n) < 0.5
            seen = coins + sigma * rng.normal(size=n)
            for name, options in {
                "threshold, half the norm": {"threshold": 0.5},
                "threshold, split": {},
                "location, sigma known": {"estimator": "location", "sigma": sigma},
                "location, sigma unknown": {"estimator": "location"},
            }.items():
                bound = lower_bound_from_steps(
                    seen[coins],
                    seen[~coins],
                    sampling_rate=RATE,
                    steps=STEPS,
                    delta=DELTA,
                    **options,  # type: ignore[arg-type]
                )
                shares.setdefault(name, []).append(bound.epsilon / epsilon)
        for name, values in shares.items():
            print(
                f"  epsilon {epsilon:g}  noise multiplier {sigma:.4f}  {name:26s} share "
                f"{np.mean(values):.3f}  lowest {min(values):.3f}"
            )


def detected(seeds: int) -> None:
    """Trainings to the verdict, by seed."""
    found = [detection(seed) for seed in range(seeds)]
    print(f"detection of the batch-size bug at 1 - 1e-6: median {np.median(found):g} trainings")
    print(f"  (goal 34, limit of any attack 23): {sorted(found)}")


def main(quick: bool = False) -> None:
    detected(20)
    many(5 if quick else 40)
    few(1 if quick else 10)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
