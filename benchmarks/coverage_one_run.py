"""How often each one-run bound exceeds the truth (nominal 5 %), and where it lies on average.

Run with ``python -m benchmarks.coverage_one_run`` (ten minutes; ``--quick``: one).
Algorithms whose epsilon is known: randomized response, which is the worst that pure DP allows; the
same with each coin told outright with probability delta; Gaussian scores. Coins are fair and all
rules see the same draws. "naive" is there to be caught.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from dpassay.bounds import one_run
from dpassay.privacy import gaussian
from dpassay_reproduce.printed.one_run import naive_one_run

LEVEL = 0.05
EPSILONS = (0.0, 0.5, 1.0, 3.0)
REPEATS = {100: 200, 1000: 60, 10_000: 15}
QUICK = {100: 40, 1000: 10}
RULES: dict[str, tuple[Any, ...]] = {
    "steinke": ("uniform", "split", "grid", "bonferroni", 0.4),
    "exact": ("split", "grid", "bonferroni", 0.4),
    "hoeffding": ("split", "grid", 0.4),
    "betting": ("auto",),
    "fdp": ("grid", 0.4),
    "naive": ("auto",),
}
Draw = Callable[[np.random.Generator, int, float, float], tuple[Any, Any]]


def randomized_response(
    rng: np.random.Generator, canaries: int, epsilon: float, delta: float
) -> tuple[Any, Any]:
    """Each coin told truly with probability e^epsilon / (1 + e^epsilon), outright with delta."""
    members = rng.random(canaries) < 0.5
    told = np.where(rng.random(canaries) < special.expit(epsilon), members, ~members)
    scores = np.where(told, 1, -1) * rng.random(canaries)
    outright = rng.random(canaries) < delta
    return np.where(outright, np.where(members, 2, -2) + scores, scores), members


def gaussian_scores(
    rng: np.random.Generator, canaries: int, epsilon: float, delta: float
) -> tuple[Any, Any]:
    """N(mu, 1) against N(0, 1), with mu for this epsilon at delta."""
    mu = float(gaussian.mu_of(np.float64(epsilon), np.float64(delta)))
    members = rng.random(canaries) < 0.5
    return rng.normal(size=canaries) + mu * members, members


SUBJECTS: dict[str, tuple[Draw, float]] = {
    "randomized response": (randomized_response, 0.0),
    "the same, leaking": (randomized_response, 1e-3),
    "Gaussian": (gaussian_scores, 1e-3),
}


def combinations(subject: str, delta: float) -> list[tuple[str, Any]]:
    """Methods and rules that claim to be valid there; Gaussian trade-offs for Gaussian scores."""
    return [
        (method, rule)
        for method, rules in RULES.items()
        for rule in rules
        if method != "fdp" or subject == "Gaussian"
    ]


def run(quick: bool = False) -> list[dict[str, Any]]:
    """One row per algorithm, true epsilon, number of canaries, method and rule."""
    return list(rows(quick))


def rows(quick: bool = False) -> Iterator[dict[str, Any]]:
    """The same, as they come."""
    for index, (subject, (draw, delta)) in enumerate(SUBJECTS.items()):
        for epsilon in EPSILONS:
            for canaries, repeats in (QUICK if quick else REPEATS).items():
                rng = np.random.default_rng([index, int(10 * epsilon), canaries])
                draws = [draw(rng, canaries, epsilon, delta) for _ in range(repeats)]
                about = {"subject": subject, "epsilon": epsilon, "delta": delta}
                for method, rule in combinations(subject, delta):
                    found = _bounds(draws, method, rule, delta, canaries)
                    row = about | {"canaries": canaries, "method": method, "rule": rule}
                    yield row | _rate(found, epsilon)


def _bounds(draws: list[Any], method: str, rule: Any, delta: float, canaries: int) -> Any:
    guesses = round(rule * canaries) if isinstance(rule, float) else rule
    bound = partial(one_run, method=method, guesses=guesses)
    if method == "naive":
        bound = naive_one_run
    found = [bound(*draw, delta=delta, rng=seed).epsilon for seed, draw in enumerate(draws)]
    return np.array(found)


def _rate(found: Any, epsilon: float) -> dict[str, float]:
    """How often the bound was wrong, with its 95 % Clopper-Pearson interval, and its mean."""
    n, k = found.size, int(np.sum(found > epsilon + 1e-9))
    low = float(special.betaincinv(k, n - k + 1, 0.025)) if k else 0.0
    high = float(special.betaincinv(k + 1, n - k, 0.975)) if k < n else 1.0
    return {
        "repeats": n,
        "wrong": k,
        "rate": k / n,
        "rate_lower": low,
        "rate_upper": high,
        "mean": float(np.mean(found)),
    }


def main(quick: bool = False) -> None:
    for row in rows(quick):
        caught = " ABOVE NOMINAL" if row["rate_lower"] > LEVEL else ""
        print(
            f"{row['subject']:20s} epsilon {row['epsilon']:g} m {row['canaries']:6d} "
            f"{row['method']:9s} {row['rule']!s:10s} wrong {row['wrong']:3d} of {row['repeats']} = "
            f"{row['rate']:.3f} [{row['rate_lower']:.3f}, {row['rate_upper']:.3f}], "
            f"mean bound {row['mean']:.3f}{caught}",
            flush=True,
        )


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
