"""What testing a whole curve is worth, and what betting adds: pairs of trainings to refute a claim.

Run with ``python -m benchmarks.power`` (about ten minutes of one core; ``--quick``: one minute).
A Gaussian mechanism of a true epsilon claims a smaller one (delta = 1e-5). Each column is the
number of pairs at which four of five audits refute it at level 0.05:

- one point: Clopper-Pearson at the threshold that is best for this very mechanism, which a real
  audit would not know, against the pair (epsilon, delta) alone;
- curve: :func:`dpassay.bounds.check_claim`, by simulation;
- sequential: :class:`dpassay.bounds.SequentialTest` on pairs, by simulation.
"""

import sys
from collections.abc import Callable

import numpy as np
from scipy import special

from benchmarks.sequential import DELTA, mu, normal, stopping_rounds
from dpassay.bounds import check_claim, lower_bound_from_counts
from dpassay.bounds.sequential import SequentialTest
from dpassay.privacy import GDP

CASES = ((4.0, 2.0), (8.0, 4.0), (4.0, 1.0), (2.0, 1.0))
POWER, CONFIDENCE = 0.8, 0.95


def smallest(power: Callable[[int], float], most: int = 200_000) -> int:
    """The smallest number of pairs, to 2 %, at which the power is reached."""
    high = 8
    while power(high) < POWER:
        high *= 2
        if high > most:
            raise RuntimeError(f"no power with {most} pairs")
    low = high // 2
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def by_point(true: float, claimed: float, audits: int) -> int:
    """Clopper-Pearson with the best of many thresholds, each at its own power."""
    shift = mu(true)
    thresholds = np.linspace(shift / 2, shift / 2 + 4.5, 19)
    rng = np.random.default_rng(0)
    uniforms = rng.random((2, audits))

    def power(n: int) -> float:
        return max(refuted(n, t) for t in thresholds)

    def refuted(n: int, threshold: float) -> float:
        rates = special.ndtr(-threshold), special.ndtr(threshold - shift)
        fp, fn = (_counts(u, n, rate) for u, rate in zip(uniforms, rates, strict=True))
        found = {pair: _refutes(*pair, n, claimed) for pair in set(zip(fp, fn, strict=True))}
        return float(np.mean([found[pair] for pair in zip(fp, fn, strict=True)]))

    return smallest(power)


def _counts(uniforms: np.ndarray, n: int, rate: float) -> list[int]:
    from scipy import stats

    return stats.binom.ppf(uniforms, n, rate).astype(int).tolist()


def _refutes(fp: int, fn: int, n: int, claimed: float) -> bool:
    bound = lower_bound_from_counts(
        tp=n - fn, fn=fn, fp=fp, tn=n - fp, delta=DELTA, confidence=CONFIDENCE
    )
    return bound.epsilon > claimed


def by_curve(true: float, claimed: float, audits: int) -> int:
    """The whole curve with the exact band."""
    rng = np.random.default_rng(1)
    inside = rng.normal(mu(true), 1, (audits, 4096))
    outside = rng.normal(0, 1, (audits, 4096))
    claim = GDP(mu(claimed))

    def power(n: int) -> float:
        checks = (
            check_claim(claim, a[:n], b[:n], confidence=CONFIDENCE)
            for a, b in zip(inside, outside, strict=True)
        )
        return float(np.mean([check.refuted for check in checks]))

    return smallest(power, most=4096)


def by_betting(true: float, claimed: float, audits: int) -> float:
    """The 80 % quantile of the pairs that the sequential test takes."""
    fresh = SequentialTest(GDP(mu(claimed)), confidence=CONFIDENCE, form="pairs")
    score = normal(mu(true))
    rounds = [stopping_rounds(fresh, score, "pairs", 4000, seed)[0] for seed in range(audits)]
    return float(np.quantile(rounds, POWER, method="inverted_cdf"))


def main(quick: bool = False) -> None:
    audits = 40 if quick else 200
    print(f"Pairs for {POWER:.0%} power at confidence {CONFIDENCE}, {audits} audits per number")
    print(f"{'true / claimed epsilon':<24}{'one point':>12}{'curve':>12}{'sequential':>12}")
    for true, claimed in CASES:
        row = [method(true, claimed, audits) for method in (by_point, by_curve, by_betting)]
        print(f"{true:g} against {claimed:g}".ljust(24) + "".join(f"{x:>12.0f}" for x in row))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
