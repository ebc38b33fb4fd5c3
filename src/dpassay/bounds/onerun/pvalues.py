"""How surprising ``correct`` right guesses of ``guesses`` are under (epsilon, delta)-DP.

Setting of all one-run tests (Steinke, Nasr and Jagielski 2023): each of m canaries is put in by a
fair coin of its own, the algorithm runs once, and its output alone fixes which r canaries are
guessed and how. N of the guesses are right. Write q = e^epsilon / (1 + e^epsilon), Y ~ Bin(r, q),
b(v) = P(Y = v) and B(v) = P(Y >= v).

Pure DP (their theorem 2): given the output, and whatever coins have been revealed, the next guess
is right with probability at most q, so P(N >= v) <= B(v). Randomized response attains it.

Approximate DP, the published p-value (their theorem 5.2): B(v) + 2 m delta max_i P(v-i <= Y < v)/i.

**Approximate DP, exactly.** With L = m delta (L = m delta / 2 if every guess says "in", or every
one says "out")

    P(N >= v) <= B(v) + L rho(v),        rho(v) = B(v) (1 - B(v)) / (v b(v)),

and for guesses of both kinds some (epsilon, delta)-DP algorithm attains it. As
E[Y - r q; Y >= v] = (1 - q) v b(v), rho(v) is also (1 - q) / (E[Y | Y >= v] - E[Y | Y < v]).

*Proof.* Fix a canary j, all other coins, and a set K of {1..r}. Let A_t be the event that j is
guessed to be t and that one more than the number of other right guesses lies in K. It depends on
the output alone, so P(A_t | S_j = t) <= e^epsilon P(A_t | S_j != t) + delta. Add over j and t with
the probability 1/2 of the coin. An output with n right guesses is counted once for each of those
n on the left; one with n - 1 right guesses for each of its r - n + 1 wrong ones on the right:

    sum over n in K of  n P(N=n) - e^epsilon (r-n+1) P(N=n-1)  <=  L,

the theorem of Mahloujifar, Melis and Chaudhuri (2025) for this trade-off function. Put
P(N=n) = b(n) h(n); as n b(n) = e^epsilon (r-n+1) b(n-1), and K is free,

    sum over n of  n b(n) (h(n) - h(n-1))^+  <=  L.                                            (*)

Slice h into its level sets A = {h > s}: the left side is the integral over s of
I(A) = sum of n b(n) over the n in A with n-1 not in A, and P(N >= v) - B(v) is the integral of
Cov(1[Y >= v], 1[Y in A]). So it is enough that Cov <= rho(v) I(A), for which A may be an interval
[a, c]: if a >= v, Cov <= B(a) (1 - B(v)) and B(a) / (a b(a)) falls in a; if a < v,
Cov <= B(v) (1 - B(a)) and (1 - B(a)) / (a b(a)) rises in a; both because b is log-concave. For
equality draw N with h constant below v and from v on, then r canaries and which N of them are
right at random: (*) is then all that DP asks. QED

**A number of guesses that depends on the output** (or on coins that were revealed before). Then
(*) holds for the sum over r of the parts {r guesses}, and with P(r) in place of 1

    P(N >= v_r) <= sum over r of P(r) B_r(v_r)  +  L max over r of rho_r(v_r).

The two terms may be largest at different r, so a level must be shared in advance: see
:class:`Chosen`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpassay._special.margins import NUMERICAL, TAIL, TINY, round_down
from dpassay._special.quantiles import beta_upper_tail, log_odds_lower
from dpassay._special.search import last_below
from dpassay.types import FloatArray

PValue = Callable[[ArrayLike, ArrayLike, ArrayLike], FloatArray]
"""(epsilon, guesses, correct) -> an upper bound on P(N >= correct)."""
_SMALLEST_RATIO = 1e-240  # smaller tails are bounds, a thousand times too large at times


def pure_epsilon(guesses: ArrayLike, correct: ArrayLike, level: float) -> FloatArray:
    """The epsilon at which P(Bin(guesses, q) >= correct) = level, rounded down: a lower bound.

    It may be negative, and is -inf when no guess is right. Closed form: the error rate 1 - q is
    the level's quantile of a beta distribution.

    >>> pure_epsilon(100, 80, 0.05)
    array(0.958392)

    """
    v = np.asarray(correct, float)
    return log_odds_lower(v, np.asarray(guesses, float) - v, level)


def tail(epsilon: ArrayLike, guesses: ArrayLike, correct: ArrayLike) -> FloatArray:
    """P(Bin(guesses, q) >= correct): the p-value under pure epsilon-DP, exact."""
    n, v = np.asarray(guesses, float), np.asarray(correct, float)
    value = beta_upper_tail(n - v + 1, np.maximum(v, 1), special.expit(-np.asarray(epsilon)))
    return np.where(v > 0, value, 1.0)


def log_pmf(wrong: ArrayLike, guesses: ArrayLike, error: ArrayLike) -> FloatArray:
    """The log of P(Bin(guesses, error) = wrong), to 1e-13 or so also for millions of guesses.

    Loader's (2000) form: Stirling's remainders and the deviance, neither of which cancels.
    """
    n, x, error = np.asarray(guesses, float), np.asarray(wrong, float), np.asarray(error)
    v = n - x
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = x * (1 - error) - v * error  # x - n error
        deviance = x * np.log1p(excess / (n * error))
        deviance = deviance + v * np.log1p(-excess / (n * (1 - error)))
        remainder = _stirling(n) - _stirling(x) - _stirling(v)
        inside = remainder - deviance - 0.5 * np.log(2 * np.pi * x * v / n)
    none, all_wrong = special.xlog1py(n, -error), special.xlogy(n, error)
    edge = cast(FloatArray, np.where(x <= 0, none, all_wrong))
    return np.where((x > 0) & (v > 0), inside, edge)


def _stirling(n: FloatArray) -> FloatArray:
    """What Stirling's formula leaves out: log n! - log(sqrt(2 pi n) (n/e)^n)."""
    s = np.maximum(n, 1.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * s * s)) / (s * s)) / (s * s)) / s
    direct = special.gammaln(s + 1) - 0.5 * np.log(2 * np.pi * s) - s * np.log(s) + s
    return np.where(s < 20, direct, series)


def leak_rate_bound(epsilon: ArrayLike, guesses: ArrayLike, correct: ArrayLike) -> FloatArray:
    """B / (v b(v)), which is at least rho(v) and, unlike it, rises with epsilon."""
    n, v = np.asarray(guesses, float), np.asarray(correct, float)
    odds, error = np.exp(epsilon), special.expit(-np.asarray(epsilon, float))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        beta = tail(epsilon, n, v)
        rate = np.exp(np.log(beta) - np.log(v) - log_pmf(n - v, n, error))
        # Where B is so small that ``tail`` only bounds it: b falls at least as fast as a geometric
        # series from v on.
        far = 1 / (v - (n - v) * odds * v / (v + 1))
    return np.where(v > 0, np.where(beta > _SMALLEST_RATIO, rate, far), np.inf)


@dataclass(frozen=True)
class Exact:
    """The least p-value that is valid for every (epsilon, delta)-DP algorithm; see the module."""

    leak: float

    def __call__(self, epsilon: ArrayLike, guesses: ArrayLike, correct: ArrayLike) -> FloatArray:
        """B + L rho, at most 1."""
        beta = tail(epsilon, guesses, correct)
        if self.leak == 0:
            return beta
        with np.errstate(invalid="ignore"):
            rate = leak_rate_bound(epsilon, guesses, correct) * (1 - beta)
        return np.minimum(beta + self.leak * np.where(np.isnan(rate), 1.0, rate), 1.0)


@dataclass(frozen=True)
class Steinke:
    """The published p-value: B + 2 m delta max over 1 <= i <= v of P(v-i <= Y < v) / i.

    ``canaries`` counts all that were randomised, guessed or not. Where B <= 1/2 it is at least
    :class:`Exact`: with Z = v - Y given Y < v and c the largest of P(Z <= i) / i, E Z is at least
    the sum of the positive 1 - c i, i >= 0, so c >= 1 / (2 E Z). What is added here is
    2 m delta (1 - B) c >= m delta / (2 E Z), and rho <= 1 / (2 E Z). Where B > 1/2 it need not be
    valid (four canaries, four guesses, one right, epsilon = 0, delta = .05: it says .9625, the
    truth is .984), so that 1 is answered there: nothing is ever refuted at such levels.
    """

    canaries: int
    delta: float

    def __call__(self, epsilon: ArrayLike, guesses: ArrayLike, correct: ArrayLike) -> FloatArray:
        """An upper bound on the probability of so many correct guesses; at most 1."""
        beta = tail(epsilon, guesses, correct)
        if self.delta == 0:
            return beta
        gain = largest_window_mean(epsilon, guesses, correct)
        p = np.minimum(beta + 2 * self.canaries * self.delta * gain, 1.0)
        return np.where(beta > 0.5, 1.0, p)

    def at_least(self, epsilon: ArrayLike, guesses: ArrayLike, correct: ArrayLike) -> FloatArray:
        """A close lower bound at a fraction of the cost, to leave out hopeless candidates."""
        e, n, v = _broadcast(epsilon, guesses, correct)
        i = np.clip(np.round(_normal_window(e, n, v)), 1, np.maximum(v, 1))
        gain = _window_mean(e, n, v)(i) if self.delta > 0 else 0.0
        return np.minimum(tail(epsilon, n, v) + 2 * self.canaries * self.delta * gain, 1.0)


def _broadcast(
    epsilon: ArrayLike, guesses: ArrayLike, correct: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Error rate, guesses and right guesses as float arrays of one shape."""
    error = special.expit(-np.asarray(epsilon, float))
    e, n, v = np.broadcast_arrays(error, np.asarray(guesses, float), np.asarray(correct, float))
    return e, n, v


def _window_mean(
    error: FloatArray, n: FloatArray, v: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """The function i -> P(v-i <= Y < v) / i for 1 <= i <= v, rounded up; 0 where v = 0."""
    start = np.where(v > 0, beta_upper_tail(n - v + 1, np.maximum(v, 0.5), error), 1.0)

    def mean(i: FloatArray) -> FloatArray:
        rest = v - i
        tail = beta_upper_tail(n - rest + 1, np.maximum(rest, 0.5), error)
        end = np.where(rest > 0, tail, 1.0)
        # Two tails are subtracted, each right to TAIL; the best window has much of the larger one.
        return np.where(v > 0, (end - start + TAIL * (end + start)) / i, 0.0)

    return mean


def largest_window_mean(epsilon: ArrayLike, guesses: ArrayLike, correct: ArrayLike) -> FloatArray:
    """The largest mean of P(Y = .) over windows v-i .. v-1, by bisection over i.

    The pmf is log-concave: once it is below the mean so far, it stays below the later means. So
    the mean rises up to one i and falls from there, and any two points may start the bracket.
    """
    e, n, v = _broadcast(epsilon, guesses, correct)
    mean = _window_mean(e, n, v)
    low, high = np.ones(n.shape), np.maximum(v, 1.0)  # the best i lies in between
    about = _normal_window(e, n, v)
    probes = [np.floor(about * 0.95), np.ceil(about * 1.05)]
    while probes or np.any(low < high):
        i = np.clip(probes.pop(), low, high) if probes else np.floor((low + high) / 2)
        rising = (mean(i + 1) > mean(i)) & (i < high)
        low, high = np.where(rising, i + 1, low), np.where(rising, high, i)
    return mean(low)


def _normal_window(error: FloatArray, n: FloatArray, v: FloatArray) -> FloatArray:
    """About the best i, from the normal curve: where its height is the mean since the start."""
    sd = np.sqrt(n * error * (1 - error)) + 1e-9
    start = (n - v + 0.5 - n * error) / sd
    z = np.maximum(start, 0) + 1.0
    for _ in range(3):
        mean = (special.ndtr(z) - special.ndtr(start)) / (z - start)
        z = np.sqrt(np.maximum(-2 * np.log(np.maximum(2.5066 * mean, 1e-300)), 0))
        z = np.maximum(z, start + 1 / sd)
    return (z - start) * sd


@dataclass(frozen=True)
class Chosen:
    """A p-value for a number of guesses that was chosen by the output and by revealed coins.

    ``share`` of the level pays for the leak, the rest for the tail: the answer is at most
    ``level`` only where p <= (1 - share) level and L B/(v b) <= share level. Both B and B/(v b)
    rise with epsilon, so whatever r was chosen, all that is refuted at a larger epsilon is refuted
    at the true one, and the last formula of the module adds up to the level. (p >= B is all that
    is used of p.)
    """

    p_value: PValue
    leak: float
    level: float
    canaries: int

    @property
    def share(self) -> float:
        """A guess at what will be needed; it may not look at the data.

        B/(v b) is at most about 1, and for many guesses about (e^epsilon r)^-1/2 / 2.
        """
        small = min(0.1, self.leak / self.level)
        usual = 0.5 * self.leak / (self.level * math.sqrt(self.canaries))
        return min(max(small, usual), 0.5)

    def __call__(self, epsilon: ArrayLike, guesses: ArrayLike, correct: ArrayLike) -> FloatArray:
        """Compare with ``level``, no other number."""
        p = self.p_value(epsilon, guesses, correct)
        if self.leak == 0:
            return p
        leaked = self.leak * np.minimum(leak_rate_bound(epsilon, guesses, correct), 1e9)
        return np.minimum(np.maximum(p / (1 - self.share), leaked / self.share), 1.0)


def reserve(leak: float, level: float) -> tuple[float, float]:
    """What is left of a level after the leak is paid for, and the least epsilon to be claimed.

    For every test whose rejections P(E) <= left under pure DP, (epsilon, delta)-DP adds at most
    L (1 - q) = L / (1 + e^epsilon): the guesses revealed one by one are right with probability
    p_i, the chance of E moves by at most (p_i - q)^+ more than under pure DP, and the mean of their
    sum is at most L (1 - q). (Given all other coins, (P(S_j=t | output) - q)^+ has mean at most
    delta / (2 (1 + e^epsilon)) for each t, and Jensen's inequality allows fewer coins and any
    order.) At most half of the level is set aside; what that does not cover is not claimed.
    """
    if leak <= level:
        return level - leak / 2, 0.0
    return level / 2, float(np.log(2 * leak / level - 1))


def hoeffding_epsilon(
    guesses: ArrayLike, correct: ArrayLike, leak: float, level: float, looks: int = 1
) -> FloatArray:
    """Closed-form lower bound logit(v/r - sqrt(log(1/level) / (2 r))), never above the others.

    By Hoeffding's inequality for B; delta is paid for by :func:`reserve`, once for all ``looks``
    that share the level. Also valid when the output chose the number of guesses.
    """
    n, v = np.asarray(guesses, float), np.asarray(correct, float)
    left, floor = reserve(leak, level)
    rate = v / n - np.sqrt(np.log(looks / left) / (2 * n))
    value = special.logit(np.clip(rate, 0, 1))
    return np.where(value >= floor, round_down(np.asarray(value), NUMERICAL, size=1.0), -np.inf)


def largest_epsilon(
    p_value: PValue, guesses: ArrayLike, correct: ArrayLike, level: float
) -> tuple[float, int]:
    """The largest epsilon >= 0 that some candidate refutes at the level, and which: a lower bound.

    Candidates are pairs (guesses, correct). Every epsilon with p <= level may be claimed (the
    p-value bounds P(N >= v) for every larger epsilon too), so nothing depends on p being monotone;
    the answer has been seen to pass. (0, 0) when nothing is refuted.
    """
    n, v = np.atleast_1d(np.asarray(guesses, float)), np.atleast_1d(np.asarray(correct, float))
    quick: PValue = getattr(p_value, "at_least", p_value)
    best, index = 0.0, 0
    alive = np.flatnonzero(v > 0)
    turn = _most_promising(quick, n, v, level) if alive.size > 1 else 0
    while alive.size:
        found = _solve(p_value, n[turn], v[turn], level, best)
        best, index = (found, turn) if found > best else (best, index)
        alive = alive[alive != turn]
        p = quick(best, n[alive], v[alive])
        alive, p = alive[p <= level], p[p <= level]
        turn = int(alive[np.argmin(p)]) if alive.size else 0
    return best, index


def _most_promising(quick: PValue, n: FloatArray, v: FloatArray, level: float) -> int:
    """The candidate that stays refuted longest as epsilon grows."""
    low, middle = 0.0, 0.0
    high = max(float(special.logit(np.max(v / n) * (1 - NUMERICAL))), 0.0)
    alive, order = np.arange(n.size), np.zeros(n.size)
    for _ in range(12):
        order = quick(middle, n[alive], v[alive])
        if np.any(order <= level):
            alive, order, low = alive[order <= level], order[order <= level], middle
        elif middle == 0:
            break
        else:
            high = middle
        middle = (low + high) / 2
    return int(alive[np.argmin(order)])


def _solve(p_value: PValue, guesses: float, correct: float, level: float, low: float) -> float:
    """The largest epsilon with p <= level, for one candidate; ``low`` if even that fails."""
    high = float(pure_epsilon(guesses, correct, level))

    def height(epsilon: float) -> float:
        p = float(p_value(epsilon, guesses, correct))
        return math.log(max(p, TINY)) - math.log(level * (1 - TAIL))

    return last_below(height, low, high) if high > low and height(low) <= 0 else low
