"""Privacy curves: each states delta for *every* epsilon, so that a claim can be tested anywhere.

A curve is the whole of what its statement implies. Pure epsilon-DP, for example, also limits delta
at smaller epsilons: delta(x) = (e^epsilon - e^x) / (e^epsilon + 1) for x < epsilon, not 1.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from dpassay.privacy._search import smallest_true
from dpassay.privacy.loss_distribution import Composition
from dpassay.privacy.tradeoff import Lines, supporting_lines
from dpassay.types import FloatArray, Kind, Neighbouring, PrivacyCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("exact", "upper bound", "estimate")
_EPSILON_MAX = 1e6


@dataclass(frozen=True)
class Curve:
    """Base of the curves: checks arguments, then calls ``_delta``, ``_epsilon``, ``_tradeoff``.

    A kind of curve defines ``_delta``; the other two follow from it, on the safe side, unless it
    has a closed form. All three take and return one-dimensional arrays.
    """

    neighbouring: Neighbouring = field(default="add-remove", kw_only=True)
    kind: Kind = field(default="exact", kw_only=True)
    method: str = field(default="stated", kw_only=True)
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        _check.neighbouring(self.neighbouring)
        _check.choice("kind", self.kind, KINDS)
        object.__setattr__(self, "assumptions", tuple(self.assumptions))

    def delta(self, epsilon: ArrayLike) -> Any:
        """The smallest delta (or an upper bound on it, see ``kind``) at each epsilon >= 0."""
        x = _check.array("epsilon", epsilon, low=0, finite=False)
        return _like(x, np.clip(self._delta(np.atleast_1d(x).ravel()), 0.0, 1.0))

    def epsilon(self, delta: ArrayLike) -> Any:
        """The smallest epsilon (or an upper bound on it) at each delta in [0, 1]; may be inf."""
        x = _check.array("delta", delta, low=0, high=1)
        return _like(x, np.maximum(self._epsilon(np.atleast_1d(x).ravel()), 0.0))

    def tradeoff(self, fpr: ArrayLike) -> Any:
        """The least false-negative rate of any attack with these false-positive rates.

        A curve that is an upper bound on delta gives a lower bound on this rate.
        """
        x = _check.array("fpr", fpr, low=0, high=1)
        return _like(x, np.clip(self._tradeoff(np.atleast_1d(x).ravel()), 0.0, 1.0))

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        high = np.full_like(delta, _EPSILON_MAX)
        root = smallest_true(lambda x: self._delta(x) <= delta, np.zeros_like(delta), high, 80)
        return np.where(self._delta(root) <= delta, root, np.inf)

    def _tradeoff(self, fpr: FloatArray) -> FloatArray:
        return self._lines(fpr)

    @functools.cached_property
    def _lines(self) -> Lines:
        return supporting_lines(self._delta)

    def describe(self) -> str:
        """The statement in the words of a report."""
        text = f"{self!r}, {self.kind} by {self.method}, neighbouring: {self.neighbouring}"
        return text + (
            f", taking as public: {'; '.join(self.assumptions)}" if self.assumptions else ""
        )

    def plot(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw the trade-off curve, false-negative against false-positive rate."""
        import matplotlib.pyplot as plt

        ax = ax if ax is not None else plt.subplots()[1]
        fpr = np.unique(np.concatenate([np.linspace(0, 1, 401), np.logspace(-6, 0, 200)]))
        style.setdefault("label", repr(self))
        ax.plot(fpr, self.tradeoff(fpr), **style)
        ax.set(xlabel="false-positive rate", ylabel="least false-negative rate")
        return ax


def _like(x: FloatArray, values: FloatArray) -> Any:
    """Scalars for scalars, the caller's shape for arrays."""
    return float(values[0]) if x.ndim == 0 else values.reshape(x.shape)


@dataclass(frozen=True, init=False, repr=False)
class PureDP(Curve):
    """epsilon-DP: every log-likelihood ratio is at most epsilon. Attained by randomized response.

    >>> PureDP(epsilon=1.0).delta(0.0)
    0.462117

    """

    epsilon_upper: float

    # The argument has the name of a method, so that the field needs another; ``replace`` of
    # dataclasses passes that one.
    def __init__(
        self,
        epsilon: float | None = None,
        *,
        epsilon_upper: float | None = None,
        neighbouring: Neighbouring = "add-remove",
        kind: Kind = "exact",
        method: str = "stated",
        assumptions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(
            neighbouring=neighbouring, kind=kind, method=method, assumptions=assumptions
        )
        given = epsilon_upper if epsilon is None else epsilon
        object.__setattr__(self, "epsilon_upper", _check.epsilon(given))

    def __repr__(self) -> str:
        return f"PureDP(epsilon={self.epsilon_upper:g})"

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        return _approx_delta(epsilon, self.epsilon_upper, 0.0)

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        return _approx_epsilon(delta, self.epsilon_upper, 0.0)

    def _tradeoff(self, fpr: FloatArray) -> FloatArray:
        return _approx_tradeoff(fpr, self.epsilon_upper, 0.0)


@dataclass(frozen=True, init=False, repr=False)
class ApproxDP(Curve):
    """(epsilon, delta)-DP and all that it implies at other epsilons.

    >>> ApproxDP(epsilon=0.21, delta=1e-5).tradeoff(0.95078)
    0.0398888507

    """

    epsilon_upper: float
    delta_upper: float

    # As for PureDP: the arguments have the names of methods.
    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        epsilon_upper: float | None = None,
        delta_upper: float | None = None,
        neighbouring: Neighbouring = "add-remove",
        kind: Kind = "exact",
        method: str = "stated",
        assumptions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(
            neighbouring=neighbouring, kind=kind, method=method, assumptions=assumptions
        )
        given = epsilon_upper if epsilon is None else epsilon
        object.__setattr__(self, "epsilon_upper", _check.epsilon(given))
        given = delta_upper if delta is None else delta
        object.__setattr__(self, "delta_upper", _check.delta(given))

    def __repr__(self) -> str:
        return f"ApproxDP(epsilon={self.epsilon_upper:g}, delta={self.delta_upper:g})"

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        return _approx_delta(epsilon, self.epsilon_upper, self.delta_upper)

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        return _approx_epsilon(delta, self.epsilon_upper, self.delta_upper)

    def _tradeoff(self, fpr: FloatArray) -> FloatArray:
        return _approx_tradeoff(fpr, self.epsilon_upper, self.delta_upper)


# The trade-off function of (epsilon, delta)-DP is max(0, 1 - delta - e^epsilon x,
# e^-epsilon (1 - delta - x)); its corner lies at x = (1 - delta) / (1 + e^epsilon). The line of
# slope -e^x through that corner gives delta at the smaller epsilon x.


def _approx_delta(x: FloatArray, epsilon: float, delta: float) -> FloatArray:
    if np.isinf(epsilon):
        return np.where(np.isinf(x), delta, 1.0)
    share = np.exp(np.logaddexp(0, np.minimum(x, epsilon)) - np.logaddexp(0, epsilon))
    # 1 - (1 - delta) share, without cancelling when share is almost one.
    gap = _one_minus_share(x, epsilon)
    return np.where(x >= epsilon, delta, gap + delta * share)


def _one_minus_share(x: FloatArray, epsilon: float) -> FloatArray:
    """(e^epsilon - e^x) / (e^epsilon + 1) for x < epsilon."""
    return -np.expm1(np.minimum(x - epsilon, 0)) * special.expit(epsilon)


def _approx_epsilon(d: FloatArray, epsilon: float, delta: float) -> FloatArray:
    if np.isinf(epsilon):
        return np.where(d < 1, np.inf, 0.0)
    # Solve (1 - delta)(1 + e^x) = (1 - d)(1 + e^epsilon).
    with np.errstate(divide="ignore", invalid="ignore"):
        log_side = np.log1p(-d) - np.log1p(-delta) + np.logaddexp(0, epsilon)
        x = np.where(log_side > np.log(2), log_side + np.log1p(-np.exp(-log_side)), 0.0)
    return np.where(d < delta, np.inf, np.where(d == delta, epsilon, np.clip(x, 0, epsilon)))


def _approx_tradeoff(fpr: FloatArray, epsilon: float, delta: float) -> FloatArray:
    if np.isinf(epsilon):
        return np.zeros_like(fpr)
    with np.errstate(over="ignore"):
        steep = np.where(fpr > 0, 1 - delta - np.exp(np.minimum(epsilon, 700)) * fpr, 1 - delta)
    flat = np.exp(-epsilon) * (1 - delta - fpr)
    return np.maximum(np.maximum(steep, flat), 0.0)


@dataclass(frozen=True, repr=False)
class GDP(Curve):
    """mu-Gaussian DP: no attack does better than telling N(0, 1) from N(mu, 1). Exact.

    >>> GDP(mu=1.0).delta(1.0)
    0.126937

    """

    mu: float

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "It is the shift in units of the noise; smaller is more private."
        _check.number("mu", self.mu, low=0, finite=False, remedy=remedy)

    def __repr__(self) -> str:
        return f"GDP(mu={self.mu:g})"

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        return gaussian.delta_of(epsilon, np.float64(self.mu))

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        return gaussian.epsilon_of(delta, np.float64(self.mu))

    def _tradeoff(self, fpr: FloatArray) -> FloatArray:
        return gaussian.tradeoff(fpr, np.float64(self.mu))


def _log_delta_at_order(epsilon: Any, order: Any, divergence: Any) -> Any:
    """Log delta from a Rényi divergence (Canonne, Kamath and Steinke 2020, proposition 12)."""
    return (order - 1) * (divergence - epsilon) + order * np.log1p(-1 / order) - np.log(order - 1)


def _epsilon_at_order(log_delta: Any, order: Any, divergence: Any) -> Any:
    """The same, solved for epsilon."""
    return divergence + np.log1p(-1 / order) - (log_delta + np.log(order)) / (order - 1)


def _total_variation_of(kl: Any) -> Any:
    """Pinsker's and Bretagnolle and Huber's bounds on delta(0), whichever is smaller."""
    return np.minimum(np.sqrt(kl / 2), np.sqrt(-np.expm1(-kl)))


@dataclass(frozen=True, repr=False)
class ZCDP(Curve):
    """rho-zCDP: the Rényi divergence of order a is at most a rho, for every a > 1.

    delta(epsilon) is the infimum over a of exp((a-1)(a rho - epsilon)) (1-1/a)^a / (a-1); its
    derivative in a vanishes where (2a-1) rho + log(1-1/a) = epsilon, which is increasing in a.
    At small epsilon the bound on total variation from KL <= rho is smaller and is used.

    >>> ZCDP(rho=0.024355970).epsilon(1e-6)
    1.0

    """

    rho: float
    kind: Kind = field(default="upper bound", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "It bounds the Rényi divergence over its order; smaller is more private."
        _check.number("rho", self.rho, low=0, finite=False, remedy=remedy)

    def __repr__(self) -> str:
        return f"ZCDP(rho={self.rho:g})"

    def _order(self, condition: Callable[[FloatArray], FloatArray], shape: Any) -> FloatArray:
        """1 + the smallest t at which the condition on the order 1 + t holds."""
        return 1 + smallest_true(
            lambda t: condition(1 + t), np.full(shape, 1e-9), np.full(shape, 1e12)
        )

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        if self.rho == 0 or np.isinf(self.rho):
            return np.full_like(epsilon, float(self.rho > 0))
        rho = self.rho
        order = self._order(
            lambda a: (2 * a - 1) * rho + np.log1p(-1 / a) >= epsilon, epsilon.shape
        )
        log_delta = _log_delta_at_order(epsilon, order, order * rho)
        return np.minimum(np.exp(np.minimum(log_delta, 0)), _total_variation_of(rho))

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        if self.rho == 0 or np.isinf(self.rho):
            return np.where(delta < 1, self.rho * np.ones_like(delta), 0.0)
        rho = self.rho
        with np.errstate(divide="ignore"):
            target = np.log(delta)

        def reached(a: FloatArray) -> FloatArray:
            best = (2 * a - 1) * rho + np.log1p(-1 / a)  # the epsilon for which this order is best
            return _log_delta_at_order(best, a, a * rho) <= target

        order = self._order(reached, delta.shape)
        value = np.where(delta > 0, _epsilon_at_order(target, order, order * rho), np.inf)
        return np.where(delta >= _total_variation_of(rho), 0.0, value)


@dataclass(frozen=True, repr=False, eq=False)
class RDP(Curve):
    """Rényi DP at a list of orders above 1 (infinity allowed): an upper bound on delta from each.

    >>> RDP(orders=[2, 8], epsilons=[0.1, 0.4]).epsilon(1e-5)
    1.614

    """

    orders: FloatArray
    epsilons: FloatArray
    kind: Kind = field(default="upper bound", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        orders = _check.array(
            "orders", self.orders, low=1, low_open=True, finite=False, ndim=1, empty=False
        )
        epsilons = _check.array("epsilons", self.epsilons, low=0, finite=False, ndim=1)
        if orders.shape != epsilons.shape:
            raise InvalidArgument(
                f"epsilons has {epsilons.size} entries for {orders.size} orders; "
                "give one Rényi divergence per order."
            )
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "epsilons", epsilons)

    def __repr__(self) -> str:
        return f"RDP({self.orders.size} orders from {self.orders.min():g} to {self.orders.max():g})"

    def _finite(self) -> tuple[FloatArray, FloatArray]:
        use = np.isfinite(self.orders) & np.isfinite(self.epsilons)
        return self.orders[use, None], self.epsilons[use, None]

    def _pure(self) -> float:
        return float(np.min(self.epsilons[np.isinf(self.orders)], initial=np.inf))

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        orders, divergences = self._finite()
        log_delta = _log_delta_at_order(epsilon, orders, divergences).min(axis=0, initial=0.0)
        by_order = np.exp(np.minimum(log_delta, 0.0))
        by_kl = _total_variation_of(self.epsilons.min())
        return np.minimum(np.minimum(by_order, by_kl), _approx_delta(epsilon, self._pure(), 0.0))

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        orders, divergences = self._finite()
        with np.errstate(divide="ignore"):
            by_order = _epsilon_at_order(np.log(delta), orders, divergences)
        value = np.minimum(
            by_order.min(axis=0, initial=np.inf), _approx_epsilon(delta, self._pure(), 0.0)
        )
        return np.where(delta >= _total_variation_of(self.epsilons.min()), 0.0, value)


@dataclass(frozen=True, repr=False, eq=False)
class PLD(Curve):
    """A composed privacy-loss distribution, discretised upwards; one for each direction.

    Mass that was cut off counts as infinite loss: for a delta below ``smallest_delta`` (about 1e-40
    per step) epsilon is infinite. ``finer`` are others of the same events that cut off more, on
    finer grids; the least of all counts. Made by :func:`dpassay.account`.
    """

    directions: tuple[Composition, ...]
    finer: "tuple[PLD, ...]" = ()
    kind: Kind = field(default="upper bound", kw_only=True)

    def __repr__(self) -> str:
        steps = sum(count for _, count in self.directions[0].parts)
        return f"PLD({steps} composed, interval {self.directions[0].interval:g})"

    @property
    def smallest_delta(self) -> float:
        """The mass at infinite loss: no epsilon is finite for a smaller delta."""
        return max(direction.infinite for direction in self.directions)

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        here = _fold(np.maximum, (direction.delta(epsilon) for direction in self.directions))
        return _fold(np.minimum, [here, *(curve.delta(epsilon) for curve in self.finer)])

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        result = np.zeros_like(delta)
        for direction in self.directions:
            result = direction.epsilon(delta, result)
        return _fold(np.minimum, [result, *(curve.epsilon(delta) for curve in self.finer)])


@dataclass(frozen=True, repr=False, eq=False)
class Numeric(Curve):
    """A curve given by a function: from delta to epsilon, or from epsilon to delta."""

    name: str
    epsilon_at: Callable[[FloatArray], FloatArray] | None = None
    delta_at: Callable[[FloatArray], FloatArray] | None = None
    kind: Kind = field(default="upper bound", kw_only=True)

    def __repr__(self) -> str:
        return self.name

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        if self.epsilon_at is None:
            return super()._epsilon(delta)
        return self.epsilon_at(delta)

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        if self.delta_at is not None:
            return self.delta_at(epsilon)
        ends = np.full_like(epsilon, 1e-300), np.ones_like(epsilon)
        return smallest_true(lambda d: self._epsilon(d) <= epsilon, *ends, 60)


@dataclass(frozen=True, repr=False, eq=False)
class Best(Curve):
    """The smallest of several valid curves, point by point: a minimum of proofs is a proof."""

    curves: tuple[PrivacyCurve, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "curves", tuple(self.curves))
        if not self.curves:
            raise InvalidArgument("curves is empty; it must hold at least one privacy curve.")

    def __repr__(self) -> str:
        return f"Best({', '.join(repr(curve) for curve in self.curves)})"

    @property
    def _quick(self) -> tuple[PrivacyCurve, ...]:
        """Those whose delta is no search: composition theorems are slow there, and never best."""
        slow = [isinstance(c, Numeric) and c.delta_at is None for c in self.curves]
        quick = [c for c, searched in zip(self.curves, slow, strict=True) if not searched]
        return tuple(quick) or self.curves

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        return _fold(np.minimum, (curve.delta(epsilon) for curve in self._quick))

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        return _fold(np.minimum, (curve.epsilon(delta) for curve in self.curves))

    def _tradeoff(self, fpr: FloatArray) -> FloatArray:
        return _fold(np.maximum, (curve.tradeoff(fpr) for curve in self._quick))


def _fold(combine: Callable[..., FloatArray], parts: Iterable[FloatArray]) -> FloatArray:
    parts = list(parts)
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result
