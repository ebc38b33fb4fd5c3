"""From many draws of both worlds: the region of outputs that tells them apart.

Where outputs are cheap, an attack is a set of outputs that is more probable in one world than in
the other. Scores are learned on some draws, and score, tail and threshold chosen on others; what
is counted afterwards, on fresh draws, is as good as if the region had been given.
"""

import itertools
from dataclasses import dataclass
from typing import Any

from dpassay.attacks.distinguisher import Distinguisher
from dpassay.attacks.regions.choice import Forecast, Region, choose_region, shortlist
from dpassay.attacks.regions.scores import Score, candidates
from dpassay.attacks.regions.views import Draws, flags_of
from dpassay.types import FloatArray

__all__ = ["Forecast", "Region", "learn_from_many", "learn_region"]

_SHARES = 0.5, 0.7, 0.85  # where learning, screening and proposing end; the rest judges


def learn_region(
    rows: FloatArray, worlds: Any, forecast: Forecast, *, boosting: bool = True
) -> Region | None:
    """The region that promises most of a final count, or None if there is nothing to see.

    Args:
        rows: outputs as rows of numbers; half of them learn scores, a fifth screens them, the rest
            proposes thresholds and chooses.
        worlds: 1 or 0 for each, drawn by coins.
        forecast: what the final count will be able to show.
        boosting: whether trees are tried too.

    """
    flags = flags_of(rows)
    ends = [0, *(int(share * len(rows)) for share in _SHARES), len(rows)]
    learn, screen, propose, judge = (
        (Draws(rows[a:b], flags), worlds[a:b]) for a, b in itertools.pairwise(ends)
    )
    if not 0 < learn[1].sum() < len(learn[1]):
        return None
    scored = shortlist(candidates(*learn, boosting=boosting), *screen)
    return choose_region(scored, propose, judge, forecast)


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
    scorer = _Oriented(region.score, region.flags, sign)
    return Distinguisher(region.name, table.shape[1], scorer)
