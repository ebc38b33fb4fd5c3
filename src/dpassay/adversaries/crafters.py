"""Crafters: what an adversary brings to a game, made once, before the first trial.

``crafter(training, data, rng)`` returns what is :class:`Crafted`. An adversary knows how training
is done and has records of the same distribution, ``data.others``, that training never sees. Only
the malicious data set replaces the records themselves. Crafted examples are no longer than the
longest of ``data.others``; gradients have the clipping norm.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dpassay import _check
from dpassay.adversaries.insertions import (
    AlongGradient,
    FixedExample,
    FixedGradient,
    FreshExample,
    Movement,
    QueryLoss,
    loss_of,
    within,
)
from dpassay.errors import InvalidArgument
from dpassay.nets import Hooks, Network, Records, Training, train
from dpassay.nets._jax import jax, jnp
from dpassay.types import FloatArray

_CERTAIN = 200.0  # a margin at which a softmax in single precision is exactly 0 and 1
_DRAWN = 4  # random inputs for each one that is kept
_DOUBLINGS = 40


@dataclass(frozen=True, eq=False)
class Data:
    """What is trained on, and what the adversary has.

    Attributes:
        records: the data set without the canary.
        others: records of the same distribution that training never sees.

    """

    records: Records
    others: Records

    def __post_init__(self) -> None:
        for name in ("records", "others"):
            if not isinstance(getattr(self, name), Records):
                raise InvalidArgument(f"{name} must be Records(X, y).")


@dataclass(frozen=True, eq=False)
class Crafted:
    """What an adversary brings to a game.

    Attributes:
        records: what training uses, the canary apart.
        hooks: what is inserted where the world is "with", and what is seen.
        context: arrays for the hooks, by name.
        start: the initial parameters; None draws them anew in every trial.
        interference: the deviation that other records add to what is seen along a gradient, as
            far as the adversary can tell.

    """

    records: Records
    hooks: Hooks
    context: dict[str, Any]
    start: FloatArray | None = None
    interference: float = 0.0


Crafter = Callable[[Training, Data, np.random.Generator], Crafted]


def shadow_models(
    training: Training, data: Data, n_models: int, rng: np.random.Generator
) -> FloatArray:
    """Models trained like the target on parts of the other records, one row of parameters each."""
    size = min(len(data.records), len(data.others))
    models = []
    for child in rng.spawn(n_models):
        part = child.permutation(len(data.others))[:size]
        records = Records(data.others.X[part], data.others.y[part])
        models.append(train(training, records, rng=child).parameters)
    return np.stack(models)


def radius_of(records: Records) -> float:
    """The norm of the longest record."""
    rows = records.X.reshape(len(records), -1)
    return float(np.linalg.norm(rows, axis=1).max())


def _example(network: Network, records: Records, x: Any, y: Any, insert: Any = None) -> Crafted:
    """A game whose canary is one example, on which the model is also queried."""
    x = np.asarray(x, np.float32).reshape(network.input_shape)
    context = {"x": x, "y": np.int32(y), "query_x": x, "query_y": np.int32(y)}
    hooks = Hooks(example=insert or FixedExample(), observe=QueryLoss(network))
    return Crafted(records, hooks, context)


# ------------------------------------------------------------------------------- examples


@dataclass(frozen=True)
class NaturalExample:
    """One of the other records, drawn once and the same in all trials."""

    def __call__(self, training: Training, data: Data, rng: np.random.Generator) -> Crafted:
        i = rng.integers(len(data.others))
        return _example(training.network, data.records, data.others.X[i], data.others.y[i])


@dataclass(frozen=True)
class StaticPoison:
    """An example that maximises the mean loss over shadow models, from a random one on.

    Attributes:
        shadows: models trained on other data.
        moves: steps of gradient ascent, of length 2 radius / moves.

    """

    shadows: int = 8
    moves: int = 40

    def __call__(self, training: Training, data: Data, rng: np.random.Generator) -> Crafted:
        models = jnp.asarray(shadow_models(training, data, self.shadows, rng))
        i, radius = rng.integers(len(data.others)), radius_of(data.others)
        y = data.others.y[i]

        def loss(x: Any) -> Any:
            return jax.vmap(lambda m: loss_of(training.network, m, x, y))(models).mean()

        def move(x: Any, _: Any) -> Any:
            g = jax.grad(loss)(x)
            x = x + 2 * radius / self.moves * g / (jnp.linalg.norm(g) + 1e-12)
            return within(x, radius), None

        start = jnp.asarray(data.others.X[i])
        x, _ = jax.jit(lambda x: jax.lax.scan(move, x, None, self.moves))(start)
        return _example(training.network, data.records, x, y)


@dataclass(frozen=True)
class ClipBKD:
    """The direction in which the data vary least, with its least likely label.

    Jagielski, Ullman and Oprea (2020): the last principal component of the data (here of the other
    records), as long as a record is on average; the label is the one that shadow models believe in
    least.
    """

    shadows: int = 4

    def __call__(self, training: Training, data: Data, rng: np.random.Generator) -> Crafted:
        models = shadow_models(training, data, self.shadows, rng)
        rows = data.others.X.reshape(len(data.others), -1).astype(float)
        components = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=True)[2]
        x = components[-1] * np.linalg.norm(rows, axis=1).mean()
        row = training.network.shape_rows(x)
        logits = [jax.nn.log_softmax(training.network.scores(jnp.asarray(m), row)) for m in models]
        return _example(training.network, data.records, x, int(np.mean(logits, axis=0).argmin()))


@dataclass(frozen=True)
class AdaptivePoison:
    """A fresh example at every step, made to lower the loss of a query that is not in the data.

    The query is a static poison. With the poison its loss falls, without it it stays; the document
    leaves open which way round, and this is the one that its distinguisher (low loss says "with")
    takes.
    """

    shadows: int = 8
    moves: int = 4
    query: Crafter | None = None

    def __call__(self, training: Training, data: Data, rng: np.random.Generator) -> Crafted:
        query = (self.query or StaticPoison(self.shadows))(training, data, rng)
        n = training.n_records or len(data.records)
        rate = float(training.rates().mean()) / (training.sampling_rate * n)
        insert = FreshExample(training.network, training.clip, radius_of(data.others), self.moves)
        hooks = replace(query.hooks, example=insert)
        return replace(query, hooks=hooks, context=query.context | {"rate": np.float32(rate)})


# ------------------------------------------------------------------------------ gradients

Pattern = Literal["alternating", "dirac", "random"]


@dataclass(frozen=True)
class GradientCanary:
    """A gradient of the clipping norm that looks like none of the data.

    Attributes:
        pattern: "alternating", ±C / sqrt(2 pairs) on the 2 pairs of parameters that move least in
            shadow trainings; "dirac", C on the one that does; "random", a random direction.
        pairs: half the number of parameters of "alternating".
        shadows: trainings without noise on other data, to see what moves.

    """

    pattern: Pattern = "alternating"
    pairs: int = 8
    shadows: int = 2

    def __post_init__(self) -> None:
        _check.choice("pattern", self.pattern, ("alternating", "dirac", "random"))
        _check.count("pairs", self.pairs)
        _check.count("shadows", self.shadows)

    def __call__(self, training: Training, data: Data, rng: np.random.Generator) -> Crafted:
        seeds = rng.integers(2**62, size=self.shadows)
        moved = [_without_noise(training, data, seed, Movement()) for seed in seeds]
        direction = _pattern(self, np.sum(moved, axis=(0, 1)), rng)
        crafted = _insert(training, data.records, direction)
        clean = [
            _without_noise(training, data, seed, AlongGradient(), crafted.context) for seed in seeds
        ]
        return replace(crafted, interference=float(np.std(clean)))


def _without_noise(
    training: Training, data: Data, seed: int, observe: Any, context: Any = None
) -> FloatArray:
    """What is seen of a training on other records that adds no noise."""
    size = min(len(data.records), len(data.others))
    records = Records(data.others.X[:size], data.others.y[:size])
    quiet = replace(training, noise_multiplier=0.0)
    hooks = Hooks(observe=observe)
    trained = train(quiet, records, rng=np.random.default_rng(seed), hooks=hooks, context=context)
    return trained.observations


def _pattern(canary: GradientCanary, moved: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A unit vector, on the parameters that moved least; drawn among those that moved as little."""
    if canary.pattern == "random":
        direction = rng.normal(size=moved.size)
    else:
        n = min(2 * canary.pairs, moved.size) if canary.pattern == "alternating" else 1
        direction = np.zeros(moved.size)
        direction[np.lexsort((rng.random(moved.size), moved))[:n]] = (-1.0) ** np.arange(n)
    return direction / np.linalg.norm(direction)


def _insert(training: Training, records: Records, direction: FloatArray) -> Crafted:
    """A game whose canary is one gradient of the clipping norm."""
    hooks = Hooks(gradient=FixedGradient(), observe=AlongGradient())
    return Crafted(records, hooks, {"gradient": (training.clip * direction).astype(np.float32)})


# ------------------------------------------------------------------- data sets and starts


def certain_start(
    network: Network, inputs: FloatArray, keep: int, rng: np.random.Generator
) -> tuple[FloatArray, Records]:
    """Initial parameters, and the inputs whose labels they are certain of, with these labels.

    Random parameters are doubled until the best score of ``keep`` inputs leads the second by so
    much that softmax is exactly 0 and 1 in single precision: no gradient is left, and noise that is
    small beside the parameters leaves it so. A guarantee of DP-SGD holds for any start.
    """
    start, x = network.start(rng), network.shape_rows(inputs)
    for _ in range(_DOUBLINGS):
        scores = np.asarray(network.scores(jnp.asarray(start), x))
        second, best = np.partition(scores, -2, axis=1)[:, -2:].T
        chosen = np.argsort(second - best)[:keep]
        if (best - second)[chosen].min() >= _CERTAIN:
            break
        start = 2 * start
    return start, Records(inputs[chosen], scores[chosen].argmax(axis=1))


@dataclass(frozen=True)
class MaliciousData:
    """Random inputs labelled by the initial model, and a gradient canary.

    The initial model is certain of its labels (``certain_start``), so that clean gradients are
    zero, exactly, and stay so: noise and canary are all that moves. (The document takes the initial
    model as it comes; its gradients are then small.)
    """

    pattern: Pattern = "alternating"
    pairs: int = 8

    def __call__(self, training: Training, data: Data, rng: np.random.Generator) -> Crafted:
        n, network = len(data.records), training.network
        X = rng.uniform(size=(_DRAWN * n, *data.records.X.shape[1:])).astype(np.float32)
        X *= radius_of(data.others) / np.linalg.norm(X.reshape(len(X), -1), axis=1).max()
        start, records = certain_start(network, X, n, rng)
        still = np.zeros(network.n_parameters)
        direction = _pattern(GradientCanary(self.pattern, self.pairs), still, rng)
        return replace(_insert(training, records, direction), start=start)


@dataclass(frozen=True)
class FromTrainedStart:
    """Another crafter's game from initial weights that the data would hardly move.

    Annamalai and De Cristofaro (2024): weights trained without privacy on other data. Natural
    records then have small gradients, and what moves the model is the canary.

    Attributes:
        craft: the other crafter.
        epochs: passes over the other records.

    """

    craft: Crafter = field(default_factory=ClipBKD)
    epochs: int = 100

    def __call__(self, training: Training, data: Data, rng: np.random.Generator) -> Crafted:
        crafted = self.craft(training, data, rng)
        plain = replace(
            training,
            steps=self.epochs,
            learning_rate=float(training.rates().mean()),
            noise_multiplier=0.0,
            sampling_rate=1.0,
            n_records=None,
        )
        return replace(crafted, start=train(plain, data.others, rng=rng.spawn(1)[0]).parameters)
