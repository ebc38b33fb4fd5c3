"""``audit_table``: whether a synthesizer keeps its claim, by what one record changes in its tables.

A synthesizer is played many times on two neighbouring tables and bet against by the same engine as
any other mechanism (:func:`dpassay.audit`), part after part, the cheap ones first:

1. *support*, a few fits at a small epsilon: does a value that only one record has come out because
   that record is in? A domain that was read off the data falls after some thirty fits.
2. *measurements*, without any fit: the noisy marginals themselves, tens of thousands of times.
3. *answers* of the fitted model, and 4. *rows* sampled from it, each for a whole fit.

No view sees everything; each part says which faults it would let through (``cannot_see``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.auditing.claims import Claim, as_claim
from dpassay.auditing.many import audit
from dpassay.auditing.table_bench import Asked, prepare
from dpassay.auditing.table_pairs import BASES, Base
from dpassay.auditing.table_plays import VIEWS, View
from dpassay.auditing.table_subjects import Stated, Subject, as_subject
from dpassay.errors import InvalidArgument
from dpassay.runs import Players, TrialLog, opened
from dpassay.types import Verdict

CONFIDENCE = 1 - 1e-6
TRIALS: dict[View, int] = {"support": 45, "measurements": 35_000, "answers": 500, "rows": 500}


@dataclass(frozen=True)
class TablePart:
    """One part of an audit: a view on one pair of tables.

    Attributes:
        view: what was looked at.
        base: what the other records were like.
        verdict: on this part's claim; at its share of the error probability.
        cannot_see: faults that this part lets through whatever it shows.

    """

    view: View
    base: Base
    verdict: Verdict
    cannot_see: tuple[str, ...]


@dataclass(frozen=True)
class TableAudit:
    """What the parts of an audit say together.

    Attributes:
        parts: those that were played, in their order.
        not_played: views that were not: because the claim had fallen, or they are not there.
        confidence: the probability that no part refutes a claim that holds.

    """

    parts: tuple[TablePart, ...]
    not_played: tuple[str, ...]
    confidence: float

    @property
    def refuted(self) -> bool:
        """Whether a part refuted the claim."""
        return any(part.verdict.refuted for part in self.parts)

    @property
    def verdict(self) -> Verdict:
        """The verdict that refuted, else the one with the largest lower bound."""
        return max(
            (part.verdict for part in self.parts), key=lambda v: (v.refuted, v.bound.epsilon)
        )

    def __str__(self) -> str:
        word = "refuted" if self.refuted else "not refuted"
        lines = [f"{word} (confidence {self.confidence:.10g} over all parts)"]
        for part in self.parts:
            v = part.verdict
            claimed = float(v.claim.epsilon(v.bound.delta))
            lines.append(
                f"  {part.view}, {part.base} base: {'refuted' if v.refuted else 'not refuted'} "
                f"after {v.trials} plays; epsilon >= {v.bound.epsilon:.3g}, claimed {claimed:.3g} "
                f"at delta={v.bound.delta:.3g}"
            )
            lines += [f"    cannot see {fault}" for fault in part.cannot_see]
        lines += [f"  not played: {name}" for name in self.not_played]
        return "\n".join(lines)


def audit_table(
    synthesizer: Any,
    *,
    claim: Claim | None = None,
    data: Any = None,
    record: int | Mapping[str, Any] | None = None,
    views: Sequence[View] | None = None,
    base: Base = "filled",
    n_records: int | None = None,
    rows: int | None = None,
    answers: Callable[[Any], Any] | None = None,
    learn: bool = False,
    trials: int | Mapping[str, int] | None = None,
    confidence: float = CONFIDENCE,
    executor: Players = None,
    workers: int = 1,
    store: str | Path | TrialLog | None = None,
    rng: int | np.random.Generator | None = 0,
    progress: Any = "quiet",
) -> TableAudit:
    """Whether a synthesizer breaks its claim, from what one record changes in what it makes.

    Args:
        synthesizer: one of :mod:`dpassay.synth`, not yet fitted; any object with ``fit(table)`` and
            ``sample(n)``, which is copied for every play; or a function ``table -> table`` or
            ``(table, rng) -> table``. What has an attribute ``rng``, ``random_state`` or ``seed``
            is seeded by the play.
        claim: what is promised; None takes what the synthesizer states, a whole curve, which falls
            sooner than a pair (epsilon, delta). Others must have one given.
        data: a table (frame) to audit on; None makes one from the synthesizer's public ``schema``.
        record: the target in ``data``: the number of its row, or a record to be added; None takes
            one with a rare value.
        views: of "support", "measurements", "answers" and "rows", in the order in which they are
            played. None takes "support", and "measurements" where the synthesizer takes noisy
            marginals first, else "rows".
        base: of all views but support, whose base is "empty": "filled" or "empty", see
            ``dpassay.auditing.table_pairs``.
        n_records: of the tables that are made; None takes 300, or more where noise needs them.
        rows: how many are sampled in a play; None takes five times the number of records.
        answers: a function of the fitted object that returns numbers, for the view "answers" of
            other people's synthesizers.
        learn: learn a score from what the plays show, instead of a weighted sum fixed before.
        trials: how many plays a part may have, for all or by view.
        confidence: the probability that no part refutes a claim that holds; the parts share the
            error probability equally.
        executor: who plays, as in :func:`dpassay.audit`.
        workers: processes of our own; 1 plays in this one.
        store: a file that keeps the plays: a run for each part, which can be resumed, judged,
            merged and reported like any other.
        rng: seed of the plays; None audits the secure noise.
        progress: "auto", "bar", "lines", "quiet" or a progress object.

    Returns:
        The parts with their verdicts. A part that refutes ends the audit.

    Raises:
        InvalidArgument: no claim, no table and no schema to make one from, a view that the
            synthesizer does not have.
        AuditStopped: too many plays failed, or the noise has a fixed seed.

    The support of a synthesizer that states its privacy is audited at epsilon = 0.1, where few fits
    suffice: the code is the same, and the claim that is refuted there is the one it states there.

    >>> from dpassay.synth import Independent, Schema
    >>> schema = Schema({"sex": ["F", "M"], "smokes": [0, 1]})
    >>> found = audit_table(Independent(schema, epsilon=1.0, delta=1e-5), trials=40)
    >>> found.refuted, [part.view for part in found.parts]
    (False, ['support', 'measurements'])

    """
    subject = as_subject(synthesizer)
    chosen = _choose_views(subject, views, answers)
    level = 1 - (1 - _check.confidence(confidence)) / len(chosen)
    asked = Asked(
        subject,
        None if claim is None else as_claim(claim),
        _check.choice("base", base, BASES),
        data,
        record,
        n_records,
        rows,
        answers,
    )
    parts: list[TablePart] = []
    with opened(store) as log:
        for view in chosen:
            bench = prepare(asked, view)
            verdict = audit(
                bench.play,
                (bench.pair.with_target, bench.pair.without),
                claim=bench.claim,
                score=None if learn and view in ("answers", "rows") else bench.score,
                trials=_trials(trials, view),
                confidence=level,
                executor=executor,
                workers=workers,
                store=log,
                rng=rng,
                progress=progress,
                description=bench.describe(),
            )
            parts.append(TablePart(view, bench.pair.base, verdict, bench.cannot_see))
            if verdict.refuted:
                break
    left = [v for v in VIEWS if v not in {part.view for part in parts}]
    return TableAudit(tuple(parts), tuple(left), confidence)


def _choose_views(subject: Subject, views: Sequence[View] | None, answers: Any) -> tuple[View, ...]:
    """The views to play; one that the synthesizer does not have is an error."""
    stated = isinstance(subject.synthesizer, Stated)
    measures = stated and subject.synthesizer.measures_first
    if views is None:
        return ("support", "measurements" if measures else "rows")
    chosen = tuple(views)
    if not chosen or isinstance(views, str):
        raise InvalidArgument(f"views must be a list of some of {', '.join(VIEWS)}.")
    for view in chosen:
        _check.choice("view", view, VIEWS)
    if "measurements" in chosen and not measures:
        raise InvalidArgument(
            "views: this synthesizer shows no measurements. Audit its rows, or its answers."
        )
    if "answers" in chosen and not stated and answers is None:
        raise InvalidArgument(
            "views: pass answers=, a function of the fitted object, to audit answers."
        )
    return chosen


def _trials(trials: int | Mapping[str, int] | None, view: View) -> int:
    if isinstance(trials, Mapping):
        return _check.count("trials", trials.get(view, TRIALS[view]))
    return TRIALS[view] if trials is None else _check.count("trials", trials)
