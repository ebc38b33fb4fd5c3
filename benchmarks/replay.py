"""Record and replay: its overhead on a small Opacus loop, and the null of the replayed evidence.

``python -m benchmarks.replay`` prints both. The first is the ratio of a recorded run to a plain
one, in the same process; the second the share of streams that refute a true claim at level 0.05,
over 10 000 streams of 300 trials, and how many trials a false claim needs.
"""

import math
import sys
import time
from typing import Any

import numpy as np

import dpassay as da
from dpassay.auditing.replayed import STAKES, Bets

STREAMS, TRIALS, LEVEL = 10_000, 300, 0.05
PAIRS = ((4.0, 2.0), (8.0, 4.0), (4.0, 1.0), (2.0, 1.0))


def overhead(records: int = 1000, epochs: int = 3) -> tuple[float, float]:
    """Seconds of a plain and of a recorded run of Opacus' loop, the best of three each."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    from dpassay.replay.playing import Player

    x = torch.randn(records, 16, generator=torch.Generator().manual_seed(0)).numpy()
    y = (x[:, 0] > 0).astype(np.int64)

    def train(data: Any) -> Any:
        tensors = [torch.from_numpy(part) for part in data]
        model = torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2)
        )
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(TensorDataset(*tensors), batch_size=50),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        for _ in range(epochs):
            for batch, target in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(batch), target).backward()
                optimizer.step()
        return model

    torch.set_num_threads(1)
    player = Player(train, 0)
    player.record((x, y), records)
    plain = min(_seconds(lambda: train((x, y))) for _ in range(3))
    recorded = min(_seconds(lambda: player.record((x, y), records)) for _ in range(3))
    return plain, recorded


def _seconds(work: Any) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def ends(claim: da.GDP, ratios: Any, level: float, shrunk: float = 1.0) -> Any:
    """For every stream the trial at which it refutes, 0 where none does."""
    bets = Bets(claim)
    deltas = bets.deltas * shrunk
    wealth = np.zeros((len(ratios), len(deltas), len(STAKES)))
    found = np.zeros(len(ratios), dtype=int)
    for t in range(ratios.shape[1]):
        seen = np.maximum(-np.expm1(np.minimum(bets.epsilons - ratios[:, t, None], 0.0)), 0.0)
        wealth += np.log1p(STAKES * (seen / deltas - 1)[..., None])
        log = np.logaddexp.reduce(wealth.reshape(len(ratios), -1), axis=1)
        fallen = log - math.log(wealth[0].size) >= -math.log(level)
        found[fallen & (found == 0)] = t + 1
    return found


def ratios_of(mu: float, streams: int, trials: int, seed: int = 0) -> Any:
    """Log ratios of a Gaussian pair under its first law."""
    return mu**2 / 2 + mu * np.random.default_rng(seed).normal(size=(streams, trials))


def rounding_of_jax() -> tuple[int, int, float]:
    """Of jitted trainings recorded and plain: how many, how many differ, and by how much at most.

    The difference is relative to the largest entry of the weights.
    """
    import jax
    import jax.numpy as jnp

    from dpassay.replay.jax import finish
    from dpassay.replay.playing import Player

    def training(d: int, n: int) -> Any:
        @jax.jit
        def run(x: Any, key: Any) -> Any:
            def step(w: Any, one: Any) -> Any:
                moved = jnp.tanh(x - w)
                noisy = moved.sum(axis=0) / n + (4.0 / n) * jax.random.normal(one, w.shape)
                return w + 0.3 * noisy - 0.01 * w, None

            return jax.lax.scan(step, jnp.zeros(d), jax.random.split(key, 20))[0]

        return lambda x, rng: run(jnp.asarray(x), jax.random.key(int(rng.integers(2**31))))

    differences = []
    for d, n in ((3, 30), (17, 101), (64, 300)):
        x = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
        player = Player(training(d, n), 0)
        recorded = [np.asarray(player.record(x, n, seed).output) for seed in range(5)]
        finish()
        for seed, then in enumerate(recorded):
            plain = np.asarray(player.mechanism(x, np.random.default_rng(seed)))
            differences.append(float(np.max(np.abs(plain - then)) / np.max(np.abs(plain))))
    return len(differences), int(np.count_nonzero(differences)), max(differences)


def _mu(epsilon: float) -> float:
    low, high = 0.01, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if da.GDP(middle).epsilon(1e-5) < epsilon else (low, middle)
    return low


def main() -> None:
    """Print all of it."""
    if "null" in sys.argv[1:] or len(sys.argv) == 1:
        for mu in (0.27, 0.5, 0.93):
            n = int(np.count_nonzero(ends(da.GDP(mu), ratios_of(mu, STREAMS, TRIALS), LEVEL)))
            wrong = ends(da.GDP(mu), ratios_of(mu, 1000, 2000), LEVEL, shrunk=0.9)
            print(f"null mu={mu}: {n} of {STREAMS} streams refute at {LEVEL}; with a curve a tenth "
                  f"too small {np.count_nonzero(wrong)} of 1000 (of 2000 trials)")  # fmt: skip
    if "power" in sys.argv[1:] or len(sys.argv) == 1:
        for true, claimed in PAIRS:
            claim, ratios = da.GDP(_mu(claimed)), ratios_of(_mu(true), 300, 300, seed=1)
            for level in (0.05, 1e-6):
                found = ends(claim, ratios, level)
                found = np.where(found == 0, 301, found)
                print(f"{true:g} v {claimed:g} at {level:g}: median {np.median(found):g}, "
                      f"80 % {np.quantile(found, 0.8):g} trials")  # fmt: skip
    if "jax" in sys.argv[1:] or len(sys.argv) == 1:
        n, differ, most = rounding_of_jax()
        print(f"JAX in jit: {differ} of {n} recorded trainings differ from plain ones, by "
              f"{most:.1e} of the largest weight at most")  # fmt: skip
    if "overhead" in sys.argv[1:] or len(sys.argv) == 1:
        plain, recorded = overhead()
        print(f"Opacus, 1000 records, 60 steps: plain {plain:.2f} s, recorded {recorded:.2f} s, "
              f"ratio {recorded / plain:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
