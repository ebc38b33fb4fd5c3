"""Sensitivities of matrix mechanisms (DP-FTRL, BandMF): what one record moves over all steps.

Released is C x + z, where row t of x is the sum of step t and z Gaussian; x may be chosen
adaptively (Denisov, McMahan, Rush, Smith and Thakurta 2022). A record that takes part in the steps
of a set p moves C x by at most the square root of the sum over i, j in p of |X_ij|, X = C'C, in
clipping norms; if X >= 0 that is reached. So the sensitivity is the largest over all sets that the
schedule allows: at most k steps, each b or more after the one before.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._special.margins import NUMERICAL
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

Participation = Literal["separated", "fixed-order"]
PARTICIPATIONS: tuple[Participation, ...] = ("separated", "fixed-order")


def strategy_sensitivity(
    strategy: ArrayLike,
    *,
    separation: int,
    participations: int,
    participation: Participation = "separated",
) -> float:
    """An upper bound on the l2 sensitivity of a strategy matrix, in clipping norms.

    Exact to rounding for strategies of at most ``separation`` bands, for fixed orders with X >= 0,
    and for lower triangular Toeplitz strategies with coefficients that are at least 0 and do not
    grow (Kalinin and Lampert 2024); else the sum over the steps of a set of the most that each can
    share with any set, which may be a few per cent too large.

    Args:
        strategy: C, one row per release and one column per step; finite.
        separation: the least distance of two steps with the same record, at least 1.
        participations: the most steps with the same record, at least 1.
        participation: "separated", any such steps; or "fixed-order", every ``separation`` steps
            from any first one, as when epochs go through the data in the same order.

    >>> strategy_sensitivity(np.tri(24), separation=24, participations=1)
    4.898979

    """
    c = _check.array("strategy", strategy, ndim=2, empty=False)
    b = _check.count("separation", separation)
    k = _check.count("participations", participations)
    _check.choice("participation", participation, PARTICIPATIONS)
    x = np.abs(c.T @ c)
    if participation == "fixed-order":
        squared = max(
            _of_steps(x, np.arange(start, len(x), b)[:k]) for start in range(min(b, len(x)))
        )
    elif _is_banded(x, b):
        squared = _best_set(np.diag(x), b, k)
    elif _is_falling_toeplitz(c):
        squared = _of_steps(x, np.arange(0, len(x), b)[:k])
    else:
        squared = _best_set(np.array([_best_set(row, b, k) for row in x]), b, k)
    return float(np.sqrt(squared) * (1 + NUMERICAL))


def _of_steps(x: FloatArray, steps: np.ndarray) -> float:
    return float(x[np.ix_(steps, steps)].sum())


def _is_banded(x: FloatArray, b: int) -> bool:
    """Whether columns that are b or more apart are orthogonal."""
    return not np.any(np.triu(x, b))


def _is_falling_toeplitz(c: FloatArray) -> bool:
    first = c[:, 0]
    shifted = all(
        np.array_equal(c[j:, j], first[: len(c) - j]) and not np.any(c[:j, j])
        for j in range(c.shape[1])
    )
    return (
        shifted
        and c.shape[0] == c.shape[1]
        and bool(np.all(np.diff(first) <= 0) and first[-1] >= 0)
    )


def _best_set(value: FloatArray, b: int, k: int) -> float:
    """The largest sum of ``value`` over at most k steps that are b or more apart.

    V[j, i], the best of j steps from i on, is the larger of V[j, i+1] and value_i + V[j-1, i+b].
    """
    n = value.size
    fewer = np.zeros(n + b)
    for _ in range(min(k, -(-n // b))):
        taken = value + fewer[b : n + b]
        more = np.maximum.accumulate(taken[::-1])[::-1]
        fewer = np.concatenate([more, np.zeros(b)])
    return float(fewer[0])


def check_bands(strategy: ArrayLike, bands: int) -> None:
    """Refuse a strategy for which sampling does not amplify as in :func:`bandmf_event`.

    Its columns must have norm 1 at the most, and only ``bands`` diagonals may be used.
    """
    c = _check.array("strategy", strategy, ndim=2, empty=False)
    if np.any(np.triu(c, 1)) or np.any(np.tril(c, -bands)):
        raise InvalidArgument(
            f"strategy must be lower triangular with at most bands={bands} diagonals, or a record "
            "meets noise that was used before it is sampled again."
        )
    longest = float(np.sqrt(np.square(c).sum(axis=0).max()))
    if not longest <= 1 + NUMERICAL:
        raise InvalidArgument(
            f"strategy has a column of norm {longest:g}; divide it by that, so that the noise "
            "multiplier is in clipping norms."
        )
