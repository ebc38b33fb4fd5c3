"""DP-SGD of unknown noise: the family in which one training with orthogonal canaries is judged."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpassay import _check
from dpassay._special.margins import ARITHMETIC, round_up
from dpassay.bounds.composed import Phase, epsilon_of_phases
from dpassay.bounds.counts import epsilon_of_mu
from dpassay.bounds.onerun.certainty import FARTHEST, Certainty
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, events
from dpassay.privacy.accounting import pld
from dpassay.privacy.accounting.leaves import flatten
from dpassay.privacy.loss_distribution import Composition
from dpassay.types import FloatArray

_LINES = 2000
_COARSER = (
    8  # the grid of a search than that of the accountant: 1e-4 of epsilon, a third of the time
)
_LEAST_NOISE = 0.05  # less is as good as none, and its losses are too large for a grid
_LEAST_DELTA = 1e-13  # beyond losses this rare no count sees anything
_WITHIN = 1e-5  # how closely an epsilon is found; each further digit is a transform or two
_COARSER_EPSILON = 2.0  # its grid: .05 % of epsilon, half of the time
_MOST_KINDS = 24  # of steps that are priced one by one; each takes half a second


@dataclass(frozen=True)
class DPSGDForm:
    """DP-SGD whose noise is Gaussian, spherical and of one scale; and how its canaries overlap.

    It is a claim ("the training is this") and a family: all noise multiplied by one unknown factor,
    sampling rates and numbers of steps as stated. Canaries are added to clipped sums of gradients,
    their own clipped gradients orthogonal to each other (theorems 2 and 3 of
    :mod:`dpassay.bounds.onerun.product`). The claim assumes nothing but itself. A bound on epsilon
    believes that the truth is a member.

    Attributes:
        phases: (noise multiplier, sampling rate, steps) of each phase of the training; one, unless
            something changed on the way, as planned before it began.
        kappa: the largest eigenvalue of the Gram matrix of all canaries' clipped gradients over
            the squared clipping norm, at any step; 1 if they are orthogonal, at most as many as
            there are canaries.

    """

    phases: tuple[Phase, ...]
    kappa: float = 1.0

    def __post_init__(self) -> None:
        checked = tuple(_check_phase(phase) for phase in self.phases)
        if not checked:
            raise InvalidArgument(
                "phases is empty; give (noise multiplier, sampling rate, steps) of each phase."
            )
        object.__setattr__(self, "phases", checked)
        remedy = "It is an eigenvalue of a Gram matrix of unit vectors; 1 if they are orthogonal."
        _check.number("kappa", self.kappa, low=1, remedy=remedy)

    @classmethod
    def of(
        cls, noise_multiplier: float, sampling_rate: float, steps: int, *, kappa: float = 1.0
    ) -> "DPSGDForm":
        """A training whose noise and sampling rate never change."""
        return cls(((noise_multiplier, sampling_rate, steps),), kappa)

    @property
    def assumption(self) -> str:
        """What a bound on epsilon believes."""
        by_rate = itertools.groupby(self.phases, key=lambda phase: phase[1])
        counts = [(rate, sum(steps for _, _, steps in group)) for rate, group in by_rate]
        phases = [f"{steps} steps at rate {rate:.6g}" for rate, steps in counts]
        if len(phases) > 4:
            phases = [*phases[:2], f"{len(phases) - 3} more rates", phases[-1]]
        overlap = "orthogonal" if self.kappa == 1 else f"of Gram eigenvalues up to {self.kappa:.6g}"
        return (
            "DP-SGD with spherical Gaussian noise of one fixed scale "
            f"({', then '.join(phases)}, Poisson batches), canaries {overlap}"
        )

    @property
    def most(self) -> float:
        """The largest factor by which noise is divided when the family is searched."""
        if self._full_batches():
            return 2.0**20
        noise = min(noise for noise, _, _ in self.phases)
        return max(noise / math.sqrt(self.kappa) / _LEAST_NOISE, 1.0)

    def event(self, divisor: float = 1.0) -> events.Event:
        """What is done to the data if all noise is divided by this."""
        steps = [events.dp_sgd_event(noise / divisor, q, t) for noise, q, t in self.phases]
        return steps[0] if len(steps) == 1 else events.Sequence(tuple(steps))

    def certainty(self, divisor: float, sides: str = "both") -> Certainty:
        """How certain guesses can be if all noise is divided by this."""
        divisor = round_up(divisor * math.sqrt(self.kappa), ARITHMETIC)
        if self._full_batches():
            return Certainty.of_curve(GDP(mu=round_up(self._mu(divisor), ARITHMETIC)), sides)
        joined = DPSGDForm(join_phases(self.phases, private=False))
        return certainty_of_event(joined.event(divisor), sides, coarser=_COARSER)

    def epsilon_lower(self, divisor: float, delta: float) -> float:
        """A lower bound on epsilon(delta) if all noise is divided by this."""
        if not divisor > 0:
            return 0.0
        if self._full_batches():
            return epsilon_of_mu(self._mu(divisor) * (1 - ARITHMETIC), delta)
        joined = join_phases(self.phases, private=True)
        steps = [(divisor / noise, q, steps) for noise, q, steps in joined]
        return epsilon_of_phases(steps, delta, within=_WITHIN, coarser=_COARSER_EPSILON)

    def describe(self, divisor: float) -> dict[str, float]:
        """What a refuted divisor says about the noise, by name; infinite where nothing is said."""
        scale = 1 / divisor if divisor > 0 else math.inf
        return {
            "noise_scale_upper": scale,
            "noise_multiplier_upper": scale * self.phases[0][0],
            "kappa": self.kappa,
        }

    def _full_batches(self) -> bool:
        return all(rate == 1 for _, rate, _ in self.phases)

    def _mu(self, divisor: float) -> float:
        return divisor * math.sqrt(sum(steps / noise**2 for noise, _, steps in self.phases))


def join_phases(phases: Sequence[Phase], *, private: bool) -> tuple[Phase, ...]:
    """The same steps in at most 24 kinds, which bounds the time that they take to price.

    Kinds that are next to each other by noise become one, those of one rate or, where rates are
    many, by rate and noise. The one has the largest noise and the least rate of them if the result
    is to be at least as private, so that its epsilon is a lower bound; else the least noise and the
    largest rate: an upper bound. The order of steps does not matter to either.
    """
    kinds: dict[tuple[float, float], int] = {}
    for noise, rate, steps in phases:
        kinds[rate, noise] = kinds.get((rate, noise), 0) + steps
    ordered = sorted(kinds.items())
    apart = [list(part) for _, part in itertools.groupby(ordered, key=lambda kind: kind[0][0])]
    parts = apart if 2 * len(apart) <= _MOST_KINDS else [ordered]
    sizes = [math.ceil(len(part) / (_MOST_KINDS // len(parts))) for part in parts]
    groups = [
        part[first : first + size]
        for part, size in zip(parts, sizes, strict=True)
        for first in range(0, len(part), size)
    ]
    noisier, rarer = (max, min) if private else (min, max)
    return tuple(
        (
            noisier(noise for (_, noise), _ in group),
            rarer(rate for (rate, _), _ in group),
            sum(steps for _, steps in group),
        )
        for group in groups
    )


def _check_phase(phase: Phase) -> Phase:
    try:
        noise, rate, steps = phase
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"phases holds {_check.shown(phase)}; each must be a triple (noise multiplier, "
            "sampling rate, steps)."
        ) from None
    steps = _check.count("steps", steps, remedy="It is the number of updates of a phase.")
    return _check.noise_multiplier(noise), _check.sampling_rate(rate), steps


def certainty_of_event(event: events.Event, sides: str = "both", coarser: int = 1) -> Certainty:
    """For the accountant's own pair of an event, with the record against without it.

    A grid that is ``coarser`` than the accountant's takes less time, and favours the claim a little
    more.
    """
    priced = pld.price(flatten(event), coarser=coarser)
    curves = [priced, *priced.finer]
    # Two directions, or one for both; of each direction several grids, all of them upper bounds.
    remove, add = ([curve.directions[side] for curve in curves] for side in (0, -1))
    grid = _losses(lambda x: np.maximum(_least_delta(remove, x), _least_delta(add, x)))
    both = _least_delta(remove, grid), _least_delta(add, grid)
    if sides == "both":
        return Certainty.of_profiles(grid, *both)
    return Certainty.of_one_kind(grid, *(both if sides == "top" else both[::-1]))


def _least_delta(directions: list[Composition], epsilon: FloatArray) -> FloatArray:
    return np.minimum.reduce([direction.delta_untilted(epsilon) for direction in directions])


def _losses(delta: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Losses, evenly spaced from 0 to where no count sees anything, or to FARTHEST."""
    probe = np.geomspace(1e-6, FARTHEST, 200)
    beyond = delta(probe) <= _LEAST_DELTA
    return np.linspace(0, probe[np.argmax(beyond)] if beyond.any() else FARTHEST, _LINES)
