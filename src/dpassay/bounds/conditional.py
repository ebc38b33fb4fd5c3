"""Lower bounds from guesses of worlds that were drawn by fair coins: one limit, at full alpha.

**Setting.** The world of each of N independent trials is a fair coin. A rule that was fixed without
these trials looks at an output and guesses "with", guesses "without" or abstains. V guesses were
right, W were wrong, K = V + W were made. Write c and w for the chances that a trial brings a right
and a wrong guess, and h = c + w for the chance of a guess. Trials are independent, so that

    V given K is Bin(K, c / h), exactly.

**Pure DP.** Let S1 and S0 be the outputs at which "with" and "without" are guessed, P and Q the
laws of the output with and without. 2c = P(S1) + Q(S0) <= e^epsilon (Q(S1) + P(S0)) = 2 w
e^epsilon, hence c / h <= e^epsilon / (1 + e^epsilon). One Clopper-Pearson limit u on the chance of
a wrong guess, at level alpha, gives

    epsilon_lower = log((1 - u) / u),    1 - u = BetaInv(alpha; V, W + 1),

which exceeds epsilon with probability alpha at most. Two limits at alpha/2, one for each world, are
1.69 times as wide where guesses are rare; they do not know that the coin was fair.

**With delta.** P(S1) <= e^epsilon Q(S1) + delta, and the same the other way round for S0. So
c <= e^epsilon w + leak, where leak = delta/2 for each of S1 and S0 that is used at all, and

    c / h <= (e^epsilon + leak / h) / (e^epsilon + 1).

*By the share of guesses.* h is seen: K is Bin(N, h). Let h_lower be its Clopper-Pearson lower limit
at level ``spent``, or 1 for a rule that never abstains (then nothing is spent). The test rejects
(epsilon, delta) if P(Bin(K, (e^epsilon + leak/h_lower) / (e^epsilon + 1)) >= V) <= alpha - spent.
*Proof.* h < h_lower has probability ``spent`` at most. For every K with h_lower <= h the chance of
a right guess is at most the one that is tested, so that given this K the test rejects with
probability alpha - spent at most. The sum is alpha. ∎

*By marks.* Right guesses can be marked such that a trial is marked with probability ``leak`` at
most and the unmarked ones have odds of e^epsilon at most. With m the 1 - spent quantile of
Bin(N, leak), V - m takes the place of V in the bound for pure DP. *Proof.* Let M be the number of
marks. V - M given K - M is binomial with odds of e^epsilon at most, and the bound falls in M: where
M <= m (all but ``spent``) the bound at V - m errs only if that at V - M does. ∎ The share is the
better form unless delta N is well below 1.

Both forms are monotone: what rejects (epsilon, delta) rejects all smaller epsilon and delta. So the
bound on epsilon, the bound on delta and the p-value are one test read in three directions.

All of this needs coins. For worlds that were dealt out in fixed numbers use
:func:`dpassay.lower_bound_from_counts`, two Clopper-Pearson limits.
"""

import math
from dataclasses import dataclass
from typing import Literal

from scipy import special

from dpassay import _check
from dpassay._special.margins import ARITHMETIC, ULP, round_down, round_up
from dpassay._special.quantiles import (
    beta_lower_tail,
    binomial_lower,
    binomial_most,
    binomial_upper,
)
from dpassay.errors import InvalidArgument
from dpassay.types import LowerBound

Leak = Literal["share", "marks"]
SPENT = 0.1  # of alpha, on the nuisance: the share of guesses, or the number of marks


@dataclass(frozen=True)
class Guesses:
    """How often a rule that was fixed in advance guessed the world of coin-flip trials rightly.

    Attributes:
        correct: right guesses, V.
        wrong: wrong guesses, W.
        trials: all trials, those without a guess too, N.
        sides: 1 if only one of the two worlds is ever guessed, 2 if both are.
        abstains: whether the rule may abstain; one that never does guesses in every trial.

    """

    correct: int
    wrong: int
    trials: int
    sides: int = 1
    abstains: bool = True

    def __post_init__(self) -> None:
        for name in ("correct", "wrong", "trials"):
            _check.count(name, getattr(self, name), low=0, remedy="It counts trials.")
        _check.count("sides", self.sides, high=2, remedy="It counts the worlds that are guessed.")
        if self.correct + self.wrong > self.trials:
            raise InvalidArgument(
                f"trials={self.trials} must be at least correct + wrong = {self.made}: every "
                "guess belongs to a trial."
            )
        if not self.abstains and (self.made != self.trials or self.sides != 2):
            raise InvalidArgument(
                f"abstains=False needs a guess in each of trials={self.trials} and sides=2; "
                f"there were {self.made} guesses. Pass abstains=True."
            )

    @property
    def made(self) -> int:
        """The number of guesses, K."""
        return self.correct + self.wrong

    def leak(self, delta: float) -> float:
        """The chance per trial of a right guess beyond the odds of e^epsilon, at most."""
        return delta * self.sides / 2

    def level_spent(self, delta: float, alpha: float) -> float:
        """The part of alpha that goes to the nuisance; none where there is no nuisance."""
        return SPENT * alpha if delta > 0 and self.abstains else 0.0

    def share_lower(self, spent: float) -> float:
        """A lower limit on the chance of a guess, except with probability ``spent``."""
        if not self.abstains:
            return 1.0
        return float(binomial_lower(self.made, self.trials, spent))

    def marks(self, delta: float, spent: float) -> int:
        """The most trials that delta can give away, except with probability ``spent``."""
        return int(binomial_most(self.trials, self.leak(delta), spent)) if delta > 0 else 0

    def perfect(self) -> "Guesses":
        """The counts of an attack that never errs, in as many trials."""
        return Guesses(self.trials, 0, self.trials, sides=2, abstains=False)


def epsilon_lower(seen: Guesses, delta: float, alpha: float, form: Leak = "share") -> float:
    """The supremum of the epsilons that are rejected at ``delta``; -inf if none is.

    It exceeds the true epsilon(delta) with probability ``alpha`` at most.
    """
    spent = seen.level_spent(delta, alpha)
    if form == "marks":
        kept = seen.correct - seen.marks(delta, spent)
        return _log_odds(kept, seen.wrong, alpha - spent, 0.0)
    return _log_odds(seen.correct, seen.wrong, alpha - spent, _excess(seen, delta, spent))


def _excess(seen: Guesses, delta: float, spent: float) -> float:
    """The leak over h_lower; over 1 + e^epsilon it is what delta adds to the chance of success."""
    leak = seen.leak(delta)
    if leak == 0:
        return 0.0
    share = seen.share_lower(spent)
    return round_up(leak / share) if share > 0 else math.inf


def _log_odds(correct: int, wrong: int, level: float, excess: float) -> float:
    """Log of the odds o at which (o + excess) / (o + 1) is the lower limit on a right guess."""
    if correct <= 0:
        return -math.inf
    wrong_upper = float(binomial_upper(wrong, correct + wrong, level))
    # 1 - u is exact where it is small; what may be lost beside the excess is taken off.
    right_lower = 1 - wrong_upper - excess - (ULP if excess else 0.0)
    if not right_lower > 0:
        return -math.inf
    return round_down(math.log(right_lower) - math.log(wrong_upper), ARITHMETIC, size=1.0)


def delta_lower(seen: Guesses, epsilon: float, alpha: float) -> float:
    """The supremum of the deltas that are rejected at ``epsilon``; 0 if none is.

    It exceeds the true delta(epsilon) with probability ``alpha`` at most. The share of guesses is
    the form that is inverted.
    """
    spent = seen.level_spent(1.0, alpha)
    if seen.correct == 0:
        return 0.0
    wrong_upper = float(binomial_upper(seen.wrong, seen.made, alpha - spent))
    allowed = wrong_upper * (1 + math.exp(min(epsilon, 700.0)))
    leak = round_down(1 - allowed, size=1.0) * seen.share_lower(spent)
    return min(max(round_down(2 * leak / seen.sides), 0.0), 1.0)


def p_value(
    seen: Guesses, epsilon: float, delta: float, spent: float = 0.0, form: Leak = "share"
) -> float:
    """The p-value of (epsilon, delta)-DP, an upper bound: the smallest alpha that rejects it.

    ``spent`` is the part of that alpha which goes to the nuisance, fixed in advance; 0 only where
    there is none (delta = 0, or a rule that never abstains).
    """
    if seen.correct == 0:
        return 1.0
    marks = form == "marks"
    correct = seen.correct - (seen.marks(delta, spent) if marks else 0)
    excess = 0.0 if marks else _excess(seen, delta, spent)
    # The most likely a guess may be right: e^epsilon / (1 + e^epsilon), and what delta adds.
    right = float(special.expit(epsilon)) + excess * float(special.expit(-epsilon))
    if correct <= 0 or right >= 1:
        return 1.0
    # P(Bin(n, p) >= k) is the Beta(k, n - k + 1) distribution function at p.
    return min(1.0, float(beta_lower_tail(correct, seen.wrong + 1, right)) + spent)


def lower_bound_from_coins(
    *,
    correct: int,
    wrong: int,
    trials: int,
    delta: float,
    confidence: float = 0.95,
    sides: int = 1,
    abstains: bool = True,
    leak: Leak = "share",
) -> LowerBound:
    """A lower bound on epsilon(delta) from right and wrong guesses of coin-flip worlds.

    The world of each trial must have been drawn by a fair coin of its own, and the rule that
    guesses must have been fixed without these trials. For fixed numbers of trials in each world use
    :func:`dpassay.lower_bound_from_counts`.

    Args:
        correct: the number of right guesses.
        wrong: the number of wrong guesses.
        trials: the number of trials, those in which the rule abstained too.
        delta: where on the privacy curve the bound is stated; in [0, 1).
        confidence: the probability that the bound holds; in (0, 1).
        sides: 1 if the rule only ever guesses one of the worlds, 2 if it guesses both.
        abstains: False for a rule that guesses in every trial.
        leak: how delta is paid for, see :mod:`dpassay.bounds.conditional`: "share" or "marks".

    Raises:
        InvalidArgument: a value out of range, or more guesses than trials.

    >>> print(lower_bound_from_coins(correct=100, wrong=10, trials=5000, delta=0))
    epsilon >= 1.7399 at delta=0 (confidence 0.95, conditional; ceiling 7.42)

    """
    seen = Guesses(correct, wrong, trials, sides, abstains)
    delta, confidence = _check.delta(delta), _check.confidence(confidence)
    form: Leak = _check.choice("leak", leak, ("share", "marks"))  # type: ignore[assignment]
    alpha = 1 - confidence
    return LowerBound(
        epsilon=max(epsilon_lower(seen, delta, alpha, form), 0.0),
        delta=delta,
        confidence=confidence,
        method="conditional",
        ceiling=max(epsilon_lower(seen.perfect(), delta, alpha), 0.0),
        details={"correct": float(correct), "wrong": float(wrong), "trials": float(trials)},
    )
