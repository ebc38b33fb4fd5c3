"""How a network is trained, on what, and what comes out; :mod:`dpassay.nets.dpsgd` does it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.nets._jax import jnp
from dpassay.nets.layers import LARGE
from dpassay.nets.network import Network
from dpassay.privacy import events
from dpassay.types import FloatArray, NoiseLevel, Release


@dataclass(frozen=True)
class Training:
    """How a network is trained; ``event()`` says what that costs.

    Attributes:
        network: what is trained.
        steps: how many updates.
        clip: the most that one example's gradient may measure.
        noise_multiplier: deviation of the noise over ``clip``; 0 adds none (NonPrivate).
        learning_rate: of the *mean* gradient; a number, or one per step.
        sampling_rate: the probability with which a record is in a batch; 1 takes full batches.
        momentum: the share of the last direction that is kept, in [0, 1); post-processing.
        n_records: the public number of records in the divisor; None takes that of the data.

    """

    network: Network
    steps: int
    clip: float
    noise_multiplier: float
    learning_rate: float | Sequence[float]
    sampling_rate: float = 1.0
    momentum: float = 0.0
    n_records: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.network, Network):
            raise InvalidArgument(f"network={self.network!r} must be a Network, such as mlp(...).")
        _check.count("steps", self.steps, remedy="It is the number of updates.")
        remedy = "It bounds the norm of one example's gradient, to which the noise is scaled."
        # Beyond these single precision has no room for sums.
        _check.number("clip", self.clip, low=1e-10, high=1e10, remedy=remedy)
        remedy = "It is the noise in units of the sensitivity; 0 adds none."
        _check.number("noise_multiplier", self.noise_multiplier, low=0, high=1e10, remedy=remedy)
        _check.sampling_rate(self.sampling_rate)
        _check.number("momentum", self.momentum, low=0, high=1, high_open=True)
        if self.n_records is not None:
            _check.count("n_records", self.n_records)
        self.rates()

    def rates(self) -> FloatArray:
        """The learning rate of each step."""
        rates = _check.array("learning_rate", self.learning_rate, low=0, high=1e10)
        if rates.ndim and rates.shape != (self.steps,):
            raise InvalidArgument(
                f"learning_rate has shape {rates.shape}; it must be one number, or "
                f"steps={self.steps}."
            )
        return np.broadcast_to(rates, (self.steps,)).astype(np.float32)

    def event(self) -> events.Event:
        """What the training does to the data, every intermediate model and noisy sum released."""
        if self.noise_multiplier == 0:
            return events.NonPrivate()
        return events.dp_sgd_event(self.noise_multiplier, self.sampling_rate, self.steps)


@dataclass(frozen=True, eq=False)
class Records:
    """Examples and their classes, checked once and put on the device once, for many trainings.

    Attributes:
        X: one example per row, in single precision; every number within 1e6.
        y: classes from 0 on.

    """

    X: FloatArray
    y: NDArray[Any]

    def __post_init__(self) -> None:
        X, y = np.asarray(self.X, np.float32), np.asarray(self.y)
        if X.ndim < 2 or not len(X) or y.shape != X.shape[:1]:
            raise InvalidArgument(
                f"X has shape {X.shape} and y {y.shape}; pass one row and one class per record."
            )
        if not np.abs(X).max() <= LARGE:
            raise InvalidArgument(f"X must lie in [-{LARGE:g}, {LARGE:g}] and be finite; scale it.")
        if y.dtype.kind not in "iu" or y.min() < 0:
            raise InvalidArgument(f"y of type {y.dtype} must hold classes as integers from 0 on.")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y.astype(np.int32))

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def on_device(self) -> tuple[Any, Any]:
        """Copies on the device; not sent along with a pickle."""
        return jnp.array(self.X), jnp.array(self.y)

    def __getstate__(self) -> dict[str, Any]:
        return {"X": self.X, "y": self.y}

    def with_examples(self, X: ArrayLike, y: ArrayLike) -> "Records":
        """These records and more at the end, such as canaries; see ``members`` of ``train``."""
        more = np.asarray(X, np.float32).reshape(-1, *self.X.shape[1:])
        labels = np.atleast_1d(np.asarray(y))
        return Records(np.concatenate([self.X, more]), np.concatenate([self.y, labels]))


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training releases.

    Attributes:
        parameters: the last ones, flat.
        observations: what ``Hooks.observe`` kept, a tree of arrays with one entry per step; None
            without it. Covered by the same event as the parameters.
        event: what was done to the data.
        clip: the declared sensitivity of each sum.
        noise: its level.

    """

    parameters: FloatArray
    observations: Any
    event: events.Event
    clip: float
    noise: NoiseLevel

    @property
    def release(self) -> Release[FloatArray]:
        """The parameters as a release; without an event where floats were keyed securely.

        The event of the training is for real numbers, and noise in floats has finer bits.
        """
        event = None if self.noise == "cryptographic" else self.event
        return Release(self.parameters, event, self.clip, self.noise)
