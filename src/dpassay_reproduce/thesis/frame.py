"""What the figures of Micali 2022, chapter 4, share: the setting, accuracies, the picture of them.

The chapter draws one picture again and again: the accuracy of a membership attack against epsilon,
averaged over repetitions, with the highest and the lowest, the attack on the model trained without
privacy, a band around 50 % and a fit a + b log(epsilon).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.report.figures import BLACK, BLUE, ORANGE, PURPLE, RED
from dpassay.types import FloatArray
from dpassay_reproduce.claims import Claim, Picture

__all__ = ["BAND", "DELTA", "Accuracies", "Claim", "Picture", "Setting", "draw_accuracies"]

DELTA = 1e-6
BAND = 0.02  # around 50 %, the document's red lines; it does not say how wide they are
COLOURS = (BLUE, ORANGE)


@dataclass(frozen=True)
class Setting:
    """How the chapter is run.

    Attributes:
        literal: with the document's delta = exp(-epsilon³ N) and its noise, instead of delta = 1e-6
            and the least noise that is proved to do.
        repetitions: how many trainings for each epsilon; 10 in the document ("epochs").
        seed: of data and noise.

    """

    literal: bool = False
    repetitions: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        _check.count("repetitions", self.repetitions)
        _check.seed("seed", self.seed)

    def log_inverse_delta(self, epsilon: float, n_records: int) -> float:
        """log(1/delta), which is finite where the document's delta underflows."""
        return epsilon**3 * n_records if self.literal else -math.log(DELTA)

    def delta(self, epsilon: float, n_records: int) -> float:
        """The delta that goes with an epsilon: 1e-6, or the document's (0 where it underflows)."""
        return math.exp(-self.log_inverse_delta(epsilon, n_records))

    def ceiling(self, epsilon: float, n_records: int) -> float:
        """An upper bound on the accuracy of any attack, on average, for (epsilon, delta)-DP.

        (e^epsilon + delta)/(1 + e^epsilon), for half of the candidates being members, under
        replace-one: a member and a fresh record of the population change places.
        """
        return float(
            (1 + self.delta(epsilon, n_records) * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
        )

    def rng(self, *key: int) -> np.random.Generator:
        """A generator that depends on the seed and the key alone."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))


@dataclass(frozen=True, eq=False)
class Accuracies:
    """How often an attack was right: shares of 2N points, N of them members.

    Attributes:
        label: what was attacked, as the legend says it.
        epsilons: ascending, (E,).
        values: one row for each epsilon, one column for each repetition, (E, R).
        non_private: the same attack on models trained without privacy, (R,).
        ceilings: what (epsilon, delta)-DP allows on average (:meth:`Setting.ceiling`), (E,).

    """

    label: str
    epsilons: FloatArray
    values: FloatArray
    non_private: FloatArray
    ceilings: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The averages over repetitions."""
        return self.values.mean(axis=1)

    @property
    def spread(self) -> FloatArray:
        """The highest less the lowest of the repetitions."""
        return np.ptp(self.values, axis=1)

    @cached_property
    def fit(self) -> tuple[float, float]:
        """(a, b) of the least-squares fit a + b log(epsilon) to the averages."""
        b, a = np.polyfit(np.log(self.epsilons), self.mean, 1)
        return float(a), float(b)

    @cached_property
    def slopes(self) -> FloatArray:
        """B of the fit of every repetition; they are independent, epsilons of one are not."""
        return np.polyfit(np.log(self.epsilons), self.values, 1)[0]

    def fit_at(self, epsilons: Any) -> FloatArray:
        """The fit at other epsilons."""
        a, b = self.fit
        return a + b * np.log(np.asarray(epsilons, float))

    def curves(self) -> dict[str, Any]:
        """What is drawn, for ``numbers.json``."""
        return {
            "epsilon": self.epsilons,
            "accuracy": self.values,
            "mean": self.mean,
            "highest": self.values.max(axis=1),
            "lowest": self.values.min(axis=1),
            "log_fit": self.fit_at(self.epsilons),
            "non_private": self.non_private,
            "ceiling": self.ceilings,
        }


def draw_accuracies(
    ax: Any,
    *seen: Accuracies,
    averages: bool = True,
    extremes: bool = True,
    fit: bool = True,
    ceiling: bool = True,
) -> None:
    """Draw the chapter's picture, in per cent: one colour for each of ``seen``."""
    for which, colour in zip(seen, COLOURS, strict=False):
        _draw_one(ax, which, colour, averages, extremes, fit, named=len(seen) > 1)
    for line in (0.5 - BAND, 0.5 + BAND):
        label = f"50 ± {100 * BAND:g} %" if line < 0.5 else None
        ax.axhline(100 * line, color=RED, lw=1, ls="--", label=label)
    values = np.concatenate([v.ravel() for s in seen for v in (s.values, s.non_private)])
    low, high = (100 * f for f in (min(values.min(), 0.5 - BAND), max(values.max(), 0.5 + BAND)))
    room = 0.06 * (high - low)
    top = 100 * seen[0].ceilings
    if ceiling and top.min() < high + room:
        ax.plot(seen[0].epsilons, top, color=BLACK, lw=1, ls=":", label="DP allows")
    ax.set(xlabel="ε", ylabel="accuracy of the attack, %", ylim=(low - room, high + room))
    ax.set_xlim(0, None)


def _draw_one(
    ax: Any, seen: Accuracies, colour: str, averages: bool, extremes: bool, fit: bool, named: bool
) -> None:
    x, prefix = seen.epsilons, f"{seen.label}: " if named else ""
    low, high = seen.values.min(axis=1), seen.values.max(axis=1)
    if extremes:
        ax.fill_between(x, 100 * low, 100 * high, color=colour, alpha=0.15, lw=0)
        ax.plot(x, 100 * high, "^", x, 100 * low, "v", color=colour, ms=3, alpha=0.6)
    if averages:
        ax.plot(x, 100 * seen.mean, "o", color=colour, ms=4, label=f"{prefix}average")
    if fit:
        ax.plot(x, 100 * seen.fit_at(x), color=colour, lw=1.2, alpha=0.7, label=f"{prefix}log fit")
    line = 100 * seen.non_private.mean()
    style = {"color": PURPLE if not named else colour, "lw": 1.2, "ls": "-."}
    ax.axhline(line, label=f"{prefix}without privacy", **style)
