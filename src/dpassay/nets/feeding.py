"""The host's part of a training: what is checked, drawn and fed to the compiled steps."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import training_source
from dpassay.nets._jax import jax
from dpassay.nets.hooks import Hooks
from dpassay.nets.network import Network
from dpassay.nets.sampling import SELDOM, capacity, poisson_batches
from dpassay.nets.training import Records, Trained, Training
from dpassay.types import FloatArray

WEIGHT_MAX = 1e30
"""Parameters stay within this, so that everything stays finite."""
_PORTION = 2**23  # bytes of noise that are drawn at once


@dataclass(frozen=True, eq=False)
class Trial:
    """What one training has for itself; see :func:`dpassay.nets.dpsgd.train`."""

    rng: RngLike = None
    start: ArrayLike | None = None
    members: ArrayLike | None = None
    canary: bool = True
    context: Any = None


class Run:
    """The host's part of one training: what is checked, drawn and fed."""

    def __init__(self, training: Training, records: Records, hooks: Hooks, trial: Trial) -> None:
        self.training, self.records, self.hooks = training, records, hooks
        self.data = fitting(training.network, records)
        self.noise = training_source(trial.rng)
        self.rng: Any = self.noise.generator
        self.rooms = rooms(len(records), training.sampling_rate)
        self.state = self._begin(trial.start)
        self.own = (self._weights(trial.members), self._settings(trial.canary), trial.context)

    def _weights(self, members: ArrayLike | None) -> FloatArray:
        n = len(self.records)
        weights = np.ones(n) if members is None else np.asarray(members)
        if weights.shape != (n,) or not ((weights == 0) | (weights == 1)).all():
            raise InvalidArgument(
                f"members of shape {weights.shape} must hold one truth value for each of {n} "
                "records."
            )
        return weights.astype(np.float32)

    def _begin(self, start: ArrayLike | None) -> tuple[Any, ...]:
        """Parameters, direction and step number."""
        # Drawn in any case: where the parameters begin does not change what is drawn after them.
        drawn = self.training.network.start(self.rng)
        parameters = drawn
        if start is not None:
            checked = _check.array("start", start, low=-WEIGHT_MAX, high=WEIGHT_MAX)
            parameters = checked.astype(np.float32)
        if parameters.shape != drawn.shape:
            raise InvalidArgument(
                f"start has shape {parameters.shape}; the network has {len(drawn)} parameters."
            )
        return parameters, np.zeros_like(drawn), np.int32(0)

    def _settings(self, canary: bool) -> dict[str, Any]:
        """Numbers that may change without a new compilation."""
        if canary not in (True, False):
            raise InvalidArgument(f"canary={canary!r} must be True or False; it is in or not.")
        plan = self.training
        n = len(self.records) if plan.n_records is None else plan.n_records
        numbers = {
            "clip": plan.clip,
            "deviation": plan.clip * plan.noise_multiplier,
            "divisor": plan.sampling_rate * n,
            "momentum": plan.momentum,
            "canary": float(canary),
        }
        return {name: np.float32(value) for name, value in numbers.items()}

    def portions(self, fit: bool = True) -> Iterator[dict[str, Any]]:
        """What the steps are fed, so many at a time; the last portion is filled up with rate 0.

        Args:
            fit: whether batches take the usual room where they fit; then shapes may change.

        """
        plan, n_parameters = self.training, self.training.network.n_parameters
        n_portions = math.ceil(plan.steps * n_parameters * 4 / _PORTION)
        length = math.ceil(plan.steps / n_portions)
        rates = np.zeros(n_portions * length, np.float32)
        rates[: plan.steps] = plan.rates()
        for i in range(n_portions):
            yield self._feed(length, fit) | {"rate": rates[i * length : (i + 1) * length]}

    def finish(self, state: Any, kept: list[Any]) -> Trained:
        """The result, from the last state and what was observed in each portion."""
        plan = self.training

        def join(*parts: Any) -> Any:
            return np.concatenate([np.asarray(part) for part in parts])[: plan.steps]

        seen = None if self.hooks.observe is None else jax.tree.map(join, *kept)
        parameters = np.asarray(state[0])
        return Trained(parameters, seen, plan.event(), plan.clip, self.noise.level)

    def _feed(self, length: int, fit: bool) -> dict[str, Any]:
        plan, n = self.training, len(self.records)
        rate = plan.sampling_rate if self.hooks.rate is None else self.hooks.rate
        feed: dict[str, Any] = {"inserted": (self.rng.random(length) < rate).astype(np.float32)}
        if plan.sampling_rate < 1:
            drawn = poisson_batches(n, plan.sampling_rate, length, self.rooms[0], self.rng)
            drawn = drawn.fit_into(self.rooms[1]) if fit else drawn
            feed |= {"index": drawn.index, "taken": drawn.taken}
        return feed | {"noise": _noise((length, plan.network.n_parameters), self.rng)}


@lru_cache(maxsize=64)
def rooms(n_records: int, sampling_rate: float) -> tuple[int, int]:
    """The most and the usual number of rows of a batch."""
    return capacity(n_records, sampling_rate), capacity(n_records, sampling_rate, SELDOM)


def _noise(shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    """Normal draws in double precision, each rounded once; row by row, to stay in the cache."""
    noise, row = np.empty(shape, np.float32), np.empty(shape[1])
    for rounded in noise:
        rounded[:] = rng.standard_normal(out=row)
    return noise


def fitting(network: Network, records: Records) -> tuple[Any, Any]:
    """The records on the device, if the network can take them."""
    if not isinstance(records, Records):
        raise InvalidArgument("records must be Records(X, y), which many trainings can share.")
    if math.prod(records.X.shape[1:]) != math.prod(network.input_shape):
        raise InvalidArgument(
            f"X has examples of shape {records.X.shape[1:]}; the network takes "
            f"{network.input_shape}."
        )
    if records.y.max() >= network.n_classes:
        raise InvalidArgument(
            f"y has class {records.y.max()}; the network has classes 0 to {network.n_classes - 1}."
        )
    return records.on_device
