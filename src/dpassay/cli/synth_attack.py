"""``dpassay synth --attack``: the table is attacked before it is written.

With a holdout the table itself is attacked. Without one it is a rehearsal: every record of the true
table is put in by a fair coin, the same synthesizer is fitted on those that are in, and the table
that it would release is attacked. The coins make guesses about members a lower bound on epsilon.
The table that goes out is fitted on all records. Nothing is charged for the rehearsal: none of it
is released, its rates are for the owner alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpassay.cli.attack_table import attack_released, read_csv
from dpassay.errors import InvalidArgument

LEAST = 200  # records for a rehearsal: a quarter of them are tested on either side
REHEARSED = (
    "A rehearsal was attacked: the same synthesizer, on the domain of this table, fitted on a half "
    "of the records that fair coins chose."
)


def attack_before_release(
    fitted: Any,
    drawn: Any,
    true: Any,
    holdout: Path | None,
    refit: Callable[[Any, int], Any],
    confidence: float = 0.95,
) -> dict[str, Any]:
    """What attacks find of the table that is about to go out, or of a rehearsal.

    Args:
        fitted: the synthesizer, fitted on the true table.
        drawn: what is to be written.
        true: the true table.
        holdout: a file with records that were not used; None for a rehearsal.
        refit: fits a part of the true table with this public number of records.
        confidence: of all that is said together.

    """
    how: dict[str, Any] = {"risks": True, "secrets": None, "confidence": confidence, "seed": 0}
    delta = fitted.budget_.delta
    if holdout is not None:
        tables = drawn, _keep_columns(true, fitted), read_csv("holdout", holdout)
        found = attack_released(*tables, claim=fitted.privacy_, delta=delta, **how)
        return found | {"rehearsal": False}
    if len(true) < LEAST:
        raise InvalidArgument(
            f"--attack: the table has {len(true)} records, too few for a rehearsal, which needs "
            f"{LEAST}. Pass --holdout, a file with records that were not used."
        )
    coins = np.random.default_rng().integers(0, 2, len(true)) == 1
    inside, outside = (
        _keep_columns(true[c].reset_index(drop=True), fitted) for c in (coins, ~coins)
    )
    # The public number of records must not tell how the coins fell.
    rehearsed = refit(inside, max(len(true) // 2, 1))
    released = rehearsed.sample(len(inside))
    found = attack_released(
        released,
        inside,
        outside,
        claim=rehearsed.privacy_,
        membership="randomised",
        delta=delta,
        **how,
    )
    return found | {"rehearsal": True}


def _keep_columns(true: Any, fitted: Any) -> Any:
    """The columns that the model is of."""
    return true[[name for name in fitted.schema.names if name in true.columns]]
