"""A table made ready for a private estimator, by what was declared of it.

Scalers, imputers and encoders learn means, medians and categories from the data, which no claim of
the estimator behind them covers. :class:`PrivatePreprocessor` does their work with declared bounds
and public categories, or with bounds that it pays for.

**Paid bounds** of k columns. A record is in one cell of each column's histogram: 0, or its sign and
the power of two below its size, from 2^-32 to 2^32. All k histograms are one Gaussian release of l2
sensitivity sqrt(k) if a record is added or removed, and of sqrt(2 k) if one is replaced, which
moves from one cell to another in each column; a missing value is in no cell and moves less. The
bounds are the outer ends of the outermost cells that stand out by four deviations.
"""

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpassay.errors import InvalidArgument
from dpassay.learn.base import PrivateMixin, RandomState, check_data
from dpassay.learn.declared import Pair
from dpassay.mechanisms import gaussian, gaussian_multiplier
from dpassay.privacy import Event, Gaussian
from dpassay.privacy.ledger import Ledger
from dpassay.types import FloatArray, Neighbouring, PrivacyCurve

Column = Hashable
_OCTAVES = 32
_EDGES = 2.0 ** np.arange(-_OCTAVES, _OCTAVES + 1)
_STANDS_OUT = 4.0  # deviations


@dataclass(eq=False, repr=False)
class PrivatePreprocessor(PrivateMixin, TransformerMixin, BaseEstimator):
    """Numbers in [-1, 1] and indicators of categories, without a look at the data that is not paid.

    Numbers are clipped to their bounds and scaled to [-1, 1]; a missing one, or what is no number,
    becomes 0, the middle. A category becomes a column of 0 and 1; a value that is not among the
    declared ones, or missing, has 0 in all of them. Each record is treated for itself.

    Args:
        bounds: (low, high) for every column that has no categories; or by column name (or place),
            with None for bounds that are to be measured, which ``epsilon`` pays for.
        categories: the public values of each column that holds some, by name or place.
        epsilon: what measured bounds may cost; 0 if none is measured.
        delta: the probability that may escape epsilon; below 1/n.
        neighbouring: "add-remove" or "replace-one".
        n_records: the public number of records; None takes that of the data.
        ledger: where measured bounds are recorded.
        random_state: None for secure noise; a seed for noise that can be replayed (not private).

    Attributes:
        bounds_: by column, as declared or measured.
        row_norm: what no row of the result exceeds in the l2 norm: the ``data_norm`` of the
            estimator behind it.
        event_, privacy_: of measured bounds; None if nothing was measured.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [30, 90, None], "job": ["cook", "spy", "judge"]})
    >>> ready = PrivatePreprocessor({"age": (0, 120)}, {"job": ["cook", "judge"]}).fit(table)
    >>> ready.transform(table)
    array([[-0.5,  1. ,  0. ],
           [ 0.5,  0. ,  0. ],
           [ 0. ,  0. ,  1. ]])
    >>> round(ready.row_norm, 3)
    1.414

    """

    bounds: Pair | Mapping[Any, Pair | None] | None = None
    categories: Mapping[Any, Sequence[Any]] | None = None
    _: KW_ONLY
    epsilon: float = 0.0
    delta: float = 1e-6
    neighbouring: Neighbouring = "add-remove"
    n_records: int | None = None
    ledger: Ledger | None = None
    random_state: RandomState = None
    event_: Event | None = field(init=False)  # type: ignore[assignment]
    n_features_in_: int = field(init=False)

    def fit(self, X: Any, y: Any = None) -> "PrivatePreprocessor":
        """Take note of the columns; measure the bounds that are to be measured.

        Raises:
            InvalidArgument: a column has neither bounds nor categories; bounds are to be measured
                and there is no epsilon.
            BudgetExceeded: the ledger refused; nothing was measured.

        """
        del y
        X = self._read(X, reset=True)
        self.event_, self.bounds_ = None, self._check_declared(X)
        unknown = [name for name, pair in self.bounds_.items() if pair is None]
        if unknown:
            self._measure(X, unknown)
        elif self.epsilon:
            raise InvalidArgument(
                f"epsilon={self.epsilon:g}: no bounds are to be measured. Leave it 0, or name "
                "columns with None in bounds."
            )
        return self

    def transform(self, X: Any) -> FloatArray:
        """The table as numbers, of l2 norm ``row_norm`` at most in every row."""
        check_is_fitted(self)
        X = self._read(X, reset=False)
        parts = [
            _scale(_numbers(X, name), pair)[:, None]
            if pair is not None
            else _indicators(_column(X, name), self._public(name))
            for name, pair in self._columns(X)
        ]
        return np.hstack(parts)

    @property
    def row_norm(self) -> float:
        """The square root of the number of columns: each gives a number or one indicator.

        Where all columns are declared by name it is known before the fit, which refuses a table
        with others: so that an estimator behind it in a pipeline can be given its ``data_norm``.
        """
        if isinstance(self.bounds, Mapping):
            return math.sqrt(len({*self.bounds, *self._categories}))
        if not hasattr(self, "n_features_in_"):
            raise InvalidArgument(
                "row_norm is not known before the fit: declare bounds by column name, e.g. "
                "bounds={'age': (0, 120)}, or fit first."
            )
        return math.sqrt(self.n_features_in_)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of columns, and "column=value" of indicators."""
        check_is_fitted(self)
        default = [f"x{i}" for i in range(self.n_features_in_)]
        given = getattr(self, "feature_names_in_", input_features)
        names = default if given is None else list(given)
        found: list[str] = []
        for place, name in enumerate(names):
            key = name if name in self._categories else place
            values = self._categories.get(key)
            found += [str(name)] if values is None else [f"{name}={value}" for value in values]
        return np.asarray(found, dtype=object)

    @property
    def privacy_(self) -> PrivacyCurve | None:  # type: ignore[override]
        """The privacy curve of measured bounds; None if nothing was measured."""
        return None if self.event_ is None else super().privacy_

    # What was declared.

    @property
    def _categories(self) -> Mapping[Any, Sequence[Any]]:
        return self.categories or {}

    def _public(self, name: Column) -> Sequence[Any]:
        return self._categories[name]

    def _columns(self, X: Any) -> list[tuple[Column, Pair | None]]:
        """Every column's name or place, and its bounds; None for categories."""
        bounds = self.bounds_ if hasattr(self, "bounds_") else self._check_declared(X)
        return [(name, bounds.get(name)) for name in _names(X)]

    def _check_declared(self, X: Any) -> dict[Column, Pair | None]:
        """Bounds by column, checked; None for those to be measured."""
        numeric = [name for name in _names(X) if name not in self._categories]
        named = isinstance(self.bounds, Mapping)
        bounds: Any = self.bounds if named else dict.fromkeys(numeric, self.bounds)
        for name in numeric:
            if name not in bounds or (not named and self.bounds is None):
                raise InvalidArgument(
                    f"column {name!r} has neither bounds nor categories. Reading them from the "
                    "data would leak it: declare them, e.g. bounds={'age': (0, 120)}, pay for them "
                    "with None and epsilon=, or drop the column."
                )
        strangers = [name for name in (*bounds, *self._categories) if name not in _names(X)]
        if strangers:
            raise InvalidArgument(f"{strangers[0]!r} is declared, but is no column of X.")
        for name, values in self._categories.items():
            if isinstance(values, str) or len(set(values)) != len(values) or not len(values):
                raise InvalidArgument(f"categories[{name!r}] must list different values.")
        return {name: _pair(name, bounds[name]) for name in numeric}

    def _read(self, X: Any, *, reset: bool) -> Any:
        """A frame as it is, all else as an array; names and number of columns are checked."""
        options = {"dtype": None, "ensure_all_finite": False, "reset": reset}
        checked = check_data(self, X, **options)
        return X if hasattr(X, "columns") else checked

    # Bounds that are measured.

    def _measure(self, X: Any, names: list[Column]) -> None:
        budget = self._budget()
        changes = budget.record_changes
        sensitivity = math.sqrt(changes * len(names))
        multiplier = gaussian_multiplier(epsilon=budget.epsilon, delta=budget.delta)
        event = Gaussian(multiplier, budget.neighbouring)
        with self._spending(event, self._public_records(X)):
            counts = np.stack([_octave_counts(_numbers(X, name)) for name in names])
            release = gaussian(
                counts,
                sensitivity=sensitivity,
                mu=1 / multiplier,
                rng=self._rng(),
                neighbouring=budget.neighbouring,
            )
        self.noise_ = release.noise
        least = _STANDS_OUT * sensitivity * multiplier
        found = [_outermost(noisy, least) for noisy in np.asarray(release.value)]
        self.bounds_ |= dict(zip(names, found, strict=True))
        lost = [name for name, (low, high) in zip(names, found, strict=True) if low == high]
        if lost:
            warnings.warn(
                f"nothing of {', '.join(map(repr, lost))} stood out of the noise: such a column "
                "becomes 0, and was charged. Declare its bounds: they are free.",
                UserWarning,
                stacklevel=3,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        measured = isinstance(self.bounds, Mapping) and None in self.bounds.values()
        tags.requires_fit = measured
        return tags


def _names(X: Any) -> list[Column]:
    return list(X.columns) if hasattr(X, "columns") else list(range(X.shape[1]))


def _column(X: Any, name: Any) -> Any:
    values = X[name] if hasattr(X, "columns") else X[:, name]
    return np.asarray(values, dtype=object)


def _numbers(X: Any, name: Any) -> FloatArray:
    """A column as numbers; what is none is missing."""
    import pandas as pd

    return np.asarray(pd.to_numeric(pd.Series(_column(X, name)), errors="coerce"), np.float64)


def _pair(name: Column, pair: Any) -> Pair | None:
    if pair is None:
        return None
    try:
        low, high = float(pair[0]), float(pair[1])
    except (TypeError, ValueError, IndexError):
        low = high = math.nan
    if not (low < high and math.isfinite(high - low)):
        raise InvalidArgument(f"bounds of column {name!r} must be (low, high), finite, low < high.")
    return low, high


def _scale(values: FloatArray, pair: Pair) -> FloatArray:
    low, high = pair
    middle, half = (low + high) / 2, (high - low) / 2
    if not half > 0:
        return np.zeros(len(values))
    scaled = (np.clip(values, low, high) - middle) / half
    return np.clip(np.nan_to_num(scaled, nan=0.0), -1, 1)


def _indicators(values: Any, categories: Sequence[Any]) -> FloatArray:
    return np.stack([values == category for category in categories], axis=1).astype(np.float64)


def _octave_counts(values: FloatArray) -> FloatArray:
    """How many values are in each cell, from the most negative to the most positive."""
    values = values[~np.isnan(values)]
    places = np.clip(np.searchsorted(_EDGES, np.abs(values), side="right"), 0, 2 * _OCTAVES)
    cells = 2 * _OCTAVES + np.where(values < 0, -places, places)
    return np.bincount(cells, minlength=4 * _OCTAVES + 1).astype(np.float64)


def _outermost(noisy: FloatArray, least: float) -> Pair:
    """The outer ends of the outermost cells that stand out; (0, 0) if none does."""
    seen = np.flatnonzero(noisy > least)
    if not seen.size:
        return 0.0, 0.0
    first, last = int(seen[0]) - 2 * _OCTAVES, int(seen[-1]) - 2 * _OCTAVES
    return _cell_ends(first)[0], _cell_ends(last)[1]


def _cell_ends(cell: int) -> Pair:
    """The ends of a cell: those of 0 are the smallest sizes that are told from it."""
    if cell == 0:
        return -float(_EDGES[0]), float(_EDGES[0])
    size = abs(cell)
    low, high = float(_EDGES[size - 1]), float(_EDGES[min(size, 2 * _OCTAVES)])
    return (low, high) if cell > 0 else (-high, -low)
