"""An exact oracle by clauses: OR-Tools' CP-SAT, an optional package.

A code of a column is a truth value, of which each column has exactly one; a literal of a term is
the disjunction of the codes that it allows. A term that is liked may be true only if each of its
literals is; one that is disliked must be true if no code outside of its literals is.

CP-SAT wants whole coefficients. They are rounded on a grid of 2^-44 of the largest sum that a
record can reach; what rounding may add, half a step for every coefficient, is added to the bound
that the solver proves, so that the gap is true of the weights as they were given.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.synth.oracles import Found, LocalSearch, best_of, joined
from dpassay.synth.terms import Terms, parts
from dpassay.types import FloatArray

_FINE = 2.0**44


@dataclass(frozen=True)
class Clauses:
    """Exact by CP-SAT of OR-Tools (``pip install 'dpassay[cp-sat]'``); up to ``seconds`` a call.

    After that the best record so far is taken, or that of local search where it is better, and
    the gap says what is left open.
    """

    seconds: float = 60.0

    def __post_init__(self) -> None:
        _check.number("seconds", self.seconds, low=0, low_open=True, finite=False)
        _cp_model()

    def __call__(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found:
        """The best records, one model for each row of noise."""
        return joined([self._one(goal, sigma[None], rng) for sigma in noise])

    def _one(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found:
        cp = _cp_model()
        model, codes, terms = _model(cp, goal, noise.shape[1])
        weights = np.concatenate([-noise[0], goal.weights[: len(terms)]])
        step = max(float(np.abs(weights).sum()), 1e-300) / _FINE
        whole = [int(weight) for weight in np.rint(weights / step)]
        model.maximize(cp.LinearExpr.weighted_sum(codes + terms, whole))
        solver = cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = min(self.seconds, 1e9)
        status = solver.solve(model)
        if status == cp.INFEASIBLE:
            raise InvalidArgument("`impossible` rules out every record.")
        tried = [] if status == cp.OPTIMAL else [*LocalSearch()(goal, noise, rng).codes]
        if status in (cp.OPTIMAL, cp.FEASIBLE):
            chosen = np.array([solver.value(variable) for variable in codes])
            tried.append(np.array([chosen[part].argmax() for part in parts(goal.schema)]))
        upper = goal.constant + step * (solver.best_objective_bound + len(weights) / 2)
        return best_of(goal, noise, tried, upper)


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
        raise InvalidArgument(
            "oracle='cp-sat' needs OR-Tools, which is not installed: pip install "
            "'dpassay[cp-sat]', or use oracle='exact', which needs nothing more."
        ) from None
    return cp_model
