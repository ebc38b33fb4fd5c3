"""Where an adversary may stand in the training: what it inserts, and what it sees.

All hooks are functions of JAX arrays, compiled into the step. They get ``context``, any tree of
arrays that was passed to :func:`~dpassay.nets.dpsgd.train`: what changes from one trial to the next
(a direction, an example, a query) belongs there, as another context needs no new compilation and
another function does. Define hooks once, at the top of a module, not inside a trial.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.nets._jax import jnp
from dpassay.nets.layers import limit


class Before(NamedTuple):
    """What there is before a step."""

    step: Any
    parameters: Any
    context: Any


class Seen(NamedTuple):
    """What a step releases: everything in it is covered by the event of the training.

    Attributes:
        step: its number, from 0 on.
        parameters: flat, before the step.
        released: the noisy sum of clipped gradients, flat, before it is divided.
        updated: the parameters after the step.
        context: as it was passed.
        clipped: the sum of the clipped gradients of the batch (a crafted example included),
            without gradients that hooks insert and without noise. It is *not* released; an
            adversary who knows all other records knows it.

    """

    step: Any
    parameters: Any
    released: Any
    updated: Any
    context: Any
    clipped: Any = None


@dataclass(frozen=True)
class Hooks:
    """What an adversary inserts at every step, and what it keeps of what it sees.

    Attributes:
        example: ``example(before) -> (x, y)``, one example of the canary's owner, crafted anew from
            the current parameters; its gradient is clipped like any other.
        gradient: ``gradient(before) -> vector``, the canary's gradient itself, of ``n_parameters``
            entries; it is clipped to the same norm, so that a longer one is a direction.
        observe: ``observe(seen) -> tree of small arrays``, streamed out step by step.
        rate: the probability with which the canary is in a step; None takes the sampling rate, as
            for any record. (1 puts it into every step: for estimates of the noise of one step. What
            is then shown of several steps is *not* covered by the event.)
        added: ``added(before) -> vector``, a sum of the gradients of many canaries, inserted as it
            is. Each of them must keep within ``clip``; which of them are in the step is for the
            function to say.

    """

    example: Callable[[Before], tuple[Any, Any]] | None = None
    gradient: Callable[[Before], Any] | None = None
    observe: Callable[[Seen], Any] | None = None
    rate: float | None = None
    added: Callable[[Before], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("example", "gradient", "observe", "added"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise InvalidArgument(f"{name}={value!r} must be a function of one argument.")
        if self.example is not None and self.gradient is not None:
            raise InvalidArgument(
                "example and gradient are both given; one record has one gradient. Pass one."
            )
        if self.added is not None and self.gradient is not None:
            raise InvalidArgument("added and gradient are both given. Pass one of them.")
        if self.rate is not None:
            remedy = "It is the chance that the canary is in a step; None for the sampling rate."
            _check.number("rate", self.rate, low=0, high=1, low_open=True, remedy=remedy)

    def identity(self) -> list[Any]:
        """What a run's key must depend on: two trainings with other hooks are other trainings."""
        own = [self.example, self.gradient, self.observe, self.rate]
        # Hooks without ``added`` keep the keys that they had before there was such a field.
        return own if self.added is None else [*own, self.added]

    def add_crafted(self, before: Before, x: Any, y: Any, weights: Any, weight: Any) -> Any:
        """The batch with the crafted example as one more row, if there is one."""
        if self.example is None:
            return x, y, weights
        own_x, own_y = self.example(before)
        row = limit(jnp.asarray(own_x, x.dtype)).reshape(1, *x.shape[1:])
        label = jnp.asarray(own_y, y.dtype).reshape(1)
        return (
            jnp.concatenate([x, row]),
            jnp.concatenate([y, label]),
            jnp.concatenate([weights, weight[None]]),
        )

    def canary_gradient(self, before: Before, clip: Any, weight: Any) -> Any:
        """The canary's gradient, of norm ``clip`` at most, or that of many; 0 if there is none."""
        if self.added is not None:
            return jnp.asarray(self.added(before), before.parameters.dtype)
        if self.gradient is None:
            return 0.0
        vector = jnp.asarray(self.gradient(before), before.parameters.dtype)
        norm = jnp.linalg.norm(vector)
        factor = jnp.where(jnp.isfinite(norm), weight * clip / jnp.maximum(norm, clip), 0)
        return jnp.where(jnp.isfinite(vector), vector, 0) * factor

    def keep(self, seen: Seen) -> Any:
        """What is kept of a step; None if nothing is asked for."""
        return None if self.observe is None else self.observe(seen)
