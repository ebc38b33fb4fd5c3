"""Audit an honest and a broken noisy sum against the same claim, one trial at a time.

The broken one scales its noise to the clipping norm, but neighbours differ by a record replaced,
which moves a sum by up to twice that. Run it with ``python examples/audit_a_mechanism.py``.
"""

from collections.abc import Callable

import numpy as np

import dpassay as da
from dpassay import bounds, mechanisms

CLIP, MU = 1.0, 0.5
CLAIM = da.GDP(MU, neighbouring="replace-one")
Release = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def clipped_sum(records: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(records, axis=1, keepdims=True)
    return (records * np.minimum(1.0, CLIP / norms)).sum(axis=0)


def broken(records: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return clipped_sum(records) + rng.normal(0.0, CLIP / MU, records.shape[1])


def honest(records: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    sensitivity = mechanisms.clipped_sum_sensitivity(CLIP, neighbouring="replace-one")
    release = mechanisms.gaussian(
        clipped_sum(records), sensitivity=sensitivity, mu=MU, rng=rng, neighbouring="replace-one"
    )
    return release.value


def audit(release: Release, trials: int = 1000, seed: int = 0) -> bounds.SequentialTest:
    """Play until the claim is refuted or the trials are used up; a fair coin picks the world."""
    rng = np.random.default_rng(seed)
    others, canary = rng.normal(size=(20, 5)), np.eye(1, 5)
    worlds = {0: np.vstack([others, -canary]), 1: np.vstack([others, canary])}
    test = bounds.SequentialTest(CLAIM)
    while not test.refuted and test.trials < trials:
        world = int(rng.integers(2))
        test.update(world, release(worlds[world], rng)[0])
    return test


def main() -> None:
    for release in (honest, broken):
        test = audit(release)
        verdict = "refuted" if test.refuted else "not refuted"
        print(f"{release.__name__}: {CLAIM!r} {verdict} after {test.trials} trials")


if __name__ == "__main__":
    main()
