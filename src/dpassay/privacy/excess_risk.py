"""Theorem bounds on excess risk: what private optimisation costs in accuracy, with constants.

These are the bounds of Micali 2022 (tables 1, 3.1 and 3.2, theorems 3 and 27) with the constants
that their proofs give; where the document prints others, the docstring says so. They use public
quantities alone, so that a number of steps may be chosen by them.

Frank-Wolfe with steps 2/(t + 2) from t = 0 on a set of diameter D, for an objective whose gradient
is L1-Lipschitz (l1 norm against l_inf): R_{t+1} <= (1 - g_t) R_t + g_t E + g_t² M with M = L1 D²/2
and E the expected shortfall of a selection, hence R_T <= E + M a_T with a_T as in
:func:`step_decay` (Jaggi 2013; Talwar, Guha Thakurta and Zhang 2015).
"""

import math
from typing import Any, cast

import numpy as np
from scipy import special

from dpassay import _check
from dpassay.types import FloatArray

NOISES = ("gumbel", "exponential", "laplace")
_MANY = 60  # from here on 2^-k is below rounding


def _digamma(x: Any) -> Any:
    """The digamma function; at n + 1 it is the harmonic number of n less Euler's constant."""
    return cast(Any, special.digamma(x))


def step_decay(steps: int | FloatArray) -> float | FloatArray:
    """a_T of the recursion a_{t+1} = (1 - g_t) a_t + g_t², g_t = 2/(t + 2), from t = 0; exact.

    T (T + 1) a_T grows by 4 (t + 1)/(t + 2) in each step, so a_T = 4 (T + 1 - H_{T+1})/(T (T + 1))
    with H the harmonic numbers: at most 4/(T + 2), and about 4/T, not the 1/T of Micali 2022.

    >>> round(step_decay(10), 7)
    0.2901863

    """
    T = _check.array("steps", steps, low=1, remedy="It is the number of steps.")
    harmonic = _digamma(T + 2) + np.euler_gamma
    decay = 4 * (T + 1 - harmonic) / (T * (T + 1))
    return decay if decay.ndim else float(decay)


def laplace_maximum(n_draws: int) -> float:
    """The expected maximum of that many independent Laplace draws of scale 1; exact.

    With u = e^-x/2 on x > 0 it is the integral of (1 - (1 - u)^k)/u over (0, 1/2) minus 2^-k/k,
    that is sum_{j <= k} (1 - 2^-j)/j - 2^-k/k, or H_k - log 2 for large k. (Micali 2022, lemma 28:
    2 log(4k), where 2 log(4k/3) is what its proof gives.)

    >>> round(laplace_maximum(20), 6)
    2.904592

    """
    k = _check.count("n_draws", n_draws, remedy="It is the number of vertices.")
    if k > _MANY:
        return float(_digamma(k + 1) + np.euler_gamma - math.log(2))
    j = np.arange(1, k + 1)
    return float(((1 - 0.5**j) / j).sum() - 0.5**k / k)


def selection_error(noise: str, scale: float, n_candidates: int) -> float:
    """An upper bound on the expected shortfall E[best score - chosen score] of a noisy maximum.

    For the exponential mechanism ("gumbel") it is scale · log k: the shortfall is scale times the
    entropy of the choice less log sum e^((u - best)/scale), which is not negative. Otherwise the
    shortfall is at most the noise of the chosen one less that of the best one, so in expectation at
    most E max - E noise: scale · (H_k - 1) for exponential noise (permute-and-flip) and
    scale · :func:`laplace_maximum` for Laplace noise. (Micali 2022 takes max - min, twice that.)

    Args:
        noise: "gumbel", "exponential" or "laplace".
        scale: of the noise; 2 · sensitivity/epsilon for epsilon-DP.
        n_candidates: how many candidates there are.

    >>> round(selection_error("gumbel", 0.090618, 22), 5)
    0.2801

    """
    kind = _check.choice("noise", noise, NOISES)
    scale = _check.number("scale", scale, low=0, remedy="It is the scale of the noise.")
    k = _check.count("n_candidates", n_candidates)
    unit = {
        "gumbel": math.log(k),
        "exponential": float(_digamma(k + 1) + np.euler_gamma - 1),
        "laplace": laplace_maximum(k),
    }
    return scale * unit[kind]


def frank_wolfe_excess_risk(
    steps: int, *, selection_error: float, smoothness: float, diameter: float
) -> float:
    """An upper bound on E[L(w_T) - min L] of Frank-Wolfe with noisy selections (theorem 27).

    selection_error + smoothness · diameter²/2 · a_T, for steps 2/(t + 2) from t = 0. The diameter
    is that of the polytope in the l1 norm, 2 C1 for an l1 ball of radius C1 (Micali 2022 has C1
    for diameter²); Micali 2022 also starts at t = 1, where its lemma 49 has no base case.

    Args:
        steps: T, at least 1.
        selection_error: the expected shortfall of each selection; 0 without noise.
        smoothness: L1, of the gradient from the l1 to the l_inf norm.
        diameter: of the polytope, in the l1 norm.

    >>> round(frank_wolfe_excess_risk(100, selection_error=0.0, smoothness=1.0, diameter=2.0), 6)
    0.075883

    """
    error = _not_negative("selection_error", selection_error)
    curvature = _curvature(smoothness, diameter)
    T = _check.count("steps", steps, remedy="It is the number of steps.")
    return error + curvature * float(step_decay(T))


def optimal_steps(error_per_root: float, *, smoothness: float, diameter: float) -> float:
    """The T that minimises A √T + B/T, B = 4 smoothness · diameter²/2: T* = (2 B/A)^(2/3).

    A √T is the selection error when the noise of T selections is calibrated to one budget: A is the
    error at T = 1. The minimum is 1.5 A √T*. As A ~ L0 C1 and B ~ L1 C1², the rate has C1^(4/3)
    (Micali 2022, theorem 27: C1). Not rounded; infinite where A = 0.

    >>> round(optimal_steps(0.0090618 * math.log(22), smoothness=1.0, diameter=2.0), 1)
    68.8

    """
    A = _not_negative("error_per_root", error_per_root)
    B = 4 * _curvature(smoothness, diameter)
    return (2 * B / A) ** (2 / 3) if A > 0 else math.inf


def sgd_excess_risk(
    steps: int,
    *,
    lipschitz: float,
    noise: float,
    n_features: int,
    diameter: float,
) -> float:
    """An upper bound on E[L(w_T) - min L] of projected SGD with Gaussian noise (theorem 3).

    2 D G (2 + log T)/√T with G² = L² + p · noise² for steps D/(G √t) (Shamir and Zhang 2013,
    theorem 2, at c = D/G). Table 3.2 is T = N with noise L sqrt(8 log(1/delta))/epsilon.

    Args:
        steps: T, at least 2.
        lipschitz: L, the l2 norm of one record's gradient at most.
        noise: the standard deviation added to each coordinate of the gradient.
        n_features: p.
        diameter: of the set that is projected on, in the l2 norm.

    >>> noise = math.sqrt(8 * math.log(1e6))
    >>> round(sgd_excess_risk(1000, lipschitz=1, noise=noise, n_features=10, diameter=2), 3)
    37.476

    """
    T = _check.count("steps", steps, low=2, remedy="The theorem needs two steps.")
    p = _check.count("n_features", n_features)
    L, sigma = _positive("lipschitz", lipschitz), _not_negative("noise", noise)
    G = math.hypot(L, math.sqrt(p) * sigma)
    return 2 * _positive("diameter", diameter) * G * (2 + math.log(T)) / math.sqrt(T)


def sgd_rate(
    *,
    n_records: int,
    n_features: int,
    epsilon: float,
    delta: float,
    lipschitz: float = 1.0,
    diameter: float = 1.0,
    population: bool = False,
) -> float:
    """The order of the best excess risk of DP-SGD (tables 1 and 3.1): an estimate, constant 1.

    L D sqrt(p log(1/delta))/(N epsilon) for the empirical risk (Bassily, Smith and Thakurta 2014),
    plus L D/√N for the risk of the population (Bassily et al. 2019). The papers state no constants.

    >>> round(sgd_rate(n_records=1000, n_features=100, epsilon=1.0, delta=1e-6), 5)
    0.03717

    """
    N, p = _check.count("n_records", n_records), _check.count("n_features", n_features)
    size = _positive("lipschitz", lipschitz) * _positive("diameter", diameter)
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    privacy = math.sqrt(p * _log_inverse(delta)) / (N * epsilon)
    return size * (privacy + (1 / math.sqrt(N) if population else 0.0))


def batch_gradient_error(lipschitz: float, batch_size: float, n_features: int) -> float:
    """An upper bound on E||batch gradient - gradient||_inf for a batch of independent records.

    L0 sqrt(2 log(2 p)/b): each of 2p signed coordinates is a mean of b centred terms within an
    interval of width 2 L0, so sub-Gaussian with variance L0²/b (Hoeffding), and the expected
    maximum of 2p such variables is at most sqrt(2 log(2p)) deviations. (Micali 2022, lemma 29,
    has G/√b, which holds for the l2 norm.)

    >>> round(batch_gradient_error(1.0, 100, 50), 4)
    0.3035

    """
    L0, p = _positive("lipschitz", lipschitz), _check.count("n_features", n_features)
    return L0 * math.sqrt(2 * math.log(2 * p) / _positive("batch_size", batch_size))


def _curvature(smoothness: float, diameter: float) -> float:
    return _positive("smoothness", smoothness) * _positive("diameter", diameter) ** 2 / 2


def _log_inverse(delta: float) -> float:
    remedy = "The bound has log(1/delta); take delta below 1/n."
    return -math.log(
        _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True, remedy=remedy)
    )


def _positive(name: str, value: float) -> float:
    return _check.number(name, value, low=0, low_open=True)


def _not_negative(name: str, value: float) -> float:
    return _check.number(name, value, low=0)
