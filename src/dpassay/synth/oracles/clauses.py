"""An exact oracle by clauses: OR-Tools' CP-SAT, an optional package.

A code of a column is a truth value, of which each column has exactly one; a literal of a term is
the disjunction of the codes that it allows. A term that is liked may be true only if each of its
literals is; one that is disliked must be true if no code outside of its literals is.

CP-SAT wants whole coefficients. They are rounded on a grid of 2^-44 of the largest sum that a
record can reach; what rounding may add, half a step for every coefficient, is added to the bound
that the solver proves, so that the gap is true of the weights as they were given.
"""

from typing import Any

import numpy as np

from dpassay.errors import MissingDependency
from dpassay.synth.oracles.exact import Exact, Solved
from dpassay.synth.queries.terms import Terms, parts
from dpassay.types import FloatArray

_FINE = 2.0**44


class Clauses(Exact):
    """Exact by CP-SAT of OR-Tools (``pip install 'dpassay[cp-sat]'``)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _cp_model()

    def _solve(self, goal: Terms, noise: FloatArray) -> Solved | None:
        cp = _cp_model()
        model, codes, terms = _model(cp, goal, len(noise))
        weights = np.concatenate([-noise, goal.weights[: len(terms)]])
        step = max(float(np.abs(weights).sum()), 1e-300) / _FINE
        whole = [int(weight) for weight in np.rint(weights / step)]
        model.maximize(cp.LinearExpr.weighted_sum(codes + terms, whole))
        solver = cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = self.limit
        status = solver.solve(model)
        if status == cp.INFEASIBLE:
            return None
        record = None
        if status in (cp.OPTIMAL, cp.FEASIBLE):
            chosen = np.array([solver.value(variable) for variable in codes])
            record = [chosen[part].argmax() for part in parts(goal.schema)]
        upper = goal.constant + step * (solver.best_objective_bound + len(weights) / 2)
        return Solved(record, status == cp.OPTIMAL, upper)


def _model(cp: Any, goal: Terms, width: int) -> tuple[Any, list[Any], list[Any]]:
    """The clauses, and the variables of codes and of terms that are no rules."""
    model = cp.CpModel()
    codes = [model.new_bool_var("") for _ in range(width)]
    for part in parts(goal.schema):
        model.add_exactly_one(codes[part])
    n_terms = len(goal.weights) - goal.n_rules
    terms = [model.new_bool_var("") for _ in range(n_terms)]
    broken: list[list[Any]] = [[] for _ in goal.weights]  # codes that leave a literal unmet
    for (having, allowed), part in zip(goal.literals, parts(goal.schema), strict=True):
        for term, row in zip(having.tolist(), allowed, strict=True):
            if term < n_terms and goal.weights[term] > 0:
                met = [code for code, good in zip(codes[part], row, strict=True) if good]
                model.add_bool_or(met).only_enforce_if(terms[term])
            broken[term] += [code for code, good in zip(codes[part], row, strict=True) if not good]
    for term, others in enumerate(broken):
        if term >= n_terms:
            model.add_bool_or(others)
        elif goal.weights[term] < 0:
            model.add_bool_or([terms[term], *others])
    return model, codes, terms


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MissingDependency(
            "oracle='cp-sat' needs OR-Tools, which is not installed: pip install "
            "'dpassay[cp-sat]', or use oracle='exact', which needs nothing more."
        ) from None
    return cp_model
