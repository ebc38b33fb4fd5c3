"""Lower bounds on the mechanisms of DP-Sniper's benchmark, and how many of them fall at .1.

Run with ``python -m benchmarks.zoo`` (about ten minutes of one core):

- ``bounds``: pairs given, every draw counted at the end (``sequential=False``), confidence .95;
- ``small``: pairs given, 400 000 draws in all, the default audit against a claim of .1;
- ``hidden``: the same with pairs that are searched, and more draws.

Name one or two of these to run them alone; ``--only rappor`` restricts them to some mechanisms. The
column "DP-Sniper" is what its authors store with their code (Bichsel et al. 2021; logistic
regression, confidence .9, 2e8 draws of each world for the final bound).
"""

import argparse
import math
import time
from dataclasses import dataclass

from dpassay import audit
from dpassay.privacy import PureDP
from dpassay.types import Verdict
from dpassay.zoo.catalogue import DRAWS, Subject
from dpassay.zoo.tour import input_of

CLAIM = 0.1
SMALL, HIDDEN, USUAL = 400_000, 2_000_000, 8_000_000


@dataclass(frozen=True)
class Row:
    """A mechanism of the benchmark.

    Attributes:
        name: in the zoo.
        sniper: the bound that DP-Sniper stores.
        goal: what the audit should reach; by default 1 % below DP-Sniper's bound.
        draws: of the audit that measures it, both worlds and learning included.

    """

    name: str
    sniper: float
    goal: float | None = None
    draws: int = USUAL

    @property
    def subject(self) -> Subject:
        """The mechanism, with its pair."""
        return next(one for one in DRAWS if one.name == self.name)

    @property
    def wanted(self) -> float:
        """The goal of this mechanism."""
        return 0.99 * self.sniper if self.goal is None else self.goal

    @property
    def leaks(self) -> bool:
        """Whether its loss is above the claim."""
        truth = self.subject.epsilon_true
        return truth is None or truth > CLAIM


ROWS = (
    Row("laplace", 0.0968),
    Row("truncated geometric", 0.1156),
    Row("noisy histogram", 0.0978, draws=24_000_000),
    Row("noisy histogram, inverted scale", 4.6020, 9.8, draws=32_000_000),
    Row("noisy argmax, Laplace", 0.0923, draws=24_000_000),
    Row("noisy argmax, exponential", 0.0975, draws=16_000_000),
    Row("noisy max, Laplace", 0.2478, draws=64_000_000),
    Row("noisy max, exponential", 0.3463, 1.5, draws=40_000_000),
    Row("sparse vector 1", 0.0858, draws=32_000_000),
    Row("sparse vector 2", 0.0859, draws=32_000_000),
    Row("sparse vector 3", 0.1716, 0.2, draws=12_000_000),
    Row("sparse vector 4", 0.1687, draws=48_000_000),
    Row("sparse vector 5", 1.7612, 12.0, draws=36_000_000),
    Row("sparse vector 6", 0.2720, 0.31, draws=12_000_000),
    Row("RAPPOR", 0.2930, 0.294, draws=48_000_000),
    Row("one-time RAPPOR", 0.5978, draws=32_000_000),
    Row("parallel Laplace", 0.0350, 0.045, draws=16_000_000),
    Row("sparse vectors 3 and 4", 0.2610, draws=12_000_000),
    Row("prefix sums", 0.5040, 0.9),
    Row("numerical sparse vector", 0.0343, draws=16_000_000),
)


def audited(row: Row, draws: int, hidden: bool = False, count: bool = False) -> Verdict:
    """The verdict of an audit as a user asks for it."""
    subject = row.subject
    source = input_of(subject) if hidden else None
    return audit(
        subject.mechanism,
        None if source else subject.pair(),
        data=source,
        claim=PureDP(CLAIM),
        trials=draws,
        sequential=not count,
        neighbours="trusted",
    )


def timed(row: Row, draws: int, **options: bool) -> tuple[Verdict, float]:
    """The verdict and the CPU seconds that it took."""
    began = time.process_time()
    verdict = audited(row, draws, **options)
    return verdict, time.process_time() - began


def _learner(verdict: Verdict) -> str:
    """The kind of score, from the sentence on the attack."""
    return verdict.attack.partition("(")[2].partition(")")[0]


def _truth(subject: Subject) -> str:
    if subject.epsilon_true is None:
        return "-"
    text = "inf" if math.isinf(subject.epsilon_true) else f"{subject.epsilon_true:.4g}"
    return f"<= {text}" if subject.at_most else text


def measure(rows: list[Row]) -> None:
    """Lower bounds at .95 with given pairs."""
    print(
        f"{'mechanism':33s} {'truth':>8s} {'DP-Sniper':>9s} {'goal':>7s} {'bound':>8s} "
        f"{'draws':>8s} {'CPU s':>6s}  score"
    )
    total, met = 0.0, 0
    for row in rows:
        verdict, spent = timed(row, row.draws, count=True)
        total, reached = total + spent, verdict.bound.epsilon >= row.wanted
        met += reached
        print(
            f"{row.name:33s} {_truth(row.subject):>8s} {row.sniper:9.4f} {row.wanted:7.4f} "
            f"{verdict.bound.epsilon:8.4f} {row.draws:8.1e} {spent:6.1f}  {_learner(verdict)}"
            f"{'' if reached else '  MISSED'}",
            flush=True,
        )
    print(f"{met} of {len(rows)} goals, {total:.0f} CPU s")


def refute(rows: list[Row], draws: int, hidden: bool) -> None:
    """Which mechanisms fall at a claim of .1 by the default audit."""
    print(f"{'mechanism':33s} {'truth':>8s} {'verdict':>12s} {'bound':>8s} {'CPU s':>6s}  score")
    total, fallen, alarms = 0.0, 0, 0
    for row in rows:
        verdict, spent = timed(row, draws, hidden=hidden)
        total += spent
        fallen += verdict.refuted and row.leaks
        alarms += verdict.refuted and not row.leaks
        said = "refuted" if verdict.refuted else "not refuted"
        print(
            f"{row.name:33s} {_truth(row.subject):>8s} {said:>12s} {verdict.bound.epsilon:8.4f} "
            f"{spent:6.1f}  {_learner(verdict)}{f'; {verdict.pair}' if hidden else ''}",
            flush=True,
        )
    leaky = sum(row.leaks for row in rows)
    print(
        f"{fallen} of {leaky} with a loss above {CLAIM} refuted, {alarms} false alarms, "
        f"{draws:.0e} draws each, {total:.0f} CPU s"
    )


def main() -> None:
    """The tables that were asked for; all of them without an argument."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("tables", nargs="*", help="bounds, small, hidden")
    options.add_argument("--only", default="", help="part of a name")
    given = options.parse_args()
    tables = given.tables or ["bounds", "small", "hidden"]
    rows = [row for row in ROWS if given.only.lower() in row.name.lower()]
    if "bounds" in tables:
        measure(rows)
    if "small" in tables:
        refute(rows, SMALL, hidden=False)
    if "hidden" in tables:
        refute(rows, HIDDEN, hidden=True)


if __name__ == "__main__":
    main()
