"""Audits of allocated, shuffled and fixed batches: what ten thousand games show of what is proved.

    python -m benchmarks.sampling_audits

The game is that of the strongest adversary: gradients of the canary are as long as clipping allows,
those of the other records are 0 (or opposite, see :mod:`dpassay.privacy.brackets`), and he sees
every noisy sum; so a game is one row of noise. Scores are exact likelihood ratios. Bounds take the
training for what it is, with unknown noise, at 95 %. Goal: within 1.3 of what is proved.
"""

from dataclasses import dataclass

import numpy as np

from dpassay import lower_bound
from dpassay.adversaries import LikelihoodRatio, lower_bound_in_noise
from dpassay.privacy import account, bracket
from dpassay.privacy.events import allocation_event, shuffled_event
from dpassay.types import FloatArray

DELTA, GAMES = 1e-5, 5_000
CASES = [(1.0, 4, 2), (1.0, 10, 10), (0.5, 10, 1), (1.0, 100, 10)]


@dataclass(frozen=True)
class Row:
    """Epsilon at 1e-5 of one training: what was seen, and what is proved from both sides."""

    batches: str
    case: tuple[float, int, int]
    seen: float
    without_belief: float
    lower: float
    upper: float


def run(cases: list[tuple[float, int, int]] = CASES, seed: int = 0) -> list[Row]:
    """All three kinds of batches for every case: noise multiplier, steps per epoch, epochs."""
    rng = np.random.default_rng(seed)
    return [row for case in cases for row in _audit(case, rng)]


def _audit(case: tuple[float, int, int], rng: np.random.Generator) -> list[Row]:
    noise, steps, epochs = case
    seen, place = _play(noise, steps, epochs, rng)
    hidden = LikelihoodRatio(noise, 1 / steps, scheme="shuffled")(seen)
    bound = lower_bound_in_noise(
        *hidden,
        noise_multiplier=noise,
        sampling_rate=1 / steps,
        steps=steps * epochs,
        delta=DELTA,
        scheme="shuffled",
    ).epsilon
    free = lower_bound(*hidden, delta=DELTA).epsilon
    known = np.take_along_axis(seen.reshape(2, GAMES, epochs, steps), place, 3).sum(axis=(2, 3))
    told = [lower_bound(*known, delta=DELTA, method=m).epsilon for m in ("gdp", "clopper-pearson")]
    allocated, shuffled = allocation_event(noise, steps, epochs), shuffled_event(*case)
    proved = account(shuffled).epsilon(DELTA)
    inside, outside = bracket(allocated, DELTA), bracket(shuffled, DELTA)
    return [
        Row("allocated", case, bound, free, inside.lower, inside.upper),
        Row("shuffled", case, bound, free, outside.lower, outside.upper),
        Row("fixed", case, told[0], told[1], proved, proved),
    ]


def _play(
    noise: float, steps: int, epochs: int, rng: np.random.Generator
) -> tuple[FloatArray, np.ndarray]:
    """Noisy sums with the canary and without, in each epoch in one step; and which one."""
    seen = noise * rng.standard_normal((2, GAMES, epochs, steps))
    place = rng.integers(steps, size=(1, GAMES, epochs, 1))
    seen[0] += place[0] == np.arange(steps)
    return seen.reshape(2, GAMES, -1), np.broadcast_to(place, (2, GAMES, epochs, 1))


def main() -> None:
    """Print every row."""
    print("batches    noise steps epochs    seen  no belief   lower   upper  upper/seen")
    for row in run():
        noise, steps, epochs = row.case
        print(
            f"{row.batches:10} {noise:5g} {steps:5} {epochs:6} {row.seen:7.3f} "
            f"{row.without_belief:10.3f} {row.lower:7.3f} {row.upper:7.3f} "
            f"{row.upper / row.seen:11.2f}"
        )


if __name__ == "__main__":
    main()
