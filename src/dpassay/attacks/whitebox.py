"""What an attacker sees who holds the model: per layer the gradient of the loss and the activation.

The vector of Nasr, Shokri and Houmansadr (2019): v = [dL/dtheta_1, h_1, ..., dL/dtheta_L, h_L, p].
For a dense layer the gradient of one record is the outer product of the layer's input (with a 1 for
the intercept) and of its error, the derivative of the loss by the layer's sums. Input and error
thus say all that the gradient says, in far fewer numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import special

from dpassay.attacks.outputs import dense, observe
from dpassay.attacks.scores import log_odds
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


class WhiteBox(Protocol):
    """A row of numbers per record, from the inside of a model: pass yours for any framework.

    Rows of different models must be comparable; neurons of networks that were trained separately
    have no common order, so sort what belongs to a layer, or take norms.
    """

    def __call__(self, model: Any, X: Any, y: Any, /) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class Layer:
    """One dense layer on n records: its inputs, its errors (dL/dz), and its activations."""

    inputs: FloatArray
    errors: FloatArray
    activations: FloatArray

    @property
    def gradients(self) -> FloatArray:
        """(n, (d_in + 1) d_out): the gradient by weights, then by intercepts, in full."""
        outer = self.inputs[:, :, None] * self.errors[:, None, :]
        return np.hstack([outer.reshape(len(outer), -1), self.errors])

    @property
    def gradient_norms(self) -> FloatArray:
        """The norm of each record's gradient: |error| sqrt(1 + |input|^2)."""
        squares = np.square(self.errors).sum(axis=1) * (1 + np.square(self.inputs).sum(axis=1))
        return np.sqrt(squares)


def white_box_features(model: Any, X: Any, y: Any) -> FloatArray:
    """The vector v of each record in a form that separately trained models share.

    Per layer the logarithm of the gradient's norm, the errors and the activations, each sorted;
    then the log odds of the true class and the sorted probabilities (for a regression the loss).

    Args:
        model: a linear or logistic model with ``coef_`` and ``intercept_``, scikit-learn's
            ``MLPClassifier`` or ``MLPRegressor``, or a pipeline that ends in one of these.
        X: records.
        y: their labels.

    """
    layers = dense_layers(model, X, y)
    parts = []
    for layer in layers:
        norms = np.log(np.maximum(layer.gradient_norms, np.finfo(float).tiny))
        parts += [norms[:, None], _descending(layer.errors), _descending(layer.activations)]
    return np.hstack([*parts, _of_output(model, X, y, layers)])


def full_vector(model: Any, X: Any, y: Any) -> FloatArray:
    """The vector v of each record as it is printed, gradients in full: large, for small models."""
    layers = dense_layers(model, X, y)
    parts = [part for layer in layers for part in (layer.gradients, layer.activations)]
    return np.hstack([*parts, _of_output(model, X, y, layers, plain=True)])


def _descending(values: FloatArray) -> FloatArray:
    return -np.sort(-values, axis=1)


def _of_output(model: Any, X: Any, y: Any, layers: list[Layer], plain: bool = False) -> FloatArray:
    if not hasattr(model, "predict_proba"):
        last = layers[-1]
        return last.activations if plain else np.square(last.errors).sum(axis=1, keepdims=True) / 2
    outputs = observe(model, X, y)
    if plain:
        return outputs.vectors
    return np.hstack([log_odds(outputs)[:, None], _descending(outputs.vectors)])


def dense_layers(model: Any, X: Any, y: Any) -> list[Layer]:
    """What happens in each dense layer of a known model, from the first to the last.

    The loss is cross-entropy for classifiers and half of the squared error for regressions.
    """
    if hasattr(model, "steps"):  # a pipeline: the last step on what the others make of X
        return dense_layers(model[-1], model[:-1].transform(X) if len(model) > 1 else X, y)
    if hasattr(model, "coefs_"):
        weights, intercepts = model.coefs_, model.intercepts_
        hidden = model.activation
    elif hasattr(model, "coef_"):
        coef = np.atleast_2d(model.coef_)
        weights = [coef.T]
        intercepts = [np.broadcast_to(getattr(model, "intercept_", 0.0), (len(coef),))]
        hidden = "identity"
    else:
        raise InvalidArgument(
            f"model={type(model).__name__} has neither coef_ nor coefs_. Pass features=, a "
            "function (model, X, y) that returns a row of white-box features per record."
        )
    return _backward(_forward(dense(X), weights, intercepts, hidden), model, y, weights, hidden)


_ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
    "logistic": special.expit,
}
_SLOPES: dict[str, Callable[[FloatArray], FloatArray]] = {  # in terms of the activation
    "identity": np.ones_like,
    "relu": lambda h: (h > 0).astype(float),
    "tanh": lambda h: 1 - h**2,
    "logistic": lambda h: h * (1 - h),
}


def _forward(X: FloatArray, weights: Any, intercepts: Any, hidden: str) -> list[FloatArray]:
    """The input, the activations of hidden layers, and the sums of the last layer."""
    if hidden not in _ACTIVATIONS:
        raise InvalidArgument(f"activation={hidden!r} must be one of {', '.join(_ACTIVATIONS)}.")
    values = [X]
    for i, (w, b) in enumerate(zip(weights, intercepts, strict=True)):
        z = values[-1] @ w + b
        values.append(z if i == len(weights) - 1 else _ACTIVATIONS[hidden](z))
    return values


def _backward(
    values: list[FloatArray], model: Any, y: Any, weights: Any, hidden: str
) -> list[Layer]:
    activation, error = _last(values[-1], model, y)
    layers = [Layer(values[-2], error, activation)]
    for w, h, before in zip(weights[:0:-1], values[-2:0:-1], values[-3::-1], strict=True):
        error = (error @ w.T) * _SLOPES[hidden](h)
        layers.append(Layer(before, error, h))
    return layers[::-1]


def _last(z: FloatArray, model: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    """The output and dL/dz of the last layer: output minus what it should be, for all three."""
    if not hasattr(model, "classes_"):
        if getattr(model, "out_activation_", "identity") != "identity":
            raise InvalidArgument(
                f"loss={model.loss!r} must be the squared error. Pass features= of your own."
            )
        return z, z - np.asarray(y, dtype=float).reshape(len(z), -1)
    classes = np.asarray(model.classes_)
    is_class = np.asarray(y)[:, None] == classes
    if not is_class.any(axis=1).all():
        i = int(np.flatnonzero(~is_class.any(axis=1))[0])
        raise InvalidArgument(f"y[{i}] is a class that the model never learned.")
    if z.shape[1] == 1:
        p = special.expit(z)
        return p, p - is_class[:, 1:]
    p = special.softmax(z, axis=1)
    return p, p - is_class
