"""Lower bounds on the mechanisms of DP-Sniper's benchmark, and how many of them fall at .1.

Run with ``python -m benchmarks.zoo`` (about ten minutes of one core):

- ``bounds``: pairs given, every draw counted at the end (``sequential=False``), confidence .95;
- ``small``: pairs given, 400 000 draws in all, the default audit against a claim of .1;
- ``hidden``: the same with pairs that are searched, and more draws;
- ``null`` (only if named): four mechanisms whose loss is exactly what they claim, ``NULLS`` default
  audits of each. At most 5 % may be refuted;
- ``honest`` (only if named): every honest subject of the zoo on its stored pair, ``SEEDS`` seeds,
  ``HONEST`` draws, confidence 1 - 1e-6. None may be refuted.

Name one or two of these to run them alone; ``--only rappor`` restricts them to some mechanisms and
may be given several times; ``--seed 1`` takes other draws; ``--page docs/zoo.md`` puts the tables
into that page. The column "DP-Sniper" is what its authors store with their code (Bichsel et al.
2021; logistic regression, confidence .9, 2e8 draws of each world for the final bound).
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.stats import binom

from dpassay import audit
from dpassay.privacy import PureDP
from dpassay.types import FloatArray, Verdict
from dpassay.zoo.catalogue import DRAWS, SUBJECTS, Subject
from dpassay.zoo.tour import input_of, walk

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
    Row("sparse vector 1", 0.0858, draws=96_000_000),
    Row("sparse vector 2", 0.0859, draws=96_000_000),
    Row("sparse vector 3", 0.1716, 0.2, draws=12_000_000),
    Row("sparse vector 4", 0.1687, draws=48_000_000),
    Row("sparse vector 5", 1.7612, 12.0, draws=36_000_000),
    Row("sparse vector 6", 0.2720, 0.31, draws=16_000_000),
    Row("RAPPOR", 0.2930, 0.294, draws=48_000_000),
    Row("one-time RAPPOR", 0.5978, draws=32_000_000),
    Row("parallel Laplace", 0.0350, 0.045, draws=16_000_000),
    Row("sparse vectors 3 and 4", 0.2610, draws=28_000_000),
    Row("prefix sums", 0.5040, 0.9, draws=24_000_000),
    Row("numerical sparse vector", 0.0343, draws=16_000_000),
)


def audited(
    row: Row, draws: int, seed: int = 0, hidden: bool = False, count: bool = False
) -> Verdict:
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
        rng=seed,
    )


def timed(row: Row, draws: int, seed: int = 0, **options: bool) -> tuple[Verdict, float]:
    """The verdict and the CPU seconds that it took."""
    began = time.process_time()
    verdict = audited(row, draws, seed, **options)
    return verdict, time.process_time() - began


def _learner(verdict: Verdict) -> str:
    """The kind of score, from the sentence on the attack."""
    return verdict.attack.partition("(")[2].partition(")")[0]


def _truth(subject: Subject) -> str:
    if subject.epsilon_true is None:
        return "-"
    text = "inf" if math.isinf(subject.epsilon_true) else f"{subject.epsilon_true:.4g}"
    return f"<= {text}" if subject.at_most else text


@dataclass(frozen=True)
class Table:
    """Lines that were measured: printed one by one, and put into a page at the end."""

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    lines: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def add(self, *cells: str) -> None:
        """Keep and print a line."""
        if not self.lines:
            print(self._padded(self.columns))
        self.lines.append(cells)
        print(self._padded(cells), flush=True)

    def _padded(self, cells: tuple[str, ...]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, self.widths, strict=True))

    def markdown(self, summary: str) -> str:
        """The table for a page, and a sentence below it."""
        rows = [self.columns, ("---",) * len(self.columns), *self.lines]
        return "\n".join("| " + " | ".join(row) + " |" for row in rows) + f"\n\n{summary}\n"


def put(page: Path, name: str, text: str) -> None:
    """Replace what stands between the two marks of a table in a page.

    Raises:
        ValueError: the page has no such marks.

    """
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no lines {begin.strip()} and {end}. Add them.")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def measure(rows: list[Row], seed: int = 0) -> str:
    """Lower bounds at .95 with given pairs."""
    names = ("mechanism", "true ε", "DP-Sniper", "goal", "ε ≥", "draws", "CPU s", "score", "")
    table = Table(names, (33, 8, 9, 7, 8, 8, 6, 34, 6))
    total, met = 0.0, 0
    for row in rows:
        verdict, spent = timed(row, row.draws, seed, count=True)
        total, reached = total + spent, verdict.bound.epsilon >= row.wanted
        met += reached
        table.add(
            row.name,
            _truth(row.subject),
            f"{row.sniper:.4f}",
            f"{row.wanted:.4f}",
            f"{verdict.bound.epsilon:.4f}",
            f"{row.draws:.1e}",
            f"{spent:.1f}",
            _learner(verdict),
            "" if reached else "missed",
        )
    summary = f"{met} of {len(rows)} goals, {total:.0f} CPU s."
    print(summary)
    return table.markdown(summary)


def refute(rows: list[Row], draws: int, hidden: bool, seed: int = 0) -> str:
    """Which mechanisms fall at a claim of .1 by the default audit."""
    names = ("mechanism", "true ε at the stored pair", "verdict", "ε ≥", "CPU s", "score", "pair")
    table = Table(names, (33, 8, 12, 8, 6, 34, 20))
    total, fallen, alarms = 0.0, 0, 0
    for row in rows:
        verdict, spent = timed(row, draws, seed, hidden=hidden)
        total += spent
        fallen += verdict.refuted and row.leaks
        alarms += verdict.refuted and not row.leaks
        table.add(
            row.name,
            _truth(row.subject),
            "refuted" if verdict.refuted else "not refuted",
            f"{verdict.bound.epsilon:.4f}",
            f"{spent:.1f}",
            _learner(verdict),
            verdict.pair or "stored",
        )
    leaky = sum(row.leaks for row in rows)
    summary = (
        f"{fallen} of {leaky} with a loss above {CLAIM} refuted, {alarms} false alarms, "
        f"{draws:.0e} draws each, {total:.0f} CPU s."
    )
    print(summary)
    return table.markdown(summary)


# Mechanisms whose loss is exactly TRUE between the data 1 and 0: what is refuted is a false alarm.

TRUE, NULLS, NULL_DRAWS, ALLOWED = 1.0, 75, 50_000, 0.05
_FAILS = 0.1  # how often the last one fails, with the data 1


def _one_bit(data: int, rng: np.random.Generator, size: int) -> FloatArray:
    return (rng.random(size) < 1 / (1 + math.exp(-TRUE if data else TRUE))).astype(float)


def _number(data: int, rng: np.random.Generator, size: int) -> FloatArray:
    return data + rng.laplace(scale=1 / TRUE, size=size)


def _bit_and_numbers(data: int, rng: np.random.Generator, size: int) -> FloatArray:
    """Half of the loss in a bit, half in a number; a third column that says nothing."""
    chance = 1 / (1 + math.exp((-TRUE if data else TRUE) / 2))
    number = data + rng.laplace(scale=2 / TRUE, size=size)
    return np.column_stack([rng.random(size) < chance, number, rng.normal(size=size)])


def _failing(data: int, rng: np.random.Generator, size: int) -> FloatArray:
    """Fails e^TRUE times as often with the data 1; a number has what is left of the loss."""
    rare = _FAILS * math.exp(-TRUE)
    left = TRUE - math.log((1 - rare) / (1 - _FAILS))
    number = data + rng.laplace(scale=1 / left, size=size)
    # With the data 0 the number is the likelier one: below 0, by e^left (1 - rare) / (1 - _FAILS).
    return np.where(rng.random(size) < (_FAILS if data else rare), np.nan, number)


def count_false_alarms() -> str:
    """How often the default audit refutes mechanisms that just keep their claim."""
    table, began, alarms = Table(("mechanism", "refuted"), (20, 20)), time.process_time(), 0
    for mechanism in (_one_bit, _number, _bit_and_numbers, _failing):
        audits = (
            audit(mechanism, (1, 0), claim=PureDP(TRUE), trials=NULL_DRAWS, rng=seed)
            for seed in range(NULLS)
        )
        found = sum(verdict.refuted for verdict in audits)
        alarms += found
        name = mechanism.__name__.strip("_").replace("_", " ")
        table.add(name, f"{found} of {NULLS}")
    allowed = int(binom.ppf(1 - 1e-3, 4 * NULLS, ALLOWED))
    summary = (
        f"{alarms} of {4 * NULLS} refuted, {NULL_DRAWS:.0e} draws each; at {ALLOWED} more than "
        f"{allowed} have a chance below .001; {time.process_time() - began:.0f} CPU s."
    )
    print(summary)
    return table.markdown(summary)


# Honest subjects, many seeds.

SEEDS, HONEST = 20, 100_000


def count_refuted_honest(only: list[str]) -> str:
    """How often honest subjects are refuted at the confidence of ``dpassay zoo``."""
    table, began, alarms = Table(("mechanism", "refuted"), (33, 10)), time.process_time(), 0
    subjects = [s for s in SUBJECTS if not s.broken and any(t in s.name.lower() for t in only)]
    for subject in subjects:
        judged = [next(walk([subject], draws=HONEST, rng=seed)) for seed in range(SEEDS)]
        found = sum(one.verdict.refuted for one in judged)
        alarms += found
        table.add(subject.name, f"{found} of {SEEDS}")
    summary = (
        f"{alarms} of {SEEDS * len(subjects)} honest audits refuted at 1 - 1e-6, {HONEST:.0e} "
        f"draws each (trainings as many as in the zoo); {time.process_time() - began:.0f} CPU s."
    )
    print(summary)
    return table.markdown(summary)


def main() -> None:
    """The tables that were asked for; all of them without an argument."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("tables", nargs="*", help="bounds, small, hidden, null, honest")
    options.add_argument("--only", action="append", help="part of a name")
    options.add_argument("--seed", type=int, default=0, help="of worlds and noise")
    options.add_argument("--page", type=Path, help="put the tables into this page: docs/zoo.md")
    given = options.parse_args()
    only = [text.lower() for text in given.only or [""]]
    rows = [row for row in ROWS if any(text in row.name.lower() for text in only)]
    makers: dict[str, Callable[[], str]] = {
        "bounds": lambda: measure(rows, given.seed),
        "small": lambda: refute(rows, SMALL, hidden=False, seed=given.seed),
        "hidden": lambda: refute(rows, HIDDEN, hidden=True, seed=given.seed),
        "null": count_false_alarms,
        "honest": lambda: count_refuted_honest(only),
    }
    for name in given.tables or ["bounds", "small", "hidden"]:
        text = makers[name]()
        if given.page:
            put(given.page, name, text)


if __name__ == "__main__":
    main()
