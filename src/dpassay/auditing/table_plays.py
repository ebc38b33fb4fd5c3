"""What one play shows of a synthesizer: its noisy measurements, its answers, its rows, its support.

Each is a mechanism of :func:`dpassay.audit`, a small frozen object whose output is post-processing
of what the synthesizer made: numbers that the target's presence moves. Their weighted sum is the
score; for Gaussian noise of deviation σ on the count of a set, the log likelihood ratio of the
target's presence is the sum over sets of the count in its cell over σ², up to a constant.

Where these numbers may be the same in all plays of a world though the tables are not, a fingerprint
of the table stands behind them. It counts for nothing; by it an audit knows a fixed seed.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from dpassay.auditing.table_pairs import Likeness
from dpassay.auditing.table_subjects import Subject
from dpassay.types import FloatArray

View = Literal["support", "measurements", "answers", "rows"]
VIEWS: tuple[View, ...] = ("support", "measurements", "answers", "rows")
CANNOT_SEE: dict[View, tuple[str, ...]] = {
    "support": (
        "noise that is too small: it only sees which values, categories and columns come out.",
        "a domain that was read off the data if nothing of it shows in the rows that were drawn or "
        "in the domain that the model states.",
    ),
    "measurements": (
        "what is taken from the table beside the noisy marginals, such as a domain or a starting "
        "point of the fit, and what is selected after a first fit: neither is played.",
        "the sampling of rows.",
    ),
    "answers": (
        "noise that is somewhat too small where the fit draws answers to a simpler model: the fit "
        "passes on only a part of what the record changed.",
        "the sampling of rows.",
    ),
    "rows": (
        "noise that is too small: in sampled rows one record disappears among the rest, and a "
        "fit shrinks away what it takes for noise, so that rows seldom show a wrong scale.",
    ),
}
"""The faults that each view lets through, whatever it shows."""
_PRINTED = 50  # rows that are drawn to know a fixed seed by
SIZE_IS_PUBLIC = (
    "what depends on the number of records: it is held fixed and taken as public, and so is the "
    "number of rows that are drawn."
)


@dataclass(frozen=True, eq=False)
class Measured:
    """The noisy marginals of a synthesizer that takes them first: no fit is made.

    Attributes:
        subject: a synthesizer with ``measure``.
        cells: the codes of the target, and those of the record in its place, if there is one.

    """

    subject: Subject
    cells: tuple[tuple[int, ...], ...]

    def __call__(self, data: Any, rng: np.random.Generator | None, size: int) -> FloatArray:
        """The score of each of so many measurements."""
        model = self.subject.with_seed(rng)
        places: dict[tuple[str, ...], tuple[int, ...]] = {}
        scores = np.empty(size)
        for i, found in enumerate(model.measure(data, size)):
            for m in found:
                if m.columns not in places:
                    places[m.columns] = model.schema.positions(m.columns)
            scores[i] = sum(self._evidence(m, places[m.columns]) for m in found)
        return scores

    def _evidence(self, m: Any, places: tuple[int, ...]) -> float:
        """The share of the target's cell less that of the other's, over the variance."""
        shares = [m.share_of(tuple(codes[p] for p in places)) for codes in self.cells]
        return (shares[0] - sum(shares[1:])) / m.deviation**2


@dataclass(frozen=True, eq=False)
class Rows:
    """Sampled rows: how many of them share one or two values with the target.

    Attributes:
        subject: who makes the table.
        likeness: to the target, and to the record in its place, if there is one.
        n_rows: how many are drawn, a constant.

    """

    subject: Subject
    likeness: tuple[Likeness, ...]
    n_rows: int

    def __call__(self, data: Any, rng: np.random.Generator | None) -> FloatArray:
        """Counts of rows like the target, less those like the other, per single and pair."""
        fitted = self.subject.fit(data, rng)
        rows = self.subject.sample(fitted, self.n_rows, rng)
        counts = [like.counts(rows) for like in self.likeness]
        return np.append(counts[0] - sum(counts[1:]), fingerprint(rows))


@dataclass(frozen=True, eq=False)
class Answers:
    """The model's own answers, without the error of sampling rows.

    Attributes:
        subject: a synthesizer whose fit leaves ``model_``, or any, with ``read``.
        cells: as in :class:`Measured`.
        read: a function of what was fitted, for synthesizers of other people; None reads the
            marginals of ``model_``.

    """

    subject: Subject
    cells: tuple[tuple[int, ...], ...]
    read: Callable[[Any], Any] | None = None

    def __call__(self, data: Any, rng: np.random.Generator | None) -> FloatArray:
        """Shares in the target's cells, less those of the other, per single and pair."""
        fitted = self.subject.fit(data, rng)
        rows = self.subject.sample(fitted, _PRINTED, rng)
        if self.read is not None:
            return np.append(np.asarray(self.read(fitted), float), fingerprint(rows))
        found = [self._shares(fitted, codes) for codes in self.cells]
        return np.append(found[0] - sum(found[1:]), fingerprint(rows))

    def _shares(self, fitted: Any, codes: tuple[int, ...]) -> FloatArray:
        sets = column_sets(len(codes))
        names = fitted.schema.names
        tables = fitted.model_.marginals([tuple(names[j] for j in chosen) for chosen in sets])
        cells = [tuple(codes[j] for j in chosen) for chosen in sets]
        return np.array([table[cell] for table, cell in zip(tables, cells, strict=True)])


@dataclass(frozen=True, eq=False)
class Support:
    """Which values come out that only the target has.

    Attributes:
        subject: who makes the table.
        likeness: to the target.
        alone: whether nobody else in the base has the target's value, by column.
        n_rows: how many rows are drawn.

    """

    subject: Subject
    likeness: Likeness
    alone: tuple[bool, ...]
    n_rows: int

    def __call__(self, data: Any, rng: np.random.Generator | None) -> FloatArray:
        """For each column, whether such a value is among the rows, and whether in the domain."""
        fitted = self.subject.fit(data, rng)
        rows = self.subject.sample(fitted, self.n_rows, rng)
        alone = np.array(self.alone)
        among = self.likeness.to(rows).any(axis=0) & alone
        stated = np.array([self._is_stated(fitted, rows, j) for j in range(len(alone))]) & alone
        return np.concatenate([among, stated, [fingerprint(rows)]]).astype(float)

    def _is_stated(self, fitted: Any, rows: Any, place: int) -> bool:
        """Whether the domain that goes out with the table has the target's value."""
        name, value = self.likeness.names[place], self.likeness.values[place]
        if name in rows.columns and hasattr(rows[name], "cat"):
            return value in rows[name].cat.categories
        columns: Any = getattr(getattr(fitted, "schema", None), "columns", None)
        if not isinstance(columns, dict) or name not in columns:
            return False
        try:
            return bool(cast(Any, columns[name]).where(name, value).any())
        except ValueError:  # outside the domain
            return False


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """A score of a play's numbers but the last: their sum, with weights that were fixed before."""

    weights: tuple[float, ...] = ()

    def __call__(self, output: Any) -> float:
        """One number per play; a higher one says that the target is in."""
        values = np.asarray(output, float)[:-1]
        return float(values @ np.array(self.weights)) if self.weights else float(values.sum())


def fingerprint(rows: Any) -> float:
    """A number in [0, 1) that is the same for the same table, and else hardly ever."""
    import pandas

    pd: Any = pandas
    hashes = pd.util.hash_pandas_object(rows.astype(str), index=False).to_numpy()
    return (
        float(np.bitwise_xor.reduce(hashes * np.arange(1, len(hashes) + 1, dtype=np.uint64)) >> 11)
        / 2**53
    )


def as_is(output: Any) -> Any:
    """The score of plays whose output is one already."""
    return output


def column_sets(n_columns: int) -> list[tuple[int, ...]]:
    """Every column, then every pair of columns, in the order of :meth:`Likeness.counts`.

    >>> column_sets(3)
    [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]

    """
    pairs = zip(*np.triu_indices(n_columns, 1), strict=True)
    return [(j,) for j in range(n_columns)] + [(int(a), int(b)) for a, b in pairs]


def weigh(subject: Subject, table: Any) -> tuple[float, ...]:
    """1/σ² of each set of :func:`column_sets`, from what the synthesizer says of its noise.

    A set that is not measured has weight 0; where nothing is known all have weight 1.
    """
    if subject.kind != "stated" or not subject.synthesizer.measures_first:
        return ()
    model = subject.with_seed(np.random.default_rng(0))
    names = list(model.schema.names)
    weights: Counter[tuple[int, ...]] = Counter()
    for m in model.measure(table)[0]:  # a set that is measured twice is known better
        weights[tuple(sorted(names.index(name) for name in m.columns))] += m.deviation**-2
    found = [weights[chosen] for chosen in column_sets(len(names))]
    return tuple(w / max(found) for w in found) if any(found) else ()
