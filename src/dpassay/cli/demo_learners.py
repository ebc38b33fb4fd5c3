"""The two learners of the demo: what is proved of each, and how bad the broken one is."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dpassay.privacy import GDP
    from dpassay.types import FloatArray, LowerBound

TRAININGS = 300  # of each world, to learn a direction, and as many to measure along it


def prove() -> "dict[str, GDP]":
    """What the noise that each learner really adds allows: an upper bound on its leak.

    That of the honest one is its claim. The other has noise too small by the number of records, so
    that its mu is larger by that factor.
    """
    from dpassay.privacy import GDP
    from dpassay.zoo import learners

    claim = learners.claim()
    records = learners.N_RECORDS
    return {"honest": claim, "broken": GDP(records * claim.mu, n_records=records)}


def measure_severity(delta: float, confidence: float, seed: int = 0) -> "LowerBound":
    """A lower bound on the broken learner's epsilon from whole scores, which may be any number.

    Bets keep to what ranks show, which is bounded by the number of trials. Whole scores show more,
    if they are Gaussian: as they are here, since little noise makes the training linear in it. The
    direction is learned from other trainings than those that are measured.
    """
    from dpassay.bounds import lower_bound_gaussian_location
    from dpassay.zoo import learners

    rng = np.random.default_rng(seed)

    def train(data: Any) -> "FloatArray":
        return np.array([learners.broken(data, rng) for _ in range(TRAININGS)])

    with_canary, without = learners.neighbours()
    direction = _separate(train(with_canary), train(without))
    scores = (train(data) @ direction for data in (with_canary, without))
    return lower_bound_gaussian_location(*scores, delta=delta, confidence=confidence)


def _separate(inside: "FloatArray", outside: "FloatArray") -> "FloatArray":
    """The direction in which two Gaussian samples lie furthest apart for their spread."""
    spread = np.cov(inside.T) + np.cov(outside.T)
    return np.linalg.solve(spread, inside.mean(axis=0) - outside.mean(axis=0))
