"""``Canaries``: records that a fair coin each puts into one training, and the verdict on it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check, _records
from dpassay._rng import for_trial
from dpassay.auditing.claims import Claim, as_claim
from dpassay.bounds.onerun.guesses import Guesses
from dpassay.canaries import forms, insertion, session
from dpassay.canaries.forms import Form, Parts
from dpassay.canaries.insertion import Out, WithCanaries
from dpassay.canaries.session import Asked, Session
from dpassay.canaries.shown import Shown, for_relation, name_unit
from dpassay.errors import InvalidArgument, InvalidTarget
from dpassay.types import FloatArray, Verdict

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
    """What was done with the canaries of one training.

    Attributes:
        session: the audit that it was done in; None without one.
        coins: True for canaries that are in.
        out: what became of the others.
        data: the data set with canaries.
        judged: whether a verdict was given.

    """

    session: Session | None
    coins: NDArray[np.bool_]
    out: Out
    data: Any
    judged: bool = False

    def draws(self) -> float | None:
        """How often a canary's place was read on average; None if nobody counted."""
        counted = isinstance(self.data, WithCanaries) and self.data.draws.any()
        return float(self.data.draws.mean()) if counted else None


class Canaries:
    """Canaries of one training, made by :func:`~dpassay.canaries.for_images` and its cousins.

    They are live in the run that they stand in: :meth:`insert`, train, :meth:`judge`. ``dpassay
    audit train.py --one-run`` runs the same script apart from everything else, asks another claim
    if told so, keeps the training in a log and writes the report.

    To the training the canaries are public records that it would not have had without an audit.
    Its claim holds for all others as before; but the model was trained on them too.

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
        return name_unit(self.made.records_per_user)

    def insert(self, dataset: Any, *, out: Out | None = None) -> Any:
        """The data set with those canaries in it that their coins put in.

        Its length does not depend on the coins, unless ``out="removed"``. See
        :mod:`dpassay.canaries.insertion` for what becomes of canaries that are out.

        Args:
            dataset: the one that the canaries were made for, or one of the same form: a torch data
                set, one of dicts in the manner of Hugging Face or a dict of columns (both come
                back as a data set that a loader reads in batches), a pair (X, y), an array, a
                frame.
            out: "undrawn" (the default for what a loader reads), "replaced" (the default for
                arrays and frames; the claim must then be about replacing a record) or "removed"
                (for arrays and frames).

        Raises:
            InvalidArgument: ``out`` does not go with the data set.
            InvalidTarget: the canaries are in another data set, and no verdict was given since.

        """
        audit, before = session.current(), self._inserted
        if before is not None and before.session is audit and not before.judged:
            raise InvalidTarget(
                "canaries.insert was called twice: a canary would be in the data more than once. "
                "Call it once, on the training data; after a verdict, or with canaries made anew, "
                "the next training can begin."
            )
        form = forms.read_form(dataset)
        way = self._way_out(form, out)
        if audit is not None and audit.claim is not None:
            for_relation(as_claim(audit.claim), way)  # Named before the training, not after it.
        coins = session.flip(self.made.seed, len(self))
        data = self._insert(form, way, np.repeat(coins, self.made.records_per_user))
        self._inserted = _Inserted(audit, coins, way, data)
        return data

    def _way_out(self, form: Form, out: Out | None) -> Out:
        if form.kind != self.made.form.kind:
            raise InvalidArgument(
                f"dataset={_check.shown(form.data)} is of another kind than the one that the "
                "canaries were made for. Make them for what is inserted into."
            )
        options = (("undrawn", "replaced"), ("replaced", "removed"))[form.kind == "whole"]
        if out is None:
            return options[0]  # type: ignore[return-value]
        return _check.choice("out", out, options)  # type: ignore[return-value]

    def _insert(self, form: Form, way: Out, present: NDArray[np.bool_]) -> Any:
        made = self.made
        if form.kind == "indexed":
            others = made.stand_ins if way == "replaced" else None
            return WithCanaries(form.data, form.example, made.parts, present, made.places, others)
        others = None if way == "removed" else made.stand_ins
        return insertion.insert_whole(form.data, made.parts, others, present, made.places)

    # ------------------------------------------------------------------------------- scores

    def measure(self, score: Callable[..., Any]) -> FloatArray:
        """The score of every canary by a model as it is now.

        Measured before the training, it is the ``baseline`` of :meth:`judge`.

        Args:
            score: called with all canaries at once, in an order of their own: ``score(x, y)``,
                ``score(batch)`` where records are dicts, ``score(frame)``. It returns a number for
                each, larger for one that was learned. If it returns a single number, a mean loss
                for example, it is called for each canary by itself, as a batch of one.

        Raises:
            InvalidArgument: another number of scores than there are canaries.

        """
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
        guesses: Guesses = "auto",
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

        Raises:
            InvalidArgument: there is no claim, or one about other neighbours than were played.
            InvalidTarget: the canaries were not inserted, or in another audit.

        """
        done = self._require_inserted()
        scores = self.measure(score) - self._read_baseline(baseline)
        lost = np.isnan(scores)  # An output as well: the lowest score, never dropped.
        shown = Shown(
            scores=np.where(lost, -np.inf, scores),
            coins=done.coins,
            seed=self.made.seed if done.session is None else done.session.seed,
            n_lost=int(lost.sum()),
            what=self.made.what,
            shared=self.made.shared,
            records_per_user=self.made.records_per_user,
            out=done.out,
            draws=done.draws(),
            method=method,
            guesses=guesses,
        )
        asked = Asked(claim, delta, confidence)
        # Of the audit that it was inserted in, also where the verdict comes after its end.
        verdict = shown.judge(asked) if done.session is None else done.session.judge(shown, asked)
        done.judged = True
        return verdict

    def _require_inserted(self) -> _Inserted:
        audit, done = session.current(), self._inserted
        if done is None or (audit is not None and done.session is not audit):
            where = "" if audit is None else " in this audit"
            raise InvalidTarget(f"canaries.insert was never called{where}. Add: {_LINES}")
        return done

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


_ORDER = 7  # the stream of the order in which canaries are scored
