"""What an adversary puts into a step and what it keeps of it: hooks of the lab's DP-SGD.

They are frozen objects, not closures: equal ones share one compiled program, also after the way to
a worker. What changes from game to game is in the context, a dict of arrays: ``x`` and ``y`` (the
example to insert), ``query_x`` and ``query_y`` (whose loss is watched), ``gradient``, ``rate``,
``coins``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpassay.nets._jax import jax, jnp
from dpassay.nets.hooks import Before, Seen
from dpassay.nets.network import Network

_TINY = 1e-12


@dataclass(frozen=True)
class FixedExample:
    """Inserts the example of the context, as a record of the data set would be."""

    def __call__(self, before: Before) -> tuple[Any, Any]:
        return before.context["x"], before.context["y"]


@dataclass(frozen=True)
class FreshExample:
    """Inserts the example whose clipped gradient would now lower the query's loss most.

    It starts from the example of the context and moves by back-propagation through a simulated
    update (twice: once for the update, once for the example), keeping to the ball of ``radius``.

    Attributes:
        network: what is trained.
        clip: the clipping norm of the training.
        radius: the most that an example may measure.
        moves: steps of fixed length, radius / moves.

    """

    network: Network
    clip: float
    radius: float
    moves: int

    def __call__(self, before: Before) -> tuple[Any, Any]:
        label, descent = before.context["y"], jax.grad(self._loss_after)

        def move(x: Any, _: Any) -> Any:
            g = descent(x, label, before)
            x = x - self.radius / self.moves * g / (jnp.linalg.norm(g) + _TINY)
            return within(x, self.radius), None

        x, _ = jax.lax.scan(move, jnp.asarray(before.context["x"]), None, self.moves)
        return x, label

    def _loss_after(self, x: Any, y: Any, before: Before) -> Any:
        """The query's loss after a step on the example alone."""
        context = before.context
        gradient = jax.grad(self._loss)(before.parameters, x, y)
        gradient = gradient / jnp.maximum(jnp.linalg.norm(gradient) / self.clip, 1.0)
        updated = before.parameters - context["rate"] * gradient
        return self._loss(updated, context["query_x"], context["query_y"])

    def _loss(self, parameters: Any, x: Any, y: Any) -> Any:
        return loss_of(self.network, parameters, x, y)


@dataclass(frozen=True)
class FixedGradient:
    """Inserts the gradient of the context."""

    def __call__(self, before: Before) -> Any:
        return before.context["gradient"]


@dataclass(frozen=True)
class Coined:
    """Inserts another's gradient in the steps whose coin, in the context, is 1."""

    gradient: Callable[[Before], Any]

    def __call__(self, before: Before) -> Any:
        return before.context["coins"][before.step] * self.gradient(before)


@dataclass(frozen=True)
class QueryLoss:
    """Keeps the loss of the query under the model after each step."""

    network: Network

    def __call__(self, seen: Seen) -> Any:
        context = seen.context
        return loss_of(self.network, seen.updated, context["query_x"], context["query_y"])


@dataclass(frozen=True)
class AlongGradient:
    """Keeps <noisy sum, gradient> / ||gradient|| of each step."""

    def __call__(self, seen: Seen) -> Any:
        gradient = seen.context["gradient"]
        return seen.released @ gradient / jnp.linalg.norm(gradient)


@dataclass(frozen=True)
class Movement:
    """Keeps how far each parameter moved in the step."""

    def __call__(self, seen: Seen) -> Any:
        return jnp.abs(seen.updated - seen.parameters)


def loss_of(network: Network, parameters: Any, x: Any, y: Any) -> Any:
    """The loss of one example; JAX, and differentiable."""
    row = x.reshape(1, *network.input_shape)
    return network.losses(parameters, row, jnp.asarray(y).reshape(1))[0]


def within(x: Any, radius: float) -> Any:
    """The point of the ball nearest to x."""
    return x / jnp.maximum(jnp.linalg.norm(x) / radius, 1.0)
