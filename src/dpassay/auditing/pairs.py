"""The pair on which a mechanism leaks most, searched among those that an input makes.

The search plays trials of its own and throws them away: the audit then counts fresh ones on the
pair that was chosen, so that choosing costs nothing but time. Half of the pairs are left after each
round, and those that are left get twice the trials (successive halving).

A mechanism that draws many outputs at once gets the *predicted bound* of the best region of outputs
(``dpassay.attacks.regions``). One that draws one at a time gets an online attack
(:mod:`dpassay.attacks.online`); its pairs are compared by how far the attack's ranks are from a
coin's, in standard deviations, and by the wealth that was won against the claim.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpassay.attacks.online import OnlineAttack
from dpassay.attacks.regions import Forecast, learn_region
from dpassay.auditing.input_pairs import Input, Pair
from dpassay.auditing.referee import area_under_ranks
from dpassay.bounds import SequentialTest
from dpassay.bounds.conditional import Guesses, epsilon_lower
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray, Neighbouring, PrivacyCurve

_MOST_PAIRS = 24
# Among pairs that promise about as much, the first one made is the simplest.
_ABOUT_AS_MUCH = 0.9

Trials = Callable[[Pair, int], tuple[Any, FloatArray]]


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes:
        pair: the pair to audit.
        value: what it promises; comparable among pairs of one search only.
        tried: how many pairs were played.
        trials: how many trials that took.

    """

    pair: Pair
    value: float
    tried: int
    trials: int


@dataclass
class _Arm:
    pair: Pair
    number: int
    played: int = 0
    value: float = -math.inf


def search_pair(
    source: Input,
    neighbouring: Neighbouring,
    trials: Trials,
    judge: Callable[[Any, FloatArray], float],
    *,
    budget: int,
    fewest: int,
    most: int,
) -> Found:
    """The most promising pair of an input, by successive halving.

    Args:
        source: makes the pairs.
        neighbouring: the relation of the claim.
        trials: ``trials(pair, n)`` plays the first n trials of a pair: worlds, and features of the
            outputs, a row each.
        judge: what a pair's trials promise.
        budget: trials of the whole search, at most.
        fewest: trials of a pair in the first round.
        most: trials of a pair in one round, at most.

    """
    pairs = source.pairs(neighbouring)
    if not pairs:
        raise InvalidArgument(
            "data makes no pair of neighbours. Describe a wider input, or give the pair yourself."
        )
    count = min(len(pairs), _MOST_PAIRS)
    while count > 1 and fewest * _shares(count) > budget:
        count -= 1
    arms = [_Arm(pair, number) for number, pair in enumerate(pairs[:count])]
    size = min(budget // max(_shares(count), 1), most)
    left, spent = arms, 0
    while len(left) > 1:
        for arm in left:
            arm.value = judge(*trials(arm.pair, arm.played + size))
            arm.played += size
            spent += size
        best = sorted(left, key=lambda arm: (-arm.value, arm.number))
        left = best[: (len(left) + 1) // 2] if len(left) > 2 else [_simplest(best)]
        size = min(2 * size, most)
    return Found(left[0].pair, left[0].value, count, spent)


def _shares(count: int) -> int:
    """How many times the size of its first round a search of so many pairs plays in all."""
    total, doubled = 0, 1
    while count > 1:
        total += doubled * count
        count = (count + 1) // 2 if count > 2 else 1
        doubled *= 2
    return total


def _simplest(best: list[_Arm]) -> _Arm:
    """The first made of those that promise about as much as the best."""
    enough = _ABOUT_AS_MUCH * best[0].value
    return min((a for a in best if a.value >= enough), key=lambda a: a.number, default=best[0])


def promise_of_region(
    delta: float, level: float, counted: int
) -> Callable[[Any, FloatArray], float]:
    """Judges many draws: the bound that a final count of so many is predicted to show."""

    def bound(more: float, fewer: float) -> float:
        return epsilon_lower(Guesses(int(more), int(fewer), counted), delta, level)

    def judge(worlds: Any, table: FloatArray) -> float:
        region = learn_region(table[:, 1:], worlds, Forecast(counted, bound), boosting=False)
        return -math.inf if region is None else region.predicted

    return judge


def promise_of_attack(claim: PrivacyCurve) -> Callable[[Any, FloatArray], float]:
    """Judges a few trials: how well an online attack tells the worlds apart, and what it won."""

    def judge(worlds: Any, table: FloatArray) -> float:
        attack = OnlineAttack()
        seen = attack.play(worlds, table)
        test = SequentialTest(claim, shares=attack.shares)
        test.take(seen.streams, worlds)
        areas = [area_under_ranks(worlds, ranks) for ranks in seen.ranks]
        return (max(areas) - 0.5) * math.sqrt(3 * len(worlds)) + test.log_wealth / 2

    return judge
