"""Which region of outputs to count: the score, its tail and its threshold.

The region is chosen on draws that do not count, for the number of draws that will. A smaller region
has a larger ratio of its two probabilities and fewer draws in it; the best one moves outwards as
draws grow. The largest ratio seen would pick ten lucky counts: so thresholds are proposed on one
half at several degrees of caution, and judged on the other half.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.attacks.regions.scores import BOOSTING, Fit, Score, Single
from dpassay.attacks.regions.views import Draws
from dpassay.types import FloatArray

_CAUTIONS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
_SCREENING = 3.0  # standard errors off, when scores are compared before thresholds are
_KEPT = 3  # scores kept by their bound, and as many by how well they separate
_LUCK = 2.0  # standard errors off the prediction, for having chosen
_FEW = 10
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


@dataclass(frozen=True)
class _Tails:
    """Counts of both worlds in every tail of a score: thresholds, then counts by (side, world)."""

    thresholds: FloatArray
    above: FloatArray  # rows: world 0, world 1; counts at and above each threshold
    below: FloatArray

    @staticmethod
    def of(scores: FloatArray, worlds: Any) -> "_Tails":
        order = np.argsort(scores, kind="stable")
        ranked, ones = scores[order], worlds[order]
        starts = np.flatnonzero(np.diff(ranked, prepend=np.nan) != 0)
        running = np.concatenate([[0], np.cumsum(ones)])
        below_one = running[starts]
        below = np.stack([starts - below_one, below_one]).astype(float)
        total = np.array([[len(ones) - running[-1]], [running[-1]]], float)
        return _Tails(ranked[starts], total - below, below)

    def sides(self) -> Iterable[tuple[bool, FloatArray]]:
        yield True, self.above
        yield False, self.below


def log_ratio(more: FloatArray, fewer: FloatArray, caution: float) -> FloatArray:
    """log(more/fewer) less so many standard errors; nothing where a side is not seen."""
    safe = np.maximum(fewer, 0) + (fewer < _FEW)  # eight against none is not infinitely much
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(more / safe) - caution * np.sqrt(1 / more + 1 / safe)
    return np.where(more > 0, value, -np.inf)


def _proposals(tails: _Tails) -> set[tuple[bool, int, float]]:
    """Side, world and threshold of the best region at each degree of caution."""
    found = set()
    for above, counts in tails.sides():
        for world in (0, 1):
            for caution in _CAUTIONS:
                values = log_ratio(counts[world], counts[1 - world], caution)
                best = int(values.argmax())
                if np.isfinite(values[best]):
                    found.add((above, world, float(tails.thresholds[best])))
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

    def relearn(self, draws: Draws, worlds: Any) -> "Candidate":
        """The same kind, learned from these draws."""
        return Candidate(self.name, self.fit, self.fit(draws, worlds) or self.score)


def learn_all(kinds: Iterable[tuple[str, Fit]], draws: Draws, worlds: Any) -> list[Candidate]:
    """Every kind that fits outputs like these, learned from them."""
    learned = ((name, fit, fit(draws, worlds)) for name, fit in kinds)
    return [Candidate(name, fit, score) for name, fit, score in learned if score is not None]


def shortlist(found: Iterable[Candidate], draws: Draws, worlds: Any) -> list[Candidate]:
    """The candidates with the best cautious ratios and those that separate best.

    Ratios of weak signals are noise at this size, areas are not: hence both. Trees must separate
    better by more than chance: in the tails, where the count will be, they have seen little.
    """
    chance = 1 / np.sqrt(3 * max(len(worlds), 1))  # a standard error of the area, about
    screened: list[tuple[float, float, Candidate]] = []
    for candidate in found:
        ratio, area = _screen(_clean(candidate.score(draws)), worlds)
        flexible = candidate.name == BOOSTING
        screened.append((-ratio, -(area - chance if flexible else area), candidate))
    by_ratio = sorted(screened, key=lambda item: item[0])[:_KEPT]
    by_area = sorted(screened, key=lambda item: item[1])[:_KEPT]
    return list({one.name: one for _, _, one in [*by_ratio, *by_area]}.values())


@dataclass(frozen=True)
class Forecast:
    """What a final count would show: ``bound(more, fewer)`` of counts scaled to its size.

    Attributes:
        draws: of the final count, both worlds together.
        bound: the lower limit that the audit will use, of two counts.

    """

    draws: int
    bound: Any

    def __call__(self, more: float, fewer: float, seen: int) -> float:
        """The predicted limit, less what choosing among many regions flatters."""
        if more <= 0:
            return -np.inf
        fewer = fewer + (fewer < _FEW)
        scale = self.draws / max(seen, 1)
        luck = _LUCK * np.sqrt(1 / more + 1 / max(fewer, 1))
        return float(self.bound(scale * more, scale * fewer)) - luck


def choose_region(
    found: Iterable[Candidate],
    proposing: tuple[Draws, Any],
    judging: tuple[Draws, Any],
    forecast: Forecast,
) -> Region | None:
    """The region with the best forecast.

    Args:
        found: the candidates.
        proposing: outputs and worlds on which thresholds are proposed.
        judging: others, on which the proposals are compared.
        forecast: what the final count would show.

    """
    best: Region | None = None
    as_they_are = sorted(found, key=lambda one: not isinstance(one.score, Single))
    for candidate in as_they_are:
        name, score = candidate.name, candidate.score
        tails = _Tails.of(_clean(score(proposing[0])), proposing[1])
        values, worlds = _clean(score(judging[0])), judging[1]
        for above, world, threshold in _proposals(tails):
            inside = values >= threshold if above else values < threshold
            more = float((inside & (worlds == world)).sum())
            fewer = float((inside & (worlds != world)).sum())
            value = forecast(more, fewer, len(worlds))
            if best is None or value > _needed(best, score, judging[0].width):
                best = Region(score, judging[0].flags, name, threshold, above, world, value)
    return best


def _needed(best: Region, score: Score, width: int) -> float:
    """What a region by this score must promise to take the place of the best so far."""
    if not isinstance(best.score, Single) or isinstance(score, Single):
        return best.predicted
    more = _MORE_OF_ONE if width == 1 else _MORE
    return max(best.predicted, more * best.predicted)
