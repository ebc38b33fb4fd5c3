"""``check``: which obligation of a privacy proof a mechanism breaks, on which line.

A mechanism is played on D and recorded; then it is played on neighbours D' with all noisy values
as they were on D (:mod:`dpassay.replay`). Whatever still differs is not protected by noise, and how
far the queries moved prices what was really played. A handful of executions, no statistics.

A check never says "private": it sees finitely many pairs. It says broken, undecided, not checked,
or that nothing broke on so many pairs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from numpy.typing import ArrayLike

from dpassay import _check
from dpassay.auditing.checking_session import Question, Session
from dpassay.auditing.claims import Claim, as_claim
from dpassay.auditing.findings import Check, Open
from dpassay.auditing.referee import claimed_delta
from dpassay.errors import AuditStopped, InvalidArgument
from dpassay.privacy import account, events
from dpassay.replay.datasets import form_of, record_of
from dpassay.replay.patches import finish
from dpassay.replay.playing import Player, Relocated
from dpassay.replay.primitives import Primitive
from dpassay.replay.ranges import read_bounds
from dpassay.types import Neighbouring, PrivacyCurve

_READINGS = 3
Progress = Callable[[int], None] | None
Declared = tuple[ArrayLike, ArrayLike] | Mapping[Any, tuple[float, float]]
"""The range of all values, or one per column."""


class CheckOptions(TypedDict, total=False):
    """What can be asked of a check whose data are known: arguments of :func:`check`."""

    claim: Claim | events.Event | None
    neighbouring: Neighbouring | None
    bounds: tuple[float, float] | None
    sampling_rate: float | None
    sensitivity: float | None
    delta: float | None
    limit: int
    primitives: Sequence[Primitive]
    evidence: int
    confidence: float
    rng: int
    progress: Progress


def check(
    mechanism: Callable[..., Any],
    data: Any,
    claim: Claim | events.Event | None = None,
    *,
    neighbours: Sequence[Any] | None = None,
    neighbouring: Neighbouring | None = None,
    bounds: Declared | None = None,
    sampling_rate: float | None = None,
    sensitivity: float | None = None,
    delta: float | None = None,
    limit: int = 40,
    own: Any = None,
    primitives: Sequence[Primitive] = (),
    evidence: int = 0,
    confidence: float = 0.95,
    rng: int = 0,
    progress: Progress = None,
) -> Check:
    """Broken obligations of a mechanism's privacy proof, found by recording and replaying it.

    Args:
        mechanism: ``mechanism(data, rng)`` or ``mechanism(data)``; returns what is released. Of
            ``mechanism(data, rng, size)``, as for :func:`~dpassay.audit`, one output is played.
        data: one data set: an array with a record per row, a list, a frame, a pair (X, y), a
            tensor or a torch data set.
        claim: what is promised: a curve, an event (whose sampling is then checked too), a text
            such as "3,1e-5", or (epsilon, delta). Without one nothing is compared with the price.
        neighbours: data sets to play instead of searched ones, for data of another kind.
        neighbouring: "add-remove" or "replace-one"; the claim's by default.
        bounds: the declared range of all values, (low, high), in which searched records stay; two
            rows of numbers declare a range per column, a mapping such as {"age": (0, 120)} one by
            the name of a column or field. Of a pair (X, y) it is about X.
        sampling_rate: declares that batches are Poisson samples of this rate.
        sensitivity: the most that one record may move any query in the l2 norm, if declared.
        delta: where epsilon is stated; the claim's own by default.
        limit: the most pairs that are tried, among them those of base sets cut to few records.
        own: one record to try first, of the form that a record of the data has.
        primitives: functions of yours that add noise which cannot be followed, such as
            ``Primitive("my.noise:add", value="x", scale="sigma")``.
        evidence: the most trials to refute the claim itself by, on the worst pair, from replayed
            likelihood ratios; see ``check.evidence``. 0 plays none.
        confidence: of that refutation.
        rng: the seed.
        progress: called with the number of every execution before it is played.

    Returns:
        A :class:`Check`. A finding is a counterexample to the proof of the claim, not by itself
        a refutation: ``check.evidence()`` and ``check.audit()`` go on from its worst pair.

    Raises:
        InvalidArgument: no records can be seen in the data, or an argument is out of range.
        InvalidTarget: the mechanism cannot be run again on the same data.

    Whatever the mechanism raises when it is first run on ``data`` is passed on. The method is that
    of Re:cord-play (Cebere et al. 2026); draws are followed to the first addition, not declared.

    """
    curve, rate = _claim(claim, neighbouring)
    relation: Neighbouring = neighbouring or (curve.neighbouring if curve else "add-remove")
    _check.neighbouring(relation)
    if sampling_rate is not None:
        rate = _check.sampling_rate(sampling_rate)
    if sensitivity is not None:
        _check.sensitivity(sensitivity)
    evidence = _check.count("evidence", evidence, low=0)
    _check.confidence(confidence)
    form = form_of(data)
    given = None if neighbours is None else [form_of(other).arrays for other in neighbours]
    question = Question(
        mechanism, form.arrays, form.rebuild, curve, relation, rate, sensitivity,
        read_bounds(form.arrays, bounds), given,
        0.0 if curve is None and delta is None else claimed_delta(curve, delta),  # type: ignore[arg-type]
        _check.count("limit", limit), _check.count("rng", rng, low=0),
        None if own is None else record_of(own, form.arrays),
    )  # fmt: skip
    try:
        found = _run(question, form.rebuild, tuple(primitives), progress)
        return _with_evidence(found, evidence, confidence, question.seed, progress)
    finally:
        finish()


def _run(
    question: Question,
    rebuild: Callable[[Any], Any],
    primitives: tuple[Primitive, ...],
    progress: Progress,
) -> Check:
    """The check, begun anew where draws turn out to be used in another way than it seemed."""
    player = Player(question.mechanism, question.seed, rebuild, primitives=primitives,
                    progress=progress)  # fmt: skip
    session, found = _play(question, player)
    return replace(_read_again(question, session, found), primitives=primitives)


def _play(question: Question, player: Player, *, brief: bool = False) -> tuple[Session, Check]:
    while True:
        session = Session(question, player, brief=brief)
        try:
            return session, session.run()
        except Relocated as more:
            player = replace(player, located=player.located | more.places,
                             public_lines=player.public_lines | more.thresholds)  # fmt: skip


def _read_again(question: Question, session: Session, found: Check) -> Check:
    """The check, or another reading of it in which nothing is broken.

    What is drawn without looking at the data may be published: first centres, a random offset, a
    threshold. Given its value the rest must keep the claim by itself. So where such a draw was
    taken for the noise of a value that broke, all is played once more with it as public.
    """
    lines = session.suspects if found.broken else []
    every = [frozenset({line}) for line in lines]
    for public in every[:_READINGS] + ([frozenset(lines)] if len(lines) > 1 else []):
        player = replace(session.player, public_lines=session.player.public_lines | public)
        again, second = _play(question, player, brief=True)
        session.player.executions = again.player.executions
        if not second.broken and second.decided and second.event is not None:
            return replace(second, executions=again.player.executions)
    return replace(found, executions=session.player.executions)


def _with_evidence(
    found: Check, trials: int, confidence: float, seed: int, progress: Progress
) -> Check:
    if not trials or found.pair is None or found.claim is None:
        return found

    def count(number: int) -> None:
        if progress is not None:
            progress(found.executions + number)

    try:
        verdict = found.evidence(trials, confidence=confidence, rng=seed, progress=count)
    except AuditStopped as why:
        return replace(found, not_checked=(*found.not_checked, Open(str(why))))
    executions = found.executions + (verdict.n_executions or 0)
    return replace(found, refutation=verdict, executions=executions)


def _claim(claim: Any, neighbouring: str | None) -> tuple[PrivacyCurve | None, float | None]:
    """The curve of a claim, and the sampling rate where an event states one."""
    relation = neighbouring or "add-remove"
    if claim is None:
        return None, None
    if isinstance(claim, events.Event):
        return account(claim), _stated_rate(claim)
    curve = as_claim(claim, neighbouring=relation)
    if curve.neighbouring != (neighbouring or curve.neighbouring):
        raise InvalidArgument(
            f"neighbouring={neighbouring!r} but the claim is about {curve.neighbouring!r}. "
            "Leave it out, or state the claim under that relation."
        )
    return curve, None


def _stated_rate(event: events.Event) -> float | None:
    if isinstance(event, events.Sampled):
        return event.sampling_rate if event.scheme == "poisson" else None
    if isinstance(event, events.Repeated | events.Selected):
        return _stated_rate(event.event)
    if isinstance(event, events.Sequence):
        return next((rate for part in event.events if (rate := _stated_rate(part))), None)
    return None
