"""Linear regression on the l1 ball by DP-SGD and DP-FW, many trainings in lockstep; its attack.

Micali 2022, section 4.1, gives N, T = epsilon N, ||D|| = 1 and C = ||w*||_1; what it does not
give is chosen here: p = 50 features, uniform on [-1, 1], w* of l1 norm 1, noise on labels of
deviation 0.1, labels clipped to |y| <= 1.3. (With p = 10 the attack without privacy is right
50.2 % of the time at N = 1000, which ten repetitions cannot tell from a coin.) All bounds that
privacy needs are then public: |<w, [1, x]> - y| <= 2.3 on the ball, so a record's gradient has
entries of at most L0 = 2.3 and an l2 norm of at most L = 2.3 sqrt(51).

All trainings of a figure take their steps together: weights have the axes (repetition, epsilon,
feature).
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpassay.optim.l1_ball import minimise_on_l1_ball
from dpassay.types import FloatArray
from dpassay_reproduce.thesis.frame import Setting

FEATURES = 50
RADIUS = 1.0
LABEL_NOISE = 0.1
LABEL_BOUND = RADIUS + 3 * LABEL_NOISE
RESIDUAL_BOUND = RADIUS + LABEL_BOUND  # |<w, [1, x]>| <= ||w||_1 ||[1, x]||_inf
L0 = RESIDUAL_BOUND


def lipschitz(n_features: int) -> float:
    """The largest l2 norm of a record's gradient, L."""
    return RESIDUAL_BOUND * math.sqrt(1 + n_features)


L2 = lipschitz(FEATURES)


# Data.


@dataclass(frozen=True, eq=False)
class Sample:
    """Training and test records of every repetition: rows [1, x] and labels, training first."""

    rows: FloatArray  # (repetitions, 2N, 1 + p)
    labels: FloatArray  # (repetitions, 2N)
    truth: FloatArray  # w*, (1 + p,)

    @property
    def n_records(self) -> int:
        """The number of records in the training set, N."""
        return self.rows.shape[1] // 2

    @functools.cached_property
    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A, b, c with mean training loss w'Aw/2 - b'w + c, for each repetition."""
        X, y = self.rows[:, : self.n_records], self.labels[:, : self.n_records]
        across = X.swapaxes(1, 2) / self.n_records
        return across @ X, (across @ y[..., None])[..., 0], np.square(y).mean(axis=1) / 2

    def gradients(self, W: FloatArray) -> FloatArray:
        """The gradients of the mean training loss at weights (repetitions, epsilons, 1 + p)."""
        A, b, _ = self.moments
        return W @ A - b[:, None]

    def training_losses(self, W: FloatArray) -> FloatArray:
        """The mean training loss, (repetitions, epsilons)."""
        A, b, c = self.moments
        return np.vecdot(W, W @ A / 2 - b[:, None]) + c[:, None]

    def losses(self, W: FloatArray) -> FloatArray:
        """The loss of every record, (repetitions, epsilons, 2N)."""
        return np.square(W @ self.rows.swapaxes(1, 2) - self.labels[:, None]) / 2


def sample(
    setting: Setting,
    n_records: int,
    rerun: int = 0,
    n_features: int = FEATURES,
    support: int | None = None,
) -> Sample:
    """The data: the same for every algorithm and range of epsilon, others for another rerun.

    With ``support`` so many weights of w* are not 0, all of one size, whatever the number of
    records and features.
    """
    rng = setting.rng(n_records, rerun)
    truth = rng.normal(size=1 + n_features)
    if support is not None:  # the same weights at every N and p
        truth = np.zeros(1 + n_features)
        truth[1 : 1 + support] = np.resize([1.0, -1.0], support)
    truth *= RADIUS / np.abs(truth).sum()
    shape = (setting.repetitions, 2 * n_records)
    rows = np.concatenate([np.ones((*shape, 1)), rng.uniform(-1, 1, (*shape, n_features))], axis=2)
    labels = rows @ truth + LABEL_NOISE * rng.normal(size=shape)
    return Sample(rows, np.clip(labels, -LABEL_BOUND, LABEL_BOUND), truth)


# Training.


def sgd(
    data: Sample, steps: NDArray[np.intp], deviations: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Weights by algorithm 1: a uniform record, Gaussian noise, projection on the l1 ball.

    Steps are D/(G sqrt(t)) with D = 2 the diameter and G² = L² + (1 + p) deviation² (theorem 3);
    the last iterate is returned.

    Args:
        data: what is trained on.
        steps: how many for each epsilon, ascending.
        deviations: of the noise in every entry of a gradient, for each epsilon.
        rng: for research, not private.

    """
    repetitions, _, d = data.rows.shape
    W = np.zeros((repetitions, len(steps), d))
    rates = 2 * RADIUS / np.sqrt(lipschitz(d - 1) ** 2 + d * deviations**2)
    each = np.arange(repetitions)[:, None]
    for t in range(int(steps[-1])):
        first = int(np.searchsorted(steps, t, side="right"))  # the others have ended
        here = W[:, first:]
        drawn = rng.integers(data.n_records, size=here.shape[:2])
        x, y = data.rows[each, drawn], data.labels[each, drawn]
        direction = rng.standard_normal(here.shape)
        direction *= deviations[first:, None]
        direction += (np.vecdot(here, x) - y)[..., None] * x
        direction *= rates[first:, None] / math.sqrt(t + 1)
        W[:, first:] = onto_l1_ball(here - direction, RADIUS)
    return W


def onto_l1_ball(W: FloatArray, radius: float) -> FloatArray:
    """The nearest point of the l1 ball to each row (last axis), by sorting (Duchi et al. 2008)."""
    sizes = np.abs(W)
    falling = -np.sort(-sizes, axis=-1)
    thresholds = (np.cumsum(falling, axis=-1) - radius) / np.arange(1, W.shape[-1] + 1)
    # The threshold rises while its entry is above it and falls after: the right one is the largest.
    threshold = np.maximum(thresholds.max(axis=-1, keepdims=True), 0)
    return np.copysign(np.maximum(sizes - threshold, 0), W)


def frank_wolfe(
    data: Sample,
    steps: NDArray[np.intp],
    scales: FloatArray,
    noise: str,
    rng: np.random.Generator,
) -> FloatArray:
    """Weights by algorithm 3: every step moves by 2/(t + 2) to the vertex of the best noisy score.

    The losses are squares, so that gradients need the second moments of the data alone.

    Args:
        data: what is trained on.
        steps: how many for each epsilon, ascending.
        scales: of the noise, for each epsilon.
        noise: "gumbel" or "laplace".
        rng: for research, not private.

    """
    repetitions, _, d = data.rows.shape
    W = np.zeros((repetitions, len(steps), d))
    each = np.arange(repetitions)[:, None]
    for t in range(int(steps[-1])):
        first = int(np.searchsorted(steps, t, side="right"))
        here = W[:, first:]
        products = RADIUS * data.gradients(here)
        scores = np.concatenate([-products, products], axis=2)  # of +e_j, then of -e_j
        scores += getattr(rng, noise)(size=scores.shape) * scales[first:, None]
        negative, at = np.divmod(scores.argmax(axis=2), d)
        here *= t / (t + 2)
        here[each, np.arange(here.shape[1]), at] += (1 - 2 * negative) * (2 * RADIUS / (t + 2))
    return W


@dataclass(frozen=True)
class MeanLoss:
    """The mean training loss of one repetition."""

    A: FloatArray
    b: FloatArray
    c: float

    def value(self, w: FloatArray) -> float:
        return float(w @ self.A @ w / 2 - self.b @ w + self.c)

    def gradient(self, w: FloatArray) -> FloatArray:
        return self.A @ w - self.b

    def minimiser(self) -> FloatArray:
        """On the ball: that of least squares where it lies inside."""
        w = np.linalg.lstsq(self.A, self.b)[0]
        inside = np.abs(w).sum() <= RADIUS
        return w if inside else minimise_on_l1_ball(self, w.size, RADIUS)


def without_privacy(data: Sample) -> FloatArray:
    """The minimisers on the l1 ball, (repetitions, 1, 1 + p)."""
    losses = (MeanLoss(A, b, float(c)) for A, b, c in zip(*data.moments, strict=True))
    return np.stack([loss.minimiser() for loss in losses])[:, None]
