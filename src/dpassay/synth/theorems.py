"""Query-error theorems: how far the worst answer of a private synthesizer may be off.

Two kinds, never mixed. :func:`~dpassay.synth.query_error_upper` is a *proved upper bound with all
constants* on the expected largest error over all queries, for every data set D of n records, n
public, and for settings of the synthesizer that it names; what an inexact oracle misses comes on
top. :func:`~dpassay.synth.query_error_rate` is a *rate with unit constant*, for slopes alone:
Micali 2022's table 5.1 as corrected, or as printed.

Queries q_1 to q_m have values in [0, 1]; with their complements there are 2m, L = log 2m. A budget
(epsilon, delta) buys rho-zCDP; T exponential mechanisms of rho in all have √(8 rho/T) each. Three
facts do all the work: an exponential mechanism with weights exp(u/b) falls short of the best of k
scores by b log k at most, in expectation (:func:`~dpassay.privacy.excess_risk.selection_error`);
the largest of k means of s draws from [0, 1] is above its expectation by √(log k/(2s)) at most, in
expectation; and errors are convex, so that a mean of models is no worse than the mean of errors.

**BLR.** Of m' records drawn from D the expected largest error is √(L/(2m')) at most, so some table
of m' records is as good, and the exponential mechanism over R tables, weights exp(-error · n
epsilon/2), adds 2 log R/(n epsilon). Multisets: R = C(N, m'), N = m' - 1 plus the number of cells,
log R <= N h(m'/N), h the entropy in nats. While m' is far below the number of cells the best m'
leaves (epsilon n)^(-1/3); beyond, n to a power up to -1, which sequences do not give.

**MWEM**, mean of T iterates. With e the error of the selected query, z that of its noisy answer
and g = (e + z)/2, a round lowers KL(D, A) by g e - log E_A exp(g (q - q(A))) >= g e - g²/8 >= g e -
g² = (e² - z²)/4 (Hoeffding's lemma; any noise, clipped or not). All rounds lower it by log|X| at
most, so that the mean of e in size is √(4 log|X|/T + mean z²) at most; selection among m adds its
shortfall:

    √(4 log|X|/T + T/(rho n²)) + log m √(T/rho)/n,

    √(4 log|X|/T + 8T²/(epsilon n)²) + 4T log m/(epsilon n)   for delta = 0.

The paper has 2 √(log|X|/T) + 10 T log m/(epsilon n) with probability 1 - 2T/m. Both are for the
paper's form: rounds may select a query again, and the mean is that of the models that a query was
selected for, the first of which is uniform. :class:`~dpassay.synth.MWEM` selects a query once, and
averages what each round leaves; for it the bound is a comparison, not a theorem.

**DualQuery.** Multiplicative weights gain at most L/(eta T) + eta/2 less than the best signed query
(gains q(D) - q(x_t) lie in an interval of length 2). The record is the best for s draws, no worse
for them than D is; for the weights themselves it is short by √(log|X|/(2s)) in expectation:

    L/(eta T) + eta/2 + √(log|X|/(2s)),   rho = (c eta/n)² s T(T - 1)(2T - 1)/48,

c = 2 where a record is replaced, else 1: table 5.1's exponents when the three are balanced.

**FEM, SepFEM.** A record with one-hot code x maximises F(x) - <prices, x>, F the sum of queries so
far. It has coordinate i if the price of i is below a threshold that the other prices set; one more
query in [0, 1] moves that threshold by 1 at most. So coordinate i changes with probability 1/b at
most for exponential prices of scale b, whose density is 1/b at most, and 1/(2b) for Laplace. A
record that changes does so in two coordinates of a column: with W coordinates in all the gain of a
round changes by W/(2b), or W/(4b), in expectation. Being the leader costs the prices themselves:
b sum_j (1 - 1/c_j) for columns of c_j values (a mean less a minimum), or b sum_j M(c_j), M the
expected maximum of Laplace draws. The regret of T rounds is R_T = T W/(2b) + b sum_j (1 - 1/c_j).
Every query is selected for s records of a round whose law is the leader's:

    (R_{T+1} + (T + 1) √(L/(2s)))/T + L c √(T/(8 rho))/n,

T + 1 because the first query answers to records that are not released; it costs one selection and
is not below 0 otherwise. With d bits the best b leaves d √(2/T) (FEM) or d √(1.5/T) (SepFEM), so
that the error grows as d^(1/2), where table 5.1 prints d^(3/4).

**Dual Frank-Wolfe** (corollary 44), mean of all T iterates: ``dpassay.synth.methods.frank_wolfe``.
In l_inf, with start 0, Q = 2 and alpha log|X| on top:

    Q √(2 log|X|/T) + 2 L √(T/(8 rho))/n,

(epsilon n)^(-1/2) at its best T for every alpha, where the document has (epsilon n)^(-2/5), which
comes from a distance to the optimum that it takes for unknown. **Corollary 48**, for the population
that the records are drawn from: √(L/(2n)) more, where the document has √(d/n)
(:func:`~dpassay.synth.population_error_upper`). **DQRS** has a rate alone: its kept queries are not
independent of the last record.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.privacy.budget import Budget, budget
from dpassay.privacy.excess_risk import laplace_maximum
from dpassay.synth.methods.frank_wolfe import DIAMETER, average_error, best_steps
from dpassay.types import FloatArray, Neighbouring

COUNTS = np.unique(np.geomspace(1, 1e12, 600).astype(np.int64))
"""Rounds, samples and sizes that are tried: 5 % apart, which costs a thousandth of the error."""
_FLOATS = 600.0  # logarithms of numbers that can be written down
_PART = 1e-4  # of the first term of dual Frank-Wolfe, for the weight of entropy
_SAMPLING = 0.1  # of the rest of FEM's bound, for drawing records: more of them cost no privacy


@dataclass(frozen=True)
class Guarantee:
    """An upper bound on the expected largest error, and the settings it is proved for.

    Attributes:
        error: a share of the records; above 1 it says nothing.
        settings: arguments of the synthesizer's class.

    """

    error: float
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Problem:
    """What the theorems depend on."""

    n: int
    allowed: Budget
    queries: int
    sizes: tuple[int, ...]

    @property
    def log_signed(self) -> float:
        """L: the logarithm of the number of queries and complements."""
        return math.log(2 * self.queries)

    @property
    def log_cells(self) -> float:
        """The logarithm of the number of cells."""
        return float(np.log(self.sizes).sum())


def query_error_upper(
    method: str,
    *,
    n_records: int,
    epsilon: float,
    delta: float,
    n_queries: int,
    sizes: Sequence[int],
    neighbouring: Neighbouring = "add-remove",
) -> Guarantee:
    """A proved upper bound on the expected largest error of a synthesizer, with its settings.

    It holds for every data set of ``n_records`` records, in expectation over the noise, with exact
    oracles and the settings that come with it, which follow from public quantities alone: those for
    which the bound is least. MWEM's is for the paper's form, which may select a query again.

    Args:
        method: "BLR", "MWEM", "DualQuery", "FEM", "SepFEM" or "FrankWolfe".
        n_records: n, public.
        epsilon: the privacy parameter.
        delta: above 0; or 0, for BLR (whatever is given) and MWEM.
        n_queries: how many queries there are, without complements.
        sizes: how many values each column has, at least 2.
        neighbouring: "add-remove" or "replace-one".

    Raises:
        InvalidArgument: an argument out of its range, or a method without such a theorem.

    >>> problem = dict(n_records=1000, epsilon=1.0, delta=1e-6, n_queries=6, sizes=[2, 2, 2])
    >>> found = query_error_upper("FrankWolfe", **problem)
    >>> round(found.error, 4), found.settings["steps"]
    (0.4286, 'bound')

    """
    if method == "DQRS":
        raise InvalidArgument(
            "method='DQRS' has no bound with constants; query_error_rate gives its rate."
        )
    prove = _PROOFS[_check.choice("method", method, tuple(_PROOFS))]
    allowed = budget(epsilon, delta, neighbouring)
    if allowed.delta == 0 and method not in ("BLR", "MWEM"):
        raise InvalidArgument(
            f"delta=0 must be positive for method={method!r}; for pure DP there are BLR and MWEM."
        )
    return prove(_problem(n_records, allowed, n_queries, sizes))


def _problem(n_records: int, allowed: Budget, n_queries: int, sizes: Sequence[int]) -> _Problem:
    if not len(sizes):
        raise InvalidArgument("sizes=() must have one entry per column of the table.")
    values = tuple(_check.count("sizes", size, low=2) for size in sizes)
    n = _check.count("n_records", n_records)
    queries = _check.count("n_queries", n_queries, high=math.inf)  # a formula, nothing is listed
    return _Problem(n, allowed, queries, values)


def population_error_upper(n_records: int, n_queries: int) -> float:
    """How far the worst answer on n independent records is from the population's, in expectation.

    √(log(2m)/(2n)), an upper bound: deviations of means of n values in [0, 1] have the moments of
    a normal variable of variance 1/(4n), by Hoeffding's lemma, and there are 2m. Add it to a bound
    on the error for the records (Micali 2022, corollary 48, where the term is √(d/n)).

    >>> round(population_error_upper(10_000, 960), 4)
    0.0194

    """
    n = _check.count("n_records", n_records)
    queries = _check.count("n_queries", n_queries, high=math.inf)  # a formula, nothing is listed
    return math.sqrt(math.log(2 * queries) / (2 * n))


def blr_error_upper(
    size: int, *, n_records: int, epsilon: float, n_queries: int, sizes: Sequence[int]
) -> float:
    """BLR's bound for synthetic tables of a given size, such as the largest that can be enumerated.

    An upper bound on the expected largest error where multisets are counted;
    :func:`query_error_upper` takes the best size.

    >>> round(blr_error_upper(25, n_records=1000, epsilon=1.0, n_queries=12, sizes=[2, 2, 2]), 3)
    0.286

    """
    at = np.array([_check.count("size", size)], float)
    problem = _problem(n_records, budget(epsilon, 0.0, "add-remove"), n_queries, sizes)
    return float(_tables_error(at, problem)[0])


# Proofs: each returns the least bound over its settings.


def _blr(problem: _Problem) -> Guarantee:
    errors = _tables_error(COUNTS.astype(float), problem)
    best = int(errors.argmin())
    return Guarantee(float(errors[best]), {"size": int(COUNTS[best])})


def _tables_error(size: FloatArray, problem: _Problem) -> FloatArray:
    """BLR's bound with synthetic tables of ``size`` records."""
    candidates = size * problem.log_cells  # as sequences: never fewer than as multisets
    if problem.log_cells < _FLOATS:
        others = math.exp(problem.log_cells) - 1
        fewer = size * np.log1p(others / size) + others * np.log1p(size / others)
        candidates = np.minimum(candidates, fewer)
    chosen = 2 * candidates / (problem.n * problem.allowed.epsilon)
    return np.sqrt(problem.log_signed / (2 * size)) + chosen


def _mwem(problem: _Problem) -> Guarantee:
    T, log_queries = COUNTS.astype(float), math.log(problem.queries)
    if problem.allowed.delta == 0:
        noise = 2 * T / (problem.allowed.epsilon * problem.n)  # Laplace's scale, on shares
        variance, selection = 2 * noise**2, 2 * noise * log_queries
    else:
        noise = np.sqrt(T / problem.allowed.rho) / problem.n
        variance, selection = noise**2, noise * log_queries
    errors = np.sqrt(4 * problem.log_cells / T + variance) + selection
    best = int(errors.argmin())
    settings = {"rounds": int(COUNTS[best]), "release": "average", "replays": 0}
    return Guarantee(float(errors[best]), settings)


def _dual_query(problem: _Problem) -> Guarantee:
    T, s = COUNTS[COUNTS >= 2].astype(float)[:, None], COUNTS.astype(float)[None, :]
    unit = problem.allowed.record_changes / problem.n
    spent = s * T * (T - 1) * (2 * T - 1) / 48  # rho of a rate of n, or n/2
    allowed = np.sqrt(problem.allowed.rho * (1 - 1e-9) / spent) / unit
    rates = np.minimum(allowed, np.sqrt(2 * problem.log_signed / T))
    errors = problem.log_signed / (rates * T) + rates / 2
    errors = errors + np.sqrt(problem.log_cells / (2 * s))
    row, column = np.unravel_index(int(errors.argmin()), errors.shape)
    settings = {
        "rounds": int(T[row, 0]),
        "samples": int(s[0, column]),
        "rate": float(rates[row, column]),
    }
    return Guarantee(float(errors[row, column]), settings)


def _fem(problem: _Problem) -> Guarantee:
    sizes = np.array(problem.sizes)
    return _follow_leader(problem, sizes.sum() / 2, float((1 - 1 / sizes).sum()))


def _sep_fem(problem: _Problem) -> Guarantee:
    price = sum(laplace_maximum(size) for size in problem.sizes)
    return _follow_leader(problem, sum(problem.sizes) / 4, price)


def _follow_leader(problem: _Problem, change: float, price: float) -> Guarantee:
    """Records that follow a leader whose gain moves by change/b a round and costs b · price."""
    T = COUNTS.astype(float)
    rates = _selections(problem, COUNTS) / problem.allowed.record_changes
    scales = np.sqrt((T + 1) * change / price)
    regret = 2 * np.sqrt((T + 1) * change * price) / T
    rest = regret + problem.log_signed / (rates * problem.n)
    errors = rest * (1 + _SAMPLING * (T + 1) / T)
    best = int(errors.argmin())
    settings = {
        "rounds": int(COUNTS[best]),
        "samples": math.ceil(problem.log_signed / (2 * (_SAMPLING * rest[best]) ** 2)),
        "rate": float(rates[best]) * (1 - 1e-9),
        "perturbation": float(scales[best]),
    }
    return Guarantee(float(errors[best]) * (1 + 2e-9), settings)


def _selections(problem: _Problem, steps: NDArray[np.int64]) -> FloatArray:
    """The epsilon of each of so many exponential mechanisms."""
    return np.sqrt(8 * problem.allowed.rho / steps)


def _frank_wolfe(problem: _Problem) -> Guarantee:
    cells, vertices = math.prod(problem.sizes), 2 * problem.queries
    rho = problem.allowed.rho
    steps = max(round(best_steps(cells, vertices, problem.n, rho)), 1)
    entropy = _PART * DIAMETER * math.sqrt(2 * problem.log_cells / steps)
    error = average_error(cells, vertices, problem.n, rho, steps) + entropy
    settings = {"steps": "bound", "alpha": entropy / problem.log_cells, "release": "average"}
    return Guarantee(error, settings)


_PROOFS: dict[str, Callable[[_Problem], Guarantee]] = {
    "BLR": _blr,
    "MWEM": _mwem,
    "DualQuery": _dual_query,
    "FEM": _fem,
    "SepFEM": _sep_fem,
    "FrankWolfe": _frank_wolfe,
}


# Rates.


@dataclass(frozen=True)
class Rate:
    """Exponents of log|X|^cells log|Q|^queries log(1/delta)^delta / (epsilon n)^signal."""

    cells: float
    queries: float
    delta: float
    signal: float

    def at(
        self, *, n_records: int, epsilon: float, delta: float, n_queries: int, n_cells: float
    ) -> float:
        """The rate at these values: the product of its powers."""
        n, epsilon = _check.count("n_records", n_records), _check.epsilon(epsilon, positive=True)
        delta = _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True)
        queries = _check.count("n_queries", n_queries, low=2, high=math.inf)
        cells = _check.number("n_cells", n_cells, low=2)
        return (
            math.log(cells) ** self.cells
            * math.log(queries) ** self.queries
            * math.log(1 / delta) ** self.delta
            / (epsilon * n) ** self.signal
        )


RATES = {
    "BLR": Rate(1 / 3, 1 / 3, 0, 1 / 3),
    "MWEM": Rate(1 / 4, 1 / 2, 1 / 4, 1 / 2),
    "DualQuery": Rate(1 / 6, 1 / 2, 1 / 6, 1 / 3),
    "FEM": Rate(1 / 2, 1 / 2, 1 / 4, 1 / 2),
    "SepFEM": Rate(1 / 2, 1 / 2, 1 / 4, 1 / 2),
    "DQRS": Rate(1 / 5, 3 / 5, 1 / 5, 2 / 5),
    "FrankWolfe": Rate(1 / 4, 1 / 2, 1 / 4, 1 / 2),
}
"""As the proofs of this module give them (log|X| stands for the number d of bits); DQRS's from a
round that costs eta³ s t²/n², in place of DualQuery's eta² s t²/n²."""


def query_error_rate(
    method: str,
    *,
    n_records: int,
    epsilon: float,
    delta: float,
    n_queries: int,
    n_cells: float,
) -> float:
    """The rate of the largest error with unit constant: for slopes, not a bound of any kind.

    Args:
        method: "BLR", "MWEM", "DualQuery", "FEM", "SepFEM", "DQRS" or "FrankWolfe".
        n_records: n.
        epsilon: the privacy parameter.
        delta: in (0, 1); BLR does not depend on it.
        n_queries: at least 2.
        n_cells: of the universe, at least 2.

    >>> problem = dict(epsilon=1.0, delta=1e-6, n_queries=960, n_cells=1024)
    >>> near, far = (query_error_rate("DQRS", n_records=n, **problem) for n in (1000, 100_000))
    >>> round(math.log(near / far) / math.log(100), 3)
    0.4

    """
    return RATES[_check.choice("method", method, tuple(RATES))].at(
        n_records=n_records, epsilon=epsilon, delta=delta, n_queries=n_queries, n_cells=n_cells
    )
