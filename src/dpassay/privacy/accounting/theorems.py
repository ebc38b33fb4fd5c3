"""Composition theorems on (epsilon, delta): basic, advanced and optimal."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay._special.margins import (
    CLOSED_FORM,
    UNIT,
    allow_request,
    down,
    product_up,
    products_up,
    up,
)
from dpassay.errors import UnsupportedEvent
from dpassay.privacy import composition, events
from dpassay.privacy.accounting import rdp
from dpassay.privacy.accounting.leaves import Leaves, PricedSelection, check_amplified, look_up
from dpassay.privacy.accounting.pure import is_pure, pure_epsilon
from dpassay.privacy.combined import Numeric
from dpassay.privacy.curves import GDP, ZCDP, ApproxDP, Curve, PureDP
from dpassay.types import FloatArray, PrivacyCurve

_MAX_COUNT = 10**6


def _own_curve(leaf: events.Event) -> PrivacyCurve:
    """What one event guarantees by itself."""
    if is_pure(leaf):
        return PureDP(pure_epsilon(leaf))
    if isinstance(leaf, events.Sampled):
        check_amplified(leaf)
        inner, q = _own_curve(leaf.event), leaf.sampling_rate

        def of_epsilon(epsilon: FloatArray) -> FloatArray:
            inside = down(composition.undo_amplification(epsilon, q))
            return np.minimum(products_up(q, inner.delta(inside)), 1.0)

        def amplify(delta: FloatArray) -> FloatArray:
            return composition.amplify_unchecked(inner.epsilon(np.minimum(delta / q, 1.0)), q)

        return Numeric("amplified", amplify, of_epsilon)
    return look_up(_OWN, leaf, "basic")


_OWN: dict[type, Callable[[Any], PrivacyCurve]] = {
    events.Gaussian: lambda e: GDP(1 / e.noise_multiplier),
    events.Approx: lambda e: ApproxDP(e.epsilon, e.delta),
    events.ZeroConcentrated: lambda e: ZCDP(e.rho),
    PricedSelection: lambda e: rdp.price({e: 1}),
}


def _spend(leaves: Leaves, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Epsilons of each event, a row each, when ``delta`` is shared out among them; their counts.

    Pure events need none, (epsilon, delta) events take theirs, the others split what is left
    equally. Where it does not suffice, epsilon is infinite.
    """
    fixed: dict[events.Event, float] = {
        leaf: leaf.delta for leaf in leaves if isinstance(leaf, events.Approx)
    }
    free = [leaf for leaf in leaves if not is_pure(leaf) and leaf not in fixed]
    # A sum of stated deltas is met to rounding: thrice 1e-7 is not the float 3e-7.
    left = allow_request(delta) - sum(leaves[leaf] * d for leaf, d in fixed.items())
    enough = left > 0 if free else left >= 0
    share = np.maximum(left, 0.0) / max(sum(leaves[leaf] for leaf in free), 1)
    shares = [share if leaf in free else np.full_like(delta, fixed.get(leaf, 0)) for leaf in leaves]
    spent = [_own_curve(leaf).epsilon(d) for leaf, d in zip(leaves, shares, strict=True)]
    return np.where(enough, np.array(spent), np.inf), np.array(list(leaves.values()), float)


def basic(leaves: Leaves) -> Curve:
    """An upper bound: the epsilons add and so do the deltas."""
    if all(is_pure(leaf) for leaf in leaves):
        total = math.fsum(product_up(n, pure_epsilon(leaf)) for leaf, n in leaves.items())
        return PureDP(up(total) if len(leaves) > 1 else total, kind="upper bound")
    for leaf in leaves:
        _own_curve(leaf)  # refuse now what has no price
    if sum(leaves.values()) == 1:
        alone = _own_curve(next(iter(leaves)))
        return Numeric("basic composition", alone.epsilon, alone.delta)

    def epsilon_at(delta: FloatArray) -> FloatArray:
        epsilons, counts = _spend(leaves, delta)
        return up(counts @ epsilons, CLOSED_FORM + 4 * UNIT * len(counts))

    return Numeric("basic composition", epsilon_at)


def advanced(leaves: Leaves) -> Curve:
    """An upper bound: advanced composition, never above the basic one."""
    simple = basic(leaves)
    if sum(leaves.values()) == 1:
        return simple
    fixed = sum(n * leaf.delta for leaf, n in leaves.items() if isinstance(leaf, events.Approx))
    # What is left of delta is the theorem's slack, or half of it where events need some to be
    # (epsilon, delta)-DP at all.
    frugal = all(is_pure(leaf) or isinstance(leaf, events.Approx) for leaf in leaves)

    def epsilon_at(delta: FloatArray) -> FloatArray:
        slack = (delta - fixed) * (1.0 if frugal else 0.5)
        usable = (slack > 0) & (slack < 1)
        slack = np.where(usable, slack, 0.5)
        epsilons, counts = _spend(leaves, np.where(usable, delta - slack, delta))
        theorem = composition.advanced_epsilon(epsilons, counts, slack)
        return np.minimum(np.where(usable, theorem, np.inf), simple.epsilon(delta))

    return Numeric("advanced composition", epsilon_at)


def optimal(leaves: Leaves) -> Curve:
    """An upper bound, exact for equal events of which only the epsilon is known."""
    levels = {pure_epsilon(leaf) for leaf in leaves}
    if len(levels) > 1:
        raise UnsupportedEvent(
            f"method='optimal' has a closed form for equal events only; these have epsilons "
            f"{sorted(levels)}. Use method='pld'."
        )
    count = sum(leaves.values())
    if count > _MAX_COUNT:
        raise UnsupportedEvent(
            f"method='optimal' takes {_MAX_COUNT} events at the most, one term each; {count} of "
            f"{next(iter(leaves))!r} are priced by 'pld' and 'zcdp'."
        )
    name = f"{count} optimally composed events of epsilon={next(iter(levels)):g}"
    return Numeric(name, delta_at=composition.optimal(levels.pop(), count))
