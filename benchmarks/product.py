"""What one training shows: shares of epsilon, with the number of canaries, beside jax_privacy.

Run with ``python -m benchmarks.product`` (ten minutes of CPU time; ``--quick``: one; a name of
a table runs that alone). Scores are Gaussian, coins fair, delta 1e-5, confidence 0.95. Tables:
"shares", mean bound over epsilon by method; "default", the default where nothing is assumed as the
number of canaries grows; "published", the fifteen rows of Xiang et al. (2025); "peer", bounds and
CPU seconds of jax_privacy's ``CanaryScoreAuditor`` on the same scores (``pip install
jax-privacy``); "million", CPU seconds of a bound from a million canaries.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.onerun import HINT, auditor, cpu, gaussian
from dpassay.bounds import DPSGDForm, lower_bound_gaussian_location, one_run
from dpassay.bounds.onerun.certainty import Certainty
from dpassay.bounds.onerun.product import LARGEST, FixedCount
from dpassay.canaries.watch_sums import score_step
from dpassay.privacy import GDP
from dpassay.privacy import gaussian as formulae

DELTA, LEVEL = 1e-5, 0.05
EPSILONS = (1.0, 2.0, 4.0, 8.0)
SEEDS = {1000: 30, 10_000: 12, 100_000: 4}
Row = dict[str, Any]

# mu, canaries, guesses (half of each kind), wrong ones, and the epsilon of Xiang et al. (2025).
PUBLISHED = (
    (0.5, 1000, 100, 26, 1.1926),
    (0.5, 1000, 1000, 401, 1.414),
    (0.5, 10_000, 2500, 755, 1.8052),
    (0.5, 100_000, 25_000, 7545, 1.9348),
    (1.0, 1000, 100, 10, 3.1645),
    (1.0, 1000, 250, 36, 3.6327),
    (1.0, 1000, 1000, 309, 3.67),
    (1.0, 10_000, 1000, 97, 4.0141),
    (1.0, 10_000, 2500, 364, 4.1371),
    (1.0, 100_000, 10_000, 967, 4.2662),
    (1.0, 100_000, 50_000, 10_343, 4.3144),
    (2.0, 1000, 250, 4, 7.9541),
    (2.0, 10_000, 1000, 5, 8.7173),
    (2.0, 100_000, 10_000, 51, 9.5899),
    (2.0, 100_000, 50_000, 2016, 9.8905),
)


def mu_of(epsilon: float) -> float:
    return float(formulae.mu_of(np.float64(epsilon), np.float64(DELTA)))


def bound(draw: Any, **options: Any) -> float:
    return one_run(*draw, delta=DELTA, **options).epsilon


def by_location(scores: Any, members: Any) -> float:
    """The bound that knows that scores are Gaussian: as sharp as any can be."""
    sides = scores[members], scores[~members]
    return lower_bound_gaussian_location(*sides, delta=DELTA).epsilon


def shares(quick: bool = False) -> Iterator[Row]:
    """Mean bound over epsilon."""
    for epsilon in EPSILONS:
        for canaries, seeds in SEEDS.items():
            repeats = max(seeds // 4, 2) if quick else seeds
            rng = np.random.default_rng([int(epsilon), canaries])
            draws = [gaussian(canaries, mu_of(epsilon), rng) for _ in range(repeats)]
            row: Row = {"epsilon": epsilon, "canaries": canaries}
            for name, options in {
                "none": {"method": "exact"},
                "half": {"method": "product", "guesses": canaries // 2},
                "all": {"method": "product", "guesses": canaries},
                "weighted": {"method": "product"},
            }.items():
                row[name] = float(np.mean([bound(draw, **options) for draw in draws])) / epsilon
            row["noncentral t"] = float(np.mean([by_location(*draw) for draw in draws])) / epsilon
            yield row


def default(quick: bool = False) -> Iterator[Row]:
    """The mean bound of the default over five seeds as the number of canaries grows."""
    for mu in (0.5, 1.0, 2.0):
        for canaries in (10_000, 100_000, 1_000_000, *(() if quick else (10_000_000,))):
            rng = np.random.default_rng([int(10 * mu), canaries])
            found = [bound(gaussian(canaries, mu, rng)) for _ in range(5)]
            truth = GDP(mu=mu).epsilon(DELTA)
            yield {"mu": mu, "epsilon": truth, "canaries": canaries, "none": float(np.mean(found))}


def published(quick: bool = False) -> Iterator[Row]:
    """Our bound from the same counts of wrong guesses, and shares of epsilon."""
    found = []
    for mu, canaries, guesses, wrong, theirs in PUBLISHED:
        count = FixedCount(canaries, guesses, wrong)
        mu_lower = count.largest_refuted(
            lambda mu: Certainty.of_curve(GDP(mu=mu)), LEVEL, LARGEST, 1e-6
        )
        truth, ours = (GDP(mu=value).epsilon(DELTA) for value in (mu, mu_lower))
        found.append((ours / truth, theirs / truth))
        row: Row = {"mu": mu, "canaries": canaries, "guesses": guesses, "wrong": wrong}
        yield row | {"ours": ours, "theirs": theirs, "share": ours / truth}
    ours, theirs = np.mean(found, axis=0)
    yield {"mean share, ours": float(ours), "theirs": float(theirs)}


def peer(quick: bool = False) -> Iterator[Row]:
    """Bounds and CPU seconds on the same scores; each as it comes without options."""
    for mu in (0.5, 1.0):
        for canaries in (1000, 10_000, 100_000):
            draw = gaussian(canaries, mu, np.random.default_rng([1, canaries]))
            row: Row = {"mu": mu, "epsilon": GDP(mu=mu).epsilon(DELTA), "canaries": canaries}
            for name, call in _calls(draw).items():
                row[f"{name} s"], row[name] = cpu(call)
            yield row


def million(quick: bool = False) -> Iterator[Row]:
    """CPU seconds of one bound from a million canaries, the least of three: full and sampled."""
    for noise, rate, steps in ((5.0, 1.0, 25), (1.0, 0.1, 50), (0.8, 0.01, 50), (0.8, 0.025, 50)):
        draw = sampled(1_000_000, noise, rate, steps, np.random.default_rng(2))
        form = DPSGDForm.of(noise, rate, steps)
        call = functools.partial(bound, draw, method="product", family=form, centre=0.0)
        seconds, value = cpu(call, repeats=3)
        yield {"noise": noise, "rate": rate, "steps": steps, "bound": value, "s": seconds}


def sampled(
    canaries: int, noise: float, rate: float, steps: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Log-likelihood ratios of canaries in the steps of DP-SGD, and their coins."""
    members, scores = rng.random(canaries) < 0.5, np.zeros(canaries)
    for _ in range(steps):
        drawn = members & (rng.random(canaries) < rate)
        scores += score_step(drawn + noise * rng.normal(size=canaries), noise, rate)
    return scores, members


def _calls(draw: Any) -> dict[str, Callable[[], Any]]:
    ours: dict[str, Callable[[], Any]] = {
        "none": lambda: bound(draw),
        "product": lambda: bound(draw, method="product"),
    }
    theirs = auditor(*draw)
    if theirs is None:
        return ours | {"peer": lambda: HINT}
    return ours | {
        "peer one-run": lambda: float(theirs.epsilon_one_run(LEVEL, DELTA)),
        "peer f-DP": lambda: float(theirs.epsilon_one_run_fdp(LEVEL, DELTA)),
    }


def run(quick: bool = False) -> dict[str, list[Row]]:
    """All tables."""
    return {name: list(rows(quick)) for name, rows in TABLES.items()}


TABLES = {
    "shares": shares,
    "default": default,
    "published": published,
    "peer": peer,
    "million": million,
}


def main(quick: bool = False, names: tuple[str, ...] = tuple(TABLES)) -> None:
    for name in names:
        print(f"-- {name}")
        for row in TABLES[name](quick):
            print(", ".join(f"{key} {_shown(value)}" for key, value in row.items()), flush=True)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    chosen = tuple(name for name in TABLES if name in sys.argv)
    main("--quick" in sys.argv, chosen or tuple(TABLES))
