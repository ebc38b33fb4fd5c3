"""The game against DP-SGD: one trial is one training, of which every step is kept."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay._rng import for_trial
from dpassay.adversaries.crafters import Crafted
from dpassay.adversaries.six import Score
from dpassay.adversaries.trainers import Trainer
from dpassay.auditing.claims import dp_sgd_text
from dpassay.auditing.reading import StepsInLog, coin
from dpassay.auditing.stepwise import step_coins
from dpassay.nets import Training
from dpassay.privacy import Event, account
from dpassay.runs import Outcome, run_key
from dpassay.types import PrivacyCurve

TRAINING, CRAFTING, CHOOSING = 1, 2, 3  # streams of randomness; 0 is that of the coins


@dataclass(frozen=True, eq=False)
class TrainingGame:
    """Trainings with a canary or without it, and what each showed at every step.

    Attributes:
        train: plays one training.
        training: how training is done.
        crafted: what the adversary brought.
        seed: of worlds and trainings.
        stream: of the trainings' randomness.
        by_steps: a coin for every step, instead of one for the training.

    """

    train: Trainer
    training: Training
    crafted: Crafted
    seed: int
    stream: int = TRAINING
    by_steps: bool = False

    @property
    def key(self) -> str:
        """The name of the run: everything that its trainings depend on, but no distinguisher."""
        return self._key

    @functools.cached_property
    def _key(self) -> str:
        made = self.crafted
        configuration = {"seed": self.seed, "stream": self.stream, "by_steps": self.by_steps}
        return run_key(
            configuration,
            code=[self.train],
            data=[self.training, made.hooks.identity(), made.records, made.context, made.start],
        )

    def configuration(self) -> dict[str, Any]:
        """What the log says of the run for good."""
        return {"game": "against DP-SGD", "seed": self.seed}

    def worlds(self, trial: int) -> NDArray[Any]:
        """1 with the canary, 0 without; with ``by_steps`` one coin for every step."""
        if self.by_steps:
            return step_coins(self.seed, trial, self.stream, self.training.steps)
        return np.array([coin(self.seed, trial, self.stream)])

    def __call__(self, trials: Sequence[int], /) -> list[Outcome]:
        return [self.play(trial) for trial in trials]

    def play(self, trial: int) -> Outcome:
        """Train once and keep what every step showed."""
        rng = for_trial(self.seed, trial, self.stream)
        crafted, worlds = self.crafted, self.worlds(trial)
        if self.by_steps:
            context = crafted.context | {"coins": worlds.astype(np.float32)}
            crafted = replace(crafted, context=context)
        seen = self.train(self.training, crafted, self.by_steps or bool(worlds[0]), rng)
        return Outcome(payload=np.asarray(seen, np.float32).tobytes())

    def reader(self, score: Score) -> StepsInLog:
        """Reads the trainings by this score."""
        return StepsInLog(self.seed, self.stream, score)


@functools.lru_cache(maxsize=64)
def prove_curve(event: Event) -> PrivacyCurve:
    """The accountant's curve of a training: what is claimed where nothing else is."""
    return account(event)


def describe_proof(training: Training) -> str | None:
    """What stands in a log for the accountant's curve; nothing for a training without noise."""
    if training.noise_multiplier == 0:
        return None
    return dp_sgd_text(training.noise_multiplier, training.sampling_rate, training.steps)
