"""Trainers: one trial of a game, as the trainer and the adversary play it together."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpassay.adversaries.crafters import Crafted
from dpassay.adversaries.insertions import FixedExample
from dpassay.errors import InvalidArgument
from dpassay.nets import Before, Training, train
from dpassay.nets._jax import jax
from dpassay.types import FloatArray

Trainer = Callable[[Training, Crafted, bool, np.random.Generator], FloatArray]


def at_once(
    training: Training, crafted: Crafted, world: bool, rng: np.random.Generator
) -> FloatArray:
    """What every step showed; the adversary may act at each of them."""
    trained = train(
        training,
        crafted.records,
        rng=rng,
        start=crafted.start,
        hooks=crafted.hooks,
        canary=world,
        context=crafted.context,
    )
    return np.asarray(trained.observations)


def by_epochs(
    training: Training, crafted: Crafted, world: bool, rng: np.random.Generator
) -> FloatArray:
    """What every step showed; the adversary makes a new example at the start of an epoch only.

    An epoch is 1 / sampling_rate steps, rounded. The training is the same as at once, cut there.
    """
    if training.momentum:
        raise InvalidArgument(
            f"momentum={training.momentum:g} must be 0 to train by epochs: the direction is not "
            "carried over. Train at_once."
        )
    length, rates = max(round(1 / training.sampling_rate), 1), training.rates()
    hooks = replace(crafted.hooks, example=FixedExample())
    parameters: Any = training.network.start(rng) if crafted.start is None else crafted.start
    seen = []
    for begin in range(0, training.steps, length):
        x, y = _example(crafted.hooks.example, begin, parameters, crafted.context)
        part = rates[begin : begin + length]
        trained = train(
            replace(training, steps=len(part), learning_rate=tuple(map(float, part))),
            crafted.records,
            rng=rng,
            start=parameters,
            hooks=hooks,
            canary=world,
            context=crafted.context | {"x": x, "y": y},
        )
        parameters = trained.parameters
        seen.append(np.asarray(trained.observations))
    return np.concatenate(seen)


def _example(insert: Any, step: int, parameters: Any, context: Any) -> Any:
    return jax.tree.map(np.asarray, _compile(insert)(np.int32(step), parameters, context))


@lru_cache(maxsize=16)
def _compile(insert: Any) -> Any:
    return jax.jit(lambda step, parameters, context: insert(Before(step, parameters, context)))
