"""A walk through the zoo: every subject is audited, and every judgement compared with the truth."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dpassay.auditing import audit
from dpassay.errors import InvalidArgument
from dpassay.types import Verdict
from dpassay.zoo.catalogue import SUBJECTS, Subject

DRAWS = 2_000_000
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
        """In words."""
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


def walk(
    subjects: Iterable[Subject] = SUBJECTS,
    *,
    draws: int = DRAWS,
    confidence: float = CONFIDENCE,
    rng: int = 0,
) -> Iterator[Judged]:
    """Audit one subject after another, each on its stored pair.

    Args:
        subjects: whom to audit.
        draws: trials of a mechanism that draws many outputs at once; a training has as many as its
            bug needs.
        confidence: of each verdict.
        rng: seed of worlds and noise.

    """
    for subject in subjects:
        began = time.process_time()
        verdict = audit(
            subject.mechanism,
            subject.pair(),
            claim=subject.claim(),
            score=subject.score,
            trials=subject.trials or draws,
            confidence=confidence,
            rng=rng,
            # Pairs of query answers: what their neighbours are is stated with the subject.
            neighbours="trusted" if subject.trials is None else "checked",
        )
        yield Judged(subject, verdict, time.process_time() - began)
