"""What a source document states, held against numbers: holds, fails, or not decided.

A claim says by which criterion it is judged. Where chance enters, a quantity is known by an
interval: the claim holds if all of the interval meets the criterion, fails if none of it does, and
is not decided otherwise. Intervals of means over repetitions are Student's at 99 %; fewer than
three repetitions have none, so that nothing is decided by two points that happen to agree.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from dpassay.report import figures
from dpassay.types import FloatArray

__all__ = [
    "CHANCE",
    "FAILS",
    "FEWEST",
    "HOLDS",
    "UNDECIDED",
    "Claim",
    "Estimate",
    "Picture",
    "Verdict",
    "claim_exactly",
    "compare_deviations",
    "decide",
    "estimate",
    "estimate_difference",
    "estimate_log_ratio",
    "estimate_rows",
    "estimate_share",
    "judge_above",
    "judge_all",
    "judge_below",
    "judge_most",
    "judge_order",
    "judge_within",
]

Verdict = Literal["holds", "fails", "not decided"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "fails"
UNDECIDED: Verdict = "not decided"
CHANCE = 0.01  # of an interval that misses the truth
FEWEST = 3  # repetitions that an error can be learned from


@dataclass(frozen=True)
class Claim:
    """A sentence of a source document, how it is judged, and what came out.

    Attributes:
        text: the document's sentence, made precise enough to be wrong.
        criterion: when it holds and when it fails; in all other cases it is not decided.
        verdict: "holds", "fails" or "not decided".
        measured: the numbers, in words.

    """

    text: str
    criterion: str
    verdict: Verdict
    measured: str

    @property
    def holds(self) -> bool:
        """Whether the numbers agree beyond chance."""
        return self.verdict == HOLDS

    @property
    def fails(self) -> bool:
        """Whether the numbers speak against it beyond chance."""
        return self.verdict == FAILS

    def __str__(self) -> str:
        found = {UNDECIDED: "It is not decided"}.get(self.verdict, f"It {self.verdict}")
        return f"Claim: {self.text} Criterion: {self.criterion} {found}: {self.measured}"


@dataclass(frozen=True)
class Picture(figures.Picture):
    """A figure of a source document, with what the document says of it, judged.

    Attributes:
        claims: what the document says of it.

    """

    claims: tuple[Claim, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The claims in words."""
        return tuple(map(str, self.claims))

    @property
    def numbers(self) -> dict[str, Any]:
        """What ``numbers.json`` says of it, claims included."""
        found = super().numbers
        return found | ({"claims": [asdict(c) for c in self.claims]} if self.claims else {})


def claim_exactly(text: str, criterion: str, holds: bool, measured: str) -> Claim:
    """A statement that chance does not enter: it holds or fails."""
    return Claim(text, criterion, decide(holds, not holds), measured)


# Quantities that are known up to chance.


@dataclass(frozen=True)
class Estimate:
    """A quantity with an interval that holds the truth with probability 99 %.

    Attributes:
        value: the best guess.
        low: the lower end; -inf where nothing is known.
        high: the upper end.

    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if not math.isfinite(self.low):
            return f"{self.value:.3g} (too few repetitions for an interval)"
        return f"{self.value:.3g} in [{self.low:.3g}, {self.high:.3g}]"

    def percent(self, digits: int = 1) -> str:
        """The same in per cent."""
        value, *ends = (f"{100 * x:.{digits}f}" for x in (self.value, self.low, self.high))
        if not math.isfinite(self.low):
            return f"{value} % (too few repetitions for an interval)"
        return f"{value} % in [{ends[0]}, {ends[1]}]"


def estimate(values: Any, among: int = 1) -> Estimate:
    """The mean of independent values with Student's interval, at 1 - 0.01/among.

    >>> estimate([1.0, 1.0]).low
    -inf

    """
    x = np.asarray(values, float)
    n, mean = x.size, float(np.mean(x)) if x.size else math.nan
    if n < FEWEST or not np.isfinite(x).all():
        return Estimate(mean, -math.inf, math.inf)
    reach = -float(special.stdtrit(n - 1, CHANCE / (2 * among))) * float(x.std(ddof=1))
    return Estimate(mean, mean - reach / math.sqrt(n), mean + reach / math.sqrt(n))


def estimate_rows(rows: FloatArray) -> list[Estimate]:
    """The means of rows, whose columns are repetitions; all intervals hold together at 99 %."""
    return [estimate(row, among=len(rows)) for row in rows]


def estimate_difference(one: FloatArray, other: FloatArray) -> Estimate:
    """The mean of one sample less that of an independent one, with Welch's interval."""
    difference = float(np.mean(one) - np.mean(other))
    if min(len(one), len(other)) < FEWEST:
        return Estimate(difference, -math.inf, math.inf)
    parts = [float(np.var(x, ddof=1)) / len(x) for x in (one, other)]
    if sum(parts) == 0:
        return Estimate(difference, difference, difference)
    rest = sum(v**2 / (len(x) - 1) for v, x in zip(parts, (one, other), strict=True))
    reach = -float(special.stdtrit(sum(parts) ** 2 / rest, CHANCE / 2)) * math.sqrt(sum(parts))
    return Estimate(difference, difference - reach, difference + reach)


def estimate_share(k: int, n: int) -> Estimate:
    """A probability of which k of n independent trials are known, with Clopper-Pearson's interval.

    >>> print(estimate_share(0, 40))
    0 in [0, 0.124]

    """
    low = float(special.betaincinv(k, n - k + 1, CHANCE / 2)) if k else 0.0
    high = float(special.betaincinv(k + 1, n - k, 1 - CHANCE / 2)) if k < n else 1.0
    return Estimate(k / n, low, high)


def estimate_log_ratio(one: FloatArray, other: FloatArray) -> Estimate:
    """The mean of log(one/other) over the cells that both have, which are taken as independent."""
    ratios = np.log(np.asarray(one, float) / np.asarray(other, float)).ravel()
    return estimate(ratios[np.isfinite(ratios)])


def compare_deviations(one: FloatArray, other: FloatArray, factor: float = 1.0) -> Estimate:
    """How much farther repetitions (columns) of one table lie from its averages than another's.

    Levene's comparison: means of absolute deviations, one for each repetition, so that rows of the
    same repetition may depend on each other; less ``factor`` times those of the other table. The
    columns of both are taken for the same repetitions if they are equally many.
    """
    a, b = (np.abs(t - t.mean(axis=1, keepdims=True)).mean(axis=0) for t in (one, other))
    if len(a) == len(b):
        return estimate(a - factor * b)
    return estimate_difference(a, factor * b)


# Judging.


def decide(holds: bool, fails: bool) -> Verdict:
    """The verdict of two questions that cannot both be answered with yes."""
    return HOLDS if holds else FAILS if fails else UNDECIDED


def judge_above(seen: Estimate, least: float = 0.0) -> Verdict:
    """Whether a quantity is above a number."""
    return decide(seen.low > least, seen.high <= least)


def judge_below(seen: Estimate, most: float = 0.0) -> Verdict:
    """Whether a quantity is below a number, or at it."""
    return decide(seen.high <= most, seen.low > most)


def judge_within(seen: Estimate, low: float, high: float) -> Verdict:
    """Whether a quantity lies in [low, high]."""
    inside = low <= seen.low and seen.high <= high
    return decide(inside, seen.high < low or seen.low > high)


def judge_all(verdicts: Iterable[Verdict]) -> Verdict:
    """Whether all parts hold: fails if one does."""
    every = list(verdicts)
    return decide(all(v == HOLDS for v in every), any(v == FAILS for v in every))


def judge_order(first: Estimate, second: Estimate) -> Verdict:
    """Whether one quantity is above another, their intervals apart."""
    return decide(first.low > second.high, first.high < second.low)


def judge_most(verdicts: Sequence[Verdict]) -> Verdict:
    """Whether more than half hold; fails if half or more fail."""
    half = len(verdicts) / 2
    return decide(verdicts.count(HOLDS) > half, verdicts.count(FAILS) >= half)
