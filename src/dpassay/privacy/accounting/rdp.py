"""Rényi DP: one divergence per order and event, and these add."""

import logging
import math
from typing import Any

import numpy as np

from dpassay.errors import UnsupportedEvent
from dpassay.privacy import events, selection
from dpassay.privacy.accounting.leaves import Leaves, check_amplified, flatten
from dpassay.privacy.accounting.pure import is_pure, pure_epsilon
from dpassay.privacy.accounting.zcdp import rho
from dpassay.privacy.curves import RDP, Curve
from dpassay.types import FloatArray

_LARGE_ORDERS = [2048.0, 4096.0, 8192.0, 16384.0]


def price(leaves: Leaves) -> Curve:
    """An upper bound: the Rényi divergences add at every order, and the best order wins."""
    from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

    orders = np.array(list(DEFAULT_RDP_ORDERS) + _LARGE_ORDERS, float)
    return RDP(orders, divergences(leaves, orders))


def divergences(leaves: Leaves, orders: FloatArray) -> FloatArray:
    """Upper bounds on the Rényi divergences of all leaves together, one for each order."""
    total = np.zeros_like(orders)
    for leaf, n in leaves.items():
        total += n * _of_leaf(leaf, orders)
    return total


def _of_leaf(leaf: events.Event, orders: FloatArray) -> FloatArray:
    if isinstance(leaf, events.Selected):
        return _rdp_of_selected(leaf, orders)
    if isinstance(leaf, events.ZeroConcentrated | events.Gaussian):
        return rho(leaf) * orders
    if isinstance(leaf, events.BoundedRange):
        return np.minimum(rho(leaf) * orders, _rdp_of_pure(leaf.epsilon, orders))
    if isinstance(leaf, events.Laplace | events.RandomizedResponse):
        return _rdp_of_dp_accounting(events.to_dp_accounting(leaf), leaf.neighbouring, orders)
    if isinstance(leaf, events.Sampled) and isinstance(leaf.event, events.Gaussian):
        return _rdp_of_sampled_gaussian(leaf, orders)
    if is_pure(leaf):
        return _rdp_of_pure(pure_epsilon(leaf), orders)
    raise UnsupportedEvent(f"method='rdp' has no price for {leaf!r}; it has a positive delta.")


def _rdp_of_pure(epsilon: float, orders: FloatArray) -> FloatArray:
    """log(cosh((a - 1/2) epsilon) / cosh(epsilon/2)) / (a - 1): that of randomized response."""

    def log_cosh(x: Any) -> Any:
        return np.logaddexp(x, -x) - math.log(2)

    return (log_cosh((orders - 0.5) * epsilon) - log_cosh(epsilon / 2)) / (orders - 1)


def _rdp_of_selected(leaf: events.Selected, orders: FloatArray) -> FloatArray:
    run = divergences(flatten(leaf.event), orders)
    if leaf.law == "poisson":
        from dpassay.privacy.accounting import account

        deltas = account(leaf.event).delta(-np.log1p(-1 / orders))
        return selection.poisson_price(orders, run, deltas, leaf.mean)
    return selection.negative_binomial_price(orders, run, leaf.mean, leaf.shape)


def _rdp_of_sampled_gaussian(leaf: events.Sampled, orders: FloatArray) -> FloatArray:
    import dp_accounting as dpa

    check_amplified(leaf)
    inner = events.to_dp_accounting(leaf.event)
    if leaf.scheme == "poisson":
        sampled = dpa.PoissonSampledDpEvent(leaf.sampling_rate, inner)
    else:
        # Only the share enters the price.
        sampled = dpa.SampledWithoutReplacementDpEvent(1, leaf.sampling_rate, inner)  # type: ignore[arg-type]
    # One term per order makes large ones dear, and sampling rarely needs them: leave them out.
    usable = orders < _LARGE_ORDERS[0]
    divergences = np.full_like(orders, np.inf)
    divergences[usable] = _rdp_of_dp_accounting(sampled, leaf.neighbouring, orders[usable])
    return divergences


def _rdp_of_dp_accounting(event: Any, neighbouring: str, orders: FloatArray) -> FloatArray:
    import dp_accounting as dpa

    relation = {
        "add-remove": dpa.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace-one": dpa.NeighboringRelation.REPLACE_ONE,
    }[neighbouring]
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(
        logging.ERROR
    )  # it warns of orders that it leaves out, which only costs tightness
    try:
        return dpa.rdp.RdpAccountant(list(orders), relation).compose(event).rdp
    finally:
        logger.setLevel(level)
