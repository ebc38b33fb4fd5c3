"""Rows, targets and labels inside what was declared of them; nothing is read off the data."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
from scipy import sparse

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.optim.losses import without_duplicates
from dpassay.types import FloatArray

Norm = Literal["l2", "inf"]
Pair = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Features:
    """Rows inside their declared bound, and the public affine map that took them there.

    Attributes:
        source: X as given, dense or CSR.
        inside: what takes rows of X inside their bound, each as a function of that row alone.
        norm: the bound on every row of :attr:`values`, in ``kind``.
        kind: "l2" or "inf".
        centre: subtracted from every column; 0 for sparse input, whose zeros stay zeros.
        scale: then divided by.

    """

    source: Any
    inside: Callable[[Any], Any]
    norm: float
    kind: Norm
    centre: FloatArray
    scale: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of records and of features."""
        return self.source.shape

    @cached_property
    def values(self) -> Any:
        """(X - centre) / scale, every row clipped; CSR if X was sparse."""
        return self.inside(self.source)

    def part(self, rows: Any) -> Any:
        """Some rows of :attr:`values`, by slice or number, without the others being made."""
        return self.inside(self.source[rows])

    @property
    def n_numbers(self) -> int:
        """How many numbers are stored: what products with the rows take time for."""
        return int(self.source.nnz if sparse.issparse(self.source) else self.source.size)

    def restore(self, coef: FloatArray, intercept: Any = 0.0) -> tuple[FloatArray, Any]:
        """Coefficients (…, p) and intercept for ``values``, as those that apply to X itself."""
        coef = np.asarray(coef) / self.scale
        return coef, intercept - coef @ self.centre


def bound_features(
    X: Any, data_norm: Any, bounds: Any, kind: Norm = "l2", names: Sequence[str] | None = None
) -> Features:
    """The rows of X, clipped to what was declared.

    Args:
        X: dense (n, p) or CSR, validated; it is not modified.
        data_norm: bound on every row, in the l2 or the infinity norm according to ``kind``. With
            ``bounds`` it applies after scaling.
        bounds: (low, high), numbers or one per feature; a list of such pairs of numbers, one per
            feature; or a mapping from names of features to pairs. Entries are clipped to them, then
            centred and scaled to [-1, 1] (sparse: scaled by max(|low|, |high|); zeros stay).
        kind: the norm that the solver's sensitivity is stated in.
        names: of the features, if X had any.

    Raises:
        InvalidArgument: neither bound is declared; one is not positive or not finite.

    """
    if data_norm is None and bounds is None:
        raise InvalidArgument(
            f"data_norm=None: the bound on the {kind} norm of a row is missing. Reading it from "
            "the data would leak the largest record; declare data_norm=1.0, or "
            "bounds=(low, high) per feature."
        )
    X = without_duplicates(X)
    p = X.shape[1]
    centre, scale = np.zeros(p), np.ones(p)
    norm, maps = math.inf, []
    if bounds is not None:
        to_bounds, centre, scale = _scaling_to_bounds(X, bounds, names)
        norm = math.sqrt(p) if kind == "l2" else 1.0
        maps.append(to_bounds)
    if data_norm is not None:
        remedy = "It bounds the norm of every row."
        given = _check.number("data_norm", data_norm, low=0, low_open=True, remedy=remedy)
        if given < norm:
            norm = given
            maps.append(lambda rows: _clip_rows(rows, given, kind))
    return Features(
        X, lambda rows: reduce(lambda x, f: f(x), maps, rows), norm, kind, centre, scale
    )


def as_they_are(X: Any) -> Features:
    """The rows without a bound, for fits without privacy."""
    p = X.shape[1]
    return Features(X, lambda rows: rows, math.inf, "l2", np.zeros(p), np.ones(p))


def _scaling_to_bounds(
    X: Any, bounds: Any, names: Sequence[str] | None
) -> tuple[Callable[[Any], Any], FloatArray, FloatArray]:
    """The map of rows of X, or of some of them, and its centre and scale."""
    low, high = _low_and_high(_as_ends(bounds, X.shape[1], names), X.shape[1])
    if not sparse.issparse(X):
        centre, scale = (low + high) / 2, (high - low) / 2

        def scale_dense(rows: Any) -> Any:
            rows = np.clip(rows, low, high)  # a copy, which the rest is done in
            rows -= centre
            rows /= scale
            return rows

        return scale_dense, centre, scale
    if not ((low <= 0) & (high >= 0)).all():
        raise InvalidArgument("bounds must contain 0 in every column of a sparse X.")
    scale = np.maximum(-low, high)

    def scale_sparse(rows: Any) -> Any:
        columns = rows.indices
        data = np.clip(rows.data, low[columns], high[columns]) / scale[columns]
        return sparse.csr_matrix((data, columns, rows.indptr), rows.shape)

    return scale_sparse, np.zeros_like(scale), scale


def _as_ends(bounds: Any, n_features: int, names: Sequence[str] | None) -> Any:
    """Bounds by name or feature as (lows, highs); all else as it is."""
    if isinstance(bounds, Mapping):
        return _as_ends(_in_order(bounds, names), n_features, names)
    pairs = isinstance(bounds, list | tuple) and all(map(_is_pair, bounds)) and len(bounds) > 0
    if not pairs:
        return bounds
    if isinstance(bounds, list):
        if len(bounds) != n_features:
            raise InvalidArgument(
                f"bounds has {len(bounds)} pairs for {n_features} features. Give one (low, high) "
                "per feature, or one for all as a tuple."
            )
        return tuple(zip(*bounds, strict=True))
    if n_features == 2 and all(isinstance(part, tuple) for part in bounds):
        raise InvalidArgument(
            "bounds is a tuple of two pairs for two features: each could be a feature or an end. "
            "Pass a list of pairs, one (low, high) per feature, or a mapping by name."
        )
    return bounds


def _is_pair(part: Any) -> bool:
    return isinstance(part, list | tuple) and len(part) == 2 and all(map(np.isscalar, part))


def _in_order(bounds: Mapping[Any, Any], names: Sequence[str] | None) -> list[Any]:
    """Pairs in the order of the features."""
    if names is None:
        raise InvalidArgument(
            "bounds names features, but X has no names. Pass X as a frame, or bounds as a list of "
            "pairs, one (low, high) per feature."
        )
    known = {str(name): pair for name, pair in bounds.items()}
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidArgument(
            f"bounds for column {missing[0]!r} are missing. Reading them from the data would leak "
            f"it; declare them, e.g. bounds={{{missing[0]!r}: (0, 120)}}."
        )
    unknown = [name for name in known if name not in set(names)]
    if unknown:
        raise InvalidArgument(f"bounds names {unknown[0]!r}, which is no column of X.")
    wrong = [name for name in names if not _is_pair(known[name])]
    if wrong:
        raise InvalidArgument(f"bounds[{wrong[0]!r}] must be a pair of numbers (low, high).")
    return [known[name] for name in names]


def _low_and_high(bounds: Any, n_features: int) -> tuple[FloatArray, FloatArray]:
    remedy = "Declare bounds=(low, high), each a number or one number per feature."
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise InvalidArgument(f"bounds={_check.shown(bounds)} must be a pair. {remedy}") from None
    ends = []
    for name, end in (("low", low), ("high", high)):
        end = _check.array(f"bounds {name}", end, remedy=remedy)
        if end.shape not in ((), (n_features,)):
            raise InvalidArgument(
                f"bounds {name} has shape {end.shape} for {n_features} features. {remedy}"
            )
        ends.append(np.broadcast_to(end, (n_features,)).astype(np.float64))
    if not (ends[0] < ends[1]).all():
        raise InvalidArgument(f"bounds must have low < high in every column. {remedy}")
    return ends[0], ends[1]


def _clip_rows(X: Any, norm: float, kind: Norm) -> Any:
    """X with every row inside the ball; X itself where every row already is."""
    if kind == "inf":
        limit = X.dtype.type(norm)
        limit = limit if float(limit) <= norm else np.nextafter(limit, X.dtype.type(0))
        if sparse.issparse(X):
            data = np.clip(X.data, -limit, limit)
            return sparse.csr_matrix((data, X.indices, X.indptr), X.shape)
        return np.clip(X, -limit, limit)
    norms = row_norms(X)
    if (norms <= norm).all():
        return X
    inside = norm * (1 - 4 * np.finfo(X.dtype).eps)  # so that rounding the product is no excess
    with np.errstate(over="ignore", divide="ignore"):
        factors = np.where(norms <= norm, 1.0, inside / norms).astype(X.dtype)
    return multiply_rows(X, factors)


def multiply_rows(X: Any, factors: FloatArray) -> Any:
    """Every row times its factor, dense or CSR."""
    if sparse.issparse(X):
        data = X.data * np.repeat(factors, np.diff(X.indptr))
        return sparse.csr_matrix((data, X.indices, X.indptr), X.shape)
    return X * factors[:, None]


def row_norms(X: Any) -> FloatArray:
    """The l2 norm of every row, dense or CSR, in double precision."""
    with np.errstate(over="ignore"):
        if sparse.issparse(X):
            # Row i of the matrix of squares sums to the squared norm.
            squares = np.square(X.data, dtype=np.float64)
            squares = sparse.csr_matrix((squares, X.indices, X.indptr), X.shape)
            return np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        return np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets inside [-bound, bound] around a public centre."""

    values: FloatArray
    bound: float
    centre: float


def bound_targets(y: Any, target_bound: Any) -> Targets:
    """The targets, clipped to what was declared and centred.

    Args:
        y: one number per record.
        target_bound: a number, for |y| <= target_bound, or a pair (low, high).

    Raises:
        InvalidArgument: the bound is missing, not finite, or empty.

    """
    if target_bound is None:
        raise InvalidArgument(
            "target_bound=None: the bound on the target is missing. Reading it from the data would "
            "leak the largest target; declare target_bound=1.0 or target_bound=(low, high)."
        )
    remedy = "Declare target_bound=1.0 for |y| <= 1, or target_bound=(low, high)."
    ends = _check.array("target_bound", target_bound, remedy=remedy)
    low, high = (-ends, ends) if ends.ndim == 0 else (ends if ends.shape == (2,) else (0, 0))
    if not low < high:
        raise InvalidArgument(
            f"target_bound={_check.shown(target_bound)} must span an interval. {remedy}"
        )
    centre = float(low + high) / 2
    try:
        y = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("y must hold numbers; labels are for classifiers.") from None
    return Targets(np.clip(y, low, high) - centre, float(high - low) / 2, centre)


def label_set(y: Any, classes: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """The sorted label set, every label's place in it, and the assumption that this makes, if any.

    Args:
        y: one label per record.
        classes: the declared label set; None takes that of the data as public, which the returned
            assumption says.

    Raises:
        InvalidArgument: a label is not among the declared ones; fewer than two classes.

    """
    found, codes = np.unique(y, return_inverse=True)
    if classes is None:
        labels, assumptions = found, (f"the label set, {len(found)} classes",)
    else:
        labels, assumptions = np.unique(np.asarray(classes)), ()
        unknown = np.setdiff1d(found, labels)
        if unknown.size:
            raise InvalidArgument(
                f"classes={labels.tolist()!r} lacks a label that a record has. "
                "Declare every label that a record may have."
            )
        codes = np.searchsorted(labels, y)
    if len(labels) < 2:
        raise InvalidArgument(
            "the classifier needs samples of at least 2 classes; the data contains only one class."
        )
    return labels, codes, assumptions
