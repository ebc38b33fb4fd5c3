"""What is played many times: the protocol of a game, and that of a mechanism with two data sets.

In the game of an audit a fair coin picks one of two data sets and the mechanism runs on it once. A
trial's world and noise depend on its number alone, so that trials can be played in any order, by
any worker, and again after a crash. A mechanism that draws many outputs at once,
``mechanism(data, rng, size=n)``, is played in blocks of a fixed size: then it is a block whose
number fixes everything.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpassay._records import fresh
from dpassay._rng import for_trial
from dpassay.attacks.distinguisher import Distinguisher
from dpassay.attacks.features import MAX_FEATURES, features
from dpassay.auditing.prints import prints_of
from dpassay.auditing.reading import coins
from dpassay.errors import InvalidTarget
from dpassay.runs import Outcome
from dpassay.runs.guard import error_text
from dpassay.types import FloatArray

Mechanism = Callable[..., Any]
Score = Callable[[Any], float]
_NOISE = 1  # the stream of a trial's randomness that the mechanism draws from


@runtime_checkable
class Game(Protocol):
    """What is played many times: a trial's number in, what that trial showed out.

    A higher score says "with the canary". Everything about a trial depends on its number alone, so
    that trials can be played in any order, by any worker, and again after a crash. What a trial
    raises is its outcome. Games of one training have one trial, with many worlds.
    """

    @property
    def seed(self) -> int | None:
        """What worlds and noise are drawn from; None for secure noise, which cannot be replayed."""
        ...

    @property
    def key(self) -> str:
        """The name of the run in a log: a hash of all that its trials depend on."""
        ...

    def configuration(self) -> Mapping[str, Any]:
        """What fixes the trials beside code and data, as plain JSON for the log."""
        ...

    def worlds(self, trial: int) -> NDArray[Any]:
        """The coins of a trial: one, or many for a block of outputs or the canaries of a run."""
        ...

    def play(self, trial: int) -> Outcome:
        """Play one trial: its score, or what another score can be made of."""
        ...

    def __call__(self, trials: Sequence[int], /) -> list[Outcome]:
        """Play several trials: the task that :func:`dpassay.runs.play` hands to workers."""
        ...


def draws_many(mechanism: Mechanism) -> bool:
    """Whether the mechanism takes ``size=``, the number of outputs to draw."""
    try:
        return "size" in inspect.signature(mechanism).parameters
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True)
class PairGame:
    """A mechanism and two data sets; world 1 is ``data``, world 0 ``data_prime``.

    Attributes:
        mechanism: ``mechanism(data, rng)``, or with ``size=n``.
        data: the data set of world 1.
        data_prime: that of world 0.
        key: of the run.
        coin_seed: of the worlds.
        seed: of the mechanism's generator; None passes ``rng=None``, the secure path.
        block: outputs per call; 0 for a mechanism that draws one at a time.
        settings: what the log says that fixes the trials.
        score: a function of one output; None to keep features, for learning.

    """

    mechanism: Mechanism
    data: Any
    data_prime: Any
    key: str
    coin_seed: int
    seed: int | None
    block: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    score: Score | Distinguisher | None = None

    def configuration(self) -> Mapping[str, Any]:
        """What fixes the trials; the claim and the number of trials do not."""
        return self.settings

    def worlds(self, trial: int) -> NDArray[Any]:
        """The coins of a trial."""
        return coins(self.coin_seed, trial, self.block)

    def _rng(self, trial: int, world: int) -> np.random.Generator | None:
        if self.seed is None:
            return None
        return for_trial(self.seed, trial, _NOISE, world)

    def outputs(self, trial: int) -> list[Any] | Any:
        """What the mechanism returned, one for each coin of the trial."""
        worlds = self.worlds(trial)
        if not self.block:
            world = int(worlds[0])
            data = fresh(self.data if world else self.data_prime)
            return [self.mechanism(data, self._rng(trial, world))]
        drawn = [
            np.asarray(
                self.mechanism(fresh(data), self._rng(trial, w), size=int((worlds == w).sum()))
            )
            for w, data in ((0, self.data_prime), (1, self.data))
        ]
        for w, values in enumerate(drawn):
            if values.shape[:1] != ((worlds == w).sum(),):
                raise InvalidTarget(
                    f"mechanism(data, rng, size={(worlds == w).sum()}) returned shape "
                    f"{values.shape}; its first dimension must be size."
                )
        both = np.empty((len(worlds), *drawn[0].shape[1:]), dtype=np.result_type(*drawn))
        for w, values in enumerate(drawn):
            both[worlds == w] = values
        return both

    def table(self, trial: int) -> FloatArray:
        """Features of the outputs of a trial, a row for each."""
        return _table(self.outputs(trial), bool(self.block))

    def __call__(self, trials: Sequence[int], /) -> list[Outcome]:
        return [self.play(trial) for trial in trials]

    def play(self, trial: int) -> Outcome:
        """One trial; what the mechanism or the score raises is its outcome."""
        try:
            return self._keep(self.outputs(trial))
        except Exception as error:
            return Outcome(error=error_text(error))

    def _keep(self, outputs: Any) -> Outcome:
        """What is kept of a trial's outputs: their scores, or their features to learn from."""
        block = bool(self.block)
        if not block and _is_nan(outputs[0]):
            return Outcome(error="the mechanism returned NaN.")
        prints = prints_of(outputs, block)
        if self.score is None:
            return Outcome(payload=_table(outputs, block).tobytes(), features=prints)
        scores = self._scores(outputs)
        if block:
            return Outcome(payload=np.asarray(scores, float).tobytes(), features=prints)
        return Outcome(score=float(scores[0]), features=prints)

    def _scores(self, outputs: Any) -> FloatArray:
        score = self.score
        if isinstance(score, Distinguisher):
            return score.of_table(_table(outputs, bool(self.block)))
        assert score is not None
        if self.block:
            return _all_at_once(score, outputs)
        return np.array([float(score(output)) for output in outputs])


def _is_nan(output: Any) -> bool:
    """Whether an output is nothing but NaN; None is a way to say nothing, and an output."""
    if not isinstance(output, float | np.floating | np.ndarray):
        return False
    values = np.asarray(output)
    return values.dtype.kind == "f" and values.size > 0 and bool(np.isnan(values).all())


def _all_at_once(score: Score, outputs: Any) -> FloatArray:
    """Scores of a block: by one call where the function takes arrays, else one by one."""
    try:
        values = np.asarray(score(outputs), float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape == (len(outputs),):
        return values
    return np.array([float(score(output)) for output in outputs])


def _table(outputs: Any, block: bool) -> FloatArray:
    """Features, one row per output."""
    if not block:
        return np.stack([features(output) for output in outputs])
    flat = np.asarray(outputs).reshape(len(outputs), -1)
    if flat.dtype.kind not in "biuf":
        return np.stack([features(output) for output in outputs])
    size = np.full((len(outputs), 1), float(flat.shape[1]))
    return np.hstack([size, flat[:, :MAX_FEATURES].astype(float)])
