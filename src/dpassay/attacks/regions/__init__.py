"""From many draws of both worlds: the region of outputs that tells them apart.

Where outputs are cheap, an attack is a set of outputs that is more probable in one world than in
the other. Scores are learned on some draws, and score, tail and threshold chosen on others; what
is counted afterwards, on fresh draws, is as good as if the region had been given.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpassay.attacks.distinguisher import Distinguisher
from dpassay.attacks.regions.bins import Additive
from dpassay.attacks.regions.choice import (
    Forecast,
    Region,
    add_finer,
    choose_region,
    learn_all,
    shortlist,
)
from dpassay.attacks.regions.scores import Fit, Score, families, fit_table, has_few_outputs
from dpassay.attacks.regions.views import Draws, flags_of
from dpassay.types import FloatArray

__all__ = ["Forecast", "Region", "learn_from_many", "learn_region"]

# All kinds of scores are learned from so many draws, and those that are worth it from all.
_FIRST_LOOK = 100_000


def learn_region(
    rows: FloatArray, worlds: Any, forecast: Forecast, *, boosting: bool = True
) -> Region | None:
    """The region that promises most of a final count, or None if there is nothing to see.

    Args:
        rows: outputs as rows of numbers; either half judges what the other has taught.
        worlds: 1 or 0 for each, drawn by coins.
        forecast: what the final count will be able to show.
        boosting: whether trees are tried too.

    """
    draws, half = Draws(rows, flags_of(rows)), len(rows) // 2
    folds = (draws.part(0, half), worlds[:half]), (draws.part(half, len(rows)), worlds[half:])
    few = [(some.first(_FIRST_LOOK), coins[:_FIRST_LOOK]) for some, coins in folds]
    if not all(0 < coins.sum() < len(coins) for _, coins in few):
        return None
    learned = learn_all(_kinds(draws, forecast, few[0][0], boosting), *few[0])
    found = shortlist(learned, *few[1])
    if half > _FIRST_LOOK:
        found = add_finer(found, learned)
        found = [replace(one, score=one.relearn(*folds[0])) for one in found]
    choice = choose_region(found, folds, forecast)
    return None if choice is None else choice.learn(draws, worlds)


def _kinds(
    draws: Draws, forecast: Forecast, some: Draws, boosting: bool
) -> Iterable[tuple[str, Fit]]:
    """The kinds of scores to learn.

    Where the count will order the outputs by itself, a score need only tell them apart, as their
    table does: one that takes two outputs together may promise as much by chance, and the count
    cannot part them again.
    """
    if draws.width > 1 and has_few_outputs(draws, forecast.n_ordered):
        return [("table", fit_table)]
    return families(some, boosting)


@dataclass(frozen=True)
class _Oriented:
    """The score of a region, turned so that a higher one says world 1, and 0 at its border."""

    score: Score
    flags: FloatArray
    sign: float
    border: float

    def __call__(self, table: FloatArray) -> FloatArray:
        # The first column of a table of features is the number of entries: the same in all rows.
        scores = self.score(Draws(table[:, 1:], self.flags))
        return self.sign * (np.where(np.isnan(scores), -np.inf, scores) - self.border)


def learn_from_many(table: FloatArray, worlds: Any, forecast: Forecast) -> Distinguisher | None:
    """The score of the most promising region, as a distinguisher; None if there is none.

    The region's border is at 0.

    Args:
        table: features of outputs of one shape (:func:`dpassay.attacks.features`), a row each.
        worlds: 1 or 0 for each, drawn by coins.
        forecast: what the count on later draws will be able to show.

    """
    region = learn_region(table[:, 1:], worlds, forecast)
    if region is None:
        return None
    sign = 1.0 if region.above == (region.world == 1) else -1.0
    score = region.score
    score = score.compact() if isinstance(score, Additive) else score
    scorer = _Oriented(score, region.flags, sign, region.threshold)
    return Distinguisher(region.name, table.shape[1], scorer)
