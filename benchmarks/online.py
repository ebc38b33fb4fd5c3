"""Learning while betting: trials in all until a false claim falls, and what it costs.

Run with ``python -m benchmarks.online`` (ten minutes of one core; ``--quick``: a tenth). "split"
learns a score on the first trials and bets on the others, as audits did that set a quarter aside;
"online" is the referee of :func:`dpassay.audit` without a score. Numbers of trials are medians and
80 % quantiles over seeds, everything that was played included; they depend on no budget, since bets
do not. False alarms are counted by ``python -m benchmarks.honest``.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpassay.attacks.distinguisher import learn_distinguisher
from dpassay.attacks.online import OnlineAttack
from dpassay.attacks.online.experts import EXPERTS
from dpassay.auditing.account import Account
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from dpassay.bounds import SequentialTest
from dpassay.privacy import GDP, PureDP, gaussian
from dpassay.types import FloatArray, PrivacyCurve

MOST, BATCH = 4000, 25
Draw = Callable[[np.random.Generator, FloatArray], FloatArray]


@dataclass(frozen=True)
class Case:
    """Outputs of given worlds, and the claim that is tested on them."""

    name: str
    draw: Draw
    claim: PrivacyCurve


def mu(epsilon: float) -> float:
    """The shift of Gaussian noise that has this epsilon at delta = 1e-5."""
    return float(gaussian.mu_of(np.float64(epsilon), np.float64(1e-5)))


def shift(epsilon: float, d: int) -> Draw:
    """Gaussian noise in d dimensions; the worlds differ along one direction."""
    direction = np.ones(d) / np.sqrt(d) * mu(epsilon)
    return lambda rng, worlds: rng.normal(size=(worlds.size, d)) + np.outer(worlds, direction)


def true_count(rng: np.random.Generator, worlds: FloatArray) -> FloatArray:
    """The mean of [0, 1] or [0], its noise scaled by the count itself."""
    count, mean = np.where(worlds, 2, 1), np.where(worlds, 0.5, 0.0)
    return (mean + rng.laplace(size=worlds.size) * 10 / count)[:, None]


def true_count_of_ones(rng: np.random.Generator, worlds: FloatArray) -> FloatArray:
    """The mean of [1, 1] or [1]: only the scale of the noise differs."""
    return (1 + rng.laplace(size=worlds.size) * 10 / np.where(worlds, 2, 1))[:, None]


def noised_scale(rng: np.random.Generator, worlds: FloatArray) -> FloatArray:
    """The mean with noise scaled by a noisy count: where that is negative, there is none."""
    count = np.where(worlds, 2, 1) + rng.laplace(size=worlds.size) * 20
    scale = np.maximum(20 / count, 1e-12)
    return (np.where(worlds, 0.5, 0.0) + rng.laplace(size=worlds.size) * scale)[:, None]


def sparse_histogram(rng: np.random.Generator, worlds: FloatArray) -> FloatArray:
    """Noise only in bins that are not empty."""
    z = np.zeros((worlds.size, 3))
    z[:, 0] = 3 + rng.laplace(size=worlds.size)
    z[:, 1] = np.where(worlds, 1 + rng.laplace(size=worlds.size), 0)
    return z


def mixed(rng: np.random.Generator, worlds: FloatArray) -> FloatArray:
    """A category, a flag that leaks a quarter of the worlds, and two numbers."""
    n = worlds.size
    flag = np.where(rng.random(n) < 0.25, worlds, rng.integers(0, 2, n))
    return np.column_stack([rng.integers(0, 4, n), flag, rng.normal(size=(n, 2))])


BROKEN = [
    *(Case(f"Gaussian 4 v 2, d={d}", shift(4, d), GDP(mu(2))) for d in (1, 10, 100)),
    *(Case(f"Gaussian 8 v 4, d={d}", shift(8, d), GDP(mu(4))) for d in (1, 10, 100)),
    Case("mean, true count, [1, 1] v [1]", true_count_of_ones, PureDP(0.1)),
    Case("mean, true count, [0, 1] v [0]", true_count, PureDP(0.1)),
    Case("mean, noised scale", noised_scale, PureDP(0.1)),
    Case("sparse histogram", sparse_histogram, PureDP(1.0)),
    Case("category, flag, numbers", mixed, PureDP(0.25)),
]


def online(case: Case, seed: int, most: int = MOST) -> int:
    """Trials until the claim fell; one more than the most if it did not."""
    delta, account = claimed_delta(case.claim, None), Account.begin(most, sequential=True)
    referee = Referee(Rules(case.claim, delta, 0.95, False, account, online=True))
    rng = np.random.default_rng(seed)
    while referee.trials < most:
        worlds = rng.integers(0, 2, BATCH)
        if referee.take(worlds, case.draw(rng, worlds)):
            return referee.refuted_at or 0
    return most + 1


def split(case: Case, seed: int, learning: int) -> int:
    """The same with a score learned from so many trials, which then do not count."""
    rng = np.random.default_rng(seed)
    worlds = rng.integers(0, 2, learning)
    score = learn_distinguisher(list(case.draw(rng, worlds)), worlds)
    test, played = SequentialTest(case.claim), learning
    while played < MOST:
        worlds = rng.integers(0, 2, BATCH)
        if test.update(worlds, score.of_table(case.draw(rng, worlds))):
            return learning + (test.refuted_at or 0)
        played += BATCH
    return MOST + 1


def shown(found: list[int]) -> str:
    """Median and 80 % quantile; a dash for more than the most."""
    parts = [np.median(found), np.quantile(found, 0.8)]
    return " / ".join("-" if part > MOST else f"{part:.0f}" for part in parts)


def power(seeds: int) -> None:
    """Trials in all until a false claim falls."""
    print("\n| case | online | split 60 | split 250 |\n|---|---|---|---|")
    for case in BROKEN:
        columns = [shown([online(case, seed) for seed in range(seeds)])]
        for learning in (60, 250):
            some = range(max(seeds // 3, 3))
            columns.append(shown([split(case, seed, learning) for seed in some]))
        print(f"| {case.name} | {' | '.join(columns)} |", flush=True)


def cost(trials: int = 1000) -> None:
    """CPU time per trial beside the mechanism."""
    online(BROKEN[1], seed=0, most=50)  # what is imported and found once
    print("\nCPU per trial, Gaussian in 10 dimensions, 1000 trials, ms")
    for names in (["ridge"], list(EXPERTS)):
        attack = OnlineAttack({name: (1 / len(names), EXPERTS[name][1]) for name in names})
        test, rng, spent = SequentialTest(GDP(mu(8)), shares=attack.shares), _seeded(), 0.0
        for _ in range(trials // BATCH):
            worlds = rng.integers(0, 2, BATCH)
            outputs = shift(4, 10)(rng, worlds)
            start = time.process_time()
            test.take(attack.play(worlds, outputs).streams, worlds)
            spent += time.process_time() - start
        print(
            f"{'one expert' if len(names) == 1 else 'four experts':34s} {1e3 * spent / trials:.3f}"
        )


def _seeded() -> np.random.Generator:
    return np.random.default_rng(0)


def main(quick: bool = False) -> None:
    """Both tables."""
    cost()
    power(4 if quick else 15)


if __name__ == "__main__":
    main("--quick" in sys.argv)
