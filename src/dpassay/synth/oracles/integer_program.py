"""An exact oracle by integer programming: HiGHS, which SciPy brings along."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.synth.oracles.exact import Exact, Solved
from dpassay.synth.queries.terms import Terms, parts, starts
from dpassay.types import FloatArray


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
