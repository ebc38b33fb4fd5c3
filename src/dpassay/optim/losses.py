"""Losses of linear models, and the rows they are taken on.

A linear model scores a record x by z = [c, x]'W, with W of shape (1 + p, K) and c a constant (1, or
0 for a model without intercept). Its loss is a function of z and the target alone, so that its
gradient in W is the outer product of [c, x] with the *residual*, the derivative in z. Every norm of
a gradient is therefore the product of two norms of vectors, and none is ever formed (Goodfellow
2015): that is what makes clipping cheap here.

Objectives are means over the records; constants hold for every record and every W. With
R2 = ||[c, x]||_2 and Rinf = ||[c, x]||_inf:

==================== ========================== ==================================================
                     squared, Huber             logistic, multinomial
==================== ========================== ==================================================
l2 Lipschitz         |residual| R2              R2 (logistic), sqrt(2) R2 (multinomial)
l0: sup of entries   |residual| Rinf            Rinf
l2 smoothness        R2²                        R2²/4 (logistic), R2²/2 (multinomial)
l1-linf smoothness   Rinf²                      Rinf²/4
==================== ========================== ==================================================

The residual of the squared loss is bounded only where predictions are: by C1 Rinf + Y on an l1 ball
of radius C1. The Micali 2022 prints sums for means, and "Lipschitz" for smoothness; see
``docs/corrections.md``.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import special

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.optim.products import (
    is_sparse,
    product_by_blocks,
    product_in_double,
    row_products,
    some_rows,
    sum_of_pieces,
)
from dpassay.types import FloatArray


class Loss(Protocol):
    """A convex loss of scores (n, K) against targets (n,).

    The residual of a record is a function of its own scores and target, bit for bit: were it
    rounded differently in other company, taking out one record would change all the others'.
    ``residual_bound`` is the most that a residual measures, by the order of the norm (1, 2, inf);
    ``curvature`` the largest eigenvalue of the second derivative in the scores;
    ``entry_curvature`` its largest entry.
    """

    @property
    def n_scores(self) -> int: ...
    @property
    def residual_bound(self) -> dict[float, float]: ...
    @property
    def curvature(self) -> float: ...
    @property
    def entry_curvature(self) -> float: ...

    def value(self, scores: FloatArray, targets: FloatArray) -> FloatArray: ...
    def residual(self, scores: FloatArray, targets: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class Squared:
    """Half the squared error, (z - y)²/2.

    ``bound`` states the most that |z - y| can be on the set that is optimised over (C1 Rinf + Y on
    an l1 ball of radius C1); without it the loss is not Lipschitz.
    """

    bound: float = math.inf
    n_scores = 1
    curvature = 1.0
    entry_curvature = 1.0

    def __post_init__(self) -> None:
        _check.number("bound", self.bound, low=0, low_open=True, finite=False, remedy=_POSITIVE)

    @property
    def residual_bound(self) -> dict[float, float]:
        """The same in every norm: there is one score."""
        return dict.fromkeys((1, 2, math.inf), self.bound)

    def value(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """One loss per record."""
        return np.square(scores[:, 0] - targets) / 2

    def residual(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The error z - y, of shape (n, 1)."""
        return scores - targets[:, None]


@dataclass(frozen=True)
class Huber:
    """Half the squared error up to ``bound``, linear beyond: residuals never exceed the bound.

    It needs no assumption on predictions or targets, and equals the squared loss where all
    residuals are within the bound.
    """

    bound: float
    n_scores = 1
    curvature = 1.0
    entry_curvature = 1.0

    def __post_init__(self) -> None:
        _check.number("bound", self.bound, low=0, low_open=True, remedy=_POSITIVE)

    @property
    def residual_bound(self) -> dict[float, float]:
        """The same in every norm: there is one score."""
        return dict.fromkeys((1, 2, math.inf), self.bound)

    def value(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """One loss per record."""
        return special.huber(self.bound, scores[:, 0] - targets)

    def residual(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The error z - y, clipped to the bound, of shape (n, 1)."""
        return np.clip(scores - targets[:, None], -self.bound, self.bound)


@dataclass(frozen=True)
class Logistic:
    """log(1 + e^z) - y z for targets y of 0 and 1."""

    n_scores = 1
    curvature = 0.25
    entry_curvature = 0.25

    @property
    def residual_bound(self) -> dict[float, float]:
        """|sigmoid(z) - y| < 1 in every norm."""
        return dict.fromkeys((1, 2, math.inf), 1.0)

    def value(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """One loss per record."""
        return np.logaddexp(0, scores[:, 0]) - targets * scores[:, 0]

    def residual(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """sigmoid(z) - y, of shape (n, 1)."""
        return special.expit(scores) - targets[:, None]


@dataclass(frozen=True)
class Multinomial:
    """log sum_k e^(z_k) - z_y for targets y of 0 to ``n_scores`` - 1.

    The second derivative diag(p) - pp' has eigenvalues of at most 1/2 and entries of at most 1/4;
    the residual p - e_y has l2 norm up to sqrt(2) and l1 norm up to 2.
    """

    n_scores: int
    curvature = 0.5
    entry_curvature = 0.25

    def __post_init__(self) -> None:
        _check.count("n_scores", self.n_scores, low=2, remedy="It is the number of classes.")

    @property
    def residual_bound(self) -> dict[float, float]:
        """The most that the difference of a distribution and a point mass measures, by norm."""
        return {1: 2.0, 2: math.sqrt(2), math.inf: 1.0}

    def value(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """One loss per record."""
        chosen = np.take_along_axis(scores, targets[:, None].astype(np.intp), axis=1)
        return special.logsumexp(scores, axis=1) - chosen[:, 0]

    def residual(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """softmax(z) - e_y, of shape (n, K)."""
        # A class is a row here: maxima and sums over ten short columns are slow one by one.
        by_class = np.array(scores.T, order="C")
        by_class -= by_class.max(axis=0)
        np.exp(by_class, out=by_class)
        # Of a single column NumPy adds up in another order than of many; two columns are many.
        sums = by_class.sum(axis=0) if len(scores) > 1 else np.repeat(by_class, 2, 1).sum(axis=0)
        by_class /= sums[: len(scores)]
        by_class[targets.astype(np.intp), np.arange(len(scores))] -= 1
        return by_class.T


_POSITIVE = "It is the most that |prediction - target| may be; derive it from declared bounds."


@dataclass(frozen=True)
class Rows:
    """The records of a linear model: a dense array or a CSR matrix, never densified.

    Attributes:
        X: of shape (n, p).
        constant: the value of the feature that carries the intercept; 0 for none.
        center: a public point that is subtracted from every row, or none.

    """

    X: Any
    constant: float = 1.0
    center: FloatArray | None = None

    def __post_init__(self) -> None:
        X = without_duplicates(self.X)
        # A record is looked at as a whole, so that its numbers stand together.
        object.__setattr__(self, "X", X if is_sparse(X) else np.ascontiguousarray(X))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, 1 + p): records, and rows of W."""
        return self.X.shape[0], 1 + self.X.shape[1]

    def take(self, rows: Any) -> "Rows":
        """Some of the records, by their numbers or by a mask."""
        by_number = not is_sparse(self.X) and getattr(rows, "dtype", None) == np.intp
        # Two thirds of the time of indexing; but a mask would be taken for numbers.
        some = self.X.take(rows, axis=0) if by_number else self.X[rows]
        return Rows(some, self.constant, self.center)

    def scores(self, W: FloatArray) -> FloatArray:
        """[c, x - center]'W for every record, of shape (n, K).

        A record's scores are a function of the record and W, bit for bit
        (:func:`~dpassay.optim.products.row_products`).
        """
        shift = self.constant * W[0]
        if self.center is not None:
            shift = shift - self.center @ W[1:]
        scores = row_products(self.X, W[1:])
        scores += shift
        return scores

    def adjoint(self, residuals: FloatArray, *, single: bool = False) -> FloatArray:
        """The sum over records of [c, x - center] times residual, of shape (1 + p, K).

        In double precision whatever the rows are in: a sum in single precision can move by many
        times the record that is taken out, because all that is added later is rounded differently
        (Casacuberta et al. 2022). With ``single`` the products of 64 dense rows at a time are in
        the rows' own precision, and only their sum is in double: a third of the time, for callers
        that charge for it (:func:`dpassay.optim.clipping.rounding`).
        """
        product = product_by_blocks if single else product_in_double
        n, p = self.X.shape
        total = sum_of_pieces(lambda part: residuals[part].sum(axis=0, dtype=np.float64), n)
        gradient = np.empty((1 + p, len(total)), order="F")
        gradient[0] = self.constant * total
        gradient[1:] = sum_of_pieces(
            lambda part: product(some_rows(self.X, part), residuals[part]), n
        )
        if self.center is not None:
            gradient[1:] -= np.outer(self.center, total)
        return gradient

    def norms(self, order: float = 2) -> FloatArray:
        """||[c, x - center]|| of every record, for order 1, 2 or inf; in double precision."""
        if order not in _ROW_NORMS:
            raise InvalidArgument(f"order={order!r} must be 1, 2 or inf; it names a norm.")
        return _ROW_NORMS[order](self.X, abs(float(self.constant)), self.center)


def _l2(X: Any, constant: float, center: FloatArray | None) -> FloatArray:
    squared = _squared_norms(X)
    if center is None:
        return np.sqrt(squared + constant**2)
    own = float(center @ center)
    # ||x||² - 2 x'm + ||m||² cancels; the most that rounding can take away is added back.
    rounding = (16 + X.shape[1]) * np.finfo(X.dtype).eps * (squared + own)
    along = row_products(X, center.astype(X.dtype)[:, None])[:, 0].astype(float)
    apart = squared - 2 * along + own
    return np.sqrt(np.maximum(apart, 0) + rounding + constant**2)


def _squared_norms(X: Any) -> FloatArray:
    if is_sparse(X):
        lost = 2 * np.diff(X.indptr) * np.finfo(np.float64).tiny
        return _row_sums(X, np.square(X.data, dtype=np.float64)) + lost
    with np.errstate(over="ignore"):  # a row too long to be measured is infinitely long
        squared = np.vecdot(X, X).astype(np.float64)
    # A sum of p squares may lose a share p eps of itself, and where a square or a sum is too small
    # for the precision, as much as its smallest number: both are added back.
    kind = np.finfo(X.dtype)
    return squared * (1 + (2 + X.shape[1]) * kind.eps) + 2 * X.shape[1] * float(kind.tiny)


def _l1(X: Any, constant: float, center: FloatArray | None) -> FloatArray:
    if not is_sparse(X):
        sizes = np.abs(X if center is None else X - center)
        sums = np.vecdot(sizes, np.ones(sizes.shape[1], sizes.dtype)).astype(float)
        return constant + sums * (1 + sizes.shape[1] * np.finfo(sizes.dtype).eps)
    if center is None:
        return constant + _row_sums(X, np.abs(X.data.astype(float)))
    at = center[X.indices]
    return constant + np.abs(center).sum() + _row_sums(X, np.abs(X.data - at) - np.abs(at))


def _row_sums(X: Any, values: FloatArray) -> FloatArray:
    """The sums of values that stand where the entries of a CSR matrix do."""
    return np.asarray(type(X)((values, X.indices, X.indptr), X.shape).sum(axis=1)).ravel()


def _linf(X: Any, constant: float, center: FloatArray | None) -> FloatArray:
    if center is not None and is_sparse(X):
        raise InvalidArgument(
            "order=inf is not supported for sparse rows with a center. Pass center=None; "
            "subtracting it would make every row dense."
        )
    if is_sparse(X):
        largest = np.asarray(abs(X).max(axis=1).todense(), float).ravel()
    else:
        largest = np.abs(X if center is None else X - center).max(axis=1, initial=0).astype(float)
    return np.maximum(largest, constant)


_ROW_NORMS = {1: _l1, 2: _l2, math.inf: _linf}


def without_duplicates(X: Any) -> Any:
    """X itself; for a CSR matrix that has entries twice, a copy in which they are added up.

    Norms and bounds are taken entry by entry: k entries in one place would each be within the
    bound, and their sum k times above it.
    """
    if not is_sparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def mean_loss(
    loss: Loss, rows: Rows, targets: FloatArray, W: FloatArray, *, n_records: int
) -> float:
    """The sum of the records' losses at W over ``n_records``; a statistic of the data, not private.

    The number is asked for, as the number of rows at hand is no public divisor.
    """
    return float(loss.value(rows.scores(W), targets).sum()) / _check.count("n_records", n_records)


def mean_gradient(
    loss: Loss, rows: Rows, targets: FloatArray, W: FloatArray, *, n_records: int
) -> FloatArray:
    """The gradient of :func:`mean_loss` in W, of its shape; neither clipped nor private."""
    total = rows.adjoint(loss.residual(rows.scores(W), targets))
    return total / _check.count("n_records", n_records)


def lipschitz(loss: Loss, row_bound: float, order: float = 2) -> float:
    """An upper bound on the norm of one record's gradient, in the norm of that order.

    Args:
        loss: the loss of one record.
        row_bound: on ||[c, x]|| in the same norm; for order inf that is max(c, ||x||_inf).
        order: 1, 2, or inf, which gives the Micali 2022's L0 (the dual of the l1 ball's norm).

    >>> lipschitz(Multinomial(3), math.sqrt(2))
    2.0

    """
    row_bound = _check.number("row_bound", row_bound, low=0, remedy="It bounds a norm of [c, x].")
    return loss.residual_bound[order] * row_bound


def smoothness(loss: Loss, row_bound: float, order: float = 2) -> float:
    """An upper bound on how fast one record's gradient changes: ||g(V) - g(W)||_* / ||V - W||.

    Args:
        loss: the loss of one record.
        row_bound: on ||[c, x]||_2 for order 2, on ||[c, x]||_inf for order 1.
        order: 2 for l2 against l2; 1 for l1 (changes of W) against l_inf (of the gradient), the
            L1 of Micali 2022.

    >>> smoothness(Logistic(), 2.0)
    1.0

    """
    row_bound = _check.number("row_bound", row_bound, low=0, remedy="It bounds a norm of [c, x].")
    if order not in (1, 2):
        raise InvalidArgument(f"order={order!r} must be 1 or 2; it names the norm of W.")
    return (loss.curvature if order == 2 else loss.entry_curvature) * row_bound**2
