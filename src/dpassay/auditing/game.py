"""The game of an audit: a fair coin picks one of two data sets, the mechanism runs on it once.

A trial's world and noise depend on its number alone, so that trials can be played in any order, by
any worker, and again after a crash. A mechanism that draws many outputs at once,
``mechanism(data, rng, size=n)``, is played in blocks of a fixed size: then it is a block whose
number fixes everything.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay._rng import for_trial
from dpassay.attacks.distinguisher import Distinguisher
from dpassay.attacks.features import MAX_FEATURES, features
from dpassay.auditing.prints import prints_of
from dpassay.errors import InvalidTarget
from dpassay.runs import Outcome
from dpassay.runs.guard import error_text
from dpassay.types import FloatArray

Mechanism = Callable[..., Any]
Score = Callable[[Any], float]
_COIN, _NOISE = 0, 1  # streams of a trial's randomness


def draws_many(mechanism: Mechanism) -> bool:
    """Whether the mechanism takes ``size=``, the number of outputs to draw."""
    try:
        return "size" in inspect.signature(mechanism).parameters
    except (TypeError, ValueError):
        return False


def coins(seed: int, trial: int, block: int) -> Any:
    """The worlds of a trial: one, or as many as a block has."""
    return for_trial(seed, trial, _COIN).integers(0, 2, max(block, 1))


def fresh(data: Any) -> Any:
    """A copy of arrays and frames, also inside tuples, lists and dicts; all else as it is.

    A mechanism may change its data in place. The next trial must not see that, or its outcome would
    depend on who played what before.
    """
    if isinstance(data, np.ndarray) or hasattr(data, "iloc"):
        return data.copy()
    if isinstance(data, list | tuple) and type(data) in (list, tuple):
        plain = not data or isinstance(data[0], int | float | str | bytes)
        return type(data)(data if plain else map(fresh, data))
    if type(data) is dict:
        return {name: fresh(part) for name, part in data.items()}
    return data


@dataclass(frozen=True)
class Game:
    """A mechanism and two data sets; world 1 is ``data``, world 0 ``data_prime``.

    Attributes:
        mechanism: ``mechanism(data, rng)``, or with ``size=n``.
        data: the data set of world 1.
        data_prime: that of world 0.
        coin_seed: of the worlds.
        noise_seed: of the mechanism's generator; None passes ``rng=None``, the secure path.
        block: outputs per call; 0 for a mechanism that draws one at a time.

    """

    mechanism: Mechanism
    data: Any
    data_prime: Any
    coin_seed: int
    noise_seed: int | None
    block: int = 0

    def worlds(self, trial: int) -> Any:
        """The coins of a trial."""
        return coins(self.coin_seed, trial, self.block)

    def _rng(self, trial: int, world: int) -> np.random.Generator | None:
        if self.noise_seed is None:
            return None
        return for_trial(self.noise_seed, trial, _NOISE, world)

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


@dataclass(frozen=True)
class Watch:
    """The task of an audit: plays trials and keeps what is needed of their outputs.

    Attributes:
        game: what is played.
        score: a function of one output; None to keep features, for learning.

    """

    game: Game
    score: Score | Distinguisher | None = None

    def __call__(self, trials: Sequence[int]) -> list[Outcome]:
        return [self._play(trial) for trial in trials]

    def _play(self, trial: int) -> Outcome:
        """One trial; what the mechanism or the score raises is its outcome."""
        try:
            return self._seen(trial, self.game.outputs(trial))
        except Exception as error:
            return Outcome(error=error_text(error))

    def _seen(self, trial: int, outputs: Any) -> Outcome:
        block = bool(self.game.block)
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
            return score.of_table(_table(outputs, bool(self.game.block)))
        assert score is not None
        if self.game.block:
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
