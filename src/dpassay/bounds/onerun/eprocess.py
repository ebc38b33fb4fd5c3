"""Betting on the guesses, one after another: a bound that may be watched all the time.

Bet on the most certain guess first. A stake of c in [0, 1] of what is allowed multiplies the wealth
by 1 + c e^-epsilon when the guess is right and by 1 - c when it is wrong.

*Pure DP.* Whatever coins R have been revealed, P(output, S_R | S_i=1) / P(output, S_R | S_i=0) is
a ratio of averages over the other coins of terms within e^+-epsilon of each other. So given
all that is known the guess is right with probability p_i <= q = e^epsilon / (1 + e^epsilon). The
mean factor is 1 + c (p_i e^-epsilon - (1 - p_i)) <= 1, with equality at q: wealth is a
supermartingale, and P(it ever reaches 1/level) <= level (Ville). Guess, stake, order and abstention
may depend on the output and on revealed coins.

*Delta.* Let V be the largest chance, over all p_i <= q to come, that the wealth still reaches
1/level; V <= level at the start. A guess with p_i > q raises it by at most p_i - q, and the mean of
the sum of these is at most L / (1 + e^epsilon), see
:func:`~dpassay.bounds.onerun.pvalues.reserve`. So P(wealth ever reaches 1/level) <=
level + L / (1 + e^epsilon), which is sharper by a factor q than the L e^-epsilon of Markov's
inequality.

Stakes here do not depend on epsilon and are averaged over a fixed list, so the wealth falls in
epsilon and "some larger epsilon was refuted" is one event for the true epsilon.
"""

import numpy as np
from scipy import special

from dpassay._special.margins import NUMERICAL
from dpassay._special.search import last_below
from dpassay.bounds.onerun.pvalues import pure_epsilon, reserve
from dpassay.bounds.onerun.ranking import IntArray
from dpassay.types import FloatArray

STAKES = np.array([0.02, 0.05, 0.12, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95, 1.0])


def log_wealth(epsilon: float, guesses: IntArray, correct: IntArray) -> FloatArray:
    """The logarithm of the wealth after each number of guesses, started at 1."""
    n, v = np.asarray(guesses, float)[:, None], np.asarray(correct, float)[:, None]
    each = v * np.log1p(STAKES * np.exp(-epsilon)) + special.xlog1py(n - v, -STAKES)
    total = np.logaddexp.reduce(each, axis=1)
    return total - np.log(STAKES.size)


def betting_epsilon(
    guesses: IntArray, correct: IntArray, level: float, leak: float = 0.0
) -> tuple[float, int]:
    """The largest epsilon whose wealth ever reached 1/level, a lower bound; and when that was."""
    left, floor = reserve(leak, level)

    def height(epsilon: float) -> float:
        reached = float(np.max(log_wealth(epsilon, guesses, correct)))
        return -np.log(left) - reached + NUMERICAL

    if height(0.0) > 0:
        return 0.0, 0
    perfect = float(pure_epsilon(guesses[-1], guesses[-1], left))
    epsilon = last_below(height, 0.0, max(perfect, 0.0))
    index = int(np.argmax(log_wealth(epsilon, guesses, correct)))
    return (epsilon if epsilon >= floor else 0.0), index
