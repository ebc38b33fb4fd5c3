"""From what a log holds to worlds and scores; the worlds follow from the seed.

A :class:`Reader` is made for one pass over the trials that count. It is given their outcomes in
consecutive portions, in number order, whatever order they were played in; where the borders fall
must not matter. So a reader may also learn: it keeps what it was given and learns anew at numbers
of trials that it fixes beforehand, and what it says of a trial depends on earlier trials alone.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpassay._rng import first_coins, for_trial
from dpassay.attacks.features import stack
from dpassay.attacks.trajectories import score_from_json, score_to_json
from dpassay.errors import InvalidArgument
from dpassay.runs import Outcomes
from dpassay.types import FloatArray

Seen = tuple[NDArray[Any], FloatArray]  # worlds and scores
_CHUNK, _CHUNKS = 1024, 4096  # trials whose worlds are drawn together; most chunks in one look
COIN = 0  # the stream of a trial's randomness that its world is drawn from


class Reader(Protocol):
    """Worlds and scores of the next outcomes; a trial that failed has the score -inf."""

    def __call__(self, outcomes: Outcomes, /) -> Seen: ...


@functools.lru_cache(maxsize=64)
def coins(seed: int, trial: int, block: int) -> NDArray[Any]:
    """The worlds of a trial: one, or as many as a block has.

    The game, the referee and the watch over fixed seeds ask for the same trial in turn; a generator
    takes longer to make than most of what they do with it.
    """
    worlds = for_trial(seed, trial, COIN).integers(0, 2, max(block, 1))
    worlds.setflags(write=False)
    return worlds


def coins_of(seed: int, trials: NDArray[np.int64], block: int) -> NDArray[Any]:
    """The worlds of several trials, one after the other."""
    if not block and trials.size:
        chunks, places = np.divmod(trials, _CHUNK)
        first, last = int(chunks.min()), int(chunks.max())
        if last - first > _CHUNKS:  # far apart
            return first_coins(seed, trials, COIN)
        drawn = np.stack([_chunk_of_coins(seed, chunk) for chunk in range(first, last + 1)])
        return drawn[chunks - first, places]
    worlds = [coins(seed, trial, block) for trial in trials.tolist()]
    return np.concatenate([np.empty(0, int), *worlds])


@functools.lru_cache(maxsize=8)
def _chunk_of_coins(seed: int, chunk: int) -> NDArray[Any]:
    """The worlds of neighbouring trials: who asks for one of them soon asks for the others."""
    return first_coins(seed, np.arange(chunk * _CHUNK, (chunk + 1) * _CHUNK), COIN)


def coin(seed: int, trial: int, stream: int) -> int:
    """The world of a training: 1 with the canary, 0 without."""
    return int(for_trial(seed, trial, COIN, stream).integers(2))


@dataclass(frozen=True)
class ScoresInLog:
    """Reads trials whose scores are in the log.

    Attributes:
        coin_seed: of the worlds.
        block: outputs per trial, whose scores are its payload; 0 for one, with a score of its own.

    """

    coin_seed: int
    block: int

    def __call__(self, outcomes: Outcomes, /) -> Seen:
        if not self.block:
            scores = np.where(outcomes.failed, -np.inf, outcomes.scores)
        else:
            numbers, lost = outcomes.trials.tolist(), np.full(self.block, -np.inf)
            parts = [np.frombuffer(outcomes.payloads.get(t, lost.tobytes())) for t in numbers]
            scores = np.concatenate([np.empty(0), *parts])
        scores = np.where(np.isnan(scores), -np.inf, scores)
        return coins_of(self.coin_seed, outcomes.trials, self.block), scores


@dataclass(frozen=True)
class FeaturesInLog:
    """Reads trials of which the log keeps features of the outputs, for a referee that learns.

    Attributes:
        coin_seed: of the worlds.
        block: outputs per trial; 0 for one.

    """

    coin_seed: int
    block: int

    def __call__(self, outcomes: Outcomes, /) -> Seen:
        """Worlds, and features in the place of scores; a trial that failed has none: all NaN."""
        numbers, size = outcomes.trials.tolist(), max(self.block, 1)
        rows: list[FloatArray] = []
        for trial in numbers:
            kept = outcomes.payloads.get(trial)
            rows += (
                [np.empty(0)] * size if kept is None else [*np.frombuffer(kept).reshape(size, -1)]
            )
        return coins_of(self.coin_seed, outcomes.trials, self.block), stack(rows)


@dataclass(frozen=True)
class StepsInLog:
    """Reads trainings of which the log keeps what every step showed, by a score of that.

    Attributes:
        seed: of the worlds.
        stream: that the trainings were drawn from.
        score: takes what trainings showed, steps in the last dimension; returns one score each.

    """

    seed: int
    stream: int
    score: Callable[[FloatArray], FloatArray]

    def __call__(self, outcomes: Outcomes, /) -> Seen:
        """A training that failed, or showed what is not finite, has the lowest score there is."""
        numbers = outcomes.trials.tolist()
        worlds = np.array([coin(self.seed, trial, self.stream) for trial in numbers], dtype=int)
        scores = np.full(len(numbers), -np.inf)
        shown = {
            i: steps_of(outcomes.payloads[k])
            for i, k in enumerate(numbers)
            if k in outcomes.payloads
        }
        done = [i for i, seen in shown.items() if np.isfinite(seen).all()]
        if done:
            found = self.score(np.stack([shown[i] for i in done]))
            scores[done] = np.where(np.isnan(found), -np.inf, found)
        return worlds, scores

    def to_json(self) -> dict[str, Any]:
        """What it takes to read the same log again; the score is None if only code can say it."""
        return {"seed": self.seed, "stream": self.stream, "score": score_to_json(self.score)}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any], run: str) -> "StepsInLog":
        """The reader that a log describes.

        Raises:
            InvalidArgument: its score is a function of the user's, which no log can hold.

        """
        if kept["score"] is None:
            raise InvalidArgument(
                f"run {run[:12]} was scored by a function of your own, which a log cannot hold. "
                "Play the same game again with this store: nothing is trained twice."
            )
        return cls(kept["seed"], kept["stream"], score_from_json(kept["score"]))


def steps_of(payload: bytes) -> FloatArray:
    """What the steps of a training showed."""
    return np.frombuffer(payload, np.float32).astype(float)
