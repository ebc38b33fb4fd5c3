"""Many canaries in one training: what a single run shows of each, for :func:`dpassay.one_run`.

Every canary is put into the data by a fair coin of its own. *Dirac* canaries light one input each
that no other record lights: in the first layer their gradients are orthogonal to all others, and
whoever sees the noisy sums sees each canary by itself (white box). *Mislabelled* canaries are other
records with wrong labels, scored by the last model's loss (black box). Steinke, Nasr and Jagielski
(2023).
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._rng import for_trial
from dpassay.adversaries.crafters import Data
from dpassay.adversaries.training_game import describe_proof, prove_curve
from dpassay.attacks.trajectories import LikelihoodRatio
from dpassay.auditing.engine import Engine
from dpassay.auditing.referee import claimed_delta
from dpassay.auditing.single import OneRunQuestion, canary_coins
from dpassay.bounds import one_run
from dpassay.bounds.onerun.bound import MethodName
from dpassay.bounds.onerun.guesses import Guesses
from dpassay.errors import InvalidArgument
from dpassay.nets import Hooks, Network, Records, Seen, Trained, Training, train
from dpassay.nets._jax import jax, jnp
from dpassay.runs import Outcome, Played, TrialLog, opened, run_key
from dpassay.types import FloatArray, LowerBound, PrivacyCurve, Verdict

_TRAINING = 1  # the stream of the training's randomness; 0 is that of the coins
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
        """One fair coin per canary: True for those that are in the training data."""
        return canary_coins(rng, self.n_canaries)

    def train_and_score(self, rng: int) -> FloatArray:
        """Train once, with the canaries that this seed puts in, and score them all."""
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
        question = self._question(_check.seed("rng", rng))
        return question.read(self._play(question, store))

    def bound(
        self,
        *,
        delta: float,
        confidence: float = 0.95,
        method: MethodName = "steinke",
        guesses: Guesses = "auto",
        store: str | Path | TrialLog | None = None,
        rng: int = 0,
    ) -> LowerBound:
        """The lower bound on epsilon(delta) from one training.

        The other arguments are those of :meth:`verdict`. For further options of
        :func:`dpassay.one_run`, pass it what :meth:`play` returns.
        """
        scores, members = self.play(store=store, rng=rng)
        return one_run(
            scores, members, delta=delta, confidence=confidence, method=method, guesses=guesses
        )

    def verdict(
        self,
        claim: PrivacyCurve | None = None,
        *,
        delta: float | None = None,
        confidence: float = 0.95,
        method: MethodName = "steinke",
        guesses: Guesses = "auto",
        store: str | Path | TrialLog | None = None,
        rng: int = 0,
    ) -> Verdict:
        """Whether a claim stands after one training: by default the accountant's curve of it.

        Args:
            claim: the privacy curve to be tested.
            delta: where the bound is stated; by default at the claim's own delta, else 1e-5.
            confidence: the probability that verdict and bound are both right, at least.
            method: of :func:`dpassay.one_run`.
            guesses: how many, see there.
            store: a file that keeps the scores; the same call then does not train again.
            rng: seed of coins and training.

        """
        question = self._question(_check.seed("rng", rng), claim, delta)
        question = replace(
            question,
            confidence=_check.confidence(confidence),
            method=method,
            guesses=guesses,
        )
        return question.verdict(self._play(question, store))

    def _question(
        self, seed: int, claim: PrivacyCurve | None = None, delta: float | None = None
    ) -> OneRunQuestion:
        training = self.training
        text = describe_proof(training) if claim is None else None
        claim = prove_curve(training.event()) if claim is None else claim
        return OneRunQuestion(
            key=_OneRunGame(self, seed).key,
            seed=seed,
            claim=claim,
            delta=claimed_delta(claim, delta),
            confidence=0.95,
            claim_text=text,
        )

    def _play(self, question: OneRunQuestion, store: str | Path | TrialLog | None) -> Played:
        assert question.seed is not None
        about = question.description() | {"target": "DP-SGD"}
        with opened(store) as log:
            engine = Engine(log, max_failed_share=1.0)
            return engine.play(_OneRunGame(self, question.seed), 1, description=about)


@dataclass(frozen=True, eq=False)
class _OneRunGame:
    """The game of one training with many canaries: it has one trial."""

    run: OneRun
    seed: int

    @property
    def key(self) -> str:
        """The name of the training in a log."""
        return self._key

    @functools.cached_property
    def _key(self) -> str:
        run = self.run
        data = [run.training, run.records, run.context, run.n_canaries, run.hooks.identity()]
        return run_key({"one run": self.seed}, code=[run.score], data=data)

    def configuration(self) -> dict[str, Any]:
        """What the log says of the run for good."""
        return {"seed": self.seed, "one_run": True}

    def worlds(self, trial: int) -> NDArray[np.bool_]:
        """One fair coin per canary: True for those that are in the training data."""
        return self.run.coins(self.seed)

    def __call__(self, trials: Sequence[int], /) -> list[Outcome]:
        return [self.play(trial) for trial in trials]

    def play(self, trial: int) -> Outcome:
        """Train once; the scores of all canaries are kept."""
        scores = np.asarray(self.run.train_and_score(self.seed), float)
        return Outcome(payload=scores.tobytes())


@dataclass(frozen=True)
class _SumOfRatios:
    """The likelihood ratio of each canary over all steps."""

    ratio: LikelihoodRatio

    def __call__(self, trained: Trained) -> FloatArray:
        return self.ratio(np.asarray(trained.observations).T)


def _score_by_loss(network: Network, X: FloatArray, y: Any, trained: Trained) -> FloatArray:
    """Minus the loss of each canary: a trained network errs less on those that it has seen."""
    losses = jax.jit(network.losses)
    return -np.asarray(losses(jnp.asarray(trained.parameters), network.shape_rows(X), y), float)


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
    rows, labels = data.others.X[chosen], wrong.astype(np.int32)
    score = functools.partial(_score_by_loss, training.network, rows, labels)
    return OneRun(training, records, m, score)
