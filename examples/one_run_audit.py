"""Audit one run with many canaries: a noisy sum of vectors that claims (epsilon, 1e-5)-DP.

Every canary is put in by a fair coin of its own; its score is its inner product with the output.
Run it with ``python examples/one_run_audit.py``.
"""

import numpy as np

import dpassay as da
from dpassay.privacy import gaussian_noise_multiplier

DELTA = 1e-5
CANARIES, DIMENSION = 500, 4000


def play(epsilon: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One run: the scores of the canaries and the coins that put them in."""
    canaries = rng.normal(size=(CANARIES, DIMENSION))
    canaries /= np.linalg.norm(canaries, axis=1, keepdims=True)
    coins = rng.integers(2, size=CANARIES) == 1
    noise = rng.normal(0.0, gaussian_noise_multiplier(epsilon, DELTA), DIMENSION)
    output = canaries[coins].sum(axis=0) + noise
    return canaries @ output, coins


def main() -> None:
    for epsilon in (2.0, 8.0, 32.0):
        scores, coins = play(epsilon, np.random.default_rng(1))
        print(f"claimed ({epsilon:g}, {DELTA:g}):")
        for method in ("steinke", "fdp"):
            print(f"  {da.one_run(scores, coins, delta=DELTA, method=method)}")


if __name__ == "__main__":
    main()
