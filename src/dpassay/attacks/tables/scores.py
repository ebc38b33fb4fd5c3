"""Scores of candidates against a released table: a higher one says that the record was in the data.

=============  =====================================================================================
pair ratio     how much more often the released table has the candidate's pairs of values than the
               reference has: DOMIAS (van Breugel et al. 2023) with the density of a product of
               pairs, which is what most synthesizers are fitted to
DCR            minus the distance to the closest released row
DCR-diff       the distance to the closest reference row, less that to the closest released row
classifier     the probability that a record is a released row and none of the reference, by a
               learned classifier (LOGAN, Hayes et al. 2019, in its form for tables)
=============  =====================================================================================
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay._threads import limit_learner_threads
from dpassay.attacks.tables.coding import Coded, Coding
from dpassay.attacks.tables.distances import find_nearest
from dpassay.types import FloatArray

MOST_ROWS = 20_000  # of each side that the classifier learns from
_MOST_CELLS = 2**22  # of a pair that are counted in an array; beyond, those that occur are sorted


@dataclass(frozen=True, eq=False)
class Scene:
    """What an attacker has: candidates, the released table and a reference, in one coding."""

    coding: Coding
    candidates: Coded
    released: Coded
    reference: Coded
    seed: int

    @cached_property
    def to_released(self) -> FloatArray:
        """The distance of each candidate to the closest released row; two attacks need it."""
        return find_nearest(self.candidates, self.released).distances


def score_pair_ratio(scene: Scene) -> FloatArray:
    """Sum over pairs of columns of ln((c_S + 1)/(n_S + m)) - ln((c_R + 1)/(n_R + m)).

    c are the numbers of rows of the released table S and the reference R with both values of the
    candidate, m is the number of cells of the pair. A table of one column has it for that column.
    """
    d = len(scene.coding.columns)
    sets = list(itertools.combinations(range(d), 2)) or [(0,)]
    total = np.zeros(len(scene.candidates))
    for places in sets:
        m = int(np.prod([scene.coding.n_codes[p] for p in places]))
        cells = [_cells(scene, part, places) for part in _parts(scene)]
        for sign, table in ((1, cells[1]), (-1, cells[2])):
            counts = count_in(table, cells[0], m)
            total += sign * (np.log(counts + 1.0) - np.log(len(table) + m))
    return total


def _parts(scene: Scene) -> tuple[Coded, Coded, Coded]:
    return scene.candidates, scene.released, scene.reference


def _cells(scene: Scene, part: Coded, places: tuple[int, ...]) -> NDArray[np.int64]:
    """One whole number for the values of some columns."""
    found = np.zeros(len(part), np.int64)
    for place in places:
        found = found * scene.coding.n_codes[place] + part.bins[:, place]
    return found


def count_in(table: NDArray[np.int64], wanted: NDArray[np.int64], n_cells: int) -> FloatArray:
    """How often each wanted number is in the table; they lie in 0, ..., n_cells - 1.

    >>> count_in(np.array([2, 0, 2]), np.array([2, 1]), 3)
    array([2., 0.])

    """
    if n_cells <= _MOST_CELLS:
        return np.bincount(table, minlength=n_cells)[wanted].astype(float)
    ordered = np.sort(table)
    ends = (np.searchsorted(ordered, wanted, side=side) for side in ("left", "right"))
    first, last = ends
    return (last - first).astype(float)


def score_dcr(scene: Scene) -> FloatArray:
    """Minus the distance to the closest released row."""
    return -scene.to_released


def score_dcr_diff(scene: Scene) -> FloatArray:
    """How much closer the closest released row is than the closest one of the reference."""
    near = find_nearest(scene.candidates, scene.reference).distances
    return near - scene.to_released


def score_classifier(scene: Scene) -> FloatArray:
    """Log odds of "released" against "reference", by gradient boosting on both."""
    rng = np.random.default_rng(scene.seed)
    released, reference = (thin(part, MOST_ROWS, rng) for part in (scene.released, scene.reference))
    size = min(len(released), len(reference))  # of equal sizes, so that the odds are balanced
    X = np.vstack([_matrix(released)[:size], _matrix(reference)[:size]])
    y = np.repeat([1, 0], size)
    return learn_odds(X, y, _matrix(scene.candidates), scene.seed)


def learn_odds(X: FloatArray, y: NDArray[Any], wanted: FloatArray, seed: int) -> FloatArray:
    """Log odds of the label 1 for the wanted rows, by gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=60, min_samples_leaf=max(2, min(20, len(X) // 20)), random_state=seed
    )
    with limit_learner_threads():
        return np.asarray(model.fit(X, y).decision_function(wanted))


def _matrix(coded: Coded) -> FloatArray:
    return np.hstack([coded.numbers, coded.texts.astype(float)])


def thin(coded: Coded, most: int, rng: np.random.Generator) -> Coded:
    """At most so many rows, drawn without replacement, in random order."""
    return coded.take(rng.permutation(len(coded))[:most])


@dataclass(frozen=True)
class TableScore:
    """An attack on a released table: its scores, what it rests on, what it finds and misses."""

    score: Callable[[Scene], FloatArray]
    source: str
    finds: str


SCORES: dict[str, TableScore] = {
    "pair-ratio": TableScore(
        score_pair_ratio,
        "van Breugel et al. 2023 (DOMIAS), with the density of pairs",
        "leaks through noisy marginals, and copies less well than distances",
    ),
    "dcr": TableScore(
        score_dcr, "distance to the closest record", "copied rows; it misses leaks without copies"
    ),
    "dcr-diff": TableScore(
        score_dcr_diff,
        "distance to the closest record, against a reference",
        "copied rows; it misses leaks without copies",
    ),
    "classifier": TableScore(
        score_classifier,
        "Hayes et al. 2019 (LOGAN), on rows",
        "copies and some leaks, less than the pair ratio",
    ),
}
"""The attacks by name."""
