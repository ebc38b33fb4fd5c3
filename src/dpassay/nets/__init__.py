"""DP-SGD of small networks in JAX (``pip install 'dpassay[lab]'``), and where an adversary stands.

In short::

    network = nets.mlp([784, 64, 10])
    training = nets.Training(network, steps=100, clip=1.0, noise_multiplier=1.0, learning_rate=0.5,
                             sampling_rate=250 / 60_000)
    records = nets.Records(X, y)                     # checked and put on the device once
    trained = nets.train(training, records)          # rng=None: secure noise
    trained.release, trained.event, network.predict(trained.parameters, X_test)

The trust boundaries, and what an adversary does there (a game's two worlds differ in one flag):

============================ ======================================================================
an example, fixed            ``records.with_examples(x, y)`` and ``members=`` with True or False in
                             its place; many canaries at once (one-run audits) likewise
an example, crafted anew     ``Hooks(example=lambda before: (x, y))``, ``canary=`` True or False
its gradient                 ``Hooks(gradient=lambda before: before.context["g"])``, the same flag
the initial weights          ``start=``
the whole data set           ``records``
every released sum and model ``Hooks(observe=lambda seen: ...)``, one small array per step
the last model only          ``trained.parameters``
============================ ======================================================================

For example, what the sum says about a canary of gradient g, at every step:
``Hooks(gradient=lambda b: b.context, observe=lambda s: s.released @ s.context)`` with
``train(..., hooks=hooks, context=g, canary=world, rng=for_trial(seed, trial))``. Hooks are compiled
into the step, so define them once and pass what changes as ``context``. In a hook,
``network.losses(parameters, x, y)`` and ``network.scores`` are differentiable JAX. Many trials are
``train_many(training, records, [Trial(rng, canary=world, context=g), ...], hooks=hooks)``.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.errors import BatchOverflow
    from dpassay.nets.dpsgd import train, train_many
    from dpassay.nets.feeding import Trial
    from dpassay.nets.hooks import Before, Hooks, Seen
    from dpassay.nets.layers import (
        Conv,
        Dense,
        Flatten,
        Layer,
        Relu,
        Tanh,
    )
    from dpassay.nets.network import (
        Network,
        cnn,
        mlp,
        softmax,
    )
    from dpassay.nets.sampling import poisson_batches
    from dpassay.nets.training import Records, Trained, Training

_PUBLIC = {
    "train": "dpassay.nets.dpsgd",
    "train_many": "dpassay.nets.dpsgd",
    "Training": "dpassay.nets.training",
    "Records": "dpassay.nets.training",
    "Trained": "dpassay.nets.training",
    "Trial": "dpassay.nets.feeding",
    "Hooks": "dpassay.nets.hooks",
    "Before": "dpassay.nets.hooks",
    "Seen": "dpassay.nets.hooks",
    "Network": "dpassay.nets.network",
    "softmax": "dpassay.nets.network",
    "mlp": "dpassay.nets.network",
    "cnn": "dpassay.nets.network",
    "Layer": "dpassay.nets.layers",
    "Dense": "dpassay.nets.layers",
    "Conv": "dpassay.nets.layers",
    "Relu": "dpassay.nets.layers",
    "Tanh": "dpassay.nets.layers",
    "Flatten": "dpassay.nets.layers",
    "BatchOverflow": "dpassay.errors",
    "poisson_batches": "dpassay.nets.sampling",
}

__all__ = [
    "BatchOverflow",
    "Before",
    "Conv",
    "Dense",
    "Flatten",
    "Hooks",
    "Layer",
    "Network",
    "Records",
    "Relu",
    "Seen",
    "Tanh",
    "Trained",
    "Training",
    "Trial",
    "cnn",
    "mlp",
    "poisson_batches",
    "softmax",
    "train",
    "train_many",
]

lazily(__name__, _PUBLIC)
