"""Scores of a fitted model, one number in [0, 1] per record: what a private search may look at.

A search adds them up, so that one record moves the sum by 1 at most. That is why scores which are
no mean over records, such as the area under a curve, F1 or R² itself, are not here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from dpassay.errors import InvalidArgument
from dpassay.learn.declared import bound_targets
from dpassay.types import FloatArray

Scoring = Callable[[Any, Any, Any], FloatArray]


def private_part(model: Any) -> Any:
    """The estimator that spends: the last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def _right(model: Any, X: Any, y: Any) -> FloatArray:
    return np.asarray(model.predict(X) == y, float)


def _nearness_of_probabilities(model: Any, X: Any, y: Any) -> FloatArray:
    truth = np.asarray(y)[:, None] == np.asarray(model.classes_)
    return 1 - np.square(model.predict_proba(X) - truth).sum(axis=1) / 2


def _errors(model: Any, X: Any, y: Any) -> FloatArray:
    """Errors over the range of the target, in [-1, 1]."""
    bound = private_part(model).target_bound
    targets, predicted = bound_targets(y, bound), bound_targets(model.predict(X), bound)
    return (predicted.values - targets.values) / (2 * targets.bound)


def _small_squares(model: Any, X: Any, y: Any) -> FloatArray:
    return 1 - np.square(_errors(model, X, y))


def _small_errors(model: Any, X: Any, y: Any) -> FloatArray:
    return 1 - np.abs(_errors(model, X, y))


CLASSIFIERS: dict[str, Scoring] = {
    "accuracy": _right,
    "neg_brier_score": _nearness_of_probabilities,
}
REGRESSORS: dict[str, Scoring] = {
    "neg_mean_squared_error": _small_squares,
    "neg_mean_absolute_error": _small_errors,
}


def scoring_of(scoring: Scoring | str | None, estimator: Any) -> Scoring:
    """The function of a name; None is the first of the estimator's kind.

    Raises:
        InvalidArgument: no mean over records has that name; the message lists those that do.

    """
    named = CLASSIFIERS if is_classifier(estimator) else REGRESSORS
    if scoring is None:
        return next(iter(named.values()))
    if callable(scoring):
        return scoring
    if scoring not in named:
        raise InvalidArgument(
            f"scoring={scoring!r} must be one of {', '.join(map(repr, named))} for this kind of "
            "estimator, or a function of (model, X, y) that returns a number in [0, 1] per record. "
            "Scores that are no mean over records have no bound on what one record changes."
        )
    return named[scoring]
