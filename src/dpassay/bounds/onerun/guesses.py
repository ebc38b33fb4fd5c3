"""How many guesses to make, and how the choice is paid for.

A *rule* takes the audit and a method's bound and returns what was found. All of them are valid:

- fixed: the numbers were given;
- split: chosen on part of the canaries, tested once on the others. Given the coins of the first
  part, the map from the other coins to the output is as private as before, so m is the number of
  canaries in the tested part. The choice depends on the output, for which
  :class:`~dpassay.bounds.onerun.pvalues.Chosen` pays;
- grid: powers of two, the level shared equally among them; bonferroni: all numbers likewise;
- uniform: the largest bound of all looks, calibrated exactly (:mod:`~dpassay.bounds.onerun.walk`);
- automatic: uniform; where m delta is large, the better of it and a fixed number, at shares of the
  level.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpassay.bounds.onerun import eprocess, walk
from dpassay.bounds.onerun.pvalues import pure_epsilon
from dpassay.bounds.onerun.ranking import IntArray, Ranking, rank
from dpassay.types import FloatArray

Sides = Literal["both", "top", "bottom"]
"""Which guesses are made: that the highest scores are in, that the lowest are out, or both."""
GuessRule = Literal["auto", "uniform", "split", "grid", "bonferroni"]
"""How the number of guesses is chosen; see :func:`dpassay.one_run`."""
Guesses = GuessRule | int | tuple[int, int]
SIDES: dict[Sides, tuple[int, int]] = {"both": (1, 1), "top": (1, 0), "bottom": (0, 1)}
SPLIT = 0.3  # the share of canaries on which the number of guesses is chosen
_UNIFORM_LEAK = 6.0  # levels that m delta may be worth in the uniform rule: 0.3 at 95 %
_LEAST_GUESSES, _FEW = 300, 0.003  # of the automatic rule where it is worth more
_FIXED_SHARE = 0.8  # of the error probability, to a fixed number of guesses


@dataclass(frozen=True)
class Audit:
    """One run's scores and coins, and the question asked of them."""

    scores: FloatArray
    members: NDArray[np.bool_]
    delta: float
    level: float
    sides: Sides
    max_guesses: int
    rng: np.random.Generator
    chosen: bool = False

    @property
    def canaries(self) -> int:
        """The number of canaries whose coin decided whether they are in."""
        return self.scores.size

    @property
    def per_unit(self) -> int:
        """Guesses made at a time: one of each kind that is allowed."""
        return sum(SIDES[self.sides])

    @property
    def effective(self) -> float:
        """The number of canaries, or half of it if all guesses are of one kind."""
        return self.canaries * self.per_unit / 2

    @property
    def leak(self) -> float:
        """L: the most guesses that delta can give away."""
        return self.effective * self.delta

    @property
    def most_units(self) -> int:
        """The most units that canaries and ``max_guesses`` leave room for."""
        return min(self.canaries, self.max_guesses) // self.per_unit

    def part(self, index: IntArray) -> "Audit":
        """The same question about some of the canaries, the others' coins being revealed."""
        return replace(self, scores=self.scores[index], members=self.members[index])

    def candidates(self, units: IntArray) -> "Candidates":
        """A candidate for each of these numbers of units, split between the sides."""
        top, bottom = SIDES[self.sides]
        return Candidates(np.asarray(units) * top, np.asarray(units) * bottom)

    def rank(self, candidates: "Candidates") -> Ranking:
        """The ranking, right at the cuts of the candidates."""
        cuts = np.concatenate([candidates.top, self.canaries - candidates.bottom])
        return rank(self.scores, self.members, cuts.tolist(), self.rng)


@dataclass(frozen=True)
class Candidates:
    """How many of the highest scores each candidate guesses "in", and of the lowest "out"."""

    top: IntArray
    bottom: IntArray

    @property
    def guesses(self) -> IntArray:
        """The number of guesses of each candidate, "in" and "out" together."""
        return self.top + self.bottom


Bound = Callable[[Audit, IntArray, IntArray, float], tuple[float, int]]
"""(audit, guesses, correct, level) -> the largest epsilon and the candidate that gave it."""


@dataclass(frozen=True)
class Found:
    """What a rule found: the bound, the candidate behind it, and the most it could have been."""

    epsilon: float
    ceiling: float
    top: int
    bottom: int
    correct: int
    looks: int
    level: float
    audit: Audit
    selection: str


def _best(
    audit: Audit, candidates: Candidates, level: float, bound: Bound, selection: str
) -> Found:
    """The largest bound among the candidates, each at the level, beside that of perfect guesses."""
    if candidates.top.size == 0 or not np.any(candidates.guesses > 0):
        return Found(0.0, 0.0, 0, 0, 0, 0, level, audit, selection)
    ranking = audit.rank(candidates)
    correct = ranking.correct(candidates.top, candidates.bottom)
    epsilon, i = bound(audit, candidates.guesses, correct, level)
    ceiling, _ = bound(
        audit, candidates.guesses, ranking.perfect(candidates.top, candidates.bottom), level
    )
    at = int(candidates.top[i]), int(candidates.bottom[i]), int(correct[i])
    return Found(epsilon, ceiling, *at, candidates.top.size, level, audit, selection)


def fixed(audit: Audit, bound: Bound, top: int, bottom: int) -> Found:
    """The bound for these numbers of guesses."""
    side = "both" if top and bottom else ("top" if top else "bottom")
    candidates = Candidates(np.array([top]), np.array([bottom]))
    return _best(replace(audit, sides=side), candidates, audit.level, bound, "fixed in advance")


def grid(audit: Audit, bound: Bound) -> Found:
    """The largest bound over powers of two, and all there is room for, at equal shares."""
    units = 2 ** np.arange(max(audit.most_units, 1).bit_length())
    units = np.unique(np.append(units, audit.most_units))
    return _share(audit, bound, audit.candidates(units[(units > 0) & (units <= audit.most_units)]))


def bonferroni(audit: Audit, bound: Bound) -> Found:
    """The largest bound over every number of guesses, at equal shares."""
    return _share(audit, bound, audit.candidates(np.arange(1, audit.most_units + 1)))


def _share(audit: Audit, bound: Bound, candidates: Candidates) -> Found:
    n = max(candidates.top.size, 1)
    text = f"largest over {n} numbers of guesses, 1/{n} of the error probability to each"
    return _best(audit, candidates, audit.level / n, bound, text)


def automatic(audit: Audit, bound: Bound) -> Found:
    """Uniform while delta can give few guesses away; beyond that, beside it, a fixed number.

    Blocks of the uniform rule grow with (m delta / level)², so that with many canaries its first
    look takes in a large share of them, where guesses are poor: bounds would fall with m. Those of
    a fixed share do not, but so few guesses cannot show a large epsilon, which the uniform rule
    does. Hence both, at shares of the level. What is done depends on m, delta and the level alone.
    """
    few = audit.leak <= _UNIFORM_LEAK * audit.level and 4 * _block(audit) <= audit.most_units
    if few or audit.canaries < 10:
        return uniform(audit)
    every = uniform(audit, share=1 - _FIXED_SHARE)
    some = _few(audit, bound)
    best = max(some, every, key=lambda found: found.epsilon)
    text = f"the larger of {some.selection} and {every.selection}"
    return replace(
        best, ceiling=max(some.ceiling, every.ceiling), looks=1 + every.looks, selection=text
    )


def _few(audit: Audit, bound: Bound) -> Found:
    """The bound for three in a thousand canaries, or 300 of them, at most a fifth."""
    wanted = max(_LEAST_GUESSES, round(_FEW * audit.canaries))
    units = max(min(wanted, audit.canaries // 5, audit.max_guesses) // audit.per_unit, 1)
    text = f"{units * audit.per_unit} guesses ({_FIXED_SHARE:g} of the error probability)"
    level = _FIXED_SHARE * audit.level
    return _best(audit, audit.candidates(np.array([units])), level, bound, text)


def _block(audit: Audit) -> int:
    return walk.block_units(audit.leak, audit.level, audit.per_unit, audit.most_units)


def uniform(audit: Audit, bound: Bound | None = None, share: float = 1.0) -> Found:
    """The largest bound over all looks, calibrated exactly for all of them together.

    ``share`` of the error probability is spent. Blocks are those of the whole level.
    """
    unit = min(_block(audit), max(audit.most_units // 4, 1))
    block = unit * audit.per_unit

    def calibrate(audit: Audit, n: IntArray, v: IntArray, level: float) -> tuple[float, int]:
        return walk.calibrated_epsilon(n, v, level, audit.leak, block)

    looks = walk.looks(audit.most_units // unit) * unit
    text = f"largest over {looks.size} numbers of guesses, calibrated exactly for all of them"
    return _best(audit, audit.candidates(looks), share * audit.level, calibrate, text)


def betting(audit: Audit, bound: Bound | None = None) -> Found:
    """The wealth of bets on the most certain guesses first, watched all the time."""

    def wealth(audit: Audit, n: IntArray, v: IntArray, level: float) -> tuple[float, int]:
        return eprocess.betting_epsilon(n, v, level, audit.leak)

    candidates = audit.candidates(walk.looks(audit.most_units))
    return _best(
        audit, candidates, audit.level, wealth, "stopped when the wealth was largest (Ville)"
    )


def split(audit: Audit, bound: Bound) -> Found:
    """The bound on most canaries, for numbers of guesses chosen on the rest of them."""
    shuffled = audit.rng.permutation(audit.canaries)
    cut = round(SPLIT * audit.canaries)
    scout, tested = audit.part(shuffled[:cut]), replace(audit.part(shuffled[cut:]), chosen=True)
    text = f"chosen on {cut} of the canaries, tested once on the other {tested.canaries}"
    units, side = _scout(scout, bound)
    scaled = max(round(units * tested.canaries / max(cut, 1)), 1)
    # The output chose the kind of guess as well, so the leak stays that of both kinds.
    room = replace(tested, sides=side).most_units
    candidates = replace(tested, sides=side).candidates(np.array([min(scaled, room)]))
    found = _best(tested, candidates, audit.level, bound, text)
    every = tested.candidates(walk.looks(tested.most_units))
    ceiling = _best(tested, every, audit.level, bound, text).ceiling
    return replace(found, ceiling=max(found.ceiling, ceiling))


def _scout(audit: Audit, bound: Bound) -> tuple[int, str]:
    """The number of units and the kind of guess that look best on these canaries."""
    kinds = ["both", "top", "bottom"] if audit.sides == "both" else [audit.sides]
    best, choice = -np.inf, (1, audit.sides)
    for kind in kinds:
        side = replace(audit, sides=kind)
        units = walk.looks(side.most_units)
        if units.size == 0:
            continue
        candidates = side.candidates(units)
        correct = side.rank(candidates).correct(candidates.top, candidates.bottom)
        value, i = bound(side, candidates.guesses, correct, audit.level)
        if value == 0:  # nothing is refuted; take what came closest
            closest = pure_epsilon(candidates.guesses, correct, audit.level)
            i, value = int(np.argmax(closest)), min(float(np.max(closest)), 0.0)
        if value > best:
            best, choice = value, (int(units[i]), kind)
    return choice
