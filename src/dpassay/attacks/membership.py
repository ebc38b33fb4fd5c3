"""``attack``: who was in the training set of a model? Scores, rates with intervals, and what they
prove.

What the numbers are about: *this* model, with members drawn at random from its training set and
non-members from the population. Records of one model are no independent trials of the training, so
that rates on them bound no epsilon. There is one exception, and only there a bound is given: every
candidate was put into the training set by a fair coin of its own (``membership="randomised"``).
"""

from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
from scipy import special

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.attacks.ceilings import MEMBERSHIPS, AttackCeilings, Membership, ceilings
from dpassay.attacks.methods import METHODS, Attack, AttackOptions, candidates, check_options
from dpassay.attacks.shadows import Shadows
from dpassay.attacks.thresholds import RULES, Cut, Scored, rates
from dpassay.attacks.whitebox import WhiteBox, white_box_features
from dpassay.bounds import Interval, advantage, auc, one_run, tpr_at_fpr
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray, LowerBound, PrivacyCurve

ABOUT = "this model; members drawn from its training set, non-members from the population"


@dataclass(frozen=True, eq=False)
class AttackResult:
    """What an attack found. All intervals hold together, with ``confidence``.

    Attributes:
        method: the attack.
        scores_in: one per member, in the order given; higher says "member".
        scores_out: one per non-member.
        cut: where scores are cut to make guesses, how that was chosen, who can know it.
        accuracy: the share of right guesses over all candidates.
        tpr: the share of members that are called so, at the cut.
        fpr: the share of non-members that are called members.
        auc: the area under the ROC curve.
        advantage: the largest TPR - FPR over all cuts.
        tpr_at: the true-positive rate at the best cut with a false-positive rate of at most this.
        confidence: of all intervals together.
        knows: what the attacker must know.
        source: who published the attack.
        membership: "fixed" or "randomised".
        ceilings: what the claim allows on average, if one was given.
        bound: a lower bound on epsilon, a statement of its own with the same confidence; None
            unless membership was randomised, since nothing follows then.
        about: what the intervals are about.

    """

    method: str
    scores_in: FloatArray = field(repr=False)
    scores_out: FloatArray = field(repr=False)
    cut: Cut
    accuracy: Interval
    tpr: Interval
    fpr: Interval
    auc: Interval
    advantage: Interval
    tpr_at: dict[float, Interval]
    confidence: float
    knows: str
    source: str
    membership: str
    ceilings: AttackCeilings | None = None
    bound: LowerBound | None = None
    about: str = ABOUT

    @property
    def significant(self) -> bool:
        """Whether it beats a coin by more than chance; false alarms: at most 1 - confidence."""
        better = self.auc.lower > 0.5 or self.advantage.lower > 0 or self.tpr.lower > self.fpr.upper
        return better or any(interval.lower > fpr for fpr, interval in self.tpr_at.items())

    def __str__(self) -> str:
        lines = [f"{self.method} ({self.source}); the attacker knows {self.knows}"]
        tops = self.ceilings
        rows: list[tuple[str, Interval, float | None]] = [
            (f"accuracy at {self.cut.rule}", self.accuracy, tops and tops.accuracy),
            ("AUC", self.auc, tops and tops.auc),
            ("advantage", self.advantage, tops and tops.advantage),
        ]
        for fpr, found in self.tpr_at.items():
            rows.append((f"TPR at FPR {fpr:g}", found, tops and tops.tpr_at[fpr]))
        for name, found, top in rows:
            text = f"  {name}: {found.value:.4g} in [{found.lower:.4g}, {found.upper:.4g}]"
            lines.append(text + ("" if top is None else f"; the claim allows {top:.4g} on average"))
        lines.append(f"  together with confidence {self.confidence:.10g}, about {self.about}")
        lines.append(f"  {self.bound or NO_BOUND}")
        return "\n".join(lines)


NO_BOUND = (
    "no bound on epsilon: records of one model are not independent trials; put each candidate in "
    "by a fair coin and pass membership='randomised', or play dpassay.audit"
)


def attack(
    target: Any,
    members: Any,
    non_members: Any,
    *,
    method: str = "loss",
    threshold: str | float = "auto",
    shadows: Shadows | None = None,
    reference: Any = None,
    features: WhiteBox = white_box_features,
    membership: Membership = "fixed",
    claim: PrivacyCurve | None = None,
    delta: float = 1e-5,
    fprs: tuple[float, ...] = (0.001, 0.01),
    confidence: float = 0.95,
    rng: RngLike = 0,
    **options: Unpack[AttackOptions],
) -> AttackResult:
    """How well an attack tells members of a model's training set from others.

    Scores are computed on all candidates together, without who is a member; only the threshold
    rules and the counting see that.

    Args:
        target: has ``predict_proba`` or ``decision_function``, or is a torch module that returns
            logits, or a function ``loss(X, y)`` that returns a loss per record; None if outputs are
            given instead of records.
        members: (X, y) of records that were in the training set. With ``target=None``: an array of
            losses, or a pair (probabilities, labels), labels being columns; or :class:`Outputs`.
        non_members: the same for records that were not.
        method: "loss", "correctness", "confidence", "entropy", "modified-entropy"; with shadows
            "lira", "lira-offline", "rmia", "rmia-offline", "shadow", "white-box"; with a reference
            "quantile". ``METHODS`` says what each must know.
        threshold: where guesses are cut: a number fixed in advance; "median"; "mean-training-loss"
            (Yeom et al.); "mean-of-both", an oracle; "shadow" or "shadow-per-class", fitted on
            shadows. "auto" is the attack's own (0 for log odds), else "median".
        shadows: of :func:`train_shadows`; for "lira" and "rmia" observed at the members, then the
            non-members.
        reference: (X, y) of known non-members, none of them a candidate.
        features: white-box features, see :class:`WhiteBox`.
        membership: "fixed", or "randomised": each candidate was put in by a fair coin of its own
            (not: exactly half of them). Only then a lower bound on epsilon follows.
        claim: a privacy curve; the result then says what it allows on average.
        delta: where the lower bound is stated.
        fprs: false-positive rates to give the true-positive rate at.
        confidence: of all intervals together, choices of thresholds included.
        rng: seed of learners and of breaking ties.
        options: of the attack: ``variance`` (LiRA), ``gamma``, ``offline_slope`` (RMIA),
            ``learner``, ``per_class`` (shadow, white box), ``alpha``, ``regressor`` (quantile).

    Raises:
        InvalidArgument: a value out of range, outputs that are none (NaN, constant, not
            probabilities), a class unknown to the target, or something that the attack needs and
            that is missing.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = attack(None, rng.exponential(1.0, 500), rng.exponential(3.0, 500))
    >>> print(found.auc)
    0.7285 in [0.6587, 0.7916] (confidence 0.9928571429, chernoff)
    >>> found.significant, found.bound
    (True, None)

    """
    _check.choice("method", method, tuple(METHODS))
    _check.choice("membership", membership, MEMBERSHIPS)
    for fpr in fprs:
        _check.number("fpr", fpr, low=0, high=1, low_open=True, high_open=True)
    level = (1 - _check.confidence(confidence)) / (5 + len(fprs))
    how = METHODS[method]
    check_options(method, options)
    case, n_in = candidates(target, members, non_members, shadows, reference, features, rng)
    scores = _check_sides(how.score(case, **options), len(case.outputs))
    scored = Scored(scores, n_in, method, case.outputs, shadows)
    cut = _cut(threshold, scored, how)
    margins = scores - cut.at(case.outputs.labels)
    inside, outside = scored.sides
    found = rates(margins[:n_in], margins[n_in:], cut.chosen_here, level)
    result = AttackResult(
        method=method,
        scores_in=inside,
        scores_out=outside,
        cut=cut,
        accuracy=found.accuracy,
        tpr=found.tpr,
        fpr=found.fpr,
        auc=auc(inside, outside, confidence=1 - level),
        advantage=advantage(inside, outside, confidence=1 - level),
        tpr_at={f: tpr_at_fpr(inside, outside, fpr=f, confidence=1 - level) for f in fprs},
        confidence=confidence,
        knows=how.knows if cut.knows == how.knows else f"{how.knows}; {cut.knows}",
        source=how.source,
        membership=membership,
    )
    return _judge(result, claim, delta, rng)


def _judge(
    result: AttackResult, claim: PrivacyCurve | None, delta: float, rng: RngLike
) -> AttackResult:
    """The result with the ceilings of a claim, and with a bound where one follows."""
    n_in, n_out = result.scores_in.size, result.scores_out.size
    if claim is not None:
        share, fprs = n_in / (n_in + n_out), tuple(result.tpr_at)
        tops = ceilings(claim, membership=result.membership, share=share, fprs=fprs)
        result = replace(result, ceilings=tops)
    if result.membership == "randomised":
        _check_coins(n_in, n_in + n_out)
        scores = np.concatenate([result.scores_in, result.scores_out])
        members = np.arange(scores.size) < n_in
        bound = one_run(scores, members, delta=delta, confidence=result.confidence, rng=rng)
        result = replace(result, bound=bound)
    return result


def _check_coins(n_in: int, n: int) -> None:
    """Refuse numbers of members that fair coins do not give (once in a million)."""
    tail = 2 * float(special.bdtr(min(n_in, n - n_in), n, 0.5))
    if tail < 1e-6:
        raise InvalidArgument(
            f"membership='randomised' with {n_in} of {n} candidates in: fair coins do that with "
            f"probability {tail:.1e}. Give all candidates that a coin was tossed for, or pass "
            "membership='fixed'."
        )


def _cut(threshold: str | float, scored: Scored, how: Attack) -> Cut:
    if threshold == "auto":
        if how.cut is not None:
            return Cut("its own threshold", how.cut, how.knows, chosen_here=False)
        threshold = "median"
    if isinstance(threshold, str):
        _check.choice("threshold", threshold, ("auto", *RULES), "Or pass a number.")
        return RULES[threshold](scored)
    value = _check.number("threshold", threshold)
    return Cut("a fixed threshold", value, "a threshold fixed in advance", chosen_here=False)


def _check_sides(scores: FloatArray, n: int) -> FloatArray:
    remedy = "A record whose score is not a number cannot be judged."
    scores = _check.array("scores", scores, finite=False, ndim=1, remedy=remedy)
    if scores.size != n:
        raise InvalidArgument(f"the attack gave {scores.size} scores for {n} candidates.")
    return scores
