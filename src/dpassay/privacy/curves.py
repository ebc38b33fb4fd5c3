"""Privacy curves: each states delta for *every* epsilon, so that a claim can be tested anywhere.

A curve is the whole of what its statement implies. Pure epsilon-DP, for example, also limits delta
at smaller epsilons: delta(x) = (e^epsilon - e^x) / (e^epsilon + 1) for x < epsilon, not 1.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._special.margins import up
from dpassay._special.search import first_true
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian, renyi, two_point
from dpassay.privacy.loss_distribution import Composition
from dpassay.privacy.tradeoff import Lines, supporting_lines
from dpassay.types import FloatArray, Kind, Neighbouring

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("exact", "upper bound", "estimate")
Floats = FloatArray | Sequence[float]
_EPSILON_MAX = 1e6


class Statement(TypedDict, total=False):
    """What a curve states beside its numbers: the fields of :class:`Curve`, by name."""

    neighbouring: Neighbouring
    kind: Kind
    method: str
    assumptions: tuple[str, ...]
    n_records: int | None


@dataclass(frozen=True, eq=False)
class Curve:
    """Base of the curves: checks arguments, then calls ``_delta``, ``_epsilon``, ``_tradeoff``.

    A kind of curve defines ``_delta``; the other two follow from it, on the safe side, unless it
    has a closed form. All three take and return one-dimensional arrays.
    """

    neighbouring: Neighbouring = field(default="add-remove", kw_only=True)
    kind: Kind = field(default="exact", kw_only=True)
    method: str = field(default="stated", kw_only=True)
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)
    n_records: int | None = field(default=None, kw_only=True)  # if it is public; for reports

    def __post_init__(self) -> None:
        _check.neighbouring(self.neighbouring)
        _check.choice("kind", self.kind, KINDS)
        if self.n_records is not None:
            _check.count("n_records", self.n_records)
        object.__setattr__(self, "assumptions", tuple(self.assumptions))

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: Floats) -> FloatArray: ...
    def delta(self, epsilon: ArrayLike) -> float | FloatArray:
        """The smallest delta (or an upper bound on it, see ``kind``) at each epsilon >= 0."""
        x = _check.array("epsilon", epsilon, low=0, finite=False)
        return _like(x, np.clip(self._delta(np.atleast_1d(x).ravel()), 0.0, 1.0))

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: Floats) -> FloatArray: ...
    def epsilon(self, delta: ArrayLike) -> float | FloatArray:
        """The smallest epsilon (or an upper bound on it) at each delta in [0, 1]; may be inf."""
        x = _check.array("delta", delta, low=0, high=1)
        flat = np.atleast_1d(x).ravel()
        # Everything is (0, 1)-DP, whatever the proof.
        return _like(x, np.where(flat < 1, np.maximum(self._epsilon(flat), 0.0), 0.0))

    @overload
    def tradeoff(self, fpr: float) -> float: ...
    @overload
    def tradeoff(self, fpr: Floats) -> FloatArray: ...
    def tradeoff(self, fpr: ArrayLike) -> float | FloatArray:
        """The least false-negative rate of any attack with these false-positive rates.

        A curve that is an upper bound on delta gives a lower bound on this rate.
        """
        x = _check.array("fpr", fpr, low=0, high=1)
        return _like(x, np.clip(self._tradeoff(np.atleast_1d(x).ravel()), 0.0, 1.0))

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        high = np.full_like(delta, _EPSILON_MAX)
        root = first_true(lambda x: self._delta(x) <= delta, np.zeros_like(delta), high, most=80)
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


class _TwoPoint(Curve):
    """All that one pair (epsilon, delta) implies, by :mod:`dpassay.privacy.two_point`."""

    def _pair(self) -> tuple[float, float]:
        raise NotImplementedError

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        return two_point.delta_at(epsilon, *self._pair())

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        return two_point.epsilon_at(delta, *self._pair())

    def _tradeoff(self, fpr: FloatArray) -> FloatArray:
        return two_point.tradeoff_at(fpr, *self._pair())


@dataclass(frozen=True, init=False, repr=False)
class PureDP(_TwoPoint):
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
        **statement: Unpack[Statement],
    ) -> None:
        super().__init__(**statement)
        given = epsilon_upper if epsilon is None else epsilon
        object.__setattr__(self, "epsilon_upper", _check.epsilon(given))

    def __repr__(self) -> str:
        return f"PureDP(epsilon={self.epsilon_upper:g})"

    def _pair(self) -> tuple[float, float]:
        return self.epsilon_upper, 0.0


@dataclass(frozen=True, init=False, repr=False)
class ApproxDP(_TwoPoint):
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
        **statement: Unpack[Statement],
    ) -> None:
        super().__init__(**statement)
        given = epsilon_upper if epsilon is None else epsilon
        object.__setattr__(self, "epsilon_upper", _check.epsilon(given))
        given = delta_upper if delta is None else delta
        object.__setattr__(self, "delta_upper", _check.delta(given))

    def __repr__(self) -> str:
        return f"ApproxDP(epsilon={self.epsilon_upper:g}, delta={self.delta_upper:g})"

    def _pair(self) -> tuple[float, float]:
        return self.epsilon_upper, self.delta_upper


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

    def _order(
        self, condition: Callable[[FloatArray], FloatArray], shape: tuple[int, ...]
    ) -> FloatArray:
        """1 + the smallest t at which the condition on 1 + t holds; any order is valid."""

        def holds(t: FloatArray) -> FloatArray:
            return condition(1 + t)

        low, high = np.full(shape, 1e-9, float), np.full(shape, 1e60, float)
        return 1 + first_true(holds, low, high)

    @np.errstate(over="ignore", invalid="ignore")  # an order that overflows is not chosen
    def _delta(self, epsilon: FloatArray) -> FloatArray:
        if self.rho == 0 or np.isinf(self.rho):
            return np.full_like(epsilon, float(self.rho > 0))
        rho = self.rho
        order = self._order(
            lambda a: (2 * a - 1) * rho + np.log1p(-1 / a) >= epsilon, epsilon.shape
        )
        by_order = renyi.delta_at(epsilon, order, up(order * rho))
        return np.minimum(by_order, renyi.total_variation(rho))

    @np.errstate(over="ignore", invalid="ignore")
    def _epsilon(self, delta: FloatArray) -> FloatArray:
        if self.rho == 0 or np.isinf(self.rho):
            return np.where(delta < 1, self.rho * np.ones_like(delta), 0.0)
        rho = self.rho
        with np.errstate(divide="ignore"):
            target = np.log(delta)

        def reaches(a: FloatArray) -> FloatArray:
            best = (2 * a - 1) * rho + np.log1p(-1 / a)  # the epsilon for which this order is best
            return renyi.log_delta_at(best, a, a * rho) <= target

        order = self._order(reaches, delta.shape)
        by_order = renyi.epsilon_at(delta, order, up(order * rho))
        return np.where(delta >= renyi.total_variation(rho), 0.0, by_order)


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
        if 0 < np.count_nonzero(epsilons) < epsilons.size:
            order = orders[epsilons == 0][0]
            raise InvalidArgument(
                f"epsilons is 0 at order {order:g} and positive at others. A divergence of 0 means "
                "that neighbours look alike, at every order; give an upper bound at each order."
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
        by_order = renyi.delta_at(epsilon, orders, divergences).min(axis=0, initial=1.0)
        by_kl = renyi.total_variation(self.epsilons.min())
        pure = two_point.delta_at(epsilon, self._pure(), 0.0)
        return np.minimum(np.minimum(by_order, by_kl), pure)

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        orders, divergences = self._finite()
        by_order = renyi.epsilon_at(delta, orders, divergences).min(axis=0, initial=np.inf)
        value = np.minimum(by_order, two_point.epsilon_at(delta, self._pure(), 0.0))
        return np.where(delta >= renyi.total_variation(self.epsilons.min()), 0.0, value)


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
        here = functools.reduce(
            np.maximum, (direction.delta(epsilon) for direction in self.directions)
        )
        return functools.reduce(np.minimum, [here, *(curve.delta(epsilon) for curve in self.finer)])

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        result = np.zeros_like(delta)
        for direction in self.directions:
            result = direction.epsilon(delta, result)
        return functools.reduce(
            np.minimum, [result, *(curve.epsilon(delta) for curve in self.finer)]
        )
