"""Small classifiers as a row of layers, with their parameters in one flat vector.

One vector, because noise is drawn, added and looked at as one: a canary gradient, a step and a
released sum are vectors of ``n_parameters`` entries; :meth:`Network.parts` cuts them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.nets._jax import jax, jnp
from dpassay.nets.layers import Conv, Dense, Flatten, Layer, Relu, Shape, Tanh
from dpassay.types import FloatArray

SHRINK = 1 - 1e-5
"""Gradients are clipped to this share of the bound, for the rounding of single precision."""
_ACTIVATIONS = {"relu": Relu, "tanh": Tanh}


@dataclass(frozen=True)
class Network:
    """A classifier: layers one after another, the last of which gives a score per class.

    Attributes:
        input_shape: of one example: (features,) or (height, width, channels).
        layers: Dense, Conv, Relu, Tanh, Flatten or anything that is a :class:`Layer`; hashable.

    """

    input_shape: Shape
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        shape = tuple(_check.count("input_shape", n) for n in self.input_shape)
        object.__setattr__(self, "input_shape", shape)
        object.__setattr__(self, "layers", tuple(self.layers))
        if len(self._insides[-1]) != 1 or not self.n_parameters:
            raise InvalidArgument(
                f"layers={self.layers} end with shape {self._insides[-1]}; they must end with a "
                "score per class. Put Flatten() and Dense(n_classes) at the end."
            )

    @cached_property
    def _insides(self) -> list[Shape]:
        """The shapes before each layer and after the last."""
        shapes = [self.input_shape]
        for layer in self.layers:
            shapes.append(layer.outside(shapes[-1]))
        return shapes

    @cached_property
    def shapes(self) -> list[tuple[Shape, ...]]:
        """The shapes of each layer's parameters."""
        return [
            layer.shapes(inside) for layer, inside in zip(self.layers, self._insides, strict=False)
        ]

    @property
    def n_parameters(self) -> int:
        """The length of the flat vector."""
        return sum(math.prod(shape) for shapes in self.shapes for shape in shapes)

    @property
    def n_classes(self) -> int:
        """The number of scores."""
        return self._insides[-1][0]

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Random parameters: uniform within one over the root of the inputs, biases as well.

        (He et al. 2015 with the gain that PyTorch has; the same law as its layers begin with.)
        """
        parts = []
        for shapes in self.shapes:
            bound = 1 / math.sqrt(shapes[0][1]) if shapes else 0.0
            parts += [rng.uniform(-bound, bound, math.prod(shape)) for shape in shapes]
        return np.concatenate(parts).astype(np.float32)

    def parts(self, parameters: Any) -> list[list[Any]]:
        """The flat vector as each layer's weights and bias; empty for layers without."""
        found, place = [], 0
        for shapes in self.shapes:
            found.append([])
            for shape in shapes:
                size = math.prod(shape)
                found[-1].append(parameters[place : place + size].reshape(shape))
                place += size
        return found

    def scores(self, parameters: Any, x: Any) -> Any:
        """A score per example and class; JAX, and differentiable in both arguments."""
        for layer, own in zip(self.layers, self.parts(parameters), strict=True):
            x, _ = layer.forward(own, x)
        return x

    def losses(self, parameters: Any, x: Any, y: Any) -> Any:
        """The cross-entropy of each example; JAX, and differentiable."""
        return cross_entropy(self.scores(parameters, x), y)

    def predict(self, parameters: Any, x: Any) -> Any:
        """The class of each example, in NumPy."""
        scores = jax.jit(self.scores)(jnp.asarray(parameters), self.shape_rows(x))
        return np.asarray(scores).argmax(axis=1)

    def shape_rows(self, x: Any) -> Any:
        """Rows as what the first layer takes."""
        return jnp.asarray(x, jnp.float32).reshape(-1, *self.input_shape)

    def clipped_sum(self, parameters: Any, x: Any, y: Any, weights: Any, clip: Any) -> Any:
        """The sum of the examples' gradients, each clipped to norm ``clip`` and times its weight.

        One forward and one backward pass of the batch, whatever its size. With weights in [0, 1]
        an example changes the sum by ``clip`` at most, up to the rounding of single precision.

        Args:
            parameters: flat.
            x: a batch, one example of ``input_shape`` after another.
            y: classes from 0 on.
            weights: one per example; 0 leaves it out, as in the padding of a batch.
            clip: a positive number.

        Returns:
            A flat vector; JAX, for use inside compiled code.

        """
        ghosts = self._ghosts(parameters, x, y)
        norms = jnp.sqrt(sum(squared for squared, _ in ghosts))
        bound = clip * SHRINK
        factors = weights * (bound / jnp.maximum(norms, bound))
        return jnp.concatenate([part.ravel() for _, total in ghosts for part in total(factors)])

    def _ghosts(self, parameters: Any, x: Any, y: Any) -> list[Any]:
        """Squared norms and sums of each layer that has parameters, first to last."""
        own, kept = self.parts(parameters), []
        for layer, part in zip(self.layers, own, strict=True):
            x, keep = layer.forward(part, x)
            kept.append(keep)
        delta, ghosts = jax.nn.softmax(x) - jax.nn.one_hot(y, self.n_classes), []
        for i in reversed(range(len(self.layers))):
            ghosts.append(self.layers[i].ghost(kept[i], delta))
            if i:  # what the data themselves would have to change is of no use
                delta = self.layers[i].backward(own[i], kept[i], delta)
        return ghosts[::-1]


def cross_entropy(scores: Any, y: Any) -> Any:
    """-log of the probability that softmax gives to the class, per example."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], axis=1)[:, 0]


def softmax(n_features: int, n_classes: int) -> Network:
    """Multinomial logistic regression.

    >>> softmax(784, 10).n_parameters
    7850

    """
    return Network((n_features,), (Dense(n_classes),))


def mlp(sizes: Sequence[int], activation: str = "relu") -> Network:
    """Dense layers with an activation between: features, hidden units, classes.

    >>> mlp([784, 64, 10]).n_parameters
    50890

    """
    if len(sizes) < 2:
        raise InvalidArgument(f"sizes={list(sizes)} must name features and classes at least.")
    between = _activation(activation)
    layers: list[Layer] = []
    for units in sizes[1:]:
        layers += [Dense(units), between]
    return Network((sizes[0],), tuple(layers[:-1]))


def cnn(
    input_shape: Sequence[int] = (28, 28, 1),
    channels: Sequence[int] = (16, 32),
    *,
    size: int = 4,
    stride: int = 2,
    padding: int = 1,
    hidden: int = 32,
    n_classes: int = 10,
    activation: str = "relu",
) -> Network:
    """Convolutions, a hidden layer and classes, with an activation between any two.

    >>> cnn().n_parameters
    59034

    """
    between = _activation(activation)
    layers: list[Layer] = []
    for n in channels:
        layers += [Conv(n, size, stride, padding), between]
    layers += [Flatten(), Dense(hidden), between, Dense(n_classes)]
    return Network(tuple(input_shape), tuple(layers))


def _activation(name: str) -> Layer:
    return _ACTIVATIONS[_check.choice("activation", name, tuple(_ACTIVATIONS))]()
