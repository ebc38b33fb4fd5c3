"""What the auditor expects to find when a claim is false: shapes of attack, as ROC curves.

Only the shape of the ROC is guessed, never the distribution of the scores, and only power depends
on the guess: a bet is valid whatever it was optimised for.
"""

from collections.abc import Iterable
from functools import cache
from typing import cast

import numpy as np
from scipy import special

from dpassay._special.margins import TINY
from dpassay.bounds.betting import Lines, bin_masses
from dpassay.types import FloatArray

# How far beyond the claim, as a share of how far beyond it a perfect attack is; and prior weights.
GAUSSIAN = {0.03: 0.5, 0.07: 1.0, 0.13: 1.2, 0.22: 1.2, 0.36: 1.0, 0.55: 0.7, 0.8: 0.5}
LAPLACE = {0.14: 0.5, 0.36: 0.6, 0.7: 0.4}
# Shares of trials that give the world away.
LEAKS = {0.1: 0.2, 0.4: 0.2}
PERFECT = 0.8


def alternatives(lines: Lines) -> tuple[FloatArray, FloatArray]:
    """Prior weights and bin masses [a, w, b] of the attacks that a claim is tested against."""
    groups = [
        ([PERFECT], perfect()[None]),
        (GAUSSIAN.values(), _beyond(lines, gaussian_ladder(), GAUSSIAN)),
        (LAPLACE.values(), _beyond(lines, laplace_ladder(), LAPLACE)),
        (LEAKS.values(), _leaks(*lines.roc(), side=0)),
        (LEAKS.values(), _leaks(*lines.roc(), side=1)),
    ]
    weights = np.concatenate([list(weights) for weights, _ in groups])
    return weights / weights.sum(), np.concatenate([masses for _, masses in groups])


def _beyond(lines: Lines, ladder: FloatArray, shares: Iterable[float]) -> FloatArray:
    """The rungs of a ladder whose best asset earns nearest these shares of a perfect attack's."""
    earns = _excess(lines, ladder) / max(float(_excess(lines, perfect())), TINY)
    return ladder[[int(np.abs(earns - share).argmin()) for share in shares]]


def _excess(lines: Lines, masses: FloatArray) -> FloatArray:
    """The largest mean of an asset, less 1: the most that (TPR - s FPR - d) / (s + d) can be."""
    fpr, tpr = (2 * np.cumsum(masses[..., w, ::-1], axis=-1)[..., None] for w in (0, 1))
    gain = (tpr - lines.slopes * fpr - lines.offsets) / (lines.slopes + lines.offsets)
    return gain.max(axis=(-1, -2))


@cache
def gaussian_ladder() -> FloatArray:
    """Bin masses of telling N(0, 1) from N(mu, 1), for rising mu."""
    return np.stack([gaussian(mu) for mu in np.geomspace(0.03, 8, 240)])


@cache
def laplace_ladder() -> FloatArray:
    """Bin masses of telling Laplace noise of scale 1/epsilon around 0 from the same around 1."""
    return np.stack([laplace(epsilon) for epsilon in np.geomspace(0.03, 12, 240)])


def gaussian(mu: float) -> FloatArray:
    """Telling N(0, 1) from N(mu, 1)."""
    t = np.linspace(12.0, -12.0, 1001) + mu / 2
    return bin_masses(special.ndtr(-t), special.ndtr(mu - t))


def laplace(epsilon: float) -> FloatArray:
    """Telling Laplace noise of scale 1/epsilon around 0 from the same around 1."""
    ramp = np.geomspace(1e-9, 0.5, 400)
    fpr = np.concatenate([ramp, 1 - ramp[-2::-1]])
    far, near = np.exp(epsilon) * fpr, 1 - np.exp(-epsilon) * (1 - fpr)
    middle = 1 - np.exp(-epsilon) / (4 * fpr)
    right = cast(FloatArray, np.where(fpr <= 0.5, middle, near))
    tpr = np.where(fpr < np.exp(-epsilon) / 2, far, right)
    return bin_masses(fpr, tpr)


def perfect() -> FloatArray:
    """An attack that never errs."""
    return bin_masses(np.array([0.0]), np.array([1.0]))


def _leaks(fpr: FloatArray, tpr: FloatArray, side: int) -> FloatArray:
    """The claim's worst pair, but a share of the trials of one world is plain to see."""
    rates = [((1 - x) * fpr, tpr) if side == 0 else (fpr, x + (1 - x) * tpr) for x in LEAKS]
    return np.stack([bin_masses(*pair) for pair in rates])
