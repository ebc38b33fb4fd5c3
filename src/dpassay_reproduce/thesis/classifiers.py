"""Linear classifiers by DP-FW and DP-SGD, many trainings in lockstep.

A figure needs hundreds of trainings that differ in their data (repetitions) and in their noise
(epsilons), each of T = epsilon N cheap steps. Here they take their steps together, as products of
a few small matrices. Arrays have the axes (score, repetition, epsilon, record or feature). The
algorithms are those of :mod:`dpassay.optim`, and tests hold them against these.

Rows are [1, x] with entries in [-1, 1]: a record's gradient has entries of at most 1, and an l2
norm of at most sqrt(1 + p) times that of the residuals. Both algorithms are private under
replace-one: all data sets have N records.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.types import FloatArray

RADIUS = 10.0  # of the l1 ball of Frank-Wolfe and the l2 ball of SGD; the document gives none


@dataclass(frozen=True)
class Softmax:
    """The probabilities of classes, proportional to exp(score).

    With a ``reference`` class, as the document has it, the last score is 0 and not learned: for two
    classes that is logistic regression.
    """

    n_classes: int = 2
    reference: bool = True

    @property
    def n_scores(self) -> int:
        """How many scores are learned."""
        return self.n_classes - self.reference

    def lipschitz(self, n_weights: int) -> float:
        """The largest l2 norm of a record's gradient, for rows of ``n_weights`` entries in [-1, 1].

        The gradient is the outer product of the row and p - e_y in the learned scores.
        """
        return math.sqrt(n_weights) * (1.0 if self.n_scores == 1 else math.sqrt(2))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """The probabilities of the classes, along the first axis."""
        if self.reference:
            scores = np.concatenate([scores, np.zeros((1, *scores.shape[1:]))])
        p = np.exp(scores - scores.max(axis=0))
        p /= p.sum(axis=0)
        return p

    def residuals(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The gradient of -log p_y in the learned scores: p - e_y."""
        return self.probabilities(scores)[: self.n_scores] - targets


@dataclass(frozen=True, eq=False)
class Records:
    """Data sets of equal size with the same labels, and what is fitted to each.

    Attributes:
        rows: [1, x], of shape (repetitions, n, 1 + p).
        labels: the classes, (n,).
        model: what is fitted.

    """

    rows: FloatArray
    labels: NDArray[np.intp]
    model: Softmax

    @classmethod
    def of(cls, X: FloatArray, labels: NDArray[np.intp], model: Softmax) -> "Records":
        """From features of shape (repetitions, n, p)."""
        return cls(np.concatenate([np.ones((*X.shape[:2], 1)), X], axis=2), labels, model)

    @property
    def targets(self) -> FloatArray:
        """1 for the class of the record, else 0; (scores, n)."""
        return (self.labels == np.arange(self.model.n_scores)[:, None]).astype(float)

    def probabilities(self, W: FloatArray) -> FloatArray:
        """(classes, repetitions, epsilons, n), by weights as the solvers return them."""
        return self.model.probabilities(W @ self.rows.swapaxes(1, 2))

    def right(self, W: FloatArray) -> FloatArray:
        """The share of records that are classified rightly, (repetitions, epsilons)."""
        return (self.probabilities(W).argmax(axis=0) == self.labels).mean(axis=2)


def frank_wolfe(
    records: Records,
    steps: NDArray[np.intp],
    scales: FloatArray,
    noise: str,
    rng: np.random.Generator,
    radius: float = RADIUS,
) -> FloatArray:
    """Weights (scores, repetitions, epsilons, 1 + p) on the l1 ball, by noisy choice of vertices.

    As private as the noise makes it. A step moves along one coordinate, so that the scores of the
    records follow it by one column.

    Args:
        records: what is trained on.
        steps: how many for each epsilon, ascending.
        scales: of the noise on the score -<gradient, vertex>, for each epsilon; 0 for none.
        noise: "gumbel" (the exponential mechanism) or "laplace".
        rng: a generator: for research, not private.
        radius: of the ball.

    """
    rows, model, targets = records.rows, records.model, records.targets[:, None, None]
    repetitions, n, d = rows.shape
    W = np.zeros((model.n_scores, repetitions, len(steps), d))
    Z = np.zeros((model.n_scores, repetitions, len(steps), n))
    r = np.arange(repetitions)[:, None]
    for t in range(int(steps[-1])):
        on = slice(int(np.searchsorted(steps, t, side="right")), None)  # the others have ended
        products = model.residuals(Z[:, :, on], targets) @ rows
        products *= radius / n
        k, j, sign = _vertices(products, scales[on], noise, rng)
        e, move = np.arange(len(steps))[on], sign * (2 / (t + 2) * radius)
        W[:, :, on] *= t / (t + 2)
        Z[:, :, on] *= t / (t + 2)
        W[k, r, e, j] += move
        Z[k, r, e] += move[..., None] * rows[r, :, j]
    return W


def _gumbel(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """P(-log E <= x) = P(E >= e^-x) = exp(-e^-x) for exponential E; half the time of rng.gumbel."""
    return -np.log(rng.standard_exponential(shape))


def _laplace(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """The difference of two exponential variables; half the time of rng.laplace."""
    return rng.standard_exponential(shape) - rng.standard_exponential(shape)


NOISES = {"gumbel": _gumbel, "laplace": _laplace}


def _vertices(
    products: FloatArray, scales: FloatArray, noise: str, rng: np.random.Generator
) -> tuple[Any, Any, Any]:
    """The score, feature and sign of the chosen vertices, each (repetitions, epsilons).

    ``products`` are those of the gradient with +radius e; a vertex's score is minus its product.
    """
    k, repetitions, epsilons, d = products.shape
    flat = products.transpose(1, 2, 0, 3).reshape(repetitions, epsilons, k * d)
    scores = np.concatenate([-flat, flat], axis=2)
    if scales.any():
        scores += NOISES[noise](rng, scores.shape) * scales[:, None]
    negative, at = np.divmod(scores.argmax(axis=2), k * d)
    return *np.divmod(at, d), 1.0 - 2.0 * negative


def sgd(
    records: Records,
    steps: NDArray[np.intp],
    deviations: FloatArray,
    rng: np.random.Generator,
    radius: float = RADIUS,
) -> FloatArray:
    """Weights (scores, repetitions, epsilons, 1 + p) on the l2 ball, by noisy gradients.

    Micali 2022's algorithm 1: a uniform record, Gaussian noise, steps of the diameter over
    G sqrt(t) with G² = L² + d deviation² (its theorem 3), projection, the last iterate.

    Args:
        records: what is trained on.
        steps: how many for each epsilon, ascending.
        deviations: of the noise in every entry of a gradient, for each epsilon.
        rng: a generator: for research, not private.
        radius: of the ball.

    """
    rows, model, targets = records.rows, records.model, records.targets
    repetitions, n, d = rows.shape
    W = np.zeros((model.n_scores, repetitions, len(steps), d))
    sizes = np.sqrt(model.lipschitz(d) ** 2 + model.n_scores * d * deviations**2)
    for t in range(int(steps[-1])):
        on = slice(int(np.searchsorted(steps, t, side="right")), None)
        here = W[:, :, on]
        drawn = rng.integers(n, size=here.shape[1:3])
        x = rows[np.arange(repetitions)[:, None], drawn]
        gradient = rng.standard_normal(here.shape)
        gradient *= deviations[on, None]
        residuals = model.residuals(np.vecdot(here, x), targets[:, drawn])
        gradient += residuals[..., None] * x
        gradient *= (2 * radius / math.sqrt(t + 1) / sizes[on])[:, None]
        here -= gradient
        norms = np.sqrt(np.square(here).sum(axis=(0, 3)))
        here *= (radius / np.maximum(norms, radius))[..., None]
    return W


def without_privacy(records: Records, steps: int = 1000, radius: float = RADIUS) -> FloatArray:
    """Frank-Wolfe without noise, (scores, repetitions, 1, 1 + p): the document's "true model"."""
    rng = np.random.default_rng(0)  # nothing is drawn
    return frank_wolfe(records, np.array([steps]), np.zeros(1), "gumbel", rng, radius)
