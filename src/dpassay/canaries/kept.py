"""The one training of a script in a log: what it showed is kept, so that nobody trains again."""

import json
from collections.abc import Sequence
from typing import Any, Final

from dpassay.auditing.claims import Claim
from dpassay.canaries.session import Asked, Showing
from dpassay.canaries.shown import Shown
from dpassay.canaries.texts import read_claim, write_claim
from dpassay.canaries.watch_verdict import Seen
from dpassay.runs import Outcomes, TrialLog

_KINDS: Final = {"records": Shown, "gradients": Seen}
Judged = tuple[Showing, Asked]


def keep(log: TrialLog, key: str, judged: Sequence[Judged]) -> None:
    """Write what was judged as the one trial of a run that was begun."""
    payload = json.dumps([_write(shown, asked) for shown, asked in judged]).encode()
    log.add(key, Outcomes.of([0], [0.0], payloads={0: payload}))


def recall(log: TrialLog, key: str, claim: Claim | None) -> list[Judged] | None:
    """What a log holds of a training; None if it was not finished.

    Where a claim is given, that of the script need not be one that can be read again.
    """
    payload = log.outcomes(key).payloads.get(0)
    return None if payload is None else [_read(part, claim) for part in json.loads(payload)]


def _write(shown: Showing, asked: Asked) -> dict[str, Any]:
    kind = next(name for name, made in _KINDS.items() if isinstance(shown, made))
    question = {"delta": asked.delta, "confidence": asked.confidence}
    return {
        "kind": kind,
        "shown": shown.as_dict(),
        "asked": question | {"claim": write_claim(asked.claim)},
    }


def _read(kept: dict[str, Any], claim: Claim | None) -> Judged:
    shown = _KINDS[kept["kind"]].from_dict(kept["shown"])
    asked = kept["asked"]
    stated = read_claim(asked["claim"]) if claim is None else claim
    return shown, Asked(stated, asked["delta"], asked["confidence"])
