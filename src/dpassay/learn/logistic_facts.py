"""What is public about a logistic regression, and what its plans share."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from dpassay.learn.plans import LearnerPlan, PublicFacts
from dpassay.optim.losses import Logistic, Loss, Multinomial
from dpassay.privacy.budget import Budget
from dpassay.types import FloatArray


@dataclass(frozen=True)
class LogisticFacts(PublicFacts):
    """The public facts of a logistic regression; None leaves a choice to the plan's rule."""

    n_records: int
    n_features: int
    n_classes: int
    row_bound: float
    budget: Budget
    fit_intercept: bool = True
    max_iter: int | None = None
    batch_size: int | None = None
    radius: float | None = None
    penalty: float | None = None
    calibrated: bool = False
    dense: bool = True

    @property
    def loss(self) -> Loss:
        """Logistic for two classes, else multinomial."""
        return Logistic() if self.n_classes == 2 else Multinomial(self.n_classes)

    @property
    def constant(self) -> float:
        """The value of the intercept's feature where rows are taken as they are."""
        return 1.0 if self.fit_intercept else 0.0

    @property
    def full_bound(self) -> float:
        """The bound on ||[c, x]||_2."""
        return math.hypot(self.row_bound, self.constant)


class LogisticPlan(LearnerPlan, Protocol):
    """The plan of a logistic regression, which says in advance how much it will do."""

    @property
    def steps(self) -> int: ...
    @property
    def noise_multiplier(self) -> float: ...


def targets_of(codes: FloatArray, loss: Loss, dtype: Any) -> FloatArray:
    """The places of labels in the label set, as the loss takes them."""
    return codes.astype(dtype) if loss.n_scores == 1 else codes
