"""From many draws of both worlds: the region of outputs that tells them apart.

Where outputs are cheap, an attack is a set of outputs that is more probable in one world than in
the other. It is learned on some draws, chosen on others, and counted once on fresh ones; so the
count is as good as if the region had been given (see :mod:`dpassay.bounds`).
"""

from typing import Any

from dpassay.attacks.regions.choice import Forecast, Region, choose_region, shortlist
from dpassay.attacks.regions.scores import candidates
from dpassay.attacks.regions.views import Draws, flags_of
from dpassay.types import FloatArray

__all__ = ["Forecast", "Region", "learn_region"]

_SHARES = 0.4, 0.6, 0.8  # learn, screen, propose, judge


def learn_region(
    rows: FloatArray, worlds: Any, forecast: Forecast, *, boosting: bool = True
) -> Region | None:
    """The region that promises most of a final count, or None if there is nothing to see.

    Args:
        rows: outputs as rows of numbers; two fifths learn scores, a fifth each screens them,
            proposes thresholds and chooses.
        worlds: 1 or 0 for each, drawn by coins.
        forecast: what the final count will be able to show.
        boosting: whether trees are tried too.

    """
    cuts = [int(share * len(rows)) for share in _SHARES]
    flags = flags_of(rows)
    learn, screen, propose, judge = (
        (Draws(rows[a:b], flags), worlds[a:b])
        for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)
    )
    if not 0 < learn[1].sum() < len(learn[1]):
        return None
    scored = shortlist(candidates(*learn, boosting=boosting), *screen)
    return choose_region(scored, propose, judge, forecast)
