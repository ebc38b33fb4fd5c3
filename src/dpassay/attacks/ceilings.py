"""What a claim allows a membership attack to reach, for the way the members were chosen.

If membership is a coin that moves between neighbours of the claim's relation, the claim's ROC curve
g = 1 - f bounds the attack's. If a training set of fixed size is drawn and non-members come from
the same population, a member x_i and a fresh record x' change places: (A(D), x_i) against
(A(D), x') has the law of (A(D), x_i) against (A(D with x' for x_i), x_i). That is replacing one
record (Yeom et al. 2018). A claim for adding or removing one covers it in two steps: g(g(.)) (Dong,
Roth and Su 2022, theorem 2.14). All of this bounds averages over trainings and draws: one model
may be above by chance.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dpassay.types import FloatArray, PrivacyCurve

Membership = Literal["fixed", "randomised"]
MEMBERSHIPS: tuple[Membership, ...] = get_args(Membership)
_CELLS = 8192


@dataclass(frozen=True)
class AttackCeilings:
    """Upper bounds on what any attack reaches on average, if the claim holds.

    Attributes:
        accuracy: the share of right guesses over all records, members being this share of them.
        auc: the area under the ROC curve.
        advantage: true-positive minus false-positive rate.
        tpr_at: the true-positive rate by false-positive rate.
        relation: the step between worlds that they are for.

    """

    accuracy: float
    auc: float
    advantage: float
    tpr_at: dict[float, float]
    relation: str


def ceilings(
    claim: PrivacyCurve, *, membership: str, share: float, fprs: tuple[float, ...]
) -> AttackCeilings:
    """Upper bounds for a claim, for members that are this share of all candidates.

    Maxima over false-positive rates are taken on cells [a, b] of a grid: g is increasing, so that
    g(b) bounds it there and a the false-positive rate; they are high by 1/8192 at most.
    """
    two_steps = membership == "fixed" and claim.neighbouring == "add-remove"

    def roc(fpr: FloatArray) -> FloatArray:
        once = 1 - np.asarray(claim.tradeoff(fpr))
        return 1 - np.asarray(claim.tradeoff(once)) if two_steps else once

    grid = np.linspace(0, 1, _CELLS + 1)
    best = roc(grid[1:])
    right = share * best + (1 - share) * (1 - grid[:-1])
    return AttackCeilings(
        accuracy=min(float(right.max()), 1.0),
        auc=min(float(best.mean()), 1.0),
        advantage=min(float((best - grid[:-1]).max()), 1.0),
        tpr_at={fpr: float(roc(np.array([fpr]))[0]) for fpr in fprs},
        relation="one record added and another removed" if two_steps else claim.neighbouring,
    )
