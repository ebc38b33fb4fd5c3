"""What a private algorithm may spend, and what it decides to do with it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.privacy.calibration import calibrate, largest_epsilon
from dpassay.privacy.curves import ApproxDP
from dpassay.privacy.events import Event, ZeroConcentrated
from dpassay.privacy.risk import Risk
from dpassay.types import Neighbouring

DEFAULT_EPSILON = 1.0
"""What learners and synthesizers spend if nothing is said."""


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


def budget(epsilon: Any, delta: Any, neighbouring: Any, risk: Any = None) -> Budget:
    """The budget (epsilon, delta) under a neighbouring relation; an error if one is invalid.

    Where a risk stands in place of epsilon, which is then its default, :func:`keep_risk` finds it.
    """
    allowed = Budget(
        _check.epsilon(epsilon, positive=True),
        _check.delta(delta),
        _check.neighbouring(neighbouring),  # type: ignore[arg-type]
    )
    if risk is not None:
        _check_risk(risk, allowed)
    return allowed


def _check_risk(risk: Any, allowed: Budget) -> None:
    must_be = "an Advantage, AttackRate or BayesError of dpassay.privacy."
    relation = _check.instance("risk", risk, Risk, must_be).neighbouring
    if allowed.epsilon != DEFAULT_EPSILON:
        raise InvalidArgument(
            f"epsilon={allowed.epsilon:g} and risk={risk!r}: only one can be met. Leave epsilon "
            "out; it is found from the risk."
        )
    if relation != allowed.neighbouring:
        raise InvalidArgument(
            f"risk.neighbouring={relation!r} must be that of the fit, {allowed.neighbouring!r}: "
            "pass neighbouring= to the risk, or to both."
        )


def keep_risk(risk: Risk | None, allowed: Budget, state_event: Callable[[Budget], Event]) -> Budget:
    """The budget; or, where a risk stands in place of epsilon, the largest one that keeps it.

    Args:
        risk: what an attacker may gain at most; None leaves the budget as it is.
        allowed: the budget, whose epsilon is replaced.
        state_event: what would be done with a budget, decided from public quantities alone.

    """
    if risk is None:
        return allowed
    epsilon = largest_epsilon(
        lambda epsilon: state_event(replace(allowed, epsilon=epsilon)), risk, allowed.delta
    )
    return replace(allowed, epsilon=epsilon)
