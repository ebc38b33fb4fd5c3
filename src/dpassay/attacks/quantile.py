"""Quantile regression on non-members: what would this record's score be if it were not a member?

Bertran et al. (2023): a regression learns the 1 - alpha quantile of the log odds given the record,
on records known not to be members. A candidate above its own quantile is called a member: about
alpha of the non-members are. No shadow is trained and nothing of the training need be known; the
attacker needs non-members like the candidates, and queries of the target on them.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike, generator
from dpassay._threads import limit_learner_threads
from dpassay.attacks.outputs import Outputs, dense
from dpassay.attacks.scores import log_odds
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


def quantile_scores(
    outputs: Outputs,
    X: Any,
    reference: Outputs,
    X_reference: Any,
    *,
    alpha: float = 0.05,
    regressor: Literal["boosting", "linear"] = "boosting",
    rng: RngLike = 0,
) -> FloatArray:
    """How far each record's log odds lie above the quantile of non-members like it; an attack.

    Args:
        outputs: what the target says about the candidates.
        X: the candidates.
        reference: what the target says about known non-members, none of them a candidate.
        X_reference: these.
        alpha: the false-positive rate to aim at with threshold 0; in (0, 1).
        regressor: "boosting" (histogram gradient boosting) or "linear".
        rng: seed of the regression.

    Raises:
        InvalidArgument: a value out of range, or too few non-members above the quantile.

    """
    alpha = _check.number("alpha", alpha, low=0, high=1, low_open=True, high_open=True)
    _check.choice("regressor", regressor, tuple(REGRESSORS))
    if len(reference) * alpha < 5:
        raise InvalidArgument(
            f"alpha={alpha:g} leaves {len(reference) * alpha:.2g} of {len(reference)} reference "
            f"records above the quantile; 5 are needed. Give more records or a larger alpha."
        )
    seed = int(generator(rng).integers(2**31))
    model = REGRESSORS[regressor](1 - alpha, seed)
    with limit_learner_threads():
        model.fit(_table(X_reference, reference), log_odds(reference))
        return log_odds(outputs) - model.predict(_table(X, outputs))


def _table(X: Any, outputs: Outputs) -> FloatArray:
    """The records with a column per class, if labels are known."""
    rows = dense(X)
    if rows.ndim != 2 or len(rows) != len(outputs):
        raise InvalidArgument(
            f"X has shape {rows.shape} for {len(outputs)} outputs; it must be a table with a row "
            "per record."
        )
    if outputs.labels is None or outputs.n_classes is None:
        return rows
    return np.hstack([rows, np.eye(outputs.n_classes)[outputs.labels]])


def _boosting(quantile: float, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        loss="quantile", quantile=quantile, max_iter=60, max_leaf_nodes=8, random_state=seed
    )


def _linear(quantile: float, seed: int) -> Any:
    from sklearn.linear_model import QuantileRegressor

    return QuantileRegressor(quantile=quantile, alpha=1e-3)


REGRESSORS: dict[str, Callable[[float, int], Any]] = {"boosting": _boosting, "linear": _linear}
