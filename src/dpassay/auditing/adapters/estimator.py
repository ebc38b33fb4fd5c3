"""A scikit-learn estimator as a mechanism."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument


@dataclass(frozen=True)
class Fit:
    """An estimator as ``mechanism(data, rng)``; made by :func:`from_estimator`.

    Attributes:
        estimator: unfitted; it is cloned for every trial.
        output: what of the fitted model is published; None for all of it.

    """

    estimator: Any
    output: Callable[[Any], Any] | None = None

    def __call__(self, data: Any, rng: np.random.Generator | None) -> Any:
        from sklearn import base

        model: Any = cast(Any, base).clone(self.estimator)
        if rng is not None:
            model.set_params(**_seeds(model, rng))
        model.fit(*data) if isinstance(data, tuple) else model.fit(data)
        return model if self.output is None else self.output(model)


def from_estimator(estimator: Any, *, output: Callable[[Any], Any] | None = None) -> Fit:
    """A scikit-learn estimator as a mechanism: it is cloned, seeded, fitted and published.

    Every parameter ``random_state``, also of estimators inside (pipelines, ensembles), is set from
    the trial's generator, whatever it was: an estimator with a fixed seed has no noise for whoever
    knows it. With ``rng=None`` the parameters stay as they are, so that an estimator that draws
    secure noise is audited with it.

    Args:
        estimator: unfitted, with ``get_params`` and ``fit``.
        output: a function of the fitted model that says what is published, for example
            ``lambda model: model.predict_proba(x)[0, 1]``; None publishes the model, of which a
            learned score sees the fitted attributes.

    Returns:
        ``mechanism(data, rng)`` for data (X, y), or X alone where nothing is to be predicted.

    Raises:
        InvalidArgument: it is no estimator, or a class instead of an object.

    """
    if isinstance(estimator, type) or not all(
        callable(getattr(estimator, name, None)) for name in ("fit", "get_params", "set_params")
    ):
        raise InvalidArgument(
            f"estimator={_check.shown(estimator)} must be an unfitted scikit-learn estimator, "
            "such as LogisticRegression()."
        )
    if output is not None and not callable(output):
        raise InvalidArgument(
            f"output={_check.shown(output)} must be a function of the fitted model."
        )
    return Fit(estimator, output)


def _seeds(model: Any, rng: np.random.Generator) -> dict[str, int]:
    """A seed for every random_state of a model, in the order of their names."""
    names = (name for name in model.get_params(deep=True) if _is_seed(name))
    return {name: int(rng.integers(2**31 - 1)) for name in sorted(names)}


def _is_seed(name: str) -> bool:
    return name.rpartition("__")[2] == "random_state"
