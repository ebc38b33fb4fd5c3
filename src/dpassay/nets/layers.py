"""Layers that tell the norm of every example's gradient without forming it.

A layer with parameters keeps its input of the forward pass. Where the gradient by its output comes
back (``delta``, one row per example), ``ghost`` gives two things: the squared norm of each
example's gradient by the layer's parameters, and a function that sums these gradients with one
factor per example. For a dense layer the gradient of an example is the outer product of delta and
input, so that its norm is a product (Goodfellow 2015) and the sum is one matrix product. A
convolution is a dense layer on unfolded patches that shares its weights among T places: the
squared norm is the sum over pairs of places of products of inner products (Li et al. 2022), or that
of the gradient itself where forming it is cheaper.

Numbers are kept within ``LARGE`` on their way, forward and back, so that no example makes a sum
infinite or NaN, which would tell that it is there. That happens to each example by itself, and
only where training has diverged; it costs nothing, as it is fused with other passes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.nets._jax import jax, jnp

Shape = tuple[int, ...]
Ghost = tuple[Any, Callable[[Any], list[Any]]]
LARGE = 1e6
_CANCELLED = 1e-5  # what a squared norm from places may lose to rounding, of its largest value


class Layer(Protocol):
    """What a network is made of; ``inside`` is the shape of one example as it comes in."""

    def outside(self, inside: Shape) -> Shape:
        """The shape of one example as it leaves."""
        ...

    def shapes(self, inside: Shape) -> tuple[Shape, ...]:
        """The shapes of the parameters; none for most layers."""
        ...

    def forward(self, parameters: list[Any], x: Any) -> tuple[Any, Any]:
        """The output of a batch, and what is kept for the way back."""
        ...

    def backward(self, parameters: list[Any], kept: Any, delta: Any) -> Any:
        """The gradient by the input, from that by the output."""
        ...

    def ghost(self, kept: Any, delta: Any) -> Ghost:
        """Squared norms per example, and the sum of gradients for given factors."""
        ...


class _Plain:
    """A layer without parameters that keeps the shape."""

    def outside(self, inside: Shape) -> Shape:
        return inside

    def shapes(self, inside: Shape) -> tuple[Shape, ...]:
        return ()

    def ghost(self, kept: Any, delta: Any) -> Ghost:
        return 0.0, lambda factors: []


@dataclass(frozen=True)
class Relu(_Plain):
    """The activation max(x, 0), entry by entry."""

    def forward(self, parameters: list[Any], x: Any) -> tuple[Any, Any]:
        out = jnp.maximum(x, 0)
        return out, out

    def backward(self, parameters: list[Any], kept: Any, delta: Any) -> Any:
        return jnp.where(kept > 0, delta, 0)


@dataclass(frozen=True)
class Tanh(_Plain):
    """The activation tanh(x), entry by entry."""

    def forward(self, parameters: list[Any], x: Any) -> tuple[Any, Any]:
        out = jnp.tanh(x)
        return out, out

    def backward(self, parameters: list[Any], kept: Any, delta: Any) -> Any:
        return delta * (1 - kept * kept)


@dataclass(frozen=True)
class Flatten(_Plain):
    """An image as one row."""

    def outside(self, inside: Shape) -> Shape:
        return (math.prod(inside),)

    def forward(self, parameters: list[Any], x: Any) -> tuple[Any, Any]:
        return x.reshape(x.shape[0], -1), x.shape

    def backward(self, parameters: list[Any], kept: Any, delta: Any) -> Any:
        return delta.reshape(kept)


@dataclass(frozen=True)
class Dense:
    """x W' + b, with W of shape (units, inputs): gradients then come in the order of the rows.

    Attributes:
        units: the number of outputs.

    """

    units: int

    def __post_init__(self) -> None:
        _check.count("units", self.units)

    def outside(self, inside: Shape) -> Shape:
        if len(inside) != 1:
            raise InvalidArgument(f"Dense takes rows, not shape {inside}; put Flatten() before it.")
        return (self.units,)

    def shapes(self, inside: Shape) -> tuple[Shape, ...]:
        return (self.units, *inside), (self.units,)

    def forward(self, parameters: list[Any], x: Any) -> tuple[Any, Any]:
        weights, bias = parameters
        return limit(x @ weights.T + bias), x

    def backward(self, parameters: list[Any], kept: Any, delta: Any) -> Any:
        return limit(delta @ parameters[0])

    def ghost(self, kept: Any, delta: Any) -> Ghost:
        def total(factors: Any) -> list[Any]:
            scaled = delta * factors[:, None]
            return [scaled.T @ kept, scaled.sum(0)]

        return (1 + (kept * kept).sum(1)) * (delta * delta).sum(1), total


@dataclass(frozen=True)
class Conv:
    """A convolution of images (height, width, channels) as patches times a matrix, plus a bias.

    Attributes:
        channels: the number of outputs per place.
        size: the height and width of a patch.
        stride: from one patch to the next.
        padding: zeros around the image.

    """

    channels: int
    size: int
    stride: int = 1
    padding: int = 0

    def __post_init__(self) -> None:
        for name in ("channels", "size", "stride"):
            _check.count(name, getattr(self, name))
        _check.count("padding", self.padding, low=0)

    def outside(self, inside: Shape) -> Shape:
        if len(inside) != 3 or min(inside[:2]) + 2 * self.padding < self.size:
            raise InvalidArgument(
                f"Conv(size={self.size}) takes images (height, width, channels) that are no "
                f"smaller than its patch, not shape {inside}."
            )
        return (*(self._places(n) for n in inside[:2]), self.channels)

    def shapes(self, inside: Shape) -> tuple[Shape, ...]:
        return (self.channels, self.size**2 * inside[2]), (self.channels,)

    def forward(self, parameters: list[Any], x: Any) -> tuple[Any, Any]:
        weights, bias = parameters
        patches = self.patches(x)
        out = limit(patches @ weights.T + bias)
        places = (self._places(x.shape[1]), self._places(x.shape[2]))
        return out.reshape(x.shape[0], *places, self.channels), (patches, x.shape)

    def backward(self, parameters: list[Any], kept: Any, delta: Any) -> Any:
        by_patch = self._rows(delta) @ parameters[0]
        fold = jax.linear_transpose(self.patches, jax.ShapeDtypeStruct(kept[1], by_patch.dtype))
        return limit(fold(by_patch)[0])

    def ghost(self, kept: Any, delta: Any) -> Ghost:
        patches, delta = kept[0], self._rows(delta)
        bias = delta.sum(1)
        n_places, n_inputs = patches.shape[1:]
        if n_places * (n_inputs + self.channels) < n_inputs * self.channels:
            return _from_places(patches, delta, bias)
        return _from_gradients(patches, delta, bias)

    def patches(self, x: Any) -> Any:
        """The patches of each image as rows: (examples, places, size² channels)."""
        p, n, s = self.padding, self.size, self.stride
        x = jnp.pad(x, ((0, 0), (p, p), (p, p), (0, 0)))
        high, wide = (s * (self._places(m - 2 * p) - 1) + 1 for m in x.shape[1:3])
        cut = [x[:, i : i + high : s, j : j + wide : s] for i in range(n) for j in range(n)]
        stacked = jnp.concatenate(cut, axis=-1)
        return stacked.reshape(x.shape[0], -1, stacked.shape[-1])

    def _places(self, n: int) -> int:
        return (n + 2 * self.padding - self.size) // self.stride + 1

    def _rows(self, delta: Any) -> Any:
        return delta.reshape(delta.shape[0], -1, self.channels)


def _from_places(patches: Any, delta: Any, bias: Any) -> Ghost:
    """Norms from inner products among places; T² (inputs + channels) operations an example.

    Where places cancel, little is left of that sum but its rounding, while the gradient itself may
    be long: a share of what it would be if nothing cancelled is added. Else it hardly matters.
    """
    inputs = jnp.einsum("btk,bsk->bts", patches, patches)
    outputs = jnp.einsum("bto,bso->bts", delta, delta)
    lengths = jnp.sqrt((patches * patches).sum(2)) * jnp.sqrt((delta * delta).sum(2))
    squared = jnp.maximum((inputs * outputs).sum((1, 2)), 0) + (bias * bias).sum(1)
    squared += _CANCELLED * lengths.sum(1) ** 2

    def total(factors: Any) -> list[Any]:
        scaled = delta * factors[:, None, None]
        return [jnp.einsum("bto,btk->ok", scaled, patches), factors @ bias]

    return squared, total


def _from_gradients(patches: Any, delta: Any, bias: Any) -> Ghost:
    """Norms of the gradients themselves; T · inputs · channels operations an example."""
    gradients = jnp.einsum("bto,btk->bok", delta, patches)
    squared = (gradients * gradients).sum((1, 2)) + (bias * bias).sum(1)

    def total(factors: Any) -> list[Any]:
        return [jnp.einsum("b,bok->ok", factors, gradients), factors @ bias]

    return squared, total


def limit(x: Any) -> Any:
    """Numbers within ``LARGE``, 0 for NaN; for what an adversary crafts as well."""
    return jnp.where(jnp.isnan(x), 0, jnp.clip(x, -LARGE, LARGE))
