"""How often each bound exceeds the truth, and how close to it the bounds come.

Run with ``python -m benchmarks.coverage_two_world`` (20 minutes; ``--quick``: one). Scores
are drawn from pairs whose epsilon is known: Gaussians with that epsilon at delta = 1e-5, and
two-sided geometric noise, discrete and with ties, where every threshold above 1 attains the pure
epsilon. N scores are N/2 of each world. All rules see the same scores; seeds are fixed.

A rule marked "unpaid" takes the best threshold of the very scores that it then counts, as many
papers do.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay._special.quantiles import binomial_upper
from dpassay.bounds import lower_bound
from dpassay.bounds.counts import (
    METHODS,
    Counts,
    epsilon_of_rates,
    evaluate,
    mu_of_rates,
)
from dpassay.bounds.scores import RULES, sort_scores
from dpassay.privacy import gaussian
from dpassay.types import FloatArray

ALPHA = 0.05
EPSILONS = (0.0, 0.5, 1.0, 3.0)
REPEATS = {100: 400, 1000: 300, 10_000: 100}
QUICK = {100: 60, 1000: 20}
BY_BAND = ("clopper-pearson", "gdp")
# jax_privacy, same sizes, one draw each: (mu, N) -> Clopper-Pearson, from_gdp.
PEER = {(1.0, 1000): (0.949, 2.683), (1.0, 10_000): (2.022, 3.918)}
PEER |= {(3.0, 1000): (3.347, 13.602), (3.0, 10_000): (5.200, 15.519)}


def gaussian_pair(
    rng: np.random.Generator, epsilon: float, n: int
) -> tuple[FloatArray, FloatArray]:
    mu = float(gaussian.mu_of(np.float64(epsilon), np.float64(1e-5))) if epsilon else 0.0
    return rng.normal(mu, 1, n), rng.normal(0, 1, n)


def geometric_pair(
    rng: np.random.Generator, epsilon: float, n: int
) -> tuple[FloatArray, FloatArray]:
    if epsilon == 0:
        return rng.integers(9, size=n) + 0.0, rng.integers(9, size=n) + 0.0
    draws = rng.geometric(-np.expm1(-epsilon), size=(4, n))
    return draws[0] - draws[1] + 1.0, draws[2] - draws[3] + 0.0


PAIRS = {"gaussian": (gaussian_pair, 1e-5), "geometric": (geometric_pair, 0.0)}


def unpaid(x: FloatArray, y: FloatArray, method: str, delta: float) -> float:
    """The mutant: the best threshold of these scores, as if it had been fixed in advance."""
    scores = sort_scores(x, y)
    n_in, n_out = scores.sizes
    cuts = np.concatenate([scores.inside, np.nextafter(scores.outside, np.inf)])
    fp, fn = scores.counts(cuts)
    limits = binomial_upper(fp, n_out, ALPHA / 2), binomial_upper(fn, n_in, ALPHA / 2)
    value = mu_of_rates(*limits) if method == "gdp" else epsilon_of_rates(*limits, delta)
    best = int(np.argmax(value))
    counts = Counts(n_in - fn[best], fn[best], fp[best], n_out - fp[best])
    return evaluate(method, counts, delta, ALPHA)[0]


def rules(method: str, pair: str) -> list[Any]:
    """Every rule that the method goes with; the Gaussian method is for Gaussian scores."""
    if method == "gdp" and pair != "gaussian":
        return []
    named = [rule for rule in RULES if rule != "auto"]
    unpaid_too = ["unpaid"] if method in BY_BAND else []
    return [*(named if method in BY_BAND else ("split", "kfold")), 0.5, *unpaid_too]


def coverage(quick: bool = False) -> list[dict[str, Any]]:
    """One row per pair, true epsilon, N, method and rule: how often the bound was too large."""
    rows = []
    for index, pair in enumerate(PAIRS):
        for epsilon in EPSILONS:
            for n, repeats in (QUICK if quick else REPEATS).items():
                rng = np.random.default_rng([index, int(10 * epsilon), n])
                rows += _coverage(pair, epsilon, n, repeats, rng)
    return rows


def _coverage(
    pair: str, epsilon: float, n: int, repeats: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    draw, delta = PAIRS[pair]
    wrong = {(m, rule): 0 for m in METHODS for rule in rules(m, pair)}
    for _ in range(repeats):
        x, y = draw(rng, epsilon, n // 2)
        seed = int(rng.integers(2**31))
        for method, rule in wrong:
            found = _bound(x, y, method, rule, delta, seed)
            wrong[method, rule] += found > epsilon + 1e-9
    about = {"pair": pair, "epsilon": epsilon, "scores": n, "repeats": repeats}
    return [
        about | {"method": method, "rule": rule, "wrong": k} | _rate(k, repeats)
        for (method, rule), k in wrong.items()
    ]


def _bound(x: FloatArray, y: FloatArray, method: str, rule: Any, delta: float, seed: int) -> float:
    if rule == "unpaid":
        return unpaid(x, y, method, delta)
    return lower_bound(x, y, delta=delta, method=method, threshold=rule, rng=seed).epsilon


def _rate(k: int, n: int) -> dict[str, float]:
    """The rate with its 95 % Clopper-Pearson interval."""
    low, high = 1 - binomial_upper(n - k, n, 0.025), binomial_upper(k, n, 0.025)
    return {"rate": k / n, "rate_lower": float(low), "rate_upper": float(high)}


def tightness(quick: bool = False) -> list[dict[str, Any]]:
    """Mean bounds on Gaussian scores beside jax_privacy's, and the truth, at delta = 1e-5."""
    rows = []
    for (mu, n), peers in PEER.items():
        rng = np.random.default_rng([int(mu), n])
        draws = [
            (rng.normal(mu, 1, n // 2), rng.normal(0, 1, n // 2)) for _ in range(5 if quick else 40)
        ]
        truth = float(gaussian.epsilon_of(np.float64(1e-5), np.float64(mu)))
        for method, peer in zip(BY_BAND, peers, strict=True):
            for rule in rules(method, "gaussian")[:5]:
                mean = _mean(lambda x, y, m=method, r=rule: _bound(x, y, m, r, 1e-5, 0), draws)
                row = {"mu": mu, "scores": n, "method": method, "rule": rule, "mean": mean}
                rows.append(row | {"share": mean / truth, "truth": truth, "peer": peer})
    return rows


def _mean(bound: Callable[[FloatArray, FloatArray], float], draws: list[Any]) -> float:
    return float(np.mean([bound(x, y) for x, y in draws]))


def run(quick: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Both tables."""
    return {"coverage": coverage(quick), "tightness": tightness(quick)}


def main() -> None:
    found = run(quick="--quick" in sys.argv)
    for row in found["coverage"]:
        print(
            f"{row['pair']:9s} epsilon {row['epsilon']:g} N {row['scores']:6d} {row['method']:15s} "
            f"{row['rule']!s:10s} wrong {row['wrong']:3d} of {row['repeats']} = {row['rate']:.3f} "
            f"[{row['rate_lower']:.3f}, {row['rate_upper']:.3f}]"
            f"{' ABOVE NOMINAL' if row['rate_lower'] > ALPHA else ''}"
        )
    for row in found["tightness"]:
        print(
            f"mu {row['mu']:g} N {row['scores']:6d} {row['method']:15s} {row['rule']:10s} "
            f"mean {row['mean']:.3f} = {row['share']:.2f} of {row['truth']:.3f}, peer {row['peer']}"
        )


if __name__ == "__main__":
    main()
