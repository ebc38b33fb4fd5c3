"""Playing the search for a pair: each pair is a game of its own; the choice is kept in the log.

Trials that are trainings are logged like those of an audit, so that a search that was interrupted
goes on where it was. Draws that come by the thousand are not: they are cheaper to draw again. What
was chosen is written down before the audit begins, and the same call finds it there.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpassay.auditing.engine import Engine
from dpassay.auditing.game import PairGame, draws_many
from dpassay.auditing.input_pairs import Input, Pair
from dpassay.auditing.pairs import (
    Found,
    adjust_pair,
    follow_steps,
    promise_of_attack,
    promise_of_region,
    search_pair,
    wealth_of_attack,
)
from dpassay.auditing.question import CHOOSING, coin_seed, refuse_failures, refuse_target
from dpassay.auditing.reading import FeaturesInLog
from dpassay.errors import AuditStopped, InvalidArgument
from dpassay.runs import run_key
from dpassay.types import FloatArray, PrivacyCurve

# Of the trials of an audit, so many may go into the search.
_SHARE = 0.4
_SHRINKING = 0.15  # and so many into making the pair simpler, or better
_TRIES = 8  # pairs that these are meant for
_FEWEST_TRIALS, _MOST_TRIALS = 16, 400  # a pair in one round
_FEWEST_DRAWS, _MOST_DRAWS, _CALL = 3000, 60_000, 1000
_LEVEL = 0.04  # at which a final count is predicted
_PURPOSE = 2  # the seed of a search is not that of the audit that follows


@dataclass(frozen=True)
class Search:
    """A mechanism whose pair is searched.

    Attributes:
        engine: plays trainings.
        mechanism: who is audited.
        source: makes the pairs.
        claim: what is tested later.
        delta: where its bound will be stated.
        confidence: of the verdict.
        trials: of the whole audit, this search included.
        seed: of the audit; None for noise of the operating system.
        about: what the log says of the audit.
        kept: how much of what a pair shows beyond the claim must be left when it is shrunk.

    """

    engine: Engine
    mechanism: Any
    source: Input
    claim: PrivacyCurve
    delta: float
    confidence: float
    trials: int
    seed: int | None
    about: Mapping[str, Any]
    kept: float = 0.1

    def run(self) -> Found:
        """The pair that shows most: from the log, if it was chosen before."""
        pairs = self.source.pairs(self.claim.neighbouring)
        settings = {"seed": self.seed, "search": len(pairs), "trials": self.trials}
        settings |= {"kept": self.kept}
        data = [[pair.data, pair.data_prime] for pair in pairs]
        key = run_key(settings, code=[self.mechanism], data=data)
        known = [run for run in self.engine.log.runs() if run.key == key]
        if known and "chosen" in known[0].description:
            before: dict[str, Any] = known[0].description["chosen"]
            return _read(pairs, before)
        found = self._search(key)
        name = found.before or found.pair.name
        number = next(i for i, pair in enumerate(pairs) if pair.name == name)
        chosen = {
            "number": number,
            "steps": [list(step) for step in found.steps],
            "value": found.value if math.isfinite(found.value) else None,
            "tried": found.tried,
            "trials": found.trials,
        }
        said = {"audit": CHOOSING, "trials": found.trials, "chosen": chosen}
        self.engine.log.begin(key, settings, {**self.about, **said})
        return found

    def _search(self, key: str) -> Found:
        budget = int(_SHARE * self.trials)
        return self._of_draws(key, budget) if draws_many(self.mechanism) else self._of(key, budget)

    def _of_draws(self, key: str, budget: int) -> Found:
        """A pair for a mechanism that draws many outputs at once."""
        left = self.trials - budget - int(_SHRINKING * self.trials)
        judge = promise_of_region(self.delta, _LEVEL, left)

        def trials(pair: Pair, n: int) -> tuple[Any, FloatArray]:
            return self._draw(key, pair, n)

        sizes = {"fewest": _FEWEST_DRAWS, "most": _MOST_DRAWS}
        relation = self.claim.neighbouring
        found = search_pair(self.source, relation, trials, judge, budget=budget, **sizes)
        goal, spare = float(self.claim.epsilon(self.delta)), int(_SHRINKING * self.trials)
        size = min(max(_FEWEST_DRAWS, spare // _TRIES), _MOST_DRAWS)
        sizes = {"size": size, "budget": spare}
        return adjust_pair(found, trials, judge, goal=goal, kept=self.kept, twice=True, **sizes)

    def _of(self, key: str, budget: int) -> Found:
        """A pair for a mechanism of which a trial is a training."""

        def trials(pair: Pair, n: int) -> tuple[Any, FloatArray]:
            return self._play(key, pair, n)

        sizes = {"fewest": _FEWEST_TRIALS, "most": _MOST_TRIALS}
        relation, judge = self.claim.neighbouring, promise_of_attack(self.claim)
        found = search_pair(self.source, relation, trials, judge, budget=budget, **sizes)
        wealth, needed = wealth_of_attack(self.claim), -math.log(1 - self.confidence)
        won = wealth(*trials(found.pair, found.played)) if found.played else 0.0
        if won <= needed:
            return found  # trainings are too dear to look around
        found, spare = replace(found, value=won), int(_SHRINKING * self.trials)
        return adjust_pair(
            found, trials, wealth, goal=needed, kept=self.kept, size=found.played, budget=spare
        )

    def _game(self, key: str, pair: Pair, block: int) -> PairGame:
        settings = {"seed": self.seed, "block": block, "n_learning": 0, "pair": pair.name}
        run = run_key({**settings, "search": key}, code=[self.mechanism])
        seed = None if self.seed is None else self._seed_of(run)
        coins = coin_seed(seed, run)
        data = pair.data, pair.data_prime
        return PairGame(self.mechanism, *data, run, coins, seed, block, settings)

    def _seed_of(self, run: str) -> int:
        """The seed of a pair's trials, which no other pair and not the audit itself uses."""
        words = np.random.SeedSequence([self.seed or 0, int(run[:12], 16), _PURPOSE])
        return int(words.generate_state(1, np.uint64)[0] >> 2)

    def _draw(self, key: str, pair: Pair, n: int) -> tuple[Any, FloatArray]:
        game = self._game(key, pair, _CALL)
        calls = range(math.ceil(n / _CALL))
        worlds = [game.worlds(call) for call in calls]
        tables = [game.table(call) for call in calls]
        return np.concatenate(worlds), np.concatenate(tables)

    def _play(self, key: str, pair: Pair, n: int) -> tuple[Any, FloatArray]:
        game = self._game(key, pair, 0)
        about = {**self.about, "audit": CHOOSING, "trials": n, "pair": pair.name}
        played = self.engine.play(game, n, description=about)
        refuse_target(played)
        refuse_failures(played)
        if played.ended == "interrupted":
            raise AuditStopped(
                "the search for a pair was interrupted; nothing is lost if a store was given: the "
                "same call goes on."
            )
        return FeaturesInLog(game.coin_seed, 0)(played.outcomes)


def _read(pairs: list[Pair], chosen: Mapping[str, Any]) -> Found:
    """What a log says was chosen, as it was found."""
    first = pairs[int(chosen["number"])]
    steps = tuple((kind, int(number)) for kind, number in chosen.get("steps", ()))
    return Found(
        follow_steps(first, steps),
        chosen["value"],
        chosen["tried"],
        chosen["trials"],
        before=first.name if steps else "",
        steps=steps,
    )


def check_one_way_in(pair: Any, data: Any) -> None:
    """Raise unless an audit was given either a pair or something to search one in."""
    if (pair is None) == (data is None):
        raise InvalidArgument(
            "pair and data: give one of them. pair=(data, data_prime) is played as it is; data= (a "
            "data set, or dpassay.inputs.vector(10)) has the pair searched."
        )
