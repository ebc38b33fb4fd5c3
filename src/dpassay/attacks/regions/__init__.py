"""From many draws of both worlds: the region of outputs that tells them apart.

Where outputs are cheap, an attack is a set of outputs that is more probable in one world than in
the other. Scores are learned on some draws, and score, tail and threshold chosen on others; what
is counted afterwards, on fresh draws, is as good as if the region had been given.
"""

import itertools
from dataclasses import dataclass
from typing import Any

from dpassay.attacks.distinguisher import Distinguisher
from dpassay.attacks.regions.bins import Additive
from dpassay.attacks.regions.choice import (
    Forecast,
    Region,
    choose_region,
    learn_all,
    shortlist,
)
from dpassay.attacks.regions.scores import Score, families
from dpassay.attacks.regions.views import Draws, flags_of
from dpassay.types import FloatArray

__all__ = ["Forecast", "Region", "learn_from_many", "learn_region"]

# Of the draws: to screen candidates, to propose thresholds and to judge them; the rest learns.
_SCREENING, _CHOOSING = 0.2, 0.15
_MOST_SCREENING = 100_000
# All kinds of scores are learned from so many draws, and those that are worth it from all.
_FIRST_LOOK = 100_000


def learn_region(
    rows: FloatArray, worlds: Any, forecast: Forecast, *, boosting: bool = True
) -> Region | None:
    """The region that promises most of a final count, or None if there is nothing to see.

    Args:
        rows: outputs as rows of numbers; about half of them learn scores, some screen them, the
            rest proposes thresholds and chooses.
        worlds: 1 or 0 for each, drawn by coins.
        forecast: what the final count will be able to show.
        boosting: whether trees are tried too.

    """
    flags = flags_of(rows)
    learn, screen, propose, judge = (
        (Draws(rows[a:b], flags), worlds[a:b]) for a, b in itertools.pairwise(_ends(len(rows)))
    )
    few = learn[0].first(_FIRST_LOOK), learn[1][:_FIRST_LOOK]
    if not 0 < few[1].sum() < len(few[1]):
        return None
    found = shortlist(learn_all(families(few[0], boosting), *few), *screen)
    if len(learn[0]) > len(few[0]):
        found = [candidate.relearn(*learn) for candidate in found]
    return choose_region(found, propose, judge, forecast)


def _ends(n: int) -> list[int]:
    """Where learning, screening and proposing end; what is left judges."""
    screening = min(int(_SCREENING * n), _MOST_SCREENING)
    choosing = int(_CHOOSING * n)
    learning = n - screening - 2 * choosing
    return [0, learning, learning + screening, learning + screening + choosing, n]


@dataclass(frozen=True)
class _Oriented:
    """The score of a region, turned so that a higher one says world 1."""

    score: Score
    flags: FloatArray
    sign: float

    def __call__(self, table: FloatArray) -> FloatArray:
        # The first column of a table of features is the number of entries: the same in all rows.
        return self.sign * self.score(Draws(table[:, 1:], self.flags))


def learn_from_many(table: FloatArray, worlds: Any, forecast: Forecast) -> Distinguisher | None:
    """The score of the most promising region, as a distinguisher; None if there is none.

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
    scorer = _Oriented(score, region.flags, sign)
    return Distinguisher(region.name, table.shape[1], scorer)
