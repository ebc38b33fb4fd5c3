"""The count at the end of an audit: a rule of guessing from early trials, counted on later ones.

A rule guesses "with" where the score is at least ``high``, "without" where it is below ``low``, and
abstains in between; it may also guess the other way round. It is chosen for the bound that it is
predicted to show on the trials that will be counted: a normal approximation, less the luck of
having been chosen. Prediction decides power alone; the count itself is exact
(:mod:`dpassay.bounds.conditional`).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from dpassay.bounds.bands import ranks
from dpassay.bounds.conditional import Guesses
from dpassay.types import FloatArray

# A score is discrete if it has at most so many values, each seen so often on average; its values
# are then put into the order of what they say.
_MOST_LEVELS, _LOOKED_AT, _PER_LEVEL = 40, 20_000, 20_000
_ORDERING = 0.5  # of the trials that choose; the others choose thresholds
# Standard errors taken off a prediction, on the trials that chose: many rules compete.
LUCK = 1.5
_LUCK_OF_LEVELS = 0.5  # the few values of a discrete score, ordered on other trials
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
        if not 2 < values.size <= min(_MOST_LEVELS, scores.size / _PER_LEVEL):
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
        correct: right guesses of each.
        wrong: wrong guesses of each.
        n: the number of trials.
        growth: how many times as many trials will be counted.
        luck: standard errors that being the best of many is worth.

    """

    lows: FloatArray
    highs: FloatArray
    swapped: FloatArray
    correct: FloatArray
    wrong: FloatArray
    n: int
    growth: float
    luck: float = LUCK

    @classmethod
    def of(
        cls,
        worlds: FloatArray,
        scores: FloatArray,
        n_counted: int,
        both_ways: bool,
        luck: float = LUCK,
    ) -> "Candidates":
        """All pairs of thresholds at some ranks of the scores of the trials that choose."""
        cuts = _cuts(scores)
        order = np.sort(scores[worlds == 1]), np.sort(scores[worlds == 0])
        above = [np.append(side.size - np.searchsorted(side, cuts), 0) for side in order]
        below = [np.append(np.searchsorted(side, cuts), 0) for side in order]
        low, high = np.append(cuts, -np.inf), np.append(cuts, np.inf)
        i, j = np.nonzero((low[:, None] <= high) & ~(np.isinf(low)[:, None] & np.isinf(high)))
        one, other = above[0][j] + below[1][i], above[1][j] + below[0][i]
        plain = (low[i], high[j], np.zeros(i.size, bool), one, other)
        reverse = (low[i], high[j], np.ones(i.size, bool), other, one)
        ways = (plain, reverse) if both_ways else (plain,)
        columns = [np.concatenate(parts) for parts in zip(*ways, strict=True)]
        growth = n_counted / max(scores.size, 1)
        return cls(*columns, n=scores.size, growth=growth, luck=luck)

    def __len__(self) -> int:
        return self.lows.size

    def rule(self, index: int) -> Rule:
        """The candidate rule of this number."""
        return Rule(float(self.lows[index]), float(self.highs[index]), bool(self.swapped[index]))

    @property
    def leak(self) -> FloatArray:
        """Delta times this is the chance of a right guess beyond the odds."""
        return 1 - (np.isinf(self.lows) | np.isinf(self.highs)) / 2

    def right_lower(self, alpha: float) -> FloatArray:
        """The predicted lower limit on the chance that a guess is right."""
        made = self.correct + self.wrong
        # Few wrong guesses may be luck: 8 to 0, scaled up by 100, is not 800 to 0.
        wrong = self.wrong + (self.wrong < 10)
        z = -float(special.ndtri(alpha)) / math.sqrt(self.growth) + self.luck
        with np.errstate(divide="ignore", invalid="ignore"):
            center = np.log(self.correct) - np.log(wrong)
            log_odds = center - z * np.sqrt(1 / self.correct + 1 / wrong)
        return np.where((made > 0) & (self.correct > 0), special.expit(log_odds), 0.0)

    def best_at(self, delta: float, alpha: float) -> Rule:
        """The rule with the largest predicted bound on epsilon(delta)."""
        right = self.right_lower(alpha)
        share = np.maximum(self.correct + self.wrong, 1) / self.n
        odds = (right - self.leak * delta / share) / np.maximum(1 - right, 1e-300)
        return self.rule(int(np.argmax(odds)))

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


def choose_among(
    worlds: FloatArray, scores: FloatArray, first: int, end: int, both_ways: bool
) -> tuple[Candidates, FloatArray]:
    """The rules to choose from for a count of the trials from ``first`` on, and their scores.

    A discrete score is put into the order of what its values say. Order and rules are fixed by the
    trials before ``first`` alone, the order by the first half of these, which then do not choose.
    """
    ordering = int(_ORDERING * first)
    levels = Levels.of(worlds[:ordering], scores[:ordering]) if ordering else None
    if levels is None:
        return Candidates.of(worlds[:first], scores[:first], end - first, both_ways), scores
    scores, choosing = levels(scores), slice(ordering, first)
    found = Candidates.of(
        worlds[choosing], scores[choosing], end - first, both_ways, _LUCK_OF_LEVELS
    )
    return found, scores


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
