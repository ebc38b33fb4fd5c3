"""The one training of a script in a log: what it showed is kept, so that nobody trains again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dpassay.auditing.claims import Claim
from dpassay.auditing.question import Change
from dpassay.canaries.session import Asked, Showing
from dpassay.canaries.shown import Shown
from dpassay.canaries.texts import read_claim, write_claim
from dpassay.canaries.watch_verdict import Seen
from dpassay.errors import AuditStopped
from dpassay.runs import Outcomes, RunRecord, TrialLog
from dpassay.types import Verdict

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


@dataclass(frozen=True)
class TrainingQuestion:
    """What a script asked of its one training, or what is asked instead."""

    key: str
    change: Change

    def judge(self, log: TrialLog) -> Verdict:
        """The verdict on what the log keeps; of several the strongest, each at its share of alpha.

        Raises:
            AuditStopped: the script ended before it had judged anything.

        """
        known = recall(log, self.key, self.change.claim)
        if not known:
            raise AuditStopped(
                f"run {self.key[:12]} is of a script that ended before it had judged anything. "
                "Give its command again: dpassay audit train.py --one-run with this store."
            )
        asked = [self._ask(question) for _, question in known]
        if len(known) == 1:
            return known[0][0].judge(asked[0])
        confidence = min(question.confidence for question in asked)
        shared = 1 - (1 - confidence) / len(known)
        verdicts = [
            shown.judge(replace(question, confidence=shared))
            for (shown, _), question in zip(known, asked, strict=True)
        ]
        best = max(verdicts, key=lambda verdict: (verdict.refuted, verdict.tightness))
        bound = replace(best.bound, confidence=confidence)
        return replace(best, bound=bound, confidence=confidence)

    def _ask(self, asked: Asked) -> Asked:
        delta, confidence = self.change.delta, self.change.confidence
        return Asked(
            asked.claim,  # recall() has put the changed one here
            asked.delta if delta is None else delta,
            asked.confidence if confidence is None else confidence,
        )


def training_question_of(record: RunRecord, change: Change) -> TrainingQuestion:
    """The question that a script asked of its training, or a changed one."""
    return TrainingQuestion(record.key, change)


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
