"""The weighted count of wrong guesses: all canaries count, the most certain ones most.

T = sum over k of w_k 1[the k-th most certain guess is wrong] with weights w_1 >= w_2 >= .. >= 0
that were fixed in advance. T = sum of (w_k - w_{k+1}) U_k rises with the walk of
:mod:`~dpassay.bounds.onerun.product`, so that its null law is that of the sorted walk. Twelve
groups of ranks have a weight each, in proportion to the abs(L) that is expected in the middle of
the group: the log-likelihood ratio of a guess.

*Its null law* is drawn, at a cost that does not depend on m. On [0, 1] by the share that is more
certain the canaries are uniform; those at the last ranks of the groups are order statistics, made
from gamma variables; between two of them, at a and b, the others are independent, each wrong with
probability (C(b) - C(a)) / (b - a), and the one at b with C'(b). p = (1 + #{T* <= T}) / (B + 1) is
the p-value of an exact test for every number B of draws: T and the T* are exchangeable at worst.

*A family is searched along a fixed path*, and the p-values on it are drawn. Let theta be the truth.
The path goes up from members that are refuted and down from others, so that, as long as no member
above theta is refuted, it is the same whatever was drawn: the bound exceeds theta only if one of at
most n members, fixed in advance, is refuted that should not be. Their true p-values are all at
least p, that of theta itself, which is uniform or larger. A member is refuted where at most c of B
draws are as small as T, so that the chance of an error is at most

    integral over p of min(1, n G(p)),   G(p) = P(Bin(B, p) <= c) = P(X > p),  X ~ Beta(c+1, B-c)
    = p* + n E (X - p*)^+ = n (c+1)/(B+1) P(Beta(c+2, B-c) > p*),       n G(p*) = 1.

``afford`` finds c. A first look with a tenth of the draws decides clear cases: against a member
only where so few are as small as T that this adds a thousandth of the level.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpassay._special.margins import NUMERICAL
from dpassay._special.quantiles import beta_upper, beta_upper_tail
from dpassay._special.search import last_true
from dpassay.bounds.onerun.certainty import Certainty
from dpassay.bounds.onerun.product import Member, bracket
from dpassay.bounds.onerun.ranking import IntArray
from dpassay.types import FloatArray

SHARES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0)
_FINEST = 1000  # the largest weight: whole numbers add up without rounding
_HALVINGS = 9  # from a factor of two to one of 1.0014
# Members at or above the truth that are looked at, at most: thirteen powers of two from 1 down, the
# nine halvings, and the claim, whose own test may raise the bound to it (`find_bound`).
_LOOKS = 24
_FIRST = 0.1  # of all draws: the first look
_FIRST_PRICE = 1e-3  # of the level


def cut_ranks(canaries: int) -> IntArray:
    """The last rank of each group, rising to the number of canaries; fewer groups for few."""
    ranks = np.round(np.array(SHARES) * canaries).astype(np.int64)
    return np.unique(np.maximum(ranks, 1))


def weigh(certainty: Certainty, cuts: IntArray) -> IntArray:
    """Whole weights, not rising: |L| in the middle of each group, in units of the largest."""
    middle = (cuts + np.append(0, cuts[:-1])) / (2 * cuts[-1])
    loss = certainty.loss_at(middle)
    if not loss[0] > 0:
        return np.ones(cuts.size, np.int64)
    weights = np.asarray(np.round(_FINEST * loss / loss[0]), np.int64)
    return np.minimum.accumulate(weights)


def draws_for(level: float) -> int:
    """How many draws: 19 999, or 50 in the lower tail if that is more."""
    return max(20_000, math.ceil(50 / level)) - 1


@dataclass(frozen=True)
class WeightedCount:
    """A weighted count of wrong guesses, and what is needed to judge it.

    Attributes:
        cuts: the last rank of each group.
        weights: of each group.
        seen: T, the weighted count.
        seed: of the draws from the null law, the same for every member of a family.
        draws: how many.

    """

    cuts: IntArray
    weights: IntArray
    seen: int
    seed: int
    draws: int

    def p_value(self, certainty: Certainty, *, searched: bool = False) -> float:
        """The p-value of an exact test: at most any level with at most that chance; never 0.

        If a family is ``searched`` too, of which this is a member, the smallest level at which
        the search can afford to refute it: then test and bound are one statement.
        """
        seen = self._as_small(certainty, self.draws)
        return price(seen, self.draws) if searched else (1 + seen) / (self.draws + 1)

    def largest_refuted(self, member: Member, level: float, most: float) -> float:
        """The largest member of a family that is refuted, from below; 0 if none is."""

        def is_refuted(theta: float) -> bool:
            return self._refutes(member(theta), level)

        low, high = bracket(is_refuted, most)
        if low == 0 or low == high:
            return low
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if is_refuted(middle) else (low, middle)
        return low

    def _refutes(self, certainty: Certainty, level: float) -> bool:
        """Whether so few draws are as small as T that the search can afford to believe it."""
        first = int(_FIRST * self.draws)
        most, most_first = afford(level, self.draws, first)
        seen, expected = self._as_small(certainty, first), first * level
        if seen <= most_first:
            return True
        if seen > expected + 8 * math.sqrt(expected) + 8:
            return False  # no full look would refute it, but for a chance of 1e-9
        return self._as_small(certainty, self.draws) <= most

    def _as_small(self, certainty: Certainty, draws: int) -> int:
        places, rng = _places(self.cuts.tobytes(), self.seed, draws)
        errors = draw_errors(certainty, self.cuts, places, np.random.default_rng(rng))
        return int(np.count_nonzero(errors @ self.weights <= self.seen))


@functools.lru_cache(maxsize=4)
def _places(cuts: bytes, seed: int, draws: int) -> tuple[FloatArray, np.random.SeedSequence]:
    """The places of the last of each group, one row per draw, and what the errors are drawn by."""
    places, errors = np.random.SeedSequence([seed, draws]).spawn(2)
    ranks = np.frombuffer(cuts, np.int64)
    return draw_places(ranks, draws, np.random.default_rng(places)), errors


def draw_places(cuts: IntArray, draws: int, rng: np.random.Generator) -> FloatArray:
    """Order statistics of as many uniforms as there are canaries, at all cuts but the last."""
    shapes = np.append(np.diff(cuts[:-1], prepend=0), cuts[-1] + 1 - np.append(0, cuts[:-1])[-1])
    gaps = rng.standard_gamma(shapes, size=(draws, shapes.size))
    sums = np.cumsum(gaps, axis=1)
    return sums[:, :-1] / sums[:, -1:]


def draw_errors(
    certainty: Certainty, cuts: IntArray, places: FloatArray, rng: np.random.Generator
) -> IntArray:
    """Wrong guesses of the sorted walk in each group, one row per place."""
    draws = len(places)
    ends = np.hstack([np.zeros((draws, 1)), places, np.ones((draws, 1))])
    mass, rates = certainty.errors_and_rates(ends)
    between = np.diff(mass, axis=1) / np.diff(ends, axis=1)
    sizes = np.diff(cuts, prepend=0)
    sizes[:-1] -= 1  # the last of a group but the last has a place of its own
    # A little fewer errors than the formula says: rounding must favour the claim.
    errors = rng.binomial(sizes, np.clip(between * (1 - NUMERICAL), 0.0, 0.5))
    errors[:, :-1] += rng.random(places.shape) < rates[:, 1:-1]
    return errors


def price(most: float, draws: int) -> float:
    """The level that a search needs which refutes where so many draws are as small as T."""
    if most >= draws:
        return 1.0
    return min(_excess(most, draws, _place(most, draws)) / (1 - _FIRST_PRICE), 1.0)


def _excess(most: float, draws: int, place: float) -> float:
    """The looks times E[X; X > place], X ~ Beta(most + 1, draws - most)."""
    return _LOOKS * (most + 1) / (draws + 1) * float(beta_upper_tail(most + 2, draws - most, place))


def _place(most: float, draws: int) -> float:
    """p* of the head of this module."""
    return float(beta_upper(most + 1, draws - most, 1 / _LOOKS))


@functools.lru_cache(maxsize=64)
def afford(level: float, draws: int, first: int) -> tuple[int, int]:
    """How many draws may be as small as T in a refuted member: of all, and of the first look."""
    most = _largest(lambda c: price(c, draws) <= level, draws)
    least_p = _place(most, draws) if most >= 0 else 0.0
    return most, _largest(lambda c: _excess(c, first, least_p) <= _FIRST_PRICE * level, first)


def _largest(condition: Callable[[float], bool], high: int) -> int:
    """The largest whole number below ``high`` at which the condition holds, -1 if none is."""
    return int(last_true(lambda c: c < 0 or condition(float(c)), -1.0, high - 1.0, whole=True))
