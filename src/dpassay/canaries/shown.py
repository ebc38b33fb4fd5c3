"""What one training showed of canaries among its records, and the verdict on it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.auditing.claims import as_claim
from dpassay.auditing.referee import claimed_delta
from dpassay.auditing.single import OneRunQuestion
from dpassay.bounds.onerun.guesses import Guesses
from dpassay.canaries import advice, insertion
from dpassay.canaries.insertion import Out
from dpassay.canaries.session import Asked
from dpassay.canaries.texts import read_array, write_array
from dpassay.errors import InvalidArgument
from dpassay.privacy import ApproxDP
from dpassay.privacy.groups import replace_one_from_add_remove
from dpassay.types import FloatArray, OneTraining, PrivacyCurve, Verdict

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


@dataclass(frozen=True, eq=False)
class Shown:
    """Scores of all canaries, with what is known of the training.

    Attributes:
        scores: one per canary; the lowest for those that could not be had.
        coins: True for canaries that were in.
        seed: of the coins.
        n_lost: how many scores could not be had.
        what: the canaries are, in a few words.
        shared: whether their gradients are shared with other records.
        records_per_user: 1 for canaries that are records.
        out: what became of canaries that were out.
        draws: how often a canary's place was read on average; None if nobody counted.
        method: of :func:`dpassay.one_run`, one that assumes nothing.
        guesses: how many, see there.

    """

    scores: FloatArray
    coins: NDArray[np.bool_]
    seed: int
    n_lost: int
    what: str
    shared: bool
    records_per_user: int
    out: Out
    draws: float | None
    method: str = "exact"
    guesses: Guesses = "auto"

    @property
    def unit(self) -> str:
        """Whose presence a coin decides."""
        return name_unit(self.records_per_user)

    def judge(self, asked: Asked) -> Verdict:
        """The verdict on a claim, with advice; a lower bound on epsilon that assumes nothing."""
        if asked.claim is None:
            raise InvalidArgument(
                "claim is missing; what does the training promise? Pass claim='3,1e-5'."
            )
        curve = for_relation(as_claim(asked.claim), self.out)
        question = OneRunQuestion(
            key="",
            seed=self.seed,
            claim=curve,
            delta=claimed_delta(curve, asked.delta),
            confidence=_check.confidence(asked.confidence),
            method=_check.choice(
                "method", self.method, ("exact", "steinke", "hoeffding", "betting")
            ),
            guesses=self.guesses,
        )
        verdict = question.judge_scores(self.scores, self.coins, self.n_lost)
        what = f"{self.coins.size} canaries in one training: {self.what}, one {self.unit} each"
        verdict = replace(verdict, attack=what)
        return advice.add_advice(verdict, self._facts(verdict), shared=self.shared)

    def _facts(self, verdict: Verdict) -> OneTraining:
        return OneTraining(
            canaries=self.what,
            view="the last model, by a score of each canary",
            unit="record" if self.records_per_user == 1 else "user",
            records_per_unit=self.records_per_user,
            exercised=advice.EXERCISED,
            not_exercised=advice.NOT_EXERCISED,
            bounds=(verdict.bound,),
            draws=self.draws,
            notes=_NOTES[self.out],
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__}
        arrays = {"scores": write_array(self.scores), "coins": write_array(self.coins)}
        return kept | arrays

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> "Shown":
        """Read back what :meth:`as_dict` wrote."""
        guesses = kept["guesses"]
        return cls(
            **kept
            | {
                "scores": read_array(kept["scores"], np.float64),
                "coins": read_array(kept["coins"], np.bool_),
                "guesses": tuple(guesses) if isinstance(guesses, list) else guesses,
            }
        )


def name_unit(records_per_user: int) -> str:
    """Whose presence a coin decides, for the report."""
    return "record" if records_per_user == 1 else f"user of {records_per_user} records"


def for_relation(claim: PrivacyCurve, out: Out) -> PrivacyCurve:
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
