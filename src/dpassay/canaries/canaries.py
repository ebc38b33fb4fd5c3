"""``Canaries``: records that a fair coin each puts into one training, and the verdict on it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check, _records
from dpassay._rng import for_trial
from dpassay.auditing.claims import Claim, as_claim
from dpassay.auditing.referee import claimed_delta
from dpassay.auditing.single import ONE_RUN, OneRunQuestion
from dpassay.canaries import advice, forms, insertion, session
from dpassay.canaries.forms import Form, Parts
from dpassay.canaries.insertion import Out, WithCanaries
from dpassay.canaries.session import Session
from dpassay.errors import InvalidArgument, InvalidTarget
from dpassay.privacy import ApproxDP, PureDP
from dpassay.privacy.groups import replace_one_from_add_remove
from dpassay.types import Evidence, FloatArray, LowerBound, OneTraining, PrivacyCurve, Verdict

NO_AUDIT = "no audit"
_HOW_TO = (
    "No canary was inserted, since this is no audit: run dpassay audit train.py --one-run, or put "
    "the training into `with dpassay.canaries.audit():`."
)
_LINES = "train_set = canaries.insert(train_set)"


@dataclass(frozen=True)
class Made:
    """What a maker of canaries hands over.

    Attributes:
        form: of the data set.
        parts: all records of all canaries, as columns; the records of a user follow each other.
        stand_ins: what takes the place of those that are out, where something must.
        what: they are, in a few words.
        shared: whether their gradients are shared with other records.
        seed: of what was drawn for them.
        records_per_user: 1 for canaries that are records.
        places: of records of the data set that the canaries stand for; None if they come on top.

    """

    form: Form
    parts: Parts
    stand_ins: Parts
    what: str
    shared: bool
    seed: int
    records_per_user: int = 1
    places: NDArray[np.int64] | None = None


@dataclass
class _Inserted:
    """What an audit did with the canaries."""

    session: Session
    coins: NDArray[np.bool_]
    out: Out
    data: Any

    def draws(self) -> float | None:
        """How often a canary's place was read on average; None if nobody counted.

        Workers of a loader count in processes of their own, of which nothing is seen here.
        """
        counted = isinstance(self.data, WithCanaries) and self.data.draws.any()
        return float(self.data.draws.mean()) if counted else None


class Canaries:
    """Canaries of one training, made by :func:`~dpassay.canaries.for_images` and its cousins.

    Outside of an audit :meth:`insert` returns its argument and :meth:`judge` says that nothing was
    played: ``python train.py`` works as before. ``dpassay audit train.py --one-run`` runs the
    script once with the canaries that fair coins put in, and shows the verdict; so does
    ``with dpassay.canaries.audit():`` around the training.

    Attributes:
        made: what was made, and how.

    """

    def __init__(self, made: Made) -> None:
        self.made = made
        self._inserted: _Inserted | None = None

    def __len__(self) -> int:
        """The number of canaries: of users, if each has several records."""
        return self._n_records() // self.made.records_per_user

    def _n_records(self) -> int:
        return forms.count_rows(self.made.parts)

    @property
    def unit(self) -> str:
        """Whose presence a coin decides, for the report."""
        k = self.made.records_per_user
        return "record" if k == 1 else f"user of {k} records"

    def insert(self, dataset: Any, *, out: Out | None = None) -> Any:
        """The data set with canaries in it; outside of an audit the data set itself.

        Its length does not depend on the coins, unless ``out="removed"``. See
        :mod:`dpassay.canaries.insertion` for what becomes of canaries that are out.

        Args:
            dataset: the one that the canaries were made for, or one of the same form: a torch data
                set, one of dicts in the manner of Hugging Face or a dict of columns (both come
                back as a data set that a loader reads in batches), a pair (X, y), an array, a
                frame.
            out: "undrawn" (the default for what a loader reads), "replaced" (the default for
                arrays and frames; the claim must then be about replacing a record) or "removed".

        Raises:
            InvalidArgument: ``out`` does not go with the data set.
            InvalidTarget: the canaries were inserted before in this audit.

        """
        audit = session.current()
        if audit is None:
            return dataset
        if self._inserted is not None and self._inserted.session is audit:
            raise InvalidTarget(
                "canaries.insert was called twice in one audit: a canary would be in the data more "
                "than once. Call it once, on the training data."
            )
        form = forms.read_form(dataset)
        way = self._way_out(form, out)
        if audit.claim is not None:  # An unfit claim is named before the training, not after it.
            _for_relation(as_claim(audit.claim), way)
        coins = audit.flip(len(self))
        data = self._insert(form, way, np.repeat(coins, self.made.records_per_user))
        self._inserted = _Inserted(audit, coins, way, data)
        return data

    def _way_out(self, form: Form, out: Out | None) -> Out:
        if form.kind != self.made.form.kind:
            raise InvalidArgument(
                f"dataset={_check.shown(form.data)} is of another kind than the one that the "
                "canaries were made for. Make them for what is inserted into."
            )
        options = ("undrawn",) if form.kind == "indexed" else ("replaced", "removed")
        if out is None:
            return options[0]  # type: ignore[return-value]
        return _check.choice("out", out, options)  # type: ignore[return-value]

    def _insert(self, form: Form, way: Out, present: NDArray[np.bool_]) -> Any:
        made = self.made
        if way == "undrawn":
            return insertion.insert_undrawn(form, made.parts, present, made.places)
        others = None if way == "removed" else made.stand_ins
        return insertion.insert_whole(form.data, made.parts, others, present, made.places)

    # ------------------------------------------------------------------------------- scores

    def measure(self, score: Callable[..., Any]) -> FloatArray:
        """The score of every canary by a model as it is now; outside of an audit zeros.

        Measured before the training, it is the ``baseline`` of :meth:`judge`.

        Args:
            score: called with all canaries at once, in an order of their own: ``score(x, y)``,
                ``score(batch)`` where records are dicts, ``score(frame)``. It returns a number for
                each, larger for one that was learned. If it returns a single number, a mean loss
                for example, it is called for each canary by itself, as a batch of one.

        Raises:
            InvalidArgument: another number of scores than there are canaries.

        """
        if session.current() is None and self._inserted is None:
            return np.zeros(len(self))
        size = self._n_records()
        order = for_trial(self.made.seed, 0, _ORDER).permutation(size)
        found = self._score_all(score, order)
        scores = np.empty(size)
        scores[order] = found
        return scores.reshape(len(self), -1).sum(axis=1)

    def _score_all(self, score: Callable[..., Any], order: NDArray[np.int64]) -> FloatArray:
        found = self._score(score, order)
        if found.size == 1 and len(order) > 1:
            each = [self._score(score, order[i : i + 1]) for i in range(len(order))]
            found = np.concatenate([one.reshape(-1) for one in each])
        if found.shape != order.shape:
            raise InvalidArgument(
                f"score returned shape {found.shape} for {len(order)} records; it must return one "
                "number for each, such as minus the loss with reduction='none'."
            )
        return found

    def _score(self, score: Callable[..., Any], rows: NDArray[np.int64]) -> FloatArray:
        records = forms.batch(self.made.form, forms.take(self.made.parts, rows))
        return np.asarray(_records.as_array(score(*records)), float)

    # ------------------------------------------------------------------------------ verdict

    def judge(
        self,
        score: Callable[..., Any],
        *,
        claim: Claim | None = None,
        baseline: ArrayLike | None = None,
        delta: float | None = None,
        confidence: float = 0.95,
        method: str = "exact",
        guesses: str | int | tuple[int, int] = "auto",
    ) -> Verdict:
        """Whether the canaries break a claim: a lower bound on epsilon that assumes nothing.

        The claim is that of one canary: of a record, or of a user where each has several records.

        Args:
            score: of the trained model; see :meth:`measure`. It must not be told which canaries
                are in.
            claim: a curve, (epsilon, delta), or a text such as "3,1e-5"; an audit that states one
                itself (``--claim``) tests that instead.
            baseline: what :meth:`measure` said of the model before it was trained, which is taken
                off: some canaries are easier from the start.
            delta: where the bound is stated; by default at the claim's own delta, else 1e-5.
            confidence: the probability that verdict and bound are both right, at least.
            method: of :func:`dpassay.one_run`, one that assumes nothing.
            guesses: how many, see there; not to be chosen after looking at scores.

        Returns:
            The verdict; outside of an audit one of no trial that says what to do.

        Raises:
            InvalidArgument: there is no claim, or one about other neighbours than were played.
            InvalidTarget: in an audit, if the canaries were not inserted.

        """
        audit = session.current() or (self._inserted and self._inserted.session)
        stated = claim if audit is None or audit.claim is None else audit.claim
        if audit is None:
            curve = PureDP(math.inf) if stated is None else as_claim(stated)
            return _say_nothing_played(curve, claimed_delta(curve, delta), confidence)
        if stated is None:
            raise InvalidArgument(
                "claim is missing; what does the training promise? Pass claim='3,1e-5'."
            )
        done = self._require_inserted(audit)
        curve = _for_relation(as_claim(stated), done.out)
        question = OneRunQuestion(
            key="",
            seed=audit.seed,
            claim=curve,
            delta=claimed_delta(curve, delta),
            confidence=audit.confidence or _check.confidence(confidence),
            method=_check.choice("method", method, ("exact", "steinke", "hoeffding", "betting")),
            guesses=guesses,
        )
        scores = self.measure(score) - self._read_baseline(baseline)
        lost = np.isnan(scores)  # An output as well: the lowest score, never dropped.
        scores = np.where(lost, -np.inf, scores)
        verdict = question.judge_scores(scores, done.coins, int(lost.sum()))
        verdict = self._describe(verdict, done)
        audit.verdicts.append(verdict)
        return verdict

    def _require_inserted(self, audit: Session) -> _Inserted:
        if self._inserted is None or self._inserted.session is not audit:
            raise InvalidTarget(f"canaries.insert was never called in this audit. Add: {_LINES}")
        return self._inserted

    def _read_baseline(self, baseline: ArrayLike | None) -> FloatArray:
        if baseline is None:
            return np.zeros(len(self))
        values = _check.array(
            "baseline",
            baseline,
            ndim=1,
            remedy="Pass what canaries.measure(score) returned before the training.",
        )
        if values.size != len(self):
            raise InvalidArgument(
                f"baseline has {values.size} scores for {len(self)} canaries; pass what "
                "canaries.measure(score) returned before the training."
            )
        return values

    def _describe(self, verdict: Verdict, done: _Inserted) -> Verdict:
        made = self.made
        facts = OneTraining(
            canaries=made.what,
            view="the last model, by a score of each canary",
            unit="record" if made.records_per_user == 1 else "user",
            records_per_unit=made.records_per_user,
            exercised=advice.EXERCISED,
            not_exercised=advice.NOT_EXERCISED,
            bounds=(verdict.bound,),
            draws=done.draws(),
            notes=_NOTES[done.out],
        )
        what = f"{len(self)} canaries in one training: {made.what}, one {self.unit} each"
        return advice.add_advice(replace(verdict, attack=what), facts, shared=made.shared)


_ORDER = 7  # the stream of the order in which canaries are scored
_NOTES: dict[str, tuple[str, ...]] = {
    "undrawn": (),
    "replaced": (
        "A canary that is out was replaced by the same one with another label, so that the length "
        "of the data is the same: the claim is about replacing a record.",
    ),
    "removed": (
        "The number of records depended on the coins: the training must have been given it as a "
        "constant.",
    ),
}


def _for_relation(claim: PrivacyCurve, out: Out) -> PrivacyCurve:
    """The claim about what a coin changes; that about replacing follows from add-remove."""
    relation = insertion.RELATIONS[out]
    if claim.neighbouring == relation:
        return claim
    if relation == "add-remove":
        raise InvalidArgument(
            f"claim.neighbouring={claim.neighbouring!r}: a canary was put in or left out, which is "
            "add-remove. State the claim for that relation."
        )
    if isinstance(claim, ApproxDP) and claim.delta_upper > 0:
        raise InvalidArgument(
            f"claim={claim!r} is about adding or removing a record, while a canary that is out was "
            "replaced by another record. State what is claimed of replacing one, "
            "ApproxDP(..., neighbouring='replace-one'), or the whole curve; or call "
            "insert(data, out='removed') and give the training its number of records."
        )
    return replace_one_from_add_remove(claim)


def _say_nothing_played(claim: PrivacyCurve, delta: float, confidence: float) -> Verdict:
    """The verdict of an ordinary run: there were no canaries, and nothing is known."""
    nothing = Evidence(np.empty(0, int), np.empty(0))
    return Verdict(
        claim=claim,
        bound=LowerBound(0.0, delta, confidence, "none", ceiling=0.0),
        refuted=False,
        confidence=confidence,
        trials=0,
        ended=NO_AUDIT,
        evidence=nothing,
        kind=ONE_RUN,
        next_step=_HOW_TO,
    )
