"""How often the pair (verdict, bound) of an audit is wrong, when the audit is extended twice.

Run with ``python -m benchmarks.coverage_alpha`` (twenty minutes of one core; ``--quick``: a tenth
of the audits). The mechanisms just meet their claims: every refutation is an error, and so is a
bound above the true epsilon. An audit is wrong if either happens at any of its three budgets.
Trials are drawn from the law of the scores, and judged by the referee of ``dpassay.audit`` with the
account that a log would keep.

Rows by "bets" watch every trial. Rows by "counts" count new guesses at the end of each budget. Rows
by "both" bet on the first trials with a fifth of the level, and count the rest. Rows by "twice" are
mutants: every count gets the whole level, as if the run had not been asked before.
"""

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

import dpassay as da
from dpassay.auditing.account import Account
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from dpassay.types import FloatArray, PrivacyCurve

ALPHA = 0.05
_KEPT = ("claimed", "points")  # of the claim alone, and slow to compute: once for all audits
Draw = Callable[[np.random.Generator, FloatArray], FloatArray]


@dataclass(frozen=True)
class Subject:
    """A mechanism at the boundary of its claim: scores of given worlds, and the claim."""

    name: str
    draw: Draw
    claim: PrivacyCurve


def response(rng: np.random.Generator, worlds: FloatArray) -> FloatArray:
    """Randomized response at epsilon = 1."""
    lies = rng.random(worlds.size) < 1 / (1 + np.e)
    return np.where(lies, 1 - worlds, worlds).astype(float)


def laplace(rng: np.random.Generator, worlds: FloatArray) -> FloatArray:
    return worlds + rng.laplace(size=worlds.size)


def leaky(rng: np.random.Generator, worlds: FloatArray) -> FloatArray:
    """Response at epsilon = 1 that gives the world away with chance 0.02: (1, 0.02)-DP, exactly."""
    plain = 2 * worlds - 1
    return np.where(rng.random(worlds.size) < 0.02, 10.0 * plain, response(rng, worlds))


def shifted(mu: float) -> Draw:
    return lambda rng, worlds: mu * worlds + rng.normal(size=worlds.size)


def training(rng: np.random.Generator, worlds: FloatArray) -> FloatArray:
    """Four steps of DP-SGD (noise 1, rate 0.3): the log-likelihood ratio of all that is seen."""
    seen = rng.normal(size=(4, worlds.size)) + worlds * (rng.random((4, worlds.size)) < 0.3)
    return np.log(0.7 + 0.3 * np.exp(seen - 0.5)).sum(axis=0)


SUBJECTS = [
    Subject("response, PureDP(1)", response, da.PureDP(1.0)),
    Subject("Laplace, PureDP(1)", laplace, da.PureDP(1.0)),
    Subject("leaky, ApproxDP(1, 0.02)", leaky, da.ApproxDP(1.0, 0.02)),
    Subject("Gaussian, GDP(0.5)", shifted(0.5), da.GDP(0.5)),
    Subject("DP-SGD, its PLD", training, da.account(da.dp_sgd_event(1.0, 0.3, 4), "pld")),
]


def fresh(subject: Subject, account: Account) -> Referee:
    delta = claimed_delta(subject.claim, None)
    rules = Rules(subject.claim, delta, 1 - ALPHA, True, account)
    for name in _KEPT:
        getattr(rules, name)
    return Referee(rules)


def is_wrong(
    subject: Subject, start: Referee, budgets: tuple[int, ...], rng: np.random.Generator
) -> bool:
    """Whether verdict or bound errs at any budget; later budgets extend the same run."""
    referee = deepcopy(start)
    for budget in budgets:
        worlds = rng.integers(0, 2, budget - referee.trials)
        if referee.take(worlds, subject.draw(rng, worlds)):
            return True
        rules = replace(referee.rules, account=referee.rules.account.order(budget))
        vars(rules).update({name: vars(start.rules)[name] for name in _KEPT})
        referee.rules = rules
    # One look is enough. The last statement has the counts of all budgets in it, and the bound of
    # the bets never falls: what was wrong before is wrong now.
    refuted, bound, _ = referee.statement()
    return refuted or bound.epsilon > referee.rules.claimed


def row(kind: str, subject: Subject, start: Referee, budgets: tuple[int, ...], n: int) -> str:
    rngs = np.random.default_rng(14).spawn(n)
    wrong = sum(is_wrong(subject, start, budgets, rng) for rng in rngs)
    low, high = stats.binomtest(wrong, n).proportion_ci(0.95, "exact")
    note = "" if low <= ALPHA else f" above {ALPHA}"
    return (
        f"{kind:7} {subject.name:26} {wrong:5} of {n:<6} {wrong / n:.4f} "
        f"[{low:.4f}, {high:.4f}]{note}"
    )


class Twice(Account):
    """The mutant: an account that gives every count the whole level."""

    def share(self, count: int) -> float:
        return 1.0


# The account, the three budgets, and how many audits: of stated (epsilon, delta), of curves.
KINDS = {
    "counts": (Account(0.0, 0), (200, 600, 1800), (1500, 600)),
    "both": (Account(0.2, 100), (300, 900, 2700), (500, 500)),
    "bets": (Account(1.0, None), (50, 100, 200), (500, 500)),
    "twice": (Twice(0.0, 0), (200, 600, 1800), (400, 100)),
}


def main(quick: bool) -> None:
    for kind, (account, budgets, sizes) in KINDS.items():
        for subject in SUBJECTS:
            n = sizes[not isinstance(subject.claim, da.PureDP | da.ApproxDP)]
            start = fresh(subject, account)
            print(row(kind, subject, start, budgets, n // (10 if quick else 1)), flush=True)


if __name__ == "__main__":
    main("--quick" in sys.argv)
