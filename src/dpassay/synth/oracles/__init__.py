"""Oracles: the record that a weighted set of queries likes best.

DualQuery and its kin ask for x that maximises sum_i w_i q_i(x) - <noise, onehot(x)>, over all
records that are possible. That is NP-hard in general (queries of three literals are MAX-3-SAT),
but what is asked depends on the data only through queries that were selected privately: it is
post-processing, and no guarantee rests on the answer being the best one.

Oracles maximise a sum of terms (:mod:`dpassay.synth.queries.terms`): restart local search, which
any schema allows; integer programming by HiGHS, exact; the same as clauses by OR-Tools, exact, an
optional package; and enumeration, exact and fastest on small universes.
"""

from collections.abc import Callable
from typing import Any

from dpassay import _check
from dpassay.synth.oracles.base import Found, Oracle
from dpassay.synth.oracles.clauses import Clauses
from dpassay.synth.oracles.enumeration import Enumeration
from dpassay.synth.oracles.integer_program import IntegerProgram
from dpassay.synth.oracles.search import LocalSearch
from dpassay.synth.tables.schema import Schema

__all__ = [
    "Clauses",
    "Enumeration",
    "Found",
    "IntegerProgram",
    "LocalSearch",
    "Oracle",
    "oracle_for",
]

SMALL_CELLS = 1 << 12  # up to which "auto" enumerates

ORACLES: dict[str, Callable[[], Oracle]] = {
    "search": LocalSearch,
    "exact": IntegerProgram,
    "cp-sat": Clauses,
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
