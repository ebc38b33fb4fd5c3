"""How the trials of an audit are played: in which portions, and how many are for learning."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.attacks.online import VERSION
from dpassay.auditing.account import Account
from dpassay.auditing.game import draws_many
from dpassay.auditing.question import MANY, account_of
from dpassay.errors import InvalidArgument
from dpassay.runs import RunRecord, TrialLog, run_key

_BLOCKS, _LARGEST_BLOCK = 20, 16_384
_LEARNING_SHARE, _FEWEST, _MOST = 0.25, 60, 5000  # of the trials, to learn a distinguisher from
# With so many cheap draws a region of outputs is learned and counted; its learners want more.
MANY_DRAWS, SHARE_OF_MANY, _MOST_OF_MANY = 40_000, 0.4, 1_000_000
_STILL_MORE, _MOST_OF_ALL = 0.125, 2_000_000  # where the count is large, so is what it rests on


@dataclass(frozen=True)
class Configuration:
    """How trials are cut into calls, and how many of these are for learning."""

    seed: int | None
    block: int
    n_calls: int
    n_learning: int
    online: bool = False

    @property
    def n_testing(self) -> int:
        """The number of trials that count: those after learning."""
        return (self.n_calls - self.n_learning) * max(self.block, 1)

    def configuration(self) -> dict[str, Any]:
        """What fixes the trials; the claim and the number of trials do not."""
        learns: dict[str, Any] = {"sklearn": _sklearn_version()} if self.n_learning else {}
        if self.online:
            learns = {"online": VERSION}
        return {
            "seed": self.seed,
            "block": self.block,
            "n_learning": self.n_learning,
        } | learns


def configure(
    mechanism: Any, score: Any, trials: int, seed: int | None, sequential: bool
) -> Configuration:
    """How the trials of a new audit are played, if all that it needs is there."""
    if not callable(mechanism):
        raise InvalidArgument(
            f"mechanism={_check.shown(mechanism)} must be callable: mechanism(data, rng)."
        )
    if score is not None and not callable(score):
        raise InvalidArgument(
            f"score={_check.shown(score)} must be callable: score(output) -> float."
        )
    trials = _check.count("trials", trials, low=1)
    block = int(np.clip(trials // _BLOCKS, 1, _LARGEST_BLOCK)) if draws_many(mechanism) else 0
    n_calls = trials // max(block, 1)
    learning = 0
    # Where all of alpha is for bets, the attack learns while it bets, and no trial is set aside.
    online = score is None and Account.begin(n_calls * max(block, 1), sequential).betting == 1
    if score is None and not online:
        if trials < 2 * _FEWEST:
            raise InvalidArgument(
                f"trials={trials} must be at least {2 * _FEWEST} to learn a score and test it. "
                "Pass score=, or more trials."
            )
        learning = math.ceil(_learning_trials(trials, bool(block)) / max(block, 1))
    return Configuration(seed, block, n_calls, learning, online)


def _learning_trials(trials: int, cheap: bool) -> int:
    """How many of the trials are for learning; many where outputs are drawn at once."""
    if cheap and trials >= MANY_DRAWS:
        many = min(SHARE_OF_MANY * trials, _MOST_OF_MANY)
        return int(max(many, min(_STILL_MORE * trials, _MOST_OF_ALL)))
    return int(np.clip(_LEARNING_SHARE * trials, _FEWEST, _MOST))


def find_earlier(
    new: Configuration, trials: int, log: TrialLog, parts: Mapping[str, Any]
) -> tuple[Configuration, RunRecord | None]:
    """The configuration of the run in the log that this audit goes on with; else a new one.

    How a score is learned, from how many trials, and how many are drawn at once, follow from the
    first question that was asked. Another number of trials, or a count instead of bets, must not
    change them: the same seeds would be played again as another run, with an error probability of
    its own for the same trials.
    """
    learns = new.online or new.n_learning > 0
    for record in reversed(log.runs()):
        known = record.configuration
        if not {"seed", "block", "n_learning"} <= known.keys():
            continue
        block, n_learning, online = known["block"], known["n_learning"], "online" in known
        n_calls = trials // max(block, 1)
        old = replace(new, block=block, n_learning=n_learning, online=online, n_calls=n_calls)
        same_kind = bool(block) == bool(new.block) and (online or n_learning > 0) == learns
        if same_kind and known == old.configuration() and record.key == run_key(known, **parts):
            _check.count(
                "trials",
                trials,
                low=(n_learning + 1) * max(block, 1),
                remedy=f"Run {record.key[:12]} in this store learned a score from the first.",
            )
            return old, record
    return new, None


def account_for(chosen: Configuration, record: RunRecord | None, sequential: bool) -> Account:
    """What the logged run has left; a new account if there is none."""
    if record is None or record.description.get("audit") != MANY:
        return Account.begin(chosen.n_testing, sequential)
    account = account_of(record)
    account.allow(sequential, record.key)
    return account


def _sklearn_version() -> str:
    import importlib.metadata

    return importlib.metadata.version("scikit-learn")
