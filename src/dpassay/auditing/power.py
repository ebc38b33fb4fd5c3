"""What an audit could have seen: the separation that it reached, and that the claim allows.

**The most that a claim allows.** Its trade-off function f bounds every attack: the area under the
ROC curve (AUC) is at most that under 1 - f, and the total variation at most delta(0). For
(epsilon, delta)-DP the ROC runs from (0, delta) with slope e^epsilon to (x, 1 - x), where
x = (1 - delta) / (1 + e^epsilon), on to (1 - delta, 1), and along the top. For Gaussian DP it is
Phi(mu / sqrt(2)).

**Trials without which nothing can be refuted.** Under the claim a guess may be right with
probability p = (1 + delta(0)) / 2. Then all of N guesses are right with probability p^N, and a
perfect attack sees nothing else. So a test at level alpha that lets a perfect attack refute the
claim needs p^N <= alpha. An audit in which even a perfect attack would not refute is vacuous; the
referee itself is asked, with scores that are the worlds.
"""

import functools
import math
from dataclasses import replace

import numpy as np
from scipy import special

from dpassay._special.search import first_true
from dpassay.auditing.account import Account
from dpassay.auditing.next_steps import Circumstances, choose_next_step
from dpassay.auditing.referee import Referee, Rules
from dpassay.bounds.metrics import auc
from dpassay.privacy import GDP, ApproxDP, PureDP
from dpassay.types import Evidence, FloatArray, Power, PrivacyCurve, Verdict

_CELLS = 4096
_ROOM, _SPARE = 4, 20  # a perfect attack needs up to 2.5 times the least number, to learn its bets
_FOR_AREA = 1_000_000  # trials whose area is measured, the first ones: to 1e-3, and sorts take time
_LONGEST = 20_000  # trials that a perfect attack is played for, to name a number


def auc_allowed(claim: PrivacyCurve) -> float:
    """The largest AUC that a claim allows: an upper bound, exact for the plain claims."""
    if isinstance(claim, GDP):
        return float(special.ndtr(claim.mu / math.sqrt(2)))
    if isinstance(claim, ApproxDP | PureDP):
        delta = claim.delta_upper if isinstance(claim, ApproxDP) else 0.0
        x = (1 - delta) * float(special.expit(-claim.epsilon_upper))
        return x * (delta + 1 - x) / 2 + (1 - delta - x) * (2 - x) / 2 + delta
    # f is convex, so that its values in the middle of cells sum up to no more than its integral.
    middles = (np.arange(_CELLS) + 0.5) / _CELLS
    return 1 - float(np.mean(claim.tradeoff(middles)))


def least_trials(claim: PrivacyCurve, alpha: float) -> float:
    """The trials without which no test at level alpha refutes a claim, whatever the attack.

    inf where no number of them would do.
    """
    wrong = (1 - float(claim.delta(0.0))) / 2
    return math.ceil(math.log(alpha) / math.log1p(-wrong) - 1e-9) if wrong > 1e-12 else math.inf


def is_vacuous(rules: Rules, trials: int) -> bool:
    """Whether even a perfect attack would not refute the claim in so many trials."""
    least = least_trials(rules.claim, rules.alpha)
    if trials < least:
        return True
    shares = 1.0 if rules.account.betting == 1 else 5.0  # a count has part of alpha and of trials
    if trials >= shares * _ROOM * least + _SPARE:
        return False
    return _find_fall(_undo_spending(rules), trials) > trials


def trials_that_would_do(rules: Rules, block: int, learning_share: float) -> float:
    """Trials in all with which a perfect attack would refute the claim; inf if none would."""
    least = least_trials(rules.claim, rules.alpha)
    count = rules.account.betting < 1
    wanted = (5 if count else 1) * _ROOM * least + _SPARE
    if not wanted <= _LONGEST:
        return wanted / (1 - learning_share) if wanted < math.inf else math.inf
    found = _find_fall(_undo_spending(rules), int(wanted))
    # The coins of the audit may fall less well than those that were tried.
    testing = min((2.5 if count else 1.25) * found, wanted)
    return math.ceil(testing / (1 - learning_share) / max(block, 1)) * max(block, 1)


def _undo_spending(rules: Rules) -> Rules:
    """The rules with an account from which nothing has been spent yet."""
    return replace(rules, account=Account.begin(1, sequential=rules.account.betting == 1))


def _find_fall(rules: Rules, trials: int) -> float:
    """After how many of so many trials a perfect attack refutes the claim; inf if it does not."""
    plain = isinstance(rules.claim, ApproxDP | GDP | PureDP)  # equal by their numbers
    return (_refuted_at_kept if plain else _play_perfect)(rules, trials)


def _play_perfect(rules: Rules, trials: int) -> float:
    """After how many trials a perfect attack refutes the claim, found by playing it.

    A count is made at the end; then the least number of trials that would do is searched.
    """
    worlds = np.random.default_rng(0).integers(0, 2, trials)
    perfect = worlds.astype(float)
    shown, count = perfect[:, None] if rules.online else perfect, rules.account.betting < 1

    def refute(n: int) -> float:
        account = Account.begin(n, sequential=not count)
        referee = Referee(replace(rules, account=account.order(n) if count else account))
        referee.take(worlds[:n], shown[:n])
        if count:
            return n if referee.has_refuted() else math.inf
        return math.inf if referee.refuted_at is None else referee.refuted_at

    found = refute(trials)
    if not count or found == math.inf:
        return found
    return int(first_true(lambda n: refute(int(n)) < math.inf, 1, trials, whole=True))


_refuted_at_kept = functools.lru_cache(maxsize=64)(_play_perfect)


def power_of(
    claim: PrivacyCurve,
    evidence: Evidence,
    ceiling: float,
    *,
    vacuous: bool,
    both_ways: bool,
    n_scores: int = 1,
) -> Power:
    """The separation that the scores show, beside the most that the claim allows.

    Where they are the best of several scores, the interval holds for all of these together.
    """
    some = evidence.worlds[:_FOR_AREA], evidence.scores[:_FOR_AREA]
    inside, outside = Evidence(*some).sides()
    value, lower, upper = 0.5, 0.0, 1.0
    if inside.size and outside.size:
        level = 1 - 0.05 / n_scores
        found = auc(_finite(inside), _finite(outside), confidence=level, method="delong")
        value, lower, upper = found.value, found.lower, found.upper
    if both_ways and value < 0.5:
        value, lower, upper = 1 - value, 1 - upper, 1 - lower
    return Power(value, lower, upper, auc_allowed(claim), ceiling, vacuous)


def _finite(scores: FloatArray) -> FloatArray:
    """Scores with their order, without infinities."""
    return np.nan_to_num(scores, posinf=np.finfo(float).max, neginf=np.finfo(float).min)


def describe_vacuous(trials: int, would_do: float, advice: str = "") -> str:
    """What is said before a vacuous audit is played, with what to claim instead if it is known."""
    remedy = (
        "No number of trials would do: the claim allows everything."
        if would_do == math.inf
        else f"Play at least {math.ceil(would_do)} trials."
    )
    return (
        f"this audit is vacuous: even a perfect attack could not refute the claim in {trials} "
        f"trials. {remedy} {advice}".rstrip()
    )


def with_power(
    verdict: Verdict,
    *,
    vacuous: bool,
    both_ways: bool,
    n_scores: int = 1,
    seen: Circumstances = Circumstances(),  # noqa: B008
) -> Verdict:
    """The verdict with its power and its next step."""
    power = power_of(
        verdict.claim,
        verdict.evidence,
        verdict.bound.ceiling,
        vacuous=vacuous,
        both_ways=both_ways,
        n_scores=n_scores,
    )
    return replace(verdict, power=power, next_step=choose_next_step(verdict, power, seen))
