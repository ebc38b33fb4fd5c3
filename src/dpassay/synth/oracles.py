"""Oracles: the record that a weighted set of queries likes best.

DualQuery and its kin ask for x that maximises sum_i w_i q_i(x) - <noise, onehot(x)>, over all
records that are possible. That is NP-hard in general (queries of three literals are MAX-3-SAT),
but what is asked depends on the data only through queries that were selected privately: it is
post-processing, and no guarantee rests on the answer being the best one.

Oracles maximise a sum of terms (:mod:`dpassay.synth.terms`): restart local search, which any schema
allows; integer programming by HiGHS, exact; the same as clauses by OR-Tools, an optional package
(:mod:`dpassay.synth.clauses`); and enumeration, exact and fastest on small universes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.synth.columns import Codes
from dpassay.synth.models import universe
from dpassay.synth.schema import Schema
from dpassay.synth.terms import Terms, parts, starts
from dpassay.types import FloatArray

MOST_CELLS = 1 << 16
SMALL_CELLS = 1 << 12  # up to which enumeration is what "auto" takes
MOST_SWEEPS = 50
MOST_INSERTIONS = 100


@dataclass(frozen=True, eq=False)
class Found:
    """What an oracle came up with, one row per row of noise.

    Attributes:
        codes: of the records.
        values: what they reach, noise included.
        gaps: at most how much better the best record is; 0 is proved to be the best.

    """

    codes: Codes
    values: FloatArray
    gaps: FloatArray


class Oracle(Protocol):
    """Whatever finds records of high value; ``noise`` has a row of the one-hot width for each."""

    def __call__(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found: ...


def _find(goal: Terms, noise: FloatArray, codes: Codes, upper: FloatArray) -> Found:
    if not goal.schema.possible(codes).all():
        raise InvalidArgument(
            "the oracle found no possible record: `impossible` leaves next to none. Use "
            "oracle='exact', which takes the rules as constraints."
        )
    values = goal.values(codes) - _price(goal.schema, noise, codes)
    return Found(codes, values, np.maximum(upper - values, 0.0))


def _price(schema: Schema, noise: FloatArray, codes: Codes) -> FloatArray:
    """<noise, onehot(x)> of each record with its own row of noise."""
    return np.take_along_axis(noise, codes + starts(schema), axis=1).sum(axis=1)


@dataclass(frozen=True)
class Enumeration:
    """Exact: looks at every cell of the universe, of which there may be at most 2^16."""

    def __call__(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found:
        """The best records; ties are broken at random."""
        cells = universe(goal.schema, MOST_CELLS)
        values = goal.values(cells)
        best = np.empty(len(noise), np.int64)
        for row, sigma in enumerate(noise):
            found = values.reshape(goal.schema.sizes)
            for j, part in enumerate(parts(goal.schema)):
                shape = [-1 if i == j else 1 for i in range(found.ndim)]
                found = found - sigma[part].reshape(shape)
            ties = np.flatnonzero(found.reshape(-1) >= found.max() - 1e-12)
            best[row] = ties[rng.integers(len(ties))]
        return _find(goal, noise, cells[best], np.full(len(noise), -math.inf))


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
        values = goal.values(codes) - _price(goal.schema, repeated, codes)
        best = values.reshape(len(noise), each).argmax(axis=1)
        chosen = codes[best + each * np.arange(len(noise))]
        return _find(goal, noise, chosen, goal.upper(noise))


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


class Solved(NamedTuple):
    """What a solver says: a record or None, whether it is proved best, and a bound on every one."""

    codes: Any
    proved: bool
    upper: float


@dataclass(frozen=True)
class Exact(ABC):
    """An exact solver; up to ``seconds`` a call.

    After that the best record so far is taken, or that of local search where it is better, and
    the gap says what is left open.
    """

    seconds: float = 60.0

    def __post_init__(self) -> None:
        _check.number("seconds", self.seconds, low=0, low_open=True, finite=False)

    def __call__(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found:
        """The best records, one problem for each row of noise."""
        found = [self._one(goal, row[None], rng) for row in noise]
        return Found(
            *(np.concatenate([getattr(f, k) for f in found]) for k in Found.__annotations__)
        )

    @property
    def limit(self) -> float:
        """Seconds, as solvers want them: finite."""
        return min(self.seconds, 1e9)

    def _one(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found:
        solved = self._solve(goal, noise[0])
        if solved is None:
            raise InvalidArgument("`impossible` rules out every record.")
        tried = [] if solved.proved else [*LocalSearch()(goal, noise, rng).codes]
        tried += [] if solved.codes is None else [solved.codes]
        codes = np.array(tried, np.int64)
        values = goal.values(codes) - _price(goal.schema, np.repeat(noise, len(codes), 0), codes)
        upper = np.minimum(goal.upper(noise), solved.upper)
        return _find(goal, noise, codes[[values.argmax()]], upper)

    @abstractmethod
    def _solve(self, goal: Terms, noise: FloatArray) -> Solved | None:
        """What the solver says for one row of noise; None if no record is possible."""


class IntegerProgram(Exact):
    """Exact by HiGHS: binary codes, and a term at most each of its literals."""

    def _solve(self, goal: Terms, noise: FloatArray) -> Solved | None:
        from scipy.optimize import Bounds, milp

        width, gains = len(noise), goal.weights[: len(goal.weights) - goal.n_rules]
        options: dict[str, Any] = {"time_limit": self.limit, "mip_rel_gap": 0.0}
        solved = milp(
            np.concatenate([noise, -gains]),
            integrality=np.repeat([1, 0], [width, len(gains)]),
            bounds=Bounds(0, 1),
            constraints=_constraints(goal, width),
            options=options,
        )
        if solved.status == 2:
            return None
        upper = math.inf
        if solved.mip_dual_bound is not None:
            upper = goal.constant - solved.mip_dual_bound
        codes = None
        if solved.x is not None:
            codes = [solved.x[part].argmax() for part in parts(goal.schema)]
        return Solved(codes, solved.status == 0, upper)


def _constraints(goal: Terms, width: int) -> list[Any]:
    """One code per column; terms at most their literals, or at least what these leave; rules.

    Unknowns are the one-hot record and then a variable for every term that is no rule. One of
    positive weight is pushed up, so that c <= each literal is all it needs; one of negative weight
    is pushed down against c >= (literals met) - (literals - 1).
    """
    from scipy.optimize import LinearConstraint

    literals, term = _literal_rows(goal, width)
    n_gains = len(goal.weights) - goal.n_rules
    own = np.where(term < n_gains, term, 0)
    counts = np.bincount(term, minlength=len(goal.weights))
    whole = _sparse(np.ones(len(term)), term, np.arange(len(term)), len(goal.weights)) @ literals
    each = _sparse(np.ones(n_gains), np.arange(n_gains), np.arange(n_gains), n_gains)
    liked = (term < n_gains) & (goal.weights[term] > 0)
    disliked = np.flatnonzero(goal.weights[:n_gains] < 0)
    column = np.repeat(np.arange(len(goal.schema.sizes)), goal.schema.sizes)
    codes = _sparse(np.ones(width), column, np.arange(width), len(goal.schema.sizes))
    rows = [
        (codes, None, 1, 1),
        (literals[liked], each[own[liked]], 0, np.inf),
        (whole[disliked], each[disliked], -np.inf, counts[disliked] - 1),
        (whole[n_gains:], None, -np.inf, counts[n_gains:] - 1),
    ]
    return [
        LinearConstraint(_beside(left, right, n_gains), low, high)  # type: ignore[arg-type]
        for left, right, low, high in rows
        if left.shape[0]
    ]


def _literal_rows(goal: Terms, width: int) -> tuple[Any, NDArray[np.int64]]:
    """The codes that each literal allows, as rows of the one-hot width, and whose literal it is."""
    term = np.concatenate([terms for terms, _ in goal.literals])
    rows, codes, done = [], [], 0
    for (terms, allowed), start in zip(goal.literals, starts(goal.schema), strict=True):
        row, code = np.nonzero(allowed)
        rows.append(row + done)
        codes.append(code + start)
        done += len(terms)
    row, code = np.concatenate(rows), np.concatenate(codes)
    return _sparse(np.ones(len(row)), row, code, len(term), width), term


def _sparse(values: FloatArray, rows: Any, columns: Any, *shape: int) -> Any:
    from scipy import sparse

    full = (shape[0], shape[1] if len(shape) > 1 else len(columns))
    return sparse.csr_array((values, (rows, columns)), full)


def _beside(left: Any, right: Any, n_right: int) -> Any:
    """Coefficients of the record beside minus those of the terms; None has none."""
    from scipy import sparse

    empty = sparse.csr_array((left.shape[0], n_right))
    return sparse.hstack([left, empty if right is None else -right], format="csr")


def _clauses() -> Oracle:
    from dpassay.synth.clauses import Clauses

    return Clauses()


ORACLES: dict[str, Callable[[], Oracle]] = {
    "search": LocalSearch,
    "exact": IntegerProgram,
    "cp-sat": _clauses,
    "enumeration": Enumeration,
}


def oracle_for(oracle: Any, schema: Schema) -> Oracle:
    """An oracle by name, or itself; "auto" enumerates small universes and searches others."""
    if callable(oracle):
        return oracle  # type: ignore[return-value]
    _check.choice("oracle", oracle, ("auto", *ORACLES), "Or pass an oracle, a callable.")
    if oracle == "auto":
        oracle = "enumeration" if schema.n_cells <= SMALL_CELLS else "search"
    return ORACLES[oracle]()
