"""A score learned from examples of both worlds: an estimate of the log odds of "with".

Learning uses its own trials; the audit then tests on others, so that whatever is learned, and
however the learner was chosen, the bound stays valid. Only power depends on it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from dpassay._threads import limit_learner_threads
from dpassay.attacks.compiled import Linear, Trees, compile_trees
from dpassay.attacks.features import stack
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

_SMALL = 64  # distinct values up to which an output counts as discrete
_FOLDS = 3
_FARTHEST = 20.0  # scaled entries beyond this say no more
# Rows up to which plain arrays are faster than the model; rows on which they are compared.
_FEW_ROWS, _CHECKED = 32, 64


class Scorer(Protocol):
    """Log odds of "with" for each row."""

    def __call__(self, table: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class Distinguisher:
    """A learned score, with the name of what learned it and how many features it takes."""

    name: str
    width: int
    scorer: Scorer

    def __call__(self, rows: list[FloatArray]) -> FloatArray:
        """A score for each row of features."""
        return self.of_table(stack(rows))

    def of_table(self, table: FloatArray) -> FloatArray:
        """A score for each row; one that is not a number becomes -inf."""
        if table.shape[1] != self.width:
            fitted = np.full((len(table), self.width), np.nan)
            shared = min(self.width, table.shape[1])
            fitted[:, :shared] = table[:, :shared]
            table = fitted
        score = np.asarray(self.scorer(table), float)
        return np.where(np.isnan(score), -np.inf, score)


def learn_distinguisher(rows: list[FloatArray], worlds: FloatArray, seed: int = 0) -> Distinguisher:
    """The best of several learners by cross-validated log loss on these trials.

    Args:
        rows: features of the outputs (:func:`dpassay.attacks.features`).
        worlds: 1 with the canary, 0 without.
        seed: of the folds and of the learners.

    Raises:
        InvalidArgument: fewer than ten trials of a world.

    """
    table, y = stack(rows), np.asarray(worlds, int)
    fewest = int(min((y == 0).sum(), (y == 1).sum()))
    if fewest < 10:
        raise InvalidArgument(
            f"only {fewest} learning trials of one world; learning needs 10. Play more trials, or "
            "pass score=, which needs none."
        )
    folds = np.random.default_rng(seed).permutation(y.size) % _FOLDS
    found = []
    for name, fit in _learners(table).items():
        loss = _cross_validated(fit, table, y, folds, seed)
        found.append((loss, name, fit))
    _, name, fit = min(found, key=lambda item: item[:2])
    return Distinguisher(name, table.shape[1], fit(table, y, seed))


Fit = Callable[[FloatArray, Any, int], Scorer]


def _learners(table: FloatArray) -> dict[str, Fit]:
    varying = _varying(table)
    if varying.size == 0:
        return {"constant": _fit_constant}
    if varying.size == 1:
        return _choose("histogram")
    if _is_discrete(len(np.unique(table, axis=0)), len(table)):
        return _choose("table", "boosting")
    return _choose("logistic", "boosting")


def _choose(*names: str) -> dict[str, Fit]:
    return {name: LEARNERS[name] for name in names}


def _is_discrete(distinct: int, rows: int) -> bool:
    """Few values, each seen several times: counting them says more than their order."""
    return distinct <= min(_SMALL, rows / 5)


def _varying(table: FloatArray) -> Any:
    """Columns that are not the same everywhere (NaN counts as a value)."""
    first = table[:1]
    same = (table == first) | (np.isnan(table) & np.isnan(first))
    return np.flatnonzero(~same.all(axis=0))


def _cross_validated(fit: Fit, table: FloatArray, y: Any, folds: Any, seed: int) -> float:
    losses = []
    for fold in range(_FOLDS):
        train, test = folds != fold, folds == fold
        score = np.clip(fit(table[train], y[train], seed)(table[test]), -30, 30)
        losses.append(np.logaddexp(0, np.where(y[test] == 1, -score, score)))
    return float(np.concatenate(losses).mean())


@dataclass(frozen=True)
class _Constant:
    value: float

    def __call__(self, table: FloatArray) -> FloatArray:
        return np.full(len(table), self.value)


def _fit_constant(table: FloatArray, y: Any, seed: int) -> Scorer:
    return _Constant(0.0)


def _score_by_histogram(
    column: int, edges: FloatArray, ratio: FloatArray, table: FloatArray
) -> FloatArray:
    """The log ratio of two smoothed histograms of one column; the last entry is that of NaN."""
    x = table[:, column]
    inside = np.searchsorted(edges, x, side="right")
    return np.where(np.isnan(x), ratio[-1], ratio[np.clip(inside, 0, edges.size)])


def _fit_histogram(table: FloatArray, y: Any, seed: int) -> Scorer:
    """Bins of about equal counts, or one for each of a few distinct values."""
    varying = _varying(table)
    column = int(varying[0]) if varying.size else table.shape[1] - 1
    x = table[:, column]
    seen = np.unique(x[~np.isnan(x)])
    if _is_discrete(seen.size, x.size):
        edges = seen[1:] if seen.size > 1 else seen
    else:
        n_bins = int(np.clip(math.sqrt(x.size) / 2, 8, 200))
        edges = np.unique(np.nanquantile(x, np.linspace(0, 1, n_bins + 1)[1:-1]))
    cells = np.where(np.isnan(x), edges.size + 1, np.searchsorted(edges, x, side="right"))
    counts = [np.bincount(cells[y == w], minlength=edges.size + 2) for w in (1, 0)]
    smooth = [(c + 0.5) / (c.sum() + 0.5 * c.size) for c in counts]
    return partial(_score_by_histogram, column, edges, np.log(smooth[0]) - np.log(smooth[1]))


@dataclass(frozen=True, eq=False)
class _Table:
    """Log ratio of smoothed counts of whole outputs; 0 for one never seen."""

    ratio: dict[bytes, float]

    def __call__(self, table: FloatArray) -> FloatArray:
        return np.array([self.ratio.get(row.tobytes(), 0.0) for row in np.ascontiguousarray(table)])


def _fit_table(table: FloatArray, y: Any, seed: int) -> Scorer:
    keys = [row.tobytes() for row in np.ascontiguousarray(table)]
    counts: dict[bytes, list[float]] = {}
    for key, world in zip(keys, y.tolist(), strict=True):
        counts.setdefault(key, [0.5, 0.5])[world] += 1
    total = [sum(c[w] for c in counts.values()) for w in (0, 1)]
    return _Table(
        {k: math.log(c[1] / total[1]) - math.log(c[0] / total[0]) for k, c in counts.items()}
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """A scikit-learn classifier's log odds; those of a few rows by its plain arrays."""

    model: Any
    columns: Any
    single: Trees | Linear | None = None

    def __call__(self, table: FloatArray) -> FloatArray:
        seen = table[:, self.columns]
        if self.single is not None and len(seen) <= _FEW_ROWS:
            return np.array([self.single.score(row) for row in seen])
        with limit_learner_threads():
            return self.model.decision_function(seen)


def _compile(model: Any, columns: Any, single: Trees | Linear | None, table: FloatArray) -> _Model:
    """The model, with plain arrays for single rows if they say what the model says."""
    if single is not None:
        some = table[:_CHECKED][:, columns]
        with limit_learner_threads():
            wanted = model.decision_function(some)
        found = np.array([single.score(row) for row in some])
        if not np.allclose(found, wanted, rtol=1e-9, atol=1e-9):
            single = None
    return _Model(model, columns, single)


def _fit_logistic(table: FloatArray, y: Any, seed: int) -> Scorer:
    """Standardised entries and their squares: shifts and changes of scale both show."""
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import RobustScaler, StandardScaler

    columns = _varying(table)
    model = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True, add_indicator=True),
        RobustScaler(unit_variance=True),
        _Squares(),
        StandardScaler(),
        LogisticRegression(C=0.1, max_iter=500),
    )
    with limit_learner_threads():
        model.fit(table[:, columns], y)
    return _compile(model, columns, _compile_logistic(model), table)


def _compile_logistic(model: Any) -> Linear:
    """The pipeline of :func:`_fit_logistic` with its last scaling in the coefficients."""
    imputer, robust, _, scaler, logistic = (step for _, step in model.steps)
    coefficients = logistic.coef_[0] / scaler.scale_
    linear, squared = np.split(coefficients, 2)
    return Linear(
        imputer.statistics_,
        robust.center_,
        robust.scale_,
        _FARTHEST,
        np.asarray(imputer.indicator_.features_, dtype=np.intp),
        linear,
        squared,
        float(logistic.intercept_[0] - scaler.mean_ @ coefficients),
    )


class _Squares:
    """The clipped entries beside their squares; a scikit-learn transformer by duck typing."""

    def fit(self, X: FloatArray, y: Any = None) -> "_Squares":
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        x = np.clip(X, -_FARTHEST, _FARTHEST)
        return np.hstack([x, np.square(x)])

    def fit_transform(self, X: FloatArray, y: Any = None) -> FloatArray:
        return self.transform(X)


def _fit_boosting(table: FloatArray, y: Any, seed: int) -> Scorer:
    from sklearn.ensemble import HistGradientBoostingClassifier

    columns = _varying(table)
    model = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, learning_rate=0.1, min_samples_leaf=10, random_state=seed
    )
    with limit_learner_threads():  # on a few hundred rows, threads cost more than they give
        model.fit(table[:, columns], y)
    return _compile(model, columns, compile_trees(model), table)


LEARNERS: dict[str, Fit] = {
    "table": _fit_table,
    "histogram": _fit_histogram,
    "logistic": _fit_logistic,
    "boosting": _fit_boosting,
}
