"""BLR: a small synthetic table, drawn by the exponential mechanism from all tables of its size.

Blum, Ligett and Roth (2008). A candidate D' of m records scores u(D') = -max_q |q(D) - q(D')|,
which one record moves by at most 1/n, since each q(D) = (1/n) sum q(x) does. D' is drawn with
weight exp(u/σ), σ = 2/(nε), times the number of sequences that it stands for, if sequences are what
is drawn: pure ε-DP, and of bounded range ε.

**How many records.** Hoeffding's bound at α/2 says that some D' of m > 2 log(2k)/α² records has all
k answers within α/2. Of #R candidates, those off by more than α have total weight below #R exp(-αn
ε/4) times that of a good one, which is at most β if

    αnε/4 >= log #R(m) + log(1/β),    m = floor(2 log(2k)/α²) + 1.

The left side grows with α and the right side falls, so that there is a smallest α
(:func:`blr_accuracy`). Counted as sequences log #R = m log|X|; as multisets, with weights that are
not multiplied, it is log C(|X| + m - 1, m), which is far less: the better accuracy.

**No Markov chain.** A chain within total variation η of its target gives (ε, (1 + e^ε)η)-DP, and η
would need a proof for every data set. Beyond what can be enumerated, the mechanism is run on a
random subset of candidates that is drawn before the data are looked at: exactly ε-DP.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpassay import _check
from dpassay._special.margins import ARITHMETIC
from dpassay._special.search import first_true
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.choosing import softmax
from dpassay.mechanisms.noise import Source
from dpassay.privacy import BoundedRange, Event
from dpassay.privacy.budget import Budget
from dpassay.synth.base import CommonWithoutDelta, Synthesizer
from dpassay.synth.models import Model, Records, universe
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

Counting = Literal["multisets", "sequences"]
COUNTINGS = ("multisets", "sequences")
MOST_CANDIDATES = 4_000_000
MOST_CELLS = 4096
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Accuracy:
    """With probability 1 - beta all answers are within ``alpha``, with ``size`` records."""

    alpha: float
    size: int


def blr_accuracy(
    n_queries: int,
    n_cells: int,
    n_records: int,
    epsilon: float,
    beta: float = 0.05,
    counting: Counting = "multisets",
) -> Accuracy:
    """The smallest alpha that the inequality of the module proves, with the size it needs.

    >>> blr_accuracy(10, 8, 1000, 1.0, counting="sequences")
    Accuracy(alpha=0.3733, size=43)

    """
    # Only logarithms of these enter: they may be as large as they like.
    k = _check.count("n_queries", n_queries, high=math.inf)
    cells = _check.count("n_cells", n_cells, high=math.inf)
    n, epsilon = _check.count("n_records", n_records), _check.epsilon(epsilon, positive=True)
    beta = _check.number("beta", beta, low=0, high=1, low_open=True, high_open=True)
    _check.choice("counting", counting, COUNTINGS)

    def prove(alpha: float) -> bool:
        needed = log_candidates(size_for(alpha, k), cells, counting) - math.log(beta)
        return alpha * n * epsilon / 4 >= needed

    low, high = 1e-6, 1.0
    while not prove(high):
        high *= 2
    alpha = float(first_true(lambda x: prove(float(x)), low, high, within=ARITHMETIC))
    return Accuracy(alpha, size_for(alpha, k))


def size_for(alpha: float, n_queries: int) -> int:
    """The smallest number of records for which a good table exists: above 2 log(2k)/alpha²."""
    return math.floor(2 * math.log(2 * n_queries) / alpha**2) + 1


def log_candidates(size: int, n_cells: int, counting: Counting) -> float:
    """The logarithm of the number of tables of ``size`` records, to within rounding.

    Of m records from N cells there are C(N + m - 1, m) multisets. Logarithms of factorials would
    cancel where N is large: instead Stirling's formula with its remainder c, the large terms of
    which are all positive,

        (N - 1/2) log(1 + m/N) + m log(1 + N/m) - log(2 pi m)/2 + c(N + m) - c(N) - c(m),

    and m log N - log m!, which is less by m²/N at most, where no double could tell the two apart.
    """
    if counting == "sequences":
        return size * math.log(n_cells)
    if n_cells > size**2 << 53:
        return size * math.log(n_cells) - math.lgamma(size + 1)
    rest = _stirling(n_cells + size) - _stirling(n_cells) - _stirling(size)
    small = (n_cells - 0.5) * math.log1p(size / n_cells) - math.log(2 * math.pi * size) / 2
    return small + size * math.log1p(n_cells / size) + rest


def _stirling(x: float) -> float:
    """What log gamma(x) has beyond (x - 1/2) log x - x + log(2 pi)/2, for x >= 1.

    From 16 on four terms of the series, whose error the fifth bounds: 1e-14.
    """
    if x < 16:
        return math.lgamma(x) - (x - 0.5) * math.log(x) + x - math.log(2 * math.pi) / 2
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / x**2) / x**2) / x**2) / x


@dataclass(frozen=True)
class BLRPlan:
    """One selection among all tables of ``size`` records, by weights exp(score/sigma)."""

    event: Event
    size: int
    sigma: float


class BLR(Synthesizer):
    """A synthetic table of a few records by the exponential mechanism: pure epsilon-DP.

    Args:
        schema: the public domain; of at most 4096 cells.
        workload: the queries that should come out right; None takes all pairs of columns.
        epsilon: the privacy parameter.
        delta: None or 0: the method is purely epsilon-DP.
        size: records of the synthetic table; None takes what :func:`blr_accuracy` asks for, or as
            many as can be enumerated, if that is fewer.
        beta: the probability that the accuracy is missed.
        counting: "multisets" gives every multiset of records the same prior weight; "sequences"
            one in proportion to the number of orders its records can be written in, as the
            original does. Both are epsilon-DP; multisets are more accurate.
        candidates: None enumerates all tables; a number draws so many at random, before the data
            are looked at, and chooses among them, which any size allows.
        neighbouring, n_records, rng: see :class:`~dpassay.synth.Synthesizer`.

    Raises:
        InvalidArgument: more tables than can be enumerated; the message says which sizes can.

    >>> import pandas as pd
    >>> from dpassay.synth import Schema
    >>> table = pd.DataFrame({"sex": ["F", "M"] * 500, "smokes": [0, 0, 0, 1] * 250})
    >>> schema = Schema({"sex": ["F", "M"], "smokes": [0, 1]})
    >>> fitted = BLR(schema, epsilon=1.0, size=8, rng=0).fit(table)
    >>> len(fitted.model_.codes), fitted.privacy_.epsilon(0.0)
    (8, 1.0)

    """

    is_pure = True

    def __init__(
        self,
        schema: Schema,
        workload: Workload | None = None,
        *,
        delta: float | None = None,
        size: int | None = None,
        beta: float = 0.05,
        counting: Counting = "multisets",
        candidates: int | None = None,
        **rest: Unpack[CommonWithoutDelta],
    ) -> None:
        if delta is not None and delta != 0:
            raise InvalidArgument(f"delta={delta} must be 0 or None: BLR is pure epsilon-DP.")
        super().__init__(schema, workload, delta=0.0, **rest)
        self.size = size
        self.beta = beta
        self.counting: Counting = counting
        self.candidates = candidates

    def _plan(self, allowed: Budget, n_records: int) -> BLRPlan:
        _check.choice("counting", self.counting, COUNTINGS)
        if self.candidates is not None:
            _check.count("candidates", self.candidates, low=2, high=MOST_CANDIDATES)
        cells = self.schema.n_cells
        if cells > MOST_CELLS:
            raise InvalidArgument(
                f"the schema has {cells:.3g} cells; BLR takes at most {MOST_CELLS}. Use fewer or "
                "coarser columns, or another method."
            )
        size = self._size(n_records, cells, allowed.epsilon)
        event = BoundedRange(allowed.epsilon, allowed.neighbouring)
        return BLRPlan(event, size, 2 / (n_records * allowed.epsilon))

    def _size(self, n_records: int, cells: int, epsilon: float) -> int:
        most = largest_size(cells)
        if self.size is None:
            k = self.workload.n_queries(self.schema)
            wanted = blr_accuracy(k, cells, n_records, epsilon, self.beta, self.counting).size
            return wanted if self.candidates is not None else min(wanted, most)
        size = _check.count("size", self.size)
        if self.candidates is None and size > most:
            raise InvalidArgument(
                f"size={size} has {math.exp(log_candidates(size, cells, 'multisets')):.3g} tables "
                f"of {cells} kinds of record, more than the {MOST_CANDIDATES:.3g} that are "
                f"enumerated. Sizes up to {most} can be; or pass candidates=100_000 to choose "
                "among a random subset."
            )
        return size

    def _run(self, data: Records, plan: BLRPlan, chosen: Source) -> Model:
        cells = universe(self.schema, MOST_CELLS)
        values = query_values(self.workload, data, cells)
        truth = self.workload.answers(data)

        def scores(chunk: NDArray[np.int64]) -> FloatArray:
            found = -np.abs(_answers(values, chunk) - truth).max(axis=1) / plan.sigma
            if self.counting == "sequences" and self.candidates is None:
                found = found + log_orderings(chunk)
            return found

        choose = _choose_exactly if chosen.is_exact else _choose
        found = choose(lambda rng: self._tables(len(cells), plan.size, rng), scores, chosen)
        return Records(self.schema, cells[found])

    def _tables(
        self, n_cells: int, size: int, rng: np.random.Generator
    ) -> Iterator[NDArray[np.int64]]:
        """All candidates, in chunks."""
        if self.candidates is None:
            return all_multisets(n_cells, size)
        return _random_tables(n_cells, size, self.candidates, self.counting, rng)


Tables = Callable[[np.random.Generator], Iterator[NDArray[np.int64]]]
Scores = Callable[[NDArray[np.int64]], FloatArray]


def _choose(tables: Tables, scores: Scores, chosen: Source) -> NDArray[np.int64]:
    """A table with weights exp(score), by Gumbel noise on one chunk after another."""
    rng = chosen.generator
    best, found = -math.inf, np.empty(0, np.int64)
    for chunk in tables(rng):
        noisy = scores(chunk)
        noisy = noisy + rng.gumbel(size=len(noisy))
        top = int(np.argmax(noisy))
        if noisy[top] > best:
            best, found = float(noisy[top]), chunk[top]
    return found


def _choose_exactly(tables: Tables, scores: Scores, chosen: Source) -> NDArray[np.int64]:
    """The same without rounding: all scores first, then the table that was drawn is made again."""
    # Which tables are candidates is no secret, so that a seed of their own may repeat them.
    seed = int(chosen.generator.integers(2**63))
    found = np.concatenate([scores(chunk) for chunk in tables(np.random.default_rng(seed))])
    index = int(softmax(found, 1, chosen.generator)[0])
    for chunk in tables(np.random.default_rng(seed)):
        if index < len(chunk):
            return chunk[index]
        index -= len(chunk)
    raise AssertionError("the tables were made again in another number")


def largest_size(n_cells: int) -> int:
    """The most records of which all multisets can be enumerated."""
    limit = math.log(MOST_CANDIDATES)
    size = 1
    while size < 200 and log_candidates(size + 1, n_cells, "multisets") <= limit:
        size += 1
    return size


def all_multisets(n_cells: int, size: int) -> Iterator[NDArray[np.int64]]:
    """All multisets of ``size`` cells, as sorted rows, in chunks."""
    rows = itertools.combinations_with_replacement(range(n_cells), size)
    while chunk := list(itertools.islice(rows, _CHUNK)):
        yield np.array(chunk, np.int64)


def _random_tables(
    n_cells: int, size: int, count: int, counting: Counting, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Tables drawn alike from all sequences or from all multisets."""
    for start in range(0, count, _CHUNK):
        rows = min(_CHUNK, count - start)
        if counting == "sequences":
            yield rng.integers(0, n_cells, (rows, size))
        else:
            # Stars and bars: a uniform subset of places for the bars is a uniform multiset.
            keys = rng.random((rows, n_cells + size - 1)).argpartition(size - 1, axis=1)[:, :size]
            yield np.sort(keys, axis=1) - np.arange(size)


def log_orderings(rows: NDArray[np.int64]) -> FloatArray:
    """Log m!/prod c_x! of each sorted row: in how many orders its records can be written."""
    run = np.ones(len(rows))
    product = np.zeros(len(rows))
    for j in range(1, rows.shape[1]):
        run = np.where(rows[:, j] == rows[:, j - 1], run + 1, 1.0)
        product += np.log(run)
    return special.gammaln(rows.shape[1] + 1) - product


def query_values(workload: Any, data: Records, cells: NDArray[np.int64]) -> FloatArray:
    """The value of every query (column) on every cell (row)."""
    one_each = (Records(data.schema, cell[None]) for cell in cells)
    return np.array([workload.answers(record) for record in one_each])


def _answers(values: FloatArray, rows: NDArray[np.int64]) -> FloatArray:
    """The answers of every table, one record at a time so that memory stays small."""
    total = values[rows[:, 0]]
    for j in range(1, rows.shape[1]):
        total += values[rows[:, j]]
    return total / rows.shape[1]
