"""What the attacker sees of records: probabilities or losses, from a model or from plain arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpassay import _check
from dpassay._records import is_sparse, is_table
from dpassay.attacks.modules import is_module, margins_of_module
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

_SUM_TOLERANCE = 0.01  # of probabilities; files hold a few digits of each
_TARGETS = (
    "A target has predict_proba or decision_function, is a torch module that returns logits, or is "
    "a function loss(X, y) that returns one loss per record; for plain arrays pass None."
)


@dataclass(frozen=True, eq=False, init=False)
class Outputs:
    """What a model says about n records; with a first axis more, what several models say.

    Attributes:
        probabilities: (..., n, k), rows that sum to one; or None.
        losses: (..., n); or None where there are probabilities.
        labels: (n,), the column of each record's true class; needed with probabilities.

    >>> Outputs(probabilities=[[0.9, 0.1], [0.4, 0.6]], labels=[0, 0]).of_label.tolist()
    [0.9, 0.4]

    """

    probabilities: FloatArray | None = None
    losses: FloatArray | None = None
    labels: NDArray[np.int64] | None = None

    def __init__(
        self,
        probabilities: ArrayLike | None = None,
        losses: ArrayLike | None = None,
        labels: ArrayLike | None = None,
    ) -> None:
        if (probabilities is None) == (losses is None):
            raise InvalidArgument("give either probabilities or losses, not both and not neither.")
        if probabilities is not None and labels is None:
            raise InvalidArgument("labels are missing; probabilities need each record's class.")
        p = None if probabilities is None else _probabilities(probabilities)
        object.__setattr__(self, "probabilities", p)
        object.__setattr__(self, "losses", None if losses is None else _losses(losses))
        object.__setattr__(self, "labels", _labels(labels, len(self), self.n_classes))

    def __len__(self) -> int:
        return int(self.values.shape[-1 if self.probabilities is None else -2])

    @property
    def values(self) -> FloatArray:
        """The probabilities or the losses, whichever there are."""
        return np.asarray(self.losses if self.probabilities is None else self.probabilities)

    @property
    def n_classes(self) -> int | None:
        """How many classes there are; None if only losses are known."""
        return None if self.probabilities is None else self.probabilities.shape[-1]

    @property
    def vectors(self) -> FloatArray:
        """The probabilities of the classes; an error if only losses are known.

        Raises:
            InvalidArgument: there are only losses.

        """
        if self.probabilities is None:
            raise InvalidArgument(
                "this attack needs probabilities; from losses alone follow 'loss', 'lira' and "
                "'rmia'."
            )
        return self.probabilities

    @property
    def classes(self) -> NDArray[np.int64]:
        """The label of each record; an error if none were given.

        Raises:
            InvalidArgument: there are none.

        """
        if self.labels is None:
            raise InvalidArgument("labels are missing; give them with the losses.")
        return self.labels

    @property
    def of_label(self) -> FloatArray:
        """The probability of the true class; e^-loss where only losses (cross-entropy) are known.

        Raises:
            InvalidArgument: a loss is negative, so that it is no cross-entropy.

        """
        if self.probabilities is None:
            remedy = "Cross-entropy is not negative; for other losses use method='loss'."
            return np.exp(-_check.array("losses", self.values, low=0, remedy=remedy))
        index = np.broadcast_to(self.classes, self.probabilities.shape[:-1])
        return np.take_along_axis(self.probabilities, index[..., None], -1)[..., 0]

    def join(self, other: "Outputs") -> "Outputs":
        """These records, then the others."""
        if self.n_classes != other.n_classes or (self.labels is None) != (other.labels is None):
            raise InvalidArgument(
                f"members have {_kind(self)}, non_members {_kind(other)}. Give the same for both."
            )
        axis = -1 if self.n_classes is None else -2
        values = np.concatenate([self.values, other.values], axis=axis)
        labels = None if self.labels is None else np.concatenate([self.classes, other.classes])
        return Outputs(values if axis == -2 else None, values if axis == -1 else None, labels)


def _kind(outputs: Outputs) -> str:
    what = "losses" if outputs.n_classes is None else f"{outputs.n_classes} probabilities each"
    return what + ("" if outputs.labels is not None else " without labels")


def _probabilities(values: ArrayLike) -> FloatArray:
    remedy = "Give probabilities; logits become some by a softmax."
    p = _check.array("probabilities", values, low=0, high=1 + 1e-6, empty=False, remedy=remedy)
    if p.ndim < 2 or p.shape[-1] < 2:
        raise InvalidArgument(
            f"probabilities has shape {p.shape}; it must have a row per record and at least two "
            "columns, one per class."
        )
    sums = p.sum(axis=-1)
    wrong = np.argwhere(~(np.abs(sums - 1) <= _SUM_TOLERANCE))
    if wrong.size:
        at = tuple(int(i) for i in wrong[0])
        raise InvalidArgument(f"probabilities[{', '.join(map(str, at))}] do not sum to 1. {remedy}")
    return np.minimum(p, 1.0)


def _losses(values: ArrayLike) -> FloatArray:
    remedy = "A model whose loss is not a number has diverged, or the labels are wrong."
    losses = _check.array("losses", values, empty=False, remedy=remedy)
    if losses.ndim < 1:
        raise InvalidArgument("losses must be an array with one loss per record.")
    return losses


def _labels(values: ArrayLike | None, n: int, columns: int | None) -> NDArray[np.int64] | None:
    if values is None:
        return None
    remedy = "Labels are the columns of the true classes, counted from 0."
    high = np.inf if columns is None else columns - 1
    labels = _check.array("labels", values, low=0, high=high, remedy=remedy)
    if labels.shape != (n,) or np.any(labels != np.round(labels)):
        raise InvalidArgument(
            f"labels has shape {labels.shape} for {n} records; give one whole number for each. "
            f"{remedy}"
        )
    return labels.astype(np.int64)


def dense(X: Any) -> FloatArray:
    """Records as an array of floats, whatever table they come in."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)


def records(name: str, value: Any) -> tuple[Any, Any]:
    """Records and labels of a pair (X, y); frames and sparse matrices stay what they are."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidArgument(
            f"{name} must be a pair (X, y) of records and labels. For losses or probabilities pass "
            "target=None."
        )
    X, y = value[0], np.asarray(value[1])
    X = X if is_table(X) or is_sparse(X) else np.asarray(X)
    size = X.shape[0] if X.ndim else 0
    if y.ndim != 1 or y.size == 0 or size != y.size:
        raise InvalidArgument(
            f"{name} has {size} records and labels of shape {y.shape}; give one label per record, "
            "and at least one record."
        )
    return X, y


def observe(target: Any, X: Any, y: ArrayLike) -> Outputs:
    """What a target says about records: one query each.

    Args:
        target: has ``predict_proba``; or ``decision_function``, whose values are taken for logits;
            or is a torch module that returns logits or probabilities; or a function ``loss(X, y)``
            that returns a loss per record.
        X: the records.
        y: their true labels, as the target knows them.

    Raises:
        InvalidArgument: no such target, a label that the target never learned, or outputs that are
            not what they should be.

    """
    y = np.asarray(y)
    if y.ndim != 1 or y.size == 0:
        raise InvalidArgument(f"y has shape {y.shape}; it must hold one label for each record.")
    for name, read in _READERS.items():
        if hasattr(target, name):
            p = read(getattr(target, name)(X))
            return Outputs(probabilities=p, labels=_columns(target, y, _width(p, y.size, name)))
    if is_module(target):
        p = _from_margins(margins_of_module(target, X))
        return Outputs(probabilities=p, labels=_columns(target, y, _width(p, y.size, "target")))
    if not callable(target):
        raise InvalidArgument(f"target={type(target).__name__} cannot be attacked. {_TARGETS}")
    losses = np.asarray(target(X, y), dtype=float)
    if losses.shape != y.shape:
        raise InvalidArgument(
            f"the target returned losses of shape {losses.shape} for {y.size} records. {_TARGETS}"
        )
    return Outputs(losses=losses)


def _from_margins(values: Any) -> FloatArray:
    """Logits as probabilities; a single column is the log odds of the second class."""
    z = _check.array("decision_function", values, remedy="Every margin must be a finite number.")
    if z.ndim == 1:
        return np.column_stack([special.expit(-z), special.expit(z)])
    return special.softmax(z, axis=-1)


_READERS: dict[str, Callable[[Any], FloatArray]] = {
    "predict_proba": lambda values: np.asarray(values, dtype=float),
    "decision_function": _from_margins,
}


def _width(p: FloatArray, n: int, name: str) -> int:
    if p.ndim != 2 or p.shape[0] != n:
        raise InvalidArgument(
            f"{name} returned shape {p.shape} for {n} records; it must return a row for each."
        )
    return p.shape[1]


def _columns(target: Any, y: Any, width: int) -> NDArray[np.int64]:
    """The column of each label, by ``classes_`` where there are some."""
    classes = np.asarray(getattr(target, "classes_", np.arange(width)))
    if classes.shape != (width,):
        raise InvalidArgument(
            f"the target has {width} columns for classes_ of shape {classes.shape}; it must give "
            "one column per class."
        )
    known = {value: i for i, value in enumerate(classes.tolist())}
    found = [known.get(value, -1) for value in y.tolist()]
    if -1 in found:
        raise InvalidArgument(
            f"y[{found.index(-1)}] is a class that the target never learned; it knows "
            f"{len(known)} others. Train on all classes, or leave these records out."
        )
    return np.array(found, dtype=np.int64)
