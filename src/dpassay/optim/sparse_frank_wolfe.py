"""Frank-Wolfe on an l1 ball for CSR data: a step costs what it touches, not the size of the data.

A step towards ±C e_j changes the margins Xw of the rows that have feature j, and by a common factor
those of all others. So w = a ŵ and Xw = a v̂ are kept with the factor a apart: a step changes ŵ_j
and the v̂ of the rows of column j, and then the gradient in the columns that these rows have. The
vertex is drawn by :class:`~dpassay.optim.signed_sampler.SignedSampler`, whose distribution given
the scores is exactly the exponential mechanism's, in about √p operations (after Raff, Khanna and Lu
2023). Where a step touches so much that computing the gradient anew is cheaper, that is done.

**Squared loss: exact scores.** The gradient (1/N) X'(a v̂ - y) is a h - b with h = X'v̂/N, which
changes in the touched columns only. All scores drift with a, linearly, so that over a window of a
each |a h_j - b_j| is at most the larger of its values at the ends: those are the sampler's bounds,
and its acceptance step uses the exact value.

**Other losses: stale residuals.** The residual q_i = l'(a v̂_i, y_i) of a row that is not touched
would change with a, though little. It is kept as of the last time that the row was touched or
*refreshed*: when a has shrunk by a fixed share since the last refresh, every row whose residual is
off by more than a tolerance gets its present one. The scores in use are -C (X'q)_j/N with those q.

**Sensitivity of the stale scores.** Let h be the selections so far. When row i was last touched is
determined by which of the selected columns i has entries in; when refreshes fall is determined by
the step sizes alone, and whether row i takes part in one by its own margin and residual. The margin
of row i is a function of x_i and of w, which is a function of h. So q_i = q(x_i, y_i; h): it
depends on record i and the public history, *on no other record*. Hence given h each score is a sum
over records of terms -C x_ij q_i/N, each within ±C Rinf · sup|l'|/N = L0 C1/N, and adding or
removing a record adds or removes its term and changes no other; replacing one changes it by at most
2 L0 C1/N. These are the sensitivities of the exact scores, and the composition is the same. What
must not be done, and is not: to refresh when the data say so, for example when many rows are off or
when a step touches many entries; then one record could change the terms of all others. Computing
the gradient anew when that is cheaper uses the same q, and so is the same function of the data up
to rounding.

The price of staleness is accuracy alone; the benchmark compares the losses.

**Rounding.** Sums that are added to step by step drift from the sums that they stand for. Scores
are shortened as those of the dense solver are (:class:`~dpassay.optim.objectives.LinearObjective`),
by 4.8e-6 at least. That is ten thousand times the drift seen (4e-10 of one record after 2000 steps
on 10⁵ rows), but no proof for every data set, as it is for the dense solver. The sampler adds up
weights in floats: a vertex is drawn with its probability to within about 1e-12 of them all, which
is an additional delta of that size per step and not part of the event. The level of the noise is
therefore "cryptographic", not "exact" as that of the dense solver.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import training_source
from dpassay.optim.frank_wolfe import Selection, Solution, StepRule, step_rule
from dpassay.optim.losses import Loss, Squared
from dpassay.optim.products import most_rows, refuse_more_rows, sum_error
from dpassay.optim.signed_sampler import SignedSampler
from dpassay.privacy import events
from dpassay.types import FloatArray

_WINDOW = 0.3  # the share by which a shrinks between refreshes
_OFF = 0.01  # of the largest residual: what a refresh leaves alone, at least
_TINY = 1e-100
_MANY_ROWS = 200
_ATTEMPTS = 30


def sparse_frank_wolfe(
    X: Any,
    targets: FloatArray,
    loss: Loss,
    *,
    radius: float,
    n_records: float,
    steps: int,
    selection: Selection,
    constant: float = 0.0,
    step: StepRule = None,
    rng: RngLike = None,
) -> Solution:
    """What :func:`~dpassay.optim.frank_wolfe.frank_wolfe` returns on an l1 ball, for sparse data.

    Private as that is: ``steps`` times the event of the selection, with the same sensitivity (proof
    in the module). For the squared loss the vertices have the same distribution; for others, whose
    scores are slightly stale, nearly. X is never densified; memory is that of X in CSR and CSC.

    Args:
        X: CSR matrix of shape (n, p), rows within their declared bound.
        targets: one per record, within their declared bound.
        loss: one of :mod:`dpassay.optim.losses` with a single score.
        radius: C1, of the l1 ball.
        n_records: the public number that the sum of losses is divided by.
        steps: T, at least 1.
        selection: of kind "gumbel".
        constant: the value of a feature that carries an intercept, penalised as all others, which
            then is coordinate 0 of w; 0 for none.
        step: None for 2/(t + 2), a number in (0, 1], or a function of t.
        rng: None for secure noise; a seed or generator for noise that can be replayed.

    Returns:
        The solution; vertices are numbered as in :class:`~dpassay.optim.polytopes.L1Ball`.

    """
    steps = _check.count("steps", steps, remedy="It is the number of steps.")
    radius = _check.number("radius", radius, low=0, low_open=True)
    n_records = _check.number("n_records", n_records, low=0, low_open=True)
    _sample(selection)
    if loss.n_scores != 1:
        raise InvalidArgument(f"loss={loss!r} must have a single score. Use frank_wolfe.")
    noise = training_source(rng)  # the sampler computes in floats: see "Rounding"
    data = _Columns(X, constant)
    refuse_more_rows(data.n_rows, n_records)
    divisor = n_records * (1 + sum_error(most_rows(n_records)))
    keeper = (_Exact if isinstance(loss, Squared) else _Stale)(
        data, np.asarray(targets, np.float64), loss, radius / (divisor * selection.scale)
    )
    # All residuals off by this much, the same way, would move a score by half a scale of the noise.
    keeper.off = loss.residual_bound[math.inf] * max(_OFF, 1 / (selection.epsilon * n_records))
    rule, vertices = step_rule(step), np.empty(steps, np.intp)
    for t in range(steps):
        j, sign = keeper.draw(noise.generator)
        vertices[t] = j if sign > 0 else j + data.n_columns
        gamma = rule(t)
        keeper.move(j, sign * gamma * radius, 1 - gamma)
    event = events.Repeated(selection.event, steps)
    return Solution(keeper.a * keeper.w, vertices, event, noise.level)


def _sample(selection: Selection) -> None:
    if selection.kind != "gumbel":
        raise InvalidArgument(
            f"selection.kind={selection.kind!r} must be 'gumbel': only the exponential mechanism "
            "is sampled in less than one operation per vertex. Use frank_wolfe for others."
        )


class _Columns:
    """A sparse matrix by rows and by columns, and how to add up rows."""

    def __init__(self, X: Any, constant: float) -> None:
        if not sparse.issparse(X):
            raise InvalidArgument("X must be a sparse matrix. For dense data use frank_wolfe.")
        X = X.tocsr()
        if constant:
            first = sparse.csr_matrix(np.full((X.shape[0], 1), float(constant)))
            X = sparse.hstack([first, X], format="csr")
        if not X.has_canonical_format:  # the caller's matrix stays as it is
            X = X.copy()
            X.sum_duplicates()
        self.by_row, self.by_column = X, X.T.tocsr()
        self.n_rows, self.n_columns = X.shape
        self.lengths = np.diff(X.indptr)
        self.longest = int(self.lengths.max(initial=0))
        # From here on adding up entries, at random places, costs more than X'q and all scores anew.
        self.most = (X.nnz + 6 * self.n_columns) // 12

    def column(self, j: int) -> tuple[Any, FloatArray]:
        """The rows that have feature j, and its values there."""
        part = slice(self.by_column.indptr[j], self.by_column.indptr[j + 1])
        return self.by_column.indices[part], self.by_column.data[part]

    def is_cheap(self, rows: Any) -> bool:
        """Whether adding up those rows costs less than everything anew."""
        return len(rows) * self.longest < self.most or self.lengths[rows].sum() < self.most

    def add_rows(self, rows: Any, factors: FloatArray, total: FloatArray) -> Any:
        """Add factor times row to the total; returns the columns that changed, or None for many."""
        columns, values, lengths = self._entries(rows)
        np.add.at(total, columns, values * np.repeat(factors, lengths))
        return columns if 4 * len(columns) < self.n_columns else None

    def _entries(self, rows: Any) -> tuple[Any, FloatArray, Any]:
        """The columns and values of some rows, one after another, and how many each row has."""
        if len(rows) > _MANY_ROWS:  # then SciPy is faster, in spite of what it costs to call
            part = self.by_row[rows]
            return part.indices.astype(np.intp), part.data, np.diff(part.indptr)
        lengths = self.lengths[rows]
        before = lengths.cumsum() - lengths
        at = np.repeat(self.by_row.indptr[rows] - before, lengths)
        at = at + np.arange(len(at))
        return self.by_row.indices.take(at).astype(np.intp), self.by_row.data.take(at), lengths


class _Keeper(ABC):
    """The iterate, the margins and the sampler; kinds differ in how scores follow the margins.

    Sums over records are kept, and multiplied by ``rate`` to become exponents of the sampler.
    """

    sampler: SignedSampler
    window = _WINDOW
    off = 0.0

    def __init__(self, data: _Columns, targets: FloatArray, loss: Loss, rate: float) -> None:
        self.data, self.targets, self.loss, self.rate = data, targets, loss, rate
        self.a, self.low = 1.0, 1 - _WINDOW
        self.w = np.zeros(data.n_columns)
        self.margins = np.zeros(data.n_rows)

    @abstractmethod
    def exponent(self, j: int) -> float:
        """The score of +C e_j over the scale of the noise."""

    @abstractmethod
    def follow(self, rows: Any, change: FloatArray, refresh: bool) -> None:
        """Bring the scores up to date after a has changed, and the margins of some rows."""

    def draw(self, generator: np.random.Generator) -> tuple[int, int]:
        """The index of a vertex, drawn by the exponential mechanism."""
        while True:
            drawn = self.sampler.draw(generator, self.exponent, _ATTEMPTS)
            if drawn is not None:
                return drawn
            self.tighten()

    def tighten(self) -> None:  # noqa: B027 (some kinds have nothing to do)
        """Give the sampler better bounds, where there are any."""

    def move(self, j: int, amount: float, shrink: float) -> None:
        """Replace w by shrink · w + amount · e_j."""
        self.a *= shrink
        if self.a < _TINY:  # also where it is 0, after a step of 1
            self.rescale(self.a)
        rows, values = self.data.column(j)
        change = values * (amount / self.a)
        self.w[j] += amount / self.a
        self.margins[rows] += change
        refresh = self.a < self.low
        if refresh:
            self.low = (1 - self.window) * self.a
        self.follow(rows, change, refresh)

    def rescale(self, factor: float) -> None:
        """Move the factor a into what it multiplies."""
        self.w *= factor
        self.margins *= factor
        self.a, self.low = 1.0, math.inf


class _Exact(_Keeper):
    """Squared loss: the sum of gradients is a h - b."""

    def __init__(self, data: _Columns, targets: FloatArray, loss: Loss, rate: float) -> None:
        super().__init__(data, targets, loss, rate)
        self.b, self.h = data.by_column @ targets, np.zeros(data.n_columns)
        self.high = 1.0
        self.sampler = SignedSampler(self.bounds(self.h, self.b))

    def exponent(self, j: int) -> float:
        return -self.rate * (self.a * self.h[j] - self.b[j])

    def bounds(self, h: FloatArray, b: FloatArray) -> FloatArray:
        """On the exponents, for every a between low and high, as they are linear in a."""
        ends = np.maximum(np.abs(self.high * h - b), np.abs(self.low * h - b))
        return self.rate * (1 + 1e-12) * ends

    def follow(self, rows: Any, change: FloatArray, refresh: bool) -> None:
        columns = None
        if self.data.is_cheap(rows):
            columns = self.data.add_rows(rows, change, self.h)
        else:
            self.h = self.data.by_column @ self.margins
        if refresh:
            self.high, self.window = self.a, min(1.1 * self.window, _WINDOW)
        if refresh or columns is None:
            self.sampler.reset(self.bounds(self.h, self.b))
        else:
            self.sampler.update(columns, self.bounds(self.h[columns], self.b[columns]))

    def tighten(self) -> None:
        """Bounds for the present a alone; windows become narrower, which no draw can tell."""
        self.low = self.high = self.a
        self.window /= 2
        self.sampler.reset(self.bounds(self.h, self.b))

    def rescale(self, factor: float) -> None:
        super().rescale(factor)
        self.h *= factor


class _Stale(_Keeper):
    """Other losses: the residuals of rows that were not touched are as of the last refresh."""

    def __init__(self, data: _Columns, targets: FloatArray, loss: Loss, rate: float) -> None:
        super().__init__(data, targets, loss, rate)
        self.residuals = self.present(slice(None))
        self.sums = data.by_column @ self.residuals
        self.sampler = SignedSampler(rate * np.abs(self.sums))

    def exponent(self, j: int) -> float:
        return -self.rate * self.sums[j]

    def present(self, rows: Any) -> FloatArray:
        """The residuals at the present margins."""
        scores = self.a * self.margins[rows]
        return self.loss.residual(scores[:, None], self.targets[rows])[:, 0]

    def follow(self, rows: Any, change: FloatArray, refresh: bool) -> None:
        if refresh:
            rows = self.due(rows)
        present = self.present(rows)
        change = present - self.residuals[rows]
        self.residuals[rows] = present
        columns = None
        if self.data.is_cheap(rows):
            columns = self.data.add_rows(rows, change, self.sums)
        else:
            self.sums = self.data.by_column @ self.residuals
        if columns is None:
            self.sampler.reset(self.rate * np.abs(self.sums))
        else:
            self.sampler.update(columns, self.rate * np.abs(self.sums[columns]))

    def due(self, touched: Any) -> Any:
        """The touched rows, and those whose own residual is off."""
        due = np.abs(self.present(slice(None)) - self.residuals) > self.off
        due[touched] = True
        return np.flatnonzero(due)
