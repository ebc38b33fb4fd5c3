"""``judge``: the verdict on trials that a log holds, whatever game they are of; nothing is played.

Every game describes in the log what was asked of it. The description names its kind, and the kind
knows how to read the question back: one line in a table below.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dpassay.attacks.shadows import SHADOWS
from dpassay.auditing.claims import Claim, as_claim
from dpassay.auditing.question import CHOOSING, MANY, Change, question_of
from dpassay.auditing.shadow_runs import shadow_question_of
from dpassay.auditing.single import ONE_RUN, one_run_question_of
from dpassay.auditing.stepwise import STEPS, steps_question_of
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.runs import RunRecord, TrialLog, opened
from dpassay.types import Verdict


def judge(
    store: str | Path | TrialLog,
    run: str | None = None,
    *,
    claim: Claim | None = None,
    confidence: float | None = None,
    delta: float | None = None,
) -> Verdict:
    """The verdict on the logged trials of an audit, for its own question or another one.

    Worlds follow from the seed, scores are in the log; trials count in number order, up to the
    first one that is missing. For the question that the audit asked last the verdict is the
    audit's own, bit for bit, and that of an interrupted audit is what is known so far. Shadow
    models were asked nothing: give the claim of one training, which the first of them is tested by
    (:mod:`dpassay.auditing.shadow_runs`). Of a script that judged several sets of canaries the
    strongest verdict is given, and the level is divided among them.

    Another claim or confidence may be tested on the same trials. Each such statement holds by
    itself, at its level; that *all* of several hold has a smaller probability, and the most
    favourable of several, picked after looking, holds with none.

    Args:
        store: the log.
        run: the run's key or its beginning; by default the newest run of the log that was
            played for a verdict.
        claim: to be tested instead of the audit's own; a curve, or as pair or text a claim about
            the same neighbours.
        confidence: instead of the audit's own.
        delta: where the bound is stated, instead of the audit's own.

    Raises:
        InvalidArgument: no such run, or several; a run that no audit has written; a claim that
            cannot be read from the log, or for another neighbouring relation.
        AuditStopped: too many of its trials failed, or its only training.
        LogError: the log cannot be read.

    """
    with opened(store, make=False) as log:
        record = find_run(log, run)
        curve = None if claim is None else as_claim(claim, neighbouring=_relation(record))
        return judge_run(log, record, Change(curve, confidence, delta))


def _relation(record: RunRecord) -> str:
    """The neighbouring relation of the data sets that were played."""
    return record.description.get("neighbouring", "add-remove")


def find_run(log: TrialLog, run: str | None = None) -> RunRecord:
    """The run whose key begins with this text; if none is given, the newest that can be judged."""
    runs = log.runs()
    if not runs:
        raise InvalidArgument("the log holds no runs yet; audit with this file as its store first.")
    counting = [r for r in runs if r.description.get("audit") != CHOOSING] or runs
    found = counting[-1:] if run is None else [r for r in runs if r.key.startswith(run)]
    if len(found) != 1 or run == "":
        listed = ", ".join(r.key[:12] for r in runs[-8:])
        what = "no run" if not found else f"{len(found)} runs"
        raise InvalidArgument(
            f"run={run!r} is the beginning of {what}; the log holds {listed}. Give the first "
            "digits of one of them."
        )
    return found[0]


class _Question(Protocol):
    """What was asked of the trials of a run."""

    def judge(self, log: TrialLog) -> Verdict: ...


Reading = Callable[[RunRecord, Change], _Question]
TRAINING = "a script's training"


def _training_question_of(record: RunRecord, change: Change) -> _Question:
    """The question that a script asked of its one training.

    Canaries stand to the right of this folder, and scripts that judge them need not be loaded to
    judge other logs: so their reader is found by its name.
    """
    read: Reading = importlib.import_module("dpassay.canaries.kept").training_question_of
    return read(record, change)


_QUESTIONS: dict[str, Reading] = {
    MANY: question_of,
    ONE_RUN: one_run_question_of,
    STEPS: steps_question_of,
    SHADOWS: shadow_question_of,
    TRAINING: _training_question_of,
}


def judge_run(log: TrialLog, record: RunRecord, change: Change | None = None) -> Verdict:
    """The verdict on one run of an open log."""
    kind = record.description.get("audit")
    if kind == CHOOSING:
        raise InvalidArgument(
            f"run {record.key[:12]} holds the trials that chose a distinguisher or a pair; they do "
            "not count. Judge the run of the game that was played after them."
        )
    if kind not in _QUESTIONS:
        raise InvalidArgument(
            f"run {record.key[:12]} was not written by an audit of this version: its log does not "
            "say what was asked. Give the audit again with this store; nothing is played twice."
        )
    try:
        return _QUESTIONS[kind](record, change or Change()).judge(log)
    except DpassayError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise InvalidArgument(
            f"run {record.key[:12]}: the log does not say what was asked in the way an audit "
            "writes it. Restore a copy of the log, or give the audit again with another store."
        ) from None
