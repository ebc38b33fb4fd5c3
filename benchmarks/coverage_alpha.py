"""How often the pair (verdict, bound) of an audit is wrong, when the audit is extended twice.

Run with ``python -m benchmarks.coverage_alpha`` (some ten minutes of one core; ``--quick``: a tenth
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
from dpassay.privacy import events
from dpassay.types import FloatArray, PrivacyCurve

ALPHA = 0.05
Draw = Callable[[np.random.Generator, FloatArray], FloatArray]


@dataclass(frozen=True)
class Subject:
    """A mechanism at the boundary of its claim: scores of given worlds, and the claim."""

    name: str
    draw: Draw
    claim: PrivacyCurve
    slow: bool = False


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


SUBJECTS = [
    Subject("response, PureDP(1)", response, da.PureDP(1.0)),
    Subject("Laplace, PureDP(1)", laplace, da.PureDP(1.0)),
    Subject("leaky, ApproxDP(1, 0.02)", leaky, da.ApproxDP(1.0, 0.02)),
    Subject("Gaussian, GDP(0.5)", shifted(0.5), da.GDP(0.5), slow=True),
    Subject(
        "Gaussian, its PLD",
        shifted(0.5),
        da.account(events.Gaussian(2.0), "pld"),
        slow=True,
    ),
]


def fresh(subject: Subject, account: Account) -> Referee:
    delta = claimed_delta(subject.claim, None)
    return Referee(Rules(subject.claim, delta, 1 - ALPHA, True, account))


def is_wrong(
    subject: Subject, start: Referee, budgets: tuple[int, ...], rng: np.random.Generator
) -> bool:
    """Whether verdict or bound errs at any budget; later budgets extend the same run."""
    referee = deepcopy(start)
    truth = float(subject.claim.epsilon(referee.rules.delta))
    for budget in budgets:
        worlds = rng.integers(0, 2, budget - referee.trials)
        if referee.take(worlds, subject.draw(rng, worlds)):
            return True
        referee.rules = replace(referee.rules, account=referee.rules.account.order(budget))
        refuted, bound, _ = referee.statement()
        if refuted or bound.epsilon > truth:
            return True
    return False


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


KINDS = {
    "counts": (Account(0.0, 0), (200, 600, 1800), 2800),
    "both": (Account(0.2, 100), (300, 900, 2700), 500),
    "bets": (Account(1.0, None), (50, 100, 200), 20),
    "twice": (Twice(0.0, 0), (200, 600, 1800), 400),
}


def main(quick: bool) -> None:
    for kind, (account, budgets, n) in KINDS.items():
        for subject in SUBJECTS:
            fewer = (20 if subject.slow and n > 20 else 1) * (10 if quick else 1)
            start = fresh(subject, account)
            print(row(kind, subject, start, budgets, n // fewer), flush=True)


if __name__ == "__main__":
    main("--quick" in sys.argv)
