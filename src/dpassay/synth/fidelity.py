"""How close a synthetic table is to the true one, in the units of the table. Not private.

True values are compared as they are, not as a domain reads them: a domain that clips a column or
reads half of it as "other" shows here, and is named. All of it is for the owner's eyes; what a
reader may see is paid for (:mod:`dpassay.synth.readers`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.synth.base import Fitted
from dpassay.synth.comparison import train_on_synthetic
from dpassay.synth.tables.columns import Column, as_days, as_numbers
from dpassay.synth.tables.schema import Schema, as_frame
from dpassay.types import FloatArray

QUANTILES = (0.05, 0.5, 0.95)
ATOMS = 5
CLIPPED = 0.05
"""A column of which the domain moves a larger share is named."""
FAR = 0.2
"""A column at this distance, or farther, is named."""

Both = tuple[float, float]
"""Of the true table, of the synthetic one."""


@dataclass(frozen=True)
class ColumnFidelity:
    """One column of the true table beside that of the synthetic one.

    Attributes:
        name: of the column.
        distance: between the values that are there: for numbers and days the largest difference of
            the distribution functions (Kolmogorov and Smirnov), else the total variation.
        mean: NaN for categories; days are counted from 1970.
        deviation: NaN for categories.
        quantiles: at .05, .5 and .95; empty for categories.
        atoms: the most frequent true values with their two shares.
        missing: the two shares of missing values.
        outside: the share of true values that the domain moves: to a bound, to "other", or among
            the missing.

    """

    name: str
    distance: float
    mean: Both
    deviation: Both
    quantiles: tuple[Both, ...]
    atoms: tuple[tuple[Any, Both], ...]
    missing: Both
    outside: float

    @property
    def fault(self) -> str:
        """What is wrong with the column, in words; empty if nothing is."""
        if self.outside > CLIPPED:
            return (
                f"the domain moves {self.outside:.0%} of the values of {self.name!r} to a bound, "
                "to 'other' or among the missing: declare its domain, or pay more for measuring it"
            )
        if self.distance >= FAR:
            far = f"{self.name!r} is at distance {self.distance:.2f} from the true column"
            lost = [true for _, (true, synthetic) in self.atoms if true - synthetic >= FAR]
            if not lost or math.isnan(self.mean[0]):
                return far
            return (
                f"{far}: one number has {lost[0]:.0%} of the true records and is lost in its bin; "
                "declare it among the column's atoms"
            )
        return ""


@dataclass(frozen=True)
class PairFidelity:
    """How strongly two columns are related: in the true table, in the synthetic one.

    Attributes:
        names: the two columns.
        measure: "pearson" or "spearman" for two columns with an order, else "cramer".
        strength: the correlation, or Cramér's V of the values, numbers in tenths of the records.

    """

    names: tuple[str, str]
    measure: str
    strength: Both

    @property
    def error(self) -> float:
        """How far the two are apart."""
        return abs(self.strength[0] - self.strength[1])


@dataclass(frozen=True)
class Fidelity:
    """A synthetic table beside the true one; not private.

    Attributes:
        columns: one for each.
        pairs: of correlations, and of associations of categories.
        rules: each rule of the schema with the shares of records that break it.
        utility: scores of a model that was trained on the true and on the synthetic table, if a
            target was named.

    """

    columns: tuple[ColumnFidelity, ...]
    pairs: tuple[PairFidelity, ...]
    rules: tuple[tuple[str, Both], ...]
    utility: dict[str, float] | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """Columns that came out badly, in words."""
        return tuple(column.fault for column in self.columns if column.fault)

    def column(self, name: str) -> ColumnFidelity:
        """One of the columns."""
        names = tuple(column.name for column in self.columns)
        return self.columns[names.index(_check.choice("name", name, names))]

    def table(self) -> Any:
        """A frame with one row per column."""
        import pandas as pd

        rows = [
            {
                "column": c.name,
                "distance": c.distance,
                "mean": c.mean[0],
                "synthetic mean": c.mean[1],
                "deviation": c.deviation[0],
                "synthetic deviation": c.deviation[1],
                "missing": c.missing[0],
                "synthetic missing": c.missing[1],
                "outside": c.outside,
            }
            for c in self.columns
        ]
        return pd.DataFrame(rows)


def compare_tables(
    table: Any,
    synthetic: Any,
    *,
    schema: Schema | None = None,
    target: str | None = None,
    test: Any = None,
    rng: RngLike = 0,
) -> Fidelity:
    """A synthetic table beside the true one, column by column and pair by pair; not private.

    Args:
        table: the true frame.
        synthetic: the synthetic frame, or a fitted model to draw one from, as long as the true one.
        schema: the domain, to say which true values it moves; a fitted model has its own.
        target: a column to predict, for the score of models trained on either table.
        test: a true frame that was held out, for that score; None takes the true table itself.
        rng: seed of what is drawn.

    """
    if isinstance(synthetic, Fitted):
        schema = synthetic.schema if schema is None else schema
        model, synthetic = synthetic, synthetic.sample(rng=rng)
    else:
        model = synthetic
    true, drawn = (as_frame(t, schema.names if schema else ()) for t in (table, synthetic))
    names = [name for name in drawn.columns if name in true.columns]
    if not names or not len(true) or not len(drawn):
        raise InvalidArgument("the two tables must share a column, and have records.")
    kinds = {name: _is_ordered(true[name]) for name in names}
    columns = tuple(_compare_column(name, true, drawn, kinds[name], schema) for name in names)
    rules = (
        ()
        if schema is None
        else tuple(
            (rule.text, (float((~rule.holds(true)).mean()), float((~rule.holds(drawn)).mean())))
            for rule in schema.rules
        )
    )
    utility = None
    if target is not None:
        test = true if test is None else test
        seed = rng if isinstance(rng, int) else 0
        utility = train_on_synthetic(true[names], model, target, test=test[names], rng=seed)
    return Fidelity(columns, _compare_pairs(true, drawn, kinds), rules, utility)


def _is_ordered(values: Any) -> bool:
    """Whether a column is one of numbers or days."""
    if values.dtype.kind in "iufM" or getattr(values.dtype, "kind", "O") in "iuf":
        return True
    present = values.dropna()
    return bool(values.dtype.kind in "OT" and len(present) and as_days(present)[1].all())


def _as_axis(values: Any) -> FloatArray:
    """Numbers or days as numbers; NaN where a value is missing."""
    if values.dtype.kind in "biuf":
        return as_numbers(values)
    days, known = as_days(values)
    return np.where(known, days.astype(float), math.nan)


def _compare_column(
    name: str, true: Any, drawn: Any, ordered: bool, schema: Schema | None
) -> ColumnFidelity:
    both = (true[name], drawn[name])
    missing = (float(both[0].isna().mean()), float(both[1].isna().mean()))
    shares = [values.value_counts(normalize=True) for values in both]
    atoms = tuple(
        (value, (float(share), float(shares[1].get(value, 0.0))))
        for value, share in shares[0].head(ATOMS).items()
    )
    outside = _share_outside(true[name], None if schema is None else schema.columns.get(name))
    if not ordered:
        gap = shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2
        none = (math.nan, math.nan)
        return ColumnFidelity(name, float(gap), none, none, (), atoms, missing, outside)
    axes = [x[~np.isnan(x)] for x in map(_as_axis, both)]
    means = (_mean(axes[0]), _mean(axes[1]))
    deviations = (_deviation(axes[0]), _deviation(axes[1]))
    quantiles = tuple((_quantile(axes[0], q), _quantile(axes[1], q)) for q in QUANTILES)
    distance = _distance(*axes)
    return ColumnFidelity(name, distance, means, deviations, quantiles, atoms, missing, outside)


def _mean(x: FloatArray) -> float:
    return float(x.mean()) if len(x) else math.nan


def _deviation(x: FloatArray) -> float:
    return float(x.std()) if len(x) else math.nan


def _quantile(x: FloatArray, q: float) -> float:
    return float(np.quantile(x, q)) if len(x) else math.nan


def _distance(a: FloatArray, b: FloatArray) -> float:
    """The largest difference of two empirical distribution functions; 1 if one has no values."""
    if not len(a) or not len(b):
        return float(len(a) != len(b))
    at = np.union1d(a, b)
    ours, theirs = (np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (a, b))
    return float(np.abs(ours - theirs).max())


def _share_outside(values: Any, column: Column | None) -> float:
    """The share of present values that are outside a domain."""
    present = values.dropna()
    if column is None or not len(present):
        return 0.0
    return float(column.find_outside(present).mean())


# Pairs.


def _compare_pairs(true: Any, drawn: Any, kinds: dict[str, bool]) -> tuple[PairFidelity, ...]:
    ordered = [name for name, has in kinds.items() if has]
    found: list[PairFidelity] = []
    for measure in ("pearson", "spearman"):
        both = [_correlations(t, ordered, measure) for t in (true, drawn)]
        found += [
            PairFidelity((a, b), measure, (float(both[0][i, j]), float(both[1][i, j])))
            for i, a in enumerate(ordered)
            for j, b in enumerate(ordered[:i])
        ]
    names = list(kinds)
    labels = [_labels(true, drawn, name, kinds[name]) for name in names]
    for i, a in enumerate(names):
        for j, b in enumerate(names[:i]):
            if not (kinds[a] and kinds[b]):
                one, other = (_cramer(labels[i][k], labels[j][k]) for k in (0, 1))
                found.append(PairFidelity((a, b), "cramer", (one, other)))
    return tuple(found)


def _correlations(table: Any, names: Sequence[str], measure: str) -> FloatArray:
    """Correlations of records that have both values; 0 where a column does not vary."""
    import pandas as pd

    axes = pd.DataFrame({name: _as_axis(table[name]) for name in names})
    return np.nan_to_num(axes.corr(method=measure).to_numpy())  # type: ignore[arg-type]


def _labels(true: Any, drawn: Any, name: str, ordered: bool) -> tuple[Any, Any]:
    """Both columns in the same classes; numbers in tenths of the true records."""
    import pandas as pd

    if ordered:
        axes = [_as_axis(t[name]) for t in (true, drawn)]
        cuts = np.unique(np.nanquantile(axes[0], np.linspace(0.1, 0.9, 9)))
        both = [np.where(np.isnan(x), -1, np.searchsorted(cuts, x, side="right")) for x in axes]
    else:
        both = [t[name].astype(object).where(t[name].notna(), None) for t in (true, drawn)]
    codes, _ = pd.factorize(np.concatenate([np.asarray(x, object) for x in both]))
    return codes[: len(true)], codes[len(true) :]


def _cramer(a: Any, b: Any) -> float:
    """Cramér's V, corrected for what chance alone gives (Bergsma 2013)."""
    table = np.zeros((int(a.max()) + 2, int(b.max()) + 2))
    np.add.at(table, (a, b), 1)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    n, (r, k) = table.sum(), table.shape
    if min(r, k) < 2 or n < 2:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    phi = max(
        0.0, float((np.square(table - expected) / expected).sum() / n - (r - 1) * (k - 1) / (n - 1))
    )
    least = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    return math.sqrt(phi / least) if least > 0 else 0.0
