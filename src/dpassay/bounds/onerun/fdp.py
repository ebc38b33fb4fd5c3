"""Testing a whole trade-off function in one run (Mahloujifar, Melis and Chaudhuri 2025).

If every canary's coin is protected by the trade-off function f, and r guesses are made, the
probabilities p_i of i right ones obey, for every set T,

    sum over T of (i / M) p_i  <=  1 - f( sum over T of ((r-i+1) / M) p_{i-1} ),       M = m.

Their recursion walks down from i = c with T = {i, i+1, ..}, giving away as little probability as
this allows, and refutes "P(N >= c) >= level" when more than 1 would have to be given away.

If all guesses say "in" (or all say "out"), M = m/2: fix a canary j and all other coins. The event
A that j is guessed "in" and the number of other right guesses lies in {i-1 : i in T} depends on the
output alone, so P(A | j in) <= 1 - f(P(A | j out)). Average over j and the other coins; 1 - f is
concave. Counting as in :mod:`dpassay.bounds.onerun.pvalues`, the left mean is 2/m times the sum of
i p_i and the right one 2/m times the sum of (r-i+1) p_{i-1}. For guesses of both kinds the event
"j is guessed right" is the mean of two such, and M = m.
"""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from dpassay._special.margins import ARITHMETIC, NUMERICAL, round_down, round_up
from dpassay._special.search import first_true, last_true
from dpassay.bounds.labels import epsilon_label
from dpassay.bounds.onerun.pvalues import pure_epsilon
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ApproxDP
from dpassay.types import NO_ASSUMPTION, FloatArray, PrivacyCurve

Inverse = Callable[[float], float]
"""x -> the least false-positive rate at which the true-positive rate may be x."""
Family = Callable[[float], PrivacyCurve]
"""theta > 0 -> a curve; larger theta, less privacy."""

_QUANTILE = NormalDist().inv_cdf
_LINES = 2000
_LARGEST = 1e6


def refutes(level: float, guesses: int, correct: int, canaries: float, inverse: Inverse) -> bool:
    """Whether ``correct`` right of ``guesses`` refute the trade-off function at the level."""
    right, wrong = level * correct / canaries, level * (guesses - correct) / canaries
    goal = round_up(guesses / canaries, NUMERICAL)  # thousands of steps, each with its rounding
    for i in range(correct - 1, -1, -1):
        needed = inverse(right)
        if needed <= wrong:  # nothing would change from here on
            break
        right, wrong = min(right + i / (guesses - i) * (needed - wrong), 1.0), needed
        if right + wrong >= goal:
            return True
    return False


def gaussian_inverse(mu: float) -> Inverse:
    """The inverse of the Gaussian trade-off function: Phi(Phi^-1(x) - mu)."""
    erfc, root = math.erfc, math.sqrt(0.5)

    def inverse(x: float) -> float:
        return 0.5 * erfc((mu - _QUANTILE(x)) * root) if x < 1 else 1.0

    return inverse


def curve_inverse(curve: PrivacyCurve) -> Inverse:
    """f(1 - x) from below, by lines that each delta(epsilon) of the curve gives."""
    epsilon = epsilon_grid(curve)
    rest = 1 - np.asarray(curve.delta(epsilon))
    # f(y) >= max(1 - delta - e^epsilon y, e^-epsilon (1 - delta - y), 0) at y = 1 - x. As lines in
    # x they would cancel: e^epsilon is up to 1e26, and y is exact where it matters.
    up, down = np.exp(epsilon), np.exp(-epsilon)
    slope, intercept = np.concatenate([up, down]), np.concatenate([rest, down * rest])

    def inverse(x: float) -> float:
        highest = float(np.max(intercept - slope * (1 - x)))
        return max(round_down(highest, ARITHMETIC, size=1.0), 0.0)

    return inverse


def epsilon_grid(curve: PrivacyCurve) -> FloatArray:
    """Evenly spaced up to where delta stops falling or no count sees it; then a corner, if any."""
    probe = np.concatenate([[0.0], np.geomspace(1e-6, 60.0, 400)])
    delta = np.asarray(curve.delta(probe))
    top = float(probe[np.argmax(delta <= max(float(delta[-1]) * (1 + NUMERICAL), 1e-14))])
    corner = curve.epsilon(float(delta[-1])) if delta[-1] > 0 else curve.epsilon(0.0)
    corners: list[float] = [corner] if np.isfinite(corner) and corner <= 60 else []
    return np.concatenate([np.linspace(0, max(top, 1e-6), _LINES), corners])


def inverse_of(curve: PrivacyCurve) -> Inverse:
    """The closed form for GDP, lines for the rest."""
    return gaussian_inverse(curve.mu) if isinstance(curve, GDP) else curve_inverse(curve)


def epsilon_lower(curve: PrivacyCurve, delta: float) -> float:
    """epsilon(delta) of the curve, rounded down."""
    return epsilon_label(curve, delta)


def p_value(guesses: int, correct: int, canaries: float, curve: PrivacyCurve) -> float:
    """The least level at which the curve is refuted, rounded up; 1 if it never is.

    Refutation is monotone in the level: the inverse is convex and 0 at 0, so scaling the start up
    scales everything after it up at least as much.
    """
    inverse = inverse_of(curve)

    def is_refuted(level: FloatArray) -> bool:
        return refutes(float(level), guesses, correct, canaries, inverse)

    return float(first_true(is_refuted, 1e-15, 1.0, within=NUMERICAL))


def family_member(family: str | Family, delta: float) -> tuple[Family, str]:
    """The curves to search, and what must be believed about the algorithm to use them."""
    if callable(family):
        return family, "trade-off function in the given family"
    named: dict[str, tuple[Family, str]] = {
        "gdp": (lambda mu: GDP(mu=mu), "Gaussian trade-off"),
        "approx": (lambda epsilon: ApproxDP(epsilon=epsilon, delta=delta), NO_ASSUMPTION),
    }
    if family not in named:
        raise InvalidArgument(
            f"family={family!r} must be 'gdp', 'approx' or a function that turns a number into a "
            "privacy curve; larger numbers, less privacy."
        )
    return named[family]


def largest_refuted(
    guesses: FloatArray, correct: FloatArray, canaries: float, level: float, family: Family
) -> tuple[float, int]:
    """The largest member of a nested family that some candidate refutes, and which one."""
    best, index = 0.0, 0
    order = np.argsort(-pure_epsilon(guesses, correct, level), kind="stable")
    for i in order.tolist():
        n, v = int(guesses[i]), int(correct[i])

        def is_refuted(theta: float, n: int = n, v: int = v) -> bool:
            return refutes(level, n, v, canaries, inverse_of(family(theta)))

        if v > 0 and is_refuted(round_up(best, NUMERICAL, size=1.0)):
            best, index = _largest(is_refuted, best), i
    return best, index


def _largest(is_refuted: Callable[[float], bool], low: float) -> float:
    high = max(2 * low, 1.0)
    while is_refuted(high):
        low, high = high, 2 * high
        if high > _LARGEST:
            return low
    return float(last_true(lambda x: is_refuted(float(x)), low, high, within=1e-9, absolute=1e-12))
