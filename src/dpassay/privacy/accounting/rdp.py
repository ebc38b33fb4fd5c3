"""Rényi DP: one divergence per order and event, and these add."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay._special.margins import LEAST, down, up
from dpassay.errors import UnsupportedEvent
from dpassay.privacy import events, renyi, sampled_gaussian, selection
from dpassay.privacy.accounting.leaves import Leaves, PricedSelection, check_amplified
from dpassay.privacy.accounting.pure import is_pure, pure_epsilon
from dpassay.privacy.accounting.zcdp import rho
from dpassay.privacy.curves import RDP, Curve
from dpassay.types import FloatArray

# Tenths up to 11, whole numbers to 63, then powers of two.
ORDERS = np.array(
    [1 + k / 10 for k in range(1, 100)] + [*range(11, 64)] + [2.0**k for k in range(7, 15)]
)


def price(leaves: Leaves) -> Curve:
    """An upper bound: the Rényi divergences add at every order, and the best order wins."""
    return RDP(ORDERS, divergences(leaves, ORDERS))


def divergences(leaves: Leaves, orders: FloatArray) -> FloatArray:
    """Upper bounds on the Rényi divergences of all leaves together, one for each order."""
    total = np.zeros_like(orders)
    for leaf, n in leaves.items():
        total += up(n * _of_leaf(leaf, orders))
    return up(total)


def _of_leaf(leaf: events.Event, orders: FloatArray) -> FloatArray:
    if type(leaf) in _TABLE:
        return _TABLE[type(leaf)](leaf, orders)
    if is_pure(leaf):
        return renyi.of_randomized_response(pure_epsilon(leaf), 2, orders)
    raise UnsupportedEvent(f"method='rdp' has no price for {leaf!r}; it has a positive delta.")


def _price_concentrated(leaf: events.Event, orders: FloatArray) -> FloatArray:
    each = rho(leaf)
    return np.maximum(up(each * orders), LEAST) if each > 0 else np.zeros_like(orders)


def _price_bounded_range(leaf: events.BoundedRange, orders: FloatArray) -> FloatArray:
    by_epsilon = renyi.of_randomized_response(leaf.epsilon, 2, orders)
    return np.minimum(_price_concentrated(leaf, orders), by_epsilon)


def _laplace(leaf: events.Laplace, orders: FloatArray) -> FloatArray:
    return renyi.of_laplace(pure_epsilon(leaf), orders)


def _price_response(leaf: events.RandomizedResponse, orders: FloatArray) -> FloatArray:
    return renyi.of_randomized_response(pure_epsilon(leaf), leaf.n_categories, orders)


def _price_sampled(leaf: events.Sampled, orders: FloatArray) -> FloatArray:
    check_amplified(leaf)
    if isinstance(leaf.event, events.Gaussian):
        doubled = leaf.scheme == "without-replacement"
        return sampled_gaussian.divergences(
            leaf.event.noise_multiplier, leaf.sampling_rate, orders, doubled=doubled
        )
    if is_pure(leaf):
        return renyi.of_randomized_response(pure_epsilon(leaf), 2, orders)
    raise UnsupportedEvent(f"method='rdp' has no price for {leaf!r}.")


def _price_selected(leaf: PricedSelection, orders: FloatArray) -> FloatArray:
    run, selected = divergences(leaf.run, orders), leaf.selected
    if selected.law == "poisson":
        # At log(a / (a - 1)), rounded down: delta falls.
        at: FloatArray = down(np.log1p(1 / (orders - 1)))
        return selection.poisson_price(orders, run, leaf.price_run().delta(at), selected.mean)
    return selection.negative_binomial_price(orders, run, selected.mean, selected.shape)


_TABLE: dict[type, Callable[[Any, FloatArray], FloatArray]] = {
    events.Gaussian: _price_concentrated,
    events.ZeroConcentrated: _price_concentrated,
    events.BoundedRange: _price_bounded_range,
    events.Laplace: _laplace,
    events.RandomizedResponse: _price_response,
    events.Sampled: _price_sampled,
    PricedSelection: _price_selected,
}
