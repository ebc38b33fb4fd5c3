"""The pair on which a mechanism leaks most, searched among those that an input makes.

The search plays trials of its own and throws them away: the audit then counts fresh ones on the
pair that was chosen, so that choosing costs nothing but time. Half of the pairs are left after each
round, and those that are left get twice the trials (successive halving).

A mechanism that draws many outputs at once gets the *predicted bound* of the best region of outputs
(``dpassay.attacks.regions``). One that draws one at a time gets an online attack
(:mod:`dpassay.attacks.online`); its pairs are compared by how far the attack's ranks are from a
coin's, in standard deviations, and by the wealth that was won against the claim.

What was found is then adjusted, on trials that are thrown away as well. A pair that promises a
refutation is *shrunk* to the simplest that promises one too, since that is what a person has to
look at. One that does not is exchanged for one nearby that promises more.

**Why the verdict holds.** All that was played here has seeds of its own, and the pair is a function
of it and of the input alone. Given the pair, the trials of the audit are independent of the search,
and verdict and bound err with probability 1 - confidence at most, whatever the pair is; so they do
on average over the pairs. The price is the trials. ∎ Shrinking on the trials that are judged would
not be covered: of many simple pairs the luckiest would be shown.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

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

# A pair nearby must promise so much more: the luckiest of several looks better than it is.
_BETTER = 1.1

Trials = Callable[[Pair, int], tuple[Any, FloatArray]]
Adjustment = Literal["simpler", "nearby"]


@dataclass(frozen=True)
class Found:
    """The pair that a search chose, and what it promises.

    Attributes:
        pair: the pair to audit.
        value: what it promises; comparable among pairs of one search only.
        tried: how many pairs were played.
        trials: how many trials that took.
        played: how many of these were of this pair.
        before: what the pair was called before it was adjusted; empty if it was not.
        steps: how it was adjusted: which of the simpler or nearby pairs was taken, in order.

    """

    pair: Pair
    value: float
    tried: int
    trials: int
    played: int = 0
    before: str = ""
    steps: tuple[tuple[Adjustment, int], ...] = ()


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
    return Found(left[0].pair, left[0].value, count, spent, left[0].played)


def adjust_pair(
    found: Found,
    trials: Trials,
    judge: Callable[[Any, FloatArray], float],
    *,
    goal: float,
    kept: float,
    size: int,
    budget: int,
    twice: bool = False,
) -> Found:
    """The pair shrunk if it promises a refutation; else one nearby that promises more, if any.

    Args:
        found: what a search has found, with a value of this judge.
        trials: as in :func:`search_pair`.
        judge: what a pair's trials promise.
        goal: what a pair that refutes the claim promises, at least.
        kept: the share of what is promised beyond the goal that a simpler pair must promise too.
        size: trials of a pair.
        budget: trials of all of them, at most.
        twice: whether a pair must promise enough on as many more trials too: a promise of few draws
            may be luck, which wealth hardly ever is.

    """
    shrinks = found.value > goal
    kind: Adjustment = "simpler" if shrinks else "nearby"
    enough, moved = goal + kept * (found.value - goal), True
    game = _Tries(trials, judge, size, found.trials + budget, twice)
    while moved:
        least = enough if shrinks else _BETTER * max(found.value, 0.0)
        found, moved = game.take_first(found, kind, least)
    return found


@dataclass(frozen=True)
class _Tries:
    """Pairs that are tried one after the other, until so many trials of a search are spent."""

    trials: Trials
    judge: Callable[[Any, FloatArray], float]
    size: int
    limit: int
    twice: bool = False

    def take_first(self, found: Found, kind: Adjustment, enough: float) -> tuple[Found, bool]:
        """With the first adjusted pair that promises more than enough; whether there was one."""
        for number, pair in enumerate(getattr(found.pair, kind)()):
            if found.trials + self.size > self.limit:
                break
            found = replace(found, trials=found.trials + self.size, tried=found.tried + 1)
            value = self.judge(*self.trials(pair, self.size))
            if value > enough and self.twice:
                if found.trials + self.size > self.limit:
                    break
                found = replace(found, trials=found.trials + self.size)
                value = min(value, self._judge_more(pair))
            if value > enough:
                before, steps = found.before or found.pair.name, (*found.steps, (kind, number))
                return replace(found, pair=pair, value=value, before=before, steps=steps), True
        return found, False

    def _judge_more(self, pair: Pair) -> float:
        """What the next trials of a pair promise, as many as were judged before."""
        worlds, table = self.trials(pair, 2 * self.size)
        return self.judge(worlds[self.size :], table[self.size :])


def follow_steps(pair: Pair, steps: Iterable[tuple[Adjustment, int]]) -> Pair:
    """The pair that adjusting another one came to."""
    for kind, number in steps:
        pair = [*getattr(pair, kind)()][number]
    return pair


def _shares(count: int) -> int:
    """How many times the size of its first round a search of so many pairs plays in all."""
    total, doubled = 0, 1
    while count > 1:
        total += doubled * count
        count = (count + 1) // 2 if count > 2 else 1
        doubled *= 2
    return total


def _simplest(best: list[_Arm]) -> _Arm:
    """The simplest of the pairs that promise about as much as the best one."""
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


def wealth_of_attack(claim: PrivacyCurve) -> Callable[[Any, FloatArray], float]:
    """Judges a few trials: the log of what an online attack won by betting against the claim."""

    def judge(worlds: Any, table: FloatArray) -> float:
        attack = OnlineAttack()
        test = SequentialTest(claim, shares=attack.shares)
        test.take(attack.play(worlds, table).streams, worlds)
        return test.log_wealth

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
