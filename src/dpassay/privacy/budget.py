"""What a private algorithm may spend, and what it decides to do with it."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from dpassay import _check
from dpassay.privacy.calibration import calibrate
from dpassay.privacy.curves import ApproxDP
from dpassay.privacy.events import Event, ZeroConcentrated
from dpassay.types import Neighbouring


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) that may be spent, and the neighbours it is meant for."""

    epsilon: float
    delta: float
    neighbouring: Neighbouring

    @property
    def is_private(self) -> bool:
        """False where epsilon is infinite: the fit is then the non-private one."""
        return self.epsilon < math.inf

    @property
    def target(self) -> ApproxDP:
        """The statement that the noise is calibrated to."""
        return ApproxDP(self.epsilon, self.delta, neighbouring=self.neighbouring)

    @property
    def record_changes(self) -> int:
        """How many terms of a sum over records differ: 1, or 2 where one replaces another."""
        return {"add-remove": 1, "replace-one": 2}[self.neighbouring]

    @property
    def rho(self) -> float:
        """The largest rho whose zero-concentrated curve stays inside the target."""
        return 1 / calibrate(
            lambda noise: ZeroConcentrated(1 / noise, self.neighbouring), self.target
        )


class Plan(Protocol):
    """A computation that is decided from public quantities alone, before any data are touched.

    Every private learner and synthesizer goes through the same three steps: it makes a plan from
    public quantities (the budget, n, declared bounds, a schema), states the plan's event, and only
    then computes from the data, as planned. What was stated cannot depend on the data, then.
    """

    @property
    def event(self) -> Event:
        """What carrying the plan out will do to the data."""
        ...


def budget(epsilon: Any, delta: Any, neighbouring: Any) -> Budget:
    """The budget (epsilon, delta) under a neighbouring relation; an error if one is invalid."""
    return Budget(
        _check.epsilon(epsilon, positive=True),
        _check.delta(delta),
        _check.neighbouring(neighbouring),  # type: ignore[arg-type]
    )
