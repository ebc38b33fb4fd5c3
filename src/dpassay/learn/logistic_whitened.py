"""Gradient descent on whitened rows, for many records beside little noise.

Columns of even size are not enough where columns nearly repeat each other: the directions in which
they differ are short, and hundreds of steps do not get there, however small the noise. Here a noisy
second-moment matrix of the rows makes them even in *every* direction, after which 40 steps do.
It costs a fifth of mu², so that it is taken only where noise is small:
kappa = sqrt(p K)/u below 3e-4 (``is_better``).

With rows z = [c, x] of typical norm 1, B = 1 and d the number of their entries:

* released is G = sum f z z' / n, f = min(1, B²/||z||²). One record adds a matrix of Frobenius norm
  B²/n at most; one that replaces another changes it by sqrt(2) B²/n, since the trace of the product
  of two such matrices is not negative. Noise of deviation s on the diagonal and s/sqrt(2) beside it
  is that of the vector of the diagonal and sqrt(2) times the upper triangle, which has the norm of
  the matrix;
* M = (G + s sqrt(2 d) I)^(-1/2), where s sqrt(2 d) is the length that the noise has, and rows
  become M z; d_eff is the trace of G (G + s sqrt(2d) I)^-1;
* the same once more on the new rows, with B = sqrt(d_eff), their length: directions that were
  below the noise at first, such as the difference of two columns that nearly agree, have become
  longer beside it and are made even now;
* gradients are clipped to sqrt(d_eff): a whitened row has that length on average, a residual
  is less than 1. Whatever M makes of a row, its gradient is clipped, so that the sensitivity of a
  step does not rest on lengths of rows.

All of M, d_eff and the clip are functions of the released G and public numbers; mu² adds up over
all releases. So wide a clip hardly ever clips, and little noise is left in the
weights: probabilities need no calibration here.

Rows are kept in single precision, once, and looked at in parts: what a record adds to a sum is a
function of the record alone, bit for bit (``row_products``, operations on single entries). They
stand in a secret random order, so that steps may add up blocks in single precision
(:func:`dpassay.optim.clipping.rounding`); all other sums are in double precision.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpassay._rng import RngLike
from dpassay.learn.declared import Features
from dpassay.learn.logistic_facts import LogisticFacts, targets_of
from dpassay.learn.plans import Solution
from dpassay.mechanisms.noise import training_source
from dpassay.optim.clipping import rounding
from dpassay.optim.conditioning import column_sizes, typical_norm
from dpassay.optim.gradient import noisy_gradient_descent, step_event
from dpassay.optim.losses import Rows
from dpassay.optim.products import PIECE, is_sparse, row_products, sum_of_pieces
from dpassay.privacy import Event, Gaussian, Sequence
from dpassay.types import FloatArray

_SHARES = (0.04, 0.01, 0.1, 0.1)  # of mu²: columns, norms, second moments twice
_LARGEST_KAPPA = 3e-4
_MOST_FEATURES = 256
_ROUNDS = 2
_STEPS, _RATE, _MOMENTUM, _AVERAGE = 40, 2.0, 0.7, 0.5
_CONSTANT = 0.5
_PART = 16 * PIECE
_SINGLE = 1 + 1e-6  # what rounding to single precision adds to the length of a row


def is_better(facts: LogisticFacts) -> bool:
    """Whether whitening is worth its price; a rule on public quantities."""
    kappa = math.sqrt(facts.n_features * facts.loss.n_scores) / facts.signal
    return facts.dense and kappa < _LARGEST_KAPPA and facts.n_features <= _MOST_FEATURES


@dataclass(frozen=True)
class WhitenedDescent:
    """Full-batch noisy gradient descent on whitened rows; all its releases are Gaussian."""

    facts: LogisticFacts
    takes_parts = True

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.facts.max_iter or _STEPS

    @property
    def preparation(self) -> tuple[float, ...]:
        """The noise multipliers of the releases that whiten the rows."""
        return tuple(1 / (self.facts.mu * math.sqrt(share)) for share in _SHARES)

    @cached_property
    def noise_multiplier(self) -> float:
        """The noise of each step over its sensitivity."""
        return math.sqrt(self.steps / (1 - sum(_SHARES))) / self.facts.mu

    @property
    def event(self) -> Event:
        """The releases that whiten the rows, and the noisy steps."""
        relation = self.facts.budget.neighbouring
        first = (Gaussian(noise, relation) for noise in self.preparation)
        steps = step_event("l2", self.noise_multiplier, 1.0, self.steps, relation)
        return Sequence((*first, steps))

    def moment_deviation(self, longest: float) -> float:
        """The deviation s of the noise on the diagonal of the second moments; B is ``longest``."""
        facts = self.facts
        changes = math.sqrt(facts.budget.record_changes)
        more = 1 + rounding(False, facts.n_records)
        return self.preparation[2] * changes * longest**2 * more / facts.n_records

    def solve(
        self, X: Features, codes: FloatArray, rng: RngLike, weights: FloatArray | None = None
    ) -> Solution:
        """Whiten, descend, and go back to the units of X."""
        noise = training_source(rng)
        order = noise.generator.permutation(X.shape[0])
        codes, weights = codes[order], None if weights is None else weights[order]
        white = self._whiten(X, order, noise.generator)
        release = noisy_gradient_descent(
            Rows(white.rows, 0.0),
            targets_of(codes, self.facts.loss, white.rows.dtype),
            self.facts.loss,
            steps=self.steps,
            learning_rate=_RATE,
            clip=white.clip,
            noise_multiplier=self.noise_multiplier,
            n_records=self.facts.n_records,
            neighbouring=self.facts.budget.neighbouring,
            momentum=_MOMENTUM,
            average=_AVERAGE,
            weights=weights,
            shuffled=True,
            rng=noise.generator,
        )
        return Solution(*white.restore(release.value[1:]), noise.level)

    def _whiten(self, X: Features, order: Any, rng: np.random.Generator) -> "_White":
        """Rows in single precision, even in every direction, by three Gaussian releases."""
        facts, changes = self.facts, self.facts.budget.record_changes
        columns, norms, *_ = (changes * noise for noise in self.preparation)
        bound, first = facts.row_bound * _SINGLE, int(facts.fit_intercept)
        rows = _in_single_precision(X, order, first)
        center, sizes, error = column_sizes(rows[:, first:], bound, facts.n_records, columns, rng)
        center = center if facts.fit_intercept else np.zeros_like(center)
        scale = 1 / (sizes + error + 1e-12 * bound)
        scale /= math.sqrt(float(np.mean(scale**2)))
        _move(rows[:, first:], center, scale)
        unit = typical_norm(_norms(rows[:, first:]), bound, norms, rng)
        _move(rows[:, first:], np.zeros_like(center), np.full_like(scale, 1 / unit))
        if first:
            rows[:, 0] = _CONSTANT
        matrix, longest = np.eye(rows.shape[1]), 1.0
        for _ in range(_ROUNDS):
            root, longest = self._root(rows, longest, rng)
            matrix = matrix @ root
            for part in _parts(len(rows)):
                rows[part] = row_products(rows[part], root.astype(np.float32))
        return _White(rows, matrix, center, scale / unit, longest, bool(first))

    def noisy_moments(
        self, rows: FloatArray, longest: float, rng: np.random.Generator
    ) -> FloatArray:
        """G of the module with its noise: the release."""
        noise = rng.standard_normal((rows.shape[1],) * 2)
        # The mean of a matrix and its transpose has half the variance beside the diagonal.
        noise = self.moment_deviation(longest) * (noise + noise.T) / 2
        return second_moments(rows, longest) / self.facts.n_records + noise

    def _root(
        self, rows: FloatArray, longest: float, rng: np.random.Generator
    ) -> tuple[FloatArray, float]:
        """M of the module, and sqrt(d_eff), from the noisy second moments."""
        values, vectors = np.linalg.eigh(self.noisy_moments(rows, longest, rng))
        least = self.moment_deviation(longest) * math.sqrt(2 * len(values))
        values = np.maximum(values, 0.0)
        length = math.sqrt(max(float((values / (values + least)).sum()), 1.0))
        return (vectors / np.sqrt(values + least)) @ vectors.T, length


@dataclass(frozen=True, eq=False)
class _White:
    """Whitened rows M [c, (x - center) scale], and how to get back."""

    rows: FloatArray
    matrix: FloatArray
    center: FloatArray
    scale: FloatArray
    clip: float
    intercept: bool

    def restore(self, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients (K, p) and intercepts (K,), from weights for the rows."""
        weights = self.matrix @ W
        coef = (weights[int(self.intercept) :] * self.scale[:, None]).T
        if not self.intercept:
            return coef, np.zeros(len(coef))
        return coef, _CONSTANT * weights[0] - coef @ self.center


def second_moments(rows: FloatArray, longest: float) -> FloatArray:
    """The sum of f z z' over the rows z, f = min(1, B²/||z||²), B = ``longest``; in double."""

    def of(part: slice) -> FloatArray:
        z = rows[part].astype(np.float64)
        squares = np.vecdot(z, z)
        z *= (longest / np.sqrt(np.maximum(squares, longest**2)))[:, None]
        return z.T @ z

    return sum_of_pieces(of, len(rows))


def _in_single_precision(X: Features, order: Any, first: int) -> FloatArray:
    """The rows in that order, after columns for what comes first; dense, as whitened ones are."""
    n, p = X.shape
    rows = np.zeros((n, first + p), np.float32)
    for part in _parts(n):
        values = X.part(order[part])
        rows[part, first:] = values.toarray() if is_sparse(values) else values
    return rows


def _parts(n: int) -> Any:
    return (slice(i, i + _PART) for i in range(0, n, _PART))


def _move(rows: FloatArray, center: FloatArray, scale: FloatArray) -> None:
    """(rows - center) · scale, in place."""
    for part in _parts(len(rows)):
        rows[part] -= center.astype(np.float32)
        rows[part] *= scale.astype(np.float32)


def _norms(rows: FloatArray) -> FloatArray:
    parts = (np.vecdot(rows[part], rows[part]) for part in _parts(len(rows)))
    return np.sqrt(np.concatenate(list(parts)), dtype=np.float64)
