"""Error rates of private synthetic data as Micali 2022 prints and derives them, chapter 5.

The rates that hold are :data:`dpassay.synth.theorems.RATES`.
"""

import math

from dpassay import _check
from dpassay.synth.theorems import DIAMETER, RATES, Rate

__all__ = [
    "PRINTED",
    "balanced_entropy",
    "section_5_4_entropy",
    "stochastic_population_rate",
]

PRINTED = RATES | {
    "MWEM": Rate(1 / 4, 1 / 2, 1 / 2, 1 / 2),
    "SepFEM": Rate(3 / 4, 1 / 2, 1 / 2, 1 / 2),
    "FEM": Rate(3 / 4, 1 / 2, 1 / 2, 1 / 2),
    "FrankWolfe": Rate(1 / 5, 2 / 5, 1 / 5, 2 / 5),
}
"""As table 5.1 prints them; it has neither BLR (here as proved) nor FEM (here as SepFEM).

MWEM's log^(1/2)(1/delta) is a slip: balancing its two terms gives 1/4. Its own (epsilon n)^(-2/5)
is slower than MWEM's -1/2, not equal to the best known, and is -1/2 once its start is counted."""


def stochastic_population_rate(
    n_records: int, epsilon: float, delta: float, n_queries: int, n_cells: float
) -> tuple[float, float]:
    """Corollary 46's rate of the population error, and its weight of entropy; unit constants.

    Stochastic Frank-Wolfe (Bassily, Guzmán and Menart 2021) has a gap of Q (2 + Q/alpha) r, r =
    (log k log n)^(2/3) log^(1/6)(1/delta)/(epsilon n)^(1/3), to which alpha log|X| comes: best at
    alpha = Q √(r/log|X|), where it is 2Q r + 2Q √(r log|X|). (The document drops the first term
    and the factor 2 of the second.) At any n it is above corollary 48's.

    >>> rate, alpha = stochastic_population_rate(10**6, 1.0, 1e-6, 960, 1024)
    >>> round(rate, 3), round(alpha, 3)
    (7.547, 0.445)

    """
    n, epsilon = _check.count("n_records", n_records), _check.epsilon(epsilon, positive=True)
    delta = _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True)
    vertices = 2 * _check.count("n_queries", n_queries)
    log_cells = math.log(_check.number("n_cells", n_cells, low=2))
    r = (math.log(vertices) * math.log(n)) ** (2 / 3) * math.log(1 / delta) ** (1 / 6)
    r /= (epsilon * n) ** (1 / 3)
    alpha = DIAMETER * math.sqrt(r / log_cells)
    return 2 * DIAMETER * r + 2 * DIAMETER * math.sqrt(r * log_cells), alpha


def balanced_entropy(gap: float, log_cells: float) -> tuple[float, float]:
    """Lemma 43: the alpha that makes gap · alpha^(-1/4) + alpha log|X| least, and that least value.

    alpha = (gap/(4 log|X|))^(4/5) and 5 (gap/4)^(4/5) log^(1/5)|X|: how (epsilon n)^(-2/5) comes
    out of corollary 44 if the distance to the optimum at the start, of which the gap has the fourth
    root over alpha^(1/4), is taken for a constant. It is alpha log|X| at most, and nothing is left
    to balance.

    >>> alpha, error = balanced_entropy(0.3, 5.0)
    >>> round(alpha, 7), round(error, 6)
    (0.0347435, 0.868586)

    """
    gap = _check.number("gap", gap, low=0, low_open=True)
    log_cells = _check.number("log_cells", log_cells, low=0, low_open=True)
    alpha = (gap / (4 * log_cells)) ** 0.8
    return alpha, gap * alpha**-0.25 + alpha * log_cells


def section_5_4_entropy(
    n_records: int,
    epsilon: float,
    delta: float,
    n_vertices: int,
    log_cells: float,
    beta: float = 0.05,
) -> tuple[float, float, float]:
    """Section 5.4's weight of entropy as printed, as it follows, and the bound that is left; O(1).

    (A + 4Q²)/alpha + alpha log|X| is to be least, A = (Q² + Q) log(N/log k) log(kN/beta)
    √log(1/delta)/(epsilon √N): alpha = √((A + 4Q²)/log|X|), where it is twice √((A + 4Q²) log|X|).
    The document has Q² for 4Q² and log N for log|X|. Whatever n, at least 4Q √log|X| is left, more
    than any error: nothing here uses it.

    >>> [round(x, 2) for x in section_5_4_entropy(10**6, 1.0, 1e-6, 960, 6.93)]
    [0.86, 1.79, 24.85]
    >>> [round(x, 2) for x in section_5_4_entropy(10**12, 1.0, 1e-6, 960, 6.93)]
    [0.38, 1.52, 21.07]

    """
    n, vertices = _check.count("n_records", n_records), _check.count("n_vertices", n_vertices)
    epsilon = _check.epsilon(epsilon, positive=True)
    log = -math.log(_check.number("delta", delta, low=0, high=1, low_open=True, high_open=True))
    gap = math.log(n / math.log(vertices)) * math.log(vertices * n / beta) * math.sqrt(log)
    gap *= (DIAMETER**2 + DIAMETER) / (epsilon * math.sqrt(n))
    printed = math.sqrt((gap + DIAMETER**2) / math.log(n))
    total = gap + 4 * DIAMETER**2
    return printed, math.sqrt(total / log_cells), 2 * math.sqrt(total * log_cells)
