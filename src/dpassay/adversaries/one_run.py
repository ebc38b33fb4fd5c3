"""Many canaries in one training: what a single run shows of each, for :func:`dpassay.one_run`.

Every canary is put into the data by a fair coin of its own. *Dirac* canaries light one input each
that no other record lights: in the first layer their gradients are orthogonal to all others, and
whoever sees the noisy sums sees each canary by itself (white box). *Mislabelled* canaries are other
records with wrong labels, scored by the last model's loss (black box). Steinke, Nasr and Jagielski
(2023).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._rng import for_trial
from dpassay.adversaries.crafters import Data
from dpassay.adversaries.likelihood import LikelihoodRatio
from dpassay.bounds import one_run
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.nets import Hooks, Network, Records, Seen, Trained, Training, train
from dpassay.nets._jax import jax, jnp
from dpassay.runs import TrialLog, play, run_key
from dpassay.types import FloatArray, LowerBound

_COINS, _TRAINING = 0, 1
_BRIGHT = 10.0  # of a lit input: the share of the gradient outside it is below a hundredth


@dataclass(frozen=True)
class AlongDirac:
    """Keeps <noisy sum, gradient> / ||gradient|| in the column of each canary's own input."""

    network: Network

    def __call__(self, seen: Seen) -> Any:
        X, y = seen.context["x"], seen.context["y"]
        weights, bias = self.network.parts(seen.parameters)[0]
        rest = seen.parameters[weights.size + bias.size :]

        def loss(bias: Any, x: Any, label: Any) -> Any:
            parameters = jnp.concatenate([weights.ravel(), bias, rest])
            return self.network.losses(parameters, x[None], label[None])[0]

        signals = jax.vmap(jax.grad(loss), (None, 0, 0))(bias, X, y)
        column = self.network.parts(seen.released)[0][0].T[-len(X) :]
        norms = jnp.maximum(jnp.linalg.norm(signals, axis=1), 1e-30)
        return (column * signals).sum(axis=1) / norms


@dataclass(frozen=True, eq=False)
class OneRun:
    """A training whose last ``n_canaries`` records are canaries, each in by a fair coin.

    Attributes:
        training: how; its event is what the bound is about.
        records: the data, then all canaries.
        n_canaries: how many.
        score: of what was trained, a number per canary; higher says "in".
        hooks: what is seen.
        context: arrays for the hooks.

    """

    training: Training
    records: Records
    n_canaries: int
    score: Callable[[Trained], FloatArray]
    hooks: Hooks = field(default_factory=Hooks)
    context: Any = None

    def coins(self, rng: int) -> Any:
        """Which canaries are in."""
        return for_trial(rng, 0, _COINS).integers(0, 2, self.n_canaries).astype(bool)

    def __call__(self, trials: Any, rng: int = 0) -> list[bytes]:
        return [np.asarray(self._scores(rng), float).tobytes() for _ in trials]

    def _scores(self, rng: int) -> FloatArray:
        members = np.ones(len(self.records), bool)
        members[-self.n_canaries :] = self.coins(rng)
        trained = train(
            self.training,
            self.records,
            rng=for_trial(rng, 0, _TRAINING),
            members=members,
            hooks=self.hooks,
            context=self.context,
        )
        return self.score(trained)

    def play(
        self, *, store: str | Path | TrialLog | None = None, rng: int = 0
    ) -> tuple[FloatArray, Any]:
        """Scores of the canaries after one training, and which were in.

        Args:
            store: a file that keeps the scores; the same call then does not train again.
            rng: seed of coins and training.

        """
        seed = _check.seed("rng", rng)
        hooks = [self.hooks.example, self.hooks.gradient, self.hooks.observe, self.hooks.rate]
        data = [self.training, self.records, self.context, self.n_canaries, hooks]
        key = run_key({"one run": seed}, code=[self.score], data=data)
        run = play(lambda trials: self(trials, seed), 1, key=key, store=store, workers=1)
        if run.n_failed or run.ended != "done":
            raise DpassayError(f"the training did not end: {run.first_error or 'interrupted'}")
        scores = np.frombuffer(run.outcomes.payloads[0])
        return np.where(np.isnan(scores), -np.inf, scores), self.coins(seed)

    def bound(self, *, delta: float, confidence: float = 0.95, **options: Any) -> LowerBound:
        """The lower bound on epsilon(delta) from one training.

        Options are those of :meth:`play` and of :func:`dpassay.one_run`.
        """
        how = {name: options.pop(name) for name in ("store", "rng") if name in options}
        scores, members = self.play(**how)
        return one_run(scores, members, delta=delta, confidence=confidence, **options)


@dataclass(frozen=True)
class _SumOfRatios:
    """The likelihood ratio of each canary over all steps."""

    ratio: LikelihoodRatio

    def __call__(self, trained: Trained) -> FloatArray:
        return self.ratio(np.asarray(trained.observations).T)


@dataclass(frozen=True, eq=False)
class _MinusLoss:
    network: Network
    X: FloatArray
    y: Any

    def __call__(self, trained: Trained) -> FloatArray:
        losses = jax.jit(self.network.losses)
        x = self.network.shaped(self.X)
        return -np.asarray(losses(jnp.asarray(trained.parameters), x, self.y), float)


def dirac_canaries(training: Training, data: Data, n_canaries: int, *, rng: int = 0) -> OneRun:
    """White box: every canary lights an input of its own, which is added to the network's.

    Args:
        training: how; its network must take rows, and takes ``n_canaries`` more inputs here.
        data: the other records.
        n_canaries: how many.
        rng: seed of their labels.

    """
    m, network = _check.count("n_canaries", n_canaries), training.network
    if len(network.input_shape) != 1:
        raise InvalidArgument(
            f"network takes {network.input_shape}; Dirac canaries need one that takes rows, such "
            "as softmax or mlp."
        )
    n, d = len(data.records), network.input_shape[0]
    wide = Network((d + m,), network.layers)
    X = np.zeros((n + m, d + m), np.float32)
    X[:n, :d] = data.records.X
    X[n + np.arange(m), d + np.arange(m)] = _BRIGHT
    y = np.concatenate([data.records.y, for_trial(rng, 0, 2).integers(network.n_classes, size=m)])
    size = training.clip * _BRIGHT / np.hypot(_BRIGHT, 1.0)
    ratio = LikelihoodRatio(
        training.noise_multiplier, training.sampling_rate, training.clip, float(size)
    )
    return OneRun(
        replace(training, network=wide),
        Records(X, y),
        m,
        _SumOfRatios(ratio),
        Hooks(observe=AlongDirac(wide)),
        {"x": X[n:], "y": y[n:].astype(np.int32)},
    )


def mislabelled_canaries(
    training: Training, data: Data, n_canaries: int, *, rng: int = 0
) -> OneRun:
    """Black box: other records with a wrong label each, scored by the loss of the last model."""
    most = len(data.others)
    m = _check.count("n_canaries", n_canaries, high=most, remedy="They are drawn from data.others.")
    random = for_trial(rng, 0, 2)
    chosen = random.permutation(most)[:m]
    classes = training.network.n_classes
    wrong = (data.others.y[chosen] + random.integers(1, classes, size=m)) % classes
    records = data.records.with_examples(data.others.X[chosen], wrong)
    score = _MinusLoss(training.network, data.others.X[chosen], wrong.astype(np.int32))
    return OneRun(training, records, m, score)
