"""How close the audits of DP-SGD come: many trainings, few trainings, and how soon a bug is found.

Run with ``python -m benchmarks.tightness`` (a few minutes; ``--quick``: one). With ``--store FILE``
trainings of the lab are kept there, and the same command goes on where it was. delta = 1e-5,
confidence 0.95. Each row has its goal beside it.

- many trainings: full batches, epsilon = 4, one score for each training;
- few trainings: ten of 2400 steps (4800 in the lab) at q = 250/60000, a coin for each step, and
  what the steps show;
- detection: trainings that refute the batch-size bug at 1 - 1e-6, by ``dpassay.audit``.

The first two are shown twice: with scores drawn from the law that an adversary of gradients sees
exactly, many times over, which shows the statistics; and once with trainings of the lab
(``dpassay[lab]``) and its adversaries, on MNIST where the other records are natural.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpassay import nets
from dpassay.adversaries import ADVERSARIES, Data, PlayedGame, play, steps_bound
from dpassay.bounds import (
    check_claim,
    lower_bound,
    lower_bound_from_steps,
    lower_bound_gaussian_location,
    lower_bound_pooled,
)
from dpassay.bounds.sequential import SequentialTest
from dpassay.datasets import DatasetMissing, load_mnist
from dpassay.errors import MissingDependency
from dpassay.privacy import GDP, ApproxDP, account, calibrate, dp_sgd_event, gaussian
from dpassay_reproduce.debugging import detection

DELTA = 1e-5
MANY = {1000: 3.0, 5000: 3.5, 20_000: 3.7}
STEPS, LONGER, RATE, TRAININGS = 2400, 4800, 250 / 60_000, 10
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
        sigma = _noise(epsilon, STEPS)
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


# Trainings of the lab.


def many_trained(quick: bool, store: Path) -> None:
    """The same bounds from trainings on the data of the last adversary, and verdicts on them.

    It chooses its data: few and short, so that a training takes a millisecond.
    """
    mu, steps = float(gaussian.mu_of(4.0, DELTA)), 4
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 16)), rng.integers(0, 4, 60)
    data = Data(nets.Records(X[:20], y[:20]), nets.Records(X[20:], y[20:]))
    plan = nets.Training(nets.softmax(16, 4), steps, 1.0, steps**0.5 / mu, 0.5)
    stated, adversary = account(plan.event()), ADVERSARIES["malicious data"]
    sizes = [n for n in MANY if n == 1000 or not quick]
    trials, start = 2 * max(sizes), time.process_time()
    game = play(adversary, plan, data, trials=trials, store=store)
    spent = time.process_time() - start
    print(f"many trainings of the lab, adversary 6, epsilon {stated.epsilon(DELTA):.6f}")
    print(f"  {trials} trainings in {spent:.0f} CPU s")
    for n in sizes:
        sides = _first(game, 2 * n)
        for name, bound in _by_scores(mu).items():
            found = bound(*sides)
            print(
                f"  about {n:6d} per world  {name:24s} {found.epsilon:.3f}  goal {MANY[n]}  "
                f"ceiling {found.ceiling:.2f}"
            )
    three = GDP(float(gaussian.mu_of(3.0, DELTA)))
    print(f"  its own curve: {game.verdict(stated)}")
    print(f"  the claim epsilon = 3: {game.verdict(three)}")
    less = replace(plan, noise_multiplier=0.9 * plan.noise_multiplier)
    cut = play(adversary, less, data, trials=trials, claim=stated, store=store)
    print(f"  a tenth less noise than stated: {cut.verdict(stated)}")


def _first(game: PlayedGame, trials: int) -> tuple[np.ndarray, np.ndarray]:
    worlds, scores = game.evidence.worlds[:trials], game.evidence.scores[:trials]
    return scores[worlds == 1], scores[worlds == 0]


def _by_scores(mu: float) -> dict[str, Callable]:
    """The bounds, for log-likelihood ratios: of deviation mu."""
    known = {
        "location, sigma known": lambda x, y: lower_bound_gaussian_location(
            x, y, delta=DELTA, sigma=mu
        )
    }
    return BOUNDS | known


def few_trained(quick: bool, store: Path) -> None:
    """Shares of epsilon from the steps of ten trainings, by the fifth adversary and the sixth."""
    try:
        found = load_mnist()
    except DatasetMissing as missing:
        print(f"few trainings of the lab: skipped. {missing}")
        return
    X, y = 10 * found.X_train, found.y_train
    others = nets.Records(10 * found.X_test, found.y_test)
    records = {"gradient": nets.Records(X, y), "malicious data": nets.Records(X[:2000], y[:2000])}
    steps = STEPS if quick else LONGER
    print(f"few trainings of the lab: {TRAININGS} of {steps} steps, softmax (goals 0.90, 0.95)")
    for epsilon in (4.0,) if quick else (1.0, 2.0, 4.0, 8.0):
        sigma = _noise(epsilon, steps)
        plan = nets.Training(nets.softmax(784, 10), steps, 1.0, sigma, 0.5, sampling_rate=RATE)
        for name, own in records.items():
            _steps_of(name, plan, Data(own, others), epsilon, store)


def _steps_of(name: str, plan: nets.Training, data: Data, epsilon: float, store: Path) -> None:
    for estimator in ("threshold", "location"):  # both look at the same trainings
        start = time.process_time()
        bound = steps_bound(
            ADVERSARIES[name],
            plan,
            data,
            trainings=TRAININGS,
            delta=DELTA,
            estimator=estimator,
            store=store,
        )
        print(
            f"  epsilon {epsilon:g}  {name:15s} {estimator:10s} share "
            f"{bound.epsilon / epsilon:.3f}  {time.process_time() - start:.0f} CPU s  "
            f"assumes: {bound.assumption}",
            flush=True,
        )


def _noise(epsilon: float, steps: int) -> float:
    return calibrate(lambda s: dp_sgd_event(s, RATE, steps), target=ApproxDP(epsilon, DELTA))


def detected(seeds: int) -> None:
    """Trainings to the verdict, by seed."""
    found = [detection(seed) for seed in range(seeds)]
    print(f"detection of the batch-size bug at 1 - 1e-6: median {np.median(found):g} trainings")
    print(f"  (goal 34, limit of any attack 23): {sorted(found)}")


def main(quick: bool = False, store: str | None = None) -> None:
    """Print the tables; trainings are kept in the store, or in one that is thrown away."""
    detected(20)
    many(5 if quick else 40)
    few(1 if quick else 10)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(store) if store else Path(folder) / "trainings.db"
        try:
            many_trained(quick, kept)
            few_trained(quick, kept)
        except MissingDependency as missing:
            print(f"trainings of the lab: skipped. {missing}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tightness")
    parser.add_argument("--quick", action="store_true", help="fewer cases and repetitions")
    parser.add_argument("--store", help="a file that keeps the trainings of the lab")
    main(**vars(parser.parse_args()))
