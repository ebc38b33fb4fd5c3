"""How close a synthetic table is, for readers: measured with noise and paid for.

One vector per record: for every column the cell that its value falls into (one of the codes, the
missing one, or "outside" if the domain had to move it), and for every rule whether it is broken.

**Proof.** To add or remove a record changes one entry by 1 for each of d columns, and one for each
of the r rules that it breaks: √(d + r) at most in the l2 norm. To replace one changes two entries
for each column and one for each rule: √(2 d + r) at most. Gaussian noise of that sensitivity over
µ_q on every count is µ_q-GDP, whatever the model is that was learned before; together with a model
of µ_m-GDP it is √(µ_m² + µ_q²)-GDP. All else is computed from these counts and from the synthetic
table, which is drawn from a private model.

What is printed has a resolution: the deviation of a share, and for a distance of a column about
what noise and the drawing of the synthetic table alone give. Below it nothing is known.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.mechanisms.noise import Source
from dpassay.privacy import Gaussian
from dpassay.synth.tables.counts import noisy_counts
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray, Neighbouring


@dataclass(frozen=True)
class ReaderColumn:
    """What a reader may know of one column.

    Attributes:
        name: of the column.
        distance: between the synthetic column and the noisy true one, on the released cells: the
            largest difference of distribution functions, or the total variation if there is no
            order.
        resolution: a distance below it cannot be told from 0.
        missing: the noisy share of missing values in the true table.
        outside: the noisy share of true values that the domain moved.

    """

    name: str
    distance: float
    resolution: float
    missing: float
    outside: float

    @property
    def words(self) -> str:
        """The distance, or that it is below its resolution."""
        small = self.distance < self.resolution
        return f"< {self.resolution:.2g}" if small else f"{self.distance:.2g}"


@dataclass(frozen=True)
class ReaderQuality:
    """How close a synthetic table is, paid for: it may be published.

    Attributes:
        columns: one for each.
        rules: each rule with the noisy share of true records that break it.
        resolution: the deviation of the noise on a share.
        event: what was done to the data.

    """

    columns: tuple[ReaderColumn, ...]
    rules: tuple[tuple[str, float], ...]
    resolution: float
    event: Gaussian


def find_sensitivity(schema: Schema, neighbouring: Neighbouring) -> float:
    """The l2 sensitivity of all counts; see the module.

    >>> find_sensitivity(Schema({"a": [0, 1], "b": [0, 1]}), "add-remove") ** 2
    2.0000000000000004

    """
    d, r = len(schema.names), len(schema.rules)
    return math.sqrt((d if neighbouring == "add-remove" else 2 * d) + r)


def count_cells(schema: Schema, frame: Any) -> list[FloatArray]:
    """Counts of every column: codes, missing and outside; and of records that break each rule."""
    found = []
    for name, column in schema.columns.items():
        values = frame[getattr(column, "of", name)]
        missing = values.isna().to_numpy(dtype=bool)
        cells = np.full(len(values), column.n_values)
        outside = column.find_outside(values[~missing])
        codes = column.encode(name, values)[~missing]
        cells[~missing] = np.where(outside, column.n_values + 1, codes)
        found.append(np.bincount(cells, minlength=column.n_values + 2).astype(float))
    broken = [float((~rule.holds(frame)).sum()) for rule in schema.rules]
    return [*found, np.array(broken)]


def measure_quality(
    schema: Schema,
    table: Any,
    synthetic: Any,
    event: Gaussian,
    chosen: Source,
    n_records: int,
) -> ReaderQuality:
    """What readers may know, with the noise that the event states.

    Args:
        schema: the domain.
        table: the true frame.
        synthetic: a frame that was drawn from the private model, of about ``n_records`` rows.
        event: its noise multiplier times the sensitivity is the deviation of the noise.
        chosen: where the noise comes from.
        n_records: the public number of records.

    """
    sigma = event.noise_multiplier * find_sensitivity(schema, event.neighbouring)
    *true, broken = (
        noisy_counts(counts, sigma, chosen, event.neighbouring) / n_records
        for counts in count_cells(schema, table)
    )
    *drawn, _ = (counts / len(synthetic) for counts in count_cells(schema, synthetic))
    columns = tuple(
        _describe(schema, name, a, b, sigma / n_records, n_records)
        for name, a, b in zip(schema.names, true, drawn, strict=True)
    )
    rules = zip((rule.text for rule in schema.rules), map(float, broken), strict=True)
    return ReaderQuality(columns, tuple(rules), sigma / n_records, event)


def _describe(
    schema: Schema, name: str, true: FloatArray, drawn: FloatArray, s: float, n_records: int
) -> ReaderColumn:
    column = schema.columns[name]
    cells = column.n_values
    ours, theirs = true[:cells], drawn[:cells]
    if column.is_ordered:
        order = column.order()
        distance = float(np.abs(np.cumsum((ours - theirs)[order])).max())
        noise = s * math.sqrt(cells) / 2 + 1.2 / math.sqrt(n_records)
    else:
        distance = float(np.abs(ours - theirs).sum() / 2)
        noise = s * cells * math.sqrt(2 / math.pi) / 2 + 1.2 / math.sqrt(n_records)
    # What the noise gives on average is no resolution yet: twice that is seldom passed.
    return ReaderColumn(name, distance, 2 * noise, float(true[cells]), float(true[cells + 1]))
