"""What a measured domain leaves of a budget to the synthesizer that is fitted on it.

What the synthesizer may spend is fixed before the domain is known, and so is the event that stands
for it in the statement of the whole: a method whose price depends on the domain that was found
(its number of cells, say) could otherwise be steered by the data.
"""

import math
from dataclasses import dataclass

from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, Approx, Event, Gaussian, account
from dpassay.privacy.budget import Budget
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.privacy.gaussian import epsilon_of, mu_of
from dpassay.synth.tables.domains import DOMAIN_DELTA, MeasuredDomain

# Room for rounding: what is spent stays below what is stated, and that below the budget. Solving
# for µ and back is accurate to some 1e-12, of which this is a thousand times.
_ROOM = 1 - 1e-9


@dataclass(frozen=True)
class Remainder:
    """The budget of a synthesizer after its domain was measured.

    Attributes:
        domain: what was measured.
        whole: the budget of domain and synthesizer together.
        budget: what the synthesizer may spend.
        promise: the event that stands for whatever the synthesizer does with that.

    """

    domain: MeasuredDomain
    whole: Budget
    budget: Budget
    promise: Gaussian | Approx

    def state(self, event: Event, method: str) -> Event:
        """The event of domain and synthesizer together, if the synthesizer keeps the promise.

        Raises:
            InvalidArgument: the planned event costs more than the promise; nothing was run.

        """
        if event.neighbouring != self.promise.neighbouring or not self._is_kept_by(event):
            raise InvalidArgument(
                f"method={method} spends more than the budget it is given, so that nothing can be "
                "promised of it with a measured domain. Declare the domain."
            )
        return EventSequence((self.domain.event, self.promise))

    def _is_kept_by(self, event: Event) -> bool:
        if isinstance(self.promise, Gaussian):
            spent = account(event, "gdp")
            return isinstance(spent, GDP) and spent.mu * self.promise.noise_multiplier <= 1
        return account(event).epsilon(self.promise.delta) <= self.promise.epsilon


def split_budget(
    whole: Budget, domain_epsilon: float, event: Event, *, gaussian: bool
) -> tuple[Budget, Gaussian | Approx]:
    """What a domain that costs ``domain_epsilon`` leaves of a budget, and the event for it.

    Args:
        whole: the budget of domain and synthesizer together.
        domain_epsilon: what the domain is allowed to cost by itself.
        event: of the domain, which is fixed before it is measured.
        gaussian: whether the synthesizer adds Gaussian noise and nothing else. Squares of µ then
            add up; otherwise (epsilon, delta) of the two parts do.

    """
    relation = whole.neighbouring
    if not gaussian:
        delta = (1 - DOMAIN_DELTA) * whole.delta * _ROOM
        left = Budget(whole.epsilon - domain_epsilon, delta, relation)
        return left, Approx(left.epsilon, left.delta, relation)
    apart, mu = _find_spent(event)
    delta = whole.delta - apart
    own = math.sqrt(float(mu_of(whole.epsilon, delta)) ** 2 - mu**2) * _ROOM
    left = Budget(float(epsilon_of(delta, own * _ROOM)), delta, relation)
    return left, Gaussian(1 / own, relation)


def _find_spent(event: Event) -> tuple[float, float]:
    """The delta of rare values and the µ of the noise, of a measured domain's event."""
    parts = event.events if isinstance(event, EventSequence) else (event,)
    apart = sum(part.delta for part in parts if isinstance(part, Approx))
    return apart, sum(1 / part.noise_multiplier for part in parts if isinstance(part, Gaussian))
