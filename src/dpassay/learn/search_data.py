"""Data of a search as its pipeline takes them: numbers, frames with texts, or lists of texts."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from dpassay.errors import InvalidArgument
from dpassay.learn.base import check_data

Blank = Callable[[int], Any]
"""Makes up records of the public shape of the data, as many as asked for."""


def read_as_it_is(estimator: Any, X: Any, y: Any, **options: Any) -> Any:
    """X as it is but for lists, which become arrays; y checked. For pipelines."""
    wanted = {"reset": options.pop("reset", True)}
    X = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    if X.ndim == 2:  # names and number of columns are kept track of
        check_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=1,
            **wanted,
        )
    if isinstance(y, str):
        return X
    y = column_or_1d(y, warn=True)
    if len(y) != X.shape[0]:
        raise InvalidArgument(
            f"Found input variables with inconsistent numbers of samples: {[X.shape[0], len(y)]}"
        )
    return X, y.astype(np.float64) if options.get("y_numeric") and y.dtype == object else y


def blank_like(X: Any) -> Blank:
    """Made-up records with the columns and kinds of X: 0.5 for numbers, "made up" for texts."""
    if hasattr(X, "columns"):
        import pandas as pd

        kinds = {name: X[name].dtype.kind in "biuf" for name in X.columns}
        return lambda n: pd.DataFrame(
            {name: [0.5 if number else "made up"] * n for name, number in kinds.items()}
        )
    if X.dtype.kind in "biuf":
        return lambda n: np.full((n, *X.shape[1:]), 0.5)
    return lambda n: np.full((n, *X.shape[1:]), "made up", dtype=object)
