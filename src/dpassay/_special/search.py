"""Where a monotone condition changes, from the side on which it was seen to hold.

:func:`first_true` and its mirror image :func:`last_true` halve a bracket, for scalars and arrays
alike. :func:`last_below` is for functions that are expensive and whose value says how far away the
crossing is.
"""

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay._special.margins import TINY

Floats = NDArray[np.float64]
Condition = Callable[[Any], Any]
"""x -> whether it holds at x; an array of the shape of the bracket in, truth values out."""

_LARGEST = float(np.finfo(float).max)
_NEAR = 1e-12  # how good a guess is, relatively
_ENOUGH = 1100  # halvings bring any two finite floats together


class Effort(TypedDict, total=False):
    """How far a search goes; every answer is as safe, and tighter with more effort."""

    within: float
    """Stop where the bracket is narrower than this share of its ends; with 0, which it is unless
    told, the search goes on to neighbouring floats."""
    absolute: float
    """Stop also where the bracket is narrower than this; 0 unless told."""
    whole: bool
    """Search whole numbers only; the ends must be whole."""
    most: int
    """Stop after so many halvings."""
    even: bool
    """Halve the bracket itself from the start. Unless told, wide brackets of positive numbers are
    halved in the exponent, which finds tiny answers to as many digits as large ones."""
    ahead: int
    """Of a bracket that is an array of one number, not whole: ask in one call for all the middles
    that so many halvings may come to. The answer is the same; it is for conditions whose time
    hardly depends on the size of the array."""


def first_true(
    condition: Condition,
    low: ArrayLike,
    high: ArrayLike,
    *,
    guess: ArrayLike | None = None,
    **effort: Unpack[Effort],
) -> Floats:
    """The smallest x in [low, high] at which a condition holds that, once true, stays true.

    The answer is a point at which the condition *was seen to hold*, so that it is never too small.
    Where it holds at ``low`` that is returned; where it holds nowhere ``high`` is, unasked, so that
    ``high`` must be safe. Where the condition is false because of NaN it does not hold.

    Args:
        condition: called with an array of the common shape of ``low`` and ``high``.
        low: the lower end.
        high: the upper end, at least ``low``.
        guess: where the answer is thought to be. A narrow bracket around it is asked first, and
            taken only if the condition is false at its lower and true at its upper end.
        effort: ``within``, ``absolute``, ``whole``, ``most``, ``even`` and ``ahead``; see
            :class:`Effort`.

    >>> float(first_true(lambda x: x * x >= 2, 0.0, 2.0)) ** 2
    2.0
    >>> first_true(lambda x: x * x >= np.array([10, 20]), [0, 0], [9, 9], whole=True)
    array([4., 5.])

    """
    low, high = _ends(low, high)
    high = np.where(condition(low), low, high)
    if guess is not None:
        low, high = _around(condition, np.asarray(guess, float), low, high)
    return _bracket(condition, low, high, effort)[1]


def _around(
    condition: Condition, guess: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """The bracket about a guess, wherever the condition changes inside it; else the one given."""
    with np.errstate(invalid="ignore", over="ignore"):
        below, above = (np.clip(guess * (1 + side * _NEAR), low, high) for side in (-1, 1))
    changes = np.isfinite(guess) & ~np.asarray(condition(below), bool)
    changes &= np.asarray(condition(above), bool)
    return np.where(changes, below, low), np.where(changes, above, high)


def last_true(
    condition: Condition, low: ArrayLike, high: ArrayLike, **effort: Unpack[Effort]
) -> Floats:
    """The largest x in [low, high] at which a condition holds that, once false, stays false.

    The mirror image of :func:`first_true`: the condition was seen to hold at the answer, so that it
    is never too large; where it holds nowhere ``low`` is returned, unasked.

    >>> float(last_true(lambda x: x * x <= 2, 0.0, 2.0))
    1.414213562373095
    >>> float(last_true(lambda x: x * x <= 10, 0, 9, whole=True))
    3.0

    """
    low, high = _ends(low, high)
    low = np.where(condition(high), high, low)

    def fails(x: Floats) -> NDArray[np.bool_]:
        return np.logical_not(condition(x))

    return _bracket(fails, low, high, effort)[0]


def _ends(low: ArrayLike, high: ArrayLike) -> tuple[Floats, Floats]:
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    return np.array(low), np.array(high)


def _bracket(
    condition: Condition, low: Floats, high: Floats, effort: Effort
) -> tuple[Floats, Floats]:
    """Narrow brackets: false at the lower end and true at the upper one, wherever it was asked."""
    within, absolute = effort.get("within", 0.0), effort.get("absolute", 0.0)
    whole, even = effort.get("whole", False), effort.get("even", False)
    ahead, known = effort.get("ahead", 0), {}
    for _ in range(effort.get("most", _ENOUGH)):
        mid = np.floor((low + high) / 2) if whole else _middle(low, high, even)
        # An infinite end is no share of anything: such a bracket has no middle and stays.
        size = np.minimum(np.maximum(np.abs(low), np.abs(high)), _LARGEST)
        enough = np.maximum(within * size, absolute)
        moving = (mid > low) & (mid < high) & (high - low > enough)
        if not moving.any():
            break
        if ahead and mid.item() not in known:
            known = _ask_ahead(condition, low, high, even, ahead)
        holds = np.asarray(known[mid.item()] if ahead else condition(mid), bool)
        low, high = np.where(moving & ~holds, mid, low), np.where(moving & holds, mid, high)
    return low, high


def _ask_ahead(
    condition: Condition, low: Floats, high: Floats, even: bool, halvings: int
) -> dict[float, bool]:
    """What the condition says at every middle that so many halvings of one bracket can come to."""
    middles: list[Floats] = []
    for _ in range(halvings):
        middles.append(_middle(low, high, even))
        low, high = np.concatenate([low, middles[-1]]), np.concatenate([middles[-1], high])
    points = np.concatenate(middles)
    return dict(zip(points.tolist(), np.asarray(condition(points), bool).tolist(), strict=True))


def _middle(low: Floats, high: Floats, even: bool) -> Floats:
    """Halving in the exponent first keeps relative accuracy for tiny answers."""
    if even:
        return (low + high) / 2
    geometric = np.sqrt(np.maximum(low, TINY)) * np.sqrt(np.maximum(high, TINY))
    far = (low >= 0) & (high > 4 * np.maximum(low, TINY))
    return np.where(far, geometric, low + (high - low) / 2)


def last_below(
    height: Callable[[float], float], low: float, high: float, within: float = 1e-10
) -> float:
    """The largest x at which a rising function is at most 0, from below: it was seen to be there.

    For functions so expensive that every evaluation counts: regula falsi with the Illinois rule,
    and halving when it dawdles. ``height(low)`` must be at most 0 for the answer to be safe.

    Args:
        height: rising in x; only its sign decides what is returned.
        low: the lower end.
        high: the upper end, returned if the function is at most 0 there.
        within: stop where the bracket is narrower than this, relative to ``high`` if that is
            above 1.

    >>> round(last_below(lambda x: x**3 - 2, 0.0, 2.0), 6)
    1.259921

    """
    at_low, at_high = height(low), height(high)
    if at_high <= 0:
        return high
    width, side = high - low, 0
    for turn in range(200):
        if high - low <= within * max(1.0, high):
            break
        if turn % 4 == 3 and high - low > width / 8:
            x = (low + high) / 2
        else:
            x = low + (high - low) * at_low / (at_low - at_high)
            x = min(max(x, low + 1e-3 * (high - low)), high - 1e-3 * (high - low))
        width = high - low if turn % 4 == 3 else width
        y = height(x)
        if y <= 0:
            low, at_low, at_high, side = x, y, at_high * (0.5 if side < 0 else 1), -1
        else:
            high, at_high, at_low, side = x, y, at_low * (0.5 if side > 0 else 1), 1
    return low
