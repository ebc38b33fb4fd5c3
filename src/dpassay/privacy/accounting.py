"""``account``: the price of an event, by one of several methods.

Each method is a table from event types to what it needs of them; composition is then a sum (zCDP,
RDP, GDP), a convolution (PLD) or a theorem (basic, advanced, optimal). What a table lacks is
refused by name. All methods but the central limit theorem give upper bounds, so their minimum,
"best", is one as well.
"""

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy import composition, events, selection
from dpassay.privacy.curves import GDP, PLD, RDP, ZCDP, ApproxDP, Best, Curve, Numeric, PureDP
from dpassay.privacy.loss_distribution import Composition, discretise, scale
from dpassay.privacy.profiles import profiles
from dpassay.types import FloatArray, PrivacyCurve

Leaves = dict[events.Event, int]
_LARGE_ORDERS = [2048.0, 4096.0, 8192.0, 16384.0]
_INTERVAL = 1e-4
_MAX_CELLS, _SOME_CELLS = 1 << 20, 1 << 17  # of one grid, and of one of several
_TAILS = 1e-40, 1e-18, 1e-14, 1e-11, 1e-8  # masses that grids leave out; all but the first over all
_MAX_COUNT = 10**6


def account(
    event: Any,
    method: str = "best",
    *,
    assumptions: Iterable[str] = (),
    interval: float | None = None,
) -> Curve:
    """The privacy curve of an event: an upper bound, except for "gdp-clt", which is an estimate.

    Args:
        event: an event of :mod:`dpassay.privacy.events`, or one of dp-accounting.
        method: "best" (the minimum of all that apply), "pld", "rdp", "zcdp", "gdp" (Gaussian events
            only, exact), "optimal" (equal pure events only, exact), "advanced", "basic", or
            "gdp-clt" (an estimate that can lie below the truth).
        assumptions: what is taken as public (the number of records, say); kept with the curve.
        interval: grid of the PLD; none chooses it so that discretising costs less than 1e-4 of the
            loss's variance.

    Raises:
        UnsupportedEvent: the method has no price for a part of the event, which is named.

    >>> event = events.dp_sgd_event(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
    >>> account(event, "pld").epsilon(1e-5)
    1.828

    """
    event = _translated(event)
    _check.choice("method", method, METHODS)
    assumptions = tuple(assumptions)
    leaves = flatten(event)
    if method == "best":
        return _best(leaves, event, assumptions, interval)
    curve = _price(method, leaves, interval)
    return _restated(curve, event, method, assumptions)


def _translated(event: Any) -> events.Event:
    if isinstance(event, events.Event):
        return event
    if type(event).__module__.startswith("dp_accounting"):
        return events.from_dp_accounting(event)
    raise InvalidArgument(
        f"event={event!r} must be an event, for example dp_sgd_event(noise_multiplier=1.1, "
        "sampling_rate=0.01, steps=1000)."
    )


def flatten(event: events.Event) -> Leaves:
    """The uncomposed events and how often each occurs; all plain Gaussians become a single one.

    Gaussian noise composes exactly: the squares of 1/noise_multiplier add (Dong, Roth and Su 2022,
    corollary 3.3).
    """
    leaves: Leaves = {}
    for leaf, count in _walk(event, 1):
        leaves[leaf] = leaves.get(leaf, 0) + count
    gaussians = {leaf: n for leaf, n in leaves.items() if isinstance(leaf, events.Gaussian)}
    if sum(gaussians.values()) > 1:
        squared = sum(n / leaf.noise_multiplier**2 for leaf, n in gaussians.items())
        rest = {leaf: n for leaf, n in leaves.items() if leaf not in gaussians}
        leaves = {events.Gaussian(1 / math.sqrt(squared), event.neighbouring): 1} | rest
    return leaves


def _walk(event: events.Event, count: int) -> Iterable[tuple[events.Event, int]]:
    if isinstance(event, events.Repeated):
        yield from _walk(event.event, count * event.count)
    elif isinstance(event, events.Sequence):
        for part in event.events:
            yield from _walk(part, count)
    elif isinstance(event, events.Sampled):
        inner = flatten(event.event)
        if len(inner) > 1 or sum(inner.values()) > 1:
            raise UnsupportedEvent(
                f"{event!r}: a sample can be priced when one event, or Gaussians only, use it. "
                "Sample anew for each part, or state the inside as a Pure or Approx event."
            )
        yield events.Sampled(next(iter(inner)), event.sampling_rate, event.scheme), count
    elif isinstance(event, events.Selected):
        unlimited = [leaf for leaf in flatten(event.event) if isinstance(leaf, events.NonPrivate)]
        yield (unlimited[0] if unlimited else event), count
    else:
        yield event, count


def _lookup(table: dict[type, Callable[..., Any]], leaf: events.Event, method: str) -> Any:
    if type(leaf) not in table:
        raise UnsupportedEvent(
            f"method={method!r} has no price for {leaf!r}. Other methods may; see method='best'."
        )
    return table[type(leaf)](leaf)


def _price(method: str, leaves: Leaves, interval: float | None) -> Curve:
    if any(isinstance(leaf, events.NonPrivate) for leaf in leaves):
        return PureDP(math.inf)
    return _pld(leaves, interval) if method == "pld" else _PRICES[method](leaves)


def _restated(
    curve: Curve, event: events.Event, method: str, assumptions: tuple[str, ...]
) -> Curve:
    """The curve with its provenance filled in."""
    object.__setattr__(curve, "neighbouring", event.neighbouring)
    object.__setattr__(curve, "method", method)
    object.__setattr__(curve, "assumptions", assumptions)
    return curve


def _best(
    leaves: Leaves, event: events.Event, assumptions: tuple[str, ...], interval: float | None
) -> Curve:
    curves, refusals = [], []
    for method in PROOFS:
        try:
            curve = _price(method, leaves, interval)
        except UnsupportedEvent as refusal:
            refusals.append(str(refusal))
            continue
        curves.append(_restated(curve, event, method, assumptions))
        if curve.kind == "exact":
            return curve  # nothing can be below it
    if not curves:
        raise UnsupportedEvent("no method can price this event: " + " ".join(refusals))
    best = Best(tuple(curves), kind="upper bound")
    return _restated(best, event, "best", assumptions)


# What each event is as pure epsilon-DP, where it is.


def _pure_epsilon(leaf: events.Event) -> float:
    return _lookup(_PURE, leaf, "optimal")


def _sampled_pure(event: events.Sampled) -> float:
    _amplifiable(event)
    return composition.amplify(_pure_epsilon(event.event), 0.0, event.sampling_rate)[0]


def _amplifiable(event: events.Sampled) -> None:
    if event.scheme == "poisson" and event.neighbouring == "replace-one":
        raise UnsupportedEvent(
            f"{event!r}: no amplification is proved here for Poisson sampling under replace-one. "
            "State the event under add-remove, or sample without replacement."
        )


_PURE: dict[type, Callable[[Any], float]] = {
    events.Pure: lambda e: e.epsilon,
    events.BoundedRange: lambda e: e.epsilon,
    events.Laplace: lambda e: 1 / e.noise_multiplier,
    events.RandomizedResponse: lambda e: math.log1p(
        e.n_categories * (1 - e.noise_probability) / e.noise_probability
    ),
    events.Sampled: _sampled_pure,
}


def _is_pure(leaf: events.Event) -> bool:
    inner = leaf.event if isinstance(leaf, events.Sampled) else leaf
    return type(inner) in _PURE


# zCDP and Gaussian DP: one number per event, and numbers add.


_RHO: dict[type, Callable[[Any], float]] = {
    events.Gaussian: lambda e: 0.5 / e.noise_multiplier**2,
    events.ZeroConcentrated: lambda e: e.rho,
    events.BoundedRange: lambda e: min(
        composition.zcdp_of_bounded_range(e.epsilon), composition.zcdp_of_pure(e.epsilon)
    ),
}


def _rho(leaf: events.Event) -> float:
    if _is_pure(leaf) and type(leaf) not in _RHO:
        return composition.zcdp_of_pure(_pure_epsilon(leaf))
    return _lookup(_RHO, leaf, "zcdp")


def _zcdp(leaves: Leaves) -> Curve:
    return ZCDP(sum(n * _rho(leaf) for leaf, n in leaves.items()))


def _gdp(leaves: Leaves) -> Curve:
    table = {events.Gaussian: lambda e: e.noise_multiplier**-2}
    return GDP(math.sqrt(sum(n * _lookup(table, leaf, "gdp") for leaf, n in leaves.items())))


# Rényi DP: one array per event, priced by dp-accounting where it has the event.


def _rdp(leaves: Leaves) -> Curve:
    from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

    orders = np.array(list(DEFAULT_RDP_ORDERS) + _LARGE_ORDERS, float)
    return RDP(orders, _summed(leaves, orders))


def _summed(leaves: Leaves, orders: FloatArray) -> FloatArray:
    total = np.zeros_like(orders)
    for leaf, n in leaves.items():
        total += n * _divergences(leaf, orders)
    return total


def _divergences(leaf: events.Event, orders: FloatArray) -> FloatArray:
    if isinstance(leaf, events.Selected):
        return _rdp_of_selected(leaf, orders)
    if isinstance(leaf, events.ZeroConcentrated | events.Gaussian):
        return _rho(leaf) * orders
    if isinstance(leaf, events.BoundedRange):
        return np.minimum(_rho(leaf) * orders, _rdp_of_pure(leaf.epsilon, orders))
    if isinstance(leaf, events.Laplace | events.RandomizedResponse):
        return _rdp_of_dp_accounting(events.to_dp_accounting(leaf), leaf.neighbouring, orders)
    if isinstance(leaf, events.Sampled) and isinstance(leaf.event, events.Gaussian):
        return _rdp_of_sampled_gaussian(leaf, orders)
    if _is_pure(leaf):
        return _rdp_of_pure(_pure_epsilon(leaf), orders)
    raise UnsupportedEvent(f"method='rdp' has no price for {leaf!r}; it has a positive delta.")


def _rdp_of_pure(epsilon: float, orders: FloatArray) -> FloatArray:
    """log(cosh((a - 1/2) epsilon) / cosh(epsilon/2)) / (a - 1): that of randomized response."""

    def log_cosh(x: Any) -> Any:
        return np.logaddexp(x, -x) - math.log(2)

    return (log_cosh((orders - 0.5) * epsilon) - log_cosh(epsilon / 2)) / (orders - 1)


def _rdp_of_selected(leaf: events.Selected, orders: FloatArray) -> FloatArray:
    run = _summed(flatten(leaf.event), orders)
    if leaf.law == "poisson":
        deltas = account(leaf.event).delta(-np.log1p(-1 / orders))
        return selection.poisson_price(orders, run, deltas, leaf.mean)
    return selection.negative_binomial_price(orders, run, leaf.mean, leaf.shape)


def _rdp_of_sampled_gaussian(leaf: events.Sampled, orders: FloatArray) -> FloatArray:
    import dp_accounting as dpa

    _amplifiable(leaf)
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


# Privacy-loss distributions.


def _pld(leaves: Leaves, interval: float | None) -> Curve:
    found = [(profiles(leaf), n) for leaf, n in leaves.items()]
    if interval is not None:
        interval = _check.number("interval", interval, low=0, high=1, low_open=True)
        return _discretised(found, interval, _TAILS[0])
    first, *others = (_discretised(found, *grid) for grid in _grids(found))
    return replace(first, finer=tuple(others))


def _discretised(found: list[tuple[Any, int]], interval: float, tail: float) -> PLD:
    directions = [
        [(discretise(pair[side], pair[1 - side], interval, tail), n) for pair, n in found]
        for side in ((0, 1) if any(remove is not add for (remove, add), _ in found) else (0,))
    ]
    return PLD(tuple(Composition(parts) for parts in directions))


def grid(event: events.Event) -> float:
    """The interval that ``account(event, "pld")`` chooses; the first, if there are several."""
    return _grids([(profiles(leaf), n) for leaf, n in flatten(event).items()])[0][0]


def _grids(found: list[tuple[Any, int]]) -> list[tuple[float, float]]:
    """Intervals, and the mass of one event that each takes for infinite.

    An interval h should have h²/4, what rounding adds to a variance, at most 1e-4 of it. Where rare
    losses are so large that no grid of that interval holds them, as at tiny sampling rates, there
    are several: the first holds all losses, the next are finer and leave out rare ones, which
    matter at deltas as small as they are rare. Each is an upper bound, and so is the least of them.
    """
    grids: list[tuple[float, float]] = []
    steps = sum(n for _, n in found)
    for tail in (_TAILS[0], *(tail / steps for tail in _TAILS[1:])):
        scales = [(*scale(remove, add, tail), n) for (remove, add), n in found]
        variance = sum(n * v for _, v, n in scales)
        fine = min(_INTERVAL, 0.02 * math.sqrt(variance / steps)) if variance > 0 else _INTERVAL
        wanted = max(fine, 20 * math.sqrt(variance) / _MAX_CELLS)
        width = max(width for width, _, _ in scales)
        if width / _SOME_CELLS <= 2 * wanted and not grids:
            return [(max(wanted, width / _MAX_CELLS), tail)]
        interval = max(wanted, width / _SOME_CELLS)
        if not grids or interval < grids[-1][0] / 2:
            grids.append((interval, tail))
        if interval <= 2 * wanted:
            break
    return grids


# Theorems on (epsilon, delta).


def _own_curve(leaf: events.Event) -> PrivacyCurve:
    """What one event guarantees by itself."""
    if _is_pure(leaf):
        return PureDP(_pure_epsilon(leaf))
    if isinstance(leaf, events.Sampled):
        _amplifiable(leaf)
        inner, q = _own_curve(leaf.event), leaf.sampling_rate

        def amplified(delta: FloatArray) -> FloatArray:
            return composition.amplified(inner.epsilon(np.minimum(delta / q, 1.0)), q)

        return Numeric("amplified", amplified)
    return _lookup(_OWN, leaf, "basic")


_OWN: dict[type, Callable[[Any], PrivacyCurve]] = {
    events.Gaussian: lambda e: GDP(1 / e.noise_multiplier),
    events.Approx: lambda e: ApproxDP(e.epsilon, e.delta),
    events.ZeroConcentrated: lambda e: ZCDP(e.rho),
    events.Selected: lambda e: _rdp({e: 1}),
}


def _spend(leaves: Leaves, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Epsilons of each event, a row each, when ``delta`` is shared out among them; their counts.

    Pure events need none, (epsilon, delta) events take theirs, the others split what is left
    equally. Where it does not suffice, epsilon is infinite.
    """
    fixed: dict[events.Event, float] = {
        leaf: leaf.delta for leaf in leaves if isinstance(leaf, events.Approx)
    }
    free = [leaf for leaf in leaves if not _is_pure(leaf) and leaf not in fixed]
    left = delta - sum(leaves[leaf] * d for leaf, d in fixed.items())
    enough = left > 0 if free else left >= 0
    share = np.maximum(left, 0.0) / max(sum(leaves[leaf] for leaf in free), 1)
    shares = [share if leaf in free else np.full_like(delta, fixed.get(leaf, 0)) for leaf in leaves]
    spent = [_own_curve(leaf).epsilon(d) for leaf, d in zip(leaves, shares, strict=True)]
    return np.where(enough, np.array(spent), np.inf), np.array(list(leaves.values()), float)


def _basic(leaves: Leaves) -> Curve:
    if all(_is_pure(leaf) for leaf in leaves):
        return PureDP(
            sum(n * _pure_epsilon(leaf) for leaf, n in leaves.items()), kind="upper bound"
        )
    for leaf in leaves:
        _own_curve(leaf)  # refuse now what has no price

    def epsilon_at(delta: FloatArray) -> FloatArray:
        epsilons, counts = _spend(leaves, delta)
        return counts @ epsilons

    return Numeric("basic composition", epsilon_at)


def _advanced(leaves: Leaves) -> Curve:
    for leaf in leaves:
        _own_curve(leaf)

    basic = _basic(leaves)
    fixed = sum(n * leaf.delta for leaf, n in leaves.items() if isinstance(leaf, events.Approx))
    # What is left of delta is the theorem's slack, or half of it where events need some to be
    # (epsilon, delta)-DP at all.
    frugal = all(_is_pure(leaf) or isinstance(leaf, events.Approx) for leaf in leaves)

    def epsilon_at(delta: FloatArray) -> FloatArray:
        slack = (delta - fixed) * (1.0 if frugal else 0.5)
        usable = (slack > 0) & (slack < 1)
        slack = np.where(usable, slack, 0.5)
        epsilons, counts = _spend(leaves, np.where(usable, delta - slack, delta))
        theorem = composition.advanced_epsilon(epsilons, counts, slack)
        return np.minimum(np.where(usable, theorem, np.inf), basic.epsilon(delta))

    return Numeric("advanced composition", epsilon_at)


def _optimal(leaves: Leaves) -> Curve:
    levels = {_pure_epsilon(leaf) for leaf in leaves}
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


# The central limit theorem.


def _clt_laplace(event: events.Laplace) -> float:
    """mu² of one Laplace event: 4 KL² / Var, from the law of its loss."""
    e = 1 / event.noise_multiplier
    kl = e + math.expm1(-e)
    second = e * e * (1 + math.exp(-e)) / 2
    second += ((2 * e * e - 8 * e + 16) - (2 * e * e + 8 * e + 16) * math.exp(-e)) / 4
    return 4 * kl * kl / (second - kl * kl)


def _clt_sampled(event: events.Sampled) -> float:
    if not isinstance(event.event, events.Gaussian):
        raise UnsupportedEvent(f"method='gdp-clt' has no price for {event!r}.")
    _amplifiable(event)
    limit = {
        "poisson": composition.clt_mu_poisson,
        "without-replacement": composition.clt_mu_uniform,
    }
    return limit[event.scheme](event.event.noise_multiplier, event.sampling_rate, 1) ** 2


_CLT: dict[type, Callable[[Any], float]] = {
    events.Gaussian: lambda e: e.noise_multiplier**-2,
    events.Pure: lambda e: (2 * math.sinh(e.epsilon / 2)) ** 2,
    events.Laplace: _clt_laplace,
    events.Sampled: _clt_sampled,
}


def _gdp_clt(leaves: Leaves) -> Curve:
    squared = sum(n * _lookup(_CLT, leaf, "gdp-clt") for leaf, n in leaves.items())
    return GDP(math.sqrt(squared), kind="estimate")


_PRICES: dict[str, Callable[[Leaves], Curve]] = {
    "gdp": _gdp,
    "pld": lambda leaves: _pld(leaves, None),
    "rdp": _rdp,
    "zcdp": _zcdp,
    "optimal": _optimal,
    "advanced": _advanced,
    "basic": _basic,
    "gdp-clt": _gdp_clt,
}
PROOFS = ("gdp", "pld", "rdp", "zcdp", "optimal", "advanced", "basic")
METHODS = ("best", *_PRICES)
