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

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.nets._jax import jax, jnp
from dpassay.nets.feeding import WEIGHT_MAX, Run, Trial
from dpassay.nets.hooks import Before, Hooks, Seen
from dpassay.nets.network import Network
from dpassay.nets.training import Records, Trained, Training

_ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
_NO_HOOKS = Hooks()


def train(
    training: Training,
    records: Records,
    *,
    rng: RngLike = None,
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
    run = Run(training, records, hooks, Trial(rng, start, members, canary, context))
    program = _program(training.network, hooks, training.sampling_rate == 1, False)
    state, kept = run.state, []
    for feed in run.portions():
        state, seen = program(state, feed, run.data, *run.own)
        kept.append(seen)
    return run.finish(state, kept)


def train_many(
    training: Training,
    records: Records,
    trials: Iterable[Trial],
    *,
    hooks: Hooks = _NO_HOOKS,
    together: int | None = None,
) -> Iterator[Trained]:
    """One result per trial, in order: one after another, or so many at a time on an accelerator.

    Args:
        training: how.
        records: on what.
        trials: what each has for itself.
        hooks: as in :func:`train`.
        together: how many trainings make one program, in which they run side by side. None takes 1
            on a CPU, where that is fastest, and 32 elsewhere. A trial's last bits depend on this
            number, but not on which trials it runs beside: the last group is filled up.

    """
    together = _side_by_side() if together is None else _check.count("together", together)
    waiting = iter(trials)
    while group := list(islice(waiting, together)):
        if together == 1:
            yield train(training, records, hooks=hooks, **vars(group[0]))
        else:
            yield from _train_group(training, records, group, hooks, together)


def _side_by_side() -> int:
    return 1 if jax.default_backend() == "cpu" else 32


def _train_group(
    training: Training, records: Records, group: list[Trial], hooks: Hooks, together: int
) -> Iterator[Trained]:
    runs = [Run(training, records, hooks, trial) for trial in group]
    fill = [0] * (together - len(runs))  # the first once more, to have the same shape

    def stack(trees: Iterable[Any]) -> Any:
        parts = list(trees)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *parts, *(parts[i] for i in fill))

    program = _program(training.network, hooks, training.sampling_rate == 1, True)
    state, own, kept = stack(run.state for run in runs), stack(run.own for run in runs), []
    for feeds in zip(*(run.portions(fit=False) for run in runs), strict=True):
        state, seen = program(state, stack(feeds), runs[0].data, *own)
        kept.append(seen)
    for i, run in enumerate(runs):
        state_i, kept_i = jax.tree.map(lambda leaf, i=i: leaf[i], (state, kept))
        yield run.finish(state_i, kept_i)


@lru_cache(maxsize=64)
def _program(network: Network, hooks: Hooks, full: bool, many: bool) -> Any:
    """The compiled steps; JAX keeps one program for each combination of shapes."""

    def step(state: Any, feed: Any, data: Any, members: Any, settings: Any, context: Any) -> Any:
        parameters, direction, number = state
        before = Before(number, parameters, context)
        weight = feed["inserted"] * settings["canary"]
        x, y, weights = _batch(network, feed, data, members, full)
        x, y, weights = hooks.add_crafted(before, x, y, weights, weight)
        clipped = network.clipped_sum(parameters, x, y, weights, settings["clip"])
        total = clipped + hooks.canary_gradient(before, settings["clip"], weight)
        released = total + settings["deviation"] * feed["noise"]
        direction = settings["momentum"] * direction + released / settings["divisor"]
        updated = parameters - feed["rate"] * direction
        updated = jnp.clip(updated, -WEIGHT_MAX, WEIGHT_MAX)
        seen = hooks.keep(Seen(number, parameters, released, updated, context, clipped))
        return (updated, direction, number + 1), seen

    def steps(state: Any, feed: Any, data: Any, members: Any, settings: Any, context: Any) -> Any:
        one = lambda state, now: step(state, now, data, members, settings, context)  # noqa: E731
        return jax.lax.scan(one, state, feed)

    if many:
        return jax.jit(jax.vmap(steps, (0, 0, None, 0, 0, 0)))
    return jax.jit(steps, compiler_options=_ONE_THREAD)


def _batch(network: Network, feed: Any, data: Any, members: Any, full: bool) -> Any:
    x, y = data
    if not full:
        index = feed["index"]
        x, y, members = x[index], y[index], members[index] * feed["taken"]
    return x.reshape(-1, *network.input_shape), y, members
