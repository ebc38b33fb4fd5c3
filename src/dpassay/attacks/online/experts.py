"""Four ways to tell two worlds apart from past trials, each with its scores out of sample.

An expert is refitted on all past trials again and again, so a fit must be cheap, and it must say
how it would have scored each past trial *without* having seen it (leave one out): new scores are
ranked among those. Scores on the trials that a fit was made from would be too good, and every new
trial would look weak beside them. All four have leave-one-out scores in closed form.

- ``ridge``: least squares of the world on the entries; shifts.
- ``quadratic``: the same on entries, their absolute values and squares; changes of scale.
- ``kernel``: nearness to past outputs of either world; anything, and shifts in many dimensions
  while there are fewer trials than entries.
- ``table``: how often each value of each entry was seen in either world; atoms and categories.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpassay.attacks.online.rows import clip
from dpassay.types import FloatArray

Worlds = NDArray[np.intp]

# Ridge parameters that are tried, in units of the mean eigenvalue of the Gram matrix.
_RIDGES = np.geomspace(1e-3, 1e3, 8)
# Where there are as many columns, a least-squares fit takes the last so many trials: the Gram
# matrix of the smaller side is decomposed, at a cost that grows with its third power.
_MOST_ROWS = 1200
# Entries of all centres of a kernel together, and how many centres there may be.
_KERNEL_SIZE, _FEWEST_CENTRES, _MOST_CENTRES = 200_000, 50, 500
# The table looks at so many columns, those with the fewest different values.
_TABLE_COLUMNS = 256
_DIGITS = 7


class Score(Protocol):
    """Higher says "with"; each row's score depends on that row alone, to the last bit."""

    def __call__(self, scaled: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class Fit:
    """A score for new rows, and what the latest past rows would have got, each left out in turn."""

    score: Score
    past: FloatArray


Expert = Callable[[FloatArray, Worlds], Fit]


def fit_ridge(scaled: FloatArray, worlds: Worlds) -> Fit:
    """Least squares of +1 (with) and -1 (without) on the entries."""
    return _least_squares(clip, scaled, worlds)


def fit_quadratic(scaled: FloatArray, worlds: Worlds) -> Fit:
    """Least squares on the entries, their absolute values and their squares."""
    return _least_squares(_bend, scaled, worlds)


def _bend(scaled: FloatArray) -> FloatArray:
    z = clip(scaled)
    return np.hstack([z, np.abs(z), z * z / 3])


@dataclass(frozen=True, eq=False)
class _Linear:
    view: Callable[[FloatArray], FloatArray]
    coefficients: FloatArray
    offset: float

    def __call__(self, scaled: FloatArray) -> FloatArray:
        # Not by @: a matrix product may round a row differently when others stand beside it.
        return (self.view(scaled) * self.coefficients).sum(axis=1) + self.offset


def _least_squares(
    view: Callable[[FloatArray], FloatArray], scaled: FloatArray, worlds: Worlds
) -> Fit:
    """Ridge regression, its parameter chosen by the leave-one-out error."""
    X, target = view(scaled), 2.0 * worlds - 1
    used = slice(max(len(X) - _MOST_ROWS, 0) if X.shape[1] > _MOST_ROWS else 0, None)
    fitted = _ridge(X[used], target[used])
    score = _Linear(view, *fitted[:2])
    past = np.concatenate([score(scaled[: used.start]), fitted[2]])
    return Fit(score, past)


def _ridge(X: FloatArray, target: FloatArray) -> tuple[FloatArray, float, FloatArray]:
    """Coefficients, offset, and the fitted value of each row when it is left out.

    With A = U diag(sqrt(s)) the rows in the basis of the right singular vectors, a ridge fit has
    leverages h_i = sum_j A_ij^2 / (s_j + ridge), and leaving row i out changes its residual from
    r_i to r_i / (1 - h_i), exactly. There is no intercept: worlds are fair coins, so the mean of
    the targets is known to be 0. An estimated one would sink a little with every trial "with" that
    is left out; where the entries say little, all past scores would then point the wrong way.
    """
    n, d = X.shape
    mean = X.mean(axis=0)
    centred = X - mean
    wide = d > n
    s, basis = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    s = np.maximum(s, 0.0)
    rows = basis * np.sqrt(s) if wide else centred @ basis
    strength, squares = rows.T @ target, rows * rows
    best: tuple[float, float, FloatArray] | None = None
    for ridge in _RIDGES * max(float(s.sum()) / max(len(s), 1), 1e-12):
        leverage = squares @ (1 / (s + ridge))
        residual = target - rows @ (strength / (s + ridge))
        without = residual / np.maximum(1 - leverage, 1e-9)
        error = float(without @ without)
        if best is None or error < best[0]:
            best = error, float(ridge), target - without
    assert best is not None
    _, ridge, past = best
    if wide:
        coefficients = centred.T @ (basis @ ((basis.T @ target) / (s + ridge)))
    else:
        coefficients = basis @ (strength / (s + ridge))
    return coefficients, -float(mean @ coefficients), past


def _score_by_nearness(
    centres: FloatArray, weights: FloatArray, width: float, scaled: FloatArray
) -> FloatArray:
    """Mean nearness to centres of the one world less that to those of the other."""
    scores = np.empty(len(scaled))
    for i, row in enumerate(clip(scaled)):
        away = centres - row
        near = np.exp(-np.sqrt((away * away).sum(axis=1)) / width)
        scores[i] = (near * weights).sum()
    return scores


def fit_kernel(scaled: FloatArray, worlds: Worlds) -> Fit:
    """Centres are the last trials; a centre's own score leaves out its nearness to itself.

    Trials before the centres have no scores: those of the centres are enough to be ranked among.
    """
    n = int(np.clip(_KERNEL_SIZE // max(scaled.shape[1], 1), _FEWEST_CENTRES, _MOST_CENTRES))
    centres, of_centres = clip(scaled[-n:]), worlds[-n:]
    square = (centres * centres).sum(axis=1)
    apart = square[:, None] + square - 2 * (centres @ centres.T)
    apart = np.sqrt(np.maximum(apart, 0.0, out=apart), out=apart)
    width = max(float(np.median(apart)) / 2, 1e-9)
    near = np.exp(np.divide(apart, -width, out=apart), out=apart)
    np.fill_diagonal(near, 0.0)
    sides = np.stack([of_centres == 0, of_centres == 1]).astype(float)
    counts = sides.sum(axis=1, keepdims=True)
    # A centre that is left out of its own world leaves one fewer to average over.
    without, with_canary = (near @ sides.T).T / np.maximum(counts - sides, 1.0)
    weights = sides[1] / max(counts[1, 0], 1) - sides[0] / max(counts[0, 0], 1)
    score = partial(_score_by_nearness, centres, weights, width)
    return Fit(score, with_canary - without)


@dataclass(frozen=True, eq=False)
class _Values:
    """The values seen in each column, and the log ratio of their counts in the two worlds."""

    columns: NDArray[np.intp]
    values: list[FloatArray]
    ratios: list[FloatArray]

    def __call__(self, scaled: FloatArray) -> FloatArray:
        total = np.zeros(len(scaled))
        for column, values, ratios in zip(self.columns, self.values, self.ratios, strict=True):
            x = np.round(scaled[:, column], _DIGITS)
            at = np.minimum(np.searchsorted(values, x), values.size - 1)
            total += np.where(values[at] == x, ratios[at], 0.0)
        return total


def fit_table(scaled: FloatArray, worlds: Worlds) -> Fit:
    """Log ratios of counts, half a trial added to each; values never seen twice say nothing."""
    found = [np.unique(np.round(x, _DIGITS), return_inverse=True) for x in scaled.T]
    sizes = np.array([values.size for values, _ in found], dtype=int)
    columns = np.argsort(sizes, kind="stable")[:_TABLE_COLUMNS]
    columns = np.sort(columns[sizes[columns] < len(scaled)])
    past, ratios = np.zeros(len(scaled)), []
    for column in columns:
        values, at = found[column]
        seen = [np.bincount(at[worlds == w], minlength=values.size) + 0.5 for w in (0, 1)]
        ratios.append(np.log(seen[1] / seen[0]))
        without = [seen[w][at] - (worlds == w) for w in (0, 1)]
        past += np.log(without[1] / without[0])
    return Fit(_Values(columns, [found[column][0] for column in columns], ratios), past)


# Shares of the wealth, fixed before any trial. Which expert wins depends on the mechanism, and each
# of the four was the first to refute some broken one (benchmarks/online.py).
EXPERTS: dict[str, tuple[float, Expert]] = {
    "ridge": (0.4, fit_ridge),
    "quadratic": (0.3, fit_quadratic),
    "kernel": (0.15, fit_kernel),
    "table": (0.15, fit_table),
}
