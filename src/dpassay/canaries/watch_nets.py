"""A watch on a training of ``dpassay.nets``."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpassay._rng import RngLike
from dpassay.canaries.watch import Watch
from dpassay.nets import Before, Hooks, Records, Seen, Trained, Training, train
from dpassay.nets._jax import jnp


def _insert(before: Before) -> Any:
    """The sum of the gradients of the canaries that are in this step."""
    own = before.context
    weights = own["drawn"][before.step] * own["size"]
    return jnp.zeros_like(before.parameters).at[own["places"]].set(own["signs"] * weights[:, None])


def _look(seen: Seen) -> Any:
    """What the step shows along each canary, and the same without the other records."""
    own = seen.context
    parts = jnp.stack([seen.released, seen.released - seen.clipped])
    return (parts[:, own["places"]] * own["signs"]).sum(axis=-1) * own["along"]


_HOOKS = Hooks(added=_insert, observe=_look)


def watch_network(
    training: Training,
    records: Records,
    *,
    canaries: int = 5000,
    rng: RngLike = 0,
    training_rng: RngLike = None,
    start: ArrayLike | None = None,
) -> tuple[Trained, Watch]:
    """A network trained by DP-SGD with canary gradients, and the watch that can judge it.

    Args:
        training: how.
        records: on what.
        canaries: how many, at most one per parameter.
        rng: seed or generator of coins, blocks and draws: the audit's own.
        training_rng: of the training; None for secure noise and batches.
        start: public parameters to begin with; random ones if None.

    """
    watch = Watch(training.network.n_parameters, canaries, rng)
    drawn = np.array([watch.draw(training.sampling_rate) for _ in range(training.steps)])
    scale = watch.blocks.width**-0.5
    context = {
        "drawn": drawn.astype(np.float32),
        "places": watch.blocks.places.astype(np.int32),
        "signs": watch.blocks.signs.astype(np.float32),
        "size": np.float32(training.clip * scale),
        "along": np.float32(scale / training.clip),
    }
    trained = train(training, records, rng=training_rng, start=start, hooks=_HOOKS, context=context)
    noise, rate = training.noise_multiplier, training.sampling_rate
    for now, (released, known) in zip(drawn, np.asarray(trained.observations, float), strict=True):
        watch.take(released, now, noise, rate, known=known)
    return trained, watch
