"""Exact draws of an index: the laws of three selection rules, without rounding error, at any size.

Scores are taken as the numbers that their floats are, and nothing is rounded on the way:

- **exponential mechanism**, weights exp(score/scale) (:func:`softmax`): an index is drawn with
  integer weights a little above the true ones, and kept with the ratio of the two. Both draws are
  exact (:mod:`~dpassay.mechanisms.lattice`), so the law is that of the true weights.
- **permute-and-flip** (:func:`permute_and_flip`): a coin of probability exp((score - best)/scale)
  for every candidate, then one of those that came up, uniformly. Coins do not depend on the order
  in which they are looked at, so the first one that came up in a random order is just that.
- **Laplace noisy max** (:func:`laplace_argmax`): scores are rounded to a lattice and get integer
  noise, a little more than on the line, so that the rounding is paid for.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.mechanisms import lattice
from dpassay.mechanisms.exact import on_lattice, refuse_overhead, step_for
from dpassay.types import FloatArray

_FAR = 2**61  # scores this many steps behind the best are raised to here


def choose(
    kind: str, scores: FloatArray, scale: float, moved: Fraction, generator: np.random.Generator
) -> int:
    """The index of the largest score plus noise of a kind, drawn exactly.

    Args:
        kind: "gumbel" (exponential mechanism), "exponential" (permute-and-flip) or "laplace".
        scores: one per candidate.
        scale: the scale of the noise.
        moved: the most by which one record moves two scores against each other.
        generator: draws the bits.

    """
    if kind == "laplace":
        return laplace_argmax(scores, scale, moved, generator)
    if kind == "exponential":
        return permute_and_flip(scores, scale, generator)
    return int(softmax(scores, 1, generator, scale=scale)[0])


def softmax(
    scores: FloatArray, size: int, generator: np.random.Generator, *, scale: float = 1.0
) -> NDArray[np.int64]:
    """Independent indices with probabilities exactly proportional to exp(score/scale)."""
    weights = np.exp(-_behind(scores, scale))
    unit = 2.0 ** (61 - len(scores).bit_length())
    # Not below the true weight: exp and its argument are off by less than 2^-40, or the weight is
    # below 1 unit. All of them together stay below 2^62.
    integers = np.ceil(weights * (1 + 2.0**-40) * unit).astype(np.int64) + 1
    ratios = np.minimum(weights * unit / integers, 1.0)
    ends, drawn = np.cumsum(integers), np.empty(0, np.int64)

    def ratio_of(picks: NDArray[np.int64], i: int) -> lattice.Bounds:
        exact, j = _exp_of(scores, scale, int(picks[i])), int(picks[i])
        return lambda bits: _times(exact(bits), int(unit), int(integers[j]))

    while len(drawn) < size:
        below = generator.integers(0, ends[-1], size - len(drawn))
        picks = np.searchsorted(ends, below, side="right")
        keep = _coins(ratios[picks], lambda i, picks=picks: ratio_of(picks, i), generator)
        drawn = np.concatenate([drawn, picks[keep]])
    return drawn


def permute_and_flip(scores: FloatArray, scale: float, generator: np.random.Generator) -> int:
    """The first candidate in a random order whose coin of exp((score - best)/scale) comes up."""
    chances = np.exp(-_behind(scores, scale))
    up = np.flatnonzero(_coins(chances, lambda i: _exp_of(scores, scale, i), generator))
    return int(up[generator.integers(len(up))])


def coins(logs: FloatArray, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Independent coins, each up with probability exp(log) exactly; logs are at most 0."""
    return _coins(np.exp(logs), lambda i: _exp(-Fraction(float(logs[i]))), generator)


def _coins(
    p: FloatArray, bounds: Callable[[int], lattice.Bounds], generator: np.random.Generator
) -> NDArray[np.bool_]:
    digits = generator.integers(0, 2**32, len(p), dtype=np.uint32)
    return lattice.is_below(digits, p, bounds, generator)


def _behind(scores: FloatArray, scale: float) -> FloatArray:
    """How far every score is behind the best, in scales; inf where that overflows."""
    with np.errstate(over="ignore"):
        return (scores.max() - scores) / scale


def _exp_of(scores: FloatArray, scale: float, i: int) -> lattice.Bounds:
    behind = Fraction(float(scores.max())) - Fraction(float(scores[i]))
    return _exp(behind / Fraction(scale))


def _exp(x: Fraction) -> lattice.Bounds:
    return lambda bits: lattice.exp_bounds(x.numerator, x.denominator, bits)


def _times(bounds: tuple[int, int], numerator: int, denominator: int) -> tuple[int, int]:
    low, high = bounds
    return low * numerator // denominator, -(-high * numerator // denominator)


def laplace_argmax(
    scores: FloatArray, scale: float, moved: Fraction, generator: np.random.Generator
) -> int:
    """The index of the largest score plus discrete Laplace noise; the first one of a tie.

    Why this is private: given the noise of the others, i wins if and only if its noise reaches a
    threshold, and a neighbour moves that threshold by at most c steps. P(noise >= t + 1) is at
    least e^(-1/scale) P(noise >= t) for the discrete Laplace law as for the continuous one, so the
    chance to win falls by a factor of at most exp(c/scale). The rule for ties is fixed by the index
    and moves no threshold by more. In steps of the lattice, c is ``moved`` and 2 more: rounding
    moves each of two scores by at most one step more (where all scores move one way, so do the
    rounded ones, and one more is enough). Raising all scores to at least best - 2^61 steps moves
    none of them by more than it or the best moves.
    """
    step = step_for(Fraction(scale))
    steps = _relative_steps(scores, step)
    refuse_overhead(2 * Fraction(step) / moved, 2, float(Fraction(scale) / moved))
    # moved/scale is epsilon: as much noise as makes (moved + 2 steps)/t no larger.
    t = math.ceil(Fraction(scale) / moved * (moved / Fraction(step) + 2))
    noisy = steps + lattice.draw("laplace", t, len(scores), generator)
    return int(np.argmax(noisy))


def _relative_steps(scores: FloatArray, step: float) -> NDArray[Any]:
    """Rounded scores in steps, relative to the best and not below -2^61."""
    rounded = on_lattice(scores, step)
    with np.errstate(over="ignore"):
        steps = rounded / step
    if np.abs(steps).max() < _FAR:
        whole = steps.astype(np.int64)
        return np.maximum(whole - whole.max(), -_FAR)
    exact = [int(Fraction(float(x)) / Fraction(step)) for x in rounded]
    best = max(exact)
    return np.array([max(x - best, -_FAR) for x in exact])
