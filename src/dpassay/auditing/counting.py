"""The count at the end of an audit: a rule of guessing from early trials, counted on later ones.

A rule guesses "with" where the score is at least ``high``, "without" where it is below ``low``, and
abstains in between; it may also guess the other way round. It is chosen for the bound that it is
predicted to show on the trials that will be counted: a normal approximation, less the luck of
having been chosen. Of thousands of rules the best on some trials is lucky there: so either half of
the trials that choose judges what the other half would take. Prediction decides power alone; the
count itself is exact (:mod:`dpassay.bounds.conditional`).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from dpassay.bounds.bands import ranks
from dpassay.bounds.conditional import Guesses
from dpassay.types import FloatArray

# A score is discrete if it has at most so many values, each seen so often on average; its values
# are then put into the order of what they say.
_MOST_LEVELS, _LOOKED_AT, _PER_LEVEL = 40, 20_000, 20_000
_ORDERING = 0.5  # of the trials that choose; the others choose thresholds
# Standard errors taken off a prediction, on the trials that chose: many rules compete. Fewer where
# one half of these trials judges what the other has chosen, at a few degrees of caution.
LUCK, _LUCK_OF_JUDGED = 1.5, 1.0
_CAUTIONS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)  # standard errors, in choosing
_PER_TAIL = 60


@dataclass(frozen=True)
class Rule:
    """Guess "with" from ``high`` on, "without" below ``low``, or with ``swapped`` the reverse.

    ``high`` = inf and ``low`` = -inf never guess on that side, whatever the score.
    """

    low: float
    high: float
    swapped: bool = False

    def count(self, worlds: FloatArray, scores: FloatArray) -> Guesses:
        """Right and wrong guesses on trials that did not choose this rule."""
        up = np.zeros(scores.size, bool) if self.high == math.inf else scores >= self.high
        down = np.zeros(scores.size, bool) if self.low == -math.inf else scores < self.low
        says_with, says_without = (down, up) if self.swapped else (up, down)
        correct = int((says_with & (worlds == 1)).sum() + (says_without & (worlds == 0)).sum())
        wrong = int((says_with & (worlds == 0)).sum() + (says_without & (worlds == 1)).sum())
        return Guesses(correct, wrong, scores.size, self.sides, self.low != self.high)

    @property
    def sides(self) -> int:
        """How many of the two worlds are ever guessed."""
        return 1 if self.high == math.inf or self.low == -math.inf else 2

    @property
    def threshold(self) -> float:
        """One number to show: where "with" begins, or where "without" ends."""
        return self.high if self.high != math.inf else self.low


@dataclass(frozen=True, eq=False)
class Levels:
    """The values of a discrete score and what each of them says: an estimate of its log odds.

    A learned score has put values into an order by the draws that it was learned from. There are
    often many more draws among the trials that choose a rule, and values whose order is not clear
    yet are kept from the best region by noise.
    """

    values: FloatArray
    heights: FloatArray

    @classmethod
    def of(cls, worlds: FloatArray, scores: FloatArray) -> "Levels | None":
        """What the values say in these trials; None if there are too many of them, or two."""
        if np.unique(scores[:_LOOKED_AT]).size > _MOST_LEVELS:
            return None
        values, places = np.unique(scores, return_inverse=True)
        if not 2 < values.size <= _most_levels(scores.size):
            return None
        counts = np.bincount(places * 2 + worlds, minlength=2 * values.size).reshape(-1, 2) + 0.5
        heights = np.log(counts[:, 1] / counts[:, 0])
        # Rare values could be anything: half a standard error towards "says nothing".
        doubt = 0.5 * np.sqrt((1 / counts).sum(axis=1))
        return cls(values, np.sign(heights) * np.maximum(np.abs(heights) - doubt, 0.0))

    def __call__(self, scores: FloatArray) -> FloatArray:
        """What each score says; 0 for one that was not seen."""
        place = np.minimum(np.searchsorted(self.values, scores), self.values.size - 1)
        return np.where(self.values[place] == scores, self.heights[place], 0.0)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rules with their right and wrong guesses among n trials, for choosing one of them.

    Attributes:
        lows: below which each guesses one world.
        highs: from which on each guesses the other.
        swapped: whether high scores are taken for "without".
        halves_correct: right guesses of each, in either half of the trials.
        halves_wrong: wrong guesses of each.
        n: the number of trials.
        growth: how many times as many trials will be counted.
        border: which rules end where the score was learned to have its border.
        settled: whether all do: the border is known from more trials than these.

    """

    lows: FloatArray
    highs: FloatArray
    swapped: FloatArray
    halves_correct: FloatArray
    halves_wrong: FloatArray
    n: int
    growth: float
    border: FloatArray
    settled: bool = False

    @classmethod
    def of(
        cls,
        worlds: FloatArray,
        scores: FloatArray,
        n_counted: int,
        both_ways: bool,
        n_taught: int = 0,
    ) -> "Candidates":
        """All pairs of thresholds at some ranks of the scores of the trials that choose.

        A score that was learned has its border at 0: where the region ends that was found on the
        trials that taught it, or where it says neither world. Rules that end there were not chosen
        on these trials, so that they owe nothing to luck. Where more trials taught the score than
        choose here, there are no others: fewer trials cannot say better where it ends.
        """
        # A border that all scores are on one side of says the same of all: no rule at all.
        bordered = not both_ways and bool((scores < 0).any() and (scores >= 0).any())
        settled = bordered and n_taught >= scores.size
        cuts = np.empty(0) if settled else _cuts(scores)
        cuts = np.union1d(cuts, 0.0) if bordered else cuts
        low, high = np.append(cuts, -np.inf), np.append(cuts, np.inf)
        i, j = np.nonzero((low[:, None] <= high) & ~(np.isinf(low)[:, None] & np.isinf(high)))
        halves = [_guesses(worlds[k::2], scores[k::2], cuts, i, j) for k in (0, 1)]
        one, other = np.stack(halves, axis=1)
        border = np.isin(low[i], (0.0, -np.inf)) & np.isin(high[j], (0.0, np.inf)) & bordered
        plain = (low[i], high[j], np.zeros(i.size, bool), one, other, border)
        reverse = (low[i], high[j], np.ones(i.size, bool), other, one, border)
        ways = (plain, reverse) if both_ways else (plain,)
        *columns, border = (np.concatenate(parts, axis=-1) for parts in zip(*ways, strict=True))
        growth = n_counted / max(scores.size, 1)
        return cls(*columns, n=scores.size, growth=growth, border=border, settled=settled)

    @property
    def correct(self) -> FloatArray:
        """Right guesses of each rule."""
        return self.halves_correct.sum(axis=0)

    @property
    def wrong(self) -> FloatArray:
        """Wrong guesses of each rule."""
        return self.halves_wrong.sum(axis=0)

    def __len__(self) -> int:
        return self.lows.size

    def rule(self, index: int) -> Rule:
        """The candidate rule of this number."""
        return Rule(float(self.lows[index]), float(self.highs[index]), bool(self.swapped[index]))

    @property
    def leak(self) -> FloatArray:
        """Delta times this is the chance of a right guess beyond the odds."""
        return 1 - (np.isinf(self.lows) | np.isinf(self.highs)) / 2

    def right_lower(self, alpha: float, luck: float = LUCK) -> FloatArray:
        """The predicted lower limit on the chance that a guess is right."""
        return _right_lower(self.correct, self.wrong, self._errors_of(alpha) + luck)

    def _errors_of(self, alpha: float) -> float:
        """The standard errors, on these trials, between the count's estimate and its limit."""
        return -float(special.ndtri(alpha)) / math.sqrt(self.growth)

    def best_at(self, delta: float, alpha: float) -> Rule:
        """The rule with the largest predicted bound on epsilon(delta).

        At each degree of caution either half takes its best rule, and the other half judges it.
        The degree that does best takes its rule on all trials, unless one at the border of the
        score promises more, or the border is known from more trials than these. A rule that is
        taken guesses at least half as often as those that were judged: a degree of little caution
        that did well by large regions would otherwise take a lucky tail that nobody has judged.
        """
        if self.settled:
            return self.rule(int(np.argmax(self._predict(delta, alpha))))
        judged = [self._judge(delta, alpha, caution) for caution in _CAUTIONS]
        best = int(np.argmax([value for value, _ in judged]))
        value, guesses = judged[best]
        odds = self._odds(self.correct, self.wrong, self.n, delta, _CAUTIONS[best])
        large = self.correct + self.wrong >= guesses / 2
        chosen = int(np.argmax(np.where(large, odds, -np.inf)))
        at_border = np.where(self.border, self._predict(delta, alpha), -np.inf)
        if at_border.max() >= value:
            chosen = int(np.argmax(at_border))
        return self.rule(chosen)

    def _predict(self, delta: float, alpha: float) -> FloatArray:
        """What each rule promises, with nothing taken off for luck."""
        return self._odds(self.correct, self.wrong, self.n, delta, self._errors_of(alpha))

    def _judge(self, delta: float, alpha: float, caution: float) -> tuple[float, float]:
        """What rules that were chosen with this caution show on the trials that did not choose.

        The predicted bound on the odds, and how many guesses it rests on.
        """
        correct, wrong, sides = self.halves_correct, self.halves_wrong, (self.n + 1) // 2
        best = [
            int(np.argmax(self._odds(correct[k], wrong[k], sides, delta, caution))) for k in (0, 1)
        ]
        right = correct[1, best[0]] + correct[0, best[1]]
        errors = wrong[1, best[0]] + wrong[0, best[1]]
        off = self._errors_of(alpha) + _LUCK_OF_JUDGED
        leak = float(self.leak[best].max())
        value = _odds_lower(right, errors, self.n, leak * delta, off)
        return float(value), float(right + errors)

    def _odds(
        self, correct: FloatArray, wrong: FloatArray, n: int, delta: float, off: float
    ) -> FloatArray:
        return _odds_lower(correct, wrong, n, self.leak * delta, off)

    def best_deltas(self, epsilon: FloatArray, alpha: float) -> tuple[FloatArray, list[Rule]]:
        """For each epsilon the largest predicted bound on delta(epsilon), and the rule for it."""
        right = self.right_lower(alpha)
        share = (self.correct + self.wrong) / self.n
        found: list[float] = []
        rules: list[Rule] = []
        for growth in np.exp(epsilon):
            shown = (1 - (1 - right) * (1 + growth)) * share / self.leak
            best = int(np.argmax(shown))
            found.append(max(float(shown[best]), 0.0))
            rules.append(self.rule(best))
        return np.array(found), rules

    def best_against(self, epsilon: FloatArray, delta: FloatArray) -> tuple[int, Rule]:
        """The point of a claimed curve and the rule whose count is predicted to refute it best.

        Compared by the likelihood ratio of the share of right guesses against the most that the
        point allows, as standard errors with their sign.
        """
        made = np.maximum(self.correct + self.wrong, 1)
        right = np.clip(self.correct / (self.correct + self.wrong + (self.wrong < 10)), 0, 1)
        best, chosen = -math.inf, (0, 0)
        for i, (growth, allowed) in enumerate(zip(np.exp(epsilon), delta, strict=True)):
            most = np.clip((growth + self.leak * allowed * self.n / made) / (growth + 1), 0, 1)
            distance = special.xlogy(right, right / most) + special.xlogy(
                1 - right, (1 - right) / np.maximum(1 - most, 1e-300)
            )
            z = np.sign(right - most) * np.sqrt(2 * made * np.maximum(distance, 0))
            z = np.where((most < 1) & (self.correct > 0), z, -np.inf)
            if z.max() > best:
                best, chosen = float(z.max()), (i, int(np.argmax(z)))
        return chosen[0], self.rule(chosen[1])


def _guesses(
    worlds: FloatArray, scores: FloatArray, cuts: FloatArray, lows: Any, highs: Any
) -> tuple[FloatArray, FloatArray]:
    """Right and wrong guesses of rules, by the numbers of their thresholds; the last is "never"."""
    order = np.sort(scores[worlds == 1]), np.sort(scores[worlds == 0])
    above = [np.append(side.size - np.searchsorted(side, cuts), 0) for side in order]
    below = [np.append(np.searchsorted(side, cuts), 0) for side in order]
    return above[0][highs] + below[1][lows], above[1][highs] + below[0][lows]


def _right_lower(correct: Any, wrong: Any, off: float) -> FloatArray:
    """The share of right guesses less so many standard errors of its log odds."""
    # Few wrong guesses may be luck: 8 to 0, scaled up by 100, is not 800 to 0.
    wrong = wrong + (wrong < 10)
    with np.errstate(divide="ignore", invalid="ignore"):
        center = np.log(correct) - np.log(wrong)
        log_odds = center - off * np.sqrt(1 / correct + 1 / wrong)
    return np.where(correct > 0, special.expit(log_odds), 0.0)


def _odds_lower(correct: Any, wrong: Any, n: int, leak: Any, off: float) -> FloatArray:
    """Odds of a right guess less so many standard errors, and less what delta leaks."""
    right = _right_lower(correct, wrong, off)
    share = np.maximum(correct + wrong, 1) / n
    return (right - leak / share) / np.maximum(1 - right, 1e-300)


def _most_levels(ordering: int) -> int:
    """How many values of a score so many trials can put into order."""
    return min(_MOST_LEVELS, ordering // _PER_LEVEL)


def n_ordered(first: int) -> int:
    """How many values of a score are put into order before the trials from ``first`` on count."""
    return _most_levels(int(_ORDERING * first))


def choose_among(
    worlds: FloatArray,
    scores: FloatArray,
    first: int,
    end: int,
    both_ways: bool,
    n_taught: int = 0,
) -> tuple[Candidates, FloatArray]:
    """The rules to choose from for a count of the trials from ``first`` on, and their scores.

    A discrete score is put into the order of what its values say. Order and rules are fixed by the
    trials before ``first`` alone, the order by the first half of these, which then do not choose.
    """
    ordering = int(_ORDERING * first)
    levels = Levels.of(worlds[:ordering], scores[:ordering]) if ordering else None
    if levels is None:
        choosing = worlds[:first], scores[:first]
        return Candidates.of(*choosing, end - first, both_ways, n_taught), scores
    scores, choosing = levels(scores), slice(ordering, first)
    return Candidates.of(worlds[choosing], scores[choosing], end - first, both_ways), scores


def _cuts(scores: FloatArray) -> FloatArray:
    """Thresholds at ranks that are dense towards both ends; between distinct scores."""
    ordered = np.sort(scores)
    at = ordered[_ranks(ordered.size)]
    below = ordered[np.maximum(np.searchsorted(ordered, at) - 1, 0)]
    # The middle of the gap below a score; with an infinite score at one end, the score itself.
    with np.errstate(invalid="ignore", over="ignore"):
        middle = below / 2 + at / 2
    cuts = np.where(np.isfinite(middle) & (middle > below), middle, at)
    # inf stands for "never"; the largest number tells infinite scores from the rest as well.
    cuts = np.minimum(cuts, np.finfo(float).max)
    return np.unique(cuts[cuts > ordered[0]])


@lru_cache(maxsize=64)
def _ranks(n: int) -> FloatArray:
    ratio = 1.05
    while ranks(n, ratio, _PER_TAIL).size > 2 * _PER_TAIL:
        ratio *= 1.05
    return ranks(n, ratio, _PER_TAIL).astype(int)
