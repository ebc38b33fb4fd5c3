"""Two learners of the same claim: one keeps it, the other has a bug that was published.

Both fit a linear model by noisy gradient descent: every example's gradient is clipped to norm 1,
the mean over the data is released with Gaussian noise, and a step is taken. One example moves the
mean by at most 1/n, so noise of deviation ``NOISE_MULTIPLIER / n`` in each of ``STEPS`` steps is
GDP with mu = sqrt(STEPS) / NOISE_MULTIPLIER.

The broken one divides the sensitivity by n once more, as if the clipping had been applied to the
mean: the bug of a published training method (Tramèr et al. 2022).
"""

import math
from typing import Any

import numpy as np

from dpassay.privacy import GDP
from dpassay.types import FloatArray

STEPS = 20
NOISE_MULTIPLIER = 10.0
RATE = 2.0
N_RECORDS, N_FEATURES = 200, 5


def claim() -> GDP:
    """What both learners claim, under add/remove with a public number of records."""
    return GDP(math.sqrt(STEPS) / NOISE_MULTIPLIER, n_records=N_RECORDS)


def neighbours(
    seed: int = 0,
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """A data set (X, y) with a canary at the end, and the same without it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_RECORDS, N_FEATURES)) / math.sqrt(N_FEATURES)
    y = X @ np.linspace(-1, 1, N_FEATURES) + 0.1 * rng.normal(size=N_RECORDS)
    X[-1], y[-1] = np.eye(N_FEATURES)[0], 20.0  # its gradient is clipped at every step
    return (X, y), (X[:-1], y[:-1])


def honest(data: Any, rng: np.random.Generator) -> FloatArray:
    """The coefficients, with the noise that the claim needs."""
    return _descend(data, rng, NOISE_MULTIPLIER / N_RECORDS)


def broken(data: Any, rng: np.random.Generator) -> FloatArray:
    """The coefficients, with the sensitivity divided by the number of records twice."""
    return _descend(data, rng, NOISE_MULTIPLIER / N_RECORDS**2)


def _descend(data: Any, rng: np.random.Generator, deviation: float) -> FloatArray:
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        gradients = (X @ w - y)[:, None] * X
        norms = np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1.0)
        # The divisor is the public number of records, not that of this data set.
        mean = (gradients / norms).sum(axis=0) / N_RECORDS
        w = w - RATE / STEPS * (mean + deviation * rng.normal(size=w.shape))
    return w
