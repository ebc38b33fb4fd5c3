"""What the log of a shadow farm says about a claim: its first shadow, attacked by means of others.

Shadows are trained for an attack on some other model, but they are trainings whose members a coin
chose. So the first one is a one-run audit of the training itself, and the rest are its references.

*Halves.* A fair coin of its own put each record into shadow 0 or shadow 1. Given the model of
shadow 0, its coins are hidden from everything else but shadow 1, which was trained on the rest:
that one is left out. The others had coins of their own. A record was put in or left out:
add-remove.

*Disjoint.* Shadow 0 was trained on one part of a random partition and tested on another of the same
size, up to one. To match the two parts at random and call one of each couple the first by a coin
has the same law as to draw couples first and to let a fair coin say which of the two is trained on;
so these coins are fair, independent, and hidden from all but the model. A coin replaces one record
by another: replace-one.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._rng import for_trial
from dpassay.attacks.outputs import Outputs
from dpassay.attacks.ratio_attacks import lira_scores
from dpassay.attacks.scores import metric_scores
from dpassay.attacks.shadows import Shadows, assign, gather
from dpassay.auditing.question import Change, check_relation
from dpassay.auditing.referee import claimed_delta
from dpassay.auditing.single import OneRunQuestion
from dpassay.errors import InvalidArgument
from dpassay.runs import RunRecord, TrialLog, read_run
from dpassay.types import FloatArray, PrivacyCurve, Verdict

_CONFIDENCE = 0.95  # where none is asked for: training shadows asks nothing
_MATCHING = 2  # the stream of couples; 0 is that of the design, 1 that of the trainings
Coins = NDArray[np.bool_]


@dataclass(frozen=True)
class ShadowQuestion:
    """What is asked of a farm of shadow models.

    Attributes:
        key: of the run.
        seed: of the design and the trainings.
        design: "halves" or "disjoint".
        n_shadows: that the design was made for.
        n_records: that it was made for.
        claim: about one training, in the relation of the design.
        delta: where the bound is stated.
        confidence: of verdict and bound.

    """

    key: str
    seed: int
    design: str
    n_shadows: int
    n_records: int
    claim: PrivacyCurve
    delta: float
    confidence: float

    def judge(self, log: TrialLog) -> Verdict:
        """The verdict on the training of the first shadow; nothing is trained.

        Raises:
            AuditStopped: the first shadow failed.

        """
        run = read_run(1, key=self.key, store=log, max_failed_share=0.0)
        run.require_whole(1, "shadow trainings")
        first, others = self._read(log)
        scores, attack = _score_first(first.outputs_of(0), others)
        scores, coins = self._toss(scores, first.inside[0])
        asked = OneRunQuestion(
            self.key, self.seed, self.claim, self.delta, self.confidence, method="exact"
        )
        verdict = replace(asked.judge_scores(scores, coins), n_deaths=run.n_deaths)
        return replace(verdict, attack=f"{attack}: {coins.size} coins in one training")

    def _read(self, log: TrialLog) -> tuple[Shadows, Shadows | None]:
        """The first shadow; and of the others in the log those that do not give its coins away."""
        kept = log.outcomes(self.key).payloads
        n_shadows = max(self.n_shadows, max(kept) + 1)  # merging may have added some
        inside = assign(self.n_records, n_shadows, self.design, self.seed)
        others = sorted(kept.keys() - {0, 1})
        rest = gather([kept[i] for i in others], inside[others]) if others else None
        return gather([kept[0]], inside[:1]), rest

    def _toss(self, scores: FloatArray, inside: NDArray[np.int8]) -> tuple[FloatArray, Coins]:
        """One score per coin, and the coins."""
        if self.design == "halves":
            return scores, inside == 1
        return match(scores, inside, for_trial(self.seed, 0, _MATCHING))


def _score_first(first: Outputs, others: Shadows | None) -> tuple[FloatArray, str]:
    """Scores of the records by what the first shadow says, and the name of the attack.

    Which attack it is depends on the number of shadows and their coins, never on what they say.
    """
    if others is not None and _has_both(others):
        return lira_scores(first, others), f"lira on shadow 0 with {len(others)} others"
    return metric_scores(first, "loss"), "the loss of shadow 0"


def _has_both(shadows: Shadows) -> bool:
    """Whether each record has two shadows trained with it, and two without."""
    return all(bool(((shadows.inside == world).sum(axis=0) >= 2).all()) for world in (0, 1))


def match(
    scores: FloatArray, inside: NDArray[np.int8], rng: np.random.Generator
) -> tuple[FloatArray, Coins]:
    """Couples of a record that was trained on and one that was not: score differences, coins.

    The coin says whether the first of a couple was trained on; the score is that of the first less
    that of the second. Records that are left over belong to the data.
    """
    sides = [rng.permutation(np.flatnonzero(inside == world)) for world in (1, 0)]
    n = min(len(side) for side in sides)
    coins = rng.integers(0, 2, n).astype(bool)
    gaps = scores[sides[0][:n]] - scores[sides[1][:n]]
    return np.where(coins, gaps, -gaps), coins


def shadow_question_of(record: RunRecord, change: Change) -> ShadowQuestion:
    """What to ask of a shadow farm: the claim has to be given, since training shadows has none.

    Raises:
        InvalidArgument: no claim, or one about other neighbours; shadows that were observed at
            records that none of them was trained on.

    """
    about, settings = record.description, record.configuration
    relation = about.get("neighbouring")
    if relation is None:
        raise InvalidArgument(
            f"run {record.key[:12]} holds shadows that say nothing about a claim: they were "
            "observed at records that none of them was trained on, or by an earlier version. Call "
            "train_shadows with this store, without observed=."
        )
    if change.claim is None:
        raise InvalidArgument(
            f"claim is missing: run {record.key[:12]} holds shadow models, which were trained "
            "without one. Pass claim=(3, 1e-5), or --claim 3,1e-5: what one training promises."
        )
    check_relation(change.claim, relation)
    level = _CONFIDENCE if change.confidence is None else change.confidence
    return ShadowQuestion(
        key=record.key,
        seed=settings["seed"],
        design=settings["design"],
        n_shadows=about["trials"],
        n_records=about["n_records"],
        claim=change.claim,
        delta=claimed_delta(change.claim, change.delta),
        confidence=_check.confidence(level),
    )
