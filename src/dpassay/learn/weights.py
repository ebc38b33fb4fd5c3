"""Weights of records: bounded by what was declared, so that they scale the sensitivity.

A weight multiplies what a record adds to every sum. Weights are divided by the largest that a
record may have, which is public, and lie in [0, 1] then: a clipped gradient of at most C stays at
most C, and all noise is in units of the *largest* weight. So one record of weight 1 among others
that may have 10 is heard a tenth as loudly above the noise: declare no larger bound than is needed.

A weight is part of its record. Weights that were computed from the data, such as the inverse of the
frequency of a class, make one record change the weights of all others, and the proof is void:
``class_weight="balanced"`` is refused.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.learn.plans import TAKES_WEIGHTS
from dpassay.types import FloatArray

ClassWeight = Mapping[Any, float]


def bound_weights(
    sample_weight: Any,
    weight_bound: Any,
    n_rows: int,
    *,
    by_class: FloatArray | None = None,
    codes: Any = None,
) -> FloatArray | None:
    """The weights of the records over the largest that one may have, in [0, 1]; None for all 1.

    Args:
        sample_weight: one number of 0 or more per record, or None; larger ones than the bound are
            taken down to it.
        weight_bound: the public bound on them.
        n_rows: the number of rows.
        by_class: one public weight per class (:func:`class_weights`), or None.
        codes: the places of the records' labels, if there are weights by class.

    Raises:
        InvalidArgument: the bound is missing, or a weight is negative or no number.

    """
    if sample_weight is None and by_class is None:
        return None
    weights = np.ones(n_rows)
    if sample_weight is not None:
        weights = _check_weights(sample_weight, weight_bound, n_rows)
    if by_class is not None:
        weights = weights * (by_class / by_class.max())[codes]
    return weights


def _check_weights(sample_weight: Any, weight_bound: Any, n_rows: int) -> FloatArray:
    if weight_bound is None:
        raise InvalidArgument(
            "weight_bound=None: the bound on sample_weight is missing. Reading it from the weights "
            "would leak the largest; declare weight_bound=1.0 for weights in [0, 1]."
        )
    bound = _check.number("weight_bound", weight_bound, low=0, low_open=True)
    try:
        weights = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("sample_weight must hold numbers, one per record.") from None
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.ndim != 1:
        raise InvalidArgument("Sample weights must be 1D array or scalar")  # scikit-learn's words
    if weights.shape != (n_rows,):
        raise InvalidArgument(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: one number per record."
        )
    if not ((weights >= 0) & np.isfinite(weights)).all():
        raise InvalidArgument("sample_weight must hold finite numbers of 0 or more.")
    return np.minimum(weights, bound) / bound


def class_weights(class_weight: Any, labels: Any) -> FloatArray | None:
    """One weight per label, 1 for those that are not named; None if none was declared.

    Raises:
        InvalidArgument: it is "balanced", names a label that there is not, or has a weight that is
            not positive.

    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        raise InvalidArgument(
            f"class_weight={class_weight!r} would compute weights from the data: one record would "
            "change those of all others. Declare public ones, e.g. class_weight={'yes': 10.0}."
        )
    if not isinstance(class_weight, Mapping):
        raise InvalidArgument(
            f"class_weight={_check.shown(class_weight)} must map labels to public weights."
        )
    known = {label: place for place, label in enumerate(np.asarray(labels).tolist())}
    found = np.ones(len(known))
    for label, weight in class_weight.items():
        if label not in known:
            raise InvalidArgument(
                f"class_weight names {label!r}, which is not among the {len(known)} labels."
            )
        remedy = "It is the public weight of a class."
        name = f"class_weight[{label!r}]"
        found[known[label]] = _check.number(name, weight, low=0, low_open=True, remedy=remedy)
    return found


def refuse_weights(weights: FloatArray | None, solver: str) -> None:
    """Raise where records have weights and the solver takes none."""
    if weights is not None and solver not in TAKES_WEIGHTS:
        raise InvalidArgument(
            f"solver={solver!r} takes no weights of records. Leave out sample_weight and "
            f"class_weight, or take one of {', '.join(TAKES_WEIGHTS)}."
        )
