"""Canary search: several candidates on preliminary trainings, the best is kept for the audit."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpassay import _check
from dpassay.adversaries.crafters import Crafted, Data
from dpassay.adversaries.game import Adversary, play, separation
from dpassay.nets import Training
from dpassay.runs import Players, TrialLog


@dataclass(frozen=True, eq=False)
class Searched:
    """A crafter that tries ``candidates`` games of another and keeps the one that shows most.

    ``replace(adversary, craft=Searched(adversary))`` plays it: the search trains by itself, before
    the game, with seeds of its own, so that what is counted afterwards is fresh and the choice
    costs nothing but trainings.

    Attributes:
        adversary: whose crafter makes the candidates, and whose distinguisher compares them.
        candidates: how many.
        trials: preliminary trainings of each.
        store: a file that keeps them.
        executor: who plays, see :func:`dpassay.runs.play`.

    """

    adversary: Adversary
    candidates: int = 8
    trials: int = 60
    store: str | Path | TrialLog | None = None
    executor: Players = None

    def __post_init__(self) -> None:
        _check.count("candidates", self.candidates)
        _check.count("trials", self.trials, low=4)

    def __call__(self, training: Training, data: Data, rng: np.random.Generator) -> Crafted:
        games = [
            play(
                self.adversary,
                training,
                data,
                trials=self.trials,
                choosing=max(self.trials // 4, 4),
                store=self.store,
                executor=self.executor,
                rng=int(seed),
            )
            for seed in rng.integers(2**62, size=self.candidates)
        ]
        shown = [separation(game.evidence.worlds, game.evidence.scores) for game in games]
        return games[int(np.argmax(shown))].crafted
