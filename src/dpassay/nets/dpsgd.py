"""DP-SGD of small networks: Poisson batches, ghost clipping, one compiled program per shape.

Every step sums the clipped gradients of a batch
(:meth:`~dpassay.nets.network.Network.clipped_sum`), adds Gaussian noise, divides by the public
number ``sampling_rate · n_records`` and moves. Batches and noise are drawn on the host in double
precision, by the generator that was passed or by AES under a key of the operating system: an audit
plays the very code that a release runs, and no tail is cut (JAX's own normals in single precision
end at 5.4 deviations). The steps run as one compiled loop.

A run depends on its arguments and its generator alone. All trials of one shape run the same two
programs (:mod:`dpassay.nets.sampling` says why two), each by itself and on one thread, so that a
trial is the same to the last bit wherever and beside whatever it is played (on the same kind of
processor).

What is promised: under add-remove, one record moves the sum by ``clip`` at most, *in real
arithmetic*. In single precision it also moves the rounding of the others: on MNIST by 2e-6 of
``clip`` in batches of 250 and 2e-5 in batches of 2000. Gradients are clipped 1e-5 short of ``clip``
and the whole change stayed below ``clip`` there; where all records were one and the same, it was up
to 5e-5 too long. That is measured, not proved. The noise is floating-point as well: its level is
"cryptographic" or "reproducible", never "exact".
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import Rng, source
from dpassay.nets._jax import jax, jnp
from dpassay.nets.hooks import Before, Hooks, Seen
from dpassay.nets.layers import LARGE
from dpassay.nets.network import Network
from dpassay.nets.sampling import SELDOM, capacity, poisson_batches
from dpassay.privacy import events
from dpassay.types import FloatArray, NoiseLevel, Release

_PORTION = 2**23  # bytes of noise that are drawn at once
_WEIGHT_MAX = 1e30  # parameters stay finite, so that everything does
_ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
_NO_HOOKS = Hooks()


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
        """These records and more at the end, such as canaries; see ``members`` of :func:`train`."""
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
        """The parameters as a release with its event."""
        return Release(self.parameters, self.event, self.clip, self.noise)


def train(
    training: Training,
    records: Records,
    *,
    rng: Rng = None,
    start: ArrayLike | None = None,
    members: ArrayLike | None = None,
    hooks: Hooks = _NO_HOOKS,
    canary: bool = True,
    context: Any = None,
) -> Trained:
    """The network after DP-SGD, with what the adversary saw and the event of the training.

    Args:
        training: how.
        records: on what.
        rng: None for secure noise and batches (AES under a key of the operating system); a seed or
            a generator, such as ``dpassay._rng.for_trial(seed, trial)``, for a run that can be
            replayed and is not private.
        start: public parameters to begin with; random ones if None.
        members: which of the records are there, a truth value each; the others are drawn into
            batches but have weight 0. Both worlds of a game then share shapes, batches, noise and
            divisor, as they share the code. None takes all of them.
        hooks: what an adversary inserts and keeps, see :class:`Hooks`.
        canary: whether what the hooks insert is there; the two worlds of a game.
        context: a tree of arrays that the hooks get.

    Returns:
        Parameters, observations and event.

    Raises:
        InvalidArgument: shapes do not fit. BatchOverflow: once in 1e12 batches.

    """
    run = _Run(training, records, hooks, source(rng, 1, limit=0))
    weights = run.weights(members)
    state = run.begin(start)
    program = _program(training.network, hooks, training.sampling_rate == 1)
    settings, kept = run.settings(canary), []
    for feed in run.portions():
        state, seen = program(state, feed, run.data, weights, settings, context)
        kept.append(seen)
    parameters = np.asarray(state[0])
    cut = lambda *parts: np.concatenate([np.asarray(p) for p in parts])[: training.steps]  # noqa: E731
    observations = None if hooks.observe is None else jax.tree.map(cut, *kept)
    return Trained(parameters, observations, training.event(), training.clip, run.noise.level)


class _Run:
    """The host's part of one training: what is drawn, checked and fed."""

    def __init__(self, training: Training, records: Records, hooks: Hooks, noise: Any) -> None:
        self.training, self.records, self.hooks, self.noise = training, records, hooks, noise
        self.rng: np.random.Generator = noise.generator
        self.data = _fitting(training.network, records)
        self.rooms = _rooms(len(records), training.sampling_rate)

    def weights(self, members: ArrayLike | None) -> Any:
        n = len(self.records)
        weights = np.ones(n) if members is None else np.asarray(members)
        if weights.shape != (n,) or not np.isin(weights, (0, 1)).all():
            raise InvalidArgument(
                f"members of shape {weights.shape} must hold one truth value for each of {n} "
                "records."
            )
        return jnp.asarray(weights, jnp.float32)

    def begin(self, start: ArrayLike | None) -> tuple[Any, ...]:
        """Parameters, direction and step number."""
        # Drawn in any case: where the parameters begin does not change what is drawn after them.
        drawn = self.training.network.start(self.rng)
        parameters = drawn if start is None else _check.array("start", start).astype(np.float32)
        if parameters.shape != drawn.shape:
            raise InvalidArgument(
                f"start has shape {parameters.shape}; the network has {len(drawn)} parameters."
            )
        return jnp.asarray(parameters), jnp.zeros(len(drawn), jnp.float32), jnp.int32(0)

    def settings(self, canary: bool) -> dict[str, Any]:
        """Numbers that may change without a new compilation."""
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

    def portions(self) -> Iterator[dict[str, Any]]:
        """What the steps are fed, so many at a time; the last portion is filled up with rate 0."""
        plan, n_parameters = self.training, self.training.network.n_parameters
        n_portions = math.ceil(plan.steps * n_parameters * 4 / _PORTION)
        length = math.ceil(plan.steps / n_portions)
        rates = np.zeros(n_portions * length, np.float32)
        rates[: plan.steps] = plan.rates()
        for i in range(n_portions):
            yield self._feed(length) | {"rate": rates[i * length : (i + 1) * length]}

    def _feed(self, length: int) -> dict[str, Any]:
        plan, n = self.training, len(self.records)
        rate = plan.sampling_rate if self.hooks.rate is None else self.hooks.rate
        feed: dict[str, Any] = {"inserted": (self.rng.random(length) < rate).astype(np.float32)}
        if plan.sampling_rate < 1:
            drawn = poisson_batches(n, plan.sampling_rate, length, self.rooms[0], self.rng)
            drawn = drawn.fitted(self.rooms[1])
            feed |= {"index": drawn.index, "taken": drawn.taken}
        return feed | {"noise": _noise((length, plan.network.n_parameters), self.rng)}


@lru_cache(maxsize=64)
def _rooms(n_records: int, sampling_rate: float) -> tuple[int, int]:
    """The most and the usual number of rows of a batch."""
    return capacity(n_records, sampling_rate), capacity(n_records, sampling_rate, SELDOM)


def _noise(shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    """Normal draws in double precision, each rounded once; row by row, to stay in the cache."""
    noise, row = np.empty(shape, np.float32), np.empty(shape[1])
    for rounded in noise:
        rounded[:] = rng.standard_normal(out=row)
    return noise


def _fitting(network: Network, records: Records) -> tuple[Any, Any]:
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


@lru_cache(maxsize=64)
def _program(network: Network, hooks: Hooks, full: bool) -> Any:
    """The compiled steps; JAX keeps one program for each combination of shapes."""

    def step(state: Any, feed: Any, data: Any, members: Any, settings: Any, context: Any) -> Any:
        parameters, direction, number = state
        before = Before(number, parameters, context)
        weight = feed["inserted"] * settings["canary"]
        x, y, weights = _batch(network, feed, data, members, full)
        x, y, weights = hooks.crafted(before, x, y, weights, weight)
        total = network.clipped_sum(parameters, x, y, weights, settings["clip"])
        total += hooks.inserted(before, settings["clip"], weight)
        released = total + settings["deviation"] * feed["noise"]
        direction = settings["momentum"] * direction + released / settings["divisor"]
        updated = parameters - feed["rate"] * direction
        updated = jnp.clip(updated, -_WEIGHT_MAX, _WEIGHT_MAX)
        seen = hooks.seen(Seen(number, parameters, released, updated, context))
        return (updated, direction, number + 1), seen

    def steps(state: Any, feed: Any, data: Any, members: Any, settings: Any, context: Any) -> Any:
        one = lambda state, now: step(state, now, data, members, settings, context)  # noqa: E731
        return jax.lax.scan(one, state, feed)

    return jax.jit(steps, compiler_options=_ONE_THREAD)


def _batch(network: Network, feed: Any, data: Any, members: Any, full: bool) -> Any:
    x, y = data
    if not full:
        index = feed["index"]
        x, y, members = x[index], y[index], members[index] * feed["taken"]
    return x.reshape(-1, *network.input_shape), y, members
