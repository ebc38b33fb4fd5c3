"""An oracle for any schema: coordinate ascent from many random records. Fast, not exact."""

from dataclasses import dataclass

import numpy as np

from dpassay import _check
from dpassay.synth.oracles.base import Found, price, state_found
from dpassay.synth.queries.terms import Terms, parts
from dpassay.synth.tables.columns import Codes
from dpassay.types import FloatArray

MOST_SWEEPS = 50
MOST_INSERTIONS = 100


@dataclass(frozen=True)
class LocalSearch:
    """Restart coordinate ascent: not exact, and fast on any schema.

    A restart takes a random record, makes it meet terms of positive weight one after the other, in
    random order, as far as they agree, and then sets one column after the other to its best code
    until none improves. All restarts of all rows of noise are moved together, which share them: a
    row has ``restarts`` over the number of rows, and at least 4.
    """

    restarts: int = 40

    def __post_init__(self) -> None:
        _check.count("restarts", self.restarts)

    def __call__(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found:
        """The best record of all restarts, for each row of noise."""
        each = max(self.restarts // len(noise), min(self.restarts, 4))
        repeated = np.repeat(noise, each, axis=0)
        codes = _climb(goal, repeated, _beginnings(goal, len(repeated), rng))
        values = goal.values(codes) - price(goal.schema, repeated, codes)
        best = values.reshape(len(noise), each).argmax(axis=1)
        chosen = codes[best + each * np.arange(len(noise))]
        return state_found(goal, noise, chosen, goal.upper(noise))


def _beginnings(goal: Terms, n_rows: int, rng: np.random.Generator) -> Codes:
    """Random records that meet some terms of positive weight."""
    wanted = np.flatnonzero(goal.weights > 0)
    codes = rng.integers(0, np.array(goal.schema.sizes), (n_rows, len(goal.schema.sizes)))
    if not len(wanted):
        return codes
    places, witnesses = _witnesses(goal, rng)
    # An exponential race: terms come in random order, heavy ones sooner.
    order = np.argsort(rng.exponential(size=(n_rows, len(wanted))) / goal.weights[wanted], axis=1)
    order = wanted[order[:, :MOST_INSERTIONS]]
    until = rng.integers(0, order.shape[1] + 1, n_rows)
    fixed, row = np.full_like(codes, -1), np.arange(n_rows)[:, None]
    for step in range(order.shape[1]):
        columns, values = places[order[:, step]], witnesses[order[:, step]]
        now = fixed[row, columns]
        agree = ((now == -1) | (now == values)).all(axis=1) & (step < until)
        fixed[row[agree], columns[agree]] = values[agree]
    return np.where(fixed == -1, codes, fixed)


def _witnesses(goal: Terms, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """For every term its columns and a code that it allows in each; padded by repetition."""
    pairs: list[list[tuple[int, int]]] = [[] for _ in goal.weights]
    for j, (terms, allowed) in enumerate(goal.literals):
        if len(terms):
            codes = (rng.random(allowed.shape) * allowed).argmax(axis=1)
            for term, code in zip(terms.tolist(), codes.tolist(), strict=True):
                pairs[term].append((j, code))
    longest = max(map(len, pairs))
    padded = np.array([found + found[:1] * (longest - len(found)) for found in pairs])
    return padded[..., 0], padded[..., 1]


def _climb(goal: Terms, noise: FloatArray, codes: Codes) -> Codes:
    """Coordinate ascent from every row until no single column of any row can be improved."""
    codes = codes.copy()
    unmet = np.zeros((len(codes), len(goal.weights)), np.int16)
    for (terms, allowed), column in zip(goal.literals, codes.T, strict=True):
        unmet[:, terms] += allowed[:, column].T == 0
    row = np.arange(len(codes))
    for _ in range(MOST_SWEEPS):
        moved = False
        for j, part in enumerate(parts(goal.schema)):
            terms, allowed = goal.literals[j]
            missed = allowed[:, codes[:, j]].T == 0
            open_ = unmet[:, terms] == missed  # all other columns meet the term
            gains = (open_ * goal.weights[terms]) @ allowed - noise[:, part]
            best = gains.argmax(axis=1)
            better = gains[row, best] > gains[row, codes[:, j]] + 1e-9
            if better.any():
                moved = True
                codes[better, j] = best[better]
                unmet[:, terms] += (allowed[:, codes[:, j]].T == 0).astype(np.int16) - missed
        if not moved:
            break
    return codes
