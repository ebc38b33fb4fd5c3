"""What the steps of a training show of its canaries, kept as sums: scores and residuals."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
from scipy import special

from dpassay.types import FloatArray, Residuals

ROUNDS, PRIOR = 6, 20  # of the estimate of the noise: iterations, and canaries that are as stated


def score_step(seen: FloatArray, noise_multiplier: float, sampling_rate: float) -> FloatArray:
    """The log-likelihood ratio of one step for each canary: in against out.

    Along a canary's direction, in units of the clipping norm, a step shows N(0, sigma²) if it is
    out and (1-q) N(0, sigma²) + q N(1, sigma²) if it is in. The logarithm of the ratio is
    log(1 - q + q e^x) with x = (seen - 1/2) / sigma², which overflows for small sigma unless it is
    written with logaddexp. No noise gives infinities, which are kept: they refute.

    >>> score_step(np.array([0.5, 1.5]), 1.0, 0.5)
    array([0.    , 0.62011...])
    >>> score_step(np.array([0.0, 1.0]), 0.0, 1.0)
    array([-inf,  inf])

    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        x = (np.asarray(seen, float) - 0.5) / noise_multiplier**2
        ratio = np.logaddexp(np.log1p(-sampling_rate), np.log(sampling_rate) + x)
    return np.where(np.isnan(ratio), 0.0, ratio)  # 0/0: the middle between in and out


def estimate_noise(seen: FloatArray, noise_multiplier: float, sampling_rate: float) -> float:
    """The deviation that a step has along its canaries, from what it shows alone; an estimate.

    Scores at this deviation order the canaries better than those at the stated one, where the
    noise is not what it should be or the data add to it. Any order that is computed from what the
    steps show is valid; coins are not looked at. What is seen is a mixture of N(0, s²) and N(1, s²)
    with weights 1 - q/2 and q/2: s² by a few rounds of expectation maximisation, with the stated
    one as that of ``PRIOR`` more canaries.
    """
    if not noise_multiplier > 0:
        return 0.0
    values = np.asarray(seen, float)
    values = values[np.isfinite(values)]  # one gradient that overflowed must not hide the others
    drawn, stated, variance = sampling_rate / 2, noise_multiplier**2, noise_multiplier**2
    for _ in range(ROUNDS):
        odds = np.log(drawn / (1 - drawn)) + (values - 0.5) / variance
        inside = special.expit(odds)
        found = np.sum(values**2 + inside * (1 - 2 * values))
        variance = max((found + PRIOR * stated) / (values.size + PRIOR), 1e-12 * stated)
    return float(np.sqrt(variance))


def add_scores(sums: FloatArray, more: FloatArray) -> FloatArray:
    """Sums of scores, infinities kept; where two steps contradict each other for certain, nan."""
    with np.errstate(invalid="ignore"):
        return sums + more


def finish_scores(sums: FloatArray) -> FloatArray:
    """Scores to judge by: those that contradict themselves say nothing, which is 0."""
    return np.where(np.isnan(sums), 0.0, sums)


@dataclass
class ResidualSums:
    """Sums over steps and canaries of what is left when data and canaries are taken away.

    Under the claim these are draws of N(0, 1) in units of the stated deviation, independent. This
    is a look at the assumption of one fixed scale, not a part of any proof.

    Attributes:
        count: how many.
        powers: sums of their first four powers.
        neighbours: the sum of products of neighbouring canaries in the same step.
        n_neighbours: how many of these.
        lagged: the sum of products of a canary's value in one step and in the step before.
        n_lagged: how many of these.
        last: those of the last step.

    """

    count: int = 0
    powers: FloatArray = field(default_factory=lambda: np.zeros(4))
    neighbours: float = 0.0
    n_neighbours: int = 0
    lagged: float = 0.0
    n_lagged: int = 0
    last: FloatArray = field(default_factory=lambda: np.zeros(0))

    def add(self, values: FloatArray) -> None:
        """Take the residuals of one step, in units of the stated deviation; nan is left out."""
        seen = np.isfinite(values)
        clean = np.where(seen, values, 0.0)
        self.count += int(seen.sum())
        with np.errstate(invalid="ignore", over="ignore"):
            self.powers = self.powers + [float(np.sum(clean**k)) for k in (1, 2, 3, 4)]
        self.neighbours += float(clean[1:] @ clean[:-1])
        self.n_neighbours += int(np.sum(seen[1:] & seen[:-1]))
        if self.last.size == values.size:
            before = np.isfinite(self.last)
            self.lagged += float(clean @ np.where(before, self.last, 0.0))
            self.n_lagged += int(np.sum(seen & before))
        self.last = np.where(seen, values, np.nan)

    def deviation(self) -> float:
        """Their root mean square: the share of the stated noise that is there; 1 under the claim.

        Not taken around their mean: a mean that is not 0 is a fault too.
        """
        return float(np.sqrt(self.powers[1] / self.count))

    def summary(self) -> Residuals:
        """Mean, variance, kurtosis and the larger of two correlations, in absolute value.

        One correlation is that of neighbouring canaries in a step, the other that of a canary with
        itself in the step before; the second is 1 where noise is drawn from one seed at each step.
        """
        mean, second, third, fourth = self.powers / self.count
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            variance = second - mean**2
            centred = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
            kurtosis = np.divide(centred, variance**2)
            between = np.divide(self.neighbours / max(self.n_neighbours, 1), second)
            after = np.divide(self.lagged / max(self.n_lagged, 1), second)
        largest = float(max(abs(between), abs(after)))
        return Residuals(float(mean), float(variance), float(kurtosis), largest)

    def numbers(self) -> dict[str, list[float]]:
        """All that is kept, as plain lists."""
        kept = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: np.atleast_1d(value).astype(float).tolist() for name, value in kept.items()}

    @classmethod
    def read(cls, numbers: Mapping[str, list[float]]) -> "ResidualSums":
        """Read back what :meth:`numbers` wrote."""
        return cls(
            count=int(numbers["count"][0]),
            powers=np.array(numbers["powers"], float),
            neighbours=float(numbers["neighbours"][0]),
            n_neighbours=int(numbers["n_neighbours"][0]),
            lagged=float(numbers["lagged"][0]),
            n_lagged=int(numbers["n_lagged"][0]),
            last=np.array(numbers["last"], float),
        )
