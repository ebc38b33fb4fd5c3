"""``calibrate``: the smallest noise that meets a target; closed forms where there are any."""

import math
from collections.abc import Callable

from dpassay import _check
from dpassay.errors import CalibrationError, InvalidArgument, UnsupportedEvent
from dpassay.privacy import accounting, gaussian
from dpassay.privacy.accounting import AccountMethod
from dpassay.privacy.curves import GDP, ZCDP, ApproxDP, PureDP
from dpassay.privacy.events import Event, Gaussian, Pure
from dpassay.privacy.risk import Risk
from dpassay.types import PrivacyCurve

Price = Callable[[float], float]
_ROUGH, _CLOSE, _EXACT = 1e-2, 1e-6, 1e-11
_RISK = 1e-3  # of a risk that plans are made for: each price is a plan
_MAX_PRICES = 80


def calibrate(
    make_event: Callable[[float], Event],
    target: PrivacyCurve | Risk,
    *,
    method: AccountMethod = "best",
) -> float:
    """The smallest noise with which the event meets the target, never above it.

    What is minimised is found to a relative 1e-6 in epsilon where a privacy-loss distribution is
    involved and to rounding elsewhere. The search goes from cheap to dear: a central limit theorem
    or Rényi DP for a first guess, Fourier inversion or a coarse distribution extrapolated to the
    fine one, then one or two prices at full precision, which decide.

    Args:
        make_event: takes the noise (a positive number) and returns the event; more noise must
            never cost more.
        target: what to meet: ApproxDP, PureDP, ZCDP or GDP; or what an attacker may gain at most,
            an :class:`~dpassay.privacy.risk.Advantage`, AttackRate or BayesError.
        method: an accounting method that proves; "gdp-clt" is refused.

    Raises:
        CalibrationError: no noise up to 1e12 meets the target.
        InvalidArgument: the event and the target are about different neighbouring relations.

    >>> from dpassay.privacy.events import dp_sgd_event
    >>> calibrate(lambda s: dp_sgd_event(s, sampling_rate=1.0, steps=4), ApproxDP(1.0, 1e-6))
    8.449358

    """
    proofs: tuple[AccountMethod, ...] = ("best", *accounting.PROVING)
    proof = _check.choice("method", method, proofs, "An estimate calibrates nothing.")
    if isinstance(target, PrivacyCurve) and target.kind == "estimate":
        raise InvalidArgument(f"target={target!r} is an estimate; a target must be a statement.")
    stages, goal = _stages(_refuse_other_neighbours(make_event, target), target, proof)
    noise, slope = 1.0, -1.0
    for price, tolerance in stages:
        try:
            noise, slope = _solve(price, noise, slope, goal, tolerance)
        except UnsupportedEvent:
            if price is stages[-1][0]:
                raise
    return noise


def _refuse_other_neighbours(
    make_event: Callable[[float], Event], target: PrivacyCurve | Risk
) -> Callable[[float], Event]:
    """The same function, refusing every event that is about other neighbours than the target."""

    def make(noise: float) -> Event:
        event = make_event(noise)
        relation = getattr(event, "neighbouring", target.neighbouring)  # others' events have none
        if relation != target.neighbouring:
            raise InvalidArgument(
                f"make_event({noise:g}).neighbouring={relation!r} must be that of the "
                f"target, {target.neighbouring!r}. State both under one relation; a replace-one "
                "price of an add-remove event is that of a group of two, see "
                "dpassay.privacy.replace_one_from_add_remove."
            )
        return event

    return make


def _stages(
    make_event: Callable[[float], Event], target: PrivacyCurve | Risk, method: AccountMethod
) -> tuple[list[tuple[Price, float]], float]:
    """Prices with the tolerance to solve each to, cheap ones first; the last one decides."""

    def by(attribute: str, priced_by: AccountMethod) -> Price:
        return lambda noise: getattr(accounting.account(make_event(noise), priced_by), attribute)

    if isinstance(target, Risk):
        return _risk_stages(make_event, target, method), target.room
    if isinstance(target, ZCDP):
        return [(by("rho", "zcdp"), _EXACT)], target.rho
    if isinstance(target, GDP):
        return [(by("mu", "gdp"), _EXACT)], target.mu
    if not isinstance(target, PureDP | ApproxDP):
        raise InvalidArgument(
            f"target={target!r} must be ApproxDP, PureDP, ZCDP or GDP, the point of the curve that "
            "has to be met, or an Advantage, AttackRate or BayesError."
        )
    delta = target.delta_upper if isinstance(target, ApproxDP) else 0.0

    def epsilon(
        noise: float, with_method: AccountMethod = method, interval: float | None = None
    ) -> float:
        event = make_event(noise)
        return accounting.account(event, with_method, interval=interval).epsilon(delta)

    if method not in ("best", "pld") or delta == 0 or not _needs_distribution(make_event):
        return [(epsilon, _EXACT)], target.epsilon_upper

    grid: list[float] = []

    def coarse(noise: float) -> float:
        """A price that is close and cheap: by Fourier inversion, or on two coarse grids.

        These are extrapolated: the error is quadratic in the interval.
        """
        try:
            return epsilon(noise, "fourier")
        except UnsupportedEvent:
            pass
        if not grid:
            grid.append(accounting.grid(make_event(noise)))
        wide, narrow = (epsilon(noise, "pld", k * grid[0]) for k in (16, 8))
        return narrow - (wide - narrow) / 3 * (1 - 1 / 64)

    def rough(noise: float) -> float:
        try:
            return epsilon(noise, "gdp-clt")  # a guess; what follows does not trust it
        except UnsupportedEvent:
            return epsilon(noise, "rdp")

    return [(rough, _ROUGH), (coarse, _CLOSE), (epsilon, _CLOSE)], target.epsilon_upper


def _risk_stages(
    make_event: Callable[[float], Event], target: Risk, method: AccountMethod
) -> list[tuple[Price, float]]:
    def price_by(priced_by: AccountMethod) -> Price:
        return lambda noise: target.excess(accounting.account(make_event(noise), priced_by))

    last = price_by(method)
    if method != "best" or not _needs_distribution(make_event):
        return [(last, _EXACT)]
    return [(price_by("gdp-clt"), _ROUGH), (price_by("fourier"), _CLOSE), (last, _CLOSE)]


def weakest_guarantees(target: Risk) -> tuple[PureDP, GDP]:
    """The pure and the Gaussian guarantee with the largest parameters that keep a risk.

    >>> from dpassay.privacy.risk import Advantage
    >>> pure, gaussian = weakest_guarantees(Advantage(0.1))
    >>> pure.epsilon_upper, gaussian.mu
    (0.2007, 0.2513)

    """
    relation = target.neighbouring
    epsilon = 1 / calibrate(lambda noise: Pure(1 / noise, relation), target)
    mu = 1 / calibrate(lambda noise: Gaussian(noise, relation), target)
    # Reciprocals of reciprocals: a unit less keeps them on the safe side.
    return (
        PureDP(math.nextafter(epsilon, 0.0), neighbouring=relation),
        GDP(math.nextafter(mu, 0.0), neighbouring=relation),
    )


def largest_epsilon(make_event: Callable[[float], Event], target: Risk, delta: float) -> float:
    """The largest epsilon whose event keeps a risk, to one part in a thousand of the risk.

    Args:
        make_event: takes an epsilon and returns the event of what is planned for it; a smaller one
            must never risk more.
        target: what an attacker may gain at most.
        delta: that of the plans, from which the first guess is made: the epsilon of one Gaussian
            release, or of pure DP where delta is 0, with this risk.

    Raises:
        CalibrationError: no epsilon down to 1e-12 keeps the risk.

    >>> from dpassay.privacy.events import Pure
    >>> from dpassay.privacy.risk import Advantage
    >>> largest_epsilon(Pure, Advantage(0.1), 0.0)
    0.2

    """

    def price(noise: float) -> float:
        return target.excess(accounting.account(make_event(1 / noise)))

    pure, normal = weakest_guarantees(target)
    first = float(normal.epsilon(delta)) if delta > 0 else pure.epsilon_upper
    noise, _ = _solve(price, 1 / max(first, 1e-9), -1.0, target.room, _RISK)
    return 1 / noise


def _needs_distribution(make_event: Callable[[float], Event]) -> bool:
    """Whether pricing takes a convolution: a closed form is exact and cheap."""
    try:
        accounting.account(make_event(1.0), "gdp")
    except UnsupportedEvent:
        return True
    return False


def _solve(
    price: Price, noise: float, slope: float, goal: float, tolerance: float
) -> tuple[float, float]:
    """A noise whose price lies in [goal (1 - tolerance), goal], and d log price / d log noise.

    Secant steps on the logarithms, in which prices are nearly straight, kept inside a bracket.
    """
    low, high = -math.inf, math.inf  # log noise: too little, enough
    x, previous = math.log(noise), None
    for _ in range(_MAX_PRICES):
        if x > math.log(1e12) or (x < math.log(1e-12) and high < math.inf):
            break
        y = _log_ratio(price(math.exp(x)), goal)
        if -tolerance <= y <= 0:
            return math.exp(x), slope
        low, high = (x, high) if y > 0 else (low, x)
        if previous and math.isfinite(y) and math.isfinite(previous[1]) and x != previous[0]:
            slope = min(max((y - previous[1]) / (x - previous[0]), -50.0), -0.02)
        previous = (x, y)
        x = _next(x, y, slope, low, high, tolerance)
        if high - low < 1e-15 * max(1.0, abs(high)):
            return math.exp(high), slope
    if math.isfinite(high):
        return math.exp(high), slope
    raise CalibrationError(
        f"no noise up to 1e12 brings the price down to {goal:g}; the target cannot be met this way."
    )


def _log_ratio(price: float, goal: float) -> float:
    if goal == 0 or price == math.inf:
        return math.inf if price > 0 else 0.0
    return math.log(price / goal) if price > 0 else -math.inf


def _next(x: float, y: float, slope: float, low: float, high: float, tolerance: float) -> float:
    """A step that aims at the middle of the tolerance, or halves the bracket."""
    step = -(y + tolerance / 2) / slope if math.isfinite(y) else math.copysign(3.0, y)
    x += min(max(step, -3.0), 3.0)
    if not low < x < high:
        x = (low + high) / 2
    return x


def gaussian_noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest noise over sensitivity for which one Gaussian release is (epsilon, delta)-DP.

    Exact (Balle and Wang 2018); the classic sqrt(2 log(1.25/delta))/epsilon is proved only for
    epsilon <= 1 and under-noises above epsilon of about 8.

    >>> gaussian_noise_multiplier(16, 1e-6)
    0.368612

    """
    epsilon = _check.epsilon(epsilon, finite=True)
    remedy = "A Gaussian release is never pure; take delta below 1/n."
    _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True, remedy=remedy)
    return 1 / float(gaussian.mu_of(epsilon, delta))


def laplace_noise_multiplier(epsilon: float) -> float:
    """The smallest Laplace scale over l1 sensitivity for epsilon-DP: 1/epsilon, exact."""
    return 1 / _check.epsilon(epsilon, finite=True, positive=True)


def randomized_response_noise(epsilon: float, n_categories: int = 2) -> float:
    """The smallest probability of a uniform answer for epsilon-DP: k/(e^epsilon + k - 1), exact."""
    epsilon = _check.epsilon(epsilon, finite=True)
    k = _check.count("n_categories", n_categories, low=2)
    return k * math.exp(-epsilon) / (1 + (k - 1) * math.exp(-epsilon))


def exponential_epsilon(rho: float, count: int = 1) -> float:
    """The largest epsilon of each of ``count`` exponential mechanisms that together are rho-zCDP.

    From count epsilon²/8 = rho (Cesar and Rogers 2021).

    >>> exponential_epsilon(0.024355970, 100)
    0.044142

    """
    remedy = "It bounds the Rényi divergence over its order."
    rho = _check.number("rho", rho, low=0, low_open=True, remedy=remedy)
    return math.sqrt(8 * rho / _check.count("count", count))
