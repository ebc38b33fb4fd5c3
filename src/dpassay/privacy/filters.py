"""Budgets that hold where even *how much* is spent next depends on earlier results.

Accountants price a list of events that was fixed beforehand; each event may use earlier results,
but its amount may not depend on them. A filter lifts that: it adds one number per event and refuses
the first event that would bring the sum above its limit. Which number is added must be settled
before the first result is seen, so that a filter is chosen when a ledger is made.

- ``"renyi"``: the Rényi divergence at one order (Feldman and Zrnic 2021). Any event
  with a Rényi price is taken. The order is the one at which the most Gaussian noise fits into the
  budget; each order alone is a valid filter, several at once are not, since results could decide
  which one is kept to.
- ``"gaussian"``: mu² (Smith and Thakurta 2022). It takes Gaussian noise alone and loses
  nothing against the accountant.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from dpassay._special.margins import up
from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy.accounting import account, flatten
from dpassay.privacy.accounting.leaves import price_runs
from dpassay.privacy.accounting.rdp import ORDERS, divergences
from dpassay.privacy.curves import GDP, RDP, ApproxDP
from dpassay.privacy.events import Event

Adaptive = Literal["renyi", "gaussian"]


@dataclass(frozen=True)
class Filter:
    """A number per event, whose sum decides whether one more event fits.

    Args:
        kind: "renyi" or "gaussian".
        order: of the Rényi divergence; None for "gaussian".

    """

    kind: Adaptive
    order: float | None = None

    def cost(self, event: Event) -> float:
        """What the event adds to the sum: an upper bound.

        Raises:
            UnsupportedEvent: the filter has no price for it.

        """
        return _cost(self.kind, self.order, event)

    def add_up(self, spent: Iterable[Event]) -> float:
        """The sum of the costs of events, rounded up."""
        return float(up(math.fsum(map(self.cost, spent))))

    def epsilon(self, total: float, delta: float) -> float:
        """The epsilon at this delta that a sum of costs proves: an upper bound."""
        if total == 0:
            return 0.0
        if self.kind == "renyi":
            return float(RDP([self.order], [total]).epsilon(delta))  # type: ignore[arg-type]
        return float(GDP(float(up(math.sqrt(total)))).epsilon(delta))


@lru_cache(4096)  # a ledger asks for all of its entries each time
def _cost(kind: Adaptive, order: float | None, event: Event) -> float:
    if kind == "renyi":
        leaves = price_runs(flatten(event), account)
        return float(divergences(leaves, np.array([order]))[0])
    curve = account(event, "gdp")
    if not isinstance(curve, GDP):
        raise UnsupportedEvent(f"a ledger for Gaussian noise has no price for {event!r}.")
    return float(up(curve.mu**2))


def make_filter(kind: Any, budget: ApproxDP | None) -> Filter:
    """The filter of a ledger with this budget; an error where there can be none."""
    if kind not in ("renyi", "gaussian"):
        raise InvalidArgument(f"adaptive={kind!r} must be 'renyi', 'gaussian' or None.")
    if budget is None or not budget.delta_upper > 0:
        raise InvalidArgument(
            f"adaptive={kind!r} needs a budget with delta above 0, e.g. ApproxDP(3.0, 1e-6). With "
            "delta=0 the epsilons add up whatever they depend on; leave adaptive out."
        )
    if kind == "gaussian":
        return Filter("gaussian")
    return Filter("renyi", _best_order(budget))


def _best_order(budget: ApproxDP) -> float:
    """The order at which the largest rho fits into the budget; any order would be valid.

    A divergence of rho times the order costs an epsilon of that plus what the conversion adds,
    which hardly depends on rho.
    """
    epsilon, delta = budget.epsilon_upper, budget.delta_upper
    added = [float(RDP([order], [epsilon]).epsilon(delta)) - epsilon for order in ORDERS]  # type: ignore[arg-type]
    return float(ORDERS[int(np.argmax((epsilon - np.array(added)) / ORDERS))])
