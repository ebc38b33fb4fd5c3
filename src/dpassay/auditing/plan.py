"""How many trainings an audit needs, before any is played.

The truth is taken to be Gaussian with a given epsilon at delta: what a good canary against DP-SGD
comes close to. For bounds from counts, these are put at a quantile of their distribution, so that
the answer has the stated power, and the best threshold is known to the planner: a real audit has to
choose it. For the test of the whole curve, audits are drawn. Numbers are estimates for planning,
not bounds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dpassay import _check
from dpassay._rng import generator
from dpassay._special.margins import round_down
from dpassay._special.quantiles import binomial_upper, normal_upper
from dpassay._special.search import first_true
from dpassay.bounds.alternatives import gaussian as gaussian_masses
from dpassay.bounds.bands import BANDS, common_level
from dpassay.bounds.betting import FORMS, Lines, factors, growth, log_optimal
from dpassay.bounds.counts import epsilon_of_mu, epsilon_of_rates, mu_of_rates
from dpassay.bounds.curve_tests import delta_shown
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from dpassay.types import FloatArray, PrivacyCurve

_MOST = 10**9
_THRESHOLDS = np.linspace(-7, 7, 281)
_DRAWS = 200
EXACT_BAND = 200_000  # with more trials the exact price of a band takes seconds


@dataclass(frozen=True)
class TrialForecast:
    """How many trials one method needs, and the most that it could show.

    Attributes:
        method: the statistic.
        assumption: what it rests on.
        to_refute: trainings, both worlds together, to refute the claim; inf beyond a billion.
        to_come_close: trainings for a bound within ``closeness`` of the truth.
        ceiling: the most that a perfect attack could show in ``to_refute`` trainings.

    """

    method: str
    assumption: str
    to_refute: float
    to_come_close: float
    ceiling: float


def plan(
    claim: PrivacyCurve,
    true_epsilon: float,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    power: float = 0.8,
    closeness: float = 0.05,
) -> list[TrialForecast]:
    """Estimates of the trainings needed to refute a claim, and to come close to the truth.

    Args:
        claim: the privacy curve to be tested.
        true_epsilon: the epsilon at ``delta`` that the algorithm is supposed to have.
        delta: in (0, 1).
        confidence: of the verdict.
        power: the chance that the audit succeeds, for the tests of a fixed size.
        closeness: how far below the truth a bound may stay, as a share of it.

    """
    delta = _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True)
    true_epsilon = _check.number("true_epsilon", true_epsilon, low=0, low_open=True)
    alpha = 1 - _check.confidence(confidence)
    power = _check.number("power", power, low=0.5, high=1, high_open=True)
    closeness = _check.number("closeness", closeness, low=0, high=1, low_open=True, high_open=True)
    claimed = float(claim.epsilon(delta))
    if true_epsilon <= claimed:
        raise InvalidArgument(
            f"true_epsilon={true_epsilon:g} must be above the claimed {claimed:g} at "
            f"delta={delta:g}: a true claim cannot be refuted."
        )
    world = _World(float(gaussian.mu_of(true_epsilon, delta)), power)
    near = (1 - closeness) * true_epsilon
    rows = [
        _forecast("clopper-pearson", "none", _point_bound(delta, alpha), world, claimed, near),
        _forecast("gdp", "Gaussian trade-off", _gdp_bound(delta, alpha), world, claimed, near),
        _curve(claim, world, alpha, delta),
        _sequential(claim, world, alpha),
    ]
    return rows


def trials_to_refute(
    claim: PrivacyCurve, true_epsilon: float, *, delta: float, confidence: float
) -> float:
    """An estimate of the trainings in which bets refute a claim, as in :func:`plan`.

    inf where they would not.
    """
    world = _World(float(gaussian.mu_of(true_epsilon, delta)), power=0.5)
    return _sequential(claim, world, 1 - confidence).to_refute


@dataclass(frozen=True)
class _World:
    """The Gaussian truth: error rates at each threshold, and counts at the power's quantile."""

    mu: float
    power: float

    def errors(self, n: int) -> tuple[FloatArray, FloatArray]:
        """False positives and negatives of n trials each, at most, with the stated chance."""
        t = _THRESHOLDS + self.mu / 2
        rates = np.stack([special.ndtr(-t), special.ndtr(t - self.mu)])
        # Both counts must be lucky enough together; errors above are cut at n.
        z = float(normal_upper(math.sqrt(self.power)))
        counts = n * rates + z * np.sqrt(n * rates * (1 - rates))
        fp, fn = np.minimum(np.ceil(round_down(counts)), n)
        return fp, fn

    def draw(self, n: int) -> tuple[FloatArray, FloatArray]:
        """False positives and negatives of n trials each, at all thresholds, drawn many times."""
        t = _THRESHOLDS + self.mu / 2
        rng = generator(0)
        with_canary, without = (
            np.cumsum(
                rng.multinomial(n, np.diff(special.ndtr(t - m), prepend=0, append=1), _DRAWS), 1
            )
            for m in (self.mu, 0.0)
        )
        return (n - without[:, :-1]).astype(float), with_canary[:, :-1].astype(float)


Bound = Callable[[FloatArray, FloatArray, int], float]


def _point_bound(delta: float, alpha: float) -> Bound:
    def bound(fp: FloatArray, fn: FloatArray, n: int) -> float:
        fpr, fnr = binomial_upper(fp, n, alpha / 2), binomial_upper(fn, n, alpha / 2)
        return float(np.max(epsilon_of_rates(fpr, fnr, delta)))

    return bound


def _gdp_bound(delta: float, alpha: float) -> Bound:
    def bound(fp: FloatArray, fn: FloatArray, n: int) -> float:
        fpr, fnr = binomial_upper(fp, n, alpha / 2), binomial_upper(fn, n, alpha / 2)
        return epsilon_of_mu(float(np.max(mu_of_rates(fpr, fnr))), delta)

    return bound


def _forecast(
    method: str, assumption: str, bound: Bound, world: _World, claimed: float, near: float
) -> TrialForecast:
    def reaches(goal: float) -> Callable[[int], bool]:
        return lambda n: bound(*world.errors(n), n) > goal

    refute, close = _smallest(reaches(claimed)), _smallest(reaches(near))
    none = np.zeros(1)
    ceiling = bound(none, none, int(refute)) if math.isfinite(refute) else math.nan
    return TrialForecast(method, assumption, 2 * refute, 2 * close, ceiling)


def _curve(claim: PrivacyCurve, world: _World, alpha: float, delta: float) -> TrialForecast:
    """The whole curve under the band of ``check_claim``, which pays for every threshold.

    Any threshold may refute, so that the power is not that of the best one: it is the share of
    ``_DRAWS`` audits, drawn as counts, in which some threshold does; the error of that share is
    three points of a hundred. A cheaper band, which is wider, tells where to look.
    """
    epsilon = np.linspace(0, 1.2 * max(float(claim.epsilon(delta)), 0.1), 60)
    allowed = np.asarray(claim.delta(epsilon))

    def refutes(kind: str, n: int) -> bool:
        level = common_level(kind, n, n, alpha)
        limits = [BANDS[kind].limits(counts, n, level) for counts in world.draw(n)]
        shown = sum(
            np.any(delta_shown(epsilon, *pair) > allowed) for pair in zip(*limits, strict=True)
        )
        return bool(shown >= world.power * _DRAWS)

    kind = "bonferroni"
    refute = _smallest(lambda n: refutes("bonferroni", n), most=10**7, share=0.05)
    if refute <= EXACT_BAND / 2:
        kind = "band"
        refute = _between(lambda n: refutes("band", n), int(refute) // 2, int(refute), share=0.05)
    ceiling = math.nan
    if math.isfinite(refute):
        n = int(refute)
        none = BANDS[kind].limits(np.zeros(1), n, common_level(kind, n, n, alpha))
        ceiling = float(epsilon_of_rates(none, none, delta)[0])
    return TrialForecast("whole curve, fixed size", "none", 2 * refute, math.nan, ceiling)


def _sequential(claim: PrivacyCurve, world: _World, alpha: float) -> TrialForecast:
    """log(1/alpha) over the growth of the best bets: what an ideal bettor needs on average."""
    lines, form = Lines.of(claim), FORMS["coin"]
    masses = gaussian_masses(world.mu)
    rate = float(growth(factors(log_optimal(lines.pays, masses, form), lines.pays), masses, form))
    needed = math.ceil(-math.log(alpha) / rate) if rate > 1e-9 else math.inf
    perfect = -math.log(alpha) / needed if math.isfinite(needed) else math.nan
    # A perfect attack earns log(1 + e^-epsilon) a trial against epsilon-DP.
    ceiling = -math.log(math.expm1(perfect)) if 0 < perfect < math.log(2) else 0.0
    return TrialForecast("whole curve, sequential", "none", needed, math.nan, ceiling)


def _smallest(holds: Callable[[int], bool], most: int = _MOST, share: float = 0.01) -> float:
    """The smallest number of trials per world at which a condition holds; inf if none.

    To within a share of it.
    """
    high = 4
    while not holds(high):
        high *= 2
        if high > most:
            return math.inf
    return _between(holds, high // 2, high, share)


def _between(holds: Callable[[int], bool], low: int, high: int, share: float) -> float:
    """The smallest number in (low, high] at which a condition holds, as it does at high."""
    return float(first_true(lambda n: holds(int(n)), low, high, within=share, whole=True))


def as_rows(plans: list[TrialForecast]) -> list[dict[str, Any]]:
    """The plans as plain dicts, for tables and JSON."""
    return [
        {
            "method": p.method,
            "assumption": p.assumption,
            "to_refute": p.to_refute,
            "to_come_close": p.to_come_close,
            "ceiling": p.ceiling,
        }
        for p in plans
    ]
