"""Which region of outputs to count: the score, its tail and its threshold.

The region is chosen on draws that do not count, for the number of draws that will. A smaller region
has a larger ratio of its two probabilities and fewer draws in it; the best one moves outwards as
draws grow. The largest ratio seen would pick ten lucky counts. So the draws are two folds: what is
learned on one, thresholds at several degrees of caution included, is judged on the other, and the
other way round. No draw judges what it has taught, and all of them judge.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.attacks.regions.scores import BOOSTING, PATTERN, Fit, Score, Single
from dpassay.attacks.regions.views import Draws
from dpassay.types import FloatArray

_CAUTIONS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
_SCREENING = 3.0  # standard errors off, when scores are compared before thresholds are
_KEPT = 3  # scores kept by their bound, and as many by how well they separate, at least
_MOST_KEPT = 6  # of those that separate as well as the best, up to chance
_CHANCE = 2.0  # standard errors of an area within which scores separate equally well
_LUCK = 1.5  # standard errors off the prediction, for having chosen a threshold
_FEW = 10
_PER_TAIL = 1000  # thresholds looked at in one tail of a score, at most
# A learned score must promise so many times as much as a feature that is taken as it is: bins end
# somewhere, and the tails of a feature are still open when thresholds are chosen on more draws.
_MORE, _MORE_OF_ONE = 1.05, 1.25  # the latter where an output is one number


@dataclass(frozen=True)
class Region:
    """The outputs whose score is at least (or below) a threshold.

    Attributes:
        score: of outputs.
        flags: the values that are flags in these outputs.
        name: of the score.
        threshold: where it is cut.
        above: whether the region is at and above the threshold, else below it.
        world: the world in which the region is the more probable.
        predicted: the ratio's logarithm that is to be expected of the final count, after caution.

    """

    score: Score
    flags: FloatArray
    name: str
    threshold: float
    above: bool
    world: int
    predicted: float

    def contains(self, rows: FloatArray) -> FloatArray:
        """Which rows are in the region."""
        at_least = _clean(self.score(Draws(rows, self.flags))) >= self.threshold
        return at_least if self.above else ~at_least


def _clean(scores: FloatArray) -> FloatArray:
    return np.where(np.isnan(scores), -np.inf, scores)


@dataclass(frozen=True, eq=False)
class _Tails:
    """Counts of both worlds in the tails of a score.

    Attributes:
        ranked: the scores in ascending order.
        ones: how many of the first k of them are of world 1, for every k.
        starts: where the thresholds are that are looked at: the first of equal scores.

    """

    ranked: FloatArray
    ones: FloatArray
    starts: FloatArray

    @staticmethod
    def of(scores: FloatArray, worlds: Any) -> "_Tails":
        order = np.argsort(scores, kind="stable")
        ranked = scores[order]
        starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))  # -inf equals -inf
        return _Tails(ranked, np.concatenate([[0], np.cumsum(worlds[order])]), _thin(starts))

    @property
    def thresholds(self) -> FloatArray:
        return self.ranked[self.starts]

    @property
    def below(self) -> FloatArray:
        """Rows: world 0, world 1; counts below each threshold."""
        return self._below(self.starts)

    @property
    def above(self) -> FloatArray:
        """Counts at and above each threshold."""
        return self._below(np.array([self.ranked.size])) - self.below

    def _below(self, ends: FloatArray) -> FloatArray:
        return np.stack([ends - self.ones[ends], self.ones[ends]]).astype(float)

    def sides(self) -> Iterable[tuple[bool, FloatArray]]:
        yield True, self.above
        yield False, self.below

    def inside(self, above: bool, threshold: float) -> FloatArray:
        """How many of world 0 and of world 1 are in the region with this threshold."""
        ends = np.array([np.searchsorted(self.ranked, threshold), self.ranked.size])
        below, total = self._below(ends).T
        return total - below if above else below


def _thin(starts: FloatArray) -> FloatArray:
    """Some of many places, dense towards both ends: a threshold nearby does as well."""
    if starts.size <= 2 * _PER_TAIL:
        return starts
    steps = np.unique(np.geomspace(1, starts.size // 2, _PER_TAIL).astype(int)) - 1
    return starts[np.unique(np.concatenate([steps, starts.size - 1 - steps]))]


def log_ratio(more: FloatArray, fewer: FloatArray, caution: float) -> FloatArray:
    """log(more/fewer) less so many standard errors; nothing where a side is not seen."""
    safe = np.maximum(fewer, 0) + (fewer < _FEW)  # eight against none is not infinitely much
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(more / safe) - caution * np.sqrt(1 / more + 1 / safe)
    return np.where(more > 0, value, -np.inf)


_Kind = tuple[bool, int, float]  # of a region: side, world and degree of caution


def _propose(tails: _Tails) -> dict[_Kind, float]:
    """The threshold of the best region of each kind."""
    found: dict[_Kind, float] = {}
    for above, counts in tails.sides():
        for world in (0, 1):
            for caution in _CAUTIONS:
                values = log_ratio(counts[world], counts[1 - world], caution)
                best = int(values.argmax())
                if np.isfinite(values[best]):
                    found[above, world, caution] = float(tails.ranked[tails.starts[best]])
    return found


def _screen(scores: FloatArray, worlds: Any) -> tuple[float, float]:
    """The best cautious log ratio of a score, and how far its ROC area is from a coin's."""
    tails = _Tails.of(scores, worlds)
    best = max(
        float(log_ratio(counts[world], counts[1 - world], _SCREENING).max())
        for _, counts in tails.sides()
        for world in (0, 1)
    )
    ones, zeros = np.diff(tails.above, append=0.0)[::-1] * -1
    between = tails.below[0] + zeros / 2
    total = ones.sum() * zeros.sum()
    area = (ones * between).sum() / total if total else 0.5
    return best, abs(area - 0.5)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kind of score, with one that was learned: ``fit`` learns another from more draws."""

    name: str
    fit: Fit
    score: Score

    def relearn(self, draws: Draws, worlds: Any) -> Score:
        """A score of the same kind, learned from these draws."""
        return self.fit(draws, worlds) or self.score


Fold = tuple[Draws, Any]  # outputs and their worlds


def learn_all(kinds: Iterable[tuple[str, Fit]], draws: Draws, worlds: Any) -> list[Candidate]:
    """Every kind that fits outputs like these, learned from them."""
    learned = ((name, fit, fit(draws, worlds)) for name, fit in kinds)
    return [Candidate(name, fit, score) for name, fit, score in learned if score is not None]


def shortlist(found: Iterable[Candidate], draws: Draws, worlds: Any) -> list[Candidate]:
    """The candidates with the best cautious ratios and those that separate best.

    Ratios of weak signals are noise at this size, areas less so: hence both, and of areas that
    differ by no more than chance a few more. Trees are among them only if they separate better
    than all others by more than chance: in the tails, where the count will be, they have seen
    little.
    """
    chance = _CHANCE / np.sqrt(3 * max(len(worlds), 1))  # standard errors of an area, about
    screened = [(one, *_screen(_clean(one.score(draws)), worlds)) for one in found]
    plain = max((area for one, _, area in screened if one.name != BOOSTING), default=0.0)
    kept = [item for item in screened if item[0].name != BOOSTING or item[2] > plain + chance]
    kept = list({item[1:]: item for item in reversed(kept)}.values())  # one of equal scores
    by_ratio = sorted(kept, key=lambda item: -item[1])[:_KEPT]
    by_area = sorted(kept, key=lambda item: -item[2])[:_MOST_KEPT]
    least = by_area[0][2] - chance if by_area else 0.0
    by_area = [item for i, item in enumerate(by_area) if i < _KEPT or item[2] >= least]
    return list({one.name: one for one, _, _ in [*by_ratio, *by_area]}.values())


def add_finer(found: list[Candidate], learned: Iterable[Candidate]) -> list[Candidate]:
    """The candidates, and what more draws may make better than these: finer bins, patterns."""
    names = {one.name for one in found}
    finer = {re.sub("coarse bins|halves", "fine bins", name) for name in names} | {PATTERN}
    return [*found, *(one for one in learned if one.name in finer - names)]


@dataclass(frozen=True)
class Forecast:
    """What a final count would show: ``bound(more, fewer)`` of counts scaled to its size.

    Attributes:
        draws: of the final count, both worlds together.
        bound: the lower limit that the audit will use, of two counts.
        n_ordered: the count itself puts up to so many values of a score into the order of what
            they say, by more draws than a score is learned from.

    """

    draws: int
    bound: Any
    n_ordered: int = 0

    def __call__(self, more: float, fewer: float, seen: int, luck: float = _LUCK) -> float:
        """The predicted limit, less what choosing flatters: so many standard errors."""
        if more <= 0:
            return -np.inf
        fewer = fewer + (fewer < _FEW)
        scale = self.draws / max(seen, 1)
        error = np.sqrt(1 / more + 1 / max(fewer, 1))
        return float(self.bound(scale * more, scale * fewer)) - luck * error


@dataclass(frozen=True, eq=False)
class Choice:
    """A kind of score and a kind of region, before they are learned from all draws.

    Attributes:
        candidate: the kind of score.
        above: whether the region is the upper tail of the score.
        world: the world in which it is the more probable.
        share: of the draws that are in it.
        predicted: what the final count is predicted to show.

    """

    candidate: Candidate
    above: bool
    world: int
    share: float
    predicted: float

    def learn(self, draws: Draws, worlds: Any) -> Region:
        """The region of this kind, learned from these draws: as large as it was when judged."""
        score = self.candidate.relearn(draws, worlds)
        share = 1 - self.share if self.above else self.share
        cut = _cut_at(np.sort(_clean(score(draws))), share)
        name = self.candidate.name
        return Region(score, draws.flags, name, cut, self.above, self.world, self.predicted)


def _cut_at(ordered: FloatArray, share: float) -> float:
    """A number between two distinct scores, with about this share of the scores below it."""
    at = int(np.clip(round(share * ordered.size), 1, ordered.size - 1))
    left, right = (int(np.searchsorted(ordered, ordered[at], side)) for side in ("left", "right"))
    at = right if right < ordered.size and (left == 0 or right - at < at - left) else left
    low, high = float(ordered[at - 1]), float(ordered[at])
    middle = low / 2 + high / 2
    return middle if low < middle < high else high


def choose_region(
    found: Iterable[Candidate], folds: tuple[Fold, Fold], forecast: Forecast
) -> Choice | None:
    """The kind of score and region with the best forecast; None if all are empty.

    Args:
        found: the candidates, learned from the first fold.
        folds: outputs and worlds; each fold judges what the other has taught.
        forecast: what the final count would show.

    """
    ordered = sorted(found, key=lambda one: not isinstance(one.score, Single))
    luck, best = _luck_of(len(ordered)), None
    for candidate in ordered:
        scores = candidate.relearn(*folds[1]), candidate.score
        tails = [
            _Tails.of(_clean(score(draws)), worlds)
            for score, (draws, worlds) in zip(scores, folds, strict=True)
        ]
        for choice in _choices(candidate, tails, forecast, luck):
            if best is None or choice.predicted > _least_needed(best, candidate, folds[0][0].width):
                best = choice
    return best


def _luck_of(candidates: int) -> float:
    """Standard errors by which the best of so many is lucky.

    The largest of n standard normal numbers is sqrt(2 log n) at most, on average.
    """
    return max(_LUCK, float(np.sqrt(2 * np.log(max(candidates, 1)))))


def _choices(
    candidate: Candidate, tails: list[_Tails], forecast: Forecast, luck: float
) -> Iterable[Choice]:
    """Every kind of region, with thresholds from one fold counted on the other."""
    proposed = [_propose(one) for one in tails]
    seen = sum(one.ranked.size for one in tails)
    for kind in sorted(proposed[0].keys() & proposed[1].keys()):
        above, world, _ = kind
        first = tails[0].inside(above, proposed[1][kind])
        counts = first + tails[1].inside(above, proposed[0][kind])
        value = forecast(counts[world], counts[1 - world], seen, luck)
        yield Choice(candidate, above, world, float(counts.sum()) / seen, value)


def _least_needed(best: Choice, candidate: Candidate, width: int) -> float:
    """What a region by this score must promise to take the place of the best so far."""
    if not isinstance(best.candidate.score, Single) or isinstance(candidate.score, Single):
        return best.predicted
    more = _MORE_OF_ONE if width == 1 else _MORE
    return max(best.predicted, more * best.predicted)
