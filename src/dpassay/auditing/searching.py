"""Playing the search for a pair: each pair is a game of its own; the choice is kept in the log.

Trials that are trainings are logged like those of an audit, so that a search that was interrupted
goes on where it was. Draws that come by the thousand are not: they are cheaper to draw again. What
was chosen is written down before the audit begins, and the same call finds it there.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.auditing.engine import Engine
from dpassay.auditing.game import PairGame, draws_many
from dpassay.auditing.input_pairs import Input, Pair
from dpassay.auditing.pairs import (
    Found,
    promise_of_attack,
    promise_of_region,
    search_pair,
)
from dpassay.auditing.question import CHOOSING, coin_seed, refuse_failures, refuse_target
from dpassay.auditing.reading import FeaturesInLog
from dpassay.errors import AuditStopped, InvalidArgument
from dpassay.runs import run_key
from dpassay.types import FloatArray, PrivacyCurve

# Of the trials of an audit, so many may go into the search.
_SHARE = 0.4
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
        trials: of the whole audit, this search included.
        seed: of the audit; None for noise of the operating system.
        about: what the log says of the audit.

    """

    engine: Engine
    mechanism: Any
    source: Input
    claim: PrivacyCurve
    delta: float
    trials: int
    seed: int | None
    about: Mapping[str, Any]

    def run(self) -> Found:
        """The pair that shows most: from the log, if it was chosen before."""
        pairs = self.source.pairs(self.claim.neighbouring)
        settings = {"seed": self.seed, "search": len(pairs), "trials": self.trials}
        data = [[pair.data, pair.data_prime] for pair in pairs]
        key = run_key(settings, code=[self.mechanism], data=data)
        known = [run for run in self.engine.log.runs() if run.key == key]
        if known and "chosen" in known[0].description:
            before: dict[str, Any] = known[0].description["chosen"]
            pair = pairs[int(before["number"])]
            return Found(pair, before["value"], before["tried"], before["trials"])
        found = self._search(key)
        number = next(i for i, pair in enumerate(pairs) if pair.name == found.pair.name)
        chosen = {
            "number": number,
            "value": found.value if math.isfinite(found.value) else None,
            "tried": found.tried,
            "trials": found.trials,
        }
        said = {"audit": CHOOSING, "trials": found.trials, "chosen": chosen}
        self.engine.log.begin(key, settings, {**self.about, **said})
        return found

    def _search(self, key: str) -> Found:
        budget, relation = int(_SHARE * self.trials), self.claim.neighbouring
        if draws_many(self.mechanism):
            left = self.trials - budget
            judge = promise_of_region(self.delta, _LEVEL, left)
            return search_pair(
                self.source,
                relation,
                lambda pair, n: self._drawn(key, pair, n),
                judge,
                budget=budget,
                fewest=_FEWEST_DRAWS,
                most=_MOST_DRAWS,
            )
        return search_pair(
            self.source,
            relation,
            lambda pair, n: self._play(key, pair, n),
            promise_of_attack(self.claim),
            budget=budget,
            fewest=_FEWEST_TRIALS,
            most=_MOST_TRIALS,
        )

    def _game(self, key: str, pair: Pair, block: int) -> PairGame:
        settings = {"seed": self.seed, "block": block, "n_learning": 0, "pair": pair.name}
        run = run_key({**settings, "search": key}, code=[self.mechanism])
        seed = None if self.seed is None else self._seed_of(run)
        coins = coin_seed(seed, run)
        data = pair.data, pair.data_prime
        return PairGame(self.mechanism, *data, run, coins, seed, block, settings)

    def _seed_of(self, run: str) -> int:
        """Neither that of the audit nor that of another pair."""
        words = np.random.SeedSequence([self.seed or 0, int(run[:12], 16), _PURPOSE])
        return int(words.generate_state(1, np.uint64)[0] >> 2)

    def _drawn(self, key: str, pair: Pair, n: int) -> tuple[Any, FloatArray]:
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


def check_one_way_in(pair: Any, data: Any) -> None:
    """Raise unless an audit was given either a pair or something to search one in."""
    if (pair is None) == (data is None):
        raise InvalidArgument(
            "pair and data: give one of them. pair=(data, data_prime) is played as it is; data= (a "
            "data set, or dpassay.inputs.vector(10)) has the pair searched."
        )
