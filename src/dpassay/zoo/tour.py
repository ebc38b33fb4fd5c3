"""A walk through the zoo: every subject is audited, and every judgement compared with the truth."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dpassay.auditing import audit, inputs
from dpassay.auditing.inputs import Input
from dpassay.errors import InvalidArgument
from dpassay.runs import Players
from dpassay.types import Verdict
from dpassay.zoo.catalogue import SUBJECTS, Subject

DRAWS = 8_000_000
CONFIDENCE = 1 - 1e-6


@dataclass(frozen=True)
class Judged:
    """A subject with what an audit said of it.

    Attributes:
        subject: who was audited.
        verdict: what came of it.
        seconds: CPU time of the audit.

    """

    subject: Subject
    verdict: Verdict
    seconds: float

    @property
    def right(self) -> bool:
        """Whether the broken one was caught, or the honest one let through."""
        return self.verdict.refuted == self.subject.broken

    @property
    def outcome(self) -> str:
        """How the audit of this subject ended, in one or two words."""
        if self.subject.broken:
            return "caught" if self.right else "missed"
        return "let through" if self.right else "false alarm"


def find_subjects(names: Iterable[str] = ()) -> tuple[Subject, ...]:
    """Those whose names contain one of the texts; all without any.

    Raises:
        InvalidArgument: a text that no name contains.

    """
    wanted = list(names)
    for text in wanted:
        if not any(text.lower() in subject.name.lower() for subject in SUBJECTS):
            listed = ", ".join(subject.name for subject in SUBJECTS)
            raise InvalidArgument(f"only={text!r} is in no name. There are: {listed}.")
    if not wanted:
        return SUBJECTS
    return tuple(s for s in SUBJECTS if any(text.lower() in s.name.lower() for text in wanted))


def input_of(subject: Subject) -> Input | None:
    """What the subject's input looks like, for a search; None if its pair is the only one."""
    low, high = subject.domain
    if subject.moves == "one" or subject.moves == "all":
        n = len(subject.pair()[0])
        return inputs.vector(n, low=low, high=high, moves=subject.moves)
    if subject.moves in ("value", "step"):
        by = 1 if subject.moves == "step" else None
        return inputs.value(int(low), int(high), by=by)
    return inputs.as_input(np.array([low, high, high])) if subject.moves == "record" else None


def walk(
    subjects: Iterable[Subject] = SUBJECTS,
    *,
    draws: int = DRAWS,
    confidence: float = CONFIDENCE,
    rng: int = 0,
    hidden: bool = False,
    executor: Players = None,
) -> Iterator[Judged]:
    """Audit one subject after another.

    Args:
        subjects: whom to audit.
        draws: trials of a mechanism that draws many outputs at once; a training has as many as its
            bug needs.
        confidence: of each verdict.
        rng: seed of worlds and noise.
        hidden: pairs are searched; else each subject is audited on the pair that is stored for it.
        executor: who plays, see :func:`dpassay.runs.play`.

    """
    for subject in subjects:
        began = time.process_time()
        source = input_of(subject) if hidden else None
        verdict = audit(
            subject.mechanism,
            None if source else subject.pair(),
            data=source,
            claim=subject.claim(),
            score=subject.score,
            trials=subject.trials or draws,
            confidence=confidence,
            rng=rng,
            executor=executor,
            # Pairs of query answers: what their neighbours are is stated with the subject.
            neighbours="trusted" if subject.trials is None else "checked",
        )
        yield Judged(subject, verdict, time.process_time() - began)
