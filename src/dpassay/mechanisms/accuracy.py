"""How far a release is from the truth: the error that is exceeded with probability at most beta.

``method="exact"`` is the smallest such error (for selection: over all scores), ``"union"`` the
textbook's closed form, which is never smaller. The noise is independent of the data, so these are
public statements and cost no privacy.
"""

import math
from typing import Literal, get_args

from dpassay import _check
from dpassay._special.quantiles import normal_lower
from dpassay.mechanisms.additive import gaussian_multiplier

Method = Literal["exact", "union"]
_METHODS: tuple[Method, ...] = get_args(Method)


def laplace_accuracy(
    beta: float, *, sensitivity: float, epsilon: float, n_queries: int = 1, method: Method = "exact"
) -> float:
    """The t with P(some entry of the noise exceeds t in magnitude) = beta, for Laplace noise.

    With scale b = sensitivity/epsilon every entry exceeds t with probability e^(-t/b), so that
    P(max >= t) = 1 - (1 - e^(-t/b))^k exactly, and at most k·e^(-t/b) by the union bound, which
    gives b·log(k/beta) (Dwork and Roth 2014, theorem 3.8).

    Args:
        beta: failure probability, in (0, 1).
        sensitivity: l1 sensitivity of all queries together.
        epsilon: the privacy parameter of the release.
        n_queries: the number k of entries.
        method: "exact" or "union".

    >>> round(laplace_accuracy(0.05, sensitivity=1.0, epsilon=0.5), 4)
    5.9915

    """
    per_entry = _share(beta, n_queries, method)
    scale = _check.sensitivity(sensitivity) / _check.epsilon(epsilon, finite=True, positive=True)
    return max(-scale * math.log(per_entry), 0.0)


def gaussian_accuracy(
    beta: float,
    *,
    sensitivity: float,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    n_queries: int = 1,
    method: Method = "exact",
) -> float:
    """The t with P(some entry of the noise exceeds t in magnitude) = beta, for Gaussian noise.

    The k entries are independent: P(max >= t) = 1 - (1 - 2 Phi(-t/sigma))^k exactly, at most
    2k·Phi(-t/sigma) by the union bound.

    Args:
        beta: failure probability, in (0, 1).
        sensitivity: l2 sensitivity of all queries together.
        epsilon: with ``delta``, or ``rho``, or ``mu``: as passed to
            :func:`~dpassay.mechanisms.gaussian`.
        delta: see epsilon.
        rho: see epsilon.
        mu: see epsilon.
        n_queries: the number k of entries.
        method: "exact" or "union".

    >>> round(gaussian_accuracy(0.05, sensitivity=1.0, mu=1.0), 4)
    1.96

    """
    per_entry = _share(beta, n_queries, method)
    multiplier = gaussian_multiplier(epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    sigma = _check.sensitivity(sensitivity) * multiplier
    return max(-sigma * float(normal_lower(min(per_entry, 1.0) / 2)), 0.0)


def exponential_accuracy(
    beta: float,
    *,
    sensitivity: float,
    epsilon: float,
    n_candidates: int,
    monotone: bool = False,
    method: Method = "exact",
) -> float:
    """The a with P(chosen score < best - a) <= beta for any scores: the exponential mechanism.

    With weights exp(u/s), s = 2·sensitivity/epsilon (half of it if monotone), and R candidates: of
    the R - 1 others each that falls short by a or more weighs at most e^(-a/s) beside the best. So
    P <= x/(1 + x) with x = (R - 1)·e^(-a/s), with equality if all others fall short by exactly a:
    a = s·(log(R - 1) + log((1 - beta)/beta)) is the least that holds for all scores. "union" is
    s·(log R + log(1/beta)) (McSherry and Talwar 2007; Dwork and Roth 2014, theorem 3.11).
    It holds for permute-and-flip too, which falls short by a or more no more often (McKenna and
    Sheldon 2020).

    Args:
        beta: failure probability, in (0, 1).
        sensitivity: the most that one record changes any one score.
        epsilon: the privacy parameter of the release.
        n_candidates: the number R of candidates.
        monotone: as passed to :func:`~dpassay.mechanisms.exponential`.
        method: "exact" or "union".

    >>> round(exponential_accuracy(0.05, sensitivity=1.0, epsilon=1.0, n_candidates=100), 3)
    15.079

    """
    beta = _beta(beta)
    n = _check.count("n_candidates", n_candidates)
    _check.choice("method", method, _METHODS)
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    scale = (1 if monotone else 2) * _check.sensitivity(sensitivity) / epsilon
    if method == "union":
        return scale * (math.log(n) - math.log(beta))
    odds = (n - 1) * (1 - beta) / beta
    return scale * math.log(odds) if odds > 1 else 0.0


def _beta(beta: float) -> float:
    remedy = "It is the probability that the error is larger than stated, for example 0.05."
    return _check.number("beta", beta, low=0, high=1, low_open=True, high_open=True, remedy=remedy)


def _share(beta: float, n_queries: int, method: Method) -> float:
    """The failure probability that every single entry may have."""
    beta = _beta(beta)
    n_queries = _check.count("n_queries", n_queries)
    if _check.choice("method", method, _METHODS) == "union":
        return beta / n_queries
    return -math.expm1(math.log1p(-beta) / n_queries)
