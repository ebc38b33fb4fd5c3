"""Lower bounds on epsilon from the four counts of one test, fixed before the trials were seen.

If an algorithm is (epsilon, delta)-DP, every test of "with" against "without" the canary has
(Kairouz, Oh and Viswanath 2015)

    FPR + e^epsilon FNR >= 1 - delta    and    FNR + e^epsilon FPR >= 1 - delta,

so that epsilon >= log((1 - delta - FPR) / FNR) and log((1 - delta - FNR) / FPR). Both right sides
fall in either rate: with *upper* limits on the two rates that hold together, both hold, and the
larger one is free.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from dpassay import _check
from dpassay._special.margins import ARITHMETIC, ULP, round_down
from dpassay._special.quantiles import beta_upper, binomial_upper, normal_lower, normal_upper
from dpassay.bounds import bayes
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from dpassay.types import NO_ASSUMPTION, FloatArray, LowerBound

CountMethod = Literal["clopper-pearson", "jeffreys", "katz", "bayes", "gdp"]
METHODS: tuple[CountMethod, ...] = get_args(CountMethod)


@dataclass(frozen=True)
class Counts:
    """How often "in" and "out" were guessed in ``tp + fn`` trials with, ``fp + tn`` without."""

    tp: int
    fn: int
    fp: int
    tn: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            remedy = "It counts trials."
            object.__setattr__(self, name, _check.count(name, value, low=0, remedy=remedy))
        _check.count("tp + fn", self.n_in, remedy="Play trials with the canary.")
        _check.count("fp + tn", self.n_out, remedy="Play trials without the canary.")

    @property
    def n_in(self) -> int:
        """The number of trials with the canary."""
        return self.tp + self.fn

    @property
    def n_out(self) -> int:
        """The number of trials without it."""
        return self.fp + self.tn

    def perfect(self) -> "Counts":
        """The counts of an attack that never errs, in as many trials."""
        return Counts(tp=self.n_in, fn=0, fp=0, tn=self.n_out)


def jeffreys_limit(errors: Any, trials: Any, alpha: Any) -> FloatArray:
    """The upper end of Jeffreys' interval: about right on average, *not* at every rate.

    The 1 - alpha quantile of Beta(errors + 1/2, trials - errors + 1/2); 1 where every trial erred
    (Brown, Cai and DasGupta 2001).
    """
    k, n = np.asarray(errors, float), np.asarray(trials, float)
    return np.where(k >= n, 1.0, beta_upper(k + 0.5, n - k + 0.5, alpha))


def epsilon_of_rates(fpr: Any, fnr: Any, delta: float) -> FloatArray:
    """The least epsilon that allows these rates at delta: a lower bound if they are upper limits.

    >>> float(epsilon_of_rates(0.02, 0.03, 1e-5))
    3.881553

    """
    fpr, fnr = np.asarray(fpr, float), np.asarray(fnr, float)
    # 1 - rate is exact where it is small; what may be lost beside delta is taken off.
    true_negative, true_positive = ((1 - x) - delta - ULP for x in (fpr, fnr))
    with np.errstate(divide="ignore"):
        one = np.log(np.maximum(true_negative, 0)) - np.log(fnr)
        other = np.log(np.maximum(true_positive, 0)) - np.log(fpr)
    best = np.asarray(np.maximum(one, other))
    return np.maximum(round_down(best, ARITHMETIC, size=1.0), 0.0)


def mu_of_rates(fpr: Any, fnr: Any) -> FloatArray:
    """The least mu whose Gaussian trade-off allows these rates; a lower bound at upper limits.

    Negative differences become 0: their absolute value would be evidence of nothing.

    >>> float(mu_of_rates(0.0027445, 0.955082))
    1.08057

    """
    return np.maximum(-normal_upper(fpr) - normal_upper(fnr), 0.0)


@lru_cache(maxsize=1024)
def epsilon_of_mu(mu: float, delta: float) -> float:
    """epsilon(delta) of mu-GDP, rounded down: a lower bound stays one."""
    if delta == 0:
        raise InvalidArgument(
            "delta=0 must lie in (0, 1) for method='gdp': a Gaussian trade-off has no finite "
            "epsilon at 0. Pass delta=1e-5 or so, or method='clopper-pearson'."
        )
    if mu in (0, math.inf):
        return mu
    return float(gaussian.epsilon_lower(np.float64(delta), np.float64(mu)))


def katz(counts: Counts, delta: float, alpha: float) -> float:
    """The one-sided log-Katz limit on log((TPR - delta) / FPR): asymptotic, one direction.

    With the delta method, its variance is TPR (1 - TPR) / (n_in (TPR - delta)²) +
    (1 - FPR) / (n_out FPR). -inf where it is undefined: no false positive, or TPR <= delta.
    """
    tpr, fpr = counts.tp / counts.n_in, counts.fp / counts.n_out
    if fpr == 0 or tpr <= delta:
        return -math.inf
    variance = tpr * (1 - tpr) / (counts.n_in * (tpr - delta) ** 2)
    variance += (1 - fpr) / (counts.n_out * fpr)
    return math.log((tpr - delta) / fpr) + float(normal_lower(alpha)) * math.sqrt(variance)


def evaluate(
    method: str, counts: Counts, delta: float, alpha: float
) -> tuple[float, dict[str, float]]:
    """The bound of a method at error probability alpha, and the numbers behind it.

    It is -inf where the method is undefined.
    """
    return _METHODS[method].bound(counts, delta, alpha)


def ceiling(method: str, counts: Counts, delta: float, alpha: float) -> float:
    """The largest bound that the method could have given in this many trials."""
    special_case = _METHODS[method].ceiling
    if special_case is not None:
        return special_case(counts, delta, alpha)
    return evaluate(method, counts.perfect(), delta, alpha)[0]


def _from_limits(limit: Callable[..., FloatArray]) -> Callable[..., tuple[float, dict[str, float]]]:
    """Half of alpha to each rate: then both upper limits hold together, by the union bound."""

    def bound(counts: Counts, delta: float, alpha: float) -> tuple[float, dict[str, float]]:
        fpr, fnr = _limits(limit, counts, alpha)
        return float(epsilon_of_rates(fpr, fnr, delta)), {"fpr_upper": fpr, "fnr_upper": fnr}

    return bound


def _limits(limit: Callable[..., FloatArray], counts: Counts, alpha: float) -> tuple[float, float]:
    errors, trials = (counts.fp, counts.fn), (counts.n_out, counts.n_in)
    fpr, fnr = limit(errors, trials, alpha / 2)
    return float(fpr), float(fnr)


def _gdp(counts: Counts, delta: float, alpha: float) -> tuple[float, dict[str, float]]:
    fpr, fnr = _limits(binomial_upper, counts, alpha)
    mu = float(mu_of_rates(fpr, fnr))
    numbers = {"fpr_upper": fpr, "fnr_upper": fnr, "mu_lower": mu}
    return epsilon_of_mu(mu, delta), numbers


def _katz(counts: Counts, delta: float, alpha: float) -> tuple[float, dict[str, float]]:
    """The larger bound of two directions; each errs with about alpha / 2, both with alpha."""
    mirrored = Counts(tp=counts.tn, fn=counts.fp, fp=counts.fn, tn=counts.tp)
    return max(katz(c, delta, alpha / 2) for c in (counts, mirrored)), {}


def _katz_ceiling(counts: Counts, delta: float, alpha: float) -> float:
    """Without errors the interval is undefined; the best is a false positive or a few.

    Past z²/4 of them the estimate falls faster than its error.
    """
    z2 = float(normal_lower(alpha / 2)) ** 2
    best = 0.0
    for n in {counts.n_in, counts.n_out}:
        for errors in range(1, min(n, math.ceil(z2 / 4) + 1) + 1):
            few = Counts(tp=n, fn=0, fp=errors, tn=n - errors)
            best = max(best, katz(few, delta, alpha / 2))
    return best


def _bayes(counts: Counts, delta: float, alpha: float) -> tuple[float, dict[str, float]]:
    return bayes.credible_lower(counts.tp, counts.fn, counts.fp, counts.tn, delta, alpha), {}


@dataclass(frozen=True)
class _Method:
    bound: Callable[[Counts, float, float], tuple[float, dict[str, float]]]
    assumption: str
    paid: str
    ceiling: Callable[[Counts, float, float], float] | None = None  # that of no errors if None


_METHODS = {
    "clopper-pearson": _Method(
        _from_limits(binomial_upper), NO_ASSUMPTION, "half of the level pays for each rate"
    ),
    "jeffreys": _Method(
        _from_limits(jeffreys_limit),
        "Jeffreys limits, right on average over rates",
        "half of the level pays for each rate",
    ),
    "katz": _Method(
        _katz,
        "asymptotic normality",
        "half of the level pays for each direction",
        _katz_ceiling,
    ),
    "bayes": _Method(
        _bayes,
        "Jeffreys prior; credible, not coverage",
        "the posterior of both rates is integrated",
    ),
    "gdp": _Method(_gdp, "Gaussian trade-off", "half of the level pays for each rate"),
}


def assumption(method: str) -> str:
    """What must be believed for the method to be valid; "none" for the exact one."""
    return _METHODS[method].assumption


def lower_bound_from_counts(
    *,
    tp: int,
    fn: int,
    fp: int,
    tn: int,
    delta: float,
    confidence: float = 0.95,
    method: CountMethod = "clopper-pearson",
) -> LowerBound:
    """A lower bound on epsilon(delta) from the counts of one test that was fixed in advance.

    If the threshold was chosen by looking at these very trials, the bound is not valid: use
    :func:`dpassay.lower_bound`, which pays for the choice.

    Args:
        tp: trials with the canary that were guessed "in".
        fn: trials with the canary that were guessed "out".
        fp: trials without the canary that were guessed "in".
        tn: trials without the canary that were guessed "out".
        delta: where on the privacy curve the bound is stated; in [0, 1).
        confidence: the probability that the bound holds; in (0, 1).
        method: "clopper-pearson" is exact and assumes nothing. "jeffreys" and "katz" (log-Katz)
            are tighter and only approximately valid; "bayes" is a credible bound (Zanella-Béguelin
            et al. 2023), which at 95 % can exceed the truth in a fifth of all audits; "gdp" is
            exact *if* the trade-off is Gaussian (Nasr et al. 2023). The ``assumption`` of the
            result says so.

    Returns:
        The bound; its ceiling is the largest that the method can give in as many trials (for
        all but "katz", which is undefined there, what a perfect attack would have shown).

    Raises:
        InvalidArgument: if a count is negative, a world has no trials, or a level is out of range.

    >>> lower_bound_from_counts(tp=1000, fn=0, fp=0, tn=1000, delta=1e-5).epsilon
    5.60058

    """
    _check.choice("method", method, METHODS)
    counts = Counts(tp=tp, fn=fn, fp=fp, tn=tn)
    delta, confidence = _check.delta(delta), _check.confidence(confidence)
    return bound_at(counts, delta=delta, confidence=confidence, method=method)


def bound_at(
    counts: Counts,
    *,
    delta: float,
    confidence: float,
    method: str,
    share: float = 1.0,
    threshold: float | None = None,
    selection: str = "fixed in advance",
) -> LowerBound:
    """The bound at counts of a test chosen elsewhere, spending a share of the error probability."""
    alpha = (1 - confidence) * share
    epsilon, numbers = evaluate(method, counts, delta, alpha)
    if epsilon == -math.inf:
        selection += "; a needed count is zero, where log-Katz is undefined: reported as 0"
    return LowerBound(
        epsilon=max(epsilon, 0.0),
        delta=delta,
        confidence=confidence,
        method=method,
        assumption=assumption(method),
        ceiling=ceiling(method, counts, delta, alpha),
        threshold=threshold,
        selection=f"{selection}; {_METHODS[method].paid}",
        details={**{name: float(value) for name, value in asdict(counts).items()}, **numbers},
        mu_lower=numbers.get("mu_lower"),
    )
