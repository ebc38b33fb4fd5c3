"""Noisy answers to questions about a table: counts, sums, means and histograms, with their error.

Every answer is computed from sums over records of something that depends on that record alone, and
which is 0 for records that do not meet the condition. So its sensitivity is known beforehand:

- a count, or a histogram over values that were named beforehand: 1, since a record is in one cell
  at the most (for Laplace noise under replace-one, 2 for a histogram: it leaves one cell and
  enters another);
- a sum of values clipped to [low, high]: the largest magnitude of the two bounds; under
  replace-one, the distance of the largest from the smallest of low, high and 0.

Sums are exact: each value is rounded to a step of 2^-30 of the larger bound, as whole numbers, so
that rounding of floats cannot add to the sensitivity.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._conditions import read_condition, read_numbers
from dpassay.errors import InvalidArgument
from dpassay.mechanisms._rounding import at_least
from dpassay.mechanisms.accuracy import gaussian_accuracy, laplace_accuracy
from dpassay.mechanisms.additive import gaussian, gaussian_multiplier, laplace
from dpassay.mechanisms.noise import Rng
from dpassay.privacy import events
from dpassay.privacy.budget import Budget, budget
from dpassay.privacy.ledger import Ledger, spending
from dpassay.types import Neighbouring, Release

_STEPS = 2.0**30  # between 0 and the larger bound of a sum


@dataclass(frozen=True)
class Answer:
    """A noisy answer, how far it can be off, and what it cost.

    Attributes:
        question: what was asked, in words.
        values: the answers: one, or one for every named value.
        names: what each of them counts.
        margin: with the stated confidence *all* answers are within this of the truth (for a sum or
            a mean: of that of the clipped values).
        confidence: of the margin; it speaks of the noise alone.
        release: the values with their event and the level of their noise.

    """

    question: str
    values: tuple[float, ...]
    names: tuple[str, ...]
    margin: float
    confidence: float
    release: Release[Any]


@dataclass(frozen=True)
class Terms:
    """On what terms questions are answered.

    Args:
        epsilon: the privacy parameter of each answer.
        delta: 0 for Laplace noise; above 0 for Gaussian noise.
        neighbouring: "add-remove" or "replace-one".
        confidence: of the margin that is stated beside the answer.
        ledger: where each answer is charged, before the table is touched.
        rng: None for exact noise; a seed makes the answer replayable, and not private.

    """

    epsilon: float
    delta: float = 0.0
    neighbouring: Neighbouring = "add-remove"
    confidence: float = 0.95
    ledger: Ledger | None = None
    rng: Rng = None

    def budget(self) -> Budget:
        """What one answer may spend; an error if a number is none."""
        _check.number("confidence", self.confidence, low=0, high=1, low_open=True, high_open=True)
        allowed = budget(self.epsilon, self.delta, self.neighbouring)
        if not allowed.is_private:
            raise InvalidArgument("epsilon=inf asks for no privacy; a ledger cannot add that up.")
        return allowed


def count(table: Any, terms: Terms, where: str | None = None) -> Answer:
    """How many records meet a condition (all of them, without one), with noise.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [70, 20, 65]})
    >>> answer = count(people, Terms(epsilon=1.0, rng=0), where="age >= 60")
    >>> answer.question, round(answer.margin, 3)
    ('records with age >= 60', 2.996)

    """
    question = f"records{_condition_in_words(where)}"
    return _answer(table, terms, where, question, ("count",), 1, 1.0, lambda kept: [len(kept)])


def histogram(
    table: Any, terms: Terms, column: str, values: Sequence[str], where: str | None = None
) -> Answer:
    """How many records have each of the named values in a column, with noise.

    Values are named beforehand: which of them occur would tell about single records. A record with
    another value is in no cell.
    """
    named = tuple(map(str, values))
    if not named or len(set(named)) < len(named):
        raise InvalidArgument("values must name at least one value, and none of them twice.")
    _check_column(table, column)
    # Under replace-one a record leaves one cell and enters another: 2 in the l1 norm.
    changes = 1 if terms.neighbouring == "add-remove" or len(named) == 1 else 2
    question = f"records by {column}{_condition_in_words(where)}"

    def cells(kept: Any) -> list[int]:
        found = kept[column].astype(object).map(str).where(kept[column].notna())
        return [int((found == name).sum()) for name in named]

    return _answer(table, terms, where, question, named, changes, 1.0, cells)


def total(
    table: Any, terms: Terms, column: str, low: float, high: float, where: str | None = None
) -> Answer:
    """The sum of a column over the records that meet a condition, with noise.

    Values are clipped to [low, high]; what is missing or no number counts as 0.
    """
    question = f"sum of {column}{_condition_in_words(where)}"
    return _clipped_sum(table, terms, (column, low, high), where, question, 1)


def mean(
    table: Any,
    terms: Terms,
    column: str,
    low: float,
    high: float,
    n_records: int,
    where: str | None = None,
) -> Answer:
    """The sum of a column over a *public* number of records, with noise; see :func:`total`."""
    n = _check.count("n_records", n_records, remedy="It is a public number.")
    question = f"sum of {column}{_condition_in_words(where)} over {n} records"
    return _clipped_sum(table, terms, (column, low, high), where, question, n)


def _clipped_sum(
    table: Any,
    terms: Terms,
    clipped: tuple[str, float, float],
    where: str | None,
    question: str,
    divisor: int,
) -> Answer:
    column, low, high = clipped
    _check_column(table, column)
    low, high = _check.number("low", low), _check.number("high", high)
    largest = max(abs(low), abs(high))
    if not low < high or not 1e-290 < largest < 1e290:
        raise InvalidArgument(
            f"low={low:g} must be below high={high:g}, and both within 1e290. They bound what one "
            "record can add; take them from what the column means, not from the table."
        )
    step = 2.0 ** math.ceil(math.log2(largest)) / _STEPS
    # Towards zero, so that no rounded bound is outside [low, high].
    least, most = math.trunc(low / step), math.trunc(high / step)
    reach = max(most, 0) - min(least, 0)
    changes = max(abs(least), abs(most)) if terms.neighbouring == "add-remove" else reach

    def add(kept: Any) -> list[int]:
        numbers = read_numbers(kept[column])
        inside = np.clip(np.nan_to_num(numbers, nan=0.0, posinf=high, neginf=low), low, high)
        whole = np.clip(np.trunc(inside / step), least, most)
        whole[np.isnan(numbers)] = 0
        return [int(whole.astype(np.int64).sum())]

    return _answer(table, terms, where, question, ("value",), changes, step / divisor, add)


def _answer(
    table: Any,
    terms: Terms,
    where: str | None,
    question: str,
    names: tuple[str, ...],
    changes: int,
    unit: float,
    compute: Any,
) -> Answer:
    """Charge, compute whole numbers, add noise to them, and state them in their unit."""
    allowed = terms.budget()
    condition = None if where is None else read_condition(where)
    if condition is not None:
        condition.holds(table.head(0))  # an unknown column is an error before anything is charged
    if allowed.delta == 0:
        event: events.Event = events.Laplace(
            at_least(1 / Fraction(allowed.epsilon)), allowed.neighbouring
        )
    else:
        noise = gaussian_multiplier(epsilon=allowed.epsilon, delta=allowed.delta)
        event = events.Gaussian(noise, allowed.neighbouring)
    with spending(terms.ledger, event, what=question, n_records=None):
        kept = table if condition is None else table[condition.holds(table)]
        exact = np.array(compute(kept), dtype=np.int64)
        release = _add_noise(exact, allowed, changes, terms.rng)
    stated = release.map(lambda value: tuple(float(v) * unit for v in np.atleast_1d(value)))
    margin = _margin(allowed, changes, len(names), terms.confidence) * unit
    return Answer(question, stated.value, names, margin, terms.confidence, stated)


def _add_noise(exact: NDArray[np.int64], allowed: Budget, changes: int, rng: Rng) -> Release[Any]:
    relation = allowed.neighbouring
    if allowed.delta == 0:
        return laplace(
            exact, sensitivity=changes, epsilon=allowed.epsilon, rng=rng, neighbouring=relation
        )
    return gaussian(
        exact,
        sensitivity=_l2(changes, len(exact)),
        epsilon=allowed.epsilon,
        delta=allowed.delta,
        rng=rng,
        neighbouring=relation,
    )


def _l2(changes: int, n_cells: int) -> float:
    """The l2 norm of a change: of two cells by one each where ``changes`` is spread over cells."""
    return math.nextafter(math.sqrt(changes), math.inf) if n_cells > 1 else float(changes)


def _margin(allowed: Budget, changes: int, n_cells: int, confidence: float) -> float:
    beta = 1 - confidence
    if allowed.delta == 0:
        return laplace_accuracy(
            beta, sensitivity=changes, epsilon=allowed.epsilon, n_queries=n_cells
        )
    return gaussian_accuracy(
        beta,
        sensitivity=_l2(changes, n_cells),
        epsilon=allowed.epsilon,
        delta=allowed.delta,
        n_queries=n_cells,
    )


def _check_column(table: Any, column: str) -> None:
    if column not in table.columns:
        raise InvalidArgument(f"column={column!r} is not in the table.")


def _condition_in_words(where: str | None) -> str:
    return "" if where is None else f" with {where}"
