"""The mean loss of a linear model as a function of one flat vector, as Frank-Wolfe takes it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.optim.losses import Loss, Rows
from dpassay.optim.products import most_rows, refuse_more_rows, sum_error
from dpassay.types import FloatArray


@dataclass(frozen=True, eq=False)
class LinearObjective:
    """(1/n_records) · sum of losses over the records, in w = W.ravel() with W of shape (1 + p, K).

    Without intercept (``rows.constant == 0``) row 0 of W is left out of w.

    Attributes:
        loss: one of :mod:`dpassay.optim.losses`.
        rows: the records.
        targets: one per record.
        n_records: the divisor: a public number, which need not be how many records there are. Under
            add-remove it must be the same for both neighbours.

    Gradients are shortened by what rounding may add to the change of one
    (:func:`~dpassay.optim.products.sum_error`, 4.8e-6 for up to 2²² records), so that the
    sensitivity of exact ones bounds the change of those computed.
    """

    loss: Loss
    rows: Rows
    targets: FloatArray
    n_records: float

    def __post_init__(self) -> None:
        refuse_more_rows(self.rows.shape[0], self.n_records)

    @property
    def dimension(self) -> int:
        """The number of coefficients in w."""
        return (self.rows.shape[1] - self._skipped) * self.loss.n_scores

    def value(self, w: FloatArray) -> float:
        """The objective at w; not private."""
        return float(self.loss.value(self._scores(w), self.targets).sum() / self.n_records)

    def gradient(self, w: FloatArray) -> FloatArray:
        """Its gradient but for rounding (see the class), flat; not private."""
        residuals = self.loss.residual(self._scores(w), self.targets)
        divisor = self.n_records * (1 + sum_error(most_rows(self.n_records)))
        return self.rows.adjoint(residuals)[self._skipped :].ravel() / divisor

    def batch(self, rows: Any, n_records: float) -> "LinearObjective":
        """The objective of some of the records, divided by another public number."""
        return LinearObjective(self.loss, self.rows.take(rows), self.targets[rows], n_records)

    def matrix(self, w: FloatArray) -> FloatArray:
        """The flat vector as W, of shape (1 + p, K); row 0 belongs to the constant."""
        W = np.zeros((self.rows.shape[1], self.loss.n_scores))
        W[self._skipped :] = np.reshape(w, (-1, self.loss.n_scores))
        return W

    @property
    def _skipped(self) -> int:
        return int(self.rows.constant == 0)

    def _scores(self, w: FloatArray) -> FloatArray:
        return self.rows.scores(self.matrix(w))
